"""Reach: sliders, and a plot whose distance is chosen."""

from __future__ import annotations

import math
import re
from typing import Any

from operating import number, slider, told
from transformer_lib.reference import attention_reach, lstm_reach, scalar_reach, sigmoid
from transformer_lib.widgets.base import fixed, short

SLIDER = "RNN factor"


def check(widget: Any) -> dict[str, float]:
    """Compare what Reach shows with the reference; return what is set."""
    numbers = widget.locator(".tl-slider .tl-number").all_inner_texts()
    w, b, n = (number(text) for text in numbers)
    plot = slider(widget, "distance")
    t = int(plot.get_attribute("aria-valuenow"))
    wanted = [
        short(float(scalar_reach(w, t))),
        short(float(lstm_reach(b, t))),
        short(float(attention_reach(int(n)))),
    ]
    strong = widget.locator(".tl-told b").all_inner_texts()
    assert strong[0].startswith(f"{t} step")
    assert strong[1:] == wanted
    labels = widget.locator(".tl-plot-label").all_text_contents()
    shown = [re.sub(r"^(RNN|LSTM|attention) | [↓↑]$", "", label) for label in labels]
    assert shown == wanted
    line = told(widget)
    assert f"1/{n:.0f}" in line
    assert f"{float(sigmoid(b)):.3f}" in line
    if w not in (0.0, 1.0):
        verb = "halves" if w < 1 else "doubles"
        steps = fixed(math.log(2) / abs(math.log(w)), 1)
        assert f"{verb} every {steps} steps" in line
    return {"w": w, "b": b, "n": n, "t": t}


def use_all(widget: Any) -> None:
    """Explode, and look at the farthest distance."""
    slider(widget, SLIDER).press("Home")
    slider(widget, "distance").press("End")
