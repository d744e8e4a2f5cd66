"""Drawings of attention: what is drawn is what was given."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.attention import (
    HeadDrawing,
    Sight,
    accuracy_panels,
    arcs,
    bus,
    who_sees_whom,
)

mpl.use("Agg")

WORDS = ["the", "cat", "sat"]
MASK = np.array([[True, False, False], [True, True, False], [False, True, True]])


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def lines(ax: plt.Axes) -> set[tuple[float, ...]]:
    return {tuple(np.asarray(line.get_xdata(), dtype=float)) for line in ax.lines}


def test_graph_and_matrix_show_the_same_mask() -> None:
    graph, matrix, code = who_sees_whom(
        [Sight("some", MASK, WORDS, WORDS, "mask = ...")]
    ).axes
    drawn = {(int(query), int(key)) for query, key in lines(graph)}
    assert drawn == set(zip(*map(list, np.nonzero(MASK)), strict=True))
    filled = {
        (round(p.get_y() + 0.5), round(p.get_x() + 0.5))
        for p in matrix.patches
        if to_hex(p.get_facecolor()) == LIGHT["weight"]
    }
    assert filled == drawn
    assert [t.get_text() for t in code.texts] == ["mask = ..."]


def test_a_transposed_mask_draws_another_picture() -> None:
    graph, *_ = who_sees_whom([Sight("t", MASK.T, WORDS, WORDS, "")]).axes
    drawn = {(int(query), int(key)) for query, key in lines(graph)}
    assert drawn != set(zip(*map(list, np.nonzero(MASK)), strict=True))


def test_rows_ask_and_columns_answer_when_their_numbers_differ() -> None:
    cross = Sight("cross", np.ones((2, 3), dtype=bool), ["die", "Katze"], WORDS, "")
    graph, matrix, _ = who_sees_whom([cross]).axes
    assert len(graph.lines) == 6
    assert [t.get_text() for t in matrix.get_yticklabels()] == ["die", "Katze"]
    assert [t.get_text() for t in matrix.get_xticklabels()] == WORDS


def test_one_row_of_three_panels_per_pattern() -> None:
    sight = Sight("some", MASK, WORDS, WORDS, "mask")
    assert len(who_sees_whom([sight] * 4).axes) == 12


@pytest.mark.parametrize(
    "mask", [MASK.astype(float), MASK[:2], np.ones((3, 4), dtype=bool)]
)
def test_a_mask_that_does_not_fit_is_named(mask: np.ndarray) -> None:
    with pytest.raises(
        ValueError, match=r"mask of 'some': got .* wanted bool of shape"
    ):
        who_sees_whom([Sight("some", mask, WORDS, WORDS, "")])


def test_no_pattern_is_an_error() -> None:
    with pytest.raises(ValueError, match="sights: got none"):
        who_sees_whom([])


def test_arcs_are_as_thick_as_their_weights_and_small_ones_are_left_out() -> None:
    _, ax = plt.subplots()
    arcs(ax, [*WORDS, "it"], [0.6, 0.3, 0.04, 0.06], asking=3)
    widths = [line.get_linewidth() for line in ax.lines]
    assert len(widths) == 2  # not to itself, not below 0.05
    assert widths[0] == pytest.approx(0.5 + 5 * 0.6)
    assert widths[1] == pytest.approx(0.5 + 5 * 0.3)
    texts = [t.get_text() for t in ax.texts]
    assert [t for t in texts if t[0] == "0"] == ["0.60", "0.30", "0.06"]


def test_arcs_end_at_the_asking_word() -> None:
    _, ax = plt.subplots()
    arcs(ax, [*WORDS, "it"], [0.5, 0.5, 0, 0], asking=3)
    place = next(t.get_position()[0] for t in ax.texts if t.get_text() == "it")
    for line in ax.lines:
        assert np.asarray(line.get_xdata())[-1] == pytest.approx(place)


def test_arcs_name_what_does_not_fit() -> None:
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match=r"weights: got shape \(2,\), wanted \(3,\)"):
        arcs(ax, WORDS, [0.5, 0.5], asking=0)
    with pytest.raises(ValueError, match="asking: got 3, wanted 0 to 2"):
        arcs(ax, WORDS, [1, 0, 0], asking=3)


LANES = {"token": 7, "position": 13, "previous": 7}


def test_the_bus_has_its_lanes_and_the_heads_tap_the_right_ones() -> None:
    _, ax = plt.subplots()
    bus(ax, LANES, [HeadDrawing("left?", "position", "position", "token", "previous")])
    texts = {t.get_text(): t.get_position() for t in ax.texts}
    height = {name: texts[f"{name} ({size})"][1] for name, size in LANES.items()}
    for letter, lane in zip(
        "QKVO", ("position", "position", "token", "previous"), strict=True
    ):
        assert texts[letter][1] == pytest.approx(height[lane] + 0.16)


def test_a_head_that_writes_no_lane_gives_the_answer() -> None:
    _, ax = plt.subplots()
    bus(ax, LANES, [HeadDrawing("?", "token", "previous", "token", None, done=False)])
    assert "O, the answer" in {t.get_text() for t in ax.texts}
    assert len([p for p in ax.patches if isinstance(p, FancyArrowPatch)]) >= 4


def test_an_unknown_lane_is_named() -> None:
    _, ax = plt.subplots()
    with pytest.raises(
        ValueError, match="'left\\?' uses the lane 'place'; there are t"
    ):
        bus(ax, LANES, [HeadDrawing("left?", "place", "position", "token", "token")])


def test_each_panel_has_its_curve_and_every_level() -> None:
    curves = {"one": ([0, 10], [0.3, 0.5]), "two": ([0, 10], [0.3, 0.9])}
    figure = accuracy_panels(curves, {"guessing": 1 / 3, "ceiling": 5 / 6})
    for ax, (name, (steps, right)) in zip(figure.axes, curves.items(), strict=True):
        *levels, curve = ax.lines
        assert [float(np.asarray(z.get_ydata())[0]) for z in levels] == [1 / 3, 5 / 6]
        assert list(np.asarray(curve.get_xdata())) == steps
        assert list(np.asarray(curve.get_ydata())) == right
        assert name in (ax.get_title(), ax.get_title(loc="left"))
    assert [t.get_text() for t in figure.axes[-1].texts] == ["guessing", "ceiling"]
    assert [t.get_text() for t in figure.axes[0].texts] == []


def test_curves_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"curves\['one'\]: got 1 shares for 2 steps"):
        accuracy_panels({"one": ([0, 10], [0.3])}, {})
    with pytest.raises(ValueError, match="curves: got none"):
        accuracy_panels({}, {})
