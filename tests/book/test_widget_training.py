"""Training on its page, by keyboard from disk, by mouse over http, and playing."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from operating import slider, told
from operating.training import check, choice, rows

from transformer_lib.widgets.base import recording

Open = Callable[..., Any]
RUN = recording("training")
LAST = len(RUN["steps"]) - 1


def show_still(show: Open, **options: Any) -> tuple[Any, Any]:
    """Training on its page, where time passes only when the test says so."""
    start = datetime.datetime(2026, 1, 1)

    def prepare(visit: Any) -> None:
        visit.page.clock.install(time=start)

    widget, visit = show("training", prepare=prepare, **options)
    visit.page.clock.pause_at(start + datetime.timedelta(hours=1))
    return widget, visit


def button(widget: Any, name: str) -> Any:
    return widget.get_by_role("button", name=name, exact=True)


def test_training_by_keyboard(show: Open) -> None:
    widget, visit = show("training", disk=True)
    press = visit.page.keyboard.press
    first, before = check(widget), told(widget)
    slider(widget, "step").focus()
    press("ArrowRight")
    assert check(widget)["snapshot"] == first["snapshot"] + 1
    assert told(widget) != before
    press("Home")
    assert check(widget)["snapshot"] == 0
    press("End")
    assert check(widget)["snapshot"] == LAST
    assert ": right" in told(widget)
    press("Tab")  # to the date
    press("ArrowDown")
    assert check(widget)["example"] == first["example"] + 1
    press("Tab")  # to the attention
    press("End")
    assert check(widget)["head"] == RUN["heads"]
    press("Tab")  # to the rows
    press("ArrowDown")
    assert check(widget)["place"] == first["place"] + 1
    press("End")
    assert check(widget)["place"] == 10
    press("ArrowDown")  # there is no more
    assert check(widget)["place"] == 10
    press("Home")
    press("ArrowUp")
    assert check(widget)["place"] == 0
    button(widget, "Reset").focus()
    press("Enter")
    assert check(widget) == first
    assert told(widget) == before


def test_training_by_mouse(show: Open) -> None:
    widget, visit = show("training")
    first = check(widget)
    mouse = visit.page.mouse
    box = widget.locator(".tl-run-plot").bounding_box()

    def place(share: float) -> tuple[float, float]:
        return box["x"] + 46 + (box["width"] - 60) * share, box["y"] + 60

    mouse.move(*place(0.5))
    mouse.down()
    mouse.move(*place(1.5), steps=3)  # beyond the picture
    assert check(widget)["snapshot"] == LAST
    mouse.move(*place(0.5), steps=3)
    quarter = RUN["steps"][check(widget)["snapshot"]] / RUN["steps"][-1]
    assert abs(quarter - 0.25) < 0.03  # steps lie by their square roots
    mouse.move(*place(-1), steps=3)
    assert check(widget)["snapshot"] == 0
    mouse.up()
    rows(widget).get_by_role("option").nth(2).click()
    assert check(widget)["place"] == 2
    button(widget, "Reset").click()
    assert check(widget) == first


def test_every_snapshot_of_every_date_and_head_is_shown_as_recorded(show: Open) -> None:
    widget, _ = show("training")
    for example in range(len(RUN["examples"])):
        choice(widget, "date").select_option(str(example))
        for snapshot in range(0, LAST + 1, 3):
            slider(widget, "step").fill(str(snapshot))
            check(widget)
    slider(widget, "step").fill(str(LAST // 2))
    for head in choice(widget, "attention").locator("option").all():
        choice(widget, "attention").select_option(head.get_attribute("value"))
        check(widget)


def test_it_plays_to_the_end_stops_and_begins_again(show: Open) -> None:
    widget, visit = show_still(show)
    first = check(widget)
    status = widget.get_by_role("status")
    button(widget, "Play").press("Enter")
    assert check(widget)["snapshot"] == first["snapshot"] + 1
    assert status.get_attribute("aria-live") == "off"  # else it would never be silent
    visit.page.clock.run_for(1000)
    assert check(widget)["snapshot"] == first["snapshot"] + 3
    button(widget, "Pause").press("Enter")
    assert status.get_attribute("aria-live") == "polite"
    visit.page.clock.run_for(3000)
    assert check(widget)["snapshot"] == first["snapshot"] + 3
    button(widget, "Play").click()
    visit.page.clock.run_for(500 * (LAST + 2))
    assert check(widget)["snapshot"] == LAST
    assert button(widget, "Play").count() == 1
    button(widget, "Play").click()
    assert check(widget)["snapshot"] == 0
    visit.page.clock.run_for(1000)
    button(widget, "Reset").click()
    visit.page.clock.run_for(3000)
    assert check(widget) == first


@pytest.mark.parametrize("times", [1, 2])
def test_who_wants_no_motion_takes_one_step_at_a_time(show: Open, times: int) -> None:
    widget, visit = show_still(show, reduced_motion="reduce")
    first = check(widget)
    for _ in range(times):
        button(widget, "Next step").click()
    visit.page.clock.run_for(5000)
    assert check(widget)["snapshot"] == first["snapshot"] + times
    assert widget.get_by_role("status").get_attribute("aria-live") == "polite"
