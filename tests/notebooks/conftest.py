"""A small notebook that passes every gate, to plant faults in."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import first_cell
import nbformat
import notebook_gates as gates
import pytest

PIXEL = base64.b64encode(b"stands for a picture").decode()
ALT = "Line that starts at one and falls to zero over ten steps, ever more slowly."


def code(number: int, source: str, *outputs: Any, **metadata: Any) -> Any:
    return nbformat.v4.new_code_cell(
        source, execution_count=number, outputs=list(outputs), metadata=metadata
    )


def picture() -> Any:
    return nbformat.v4.new_output("display_data", data={"image/png": PIXEL})


def sound_notebook() -> Any:
    """A notebook as it is stored: executed, described, portable."""
    notebook = nbformat.v4.new_notebook(metadata=nbformat.from_dict(gates.METADATA))
    notebook.cells = [
        nbformat.v4.new_markdown_cell(
            "# 7. A small chapter\n\nSee [notation](../book/notation.md#symbols), "
            "[below](#what-follows) and $\\{x\\}$.\n\n"
            "```python\n% not a comment of MyST: code\n{ref}`shown`\n```\n\n"
            "<details><summary>Hint</summary>\n\nWrite `{ref}` and `x`.\n\n</details>"
        ),
        code(1, first_cell.text()),
        code(
            2,
            'print("two")',
            nbformat.v4.new_output("stream", name="stdout", text="two\n"),
        ),
        code(
            3,
            "plt.show()",
            picture(),
            mystnb={"image": {"alt": ALT}, "figure": {"caption": "It falls."}},
        ),
        nbformat.v4.new_markdown_cell("## What follows\n\nNothing."),
        code(
            4,
            "1 / 0",
            nbformat.v4.new_output(
                "error", ename="ZeroDivisionError", evalue="division by zero"
            ),
            tags=["raises-exception"],
        ),
        code(
            5,
            'print("machine")',
            nbformat.v4.new_output("stream", name="stdout", text="this\n"),
            tags=["nbval-ignore-output"],
            ignore_reason="names the machine",
        ),
    ]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
    return notebook


@pytest.fixture
def sound(tmp_path: Path) -> gates.Subject:
    """The sound notebook on disk, in a tree of its own."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "book").mkdir()
    page = tmp_path / "book" / "notation.md"
    page.write_text("# Notation\n\n## Symbols\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.course]\n", encoding="utf-8")
    path = tmp_path / "notebooks" / "ch07_small.ipynb"
    nbformat.write(sound_notebook(), path)
    return gates.load(path, tmp_path)
