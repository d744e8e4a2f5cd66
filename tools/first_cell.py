"""The first code cell of every notebook: this file writes it, a test compares it.

``python tools/first_cell.py`` rewrites it in all notebooks (after the repository's
address was set, for example). The address stands in ``pyproject.toml`` under
``[tool.course]``; ``python tools/set_repository.py URL`` sets it.
"""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter()

import sys
import tomllib
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[1]
MARK = "# Makes transformer_lib importable"

TEMPLATE = """\
# Makes transformer_lib importable: in a clone, in an environment that has it{where}.
import importlib.util, pathlib, {modules}

if importlib.util.find_spec("transformer_lib") is None:
    here = pathlib.Path.cwd()
    clone = [p for p in (here, *here.parents) if (p / "transformer_lib/nn").is_dir()]
    if clone:
        sys.path.insert(0, str(clone[0]))
    else:
        {fallback}

from transformer_lib.plotting import use_style

use_style()"""

# A package index is never asked for "transformer-lib": that name is someone else's there.
INSTALL = """\
source = "git+{repository}"
        command = [sys.executable, "-m", "pip", "install", "-q", source]
        subprocess.run(command, check=True)"""
REFUSE = """\
raise ModuleNotFoundError("Open this notebook inside the course's folder.")"""


def repository(root: Path = ROOT) -> str:
    """Address of the repository, empty while it is not known."""
    with (root / "pyproject.toml").open("rb") as stream:
        course = tomllib.load(stream).get("tool", {}).get("course", {})
    return str(course.get("repository", ""))


def text(root: Path = ROOT) -> str:
    """The cell's source; without a known repository it says what to do instead."""
    address = repository(root)
    if address:
        return TEMPLATE.format(
            where=", in Colab",
            modules="subprocess, sys",
            fallback=INSTALL.format(repository=address),
        )
    return TEMPLATE.format(where="", modules="sys", fallback=REFUSE)


def put(notebook: Any, source: str) -> bool:
    """Write the cell into a notebook that has an older form of it; say if it changed."""
    first = next((c for c in notebook.cells if c.cell_type == "code"), None)
    if first is None or first.source == source or not first.source.startswith(MARK):
        return False
    first.source = source
    return True


def rewrite(root: Path = ROOT) -> list[Path]:
    """Bring the first cell of all notebooks up to date; return the changed ones."""
    changed = []
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if put(notebook, text(root)):
            nbformat.write(notebook, path)
            changed.append(path)
    return changed


def main() -> int:
    for path in rewrite():
        print(f"{path.relative_to(ROOT)}: first cell rewritten")
    return 0


if __name__ == "__main__":
    sys.exit(main())
