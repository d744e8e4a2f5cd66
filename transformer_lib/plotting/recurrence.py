"""Who waits for whom, curves with their names at the line, and one panel per contestant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.transforms import blended_transform_factory
from numpy.typing import ArrayLike

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.style import PAGE_WIDTH

__all__ = ["Steps", "draw_steps", "labelled_curves", "seed_panels", "threshold"]

_COLOURS = {"RNN": "key", "LSTM": "output", "attention": "query"}
_LABEL_GAP = 12.0  # points between two names at the end of lines


def _colour(name: str) -> str:
    """One colour for each family of models, from its name's first word."""
    return LIGHT[_COLOURS.get(name.split(",")[0].split(" ")[0], "muted")]


@dataclass(frozen=True)
class Steps:
    """One layer over a row of words, and what each of its cells waits for.

    Attributes
    ----------
    name
        Title of the panel.
    steps
        One number per word: how many steps, one after the other, until the cell is
        done.
    words_read
        Boolean, ``(n, n)``: row ``t`` says which words cell ``t`` reads.
    cells_read
        Boolean, ``(n, n)``: row ``t`` says which cells of its own layer it waits for.
    """

    name: str
    steps: Sequence[int]
    words_read: ArrayLike
    cells_read: ArrayLike


def draw_steps(words: Sequence[str], layers: Sequence[Steps]) -> Figure:
    """Draw each layer above its words, each cell with its number of steps.

    Parameters
    ----------
    words
        The ``n`` words of the sentence.
    layers
        One panel each, side by side.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide.

    Raises
    ------
    ValueError
        If there is no layer, or its numbers or matrices do not fit the words.
    """
    n = len(words)
    if not layers:
        raise ValueError("layers: got none, wanted one or more")
    figure, axes = plt.subplots(
        1, len(layers), figsize=(PAGE_WIDTH, 1.8), squeeze=False
    )
    for ax, layer in zip(axes[0], layers, strict=True):
        from_words = _square(f"words_read of {layer.name!r}", layer.words_read, n)
        from_cells = _square(f"cells_read of {layer.name!r}", layer.cells_read, n)
        if len(layer.steps) != n:
            raise ValueError(
                f"steps of {layer.name!r}: got {len(layer.steps)} numbers, wanted {n}"
            )
        for t, s in zip(*np.nonzero(from_words), strict=True):
            ax.plot([s, t], [0.14, 0.76], color=LIGHT["weight"], lw=1.0, zorder=1)
        for t, s in zip(*np.nonzero(from_cells), strict=True):
            ax.annotate(
                "",
                xy=(t - 0.36, 1.0),
                xytext=(s + 0.36, 1.0),
                arrowprops={"arrowstyle": "-|>", "color": LIGHT["key"], "lw": 1.8,
                            "shrinkA": 0, "shrinkB": 0},
            )  # fmt: skip
        for t, (word, number) in enumerate(zip(words, layer.steps, strict=True)):
            ax.add_patch(
                FancyBboxPatch(
                    (t - 0.27, 0.8), 0.54, 0.4, boxstyle="round,pad=0.04",
                    facecolor=LIGHT["panel"], edgecolor=LIGHT["ink"], linewidth=1.0,
                )
            )  # fmt: skip
            ax.text(t, 0.99, str(number), ha="center", va="center", weight="bold")
            ax.text(t, 0.0, word, ha="center", va="center")
        ax.set_title(layer.name)
        ax.set_xlim(-0.55, n - 0.45)
        ax.set_ylim(-0.2, 1.4)
        ax.axis("off")
    return figure


def _square(name: str, matrix: ArrayLike, n: int) -> np.ndarray:
    found = np.asarray(matrix)
    if found.dtype != np.bool_ or found.shape != (n, n):
        raise ValueError(
            f"{name}: got {found.dtype} of shape {found.shape}, wanted bool of shape "
            f"({n}, {n})"
        )
    return found


