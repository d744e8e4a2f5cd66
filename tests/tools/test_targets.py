"""Each target is one script, documented, and works with an old make and without make."""

from __future__ import annotations

import re
import shutil
import subprocess
import urllib.request
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError

import clean
import environment
import help as course_help
import lab
import pytest
import serve

ROOT = environment.ROOT
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WANTED = [
    "help",
    "book",
    "test",
    "notebooks",
    "lab",
    "serve",
    "lint",
    "lock",
    "bench",
    "mutants",
    "clean",
]


def test_every_target_is_documented_and_is_one_script() -> None:
    assert list(course_help.targets(MAKEFILE)) == WANTED
    for name in WANTED:
        (recipe,) = re.findall(rf"^{name}:.*\n((?:\t.*\n?)+)", MAKEFILE, re.MULTILINE)
        assert recipe.count("\n") <= 1
        assert f"tools/{name}.py" in recipe
        assert (ROOT / "tools" / f"{name}.py").is_file()


def test_makefile_keeps_to_what_make_3_81_knows() -> None:
    text = re.sub(r"^#.*$", "", MAKEFILE, flags=re.MULTILINE)
    for newer in (".ONESHELL", "&:", "$(file", "!=", "::=", "$(let", "$(intcmp"):
        assert newer not in text
    for missing_on_macos in ("nproc", "realpath", "sha256sum", "xdg-open", "sed -i"):
        assert missing_on_macos not in text


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_passes_stand_ins_over_and_says_when_there_is_no_python(
    tmp_path: Path,
) -> None:
    make = shutil.which("make")
    for name in ("sh", "echo"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    stand_in = tmp_path / "python3.11"
    stand_in.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    stand_in.chmod(0o755)

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(make), "-C", str(ROOT), "help"],
            env={"PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    done = run()
    assert done.returncode != 0
    assert "install Python 3.11, 3.12 or 3.13" in done.stderr
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\necho "called $*"\n', encoding="utf-8")
    python.chmod(0o755)
    done = run()
    assert done.returncode == 0
    assert "called tools/help.py" in done.stdout


def test_ci_calls_the_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").strip().splitlines()
    assert script[-1] == "make test"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^make test\b", readme, re.MULTILINE)


def test_clean_takes_what_was_built_and_nothing_else(tmp_path: Path) -> None:
    for name in (
        "_build/html",
        "a/__pycache__",
        ".venv/lib/__pycache__",
        "node_modules",
    ):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "_build" / "notes.md").touch()
    (tmp_path / "a" / "kept.py").touch()
    built = [tmp_path / "_build", tmp_path / "a" / "__pycache__"]
    assert clean.condemned(tmp_path) == built
    installed = [tmp_path / ".venv", tmp_path / "node_modules"]
    assert clean.condemned(tmp_path, everything=True) == sorted(built + installed)


def test_serve_gives_pages_and_the_sites_own_404_to_this_machine_only(
    tmp_path: Path,
) -> None:
    with pytest.raises(environment.Stop, match="run `make book` first"):
        serve.make_server(tmp_path, 0)
    (tmp_path / "index.html").write_text("start", encoding="utf-8")
    (tmp_path / "404.html").write_text("not here", encoding="utf-8")
    server = serve.make_server(tmp_path, 0)
    assert server.server_address[0] == "127.0.0.1"
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    try:
        with urllib.request.urlopen(address) as answer:
            assert answer.read() == b"start"
        with pytest.raises(HTTPError) as missing:
            urllib.request.urlopen(address + "gone.html")
        assert missing.value.code == 404
        assert missing.value.read() == b"not here"
        with pytest.raises(environment.Stop, match="name another one"):
            serve.make_server(tmp_path, server.server_port)
    finally:
        server.shutdown()
        server.server_close()


def test_lab_starts_at_the_notebooks_with_links_to_the_book_working() -> None:
    call = lab.command(["--no-browser"])
    assert f"--ServerApp.root_dir={ROOT}" in call
    assert "--LabApp.default_url=/lab/tree/notebooks" in call
    assert call[-1] == "--no-browser"
