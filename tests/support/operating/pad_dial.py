"""PadDial: one slider over recorded runs."""

from __future__ import annotations

from typing import Any

from operating import number, slider, start_of, told
from transformer_lib.widgets.base import fixed

SLIDER = "extra padding"

READ = """card => [...card.querySelectorAll(".tl-dates tbody tr")].map(row => [
  row.querySelector("th").textContent,
  ...[...row.querySelectorAll("td")].map(cell => [
    cell.textContent, [...cell.querySelectorAll(".tl-wrong")].length])])"""


def check(widget: Any) -> dict[str, Any]:
    """Compare what PadDial shows with the record; return what is set."""
    start = start_of(widget)
    pads = int(number(widget.locator(".tl-slider .tl-number").inner_text()))
    line = told(widget)
    for key in ("with_mask", "without_mask"):
        middle, low, high = (fixed(100 * x, 1) for x in start[key][pads])
        assert f"{middle} % right ({low} % to {high} %)" in line
    rows = widget.evaluate(READ)
    assert len(rows) == len(start["written"]) == 3
    for d, (asked, *answers) in enumerate(rows):
        assert asked == start["written"][d] + "·" * pads
        for m, (answer, wrong) in enumerate(answers):
            assert answer == start["answers"][(pads * 2 + m) * 3 + d]
            right = start["isos"][d]
            assert wrong == sum(a != b for a, b in zip(answer, right, strict=True))
    return {"pads": pads}


def use_all(widget: Any) -> None:
    """As much padding as there is."""
    slider(widget, SLIDER).press("End")
