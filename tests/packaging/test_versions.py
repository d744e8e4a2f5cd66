"""Bounds, pins and lock file are one: what one of them says, the others keep."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import lock
import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
SYSTEMS = {
    "linux": ("posix", "Linux", "x86_64"),
    "darwin": ("posix", "Darwin", "arm64"),
    "win32": ("nt", "Windows", "AMD64"),
}
# PyTorch's CUDA build on Linux names its own libraries, each with its exact version.
PINNED_BY_TORCH = re.compile(r"nvidia-|cuda-|triton")


def requirements(text: str) -> list[Requirement]:
    lines = (line.split(" #")[0].strip() for line in text.splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


PROJECT = tomllib.loads(read("pyproject.toml"))["project"]
LOCK = {canonicalize_name(r.name): r for r in requirements(read("requirements.txt"))}
PINS = requirements(read("requirements.in"))
BOUNDS = [Requirement(text) for text in PROJECT["dependencies"]] + [
    Requirement(text)
    for extra in PROJECT["optional-dependencies"].values()
    for text in extra
]


def broken_bounds(
    bounds: list[Requirement], locked: dict[str, Requirement]
) -> list[str]:
    """Needs of the project that the lock file lacks or contradicts."""
    found = []
    for need in bounds:
        pin = locked.get(canonicalize_name(need.name))
        if pin is None:
            found.append(f"{need.name} is not in requirements.txt")
        elif not need.specifier.contains(pinned(pin), prereleases=True):
            found.append(f"{pin} does not satisfy {need}")
    return found


def pinned(requirement: Requirement) -> str:
    (only,) = requirement.specifier
    assert only.operator == "=="
    return only.version


def test_every_dependency_and_extra_is_locked_within_its_bound() -> None:
    assert broken_bounds(BOUNDS, LOCK) == []


def test_missing_and_contradicting_locks_are_seen() -> None:
    numpy = Requirement("numpy>=1.26")
    assert broken_bounds([numpy], {}) == ["numpy is not in requirements.txt"]
    old = {"numpy": Requirement("numpy==1.20")}
    assert broken_bounds([numpy], old) == ["numpy==1.20 does not satisfy numpy>=1.26"]


def test_pins_that_matter_are_kept() -> None:
    for pin in PINS:
        locked = LOCK[canonicalize_name(pin.name)]
        assert pinned(locked) == pinned(pin)
        assert str(locked.marker) == str(pin.marker)


def test_each_pin_that_matters_says_why() -> None:
    for line in read("requirements.in").splitlines():
        if line and not line.startswith("#"):
            assert re.search(r"#\s+\S+", line), line


def test_lock_is_exact_and_holds_no_host_and_no_local_version() -> None:
    for line in read("requirements.txt").splitlines():
        if line.startswith("#"):
            continue
        assert re.match(r"[a-z0-9][a-z0-9.-]*==[0-9][^\s+]*( ;.*)? +# via ", line), line
        for word in ("://", "+cpu", "--", " @ ", "file:"):
            assert word not in line, line


def test_lock_tells_how_it_is_made() -> None:
    assert read("requirements.txt").startswith(lock.HEADER)
    assert "make lock" in lock.HEADER


def test_package_asks_lower_bounds_only() -> None:
    """An upper bound would replace what Colab and other environments have."""
    for text in PROJECT["dependencies"]:
        operators = {part.operator for part in Requirement(text).specifier}
        assert operators == {">="}, text
    assert PROJECT["requires-python"] == ">=3.10"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_lock_is_complete_on_other_systems_and_pythons(
    system: str, python: str
) -> None:
    """What a locked package needs elsewhere is locked too, with a version that fits."""
    name, platform, machine = SYSTEMS[system]
    elsewhere = {
        **default_environment(),
        "sys_platform": system,
        "os_name": name,
        "platform_system": platform,
        "platform_machine": machine,
        "python_version": python,
        "python_full_version": f"{python}.0",
        "extra": "",
    }
    for package, pin in LOCK.items():
        if pin.marker is not None and not pin.marker.evaluate(elsewhere):
            continue
        try:
            wanted = importlib.metadata.requires(package) or []
        except importlib.metadata.PackageNotFoundError:
            assert pin.marker is not None, f"{package} is not installed here"
            continue
        for text in wanted:
            need = Requirement(text)
            if need.marker is not None and not need.marker.evaluate(elsewhere):
                continue
            if not PINNED_BY_TORCH.match(need.name):
                assert broken_bounds([need], LOCK) == [], f"{package} on {system}"


def test_locked_packages_allow_the_first_release_of_each_python() -> None:
    """Debian 12's Python is 3.11.2; a package that wants 3.11.5 would shut it out."""
    for package in LOCK:
        try:
            metadata = importlib.metadata.metadata(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        for python in PYTHONS:
            asked = SpecifierSet(metadata.get("Requires-Python", ""))
            assert asked.contains(f"{python}.0"), f"{package} refuses {python}.0"


def test_installed_environment_is_the_locked_one() -> None:
    for package, pin in LOCK.items():
        if pin.marker is None or pin.marker.evaluate():
            installed = importlib.metadata.version(package).split("+")[0]
            assert installed == pinned(pin), f"{package}: run make book"


def test_local_versions_hosts_and_headers_are_taken_out_of_a_resolved_list() -> None:
    resolved = (
        "# made by\n--index-url http://host.example/simple\n"
        "torch==2.13.0+cpu         # via -r requirements.in\n"
        "numpy==2.4.6              # via torch\n"
    )
    wanted = 'numpy==2.4.6  # why\npywinpty==3.0.5 ; sys_platform == "win32"  # why\n'
    text = lock.publishable(resolved, wanted).removeprefix(lock.HEADER)
    assert [re.split(r"\s+#", line)[0] for line in text.splitlines()] == [
        "numpy==2.4.6",
        'pywinpty==3.0.5 ; sys_platform == "win32"',
        "torch==2.13.0",
    ]


def test_npm_lock_holds_hashes_and_no_hosts() -> None:
    text = read("package-lock.json")
    assert '"resolved"' not in text
    assert "registry" not in text
    packages = text.count('"node_modules/')
    assert packages > 0
    assert text.count('"integrity": "sha512-') == packages
    assert "omit-lockfile-registry-resolved=true" in read(".npmrc")
