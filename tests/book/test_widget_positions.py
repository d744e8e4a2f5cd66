"""Positions on its page, by keyboard from disk and by mouse over http."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from operating import slider, told
from operating.positions import check

from transformer_lib.widgets.positions import SCHEMES

Open = Callable[..., Any]


def test_positions_by_keyboard(show: Open) -> None:
    widget, visit = show("positions", disk=True)
    press = visit.page.keyboard.press
    first = check(widget)
    before = told(widget)

    slider(widget, "asking place").focus()
    press("ArrowDown")
    moved = check(widget)
    assert moved == {**first, "asks": first["asks"] + 1}
    assert told(widget) != before
    press("Home")
    assert check(widget)["asks"] == 0
    assert check(widget)["offset"] == 0  # no place to its left
    press("Escape")
    assert check(widget)["asks"] == first["asks"]

    press("Tab")
    press("ArrowRight")
    assert check(widget)["offset"] == 1
    press("End")
    assert check(widget)["offset"] == first["length"] - 1 - first["asks"]
    press("PageUp")
    assert check(widget)["offset"] == first["length"] - 6 - first["asks"]
    press("Escape")
    assert check(widget) == first

    press("Tab")  # to the scheme
    press("Tab")  # to the base
    press("Home")
    assert check(widget)["base"] == 10
    press("Tab")
    press("ArrowLeft")
    assert check(widget)["width"] == first["width"] - 2
    press("Home")
    assert check(widget)["width"] == 2
    press("Tab")
    press("Home")
    short = check(widget)
    assert short["length"] == 4
    assert short["asks"] == 3  # the chosen places stay within the text

    widget.get_by_role("button", name="Reset").focus()
    press("Enter")
    assert check(widget) == first
    assert told(widget) == before


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_shows_the_numbers_of_the_reference(
    scheme: str, show: Open
) -> None:
    widget, _ = show("positions")
    widget.get_by_role("combobox", name="scheme").select_option(scheme)
    assert check(widget)["scheme"] == scheme
    turning = scheme in ("sinusoids", "RoPE")
    assert slider(widget, "base").is_enabled() == turning
    assert ("The offset decides" in told(widget)) == turning


def test_positions_by_mouse(show: Open) -> None:
    widget, visit = show("positions")
    first = check(widget)
    mouse = visit.page.mouse
    box = slider(widget, "asking place").bounding_box()
    tall = (320 - 48) / first["length"]
    row = lambda t: (box["x"] + box["width"] / 2, box["y"] + 26 + (t + 0.5) * tall)  # noqa: E731
    mouse.click(*row(9))
    assert check(widget) == {**first, "asks": 9}

    box = slider(widget, "offset").bounding_box()
    reach = first["length"] - 1
    place = lambda k: (  # noqa: E731
        box["x"] + 14 + (box["width"] - 28) * (k + reach) / (2 * reach),
        box["y"] + 150,
    )
    mouse.move(*place(0))
    mouse.down()
    mouse.move(*place(5), steps=4)
    assert check(widget)["offset"] == 5
    mouse.move(*place(-40), steps=4)  # beyond the picture
    assert check(widget)["offset"] == -9
    mouse.up()
    mouse.move(*place(3))  # not held any more
    assert check(widget)["offset"] == -9

    for name in ("base", "width", "length"):
        track = slider(widget, name).bounding_box()
        before = check(widget)
        mouse.click(track["x"] + 0.2 * track["width"], track["y"] + track["height"] / 2)
        assert check(widget) != before
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first


def test_one_frequency_cannot_tell_a_full_turn_and_many_can(show: Open) -> None:
    """Six radians are nearly a turn: with one pair, places 6 apart look alike."""
    widget, _ = show("positions")
    slider(widget, "width").press("Home")
    slider(widget, "offset").focus()
    while check(widget)["offset"] != -6:
        slider(widget, "offset").press("ArrowLeft")
    assert "= cos(6·1.0) = 0.96" in told(widget)
