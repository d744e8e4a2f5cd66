"""Positions: a map, a curve, clocks, a choice and three sliders."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from operating import MINUS, number, slider, told
from transformer_lib import reference
from transformer_lib.widgets.base import fixed, short

SLIDER = "width"

HANDS = """card => [...card.querySelectorAll('.tl-clock-whole')].filter(
  one => !one.hidden).map(one => [...one.querySelectorAll('line')].map(
  line => [Number(line.getAttribute('x2')), Number(line.getAttribute('y2'))]))"""


def table(scheme: str, base: float, width: int, length: int) -> np.ndarray:
    """The vectors of all places, by the reference."""
    if scheme == "index":
        return reference.index_positions(length, width)
    if scheme == "index / length":
        return reference.index_over_length_positions(length, width)
    if scheme == "RoPE":
        return reference.rope(np.tile([1.0, 0.0], (length, width // 2)), base=base)
    return reference.sinusoidal_positions(length, width, base)


def check(widget: Any) -> dict[str, Any]:
    """Compare what Positions shows with the reference; return what is set."""
    scheme = widget.get_by_role("combobox", name="scheme").input_value()
    base, width, length = (
        number(text)
        for text in widget.locator(".tl-slider .tl-number").all_inner_texts()
    )
    asks = int(slider(widget, "asking place").get_attribute("aria-valuenow"))
    offset = int(slider(widget, "offset").get_attribute("aria-valuenow"))
    answers = asks + offset
    P = table(scheme, base, int(width), int(length))
    products = P @ P.T
    digits = 0 if scheme == "index" else 2

    line = told(widget)
    found = re.fullmatch(
        r"Place (\d+) asks place (\d+), (.*):\n(.*) = (.*)\n"
        rf"All pairs at offset ({MINUS}?\d+): (\S+) to (\S+)\.\n(.*)",
        line,
    )
    assert found is not None, line
    assert (int(found[1]), int(found[2])) == (asks, answers)
    assert int(number(found[6])) == offset
    pairs = np.diagonal(products, offset)
    room = 0.51 * 10.0**-digits
    for shown, wanted in zip(
        (found[5], found[7], found[8]),
        (products[asks, answers], pairs.min(), pairs.max()),
        strict=True,
    ):
        assert abs(number(shown) - wanted) <= room, (shown, wanted)
    decides = np.ptp(pairs) < 1e-9 * max(1.0, pairs.max())
    assert ("The offset decides" in found[9]) == decides
    label = widget.locator(".tl-offsets .tl-plot-label").text_content()
    assert abs(number(label) - products[asks, answers]) <= room
    assert found[5] == label

    if scheme in ("sinusoids", "RoPE"):
        rates = base ** (-2 * np.arange(int(width) // 2) / width)
        assert f"cos({abs(offset)}·{short(float(rates[0]))})" in found[4]
        named = widget.locator(".tl-clock-whole span").all_inner_texts()
        hands = widget.evaluate(HANDS)
        assert len(hands) == min(8, int(width) // 2)
        assert named[: len(hands)] == [short(float(r)) for r in rates[: len(hands)]]
        for pair, (key, query) in enumerate(hands):
            for hand, place in ((query, asks), (key, answers)):
                x, y = P[place, 2 * pair : 2 * pair + 2]
                assert np.allclose(hand, [26 * x, -26 * y], atol=0.006)
    else:
        one = (lambda t: str(t)) if digits == 0 else (lambda t: fixed(t / length, 2))
        assert found[4].endswith(f"= {width:.0f}·{one(asks)}·{one(answers)}")
        assert widget.evaluate(HANDS) == []
    return {
        "scheme": scheme, "base": base, "width": int(width), "length": int(length),
        "asks": asks, "offset": offset,
    }  # fmt: skip


def use_all(widget: Any) -> None:
    """The longest numbers: indices, as many places and columns as there can be."""
    slider(widget, "length").press("End")
    slider(widget, "width").press("End")
    slider(widget, "asking place").press("End")
    widget.get_by_role("combobox", name="scheme").select_option("index")
