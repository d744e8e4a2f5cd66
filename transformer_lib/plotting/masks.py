"""Drawings of masks: what a copy that looks ahead seems to learn, and what it can do."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.style import PAGE_WIDTH

__all__ = ["marks_and_examination"]

_STYLES = (("query", "-"), ("key", "--"), ("output", ":"))
Curves = Mapping[str, tuple[ArrayLike, ArrayLike]]


def marks_and_examination(
    losses: Curves,
    shares: Curves,
    *,
    loss_levels: Mapping[str, float],
    share_levels: Mapping[str, float],
) -> Figure:
    """Draw the loss of some models on the left, and what they can do on the right.

    Parameters
    ----------
    losses
        Name of a model -> steps, and its loss in nats, above 0.
    shares
        The same names -> steps, and its share of right answers, 0 to 1.
    loss_levels, share_levels
        Text -> what is reached without the idea in question; dashed.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide; the loss has a logarithmic scale.

    Raises
    ------
    ValueError
        If the two sides name other models, there are more than three, or a curve has not
        one value per step.
    """
    if not losses or list(losses) != list(shares) or len(losses) > len(_STYLES):
        raise ValueError(
            f"shares: got {list(shares)}, wanted the names of losses, {list(losses)}, "
            f"one to {len(_STYLES)} of them"
        )
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.7))
    left.set_yscale("log")
    _curves(left, losses, "losses")
    _curves(right, shares, "shares")
    _levels(left, loss_levels)
    _levels(right, share_levels)
    left.set_title("loss on unseen dates, nats")
    right.set_title("share of dates written right")
    right.set_ylim(-0.04, 1.04)
    return figure


def _curves(ax: Axes, curves: Curves, called: str) -> None:
    for (name, (steps, values)), (role, dashes) in zip(
        curves.items(), _STYLES, strict=False
    ):
        x, y = np.asarray(steps), np.asarray(values)
        if x.shape != y.shape:
            raise ValueError(
                f"{called}[{name!r}]: got {y.size} values for {x.size} steps, wanted one "
                "per step"
            )
        ax.plot(x, y, dashes, color=LIGHT[role], clip_on=False)
        ax.annotate(
            name, (x[-1], y[-1]), xytext=(5, 0), textcoords="offset points",
            va="center", color=LIGHT[role], fontweight="bold", annotation_clip=False,
        )  # fmt: skip
    ax.set_xlabel("training step")
    last = max(float(np.asarray(steps)[-1]) for steps, _ in curves.values())
    ax.set_xlim(0, last)
    ax.set_xticks([tick for tick in ax.get_xticks() if tick <= last])
    ax.set_xlim(0, last * 1.7)  # room for the names


def _levels(ax: Axes, levels: Mapping[str, float]) -> None:
    for text, level in levels.items():
        ax.axhline(level, color=LIGHT["muted"], linewidth=0.9, linestyle=(0, (4, 3)))
        ax.annotate(
            text, (0.99, level), xycoords=("axes fraction", "data"),
            xytext=(0, 3), textcoords="offset points", ha="right", va="bottom",
            color=LIGHT["muted"],
        )  # fmt: skip
