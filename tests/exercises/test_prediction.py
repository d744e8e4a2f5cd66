"""``predict`` makes a widget of a question with three options."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from transformer_lib.exercises import predict

GOOD = {
    "name": "ch01-distance",
    "question": "What happens to the gradient?",
    "options": ("It grows", "It shrinks", "It stays"),
    "answer": 1,
    "because": "Each step multiplies it by less than 1.",
}


def test_a_prediction_is_a_widget_that_shows_its_options() -> None:
    widget = predict(**GOOD)
    page = widget._repr_mimebundle_()
    html = (page[0] if isinstance(page, tuple) else page)["text/html"]
    for option in GOOD["options"]:
        assert option in html


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"name": ""}, ValueError, "name: got ''"),
        ({"name": "distance"}, ValueError, "name: got 'distance'"),
        ({"name": "CH01 distance"}, ValueError, "name: got"),
        ({"name": 3}, TypeError, "name: got int"),
        ({"question": "  "}, ValueError, "question: got an empty text"),
        ({"question": None}, TypeError, "question: got NoneType"),
        ({"options": ("a", "b")}, ValueError, "options: got"),
        ({"options": ("a", "b", "c", "d")}, ValueError, "options: got"),
        ({"options": "abc"}, ValueError, "options: got 'abc'"),
        ({"options": ("a", "b", "b")}, ValueError, "three different ones"),
        ({"options": ("a", "b", " ")}, ValueError, "three different ones"),
        ({"options": ("a", "b", 3)}, TypeError, "options: got 3 in it"),
        ({"answer": 3}, ValueError, "answer: got 3"),
        ({"answer": -1}, ValueError, "answer: got -1"),
        ({"answer": True}, TypeError, "answer: got True"),
        ({"answer": "b"}, TypeError, "answer: got 'b'"),
        ({"because": None}, TypeError, "because: got NoneType"),
    ],
)
def test_bad_arguments_are_refused_by_name(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        predict(**{**GOOD, **change})


def names_in(source: str) -> list[str]:
    """First arguments of the calls of ``predict`` in a piece of code."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "predict":
            given = [*node.args, *(k.value for k in node.keywords if k.arg == "name")]
            if given and isinstance(given[0], ast.Constant):
                found.append(str(given[0].value))
    return found


def test_the_names_of_predictions_are_read_from_code() -> None:
    code = 'predict("ch01-a", "?", x, 1)\npredict(name="ch01-b", answer=1)\nprint(1)'
    assert names_in(code) == ["ch01-a", "ch01-b"]


def test_no_two_predictions_of_the_course_share_a_name() -> None:
    """The browser keeps a guess under its name."""
    counted: Counter[str] = Counter()
    notebooks = Path(__file__).resolve().parents[2] / "notebooks"
    for path in sorted(notebooks.glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and "predict(" in source:
                names = names_in(source)
                assert all(name.startswith(path.name[:4]) for name in names), names
                counted.update(names)
    assert [name for name, count in counted.items() if count > 1] == []
