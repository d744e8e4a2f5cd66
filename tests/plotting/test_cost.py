"""What the figures of chapter 11 draw is what they are given."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from transformer_lib.plotting import ladder_bars, scheme_panels

PANELS = {
    "near": {"one": [[0.9, 1.0, 0.8], [0.5, 0.5, 0.5]], "two": [[0.1], [0.2]]},
    "far": {"one": [[0.3], [0.2]], "two": [[1.0], [0.7]]},
}
TEXTS = {
    "level": 0.0625,
    "level_name": "guessing",
    "ylabel": "right",
    "xlabel": "place",
}


@pytest.fixture(autouse=True)
def no_figure_is_left_open() -> object:
    yield
    plt.close("all")


def test_every_median_and_range_is_drawn_and_named_once() -> None:
    figure = scheme_panels(PANELS, ["a", "b"], **TEXTS)
    assert [ax.get_title(loc="left") or ax.get_title() for ax in figure.axes] == [
        "near",
        "far",
    ]
    first = figure.axes[0].containers[0]
    assert np.allclose(first.lines[0].get_ydata(), [0.9, 0.5])
    segments = first.lines[2][0].get_segments()
    assert np.allclose(segments[0][:, 1], [0.8, 1.0])
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["one", "two"]
    assert figure.axes[0].texts[0].get_text() == "guessing"


def test_schemes_keep_their_looks_from_panel_to_panel() -> None:
    figure = scheme_panels(PANELS, ["a", "b"], **TEXTS)
    looks = [
        [(c.lines[0].get_color(), c.lines[0].get_marker()) for c in ax.containers]
        for ax in figure.axes
    ]
    assert looks[0] == looks[1]
    assert len(set(looks[0])) == 2


def test_bars_are_the_shortest_rounds_from_the_top_down() -> None:
    _, ax = plt.subplots()
    ladder_bars(ax, {"slow": [5.0, 4.0], "quick": [2.0, 3.0]}, "milliseconds")
    assert [bar.get_width() for bar in ax.patches] == [4.0, 2.0]
    assert [text.get_text() for text in ax.texts] == ["4", "2"]
    assert ax.yaxis_inverted()


@pytest.mark.no_shape_hook
def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="panels: got none"):
        scheme_panels({}, ["a"], **TEXTS)
    with pytest.raises(ValueError, match=r"panels\['far'\]: got \['three'\]"):
        scheme_panels(
            {"near": {"one": [[1.0]]}, "far": {"three": [[1.0]]}}, ["a"], **TEXTS
        )
    with pytest.raises(ValueError, match="got 1 places, wanted 2"):
        scheme_panels({"near": {"one": [[1.0]]}}, ["a", "b"], **TEXTS)
    many = {str(k): [[0.5]] for k in range(7)}
    with pytest.raises(ValueError, match="got 7 schemes, wanted 6 at most"):
        scheme_panels({"near": many}, ["a"], **TEXTS)
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match="values: got none"):
        ladder_bars(ax, {}, "ms")
