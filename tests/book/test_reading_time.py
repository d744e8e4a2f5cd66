from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location(
    "reading_time", ROOT / "book/_ext/reading_time.py"
)
assert spec is not None
assert spec.loader is not None
reading_time = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reading_time)


def notebook(*cells: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {
        "cells": [
            {"cell_type": kind, "source": [source], "metadata": {"tags": tags}}
            for kind, source, tags in cells
        ]
    }


def test_two_hundred_words_take_a_minute() -> None:
    assert reading_time.minutes(notebook(("markdown", "word " * 2000, []))) == 10


def test_code_costs_time_and_hidden_solutions_do_not() -> None:
    code = [("code", "x = 1", [])] * 10
    hidden = [("code", "x = 1", ["hide-cell"])] * 30
    assert reading_time.minutes(notebook(*code)) == 3
    assert reading_time.minutes(notebook(*code, *hidden)) == 3


def test_folded_hints_do_not_count() -> None:
    text = "word " * 400 + "<details>" + "hint " * 1000 + "</details>"
    assert reading_time.minutes(notebook(("markdown", text, []))) == 2


def test_nothing_takes_less_than_a_minute() -> None:
    assert reading_time.minutes(notebook()) == 1


def test_exercises_and_the_second_reading_do_not_count_and_the_end_does() -> None:
    story = ("markdown", "word " * 400, [])
    exercises = ("markdown", "## Exercises\n\n" + "word " * 4000, [])
    stub = ("code", "x = 1", [])
    ending = ("markdown", "## What we have\n\n" + "word " * 600, [])
    second = ("markdown", "## Backward (second reading)\n\n" + "word " * 4000, [])
    parts = (story, exercises, *[stub] * 20, ending, second, *[stub] * 20)
    assert reading_time.minutes(notebook(*parts)) == 5


def test_symbols_links_and_equations() -> None:
    symbols = "The key $k_j W_{K}^\\top$ is [here](https://a.b/c/d/e/f)."
    assert reading_time._words(symbols) == 5
    assert reading_time._words("so $$a = b + c + d$$ it is") == 13
