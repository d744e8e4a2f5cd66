from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from wcag import contrast

from transformer_lib.plotting import heat_map, use_style
from transformer_lib.plotting.heat_map import text_colour


@pytest.fixture
def ax() -> Axes:
    return plt.figure().add_subplot()


def texts(ax: Axes) -> list[str]:
    return [t.get_text() for t in ax.texts]


def test_each_number_of_a_small_matrix_is_written_in_its_cell(ax: Axes) -> None:
    heat_map(ax, [[0.25, 0.75], [1.0, 0.0]])
    assert texts(ax) == ["0.25", "0.75", "1.00", "0.00"]
    assert [t.get_position() for t in ax.texts] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_a_large_matrix_is_drawn_without_numbers(ax: Axes) -> None:
    heat_map(ax, np.ones((7, 8)))
    assert texts(ax) == []


def test_nan_cells_stay_blank(ax: Axes) -> None:
    heat_map(ax, [[1.0, np.nan]])
    assert texts(ax) == ["1.00"]


def test_signed_colours_are_centred_at_zero(ax: Axes) -> None:
    heat_map(ax, [[-1.0, 4.0]], signed=True)
    assert ax.images[0].get_clim() == (-4.0, 4.0)


@pytest.mark.parametrize("signed", [False, True])
def test_text_contrasts_with_every_cell_colour(signed: bool, ax: Axes) -> None:
    values = np.linspace(-1 if signed else 0, 1, 41)
    heat_map(ax, values[None, :], signed=signed)
    cells = ax.images[0].to_rgba(values[None, :])[0]
    for cell, text in zip(cells, ax.texts, strict=True):
        ink = matplotlib.colors.to_rgb(text.get_color())
        assert contrast(tuple(cell), ink) >= 4.5, (cell, text.get_color())


def test_white_text_on_a_pale_cell_would_be_refused_by_the_contrast_test() -> None:
    pale = (0.81, 0.88, 0.94)
    assert text_colour(*pale) != "#ffffff"
    assert contrast("#ffffff", pale) < 4.5


@pytest.mark.parametrize(
    ("matrix", "rows", "message"),
    [
        ([1.0, 2.0], None, "matrix: got shape"),
        (np.ones((0, 3)), None, "matrix: got shape"),
        ([[1.0, 2.0]], ["a", "b"], "rows: got 2 names, wanted 1"),
    ],
)
def test_bad_input_is_named(
    ax: Axes, matrix: object, rows: list[str] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        heat_map(ax, matrix, rows)  # type: ignore[arg-type]


def test_the_style_sets_no_text_below_nine_points() -> None:
    use_style()
    sizes = [
        plt.rcParams[k] for k in plt.rcParams if k.endswith(("font.size", "titlesize"))
    ]
    assert min(s for s in sizes if isinstance(s, (int, float))) >= 9
