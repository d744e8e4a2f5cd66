"""PadDial on its page, by keyboard from disk and by mouse over http."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operating import slider, told
from operating.pad_dial import check

Open = Callable[..., Any]


def test_pad_dial_by_keyboard(show: Open) -> None:
    widget, visit = show("pad_dial", disk=True)
    press = visit.page.keyboard.press
    first, before = check(widget), told(widget)
    slider(widget, "extra padding").focus()
    press("ArrowRight")
    assert check(widget)["pads"] == first["pads"] + 1
    assert told(widget) != before
    press("Home")
    assert check(widget)["pads"] == 0
    assert "padded as in training" in told(widget)
    press("End")
    assert check(widget)["pads"] == 30
    assert widget.locator(".tl-wrong").count() > 0
    widget.get_by_role("button", name="Reset").focus()
    press("Enter")
    assert check(widget) == first
    assert told(widget) == before


def test_pad_dial_by_mouse(show: Open) -> None:
    widget, visit = show("pad_dial")
    first = check(widget)
    plot = widget.locator(".tl-dial").bounding_box()
    mouse = visit.page.mouse
    place: Callable[[float], tuple[float, float]] = lambda pads: (  # noqa: E731
        plot["x"] + 46 + (plot["width"] - 60) * pads / 30, plot["y"] + 100,
    )  # fmt: skip
    mouse.move(*place(first["pads"]))
    mouse.down()
    mouse.move(*place(20), steps=4)
    assert check(widget)["pads"] == 20
    mouse.move(*place(40), steps=4)  # beyond the picture
    mouse.up()
    assert check(widget)["pads"] == 30
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first
