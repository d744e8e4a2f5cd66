"""Matrices drawn as matrices: rows ask, columns answer."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from numpy.typing import ArrayLike

from transformer_lib.plotting.style import SIGNED, WEIGHTS

__all__ = ["heat_map"]


def text_colour(red: float, green: float, blue: float) -> str:
    """Black or white: one of them reaches 4.58:1 on any colour (WCAG luminance)."""
    linear = [
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
        for c in (red, green, blue)
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if luminance < 0.179 else "#000000"


def heat_map(
    ax: Axes,
    matrix: ArrayLike,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    signed: bool = False,
    limits: tuple[float, float] | None = None,
    decimals: int = 2,
    numbers: bool | None = None,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
) -> None:
    """Draw ``matrix`` on ``ax`` with its numbers, rows as queries and columns as keys.

    Parameters
    ----------
    ax
        The axes to draw on.
    matrix
        Shape ``(n_rows, n_columns)``. NaN cells stay blank.
    rows, columns
        Names of the rows and columns; ``None`` leaves them out.
    signed
        ``True`` uses the two-hue map centred at zero, else the one-hue map from zero.
    limits
        Lowest and highest value of the colour scale; taken from the data if ``None``.
    decimals
        Digits after the point of the written numbers.
    numbers
        Write each cell's number; by default when there are fewer than 50 cells.
    xlabel, ylabel, title
        Texts of the axes.

    Raises
    ------
    ValueError
        If ``matrix`` is not two-dimensional, is empty, or a label list has the wrong
        length.
    """
    M = np.asarray(matrix, dtype=float)
    if M.ndim != 2 or M.size == 0:
        raise ValueError(
            f"matrix: got shape {M.shape}, wanted (n_rows, n_columns), not empty"
        )
    for name, labels, wanted in (
        ("rows", rows, M.shape[0]),
        ("columns", columns, M.shape[1]),
    ):
        if labels is not None and len(labels) != wanted:
            raise ValueError(f"{name}: got {len(labels)} names, wanted {wanted}")
    finite = M[np.isfinite(M)]
    if limits is None:
        top = float(np.abs(finite).max()) if finite.size else 1.0
        limits = (-top or -1.0, top or 1.0) if signed else (0.0, top or 1.0)
    colours: Colormap = SIGNED if signed else WEIGHTS
    scale = Normalize(*limits)
    ax.imshow(np.ma.masked_invalid(M), cmap=colours, norm=scale, aspect="equal")
    if numbers is None:
        numbers = M.size < 50
    if numbers:
        for i, j in np.ndindex(*M.shape):
            if np.isfinite(M[i, j]):
                red, green, blue, _ = colours(scale(M[i, j]))
                ax.text(
                    j, i, f"{M[i, j]:.{decimals}f}", ha="center", va="center",
                    fontsize=9, color=text_colour(red, green, blue),
                )  # fmt: skip
    ax.set_xticks(range(M.shape[1]) if columns else [], columns or [])
    ax.set_yticks(range(M.shape[0]) if rows else [], rows or [])
    ax.tick_params(
        length=0,
        top=bool(columns),
        labeltop=bool(columns),
        bottom=False,
        labelbottom=False,
    )
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_xticks(np.arange(M.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(M.shape[0] + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="#ffffff", linewidth=1)
    ax.tick_params(which="minor", length=0)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.set_title(title)
