"""Every gate over every notebook of the course."""

from __future__ import annotations

from pathlib import Path

import notebook_gates as gates
import pytest
import yaml

import book

NOTEBOOKS = gates.every_notebook()


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS, "notebooks/ is empty: every other test here would say nothing"


@pytest.mark.parametrize("gate", gates.GATES)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_notebook_passes_gate(path: Path, gate: str) -> None:
    complaints = list(gates.GATES[gate](gates.load(path)))
    assert not complaints, "\n".join(complaints)


def test_contents_and_folder_name_the_same_notebooks() -> None:
    toc = yaml.safe_load((gates.ROOT / "_toc.yml").read_text(encoding="utf-8"))
    named = {page for page in book.pages(toc) if page.startswith("notebooks/")}
    assert named == {f"notebooks/{path.stem}" for path in NOTEBOOKS}
