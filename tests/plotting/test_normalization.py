"""Drawings of chapter 8: what is drawn is what was given."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch, Polygon

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.normalization import (
    plateau_panels,
    shared_statistics,
    stack_panels,
    two_orders,
)

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def test_every_number_is_a_cell_and_the_chosen_ones_are_filled() -> None:
    group = np.zeros((2, 3, 4), dtype=bool)
    group[:, :, 1] = True
    figure = shared_statistics({"batch": group, "none": np.zeros((1, 1, 1), bool)})
    counts = []
    for ax in figure.axes:
        cells = [p for p in ax.patches if isinstance(p, Polygon)]
        filled = [c for c in cells if to_hex(c.get_facecolor()) == LIGHT["weight"]]
        counts.append((len(cells), len(filled)))
    assert counts == [(24, 6), (1, 0)]
    assert [ax.get_title(loc="left") or ax.get_title() for ax in figure.axes] == [
        "batch",
        "none",
    ]


@pytest.mark.parametrize(
    "group", [np.zeros((2, 3, 4)), np.zeros((3, 4), dtype=bool)], ids=["float", "flat"]
)
def test_a_group_that_does_not_fit_is_named(group: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"groups\['x'\]: got .* wanted bool of shape"):
        shared_statistics({"x": group})
    with pytest.raises(ValueError, match="groups: got none"):
        shared_statistics({})


def test_the_norm_stands_on_the_stream_in_post_norm_only() -> None:
    post, pre = two_orders().axes
    for ax, on_stream in ((post, True), (pre, False)):
        names = {t.get_text(): t.get_position() for t in ax.texts}
        assert (names["norm"][1] == 0) is on_stream
        assert names["F"][1] > 0
        assert len([p for p in ax.patches if isinstance(p, FancyBboxPatch)]) == 2
    places = {t.get_text(): t.get_position()[0] for t in pre.texts}
    assert places["norm"] < places["F"] < places["+"]
    places = {t.get_text(): t.get_position()[0] for t in post.texts}
    assert places["F"] < places["+"] < places["norm"]


def test_each_panel_has_its_curves_from_the_first_layer_on() -> None:
    panels = {
        "one": {"plain": [1e-3, 1e-2], "skip": [1.0, 2.0]},
        "two": {"plain": [5.0, 6.0]},
    }
    figure = stack_panels(panels, ylabel="size", limits=(-6, 6), first=0)
    for ax, (_, curves) in zip(figure.axes, panels.items(), strict=True):
        drawn = {str(line.get_label()): line for line in ax.lines}
        assert list(drawn) == list(curves)
        for name, numbers in curves.items():
            assert list(np.asarray(drawn[name].get_ydata())) == numbers
            assert list(np.asarray(drawn[name].get_xdata())) == [0, 1]
        assert ax.get_yscale() == "log"
    named = [t.get_text() for t in figure.legends[0].get_texts()]
    assert named == ["plain", "skip"]


def test_numbers_that_a_logarithm_cannot_draw_are_named() -> None:
    with pytest.raises(ValueError, match=r"panels\['a'\]\['skip'\]: .* above 0"):
        stack_panels({"a": {"skip": [1.0, 0.0]}}, ylabel="", limits=(-3, 3))
    with pytest.raises(ValueError, match="panels: got none"):
        stack_panels({}, ylabel="", limits=(-3, 3))


def test_a_line_for_each_seed_and_each_level() -> None:
    panels = {"start": {"skip": [([0, 10], [0.1, 0.2]), ([0, 10], [0.1, 0.4])]}}
    figure = plateau_panels(panels, {"plateau": 0.36})
    (ax,) = figure.axes
    level, *curves = ax.lines
    assert float(np.asarray(level.get_ydata())[0]) == 0.36
    assert [list(np.asarray(line.get_ydata())) for line in curves] == [
        [0.1, 0.2],
        [0.1, 0.4],
    ]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["skip"]
    assert "plateau" in [t.get_text() for t in ax.texts]


def test_a_curve_that_does_not_fit_its_steps_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"panels\['s'\]\['skip'\]: got 1 shares for 2"
    ):
        plateau_panels({"s": {"skip": [([0, 1], [0.5])]}}, {})
    with pytest.raises(ValueError, match="panels: got none"):
        plateau_panels({}, {})
