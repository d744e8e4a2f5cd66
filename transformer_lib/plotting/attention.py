"""Who may see whom, who looks where, and the bus of named lanes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from numpy.typing import ArrayLike

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.style import PAGE_WIDTH

__all__ = ["HeadDrawing", "Sight", "accuracy_panels", "arcs", "bus", "who_sees_whom"]


@dataclass(frozen=True)
class Sight:
    """One pattern of who may see whom.

    Attributes
    ----------
    name
        Title of the pattern, such as ``"masked self-attention"``.
    mask
        Shape ``(n_queries, n_keys)``, ``True`` = this query may attend to this key.
    queries, keys
        Names of the tokens that ask and of those that answer.
    code
        The line, or lines, of code that make the pattern.
    """

    name: str
    mask: ArrayLike
    queries: Sequence[str]
    keys: Sequence[str]
    code: str


def who_sees_whom(sights: Sequence[Sight]) -> Figure:
    """Draw each pattern three ways, side by side: graph, matrix, line of code.

    In the graph the tokens that answer stand below, those that ask above, and a line
    joins each query to every key that it may see. In the matrix rows ask and columns
    answer, and a filled cell is a pair that may meet.

    Parameters
    ----------
    sights
        One row of the figure each.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide.

    Raises
    ------
    ValueError
        If there is no pattern, or a mask is not boolean or does not fit its names.

    Examples
    --------
    >>> import numpy as np
    >>> words = ["the", "cat", "sat"]
    >>> triangle = np.tril(np.ones((3, 3), dtype=bool))
    >>> figure = who_sees_whom(
    ...     [Sight("masked", triangle, words, words, "np.tril(np.ones((3, 3), bool))")]
    ... )
    >>> len(figure.axes)
    3
    """
    if not sights:
        raise ValueError("sights: got none, wanted one pattern or more")
    masks = [_checked_mask(sight) for sight in sights]
    figure, axes = plt.subplots(
        len(sights),
        3,
        figsize=(PAGE_WIDTH, 1.75 * len(sights)),
        width_ratios=(1.35, 1.0, 1.45),
        squeeze=False,
    )
    for (graph, matrix, code), sight, mask in zip(axes, sights, masks, strict=True):
        _draw_graph(graph, sight, mask)
        _draw_matrix(matrix, sight, mask)
        _draw_code(code, sight)
    return figure


def _checked_mask(sight: Sight) -> np.ndarray:
    mask = np.asarray(sight.mask)
    wanted = (len(sight.queries), len(sight.keys))
    if mask.dtype != np.bool_ or mask.shape != wanted:
        raise ValueError(
            f"mask of {sight.name!r}: got {mask.dtype} of shape {mask.shape}, wanted "
            f"bool of shape {wanted}, one row per query and one column per key"
        )
    return mask


def _draw_graph(ax: Axes, sight: Sight, mask: np.ndarray) -> None:
    n_queries, n_keys = mask.shape
    widest = max(n_queries, n_keys)
    above = np.arange(n_queries) + (widest - n_queries) / 2
    below = np.arange(n_keys) + (widest - n_keys) / 2
    for i, j in zip(*np.nonzero(mask), strict=True):
        ax.plot(
            [above[i], below[j]], [1, 0], color=LIGHT["weight"], linewidth=1.4, zorder=1
        )
    for places, height, names, role, side in (
        (above, 1, sight.queries, "query", "bottom"),
        (below, 0, sight.keys, "key", "top"),
    ):
        ax.scatter(places, [height] * len(places), s=42, color=LIGHT[role], zorder=2)
        for place, name in zip(places, names, strict=True):
            ax.text(
                place,
                height + (0.14 if height else -0.14),
                name,
                ha="center",
                va=side,
                color=LIGHT[role],
            )
    ax.set_xlim(-0.6, widest - 0.4)
    ax.set_ylim(-0.45, 1.45)
    ax.axis("off")
    ax.set_title(sight.name)


def _draw_matrix(ax: Axes, sight: Sight, mask: np.ndarray) -> None:
    n_queries, n_keys = mask.shape
    for i, j in np.ndindex(n_queries, n_keys):
        ax.add_patch(
            Rectangle(
                (j - 0.5, i - 0.5), 1, 1, edgecolor=LIGHT["line"], linewidth=1,
                facecolor=LIGHT["weight"] if mask[i, j] else LIGHT["ground"],
            )
        )  # fmt: skip
    ax.set_xlim(-0.5, n_keys - 0.5)
    ax.set_ylim(n_queries - 0.5, -0.5)
    ax.set_aspect("equal")
    ax.set_xticks(range(n_keys), sight.keys, color=LIGHT["key"])
    ax.set_yticks(range(n_queries), sight.queries, color=LIGHT["query"])
    ax.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _draw_code(ax: Axes, sight: Sight) -> None:
    ax.text(
        0, 0.5, sight.code, family="DejaVu Sans Mono", fontsize=9, va="center",
        transform=ax.transAxes,
    )  # fmt: skip
    ax.axis("off")


def arcs(
    ax: Axes,
    words: Sequence[str],
    weights: ArrayLike,
    asking: int,
    *,
    least: float = 0.05,
    title: str = "",
) -> None:
    """Draw where one word of a sentence looks: an arc to each word, as thick as its weight.

    Parameters
    ----------
    ax
        The axes to draw on.
    words
        The sentence, ``n`` words.
    weights
        Shape ``(n,)``: the weights of the asking word, not negative.
    asking
        Position of the word that asks.
    least
        Arcs and numbers of smaller weights are left out.
    title
        Title of the axes.

    Raises
    ------
    ValueError
        If the weights do not fit the words or ``asking`` is not a position.
    """
    a = np.asarray(weights, dtype=float)
    if a.shape != (len(words),):
        raise ValueError(f"weights: got shape {a.shape}, wanted ({len(words)},)")
    if not 0 <= asking < len(words):
        raise ValueError(f"asking: got {asking}, wanted 0 to {len(words) - 1}")
    widths = np.array([len(word) for word in words]) + 1.6
    centres = np.cumsum(widths) - widths / 2
    for place, weight, word in zip(centres, a, words, strict=True):
        own = place == centres[asking]
        ax.text(
            place, 0, word, ha="center", va="center",
            color=LIGHT["query"] if own else LIGHT["ink"],
            fontweight="bold" if own else "normal",
        )  # fmt: skip
        if weight < least:
            continue
        if not own:
            left, right = sorted((place, centres[asking]))
            x = np.linspace(left, right, 60)
            y = 0.34 + 0.62 * np.sin(np.pi * (x - left) / (right - left)) ** 0.7 * (
                0.35 + 0.65 * (right - left) / widths.sum()
            )
            ax.plot(
                x, y, color=LIGHT["weight"], linewidth=0.5 + 5 * weight,
                solid_capstyle="round", alpha=0.85,
            )  # fmt: skip
        ax.text(
            place, -0.36, f"{weight:.2f}", ha="center", va="center", fontsize=9,
            color=LIGHT["muted"],
        )  # fmt: skip
    ax.set_xlim(0, widths.sum())
    ax.set_ylim(-0.6, 1.05)
    ax.axis("off")
    ax.set_title(title)


@dataclass(frozen=True)
class HeadDrawing:
    """One head on the bus: the lanes it reads, and the lane it writes.

    Attributes
    ----------
    name
        Written in the head's box.
    query, key, value
        Names of lanes. Two of them may be the same lane.
    writes
        Name of a lane, or ``None`` for a head whose output is the answer.
    done
        ``False`` draws the head dashed: a later chapter adds it.
    """

    name: str
    query: str
    key: str
    value: str
    writes: str | None
    done: bool = True


def bus(ax: Axes, lanes: Mapping[str, int], heads: Sequence[HeadDrawing]) -> None:
    """Draw the residual stream as a bus: lanes run from left to right, heads tap them.

    Parameters
    ----------
    ax
        The axes to draw on.
    lanes
        Name of a lane -> its number of columns, from top to bottom.
    heads
        From the first layer to the last.

    Raises
    ------
    ValueError
        If a head names a lane that is not there.
    """
    heights = {name: -1.0 * i for i, name in enumerate(lanes)}
    for head in heads:
        for use in (head.query, head.key, head.value, head.writes):
            if use is not None and use not in heights:
                raise ValueError(
                    f"heads: {head.name!r} uses the lane {use!r}; there are "
                    f"{', '.join(lanes)}"
                )
    length = 4.4 * len(heads) + 0.3
    for name, height in heights.items():
        ax.plot([0, length], [height, height], color=LIGHT["line"], linewidth=9,
                solid_capstyle="butt", zorder=1)  # fmt: skip
        ax.annotate("", (length + 0.35, height), (length - 0.05, height), zorder=1,
                    arrowprops={"arrowstyle": "-|>", "color": LIGHT["muted"]})  # fmt: skip
        ax.text(-0.15, height, f"{name} ({lanes[name]})", ha="right", va="center")
    top = 1.15
    for number, head in enumerate(heads):
        _draw_head(ax, head, 4.4 * number + 0.35, top, heights)
    ax.set_xlim(-2.7, length + 0.6)
    ax.set_ylim(min(heights.values()) - 0.45, top + 1.05)
    ax.axis("off")


def _draw_head(
    ax: Axes, head: HeadDrawing, left: float, top: float, heights: Mapping[str, float]
) -> None:
    style = "solid" if head.done else (0, (3, 2))
    ax.add_patch(
        FancyBboxPatch(
            (left, top - 0.3), 3.5, 0.72, boxstyle="round,pad=0.05", linestyle=style,
            facecolor=LIGHT["panel"], edgecolor=LIGHT["ink"], linewidth=1.1,
        )
    )  # fmt: skip
    ax.text(left + 1.75, top + 0.06, head.name, ha="center", va="center")
    for place, letter, role, lane in (
        (0.35, "Q", "query", head.query),
        (1.1, "K", "key", head.key),
        (1.85, "V", "value", head.value),
        (3.15, "O", "output", head.writes),
    ):
        x, colour = left + place, LIGHT[role]
        if lane is None:  # read out: the arrow leaves the box upwards
            start, end, label = (x, top + 0.47), (x, top + 0.95), top + 0.6
        else:
            height = heights[lane]
            start, end, label = (x, height), (x, top - 0.35), height + 0.16
            ax.scatter([x], [height], s=26, color=colour, zorder=4)
            if letter == "O":
                start, end = end, start
        ax.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle="-|>", mutation_scale=10, color=colour,
                linewidth=1.6, linestyle=style, shrinkA=0, shrinkB=0, zorder=3,
            )
        )  # fmt: skip
        ax.text(
            x + (0.1 if lane else -0.2),
            label,
            letter if lane else "O, the answer",
            color=colour,
            fontweight="bold",
            va="bottom",
            ha="left" if lane else "right",
        )


def accuracy_panels(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    levels: Mapping[str, float],
    *,
    xlabel: str = "training step",
    ylabel: str = "share of right answers",
) -> Figure:
    """Draw accuracy against training step, a panel for each model.

    Parameters
    ----------
    curves
        Name of a model -> its steps and its shares of right answers, 0 to 1.
    levels
        Text -> what can be reached without the idea in question. Each is drawn across
        all panels and named at the right edge.
    xlabel, ylabel
        Texts of the axes.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide.

    Raises
    ------
    ValueError
        If there is no curve, or one has not as many shares as steps.
    """
    if not curves:
        raise ValueError("curves: got none, wanted one or more")
    figure, axes = plt.subplots(
        1, len(curves), figsize=(PAGE_WIDTH, 2.3), sharey=True, squeeze=False
    )
    for ax, (name, (steps, right)) in zip(axes[0], curves.items(), strict=True):
        x, y = np.asarray(steps), np.asarray(right)
        if x.shape != y.shape:
            raise ValueError(
                f"curves[{name!r}]: got {y.size} shares for {x.size} steps, wanted one "
                "per step"
            )
        for level in levels.values():
            ax.axhline(
                level, color=LIGHT["muted"], linewidth=0.9, linestyle=(0, (4, 3))
            )
        ax.plot(x, y, color=LIGHT["weight"])
        ax.set_title(name)
        ax.set_xlabel(xlabel)
        ax.set_ylim(0, 1.03)
    axes[0, 0].set_ylabel(ylabel)
    for text, level in levels.items():
        axes[0, -1].annotate(
            text, (1.03, level), xycoords=("axes fraction", "data"), va="center",
            color=LIGHT["muted"], annotation_clip=False,
        )  # fmt: skip
    return figure
