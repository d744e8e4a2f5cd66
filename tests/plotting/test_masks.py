"""Drawings of masks: what is drawn is what was given."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from transformer_lib.plotting.masks import marks_and_examination

mpl.use("Agg")

LOSSES = {"a": ([0, 10, 20], [2.0, 1.0, 0.5]), "b": ([0, 10, 20], [2.0, 0.2, 0.1])}
SHARES = {"a": ([0, 20], [0.0, 0.9]), "b": ([0, 20], [0.0, 0.0])}


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def test_both_sides_show_every_model_and_every_level() -> None:
    figure = marks_and_examination(
        LOSSES, SHARES, loss_levels={"place": 1.1}, share_levels={"bag": 0.05}
    )
    for ax, given, name, level in zip(
        figure.axes, (LOSSES, SHARES), ("place", "bag"), (1.1, 0.05), strict=True
    ):
        *curves, dashed = ax.lines
        for line, (steps, values) in zip(curves, given.values(), strict=True):
            assert np.asarray(line.get_xdata()).tolist() == steps
            assert np.asarray(line.get_ydata()).tolist() == values
        assert np.asarray(dashed.get_ydata()).tolist() == [level, level]
        assert [t.get_text() for t in ax.texts] == ["a", "b", name]
    assert figure.axes[0].get_yscale() == "log"
    assert len({line.get_color() for line in figure.axes[0].lines}) == 3


def test_curves_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"shares: got \['b'\], wanted the names"):
        marks_and_examination(
            {"a": LOSSES["a"]}, {"b": SHARES["b"]}, loss_levels={}, share_levels={}
        )
    with pytest.raises(ValueError, match=r"losses\['a'\]: got 1 values for 2 steps"):
        marks_and_examination(
            {"a": ([0, 1], [1.0])}, {"a": ([0], [1.0])}, loss_levels={}, share_levels={}
        )
