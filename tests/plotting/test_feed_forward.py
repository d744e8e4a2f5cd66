"""Drawings of chapter 5: what is drawn is what was given."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch

from transformer_lib.plotting import (
    HeadDrawing,
    NetworkDrawing,
    bus_with_network,
    truth_plane,
)

mpl.use("Agg")

LANES = {"token": 7, "previous": 7, "twin": 1}
HEAD = HeadDrawing("left?", "token", "token", "token", "previous")
CORNERS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def test_the_network_reads_and_writes_the_lanes_that_it_names() -> None:
    _, ax = plt.subplots()
    bus_with_network(
        ax, LANES, [HEAD], NetworkDrawing("same?", ("token", "previous"), "twin")
    )
    texts = [(t.get_text(), t.get_position()[1]) for t in ax.texts]
    height = {name: -1.0 * i for i, name in enumerate(LANES)}
    read = sorted(y for text, y in texts if text == "reads")
    assert read == pytest.approx(
        sorted(height[n] + 0.16 for n in ("token", "previous"))
    )
    assert [y for text, y in texts if text == "writes"] == pytest.approx([-2 + 0.16])
    assert {"same?", "left?"} <= {text for text, _ in texts}


def test_reading_arrows_go_up_and_the_writing_one_goes_down() -> None:
    _, ax = plt.subplots()
    bus_with_network(ax, LANES, [HEAD], NetworkDrawing("same?", ("token",), "twin"))
    arrows = [p for p in ax.patches if isinstance(p, FancyArrowPatch)][-2:]
    ends = [[end[1] for end in arrow._posA_posB] for arrow in arrows]  # type: ignore[attr-defined]
    assert ends[0][0] < ends[0][1]  # reads
    assert ends[1][0] > ends[1][1]  # writes


def test_lanes_have_one_arrowhead_each_behind_the_network() -> None:
    _, ax = plt.subplots()
    bus_with_network(ax, LANES, [HEAD], NetworkDrawing("same?", ("token",), "twin"))
    heads = [t for t in ax.texts if not t.get_text()]
    assert len(heads) == len(LANES)
    boxes = max(
        p.get_x() + p.get_width() for p in ax.patches if hasattr(p, "get_width")
    )
    assert all(head.xy[0] > boxes for head in heads)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "network",
    [NetworkDrawing("n", ("place",), "twin"), NetworkDrawing("n", ("token",), "x")],
)
def test_a_lane_that_is_not_there_is_named(network: NetworkDrawing) -> None:
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match=r"network: 'n' uses the lane '(place|x)'"):
        bus_with_network(ax, LANES, [HEAD], network)


def test_the_plane_shows_values_from_bottom_to_top_and_the_answers() -> None:
    _, ax = plt.subplots()
    values = np.arange(16).reshape(4, 4) / 16
    truth_plane(ax, CORNERS, [0, 1, 1, 0], values, title="t")
    image = ax.images[0]
    np.testing.assert_array_equal(image.get_array(), values)
    assert image.origin == "lower"
    assert image.get_clim() == (0.0, 1.0)
    found = {t.get_position(): t.get_text() for t in ax.texts}
    assert found == {(0, 0): "0", (0, 1): "1", (1, 0): "1", (1, 1): "0"}


def test_shapes_that_do_not_fit_are_named() -> None:
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match="inputs, answers: got shapes"):
        truth_plane(ax, CORNERS, [0, 1], np.zeros((3, 3)))
    with pytest.raises(ValueError, match="values: got shape"):
        truth_plane(ax, CORNERS, [0, 1, 1, 0], np.zeros((3, 4)))
