"""Sheets of numbers: blank by blank, with a tolerance, known slips named."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from transformer_lib.exercises import check
from transformer_lib.exercises.pencil import Blank, Pencil, Slip

SHEET = Pencil(
    name="sums",
    statement="Work out 1 + 2, then (1/3, 2/3), then the matrix.",
    blanks=(
        Blank("sum", 3.0, "What is one more than 2?"),
        Blank("thirds", (1 / 3, 2 / 3), "What is 1 divided by 3?"),
        Blank("square", ((1.0, 2.0), (3.0, 4.0)), "Which number comes next?"),
    ),
    mistakes=(
        Slip("product", "1 and 2 were multiplied.", "Plus or times?", {"sum": 2.0}),
        Slip("halves", "By 2.", "By what?", {"thirds": (0.5, 1.0)}),
        Slip("two", "All twos.", "?", {"sum": 2.0, "thirds": (2.0, 2.0)}),
    ),
)

RIGHT = {"sum": 3, "thirds": [0.33, 0.67], "square": [[1, 2], [3, 4]]}


def said(answer: Any) -> str:
    return " ".join(str(SHEET.judge(answer)).split())


def test_numbers_to_two_decimals_pass() -> None:
    assert SHEET.judge(RIGHT).passed
    assert SHEET.judge({**RIGHT, "thirds": (Fraction(1, 3), Fraction(2, 3))}).passed
    assert SHEET.judge({**RIGHT, "square": np.array([[1, 2], [3, 4]])}).passed
    assert SHEET.judge({**RIGHT, "sum": np.float32(3.0)}).passed


def test_a_list_in_the_order_of_the_sheet_passes() -> None:
    assert SHEET.judge([3, [0.33, 0.67], [[1, 2], [3, 4]]]).passed
    assert SHEET.judge((3, [0.33, 0.67], [[1, 2], [3, 4]])).passed


def test_a_number_outside_the_tolerance_does_not_pass() -> None:
    assert not SHEET.judge({**RIGHT, "thirds": [0.3, 0.67]}).passed
    assert not SHEET.judge({**RIGHT, "sum": 3.02}).passed


def test_the_first_wrong_blank_is_told_with_its_place_and_its_hint() -> None:
    text = said({**RIGHT, "thirds": [0.33, 0.9]})
    assert "2 of 3 blanks right so far." in text
    assert "The first wrong one is thirds, number 2 in it." in text
    assert "Question: What is 1 divided by 3?" in text
    text = said({**RIGHT, "square": [[1, 2], [3, 5]]})
    assert "square, row 2, number 2" in text


def test_the_right_value_of_a_blank_is_not_given_away() -> None:
    assert "3.0" not in said({**RIGHT, "sum": 17})
    assert "0.67" not in said({"sum": 3, "thirds": [9, 9]})


def test_a_known_slip_is_named() -> None:
    verdict = SHEET.judge({"sum": 2})
    assert verdict.status == "either"
    assert verdict.mistakes == ("product", "two")
    assert SHEET.judge({**RIGHT, "thirds": [0.5, 1.0]}).mistakes == ("halves",)


def test_later_blanks_decide_between_slips_of_one_value() -> None:
    assert SHEET.judge({**RIGHT, "sum": 2}).mistakes == ("product",)
    both = {"sum": 2, "thirds": [2, 2]}
    assert SHEET.judge(both).mistakes == ("two",)


def test_open_blanks_do_not_count_as_wrong() -> None:
    verdict = SHEET.judge({"sum": 3, "thirds": ..., "square": None})
    assert verdict.status == "right so far"
    assert not verdict
    assert "Still open: thirds, square." in str(verdict)


@pytest.mark.parametrize(
    "empty",
    [None, ..., {}, {"sum": None}, {"sum": ..., "thirds": [..., ...]}, [..., ..., ...]],
)
def test_an_empty_sheet_is_not_attempted(empty: Any) -> None:
    assert SHEET.judge(empty).status == "not attempted"


@pytest.mark.parametrize(
    ("answer", "phrase"),
    [
        ({"summ": 3}, "There is no blank 'summ'. Wanted a dict with sum, thirds"),
        ([1, 2], "Got 2 values. Wanted a dict with sum, thirds, square, or a list"),
        (3.0, "Got one value of type float."),
        ("3", "Got 1 values."),
        ({"sum": "three"}, "sum: got 'three', wanted a number."),
        ({"thirds": ["a", 1]}, "thirds: got ['a', 1], wanted numbers."),
        ({"sum": [3]}, "sum holds 1 number, wanted one number."),
        ({"thirds": [1, 2, 3]}, "thirds holds 3 numbers, wanted 2 numbers."),
        (
            {"square": [1, 2]},
            "square holds 2 numbers, wanted an array of shape (2, 2).",
        ),
        ({"sum": True}, "sum: got True, wanted a number."),
        (lambda: 3, "it wants numbers, not a function. Blanks: sum, thirds, square."),
    ],
)
def test_answers_of_the_wrong_form_are_told(answer: Any, phrase: str) -> None:
    assert phrase in said(answer)


def test_nan_is_wrong() -> None:
    assert not SHEET.judge({**RIGHT, "sum": float("nan")}).passed


def test_a_single_blank_takes_a_bare_number() -> None:
    assert check("recurrent_factor", 0.986).passed
    assert check("recurrent_factor", [0.986]).passed
    assert check("recurrent_factor", {"factor": 0.9862}).passed
    wrong = check("recurrent_factor", 0.99)
    assert wrong.mistakes == ("linear",)
    assert "1 of 1" not in str(wrong)


def test_the_attention_sheet_by_hand() -> None:
    """Worked out on paper: sat = (2, 1) asks the, cat, sat."""
    by_hand = {
        "query": [2, 3],
        "scores": [3, 10, 11],
        "scaled": [2.12, 7.07, 7.78],
        "weights": [0.00, 0.33, 0.67],
        "output": [0.01, 1.33],
    }
    assert check("pencil_attention", by_hand).passed


def test_the_lookup_sheet_by_hand() -> None:
    by_hand = {
        "scores": [1, 2, 3],
        "divided": [0.5, 1, 1.5],
        "weights": [0.19, 0.31, 0.51],
        "output": [0.08, 1.12],
        "entropy": 1.02,
    }
    assert check("pencil_lookup", by_hand).passed
