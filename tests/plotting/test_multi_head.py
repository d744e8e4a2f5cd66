"""Drawings of heads: what is drawn is what was given."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from transformer_lib.plotting.multi_head import (
    head_blocks,
    keys_on_circle,
    median_and_range,
)
from transformer_lib.plotting.style import WEIGHTS

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def test_every_number_has_the_colour_and_the_number_of_its_head() -> None:
    _, ax = plt.subplots()
    owners = np.array([[0, 1], [1, 2], [3, 0]])
    head_blocks(ax, owners)
    drawn = {
        (round(p.get_y() + 0.5), round(p.get_x() + 0.5)): to_hex(p.get_facecolor())
        for p in ax.patches
    }
    shades = [to_hex(WEIGHTS(share)) for share in (0.25, 0.5, 0.75, 1.0)]
    assert drawn == {at: shades[owners[at]] for at in np.ndindex(3, 2)}
    written = {t.get_position()[::-1]: t.get_text() for t in ax.texts}
    assert written == {at: str(owners[at] + 1) for at in np.ndindex(3, 2)}
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "token 1",
        "token 2",
        "token 3",
    ]


def test_owners_that_do_not_fit_are_named() -> None:
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match=r"owners: got shape \(3,\)"):
        head_blocks(ax, [0, 1, 2])
    with pytest.raises(ValueError, match="wanted 0 to 3"):
        head_blocks(ax, [[0, 4]])


def test_keys_grow_and_darken_with_their_weights() -> None:
    _, ax = plt.subplots()
    keys = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    keys_on_circle(ax, keys, [0.7, 0.1, 0.2], [0.0, 3.0])
    dots = ax.collections[0]
    places = np.asarray(dots.get_offsets())
    np.testing.assert_array_equal(places, keys[[1, 2, 0]])  # the heaviest on top
    assert (np.diff(dots.get_sizes()) > 0).all()
    np.testing.assert_allclose(np.asarray(dots.get_array()), [0.1, 0.2, 0.7])
    arrow = ax.texts[0]
    np.testing.assert_allclose(arrow.xy, [0, 0.72])


def test_keys_that_do_not_fit_are_named() -> None:
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match="keys, weights, query: got shapes"):
        keys_on_circle(ax, np.ones((3, 2)), [1.0, 0.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="query: got zero"):
        keys_on_circle(ax, np.ones((1, 2)), [1.0], [0.0, 0.0])


def test_the_line_goes_through_the_medians_and_the_bars_over_the_ranges() -> None:
    _, ax = plt.subplots()
    values = {1: [0.9, 1.0, 0.2], 64: [0.5, 0.6, 0.55]}
    median_and_range(
        ax, values, {"guessing": 0.0625}, xlabel="heads", ylabel="share",
        ticks={1: "one", 64: "many"},
    )  # fmt: skip
    level, *bars, line = ax.lines
    assert np.asarray(level.get_ydata())[0] == 0.0625
    assert [tuple(np.asarray(bar.get_ydata())) for bar in bars] == [
        (0.2, 1.0),
        (0.5, 0.6),
    ]
    assert list(np.asarray(line.get_ydata())) == [0.9, 0.55]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["one", "many"]
    assert [t.get_text() for t in ax.texts] == ["guessing"]
    with pytest.raises(ValueError, match="values: got none"):
        median_and_range(ax, {}, {}, xlabel="", ylabel="")
