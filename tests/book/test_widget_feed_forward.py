"""Bend on its page, by keyboard from disk and by mouse over http."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from operating import slider, told
from operating.feed_forward import check

Open = Callable[..., Any]


def cell(widget: Any, name: str, row: int, column: int) -> Any:
    rows = widget.get_by_role("grid", name=name).get_by_role("row")
    return rows.nth(row + 1).get_by_role("gridcell").nth(column)


def test_bend_by_keyboard(show: Open) -> None:
    widget, visit = show("feed_forward", disk=True)
    press = visit.page.keyboard.press
    first = check(widget)
    before = told(widget)
    assert first["hits"] == 3  # one number is wrong at the start
    assert first["point"] == (1.0, 1.0)

    slider(widget, "point").focus()
    for key in ("ArrowLeft", "ArrowDown", "Shift+ArrowDown"):
        press(key)
    assert check(widget)["point"] == pytest.approx((0.95, 0.70))
    assert told(widget) != before
    for _ in range(4):
        press("Shift+ArrowRight")
    assert check(widget)["point"][0] == 1.5  # the edge of the plane
    press("Escape")
    assert check(widget)["point"] == (1.0, 1.0)

    press("Tab")  # to the numbers of the units: the wrong one is chosen
    press("-")
    solved = check(widget)
    assert solved["network"][1][3] == first["network"][1][3] - 1
    assert solved["hits"] == 4
    press("ArrowUp")
    press("Home")
    press("5")
    assert check(widget)["network"][0][0] == 5
    press("Escape")
    assert check(widget)["network"][0][0] == first["network"][0][0]

    press("Tab")  # to the corners
    press("ArrowDown")
    assert check(widget)["point"] in [(0.0, 1.0), (1.0, 1.0)]
    press("Home")
    press("Tab")  # to the number of hidden units
    press("End")
    eight = check(widget)
    assert len(eight["network"]) == 8
    assert eight["hits"] == 4  # the other six are 0 on all corners
    press("Home")
    assert check(widget)["network"] == solved["network"]

    press("Tab")
    press("Space")  # no bend
    flat = check(widget)
    assert not flat["bend"]
    assert flat["hits"] < 4
    assert "one flat slope" in told(widget)

    widget.get_by_role("button", name="Reset").focus()
    press("Enter")
    assert check(widget) == first
    assert told(widget) == before


def test_bend_by_mouse(show: Open) -> None:
    widget, visit = show("feed_forward")
    mouse = visit.page.mouse
    first = check(widget)
    box = widget.locator(".tl-plane").bounding_box()

    def place(a: float, b: float) -> tuple[float, float]:
        return (
            box["x"] + box["width"] * (a + 0.5) / 2,
            box["y"] + box["height"] * (1.5 - b) / 2,
        )

    mouse.move(*place(1, 1))
    mouse.down()
    mouse.move(*place(0.3, 0.6), steps=5)
    assert check(widget)["point"] == pytest.approx((0.3, 0.6), abs=0.051)
    mouse.move(*place(0.3, 3), steps=3)
    assert check(widget)["point"][1] == 1.5
    mouse.up()
    mouse.move(*place(1, 1))  # not held any more
    assert check(widget)["point"][1] == 1.5

    cell(widget, "corners", 2, 1).click()
    assert check(widget)["point"] == (1.0, 0.0)
    cell(widget, "hidden units", 1, 3).click()
    widget.get_by_role("button", name="minus 1").click()
    assert check(widget)["hits"] == 4
    widget.get_by_role("checkbox").click()
    assert check(widget)["hits"] < 4
    track = slider(widget, "hidden units").bounding_box()
    mouse.click(track["x"] + 0.9 * track["width"], track["y"] + track["height"] / 2)
    assert len(check(widget)["network"]) > 5
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first
