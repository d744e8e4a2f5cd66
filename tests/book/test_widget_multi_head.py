"""Heads on its page, by keyboard from disk and by mouse over http."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operating import slider, told
from operating.multi_head import check

Open = Callable[..., Any]


def test_heads_by_keyboard(show: Open) -> None:
    widget, visit = show("multi_head", disk=True)
    press = visit.page.keyboard.press
    first = check(widget)
    before = told(widget)
    assert first == {"heads": 2, "length": 1024, "sentence": 0, "asks": 6}

    slider(widget, "heads").focus()
    press("ArrowRight")
    assert check(widget)["heads"] == 4
    assert "2 heads ask for nothing" in told(widget)
    press("End")
    assert check(widget)["heads"] == 8
    press("Home")
    assert check(widget)["heads"] == 1
    assert told(widget) != before

    press("Tab")  # to the sentence
    press("ArrowDown")
    other = check(widget)
    assert (other["sentence"], other["asks"]) == (1, 6)
    press("ArrowDown")
    assert check(widget)["asks"] == 7  # the last word of a longer sentence
    press("Tab")  # to the word that asks
    press("ArrowUp")
    assert check(widget)["asks"] == 6
    press("Home")
    assert check(widget)["asks"] == 0

    slider(widget, "tokens").focus()
    press("ArrowRight")
    assert check(widget)["length"] == 2048
    press("Home")
    assert check(widget)["length"] == 16
    press("End")
    assert check(widget)["length"] == 8192

    widget.get_by_role("button", name="Reset").focus()
    press("Enter")
    assert check(widget) == first
    assert told(widget) == before


def test_heads_by_mouse(show: Open) -> None:
    widget, visit = show("multi_head")
    first = check(widget)
    widget.locator(".tl-one-head").nth(1).locator(".tl-word").nth(4).click()
    assert check(widget)["asks"] == 4  # CS224n asks
    track = slider(widget, "heads").bounding_box()
    visit.page.mouse.click(
        track["x"] + track["width"] - 4, track["y"] + track["height"] / 2
    )
    assert check(widget)["heads"] == 8
    widget.get_by_label("sentence").select_option(index=1)
    assert check(widget)["sentence"] == 1
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first
    assert visit.errors == []
    assert visit.off_site == []


def test_the_costs_that_stay_and_the_cost_that_grows(show: Open) -> None:
    widget, _ = show("multi_head")

    def column(place: int) -> list[str]:
        rows = widget.locator(".tl-cost tbody tr").all()
        return [row.locator("td").nth(place).inner_text() for row in rows]

    check(widget)
    slider(widget, "heads").press("End")
    one, eight = column(0), column(1)
    assert one[2:4] == eight[2:4]  # multiplications
    assert (one[4], eight[4]) == ("4 MiB", "32 MiB")
    assert (one[1], eight[1]) == ("512", "64")
