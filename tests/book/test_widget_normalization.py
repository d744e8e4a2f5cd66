"""Depth on its page, by keyboard from disk and by mouse over http."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operating import told
from operating.normalization import RECORDED, check, layer_slider

Open = Callable[..., Any]


def test_depth_by_keyboard(show: Open) -> None:
    widget, visit = show("normalization", disk=True)
    press = visit.page.keyboard.press
    first = check(widget)
    before = told(widget)

    layer_slider(widget).focus()
    press("ArrowRight")
    press("ArrowUp")
    assert check(widget)["layer"] == first["layer"] + 2
    assert told(widget) != before
    press("End")
    assert check(widget)["layer"] == first["layers"]
    press("ArrowRight")  # there is no more
    press("PageDown")
    assert check(widget)["layer"] == first["layers"] - 6
    press("Home")
    assert check(widget)["layer"] == 1
    press("Escape")
    assert check(widget)["layer"] == first["layer"]
    press("End")

    press("Tab")  # to the arrangements
    press("ArrowDown")
    assert check(widget)["arrangement"] == "post-norm"
    press("ArrowDown")
    assert check(widget)["arrangement"] == "pre-norm"
    press("Tab")  # to the starts
    press("ArrowRight")
    assert check(widget)["start"] == "default"
    press("Tab")  # to the depth
    press("ArrowLeft")
    changed = check(widget)
    assert changed["layers"] == 12
    assert changed["layer"] == 12  # the layer that was read out is gone
    press("Home")
    assert check(widget)["layers"] == 2

    widget.get_by_role("button", name="Reset").focus()
    press("Enter")
    assert check(widget) == first
    assert told(widget) == before


def test_depth_by_mouse(show: Open) -> None:
    widget, visit = show("normalization")
    first = check(widget)
    mouse = visit.page.mouse
    box = layer_slider(widget).bounding_box()

    def place(layer: float) -> tuple[float, float]:
        share = layer / first["layers"]
        return box["x"] + 50 + (box["width"] - 66) * share, box["y"] + 100

    mouse.move(*place(first["layer"]))
    mouse.down()
    mouse.move(*place(10.2), steps=4)
    assert check(widget)["layer"] == 10
    mouse.move(*place(30), steps=3)  # beyond the picture
    assert check(widget)["layer"] == first["layers"]
    mouse.move(*place(-3), steps=3)
    assert check(widget)["layer"] == 1
    mouse.up()
    mouse.move(*place(12))  # not held any more
    assert check(widget)["layer"] == 1

    for arrangement in RECORDED["arrangements"]:
        for start in RECORDED["starts"]:
            widget.locator(f'input[value="{arrangement}"]').click()
            widget.locator(f'input[value="{start}"]').click()
            found = check(widget)
            assert (found["arrangement"], found["start"]) == (arrangement, start)
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first