def labelled_curves(
    ax: Axes,
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    ranges: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    beside: Mapping[str, tuple[float | int, str]] = MappingProxyType({}),
    roles: Mapping[str, str] = MappingProxyType({}),
    room: float = 0.3,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
) -> None:
    """Draw lines whose names stand at their right ends, never one over another.

    A name's first word gives the colour, so that all variants of one family share it;
    the variants differ in the dashes. Set logarithmic scales and limits *before* the
    call: the names find their places in the axes as they are then.

    Parameters
    ----------
    ax
        The axes to draw on.
    curves
        Name -> ``(x, y)``, each ``(n,)``. Points that are not finite are left out, and
        on a logarithmic axis those that are not positive.
    ranges
        Name -> lowest and highest value at each ``x``, drawn as a pale band.
    beside
        Name -> ``(x, side)``: this name stands on the ``"left"`` or ``"right"`` of its
        line at ``x`` instead, as for a line that leaves the axes through the floor.
    roles
        Name -> the colour of the palette that it has instead.
    room
        Part of the axes' width kept free on the right for the names, 0 to below 1.
    xlabel, ylabel, title
        Texts of the axes.

    Raises
    ------
    ValueError
        If there is no curve, one has no point to draw, ``x`` and ``y`` differ in shape,
        or a side is neither left nor right.
    """
    if not curves:
        raise ValueError("curves: got none, wanted one or more")
    if not 0 <= room < 1:
        raise ValueError(f"room: got {room}, wanted a number from 0 to below 1")
    for name, (_, side) in beside.items():
        if name not in curves or side not in ("left", "right"):
            raise ValueError(
                f"beside[{name!r}]: got {side!r}, wanted a curve's name and left or right"
            )
    dashes: dict[str, int] = {}
    lines = []
    for name, (x_values, y_values) in curves.items():
        x, y = (np.asarray(v, dtype=float) for v in (x_values, y_values))
        if x.ndim != 1 or x.shape != y.shape:
            raise ValueError(
                f"curves[{name!r}]: got shapes {x.shape} and {y.shape}, wanted (n,) twice"
            )
        drawn = np.isfinite(x) & np.isfinite(y)
        for values, scale in ((x, ax.get_xscale()), (y, ax.get_yscale())):
            drawn &= (values > 0) if scale == "log" else True
        if not drawn.any():
            raise ValueError(f"curves[{name!r}]: got no point that can be drawn")
        colour = LIGHT[roles[name]] if name in roles else _colour(name)
        style = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))[
            dashes.setdefault(colour, 0) % 4
        ]
        dashes[colour] += 1
        if ranges and name in ranges:
            ax.fill_between(x, *ranges[name], color=colour, alpha=0.15, linewidth=0)
        ax.plot(x[drawn], y[drawn], color=colour, linestyle=style)
        lines.append((x[drawn], y[drawn], name, colour))
    ax.set_xlabel(xlabel, loc="left")
    ax.set_ylabel(ylabel)
    ax.set_title(title)
    _keep_room(ax, room, max(float(x.max()) for x, *_ in lines))
    _name_ends(
        ax, [(x[-1], y[-1], *rest) for x, y, *rest in lines if rest[0] not in beside]
    )
    for x, y, name, colour in lines:
        if name in beside:
            _name_beside(ax, x, y, name, colour, *beside[name])


def _keep_room(ax: Axes, room: float, right: float) -> None:
    """Widen the axes past ``right``, so that names fit, without drawing an axis there."""
    left = ax.get_xlim()[0]
    if ax.get_xscale() == "log":
        ax.set_xlim(left, left * (right / left) ** (1 / (1 - room)))
    else:
        ax.set_xlim(left, left + (right - left) / (1 - room))
    ax.set_xticks([tick for tick in ax.get_xticks() if left <= tick <= right])
    ax.set_xticks([], minor=True)
    ax.spines["bottom"].set_bounds(left, right)


