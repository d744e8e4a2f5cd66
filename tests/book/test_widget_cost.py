"""Cost on its page, by keyboard from disk and by mouse over http."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from operating import slider, told
from operating.cost import check

from transformer_lib.widgets.cost import DEVICES

Open = Callable[..., Any]


def test_cost_by_keyboard(show: Open) -> None:
    widget, visit = show("cost", disk=True)
    press = visit.page.keyboard.press
    first = check(widget)
    before = told(widget)

    slider(widget, "tokens").focus()
    press("ArrowRight")
    assert check(widget) == {**first, "n": 2 * first["n"]}
    assert told(widget) != before
    press("Home")
    assert check(widget)["n"] == 16
    press("End")
    assert check(widget)["n"] == 131_072
    press("PageDown")
    assert check(widget)["n"] == 16_384
    press("Escape")
    assert check(widget) == first

    press("Tab")
    press("ArrowRight")
    assert check(widget)["d"] == 2 * first["d"]
    press("Tab")
    press("Home")
    assert check(widget)["h"] == 1
    press("Tab")
    press("End")
    assert check(widget)["layers"] == 96

    widget.get_by_role("button", name="Reset").focus()
    press("Enter")
    assert check(widget) == first
    assert told(widget) == before


def test_cost_by_mouse(show: Open) -> None:
    widget, visit = show("cost")
    first = check(widget)
    mouse = visit.page.mouse
    box = slider(widget, "tokens").bounding_box()

    def place(power: int) -> tuple[float, float]:
        share = (power - 4) / 13
        return box["x"] + 52 + (box["width"] - 68) * share, box["y"] + 90

    mouse.move(*place(10))
    mouse.down()
    mouse.move(*place(6), steps=4)
    assert check(widget)["n"] == 64
    mouse.move(*place(30), steps=4)  # beyond the picture
    assert check(widget)["n"] == 131_072
    mouse.up()
    mouse.move(*place(8))  # not held any more
    assert check(widget)["n"] == 131_072

    for name in ("width", "heads", "layers"):
        track = slider(widget, name).bounding_box()
        before = check(widget)
        mouse.click(
            track["x"] + 0.85 * track["width"], track["y"] + track["height"] / 2
        )
        assert check(widget) != before
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first


@pytest.mark.parametrize("device", DEVICES)
def test_every_device_shows_the_numbers_of_the_reference(
    device: str, show: Open
) -> None:
    widget, _ = show("cost")
    widget.get_by_role("combobox", name="device").select_option(device)
    for key in ("Home", "End"):
        slider(widget, "tokens").press(key)
        assert check(widget)["device"] == device


def test_the_weights_of_a_long_text_do_not_fit_and_the_fused_kernel_keeps_none(
    show: Open,
) -> None:
    widget, _ = show("cost")
    assert "which fits into" in told(widget)
    slider(widget, "tokens").press("End")
    assert "which does not fit into" in told(widget)
    rows = widget.locator(".tl-cost tbody tr td:nth-child(3)").all_inner_texts()
    assert rows[2].endswith("TiB")
    assert rows[3].endswith("GiB")
