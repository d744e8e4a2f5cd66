"""Execution gives the same bytes each time, and nbval sees one wrong digit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import first_cell
import nbformat
import notebook_gates as gates
import pytest
import test as course_test

import notebooks

SOURCES = (
    'import sys\n\nprint("first")\nprint("to stderr", file=sys.stderr)\nprint("last")',
    "import torch\n\nprint(f'{torch.ones(3).sum().item() / 7:.3f}')",
    "import matplotlib.pyplot as plt\n\nplt.plot([1, 2, 4])\nplt.show()",
    "from ipywidgets import IntSlider\n\nIntSlider(3)",
    "1 / 0",
)


def raw_notebook() -> Any:
    """Text, error stream, figure, widget and a meant error, none executed."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata = nbformat.from_dict({"colab": {"provenance": []}})
    notebook.cells = [nbformat.v4.new_markdown_cell("# 1. A trial")]
    notebook.cells.append(nbformat.v4.new_code_cell(first_cell.text()))
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in SOURCES]
    notebook.cells[-1].metadata.tags = ["raises-exception"]
    return notebook


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("executed") / "ch01_trial.ipynb"
    nbformat.write(raw_notebook(), path)
    notebooks.rewrite(path)
    return path


@pytest.mark.slow
def test_execution_twice_gives_the_same_bytes(executed: Path) -> None:
    before = executed.read_bytes()
    notebooks.rewrite(executed)
    assert executed.read_bytes() == before


@pytest.mark.slow
def test_executed_notebook_is_clean(executed: Path) -> None:
    subject = gates.load(executed)
    for name in ("executed_in_order", "no_traceback", "no_widget_state"):
        assert list(gates.GATES[name](subject)) == []
    assert list(gates.minimal_metadata(subject)) == []
    outputs = subject.notebook.cells[2].outputs
    assert [(o.name, o.text) for o in outputs] == [
        ("stdout", "first\nlast\n"),
        ("stderr", "to stderr\n"),
    ]
    assert b"Software" not in executed.read_bytes()


@pytest.mark.slow
def test_nbval_is_green_on_what_was_stored_and_red_on_one_wrong_digit(
    executed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    text = executed.read_text(encoding="utf-8")
    assert text.count("0.429") == 1
    (folder / "ch01_stored.ipynb").write_text(text, encoding="utf-8")
    wrong = text.replace("0.429", "0.428")
    (folder / "ch02_wrong.ipynb").write_text(wrong, encoding="utf-8")
    monkeypatch.setattr(course_test, "ROOT", tmp_path)
    result = course_test.phase_nbval(tmp_path)
    assert (result.passed, result.failed, result.skipped) == (11, 1, 0)
    assert "ch02_wrong" in result.complaints[0]


@pytest.mark.slow
def test_failing_cell_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ch01_trial.ipynb"
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(s) for s in ("print(1)", "1 / 0")]
    nbformat.write(notebook, path)
    before = path.read_bytes()
    with pytest.raises(notebooks.environment.Stop, match="a cell failed, nothing was"):
        notebooks.rewrite(path)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path]


def test_streams_of_one_name_are_joined_and_widget_views_dropped() -> None:
    out = nbformat.v4.new_output
    view = "application/vnd.jupyter.widget-view+json"
    cleaned = notebooks.clean_outputs(
        [
            out("stream", name="stdout", text="a"),
            out("stream", name="stdout", text="b"),
            out("display_data", data={view: {}, "text/html": "<p>"}),
        ]
    )
    assert [o.get("text") for o in cleaned] == ["ab", None]
    assert list(cleaned[1].data) == ["text/html"]


def test_older_first_cell_is_brought_up_to_date() -> None:
    notebook = raw_notebook()
    notebook.cells[1].source = first_cell.MARK + ": as it once was."
    assert first_cell.put(notebook, first_cell.text())
    assert notebook.cells[1].source == first_cell.text()
    assert not first_cell.put(notebook, first_cell.text())
    notebook.cells[1].source = "print('a cell of its own')"
    assert not first_cell.put(notebook, first_cell.text())
