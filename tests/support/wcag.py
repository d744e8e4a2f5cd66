"""Contrast of two colours as WCAG 2.2 defines it."""

from __future__ import annotations

from typing import Any

from matplotlib.colors import to_rgb


def luminance(colour: Any) -> float:
    """Relative luminance of whatever names a colour to Matplotlib."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in to_rgb(colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Any, other: Any) -> float:
    """From 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
