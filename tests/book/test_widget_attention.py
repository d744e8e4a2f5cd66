"""The attention calculator on its page: keyboard, mouse, finger, arithmetic."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from operating import MINUS, number, start_of, told
from operating.attention import cell, check, grids

Open = Callable[..., Any]


def test_attention_by_keyboard(show: Open) -> None:
    widget, visit = show("attention", disk=True)
    press = visit.page.keyboard.press
    first = check(widget)
    before = told(widget)

    cell(widget, "W Q", 0, 0).focus()
    assert told(widget) != before
    for key in ("ArrowRight", "ArrowDown", "+", "+", "-", "ArrowUp", "7", "-"):
        press(key)
        check(widget)
    start = np.array(start_of(widget)["W_Q"], float)
    assert grids(widget)["W Q"][1, 1] == start[1, 1] + 1
    assert grids(widget)["W Q"][0, 1] == 6
    for _ in range(5):
        press("+")
    assert grids(widget)["W Q"][0, 1] == 9  # the largest
    press("Escape")
    assert grids(widget)["W Q"][0, 1] == start[0, 1]

    scaling = widget.get_by_role("checkbox")
    scaling.focus()
    press("Space")
    assert check(widget)["scaled"] is not first["scaled"]
    press("Tab")
    press("Home")
    assert check(widget)["T"] == pytest.approx(0.1)
    press("End")
    assert check(widget)["T"] == 10

    widget.get_by_role("button", name="Reset").focus()
    press("Enter")
    assert check(widget) == first
    assert told(widget) == before


def test_attention_by_mouse(show: Open) -> None:
    widget, _ = show("attention")
    first = check(widget)
    more = widget.get_by_role("button", name="plus 1")
    less = widget.get_by_role("button", name="minus 1")
    assert more.is_disabled() == (start_of(widget)["chosen"][0][0] not in "XW")
    cell(widget, "X, the tokens", 1, 0).click()
    more.click()
    more.click()
    less.click()
    assert check(widget)["X"][1][0] == first["X"][1][0] + 1
    widget.get_by_role("checkbox").click()
    assert check(widget)["scaled"] is not first["scaled"]
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first


def test_each_cell_of_the_calculator_tells_its_arithmetic(show: Open) -> None:
    widget, _ = show("attention")
    tokens = start_of(widget)["tokens"]
    check(widget)
    told_by = widget.evaluate(
        """card => [...card.querySelectorAll('[role="grid"]')].flatMap(grid =>
          [...grid.querySelectorAll('[role="row"]')].slice(1).flatMap((row, i) =>
            [...row.querySelectorAll('[role="gridcell"]')].map((cell, j) => {
              cell.click();
              return [grid.getAttribute("aria-label").split(",")[0], i, j, cell.innerText,
                card.querySelector('[role="status"]').innerText,
                card.querySelectorAll('[role="gridcell"][aria-selected="true"]').length,
                cell.getAttribute("aria-selected"),
                card.querySelectorAll(".tl-source").length];
            })))"""
    )
    assert len(told_by) == 6 + 3 * 4 + 3 * 6 + 2 * 9 + 6
    for name, i, j, text, line, chosen, selected, sources in told_by:
        assert (chosen, selected) == (1, "true")
        if name in ("scores", "weights"):
            assert line.startswith(f"{tokens[i]} asks {tokens[j]}:")
            word = name.removesuffix("s")
            result = re.search(rf"^{word} = .* = ([-{MINUS}\d.]+)$", line, re.M)
        else:
            result = re.search(rf"(?:^| = )([-{MINUS}\d.]+)(?:$|  )", line, re.M)
        assert result is not None, line
        assert abs(number(result[1]) - number(text)) <= 0.0501
        if not name.startswith(("X", "W")):
            assert sources >= 2  # the cells that the number is made of are marked
    # Score and weight of a pair are told together; all else differs.
    assert len({line for *_, line, _, _, _ in told_by}) == len(told_by) - 9


def test_fingers_change_a_number_of_the_calculator(show: Open) -> None:
    widget, _ = show("attention", width=360, has_touch=True)
    before = check(widget)["X"]
    cell(widget, "X, the tokens", 2, 1).tap()
    widget.get_by_role("button", name="plus 1").tap()
    assert check(widget)["X"][2][1] == before[2][1] + 1
    size = cell(widget, "X, the tokens", 2, 1).bounding_box()
    assert min(size["width"], size["height"]) >= 24
