"""Beam on its page, by keyboard from disk and by mouse over http."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operating import slider, told
from operating.decoding import check

Open = Callable[..., Any]


def test_beam_by_keyboard(show: Open) -> None:
    widget, visit = show("decoding", disk=True)
    press = visit.page.keyboard.press
    first, before = check(widget), told(widget)
    slider(widget, "step").focus()
    press("ArrowRight")
    assert check(widget)["step"] == first["step"] + 1
    assert told(widget) != before
    press("Home")
    assert check(widget)["step"] == 1
    assert "nothing is finished yet" in told(widget)
    press("End")
    check(widget)
    assert "answer: 천이백만백오십이" in told(widget)
    press("Tab")  # to the beam size
    press("Home")
    assert check(widget)["beam"] == 1
    assert "answer: 천이백만오백" in told(widget)
    assert "does not fit" in told(widget)
    widget.get_by_role("button", name="Reset").focus()
    press("Enter")
    assert check(widget) == first
    assert told(widget) == before


def test_a_length_penalty_turns_the_short_answer_into_the_right_one(
    show: Open,
) -> None:
    widget, _ = show("decoding")
    first = check(widget)
    widget.locator("select").select_option("1")
    slider(widget, "step").press("End")
    slider(widget, "length penalty").press("Home")
    assert check(widget)["heard"] == 1
    assert "answer: 십사" in told(widget)
    slider(widget, "length penalty").press("PageUp")
    slider(widget, "length penalty").press("PageUp")
    slider(widget, "length penalty").press("PageUp")
    check(widget)
    assert "answer: 천사백사십이만팔천육" in told(widget)
    for heard in ("0", "1", "2"):
        widget.locator("select").select_option(heard)
        for size in range(4):
            slider(widget, "beam size").fill(str(size + 1))
            for step in range(1, 12):
                slider(widget, "step").fill(str(step))
                check(widget)
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first
