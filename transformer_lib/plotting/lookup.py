"""Figures of chapter 2: how many keys are averaged, a weighted fit, votes, lanes."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.heat_map import heat_map

__all__ = ["keys_averaged", "lanes", "votes", "weighted_fit"]

ROLES = {"query": "Q", "key": "K", "value": "V", "output": "O"}


def keys_averaged(
    ax: Axes,
    temperatures: ArrayLike,
    numbers: Mapping[str, ArrayLike],
    *,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
) -> None:
    """Draw, for each query, how many keys it averages against the temperature.

    Parameters
    ----------
    ax
        The axes to draw on; both become logarithmic.
    temperatures
        Shape ``(m,)``, above 0, rising.
    numbers
        Name of the query -> numbers of shape ``(m,)``, 1 or more: exp of the entropy.
        The name is written at the cold end of the line, all in the colour of queries.
    xlabel, ylabel, title
        Texts of the axes.

    Raises
    ------
    ValueError
        If a line does not hold one number per temperature.
    """
    x = np.asarray(temperatures, dtype=float)
    lines = {name: np.asarray(line, dtype=float) for name, line in numbers.items()}
    for name, y in lines.items():
        if y.shape != x.shape:
            raise ValueError(
                f"numbers[{name!r}]: got shape {y.shape}, wanted {x.shape}, "
                "one number per temperature"
            )
    ax.set_xscale("log")
    ax.set_yscale("log")
    for (name, y), style in zip(lines.items(), cycle(("-", "--", ":"))):
        ax.plot(x, y, style, color=LIGHT["query"], clip_on=False)
        ax.annotate(
            name,
            (x[0], y[0]),
            xytext=(4, 5),
            textcoords="offset points",
            color=LIGHT["query"],
        )
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(0.93, 15)
    ticks = (1, 2, 4, 8, 12)
    ax.set_yticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.set_title(title)


def weighted_fit(
    ax: Axes,
    x_known: ArrayLike,
    y_known: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    *,
    xlabel: str = "",
    title: str = "",
) -> None:
    """Draw known points in the colour of values, and a fit in that of outputs.

    Parameters
    ----------
    ax
        The axes to draw on.
    x_known, y_known
        The points, shape ``(n,)``.
    x, y
        The fitted line, shape ``(m,)``.
    xlabel, title
        Texts of the axes.

    Raises
    ------
    ValueError
        If the two arrays of a pair differ in shape.
    """
    for what, first, second in (
        ("y_known", x_known, y_known),
        ("y", x, y),
    ):
        if np.shape(first) != np.shape(second):
            raise ValueError(
                f"{what}: got shape {np.shape(second)}, wanted {np.shape(first)}"
            )
    ax.plot(x, y, color=LIGHT["output"], clip_on=False)
    ax.plot(x_known, y_known, "o", color=LIGHT["value"], markersize=4, clip_on=False)
    ax.set_xlabel(xlabel)
    ax.set_title(title)


def votes(
    ax: Axes,
    shares: ArrayLike,
    characters: Sequence[str],
    *,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
) -> None:
    """Draw the votes of each answer slot, and frame the winner of each.

    Parameters
    ----------
    ax
        The axes to draw on.
    shares
        Shape ``(n_slots, n_characters)``; each row sums to 1. Slots are drawn as
        columns, so that the winners read from left to right.
    characters
        Names of the rows drawn.
    xlabel, ylabel, title
        Texts of the axes.

    Raises
    ------
    ValueError
        If ``shares`` is not two-dimensional or the number of characters differs.
    """
    V = np.asarray(shares, dtype=float)
    if V.ndim != 2 or V.shape[1] != len(characters):
        raise ValueError(
            f"shares: got shape {V.shape}, wanted (n_slots, {len(characters)})"
        )
    heat_map(
        ax,
        V.T,
        rows=characters,
        columns=[str(slot + 1) for slot in range(len(V))],
        limits=(0.0, 1.0),
        numbers=False,
        xlabel=xlabel,
        ylabel=ylabel,
        title=title,
    )
    for slot, winner in enumerate(V.argmax(axis=1)):
        ax.add_patch(
            Rectangle(
                (slot - 0.5, winner - 0.5),
                1,
                1,
                fill=False,
                edgecolor=LIGHT["output"],
                linewidth=2,
                zorder=3,
            )
        )


def lanes(
    ax: Axes,
    stream: ArrayLike,
    widths: Mapping[str, int],
    tokens: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    frames: Sequence[tuple[int, str, str]] = (),
    title: str = "",
) -> None:
    """Draw a stream of token vectors as a bus of named lanes.

    Parameters
    ----------
    ax
        The axes to draw on.
    stream
        Shape ``(n_tokens, width)``.
    widths
        Name of a lane -> how many columns it takes, in order; they sum to ``width``.
    tokens
        Name of each row.
    columns
        Name of each column, or ``None``.
    frames
        Parts to frame: row, lane, and the role that the part plays, ``"query"``,
        ``"key"``, ``"value"`` or ``"output"``. The role's letter stands beside it.
    title
        Title of the axes.

    Raises
    ------
    ValueError
        If the lanes do not fill the stream, the names do not fit its rows, or a frame
        names a row, lane or role that does not exist.
    """
    X = np.asarray(stream, dtype=float)
    if X.ndim != 2 or X.shape[1] != sum(widths.values()):
        raise ValueError(
            f"stream: got shape {X.shape}, wanted (n_tokens, {sum(widths.values())}), "
            "the widths of all lanes together"
        )
    low, high = min(0.0, float(X.min())), max(0.0, float(X.max()))
    heat_map(
        ax,
        X,
        rows=tokens,
        columns=columns,
        signed=low < 0,
        numbers=False,
        limits=None if low < 0 else (0.0, high or 1.0),
        title=title,
    )
    ax.grid(which="minor", color=LIGHT["line"], linewidth=1)
    ends = np.cumsum(list(widths.values()))
    first = dict(zip(widths, ends - list(widths.values()), strict=True))
    for name, width in widths.items():
        if first[name]:
            ax.axvline(first[name] - 0.5, color=LIGHT["ink"], linewidth=2)
        middle = first[name] + width / 2 - 0.5
        ax.text(middle, len(X) - 0.3, name, ha="center", va="top", color=LIGHT["ink"])
    for row, lane, role in frames:
        if lane not in first or role not in ROLES or not 0 <= row < len(X):
            raise ValueError(
                f"frames: got {(row, lane, role)!r}, wanted a row from 0 to "
                f"{len(X) - 1}, a lane of {list(widths)} and a role of {list(ROLES)}"
            )
        corner, colour = (first[lane] - 0.42, row - 0.42), LIGHT[role]
        ax.add_patch(
            Rectangle(
                corner, widths[lane] - 0.16, 0.84, fill=False, edgecolor=colour,
                linewidth=2.5, zorder=3,
            )
        )  # fmt: skip
        ax.text(
            first[lane] + widths[lane] - 0.75, row, ROLES[role], ha="right", va="center",
            color=colour, fontweight="bold", zorder=4,
        )  # fmt: skip