def _name_ends(ax: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Write names at line ends, moved up or down where they would overlap."""
    if not ends:
        return
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    pixels = ax.figure.dpi / 72.0
    at = ax.transData.transform([(x, y) for x, y, _, _ in ends])
    height = np.clip(at[:, 1], ax.bbox.y0, ax.bbox.y1)
    order = [int(i) for i in np.argsort(height, kind="stable")]
    for _ in range(200):  # push neighbours apart, a little each time
        for lower, upper in pairwise(order):
            overlap = _LABEL_GAP * pixels - (height[upper] - height[lower])
            if overlap > 0 and abs(at[upper, 0] - at[lower, 0]) < 40 * pixels:
                height[lower] -= overlap / 2
                height[upper] += overlap / 2
    for (x, y, name, colour), moved in zip(ends, height - at[:, 1], strict=True):
        ax.annotate(
            name, (x, y), xytext=(5, moved / pixels), textcoords="offset points",
            va="center", color=colour, fontsize=9, annotation_clip=False,
        )  # fmt: skip


def _name_beside(
    ax: Axes,
    x: np.ndarray,
    y: np.ndarray,
    name: str,
    colour: str,
    place: float | int,
    side: str,
) -> None:
    """Write one name to the left or right of its line at ``place``."""
    nearest = int(np.abs(x - place).argmin())
    ax.annotate(
        name, (x[nearest], y[nearest]), xytext=(-6 if side == "left" else 6, 0),
        textcoords="offset points", va="center", color=colour, fontsize=9,
        ha="right" if side == "left" else "left",
    )  # fmt: skip


def threshold(
    ax: Axes,
    at: float | int,
    words: str = "",
    *,
    vertical: bool = False,
    place: float = 0.02,
) -> None:
    """A thin line that says what a model without the idea would get, or where training ended.

    Parameters
    ----------
    ax
        The axes to draw on.
    at
        Where the line crosses the y axis, or the x axis if ``vertical``.
    words
        What it means; stands at the line. Empty where a tick says it.
    vertical
        ``True`` draws it upright, as tall as the axes are now; else it ends where the
        drawn part of the x axis ends.
    place
        Where along the line the words begin, from 0 to 1.
    """
    line: dict[str, Any] = {
        "color": LIGHT["muted"], "linewidth": 0.9, "linestyle": (0, (3, 2)), "zorder": 1,
        "scalex": False, "scaley": False,
    }  # fmt: skip
    text: dict[str, Any] = {
        "fontsize": 9, "color": LIGHT["muted"], "textcoords": "offset points",
        "va": "bottom",
    }  # fmt: skip
    if vertical:
        ax.plot([at, at], ax.get_ylim(), **line)
        frame = blended_transform_factory(ax.transData, ax.transAxes)
        ax.annotate(words, (at, place), (4, 0), xycoords=frame, **text)
    else:
        ax.plot(ax.spines["bottom"].get_bounds() or ax.get_xlim(), [at, at], **line)
        frame = blended_transform_factory(ax.transAxes, ax.transData)
        ax.annotate(words, (place, at), (0, 3), xycoords=frame, **text)


def seed_panels(
    columns: Sequence[str],
    results: Mapping[str, ArrayLike],
    *,
    chance: float,
    per_row: int = 4,
    xlabel: str = "",
    ylabel: str = "",
) -> Figure:
    """One small panel per contestant: a dot for every seed, a line through the medians.

    Parameters
    ----------
    columns
        Names of the conditions along the x axis.
    results
        Contestant -> scores from 0 to 1, ``(len(columns), seeds)``.
    chance
        What guessing gets; drawn as a line in every panel.
    per_row
        Panels side by side.
    xlabel, ylabel
        Of the outer axes.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide.

    Raises
    ------
    ValueError
        If there is no contestant, or scores do not fit the columns.
    """
    if not results:
        raise ValueError("results: got none, wanted one contestant or more")
    rows = -(-len(results) // per_row)
    figure, axes = plt.subplots(
        rows, per_row, figsize=(PAGE_WIDTH, 0.45 + 1.5 * rows),
        sharex=True, sharey=True, squeeze=False,
    )  # fmt: skip
    places = np.arange(len(columns))
    for ax in axes.flat[len(results) :]:
        ax.axis("off")
    for ax, (name, scores) in zip(axes.flat, results.items(), strict=False):
        table = np.asarray(scores, dtype=float)
        if table.ndim != 2 or len(table) != len(columns):
            raise ValueError(
                f"results[{name!r}]: got shape {table.shape}, wanted "
                f"({len(columns)}, seeds)"
            )
        colour = _colour(name)
        ax.axhline(chance, color=LIGHT["muted"], linewidth=0.9, linestyle=(0, (3, 2)))
        ax.plot(places, np.median(table, axis=1), color=colour, linewidth=1.4)
        sideways = np.linspace(-0.16, 0.16, table.shape[1])
        for place, row in zip(places, table, strict=True):
            ax.scatter(place + sideways, row, s=13, color=colour, linewidth=0, zorder=3)
        family, _, variant = name.partition(", ")
        ax.set_title(f"{family}\n{variant}" if variant else family, fontsize=9.5)
        ax.set_xticks(places, columns)
        ax.set_xlim(-0.5, len(columns) - 0.5)
        ax.set_ylim(0.36, 1.06)
        ax.set_yticks([0.5, 0.75, 1.0], ["50 %", "75 %", "100 %"])
    lowest = [float(np.min(scores)) for scores in results.values()]
    axes.flat[int(np.argmax(lowest))].text(  # where no dot is in the way
        -0.35, chance - 0.02, "chance", color=LIGHT["muted"], fontsize=9, va="top"
    )
    figure.supxlabel(xlabel, fontsize=9.5, color=LIGHT["ink"])
    figure.supylabel(ylabel, fontsize=9.5, color=LIGHT["ink"])
    return figure
