"""Which numbers share a mean, the two orders of a sub-layer, and curves of deep stacks."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Polygon
from numpy.typing import ArrayLike

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.style import PAGE_WIDTH

__all__ = ["plateau_panels", "shared_statistics", "stack_panels", "two_orders"]

_COLOURS = {
    "plain": "muted",
    "skip": "key",
    "post-norm": "output",
    "pre-norm": "query",
    "norm": "value",
}
"""One colour for each arrangement, in every figure of the chapter."""

_DASHES = {"post-norm": (0, (5, 1.5)), "plain": (0, (1.5, 1)), "norm": (0, (6, 1.5, 1.5, 1.5))}  # fmt: skip


def shared_statistics(
    groups: Mapping[str, ArrayLike], *, axes: Sequence[str] = ("token", "number")
) -> Figure:
    """Draw batches as stacks of sheets, and colour the numbers that share one mean.

    A sheet is a sentence: one row per token, one column per number of the vector.

    Parameters
    ----------
    groups
        Name of a normalisation -> boolean array of shape ``(batch, n, d)``, ``True``
        where a number belongs to the group that is shown.
    axes
        Names of rows and columns, written on the sheet in front.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide, a panel for each normalisation.

    Raises
    ------
    ValueError
        If there is no group, or one is not a boolean array with three axes.
    """
    if not groups:
        raise ValueError("groups: got none, wanted one or more")
    figure, panels = plt.subplots(
        1, len(groups), figsize=(PAGE_WIDTH, 2.7), squeeze=False
    )
    for ax, (name, group) in zip(panels[0], groups.items(), strict=True):
        chosen = np.asarray(group)
        if chosen.dtype != np.bool_ or chosen.ndim != 3:
            raise ValueError(
                f"groups[{name!r}]: got {chosen.dtype} of shape {chosen.shape}, wanted "
                "bool of shape (batch, n, d)"
            )
        _draw_sheets(ax, chosen, axes)
        ax.set_title(name)
    return figure


def _draw_sheets(ax: Axes, chosen: np.ndarray, names: Sequence[str]) -> None:
    batch, n, d = chosen.shape
    shift = np.array([1.1, -0.8])  # from one sheet to the one behind it
    lean = np.array([0.35, 0.0])  # a row's shift to the right
    corner = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], dtype=float)
    for b in reversed(range(batch)):
        for i, j in np.ndindex(n, d):
            place = corner + np.array([j, i])
            seen = place + np.outer(n - place[:, 1], lean) + b * shift
            ax.add_patch(
                Polygon(
                    seen, closed=True, linewidth=0.9, edgecolor=LIGHT["muted"],
                    facecolor=LIGHT["weight"] if chosen[b, i, j] else LIGHT["ground"],
                    gid="shared" if chosen[b, i, j] else None,
                )
            )  # fmt: skip
    ax.text(d / 2, n + 0.25, names[1], ha="center", va="top")
    ax.text(n * 0.17 - 0.35, n / 2, names[0], ha="right", va="center", rotation=72)
    end = np.array([n * 0.35 + d, 0.0]) + (batch - 1) * shift
    ax.text(end[0] + 0.25, end[1] + n / 2, "sentence", ha="left", va="center")
    ax.set_xlim(-1.2, end[0] + 2.9)
    ax.set_ylim(n + 1.1, end[1] - 0.4)
    ax.set_aspect("equal")
    ax.axis("off")


def two_orders() -> Figure:
    """Draw one sub-layer in both orders: the norm on the stream, and beside it.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide; post-norm on the left, pre-norm on the right.
    """
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.2))
    for ax, title, code in (
        (panels[0], "post-norm", "x = norm(x + F(x))"),
        (panels[1], "pre-norm", "x = x + F(norm(x))"),
    ):
        _draw_order(ax, before=title == "pre-norm")
        ax.set_title(title)
        ax.text(
            0.0, -1.0, code, family="DejaVu Sans Mono", fontsize=9, ha="left", va="top"
        )
    return figure


def _draw_order(ax: Axes, *, before: bool) -> None:
    """The stream runs from left to right; the sub-layer hangs above it."""

    def arrow(
        start: tuple[float, float], end: tuple[float, float], wide: float
    ) -> None:
        colour = LIGHT["ink"] if wide > 2 else LIGHT["muted"]
        ax.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle="-|>", mutation_scale=11, color=colour,
                linewidth=wide, shrinkA=0, shrinkB=0, zorder=1,
            )
        )  # fmt: skip

    def box(x: float, y: float, text: str, colour: str) -> None:
        ax.add_patch(
            FancyBboxPatch(
                (x - 0.42, y - 0.26), 0.84, 0.52, boxstyle="round,pad=0.04", zorder=2,
                facecolor=LIGHT["panel"], edgecolor=LIGHT[colour], linewidth=1.4,
            )
        )  # fmt: skip
        ax.text(x, y, text, ha="center", va="center", zorder=3)

    plus, leave = (4.6, 1.0) if before else (3.6, 1.0)
    norm = (2.0, 1.2) if before else (4.75, 0.0)
    sublayer = (3.4, 1.2) if before else (2.4, 1.2)
    arrow((0.0, 0.0), (plus - 0.22, 0.0), 2.6)
    arrow((plus + 0.22, 0.0), (6.2, 0.0), 2.6)
    ax.plot([leave, leave], [0, 1.2], color=LIGHT["muted"], linewidth=1.5, zorder=1)
    first = norm if before else sublayer
    arrow((leave, 1.2), (first[0] - 0.48, 1.2), 1.5)
    if before:
        arrow((norm[0] + 0.48, 1.2), (sublayer[0] - 0.48, 1.2), 1.5)
    ax.plot([sublayer[0] + 0.48, plus], [1.2, 1.2], color=LIGHT["muted"], linewidth=1.5)
    arrow((plus, 1.2), (plus, 0.24), 1.5)
    ax.add_patch(
        Circle((plus, 0), 0.2, facecolor=LIGHT["ground"], edgecolor=LIGHT["ink"],
               linewidth=1.4, zorder=2)
    )  # fmt: skip
    ax.text(plus, 0, "+", ha="center", va="center", zorder=3)
    box(*norm, "norm", "value")
    box(*sublayer, "F", "ink")
    ax.text(0, -0.16, "x", ha="left", va="top")
    ax.set_xlim(-0.1, 6.4)
    ax.set_ylim(-1.35, 1.75)
    ax.set_aspect("equal")
    ax.axis("off")


def stack_panels(
    panels: Mapping[str, Mapping[str, ArrayLike]],
    *,
    ylabel: str,
    limits: tuple[int, int],
    first: int = 1,
) -> Figure:
    """Draw one number per layer on a logarithmic axis, a panel for each start.

    Parameters
    ----------
    panels
        Title -> name of an arrangement -> one positive number per layer.
    ylabel
        What the numbers are.
    limits
        Lowest and highest power of ten of the axis; a line that leaves it is cut.
    first
        Layer of the first number, 0 or 1.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide, with the names in a row below.

    Raises
    ------
    ValueError
        If there is no panel or no curve, or a number is not above 0.
    """
    if not panels or not all(panels.values()):
        raise ValueError("panels: got none or an empty one, wanted curves in each")
    figure, axes = plt.subplots(
        1, len(panels), figsize=(PAGE_WIDTH, 3.0), sharey=True, squeeze=False
    )
    for ax, (title, curves) in zip(axes[0], panels.items(), strict=True):
        for name, numbers in curves.items():
            y = np.asarray(numbers, dtype=float)
            if y.ndim != 1 or not (y > 0).all():
                raise ValueError(
                    f"panels[{title!r}][{name!r}]: got shape {y.shape} and least "
                    f"{y.min(initial=np.inf)}, wanted numbers above 0, one per layer"
                )
            ax.plot(
                np.arange(first, first + len(y)), y, color=_colour(name), label=name,
                linestyle=_DASHES.get(name, "-"),
            )  # fmt: skip
        ax.set_yscale("log")
        ax.set_ylim(10.0 ** limits[0], 10.0 ** limits[1])
        ax.set_yticks([10.0**p for p in range(limits[0], limits[1] + 1, 3)])
        ax.minorticks_off()
        ax.set_title(title)
        ax.set_xlabel("layer")
    axes[0, 0].set_ylabel(ylabel)
    _legend_below(figure)
    return figure


def _legend_below(figure: Figure) -> None:
    """Name each kind of line once, in a row below the panels."""
    lines = {
        str(line.get_label()): line
        for ax in figure.axes
        for line in ax.lines
        if not str(line.get_label()).startswith("_")
    }
    figure.legend(
        lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines),
        handlelength=2.2, columnspacing=1.4,
    )  # fmt: skip


def _colour(name: str) -> str:
    return LIGHT[_COLOURS.get(name, "ink")]


def plateau_panels(
    panels: Mapping[str, Mapping[str, Sequence[tuple[ArrayLike, ArrayLike]]]],
    levels: Mapping[str, float],
    *,
    xlabel: str = "training step",
    ylabel: str = "share of right places",
) -> Figure:
    """Draw accuracy against training step: a panel for each start, a line for each seed.

    Parameters
    ----------
    panels
        Title -> name of a model -> one pair (steps, shares) for each seed.
    levels
        Text -> what can be reached without the idea in question. Each is drawn across
        all panels and named at the right edge.
    xlabel, ylabel
        Texts of the axes.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide, with the names in a row below.

    Raises
    ------
    ValueError
        If there is no panel, or a curve has not as many shares as steps.
    """
    if not panels:
        raise ValueError("panels: got none, wanted one or more")
    figure, axes = plt.subplots(
        1, len(panels), figsize=(PAGE_WIDTH, 2.8), sharey=True, squeeze=False
    )
    for ax, (title, models) in zip(axes[0], panels.items(), strict=True):
        for level in levels.values():
            ax.axhline(
                level, color=LIGHT["muted"], linewidth=0.9, linestyle=(0, (4, 3))
            )
        for name, curves in models.items():
            for number, (steps, right) in enumerate(curves):
                x, y = np.asarray(steps), np.asarray(right)
                if x.shape != y.shape:
                    raise ValueError(
                        f"panels[{title!r}][{name!r}]: got {y.size} shares for {x.size} "
                        "steps, wanted one per step"
                    )
                ax.plot(
                    x, y, color=_colour(name), linewidth=1.4,
                    linestyle=_DASHES.get(name, "-"),
                    label=name if number == 0 else "_",
                )  # fmt: skip
        ax.set_title(title)
        ax.set_xlabel(xlabel)
        ax.set_ylim(0, 1.03)
    axes[0, 0].set_ylabel(ylabel)
    _legend_below(figure)
    for text, level in levels.items():
        axes[0, -1].annotate(
            text, (1.03, level), xycoords=("axes fraction", "data"), va="center",
            color=LIGHT["muted"], annotation_clip=False,
        )  # fmt: skip
    return figure
