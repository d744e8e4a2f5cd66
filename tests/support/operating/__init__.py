"""How each widget of the course is operated and read, one module per widget.

A module ``operating/<name>.py`` belongs to ``transformer_lib/widgets/<name>.js`` and has

``check(widget)``    compares what the widget shows with ``transformer_lib.reference``,
                     computed from the numbers that the reader sees; returns what is set
``use_all(widget)``  brings it into the state with the longest texts
``SLIDER``           the accessible name of a slider, whose steps are timed, or None

``tests/book/test_widgets.py`` holds every widget to what all have in common;
``tests/book/test_widget_<name>.py`` operates one by mouse and keyboard.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from typing import Any

HALF_DIGIT = {0: 1e-9, 1: 0.0501, 2: 0.00501, 3: 0.000501}
"""Digits after the point -> how far a rounded number may lie from the exact one."""

MINUS = "\N{MINUS SIGN}"


def names() -> list[str]:
    """Names of the widgets that have a module here."""
    return sorted(found.name for found in pkgutil.iter_modules(__path__))


def operator(name: str) -> Any:
    """The module of one widget."""
    return importlib.import_module(f"operating.{name}")


def number(text: str) -> float:
    """The number that a text shows, whatever minus sign it uses."""
    return float(text.strip().replace(MINUS, "-"))


def start_of(widget: Any) -> dict[str, Any]:
    """The state that the page gave the widget."""
    return dict(json.loads(widget.get_attribute("data-state")))


def told(widget: Any) -> str:
    """The live text of the widget's result."""
    return str(widget.get_by_role("status").inner_text())


def slider(widget: Any, name: str) -> Any:
    """One slider, by its accessible name."""
    return widget.get_by_role("slider", name=name)
