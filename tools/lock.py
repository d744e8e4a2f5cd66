"""Resolve the environment into requirements.txt: ``python tools/lock.py [--upgrade]``.

Bounds and extras come from ``pyproject.toml``, the pins that matter from
``requirements.in``; pip-tools resolves the rest. Without ``--upgrade`` what is pinned
stays pinned as far as the two files allow.
"""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter()

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = """\
# The whole environment, exactly. Written by `make lock` (python tools/lock.py) from
# pyproject.toml (bounds and extras) and requirements.in (the pins that matter, and why):
# change those two, not this file. It installs on Python 3.11 to 3.13. Local versions and
# addresses of package indexes are left out, so that anyone can install it.
"""
OPTIONS = (
    "--allow-unsafe",  # pip and setuptools are pinned like everything else
    "--annotation-style=line",
    "--no-build-isolation",
    "--no-emit-find-links",
    "--no-emit-index-url",
    "--no-emit-options",
    "--no-emit-trusted-host",
    "--no-header",
    "--quiet",
    "--strip-extras",
)


def name_of(line: str) -> str:
    """Normalised name of the package that a requirement line is about."""
    found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line)
    return re.sub(r"[-_.]+", "-", found.group()).lower() if found else ""


def elsewhere(requirements_in: str, resolved: str) -> list[str]:
    """Pins of ``requirements.in`` that are for another system than this one."""
    have = {name_of(line) for line in resolved.splitlines()}
    pins = [line.split("#")[0].strip() for line in requirements_in.splitlines()]
    return sorted(p for p in pins if ";" in p and name_of(p) not in have)


def publishable(resolved: str, requirements_in: str) -> str:
    """The lock file's text: header, pins without local versions, other systems' pins."""
    lines = [
        re.sub(r"^(\S+==[^\s+;]+)\+\S+", r"\1", line).rstrip()
        for line in resolved.splitlines()
        if line.strip() and not line.startswith(("#", "--"))
    ]
    others = elsewhere(requirements_in, resolved)
    lines += [f"{pin}  # via -r requirements.in" for pin in others]
    parts = [re.split(r"\s+# via ", line, maxsplit=1) for line in lines]
    lines = [f"{pin:<25} # via {users}" for pin, users in parts]
    lines.sort(key=lambda line: (name_of(line), line))
    return HEADER + "\n".join(lines) + "\n"


def resolve(root: Path, upgrade: bool) -> str:
    """What pip-compile makes of the two files; the old lock gives its preferences."""
    with (root / "pyproject.toml").open("rb") as stream:
        extras = sorted(tomllib.load(stream)["project"]["optional-dependencies"])
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "requirements.txt"
        if (root / "requirements.txt").is_file() and not upgrade:
            shutil.copy(root / "requirements.txt", output)
        command = [sys.executable, "-m", "piptools", "compile", *OPTIONS]
        command += [f"--extra={extra}" for extra in extras]
        command += [f"--output-file={output}", "requirements.in", "pyproject.toml"]
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, check=False
        )
        if done.returncode:
            log = done.stdout + done.stderr
            raise environment.Stop(
                environment.explain("Resolving the versions", log, done.returncode)
            )
        return output.read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upgrade", action="store_true", help="take newer versions")
    options = parser.parse_args()
    lost = environment.missing(ROOT, ["requirements.in", "pyproject.toml"])
    if lost:
        raise environment.Stop(f"{lost[0]} is missing: restore it with git checkout.")
    wanted = (ROOT / "requirements.in").read_text(encoding="utf-8")
    text = publishable(resolve(ROOT, options.upgrade), wanted)
    target = ROOT / "requirements.txt"
    before = target.read_text(encoding="utf-8") if target.is_file() else ""
    if text == before:
        print("requirements.txt is up to date.")
        return 0
    temporary = target.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(target)
    old, new = set(before.splitlines()), set(text.splitlines())
    for line in sorted(old - new):
        print(f"- {line.split('#')[0].strip()}")
    for line in sorted(new - old):
        print(f"+ {line.split('#')[0].strip()}")
    print("requirements.txt is written; `make book` installs it.")
    return 0


if __name__ == "__main__":
    environment.finish(main)
