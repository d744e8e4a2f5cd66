"""The attention calculator: matrices of numbers, a check box, a temperature."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from operating import HALF_DIGIT, number
from transformer_lib.reference import softmax

SLIDER = "temperature"


READ_GRIDS = """card => Object.fromEntries(
  [...card.querySelectorAll('[role="grid"]')].map(grid => [
    grid.getAttribute("aria-label").split(",")[0],
    [...grid.querySelectorAll('[role="row"]')].slice(1).map(row =>
      [...row.querySelectorAll('[role="gridcell"]')].map(cell => cell.innerText))]))"""


def grids(widget: Any) -> dict[str, np.ndarray]:
    """The numbers of every matrix of the calculator, as they stand on the screen."""
    return {
        name: np.array([[number(text) for text in row] for row in rows])
        for name, rows in widget.evaluate(READ_GRIDS).items()
    }


def cell(widget: Any, name: str, row: int, column: int) -> Any:
    rows = widget.get_by_role("grid", name=name).get_by_role("row")
    return rows.nth(row + 1).get_by_role("gridcell").nth(column)


def check(widget: Any) -> dict[str, Any]:
    """Compare what the calculator shows with the reference; return what is set."""
    shown = grids(widget)
    scaled = widget.get_by_role("checkbox").is_checked()
    T = number(widget.locator(".tl-slider .tl-number").inner_text())
    right = {letter: shown["X"] @ shown[f"W {letter}"] for letter in "QKV"}
    scores = right["Q"] @ right["K"].T / (math.sqrt(2.0) if scaled else 1.0)
    weights = softmax(scores / T)
    for letter in "QKV":
        assert (shown[letter] == right[letter]).all(), letter
    digits = HALF_DIGIT[int(scaled)]
    room = np.where(
        np.abs(scores) < 99.9, digits, 0.501
    )  # large ones are written whole
    assert (np.abs(shown["scores"] - scores) <= room).all()
    assert np.abs(shown["weights"] - weights).max() <= HALF_DIGIT[2]
    assert np.abs(shown["O"] - weights @ right["V"]).max() <= HALF_DIGIT[2]
    return {"X": shown["X"].tolist(), "scaled": scaled, "T": T}


def use_all(widget: Any) -> None:
    """Fill in numbers as long as they get."""
    widget.evaluate(
        """card => card.querySelectorAll(".tl-edit").forEach((cell, i) => {
          const press = (key) =>
            cell.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
          cell.click();
          press("9");
          if (i % 3 === 1) for (let n = 0; n < 18; n += 1) press("-");
        })"""
    )
    cell(widget, "O, gets", 0, 1).click()
