"""The built package alone: what it holds, what it asks, and a notebook run on it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
import notebook_gates as gates
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
CI = os.environ.get("CI", "").lower() in ("1", "true")
# As in Colab in the summer of 2025: older than what is pinned here, newer than our bounds.
COLAB = {
    "babel": "2.17.0",
    "cycler": "0.12.1",
    "ipython": "7.34.0",
    "ipywidgets": "7.7.1",
    "matplotlib": "3.10.0",
    "matplotlib-inline": "0.1.7",
    "numpy": "2.0.2",
    "safetensors": "0.5.3",
    "torch": "2.6.0",
    "traitlets": "5.7.1",
    "typing_extensions": "4.14.0",
}
MAY_BE_ADDED = {"anywidget", "jaxtyping", "psygnal", "transformer-lib", "wadler-lindig"}
# Runs a notebook's code cells as a fresh interpreter without a kernel would.
RUNNER = """\
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for source, may_raise in json.load(open("cells.json", encoding="utf-8")):
    result = shell.run_cell(source)
    if not may_raise:
        result.raise_error()
import transformer_lib
print("RAN WITH", transformer_lib.__file__)
"""


def call(*command: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        **options,
    )
    assert done.returncode == 0, (
        f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    )
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built package."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "-q", "-w", folder]
    call(sys.executable, "-m", "pip", "wheel", *options, ROOT)
    (path,) = folder.glob("*.whl")
    return path


def make_venv(folder: Path) -> Path:
    """An environment without anything; returns its Python."""
    call(sys.executable, "-m", "venv", "--without-pip", folder)
    scripts = "Scripts" if os.name == "nt" else "bin"
    return folder / scripts / ("python.exe" if os.name == "nt" else "python")


def packages_of(python: Path) -> Path:
    """Folder of an environment's packages."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(call(python, "-c", program).stdout.strip())


def run_alone(python: Path, notebook: Path, folder: Path) -> str:
    """Run a notebook's cells in an empty folder; returns what the run printed last."""
    cells = [
        (cell.source, "raises-exception" in gates.tags(cell))
        for _, cell in gates.load(notebook).cells("code")
    ]
    folder.mkdir()
    (folder / "cells.json").write_text(json.dumps(cells), encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MPLBACKEND")}
    env.update(MPLBACKEND="agg", OMP_NUM_THREADS="1", IPYTHONDIR=str(folder))
    done = call(python, "-c", RUNNER, cwd=folder, env=env)
    return done.stdout.strip().splitlines()[-1]


def shortest_notebook() -> Path:
    """The notebook with the fewest code cells."""
    found = gates.every_notebook()
    assert found, "notebooks/ is empty"
    return min(found, key=lambda path: len(list(gates.load(path).cells("code"))))


def imported_names(paths: Iterable[Path]) -> str:
    """All lines of the notebooks that import from the package, as a program."""
    pattern = r"^from transformer_lib[\w.]* import (?:\([^)]*\)|.*)$|^import transformer_lib.*$"
    lines = [
        line
        for path in paths
        for _, cell in gates.load(path).cells("code")
        for line in re.findall(pattern, cell.source, re.MULTILINE)
    ]
    return "\n".join(dict.fromkeys(lines))


@pytest.mark.slow
def test_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "transformer_lib").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == wanted
    assert {Path(name).suffix for name in held} >= {".py", ".js", ".css", ".json"}


@pytest.mark.slow
def test_notebook_copied_alone_runs_on_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """Packages of this environment, but the package itself from the wheel."""
    python = make_venv(tmp_path / "environment")
    packages = packages_of(python)
    # a .pth inside that folder is not followed: the editable install stays out of reach
    shared = sysconfig.get_path("purelib")
    (packages / "shared.pth").write_text(f"{shared}\n", encoding="utf-8")
    target = ["--no-deps", "-q", "--target", packages]
    call(sys.executable, "-m", "pip", "install", *target, wheel)
    last = run_alone(python, shortest_notebook(), tmp_path / "empty")
    assert last == f"RAN WITH {packages / 'transformer_lib' / '__init__.py'}"
    call(python, "-c", imported_names(gates.every_notebook()), cwd=tmp_path / "empty")


@pytest.mark.slow
@pytest.mark.skipif(
    not CI and not os.environ.get("COURSE_FRESH"),
    reason="downloads an environment; CI=true or COURSE_FRESH=1 runs it",
)
def test_notebook_runs_in_a_really_fresh_environment(
    wheel: Path, tmp_path: Path
) -> None:
    """Only what the wheel asks for is installed, so its dependencies are complete."""
    python = make_venv(tmp_path / "environment")
    call(sys.executable, "-m", "pip", "--python", python, "install", "-q", wheel)
    last = run_alone(python, shortest_notebook(), tmp_path / "empty")
    assert last.startswith(f"RAN WITH {packages_of(python)}")


# -------------------------------------------------------------- other people's versions


def pretend_installed(packages: Path, versions: dict[str, str]) -> None:
    """Entries by which pip believes that packages are there."""
    for name, version in versions.items():
        folder = packages / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / "METADATA").write_text(text, encoding="utf-8")
        (folder / "RECORD").touch()


def would_install(python: Path, wheel: Path, report: Path) -> set[str]:
    """Names of what a plain ``pip install`` of the wheel would add or replace."""
    options = ["install", "--dry-run", "-q", f"--report={report}", wheel]
    call(sys.executable, "-m", "pip", "--python", python, *options)
    content = json.loads(report.read_text(encoding="utf-8"))
    return {canonicalize_name(x["metadata"]["name"]) for x in content["install"]}


def greedier(wheel: Path, folder: Path) -> Path:
    """The wheel with a bound on NumPy that an older environment does not meet."""
    path = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith(".dist-info/METADATA"):
                text = content.decode()
                assert "Requires-Dist: numpy>=1.26" in text
                content = text.replace("numpy>=1.26", "numpy>=2.1").encode()
            new.writestr(name, content)
    return path


@pytest.mark.slow
def test_plain_install_adds_our_needs_and_changes_nothing_else(
    wheel: Path, tmp_path: Path
) -> None:
    python = make_venv(tmp_path / "colab")
    pretend_installed(packages_of(python), COLAB)
    added = would_install(python, wheel, tmp_path / "report.json")
    assert "transformer-lib" in added
    assert added <= MAY_BE_ADDED

    (tmp_path / "greedier").mkdir()
    other = greedier(wheel, tmp_path / "greedier")
    assert "numpy" in would_install(python, other, tmp_path / "report.json")


@pytest.mark.slow
def test_pretended_versions_are_within_our_bounds_and_older_than_the_pins(
    wheel: Path,
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    needs = [
        Requirement(line.removeprefix("Requires-Dist: "))
        for line in text.splitlines()
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    covered = {canonicalize_name(name) for name in COLAB} | MAY_BE_ADDED
    for need in needs:
        assert canonicalize_name(need.name) in covered, f"say what Colab has of {need}"
        version = COLAB.get(need.name)
        assert version is None or need.specifier.contains(version)


def test_lines_that_import_the_package_are_found(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook()
    source = "from transformer_lib.nn import (\n    LSTM,\n    RNN,\n)\nimport numpy"
    notebook.cells = [nbformat.v4.new_code_cell(source)]
    nbformat.write(notebook, tmp_path / "n.ipynb")
    found = imported_names([tmp_path / "n.ipynb"])
    assert found == "from transformer_lib.nn import (\n    LSTM,\n    RNN,\n)"
