"""MaskBuilder: a grid of weights whose cells open and close, and three controls."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from operating import HALF_DIGIT, number, slider, start_of, told
from transformer_lib.reference import causal_mask, masked_softmax, softmax
from transformer_lib.widgets.base import fixed
from transformer_lib.widgets.masks import HOW

SLIDER = "real tokens"

READ = """card => ({
  texts: [...card.querySelectorAll('[role="gridcell"]')].map(cell =>
    cell.firstChild.textContent),
  leaks: [...card.querySelectorAll('[role="gridcell"]')].map(cell =>
    cell.classList.contains("tl-leak")),
  chosen: [...card.querySelectorAll('[role="gridcell"]')].findIndex(cell =>
    cell.getAttribute("aria-selected") === "true"),
  names: [...card.querySelectorAll('[role="rowheader"]')].map(name => name.textContent),
  columns: [...card.querySelectorAll('[role="columnheader"]')].slice(1).map(name =>
    name.textContent),
})"""


def check(widget: Any) -> dict[str, Any]:
    """Compare what MaskBuilder shows with the reference; return what is set.

    Which cells are open is read from the grid where the way of hiding shows it, so the
    numbers are those of the mask that the reader sees.
    """
    start, shown = start_of(widget), widget.evaluate(READ)
    scores = np.array(start["scores"], float)
    n = len(scores)
    causal = widget.get_by_role("checkbox").is_checked()
    length = int(number(widget.locator(".tl-slider .tl-number").inner_text()))
    how = widget.locator("select").input_value()
    rule = np.broadcast_to(np.arange(n) < length, (n, n))
    if causal:
        rule = rule & causal_mask(n)
    texts = np.array(shown["texts"]).reshape(n, n)
    weights = np.array([[0.0 if t == "·" else number(t) for t in r] for r in texts])
    leaks = np.array(shown["leaks"]).reshape(n, n)
    names = [t if i < length else "pad" for i, t in enumerate(start["tokens"])]
    assert shown["names"] == shown["columns"] == names
    if how == HOW[1]:
        mask = _closest(scores, weights)
        right = softmax(scores * mask)
        assert (leaks == (~rule)).all()  # every hidden key keeps a weight
    else:
        mask = texts != "·"
        right = (
            masked_softmax(scores, mask) if how == HOW[0] else softmax(scores) * mask
        )
        assert (leaks == (mask & ~rule)).all()
    assert np.abs(weights - right).max() <= HALF_DIGIT[2]
    i, j = divmod(shown["chosen"], n)
    line = told(widget)
    assert line.startswith(f"{names[i]} asks {names[j]}, score ")
    assert f"this row sums to {fixed(float(right[i].sum()), 3)}" in line
    count = int(leaks.sum())
    assert re.search(rf"^{count} leaks?\b", line, re.MULTILINE)
    if count:
        kept = ((right > 0) | np.eye(n, dtype=bool)).astype(int)
        later = (kept @ kept > 0) & ~rule & (leaks | ~np.eye(n, dtype=bool))
        assert f"after two layers {int(later.sum())} pairs" in line
    told_weight = re.search(r"^weight = .* = ([\d.]+)$", line, re.MULTILINE)
    if told_weight:
        assert abs(number(told_weight[1]) - right[i, j]) <= HALF_DIGIT[3]
    return {
        "causal": causal, "length": length, "how": how, "weights": weights.tolist(),
        "chosen": (i, j),
    }  # fmt: skip


def _closest(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The mask whose multiplied scores give these weights, row by row."""
    n = len(scores)
    masks = np.array([[bool(k >> j & 1) for j in range(n)] for k in range(2**n)])
    rows = []
    for score, weight in zip(scores, weights, strict=True):
        gaps = np.abs(softmax(score * masks) - weight).max(axis=-1)
        rows.append(masks[gaps.argmin()])
    return np.array(rows)


def use_all(widget: Any) -> None:
    """One real token, everything hidden by a factor: the longest arithmetic."""
    slider(widget, SLIDER).press("Home")
    widget.locator("select").select_option(index=1)
