"""Lookup on its page, by keyboard from disk, by mouse and by finger over http."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from operating import slider, start_of, told
from operating.lookup import check

Open = Callable[..., Any]


def test_lookup_by_keyboard(show: Open) -> None:
    widget, visit = show("lookup", disk=True)
    press = visit.page.keyboard.press
    first = check(widget)
    before = told(widget)
    x, y = first["query"]

    slider(widget, "query").focus()
    for key in ("ArrowLeft", "ArrowLeft", "ArrowUp"):
        press(key)
    assert check(widget)["query"] == pytest.approx((x - 0.10, y + 0.05))
    assert told(widget) != before
    for _ in range(14):
        press("Shift+ArrowDown")  # five steps at once
    assert check(widget)["query"][1] == -1.5  # the edge of the plane
    press("Escape")
    assert check(widget)["query"] == (x, y)

    press("Tab")  # to the keys
    press("Home")
    assert check(widget)["chosen"] == 0
    press("ArrowDown")
    press("+")
    press("+")
    changed = check(widget)
    assert changed["chosen"] == 1
    assert changed["values"][1] == first["values"][1] + 2
    press("4")
    assert check(widget)["values"][1] == 4
    press("Escape")
    assert check(widget)["values"] == first["values"]

    press("Tab")  # to the temperature
    press("End")
    warm = check(widget)
    assert warm["temperature"] == 100
    weights = [float(t) for t in re.findall(r"weight\s+([\d.]+)", widget.inner_text())]
    assert max(weights) - min(weights) <= 0.011  # nearly the average
    press("Home")
    assert check(widget)["temperature"] == 0.01
    assert "one key has it all" in told(widget) or "keys shared" in told(widget)

    widget.get_by_role("button", name="Reset").focus()
    press("Space")
    assert check(widget) == first


def test_lookup_by_mouse(show: Open) -> None:
    widget, visit = show("lookup")
    mouse = visit.page.mouse
    first = check(widget)
    box = widget.locator(".tl-plane").bounding_box()

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            box["x"] + box["width"] * (x + 1.5) / 3,
            box["y"] + box["height"] * (1.5 - y) / 3,
        )

    mouse.move(*place(*first["query"]))
    mouse.down()
    mouse.move(*place(-0.5, 0.25), steps=5)
    assert check(widget)["query"] == pytest.approx((-0.5, 0.25), abs=0.051)
    mouse.move(*place(-0.5, 3.0), steps=3)
    assert check(widget)["query"][1] == 1.5
    mouse.up()
    mouse.move(*place(1, 1))
    assert check(widget)["query"][1] == 1.5

    key = start_of(widget)["places"][-1]
    mouse.click(*place(*key))  # a key is chosen, the query stays
    changed = check(widget)
    assert changed["chosen"] == len(first["values"]) - 1
    assert changed["query"][1] == 1.5
    widget.get_by_role("option").nth(2).click()
    assert check(widget)["chosen"] == 2
    widget.get_by_role("button", name="minus 1").click()
    assert check(widget)["values"][2] == first["values"][2] - 1
    widget.get_by_role("button", name="plus 1").click()
    track = slider(widget, "temperature").bounding_box()
    mouse.click(track["x"] + 0.7 * track["width"], track["y"] + track["height"] / 2)
    assert check(widget)["temperature"] > 1
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first


def test_fingers_drag_the_query_and_scroll_the_page(show: Open) -> None:
    widget, visit = show("lookup", width=360, has_touch=True)
    first = check(widget)
    session = visit.context.new_cdp_session(visit.page)

    def swipe(start: tuple[float, float], end: tuple[float, float]) -> None:
        def send(kind: str, *points: tuple[float, float]) -> None:
            session.send(
                "Input.dispatchTouchEvent",
                {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]},
            )

        send("touchStart", start)
        for share in (0.25, 0.5, 0.75, 1.0):
            send(
                "touchMove",
                tuple(a + (b - a) * share for a, b in zip(start, end, strict=True)),
            )  # type: ignore[arg-type]
        send("touchEnd")

    def box() -> dict[str, float]:
        return dict(widget.locator(".tl-plane").bounding_box())

    def place(x: float, y: float) -> tuple[float, float]:
        b = box()
        return b["x"] + b["width"] * (x + 1.5) / 3, b["y"] + b["height"] * (1.5 - y) / 3

    swipe(place(*first["query"]), place(-0.4, 0.6))
    assert check(widget)["query"] == pytest.approx((-0.4, 0.6), abs=0.051)

    at = visit.page.evaluate("scrollY")
    x, y = place(-0.4, -0.2)
    swipe((x, y), (x, y - 120))  # elsewhere a finger scrolls
    visit.page.wait_for_function("at => scrollY > at + 40", arg=at)
    assert check(widget)["query"] == pytest.approx((-0.4, 0.6), abs=0.051)

    widget.locator(".tl-plane").evaluate(
        """async plane => {
          plane.scrollIntoView({ block: "center", behavior: "instant" });
          for (let before = -1; scrollY !== before; ) {  // a swipe may roll on
            before = scrollY;
            await new Promise(done => setTimeout(done, 250));
          }
        }"""
    )
    visit.page.touchscreen.tap(*place(0.5, -0.5))
    assert check(widget)["query"] == pytest.approx((0.5, -0.5), abs=0.051)
    for button in widget.get_by_role("button").all():
        size = button.bounding_box()
        assert min(size["width"], size["height"]) >= 24  # WCAG 2.2, target size


def test_a_value_travels_unless_motion_is_unwanted(show: Open) -> None:
    read = "node => parseFloat(getComputedStyle(node).transitionDuration)"
    widget, _ = show("lookup")
    assert 0 < widget.locator(".tl-marker").evaluate(read) < 0.2
    widget, _ = show("lookup", reduced_motion="reduce")
    assert widget.locator(".tl-marker").evaluate(read) == 0
