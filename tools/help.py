"""List the targets of the Makefile: ``python tools/help.py``."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def targets(makefile: str) -> dict[str, str]:
    """Each target and its line of documentation, in the file's order."""
    return dict(re.findall(r"^(\w+):.*?## (.+)$", makefile, flags=re.MULTILINE))


if __name__ == "__main__":
    for name, text in targets((ROOT / "Makefile").read_text(encoding="utf-8")).items():
        print(f"make {name:<10} {text}")
    print("\nWithout make, on Windows for example: py tools\\book.py, and so on.")
