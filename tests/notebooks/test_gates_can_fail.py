"""For each gate a sound notebook that it lets pass, and faults that it reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import first_cell
import nbformat
import notebook_gates as gates
import pytest

TEXT, FIRST, PRINT, FIGURE, SECOND_TEXT, ERROR, LOOSE = range(7)


def source(index: int, text: str) -> Callable[[Any], None]:
    """A fault: another source in one cell."""

    def spoil(notebook: Any) -> None:
        notebook.cells[index].source = text

    return spoil


def added(text: str) -> Callable[[Any], None]:
    """A fault: a line of Markdown added to the last text cell."""

    def spoil(notebook: Any) -> None:
        notebook.cells[SECOND_TEXT].source += f"\n\n{text}\n"

    return spoil


def metadata(index: int, **values: Any) -> Callable[[Any], None]:
    """A fault: other metadata in one cell."""

    def spoil(notebook: Any) -> None:
        notebook.cells[index].metadata = nbformat.from_dict(values)

    return spoil


def output(index: int, **data: str) -> Callable[[Any], None]:
    """A fault: an output of one more kind in one cell."""

    def spoil(notebook: Any) -> None:
        kinds = {mime.replace("__", "/"): text for mime, text in data.items()}
        notebook.cells[index].outputs = [
            nbformat.v4.new_output("display_data", data=kinds)
        ]

    return spoil


def set_count(index: int, value: int | None) -> Callable[[Any], None]:
    def spoil(notebook: Any) -> None:
        notebook.cells[index].execution_count = value

    return spoil


def set_attribute(name: str, value: Any) -> Callable[[Any], None]:
    def spoil(notebook: Any) -> None:
        notebook.metadata[name] = nbformat.from_dict(value)

    return spoil


def drop_cell(index: int) -> Callable[[Any], None]:
    def spoil(notebook: Any) -> None:
        del notebook.cells[index]

    return spoil


def rename_cell(notebook: Any) -> None:
    notebook.cells[PRINT].id = "a1b2c3"


def output_metadata(notebook: Any) -> None:
    notebook.cells[FIGURE].outputs[0].metadata = nbformat.from_dict({"needs": 1})


def older_format(notebook: Any) -> None:
    notebook.nbformat_minor = 4


def untag_error(notebook: Any) -> None:
    notebook.cells[ERROR].metadata.tags = []


def quiet_error(notebook: Any) -> None:
    notebook.cells[ERROR].outputs = []


def second_picture(notebook: Any) -> None:
    notebook.cells[FIGURE].outputs *= 2


def swell(notebook: Any) -> None:
    notebook.cells[PRINT].outputs[0].text = "x" * gates.MOST_BYTES


def older_first_cell(notebook: Any) -> None:
    notebook.cells[FIRST].source = first_cell.text() + "\nimport numpy as np"


def overwritten(notebook: Any) -> None:
    notebook.cells[PRINT].outputs[0].text = "10 %\r20 %\n"


LONG_LINE = "print(" + "1 + " * 25 + "1)"
DESCRIBED = {"image": {"alt": "x" * gates.LEAST_ALT}}

FAULTS: list[tuple[str, str, Callable[[Any], None], str]] = [
    ("executed_in_order", "not run", set_count(PRINT, None), "not executed"),
    ("executed_in_order", "run late", set_count(PRINT, 9), "count 9 where 2"),
    ("executed_in_order", "empty", source(PRINT, " "), "empty"),
    ("no_traceback", "no tag", untag_error, "ZeroDivisionError"),
    ("no_traceback", "tag that lies", quiet_error, "raises nothing"),
    (
        "compared",
        "no reason",
        metadata(LOOSE, tags=["nbval-ignore-output"]),
        "no ignore_reason",
    ),
    (
        "compared",
        "too few",
        metadata(PRINT, tags=["nbval-ignore-output"], ignore_reason="none"),
        "60% of the code cells",
    ),
    ("compared", "no tag", metadata(PRINT, ignore_reason="x"), "not tagged"),
    ("compared", "comment", source(PRINT, "# NBVAL_SKIP\n1"), "by a comment"),
    ("same_first_cell", "longer", older_first_cell, "differs"),
    ("same_first_cell", "gone", drop_cell(FIRST), "differs"),
    ("figures_described", "no alt", metadata(FIGURE), "alt text has 0"),
    (
        "figures_described",
        "short alt",
        metadata(
            FIGURE, mystnb={"image": {"alt": "A plot"}, "figure": {"caption": "x"}}
        ),
        "alt text has 6",
    ),
    (
        "figures_described",
        "no caption",
        metadata(FIGURE, mystnb=DESCRIBED),
        "no caption",
    ),
    (
        "figures_described",
        "alt is caption",
        metadata(
            FIGURE,
            mystnb={**DESCRIBED, "figure": {"caption": DESCRIBED["image"]["alt"]}},
        ),
        "repeats",
    ),
    ("figures_described", "two pictures", second_picture, "2 pictures"),
    ("figures_described", "SVG", output(PRINT, image__svg="<svg/>"), "alt text"),
    ("figures_described", "Markdown", added("![](x.png)"), "without alt"),
    ("figures_described", "HTML", added('<img src="x.png">'), "without alt"),
    ("portable_markdown", "directive", added("```{note}\nx\n```"), "directive"),
    ("portable_markdown", "tildes", added("~~~{note}\nx\n~~~"), "directive"),
    ("portable_markdown", "colon fence", added(":::{note}\nx\n:::"), "colon fence"),
    ("portable_markdown", "role", added("See {ref}`there`."), "a role"),
    ("portable_markdown", "domain role", added("{py:func}`f`"), "a role"),
    ("portable_markdown", "label", added("(there)="), "a label"),
    ("portable_markdown", "comment", added("% hidden"), "a comment"),
    ("portable_markdown", "break", added("+++"), "block break"),
    ("portable_markdown", "equation", added("$$\nx\n$$ (eq-x)"), "equation label"),
    ("portable_markdown", "footnote", added("Said.[^1]"), "a footnote"),
    ("quiet_code", "semicolon", source(PRINT, "plt.plot(x);"), "semicolon"),
    ("quiet_code", "and comment", source(PRINT, "plot(x);  # draw"), "semicolon"),
    ("quiet_code", "tqdm", source(PRINT, "for x in tqdm(y): pass"), "tqdm"),
    ("quiet_code", "clear", source(PRINT, "clear_output()"), "clear_output"),
    ("quiet_code", "update", source(PRINT, "display(x, display_id=1)"), "display_id"),
    ("short_cells", "lines", source(PRINT, "x\n" * 21), "21 lines"),
    ("short_cells", "columns", source(PRINT, LONG_LINE), "108 columns"),
    ("small_file", "big", swell, "fewer than"),
    ("no_widget_state", "state", set_attribute("widgets", {}), "metadata.widgets"),
    (
        "no_widget_state",
        "view",
        output(PRINT, **{"application/vnd.jupyter.widget-view+json": "{}"}),
        "widget-view",
    ),
    ("minimal_metadata", "notebook", set_attribute("colab", {"a": 1}), "colab"),
    (
        "minimal_metadata",
        "kernel",
        set_attribute("kernelspec", {"name": "my-env"}),
        "values differ",
    ),
    ("minimal_metadata", "format", older_format, "4.4"),
    ("minimal_metadata", "cell", metadata(PRINT, scrolled=True), "scrolled"),
    ("minimal_metadata", "tag", metadata(PRINT, tags=["hide_input"]), "unknown"),
    ("minimal_metadata", "id", rename_cell, "a1b2c3"),
    ("minimal_metadata", "output", output_metadata, "output has metadata"),
    (
        "no_private_text",
        "address",
        output(PRINT, text__plain="<object at 0x7f3a2b1c>"),
        "memory address",
    ),
    (
        "no_private_text",
        "path",
        output(PRINT, text__plain="/home/ada/x.py"),
        "path of one machine",
    ),
    (
        "no_private_text",
        "drive",
        output(PRINT, text__html="<p>C:\\course</p>"),
        "path of one machine",
    ),
    ("no_private_text", "overwritten", overwritten, "overwritten"),
    ("one_title", "none", source(TEXT, "7. A chapter"), "0 headings"),
    ("one_title", "two", added("# 8. Another"), "2 headings"),
    ("one_title", "no number", source(TEXT, "# A chapter"), "does not begin"),
    ("one_title", "twin headings", added("## What follows"), "occurs twice"),
    ("links_resolve", "file", added("[x](../book/gone.md)"), "leads nowhere"),
    ("links_resolve", "anchor", added("[x](../book/notation.md#no)"), "not there"),
    ("links_resolve", "own anchor", added("[x](#nowhere)"), "not there"),
    ("links_resolve", "absolute", added("[x](/book/notation.md)"), "absolute"),
    ("links_resolve", "built", added("[x](../book/notation.html)"), "built page"),
    ("links_resolve", "picture", added("![a line](no.png)"), "leads nowhere"),
    ("links_resolve", "reference", added("[x][y]\n\n[y]: gone.md"), "leads nowhere"),
    ("links_resolve", "HTML", added('<a href="gone.md">x</a>'), "leads nowhere"),
]


@pytest.mark.parametrize("gate", gates.GATES)
def test_sound_notebook_passes(sound: gates.Subject, gate: str) -> None:
    assert list(gates.GATES[gate](sound)) == []


@pytest.mark.parametrize(
    ("gate", "spoil", "expected"),
    [(gate, spoil, expected) for gate, _, spoil, expected in FAULTS],
    ids=[f"{gate}-{what}".replace(" ", "-") for gate, what, _, _ in FAULTS],
)
def test_gate_reports_planted_fault(
    sound: gates.Subject, gate: str, spoil: Callable[[Any], None], expected: str
) -> None:
    spoil(sound.notebook)
    nbformat.write(sound.notebook, sound.path)
    spoilt = gates.Subject(sound.path, sound.notebook, sound.root)
    complaints = list(gates.GATES[gate](spoilt))
    assert any(expected in complaint for complaint in complaints), complaints


def test_every_gate_has_a_planted_fault() -> None:
    assert {gate for gate, *_ in FAULTS} == set(gates.GATES)


def test_unknown_name_and_empty_folder_are_told_with_what_there_is(
    sound: gates.Subject,
) -> None:
    with pytest.raises(gates.environment.Stop, match=r"ch99; there are: ch07_small\."):
        gates.choose(["ch07", "ch99"], sound.root)
    sound.path.unlink()
    with pytest.raises(gates.environment.Stop, match="there are: none"):
        gates.choose([], sound.root)


@pytest.mark.parametrize("content", ["", "{}", "not JSON", '{"cells": 1}'])
def test_broken_notebook_ends_in_a_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "ch01.ipynb"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(gates.environment.Stop, match=r"ch01.ipynb is not a readable"):
        gates.load(path)


def test_missing_notebook_ends_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(gates.environment.Stop, match=r"restore it with git checkout"):
        gates.load(tmp_path / "ch01.ipynb")
