"""A state that a widget cannot show is refused, and the message says what was wanted."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import traitlets

from transformer_lib.reference import self_attention
from transformer_lib.widgets import AttentionCalculator, Lookup, Prediction, Reach
from transformer_lib.widgets.base import StateError, Widget

pytestmark = pytest.mark.no_shape_hook


def prediction(**changes: Any) -> Prediction:
    given: dict[str, Any] = {
        "name": "ch00-sum",
        "question": "What is 1 + 1?",
        "options": ("1", "2", "3"),
        "answer": 1,
        "because": "We count.",
    }
    return Prediction(**{**given, **changes})


def default(kind: str) -> Widget:
    makers: dict[str, Callable[[], Widget]] = {
        "Reach": Reach,
        "Lookup": Lookup,
        "AttentionCalculator": AttentionCalculator,
        "Prediction": prediction,
    }
    return makers[kind]()


CONSTRUCTED = [
    (Reach, {"recurrent": math.nan}, "recurrent: got nan, wanted a number from 0.5"),
    (Reach, {"recurrent": 1.3}, "recurrent: got 1.3, wanted a number from 0.5 to 1.2"),
    (Reach, {"recurrent": "0.8"}, "recurrent: got '0.8', wanted a number"),
    (Reach, {"recurrent": True}, "recurrent: got True, wanted a number"),
    (Reach, {"forget_bias": math.inf}, "forget_bias: got inf, wanted a number"),
    (Reach, {"length": 4}, "length: got 4, wanted a whole number from 5 to 100"),
    (Reach, {"length": 12.5}, "length: got 12.5, wanted a whole number"),
    (Reach, {"length": 20, "distance": 20}, "distance: got 20, wanted less than"),
    (Reach, {"distance": -1}, "distance: got -1, wanted a whole number from 0"),
    (Lookup, {"query": (0.0,)}, r"query: got \(0.0,\), wanted 2 numbers"),
    (Lookup, {"query": (0.0, math.nan)}, r"query\[1\]: got nan, wanted a number"),
    (Lookup, {"query": 3}, "query: got 3, wanted 2 numbers"),
    (Lookup, {"temperature": 0.0}, "temperature: got 0.0, wanted a number from 0.01"),
    (Lookup, {"keys": ((0, 0),)}, "keys: got 1, wanted 2 to 8"),
    (Lookup, {"keys": [(0, 2)] * 6}, r"keys\[0\]\[1\]: got 2, wanted a number from -1.5"),
    (Lookup, {"keys": [(0, 0, 0)] * 6}, "keys: got .* wanted rows of 2 numbers"),
    (Lookup, {"names": ("a", "b")}, "names: got 2, wanted 6, one for each key"),
    (Lookup, {"names": ("", *"bcdef")}, "names: got .*, wanted texts, none empty"),
    (Lookup, {"values": range(7)}, "values: got 7, wanted 6, one for each key"),
    (Lookup, {"chosen": 6}, "chosen: got 6, wanted a whole number from 0 to 5"),
    (AttentionCalculator, {"X": [[1, 2]]}, "X: got 1 rows, wanted 3"),
    (AttentionCalculator, {"X": [[1, 2], [1, 2], [1]]}, "X: got .*, wanted rows of 2"),
    (AttentionCalculator, {"W_Q": [[1, 2], [3, 10]]}, r"W_Q\[1\]\[1\]: got 10, wanted a whole number from -9 to 9"),
    (AttentionCalculator, {"W_K": [[0.5, 2], [3, 1]]}, r"W_K\[0\]\[0\]: got 0.5, wanted a whole"),
    (AttentionCalculator, {"tokens": ["a"]}, "tokens: got 1, wanted 2 to 4 words"),
    (AttentionCalculator, {"scaled": 1}, "scaled: got 1, wanted True or False"),
    (AttentionCalculator, {"temperature": 11}, "temperature: got 11, wanted a number from 0.1 to 10"),
    (AttentionCalculator, {"chosen": ("Z", 0, 0)}, "chosen: got .*, wanted one of X, W_Q"),
    (AttentionCalculator, {"chosen": ("Q", 0, 2)}, "chosen column: got 2, wanted a whole number from 0 to 1"),
    (AttentionCalculator, {"chosen": ("W_V", 2, 0)}, "chosen row: got 2, wanted a whole number from 0 to 1"),
    (prediction, {"name": " "}, "name: got ' ', wanted some text"),
    (prediction, {"question": ""}, "question: got '', wanted some text"),
    (prediction, {"options": ("1", "2")}, "options: got .*, wanted three different texts"),
    (prediction, {"options": ("1", "2", "2 ")}, "options: got .*, wanted three different"),
    (prediction, {"options": (1, 2, 3)}, "options: got .*, wanted texts"),
    (prediction, {"answer": 3}, "answer: got 3, wanted a whole number from 0 to 2"),
    (prediction, {"because": None}, "because: got None, wanted a text"),
]  # fmt: skip

ASSIGNED = [
    ("Reach", "recurrent", math.nan, "recurrent: got nan"),
    ("Reach", "length", 101, "length: got 101, wanted a whole number from 5 to 100"),
    ("Lookup", "values", [1, 2], "values: got 2 entries, wanted 6, as at the start"),
    ("Lookup", "names", list("abcdef"), "names: got .* stays as it was made"),
    ("Lookup", "places", [[0, 0]] * 6, "places: got .* stays as it was made"),
    ("Lookup", "chosen", 6, "chosen: got 6, wanted a whole number from 0 to 5"),
    ("AttentionCalculator", "X", [[1, 1]], "X: got 1 entries, wanted 3, as at the start"),
    ("AttentionCalculator", "tokens", ["a", "b", "c"], "tokens: got .* stays as it was"),
    ("AttentionCalculator", "chosen", ["Q", 3, 0], "chosen row: got 3"),
    ("AttentionCalculator", "chosen", "Q", "chosen: got 'Q', wanted one of X"),
    ("Prediction", "options", ["a", "b", "c"], "options: got .* stays as it was made"),
    ("Prediction", "choice", 3, "choice: got 3, wanted a whole number from -1 to 2"),
    ("Prediction", "answer", 0, "answer: got 0, but it stays as it was made"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "arguments", "message"), CONSTRUCTED)
def test_a_bad_argument_is_named_with_what_was_wanted(
    make: Callable[..., Widget], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(StateError, match=message):
        make(**arguments)


@pytest.mark.parametrize(("kind", "name", "value", "message"), ASSIGNED)
def test_a_bad_assignment_is_refused_and_changes_nothing(
    kind: str, name: str, value: Any, message: str
) -> None:
    widget = default(kind)
    before = widget.current_state()
    with pytest.raises(StateError, match=message):
        setattr(widget, name, value)
    assert widget.current_state() == before


def test_a_state_error_is_both_a_value_error_and_a_trait_error() -> None:
    assert issubclass(StateError, ValueError)
    assert issubclass(StateError, traitlets.TraitError)


def test_numpy_numbers_and_tuples_are_welcome() -> None:
    assert Lookup(query=np.array([0.5, -0.25])).query == [0.5, -0.25]
    assert Reach(length=np.int64(50), distance=3).length == 50
    assert AttentionCalculator(X=np.eye(3, 2, dtype=int)).X == [[1, 0], [0, 1], [0, 0]]
    assert type(Reach(recurrent=np.float32(0.75)).recurrent) is float


def test_good_assignments_are_taken() -> None:
    reach = Reach()
    reach.recurrent, reach.length = 1.1, 12
    assert (reach.recurrent, reach.length) == (1.1, 12)
    calculator = AttentionCalculator()
    calculator.X = [[3, 3], [3, 3], [3, 3]]
    calculator.chosen = ["O", 2, 1]
    assert calculator.results()["weights"] == pytest.approx(np.full((3, 3), 1 / 3))


def test_the_calculator_computes_self_attention() -> None:
    calculator = AttentionCalculator()
    X, *W = (
        np.array(getattr(calculator, n), float) for n in ("X", "W_Q", "W_K", "W_V")
    )
    output, weights = self_attention(X, *W)
    found = calculator.results()
    assert found["O"] == pytest.approx(output, abs=1e-12)
    assert found["weights"] == pytest.approx(weights, abs=1e-12)
    assert AttentionCalculator(scaled=False).results()["weights"] != pytest.approx(
        weights, abs=1e-3
    )


def test_reset_knows_the_first_state_after_changes() -> None:
    lookup = Lookup(temperature=0.5)
    first = lookup.current_state()
    lookup.temperature = 3.0
    lookup.values = [9, 9, 9, 9, 9, 9]
    assert lookup.start == first


def test_a_list_given_by_the_caller_stays_the_callers() -> None:
    X = [[1, 0], [0, 2], [2, 1]]
    calculator = AttentionCalculator(X=X)
    X[0][0] = 5
    assert calculator.X[0][0] == 1


def test_widgets_import_where_torch_cannot_be_imported() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from transformer_lib.widgets import *\n"
        "print(Reach(), Lookup(), AttentionCalculator())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
