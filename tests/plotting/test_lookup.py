"""Figures of chapter 2 show what they are given."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.lookup import (
    keys_averaged,
    lanes,
    votes,
    weighted_fit,
)


@pytest.fixture
def ax() -> Iterator[Axes]:
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def texts(ax: Axes) -> set[str]:
    return {text.get_text() for text in ax.texts}


def frames(ax: Axes) -> list[Rectangle]:
    return [patch for patch in ax.patches if isinstance(patch, Rectangle)]


def test_every_query_has_its_line_and_its_name_beside_it(ax: Axes) -> None:
    temperatures = np.array([0.1, 1.0, 10.0])
    keys_averaged(ax, temperatures, {"juny": [2, 5, 12], "xyz": [12, 12, 12]})
    assert texts(ax) == {"juny", "xyz"}
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [2, 5, 12])
    assert {to_hex(line.get_color()) for line in ax.lines} == {LIGHT["query"]}
    assert len({line.get_linestyle() for line in ax.lines}) == 2
    low, high = ax.get_ylim()
    assert low < 1
    assert high > 12


def test_fit_is_drawn_in_the_colour_of_outputs_and_points_in_that_of_values(
    ax: Axes,
) -> None:
    weighted_fit(ax, [0, 1], [5, 6], [0.0, 0.5, 1.0], [5.0, 5.5, 6.0], title="between")
    fit, points = ax.lines
    assert to_hex(fit.get_color()) == LIGHT["output"]
    assert to_hex(points.get_color()) == LIGHT["value"]
    np.testing.assert_array_equal(points.get_ydata(), [5, 6])
    assert points.get_linestyle() == "None"


def test_winner_of_each_slot_is_framed(ax: Axes) -> None:
    shares = np.array([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3]])
    votes(ax, shares, ["0", "1", "-"])
    corners = [(r.get_x() + 0.5, r.get_y() + 0.5) for r in frames(ax)]
    assert corners == [(0.0, 1.0), (1.0, 0.0)]
    np.testing.assert_array_equal(np.asarray(ax.images[0].get_array()), shares.T)


def test_lanes_are_named_and_framed_parts_carry_their_letter(ax: Axes) -> None:
    lanes(
        ax,
        np.eye(5),
        {"token": 3, "previous": 2},
        list("abcde"),
        frames=[(4, "previous", "key"), (0, "token", "query")],
    )
    assert {"token", "previous", "K", "Q"} <= texts(ax)
    key, query = frames(ax)
    assert to_hex(key.get_edgecolor()) == LIGHT["key"]
    (left, top), (right, bottom) = key.get_xy(), key.get_corners()[2]
    assert [round(edge) for edge in (left, top, right, bottom)] == [3, 4, 4, 4]
    assert left > 2.5
    assert right < 4.5
    assert query.get_x() + query.get_width() < 2.5
    assert len(ax.lines) == 1  # one boundary between two lanes


def test_signed_streams_are_centred_at_zero(ax: Axes) -> None:
    lanes(ax, np.array([[-2.0, 1.0]]), {"a": 1, "b": 1}, ["x"])
    assert ax.images[0].get_clim() == (-2.0, 2.0)


@pytest.mark.no_shape_hook
def test_what_does_not_fit_is_refused(ax: Axes) -> None:
    with pytest.raises(ValueError, match=r"numbers\['a'\]: got shape \(2,\)"):
        keys_averaged(ax, [1.0, 2.0, 3.0], {"a": [1, 2]})
    with pytest.raises(ValueError, match="y_known: got shape"):
        weighted_fit(ax, [0, 1], [1], [0], [0])
    with pytest.raises(ValueError, match="y: got shape"):
        weighted_fit(ax, [0, 1], [1, 2], [0], [0, 1])
    with pytest.raises(ValueError, match="shares: got shape"):
        votes(ax, np.zeros((2, 3)), ["0", "1"])
    with pytest.raises(ValueError, match="stream: got shape"):
        lanes(ax, np.zeros((2, 3)), {"a": 1, "b": 1}, ["x", "y"])
    for frame in ((2, "a", "key"), (0, "c", "key"), (0, "a", "keys")):
        with pytest.raises(ValueError, match="frames: got"):
            lanes(ax, np.zeros((2, 2)), {"a": 1, "b": 1}, ["x", "y"], frames=[frame])
