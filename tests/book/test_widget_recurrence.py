"""Reach on its page, by keyboard from disk and by mouse over http."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from operating import slider, told
from operating.recurrence import check

Open = Callable[..., Any]


def test_reach_by_keyboard(show: Open) -> None:
    widget, visit = show("recurrence", disk=True)
    press = visit.page.keyboard.press
    first = check(widget)
    before = told(widget)

    slider(widget, "RNN factor").focus()
    for _ in range(4):
        press("ArrowRight")
    assert check(widget)["w"] == pytest.approx(first["w"] + 0.04)
    assert told(widget) != before
    press("End")  # explodes
    assert check(widget)["w"] == 1.2

    press("Tab")
    press("ArrowLeft")
    assert check(widget)["b"] == pytest.approx(first["b"] - 0.1)
    press("Tab")
    press("ArrowLeft")
    assert check(widget)["n"] == first["n"] - 1

    plot = slider(widget, "distance")
    plot.focus()
    press("ArrowRight")
    assert check(widget)["t"] == first["t"] + 1
    press("Home")
    assert check(widget)["t"] == 0
    press("End")
    assert check(widget)["t"] == first["n"] - 2
    press("PageDown")
    assert check(widget)["t"] == first["n"] - 12
    press("Escape")
    assert check(widget)["t"] == first["t"]

    widget.get_by_role("button", name="Reset").focus()
    press("Enter")
    assert check(widget) == first
    assert told(widget) == before


def test_reach_by_mouse(show: Open) -> None:
    widget, visit = show("recurrence")
    first = check(widget)
    mouse = visit.page.mouse
    box = slider(widget, "distance").bounding_box()
    place = lambda t: (box["x"] + 46 + (box["width"] - 62) * t / 100, box["y"] + 100)  # noqa: E731
    mouse.move(*place(first["t"]))
    mouse.down()
    mouse.move(*place(10), steps=4)
    assert check(widget)["t"] == 10
    mouse.move(*place(110), steps=4)  # beyond the picture
    assert check(widget)["t"] == first["n"] - 1
    mouse.move(*place(3), steps=2)
    mouse.up()
    mouse.move(*place(60))  # not held any more
    assert check(widget)["t"] == 3

    for name in ("RNN factor", "LSTM forget bias", "length"):
        track = slider(widget, name).bounding_box()
        before = check(widget)
        mouse.click(track["x"] + 0.2 * track["width"], track["y"] + track["height"] / 2)
        assert check(widget) != before
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first
