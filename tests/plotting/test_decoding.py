"""Drawings of chapter 10: what is drawn is what was given."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from transformer_lib.plotting import chance_panels, right_and_different

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def test_every_chance_is_a_bar_of_its_length() -> None:
    panels = {"a": [0.5, 0.3, 0.2], "b": [1.0, 0.0, 0.0]}
    figure = chance_panels(panels, ["x", "y", "z"])
    for ax, (title, chances) in zip(figure.axes, panels.items(), strict=True):
        bars = [bar for bar in ax.patches if isinstance(bar, Rectangle)]
        assert [bar.get_width() for bar in bars] == chances
        assert ax.get_title() + ax.get_title(loc="left") == title
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["x", "y", "z"]
    low, high = figure.axes[0].get_ylim()
    assert low > high  # the first token is on top


def test_panels_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"panels\['b'\]: got 2 chances, wanted one"):
        chance_panels({"a": [1.0, 0.0, 0.0], "b": [0.5, 0.5]}, ["x", "y", "z"])
    with pytest.raises(ValueError, match="panels: got none"):
        chance_panels({}, ["x"])


def test_every_way_of_writing_is_a_point_with_its_name() -> None:
    points = {"greedy": (0.9, 0.9), "hot": (0.5, 3.0), "cold": (0.8, 1.5)}
    axes = right_and_different(points, "greedy").axes
    for side, ax in enumerate(axes):
        level, dots = ax.lines
        assert np.asarray(level.get_xdata()).tolist() == [0.9, 0.9]
        values = np.asarray(dots.get_xdata()).tolist()
        assert values == [pair[side] for pair in points.values()]
    names = [text.get_text() for text in axes[0].get_yticklabels()]
    assert names == list(points)
    with pytest.raises(ValueError, match="baseline: got 'beam', wanted one of"):
        right_and_different(points, "beam")
