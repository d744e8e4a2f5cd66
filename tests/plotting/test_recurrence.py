"""What the drawings of chapter 1 show, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text

from transformer_lib.palette import LIGHT
from transformer_lib.plotting import PAGE_WIDTH, use_style
from transformer_lib.plotting.recurrence import (
    Steps,
    draw_steps,
    labelled_curves,
    seed_panels,
    threshold,
)

WORDS = ["the", "cat", "sat"]
EYE, NONE = np.eye(3, dtype=bool), np.zeros((3, 3), dtype=bool)
CHAIN = np.eye(3, k=-1, dtype=bool)


@pytest.fixture(autouse=True)
def _style() -> Iterator[None]:
    with mpl.rc_context():
        mpl.use("Agg")
        use_style()
        yield
        plt.close("all")


def texts(ax: Axes) -> list[str]:
    return [t.get_text() for t in ax.findobj(Text) if t.get_text()]


def test_each_cell_shows_its_number_above_its_word() -> None:
    figure = draw_steps(
        WORDS,
        [Steps("RNN", [1, 2, 3], EYE, CHAIN), Steps("free", [1, 1, 1], EYE, NONE)],
    )
    assert figure.get_size_inches()[0] == PAGE_WIDTH
    for ax, numbers in zip(figure.axes, ("123", "111"), strict=True):
        said = texts(ax)
        for word in WORDS:
            assert word in said
        places = sorted(
            (t.get_position()[0], t.get_text())
            for t in ax.texts
            if t.get_text().isdigit()
        )
        assert "".join(text for _, text in places) == numbers


def test_one_line_for_every_word_read_and_one_arrow_for_every_wait() -> None:
    full = np.ones((3, 3), dtype=bool)
    figure = draw_steps(
        WORDS, [Steps("a", [1, 2, 3], EYE, CHAIN), Steps("b", [1, 1, 1], full, NONE)]
    )
    chain, free = figure.axes
    assert (len(chain.lines), len(free.lines)) == (3, 9)
    arrows = [
        sum(t.arrow_patch is not None for t in ax.texts if hasattr(t, "arrow_patch"))
        for ax in (chain, free)
    ]
    assert arrows == [2, 0]


@pytest.mark.no_shape_hook
def test_steps_that_do_not_fit_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="layers: got none"):
        draw_steps(WORDS, [])
    with pytest.raises(ValueError, match=r"steps of 'x': got 2 numbers, wanted 3"):
        draw_steps(WORDS, [Steps("x", [1, 2], EYE, NONE)])
    with pytest.raises(
        ValueError, match=r"words_read of 'x': got bool of shape \(2, 2\)"
    ):
        draw_steps(WORDS, [Steps("x", [1, 2, 3], np.eye(2, dtype=bool), NONE)])
    with pytest.raises(ValueError, match=r"cells_read of 'x': got float64"):
        draw_steps(WORDS, [Steps("x", [1, 2, 3], EYE, np.zeros((3, 3)))])


def names_of(ax: Axes, names: list[str]) -> dict[str, Text]:
    found = {t.get_text(): t for t in ax.texts if t.get_text() in names}
    assert sorted(found) == sorted(names)
    return found


def overlaps(ax: Axes, names: list[str]) -> list[tuple[str, str]]:
    ax.figure.canvas.draw()
    boxes = {k: t.get_window_extent() for k, t in names_of(ax, names).items()}
    return [(a, b) for a, b in combinations(names, 2) if boxes[a].overlaps(boxes[b])]


CLOSE = {
    "RNN": ([0, 1], [0.5, 0.5]),
    "LSTM": ([0, 1], [0.5, 0.51]),
    "LSTM, forget bias 3": ([0, 1], [0.5, 1.0]),
    "attention": ([0, 1], [0.5, 0.995]),
}


def test_names_stand_at_the_lines_and_never_one_over_another() -> None:
    _, ax = plt.subplots()
    labelled_curves(ax, CLOSE, room=0.3)
    assert overlaps(ax, list(CLOSE)) == []
    for name, text in names_of(ax, list(CLOSE)).items():
        assert text.xy == (1.0, CLOSE[name][1][1])


def test_without_the_pushing_apart_names_would_overlap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("transformer_lib.plotting.recurrence._LABEL_GAP", 0.0)
    _, ax = plt.subplots()
    labelled_curves(ax, CLOSE, room=0.3)
    assert overlaps(ax, list(CLOSE))


def test_a_family_shares_its_colour_and_its_variants_differ_in_dashes() -> None:
    _, ax = plt.subplots()
    labelled_curves(ax, CLOSE)
    rnn, lstm, variant, attention = ax.lines
    assert lstm.get_color() == variant.get_color()
    assert len({line.get_color() for line in (rnn, lstm, attention)}) == 3
    assert lstm.get_linestyle() != variant.get_linestyle()


def test_on_a_logarithmic_axis_zeros_are_left_out() -> None:
    _, ax = plt.subplots()
    ax.set_yscale("log")
    labelled_curves(ax, {"RNN": ([1, 2, 3, 4], [1.0, np.nan, 1e-3, 0.0])})
    assert ax.lines[0].get_xdata().tolist() == [1, 3]


def test_no_tick_stands_in_the_room_for_names() -> None:
    for scale in ("linear", "log"):
        _, ax = plt.subplots()
        ax.set_xscale(scale)
        labelled_curves(ax, {"RNN": ([1, 10, 100], [1, 2, 3])}, room=0.4)
        ax.figure.canvas.draw()
        assert max(ax.get_xticks()) <= 110
        assert ax.get_xlim()[1] > 160


def test_a_name_can_stand_beside_its_line() -> None:
    _, ax = plt.subplots()
    labelled_curves(ax, {"RNN": ([0, 1, 2], [0, 1, 2])}, beside={"RNN": (1.1, "left")})
    text = names_of(ax, ["RNN"])["RNN"]
    assert text.xy == (1.0, 1.0)
    assert text.get_horizontalalignment() == "right"


def test_a_band_is_drawn_where_a_range_is_given() -> None:
    _, ax = plt.subplots()
    labelled_curves(
        ax,
        {"RNN": ([0, 1], [0.5, 0.5]), "LSTM": ([0, 1], [1, 1])},
        ranges={"RNN": ([0.4, 0.4], [0.6, 0.7])},
    )
    assert len(ax.collections) == 1
    assert ax.collections[0].get_datalim(ax.transData).y1 == pytest.approx(0.7)


def test_a_threshold_says_what_it_is() -> None:
    _, ax = plt.subplots()
    threshold(ax, 0.5, "chance")
    threshold(ax, 24, "longest in training", vertical=True)
    assert {"chance", "longest in training"} <= set(texts(ax))
    assert ax.lines[0].get_ydata()[0] == 0.5
    assert ax.lines[1].get_xdata()[0] == 24


def test_a_threshold_ends_before_the_names_begin() -> None:
    _, ax = plt.subplots()
    labelled_curves(ax, CLOSE, room=0.3)
    threshold(ax, 0.7, "chance")
    assert max(ax.lines[-1].get_xdata()) == 1.0
    assert ax.get_xlim()[1] > 1.4


def test_the_word_chance_stands_where_no_dot_is_in_its_way() -> None:
    low, high = np.full((2, 3), 0.5), np.ones((2, 3))
    figure = seed_panels(["2", "4"], {"RNN": low, "attention": high}, chance=0.5)
    assert ["chance" in texts(ax) for ax in figure.axes[:2]] == [False, True]


@pytest.mark.no_shape_hook
def test_curves_that_cannot_be_drawn_are_refused_by_name() -> None:
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match="curves: got none"):
        labelled_curves(ax, {})
    with pytest.raises(
        ValueError, match=r"curves\['RNN'\]: got shapes \(2,\) and \(3,\)"
    ):
        labelled_curves(ax, {"RNN": ([1, 2], [1, 2, 3])})
    with pytest.raises(ValueError, match=r"curves\['RNN'\]: got no point"):
        labelled_curves(ax, {"RNN": ([1], [np.nan])})
    with pytest.raises(ValueError, match="room: got 1"):
        labelled_curves(ax, CLOSE, room=1)
    with pytest.raises(ValueError, match=r"beside\['RNN'\]: got 'top'"):
        labelled_curves(ax, CLOSE, beside={"RNN": (1, "top")})


def test_each_panel_has_a_dot_per_seed_and_a_line_through_the_medians() -> None:
    table = np.array([[1.0, 1.0, 0.9], [0.5, 0.6, 1.0]])
    figure = seed_panels(["2", "4"], {"RNN": table, "LSTM": table}, chance=0.5)
    assert figure.get_size_inches()[0] == PAGE_WIDTH
    first = figure.axes[0]
    dots = np.concatenate([c.get_offsets()[:, 1] for c in first.collections])
    assert sorted(dots.tolist()) == sorted(table.ravel().tolist())
    chance, middle = first.lines
    assert chance.get_ydata()[0] == 0.5
    assert middle.get_ydata().tolist() == [1.0, 0.6]
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles[:2] == ["RNN", "LSTM"]


@pytest.mark.no_shape_hook
def test_scores_that_do_not_fit_the_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="results: got none"):
        seed_panels(["2"], {}, chance=0.5)
    with pytest.raises(
        ValueError, match=r"results\['RNN'\]: got shape \(3, 2\), wanted \(2, seeds\)"
    ):
        seed_panels(["2", "4"], {"RNN": np.zeros((3, 2))}, chance=0.5)


def test_a_line_may_have_a_colour_of_its_own() -> None:
    _, ax = plt.subplots()
    labelled_curves(ax, CLOSE, roles={"LSTM": "value"})
    assert ax.lines[1].get_color() == LIGHT["value"]
    assert ax.lines[2].get_color() != LIGHT["value"]
