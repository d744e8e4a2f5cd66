"""Lookup: a query in the plane, keys to choose, their values, a temperature."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from operating import HALF_DIGIT, MINUS, number, slider, start_of, told
from transformer_lib.reference import entropy, soft_lookup
from transformer_lib.widgets.base import fixed

SLIDER = "temperature"


def check(widget: Any) -> dict[str, Any]:
    """Compare what Lookup shows with the reference; return what is set."""
    start = start_of(widget)
    handle = slider(widget, "query")
    x, y = (
        number(t)
        for t in re.findall(rf"[-{MINUS}\d.]+", handle.get_attribute("aria-valuetext"))
    )
    T = number(widget.locator(".tl-slider .tl-number").inner_text())
    rows = [
        re.split(r"\s+", r.strip())
        for r in widget.get_by_role("option").all_inner_texts()
    ]
    scores, weights, values = (
        np.array([number(row[row.index(word) + 1]) for row in rows])
        for word in ("score", "weight", "value")
    )
    keys = np.array(start["places"], float)
    output, right = soft_lookup(np.array([x, y]), keys, values[:, None], T)
    assert np.abs(scores - keys @ [x, y]).max() <= HALF_DIGIT[2]
    assert np.abs(weights - right).max() <= HALF_DIGIT[2]
    marker = number(widget.locator(".tl-marker").inner_text())
    assert abs(marker - output[0]) <= HALF_DIGIT[2]
    line = told(widget)
    assert f"= {fixed(float(output[0]), 2)}" in line
    assert f"entropy = {fixed(float(entropy(right)), 2)}" in line
    chosen = widget.locator('[role="option"][aria-selected="true"]')
    assert chosen.count() == 1
    assert line.startswith(f"{start['names'][_index(chosen)]}:")
    return {
        "query": (x, y),
        "temperature": T,
        "values": values.tolist(),
        "chosen": _index(chosen),
    }


def _index(node: Any) -> int:
    return int(node.evaluate("node => [...node.parentNode.children].indexOf(node)"))


def use_all(widget: Any) -> None:
    """One key takes all the weight."""
    slider(widget, SLIDER).press("Home")
