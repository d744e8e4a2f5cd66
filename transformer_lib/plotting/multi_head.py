"""Heads as blocks of columns, keys on a circle, and a score against the number of heads."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.style import WEIGHTS

__all__ = ["head_blocks", "keys_on_circle", "median_and_range"]

MOST_HEADS = 4
"""More shades than that cannot be told apart."""


def head_blocks(ax: Axes, owners: ArrayLike, *, title: str = "") -> None:
    """Draw which head each number of a token goes to.

    Parameters
    ----------
    ax
        The axes to draw on.
    owners
        Shape ``(n, d_model)``: the number of the head, 0 to 3, for every column of
        every token.
    title
        Title of the axes.

    Raises
    ------
    ValueError
        If ``owners`` is not two-dimensional or holds another number.
    """
    heads = np.asarray(owners)
    if heads.ndim != 2:
        raise ValueError(f"owners: got shape {heads.shape}, wanted (n, d_model)")
    if not np.isin(heads, range(MOST_HEADS)).all():
        raise ValueError(
            f"owners: got {np.unique(heads)}, wanted 0 to {MOST_HEADS - 1}"
        )
    n, d_model = heads.shape
    count = int(heads.max(initial=0)) + 1
    for i, j in np.ndindex(n, d_model):
        share = (int(heads[i, j]) + 1) / count
        ax.add_patch(
            Rectangle(
                (j - 0.5, i - 0.5), 1, 1, linewidth=1.2, edgecolor=LIGHT["ground"],
                facecolor=WEIGHTS(share),
            )
        )  # fmt: skip
        ax.text(
            j, i, f"{int(heads[i, j]) + 1}", ha="center", va="center",
            color=LIGHT["ink"] if share <= 0.6 else LIGHT["ground"], fontsize=9.5,
        )  # fmt: skip
    ax.set_xlim(-0.5, d_model - 0.5)
    ax.set_ylim(n - 0.5, -0.5)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks(range(n), [f"token {i + 1}" for i in range(n)])
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_title(title)


def keys_on_circle(
    ax: Axes, keys: ArrayLike, weights: ArrayLike, query: ArrayLike, *, title: str = ""
) -> None:
    """Draw keys of width 2 in the plane, as large and dark as their weights.

    Parameters
    ----------
    ax
        The axes to draw on.
    keys
        Shape ``(n, 2)``, on or inside the circle of radius 1.
    weights
        Shape ``(n,)``, 0 to 1; divided by the largest they show more of a flat softmax.
    query
        Shape ``(2,)``: only its direction is drawn.
    title
        Title of the axes.

    Raises
    ------
    ValueError
        If the shapes do not fit, or the query is zero.
    """
    K, a, q = (np.asarray(z, dtype=float) for z in (keys, weights, query))
    if K.ndim != 2 or K.shape[1] != 2 or a.shape != (len(K),) or q.shape != (2,):
        raise ValueError(
            f"keys, weights, query: got shapes {K.shape}, {a.shape}, {q.shape}, "
            "wanted (n, 2), (n,), (2,)"
        )
    if not q.any():
        raise ValueError("query: got zero, wanted a direction")
    x, y = (float(part) for part in 0.72 * q / np.linalg.norm(q))
    ax.annotate(
        "", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": LIGHT["query"], "lw": 2}
    )  # fmt: skip
    faint = 6 if len(K) > 100 else 26
    order = np.argsort(a)  # the heavy ones on top
    ax.scatter(
        K[order, 0], K[order, 1], s=faint + 130 * a[order], c=a[order], cmap=WEIGHTS,
        norm=Normalize(0, 1), edgecolors=LIGHT["muted"],
        linewidths=0.3 if len(K) > 100 else 0.8,
    )  # fmt: skip
    ax.set_xlim(-1.25, 1.25)
    ax.set_ylim(-1.25, 1.25)
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title(title)


def median_and_range(
    ax: Axes,
    values: Mapping[int, Sequence[float]],
    levels: Mapping[str, float],
    *,
    xlabel: str,
    ylabel: str,
    ticks: Mapping[int, str] | None = None,
) -> None:
    """Draw a share against a size: median over the seeds, and a bar over their range.

    Parameters
    ----------
    ax
        The axes to draw on.
    values
        Size -> one share per seed, 0 to 1. Sizes stand at equal distances.
    levels
        Text -> what is reached without the idea in question.
    xlabel, ylabel
        Texts of the axes.
    ticks
        Size -> its label; the size itself if left out.

    Raises
    ------
    ValueError
        If there are no values.
    """
    if not values:
        raise ValueError("values: got none, wanted one size or more")
    for text, level in levels.items():
        ax.axhline(level, color=LIGHT["muted"], linewidth=0.9, linestyle=(0, (4, 3)))
        ax.annotate(
            text, (1.02, level), xycoords=("axes fraction", "data"), va="center",
            color=LIGHT["muted"], annotation_clip=False,
        )  # fmt: skip
    places = range(len(values))
    middle = [float(np.median(shares)) for shares in values.values()]
    for place, shares in zip(places, values.values(), strict=True):
        ax.plot(
            [place, place], [min(shares), max(shares)], color=LIGHT["weight"],
            linewidth=6, alpha=0.35, solid_capstyle="round",
        )  # fmt: skip
    ax.plot(places, middle, color=LIGHT["weight"], marker="o")
    labels = [str(size) if ticks is None else ticks[size] for size in values]
    ax.set_xticks(list(places), labels)
    ax.set_ylim(0, 1.05)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
