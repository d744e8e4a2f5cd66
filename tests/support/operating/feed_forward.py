"""Bend: a point in the plane, the numbers of a few hidden units, with or without bend."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from operating import HALF_DIGIT, MINUS, number, slider, told
from transformer_lib.reference import feed_forward
from transformer_lib.widgets.base import fixed

SLIDER = "hidden units"
CORNERS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
WANTED = np.array([0, 1, 1, 0])
READ = """grid => [...grid.querySelectorAll('[role="row"]')].slice(1)
  .filter(row => !row.hidden)
  .map(row => [...row.querySelectorAll('[role="gridcell"]')].map(cell => cell.innerText))"""


def read(widget: Any, name: str) -> np.ndarray:
    """The numbers of one of the two tables, as they stand on the screen."""
    rows = widget.get_by_role("grid", name=name).evaluate(READ)
    return np.array([[number(text) for text in row] for row in rows])


def output(network: np.ndarray, bend: bool, X: np.ndarray) -> np.ndarray:
    """What a network with these numbers gives at each row of X."""
    W_1, b_1, W_2 = network[:, :2].T, network[:, 2], network[:, 3:]
    if bend:
        return feed_forward(X, W_1, b_1, W_2, np.zeros(1))[:, 0]
    return np.asarray((X @ W_1 + b_1) @ W_2)[:, 0]


def check(widget: Any) -> dict[str, Any]:
    """Compare what Bend shows with the reference; return what is set."""
    network, corners = read(widget, "hidden units"), read(widget, "corners")
    bend = widget.get_by_role("checkbox").is_checked()
    assert len(network) == number(widget.locator(".tl-slider .tl-number").inner_text())
    handle = slider(widget, "point")
    a, b, shown = (
        number(t)
        for t in re.findall(
            rf"[-{MINUS}]?\d+\.\d+", handle.get_attribute("aria-valuetext")
        )
    )
    right = output(network, bend, CORNERS)
    assert (corners[:, 0] == WANTED).all()
    room = np.where(np.abs(right) < 99.9, HALF_DIGIT[2], 0.501)  # large: written whole
    assert (np.abs(corners[:, 1] - right) <= room).all()
    here = float(output(network, bend, np.array([[a, b]]))[0])
    assert abs(shown - here) <= HALF_DIGIT[2]
    line = told(widget)
    assert f"= {fixed(here, 2)}" in line
    hits = int(
        ((right > 0.5) == (WANTED == 1)).sum() - (right == 0.5)[WANTED == 0].sum()
    )
    assert f"{hits} of 4 corners right" in line
    dashed = widget.locator(".tl-bend-wrong").count()
    assert hits + dashed == 4
    title = widget.locator(".tl-bend-plot > .tl-plot-text").inner_html()
    assert title.endswith(f"b = {fixed(b, 2)}")
    return {"network": network.tolist(), "bend": bend, "point": (a, b), "hits": hits}


def use_all(widget: Any) -> None:
    """All units, each reads with 9 and writes -9."""
    slider(widget, SLIDER).press("End")
    widget.get_by_role("grid", name="hidden units").evaluate(
        """grid => grid.querySelectorAll(".tl-edit").forEach((cell, i) => {
          const press = key =>
            cell.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
          cell.click();
          press("9");
          if (i % 4 === 3) for (let n = 0; n < 18; n += 1) press("-");
        })"""
    )
