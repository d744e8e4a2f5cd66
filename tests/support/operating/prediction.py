"""Prediction: three options, one click, kept in the browser."""

from __future__ import annotations

from typing import Any

from operating import start_of, told

SLIDER = None


def check(widget: Any) -> int:
    """Check what a prediction shows; return the guess, or -1."""
    start = start_of(widget)
    radios = widget.get_by_role("radio")
    assert [t.split("\n")[0] for t in radios.all_inner_texts()] == start["options"]
    checked = [r.get_attribute("aria-checked") == "true" for r in radios.all()]
    guess = checked.index(True) if any(checked) else -1
    line = told(widget)
    if guess < 0:
        assert line == ""
        assert start["options"][start["answer"]] not in told(widget)
    else:
        assert f"You said: {start['options'][guess]}" in line
        assert f"Measured: {start['options'][start['answer']]}" in line
        assert start["because"] in line
    return guess


def use_all(widget: Any) -> None:
    """Make the guess."""
    widget.get_by_role("radio").first.click()
