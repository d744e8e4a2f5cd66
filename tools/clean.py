"""Remove what was built: ``python tools/clean.py``; ``--all`` the environment too."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import environment

BUILT = ("_build", "build", "dist")
CACHES = (
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".import_linter_cache",
    ".hypothesis",
    ".ipynb_checkpoints",
    "__pycache__",
)
INSTALLED = (".venv", "node_modules")


def condemned(root: Path, everything: bool = False) -> list[Path]:
    """Folders to remove; caches wherever they lie, never inside what is installed."""
    names = [*BUILT, *(INSTALLED if everything else ())]
    found = [root / name for name in names if (root / name).is_dir()]
    folders = [root]
    while folders:
        for entry in folders.pop().iterdir():
            if entry.is_symlink() or not entry.is_dir():
                continue
            if entry.name in CACHES:
                found.append(entry)
            elif entry.name not in (*BUILT, *INSTALLED, ".git"):
                folders.append(entry)
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="the environment too")
    for folder in condemned(environment.ROOT, parser.parse_args().all):
        shutil.rmtree(folder)
        environment.say(f"removed {folder.relative_to(environment.ROOT)}")
    return 0


if __name__ == "__main__":
    environment.finish(main)
