"""Formatter, linter, types and import layers: ``python tools/lint.py [--fix]``."""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter()

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = environment.ROOT
CHECKS = {
    "ruff check": [sys.executable, "-m", "ruff", "check", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "mypy": [sys.executable, "-m", "mypy"],
    "imports": [str(Path(sys.executable).with_name("lint-imports")), "--no-logo"],
}
CURES = (
    [sys.executable, "-m", "ruff", "check", "--fix", "."],
    [sys.executable, "-m", "ruff", "format", "."],
)


def failures(root: Path = ROOT) -> list[str]:
    """Run the checks, let them print what they find, and name those that failed."""
    failed = []
    for name, command in CHECKS.items():
        environment.say(f"-- {name}")
        call = subprocess.run(
            command, cwd=root, env=environment.variables(), check=False
        )
        if call.returncode:
            failed.append(name)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="mend what can be mended")
    if parser.parse_args().fix:
        for command in CURES:
            subprocess.run(command, cwd=ROOT, check=False)
    failed = failures()
    environment.say(f"failed: {', '.join(failed)}" if failed else "all clean")
    return 1 if failed else 0


if __name__ == "__main__":
    environment.finish(main)
