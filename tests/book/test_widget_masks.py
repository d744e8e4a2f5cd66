"""MaskBuilder on its page, by keyboard from disk and by mouse over http."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from operating import slider, told
from operating.masks import check

from transformer_lib.widgets.masks import HOW

Open = Callable[..., Any]


def cell(widget: Any, row: int, column: int) -> Any:
    rows = widget.get_by_role("grid").get_by_role("row")
    return rows.nth(row + 1).get_by_role("gridcell").nth(column)


def test_masks_by_keyboard(show: Open) -> None:
    widget, visit = show("masks", disk=True)
    press = visit.page.keyboard.press
    first, before = check(widget), told(widget)
    row, column = first["chosen"]
    cell(widget, row, column).focus()
    press("Space")  # closes what the rule leaves open
    closed = check(widget)
    assert closed["weights"][row][column] == 0.0
    assert "1 closed that the rule leaves open" in told(widget)
    press("Space")
    assert check(widget) == first
    for _ in range(3):
        press("ArrowRight")
    assert check(widget)["chosen"] == (row, column + 3)
    press("Enter")  # opens what the rule hides
    assert "1 leak; after two layers" in told(widget)
    check(widget)
    press("Escape")
    assert check(widget)["weights"] == first["weights"]

    press("Tab")  # to the checkbox
    press("Space")
    assert not check(widget)["causal"]
    press("Tab")
    press("ArrowLeft")
    assert check(widget)["length"] == first["length"] - 1
    press("Home")
    assert check(widget)["length"] == 1
    press("Tab")
    press("ArrowDown")
    assert check(widget)["how"] == HOW[1]
    assert "30 leaks" in told(widget)
    widget.get_by_role("button", name="Reset").focus()
    press("Enter")
    assert check(widget)["weights"] == first["weights"]
    assert cell(widget, row, column).get_attribute("aria-selected") == "true"
    assert told(widget) == before


def test_masks_by_mouse(show: Open) -> None:
    widget, _ = show("masks")
    first = check(widget)
    cell(widget, 1, 4).click()
    opened = check(widget)
    assert opened["chosen"] == (1, 4)
    assert opened["weights"][1][4] > 0
    assert "1 leak; after two layers" in told(widget)
    cell(widget, 1, 4).click()
    assert check(widget)["weights"] == first["weights"]
    cell(widget, 0, 0).click()
    assert "nothing to see" in told(widget)
    assert not np.any(check(widget)["weights"][0])
    widget.get_by_role("checkbox").click()
    assert not check(widget)["causal"]
    widget.locator("select").select_option(index=2)
    assert check(widget)["how"] == HOW[2]
    track = slider(widget, "real tokens").bounding_box()
    slider(widget, "real tokens").click(position={"x": 4, "y": track["height"] / 2})
    assert check(widget)["length"] == 1
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first


def test_a_finger_opens_a_cell(show: Open) -> None:
    widget, _ = show("masks", width=360, has_touch=True)
    cell(widget, 0, 5).tap()
    assert check(widget)["weights"][0][5] > 0
    size = cell(widget, 0, 5).bounding_box()
    assert min(size["width"], size["height"]) >= 24
