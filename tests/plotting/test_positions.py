"""Drawings of positions: what is drawn is what was given."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Annotation

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.positions import learning_panels, turned_pair
from transformer_lib.reference.positions import rope

mpl.use("Agg")

CURVES = {
    "none": [([0, 1, 2], [0.1, 0.2, 0.2]), ([0, 1, 2], [0.1, 0.1, 0.2])],
    "RoPE": [([0, 1, 2], [0.1, 0.9, 1.0])],
}


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def test_a_panel_for_each_model_and_a_line_for_each_seed() -> None:
    figure = learning_panels(CURVES, 0.2, level_name="bag")
    panels = [ax for ax in figure.axes if ax.axison]
    assert [ax.get_title(loc="left") or ax.get_title() for ax in panels] == list(CURVES)
    for ax, seeds in zip(panels, CURVES.values(), strict=True):
        level, *lines = ax.lines
        assert set(level.get_ydata()) == {0.2}
        assert [list(line.get_ydata()) for line in lines] == [y for _, y in seeds]
    assert [text.get_text() for text in panels[0].texts] == ["bag"]
    assert not panels[1].texts


@pytest.mark.no_shape_hook
def test_curves_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match="curves: got none"):
        learning_panels({}, 0.2, level_name="bag")
    with pytest.raises(ValueError, match=r"curves\['none'\]: got no seed"):
        learning_panels({"none": []}, 0.2, level_name="bag")
    with pytest.raises(ValueError, match="got 1 shares for 2 steps"):
        learning_panels({"none": [([0, 1], [0.1])]}, 0.2, level_name="bag")


@pytest.mark.parametrize("places", [(0, 0), (1, 3), (5, 2)])
def test_the_score_is_that_of_rope(places: tuple[int, int]) -> None:
    q, k = np.array([1.0, 0.3]), np.array([0.4, 1.0])
    _, ax = plt.subplots()
    score = turned_pair(ax, q, k, places)
    turned = [
        rope(np.tile(vector, (8, 1)))[place]
        for vector, place in zip((q, k), places, strict=True)
    ]
    assert score == pytest.approx(turned[0] @ turned[1], abs=1e-12)
    arrows = [text for text in ax.texts if isinstance(text, Annotation)]
    strong = [a for a in arrows if a.arrow_patch and a.arrow_patch.get_alpha() == 1]
    assert len(strong) == 2
    for arrow, end in zip(strong, turned, strict=True):
        np.testing.assert_allclose(arrow.xy, end, atol=1e-12)
    words = {t.get_text(): t.get_color() for t in ax.texts if t.get_text()}
    assert words == {
        f"q, place {places[0]}": LIGHT["query"],
        f"k, place {places[1]}": LIGHT["key"],
    }


def test_the_angle_between_query_and_key_depends_on_their_distance() -> None:
    _, axes = plt.subplots(1, 3)
    q, k = [1.0, 0.3], [0.4, 1.0]
    near, far, other = (
        turned_pair(ax, q, k, places)
        for ax, places in zip(axes, ((1, 3), (4, 6), (4, 5)), strict=True)
    )
    assert near == pytest.approx(far, abs=1e-12)
    assert abs(near - other) > 0.1


@pytest.mark.no_shape_hook
def test_a_vector_of_another_width_is_named() -> None:
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match=r"key: got shape \(3,\), wanted two numbers"):
        turned_pair(ax, [1, 0], [1, 0, 0], (0, 1))
