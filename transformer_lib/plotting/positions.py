"""Readers that learn order, and arrows turned by their places."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc
from numpy.typing import ArrayLike

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.style import PAGE_WIDTH

__all__ = ["learning_panels", "turned_pair"]


def learning_panels(
    curves: Mapping[str, Sequence[tuple[ArrayLike, ArrayLike]]],
    level: float,
    *,
    level_name: str,
    per_row: int = 3,
    xlabel: str = "training step",
    ylabel: str = "share of right answers",
) -> Figure:
    """Draw accuracy against training step: a panel for each model, a line for each seed.

    Parameters
    ----------
    curves
        Name of a model -> for each seed its steps and its shares of right answers.
    level
        What a model without the idea reaches, 0 to 1: a dashed line in every panel.
    level_name
        What is written at that line, in the first panel.
    per_row
        Panels side by side.
    xlabel, ylabel
        Texts of the outer axes.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide.

    Raises
    ------
    ValueError
        If there is no model, or one has no seed, or not as many shares as steps.

    Examples
    --------
    >>> figure = learning_panels({"none": [([0, 1], [0.1, 0.2])]}, 0.2, level_name="bag")
    >>> len(figure.axes)
    3
    """
    if not curves:
        raise ValueError("curves: got none, wanted one model or more")
    rows = -(-len(curves) // per_row)
    figure, axes = plt.subplots(
        rows, per_row, figsize=(PAGE_WIDTH, 0.5 + 1.75 * rows),
        sharex=True, sharey=True, squeeze=False,
    )  # fmt: skip
    for ax in axes.flat[len(curves) :]:
        ax.axis("off")
    for ax, (name, seeds) in zip(axes.flat, curves.items(), strict=False):
        if not seeds:
            raise ValueError(f"curves[{name!r}]: got no seed, wanted one or more")
        ax.axhline(level, color=LIGHT["muted"], linewidth=0.9, linestyle=(0, (4, 3)))
        for steps, right in seeds:
            x, y = np.asarray(steps), np.asarray(right)
            if x.shape != y.shape:
                raise ValueError(
                    f"curves[{name!r}]: got {y.size} shares for {x.size} steps, wanted "
                    "one per step"
                )
            ax.plot(x, y, color=LIGHT["weight"], linewidth=1.3)
        ax.set_title(name)
        ax.set_ylim(0, 1.04)
    axes.flat[0].text(
        0.98, level + 0.03, level_name, color=LIGHT["muted"], fontsize=9,
        ha="right", va="bottom", transform=axes.flat[0].get_yaxis_transform(),
    )  # fmt: skip
    figure.supxlabel(xlabel, fontsize=9.5, color=LIGHT["ink"])
    figure.supylabel(ylabel, fontsize=9.5, color=LIGHT["ink"])
    return figure


def turned_pair(
    ax: Axes,
    query: ArrayLike,
    key: ArrayLike,
    places: tuple[int, int],
    *,
    angle: float = 1.0,
    title: str = "",
) -> float:
    """Draw a query and a key of width two, each turned by its place.

    The thin arrows are the two before they are turned.

    Parameters
    ----------
    ax
        The axes to draw on.
    query, key
        Two numbers each.
    places
        Place of the query and place of the key.
    angle
        Radians per place.
    title
        Text above.

    Returns
    -------
    score
        Dot product of the turned two.

    Raises
    ------
    ValueError
        If a vector does not have two numbers.
    """
    turned = []
    for name, vector, place, role in (
        ("query", query, places[0], "query"), ("key", key, places[1], "key"),
    ):  # fmt: skip
        x = np.asarray(vector, dtype=float)
        if x.shape != (2,):
            raise ValueError(f"{name}: got shape {x.shape}, wanted two numbers")
        turn = place * angle
        rotation = np.array(
            [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]
        )
        end = x @ rotation
        turned.append(end)
        _arrow(ax, x, LIGHT[role], 1.0, faint=True)
        _arrow(ax, end, LIGHT[role], 2.4)
        start = float(np.degrees(np.arctan2(x[1], x[0])))
        size = 0.34 if role == "query" else 0.5
        ax.add_patch(
            Arc(
                (0, 0), 2 * size, 2 * size, theta1=start,
                theta2=start + min(float(np.degrees(turn)), 359.0),
                color=LIGHT[role], linewidth=1.0, linestyle=(0, (2, 2)),
            )
        )  # fmt: skip
        reach = max(float(np.linalg.norm(end)), 1e-9)
        beyond = end * (reach + 0.3) / reach
        ax.text(
            float(beyond[0]), float(beyond[1]), f"{name[0]}, place {place}",
            color=LIGHT[role], ha="center", va="center", fontsize=9,
        )  # fmt: skip
    ax.set_xlim(-1.75, 1.75)
    ax.set_ylim(-1.4, 1.4)
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title(title)
    return float(turned[0] @ turned[1])


def _arrow(
    ax: Axes, end: np.ndarray, colour: str, width: float, faint: bool = False
) -> None:
    ax.annotate(
        "", xy=(float(end[0]), float(end[1])), xytext=(0, 0),
        arrowprops={
            "arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 0,
            "shrinkB": 0, "alpha": 0.35 if faint else 1.0,
        },
    )  # fmt: skip
