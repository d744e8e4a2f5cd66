"""Drawings of chapter 10: chances of the next token, and what samplers pay for variety."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.style import PAGE_WIDTH

__all__ = ["chance_panels", "right_and_different"]


def chance_panels(panels: Mapping[str, ArrayLike], tokens: Sequence[str]) -> Figure:
    """Draw the chances of the same tokens several times, side by side.

    Parameters
    ----------
    panels
        Title -> chance of each token, 0 to 1.
    tokens
        Names of the tokens, in the order of the bars.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide, bars lying; a token with chance 0 has no bar.

    Raises
    ------
    ValueError
        If there is no panel, or one has not one chance per token.
    """
    if not panels:
        raise ValueError("panels: got none, wanted at least one")
    figure, axes = plt.subplots(
        1, len(panels), figsize=(PAGE_WIDTH, 0.5 + 0.21 * len(tokens)),
        sharex=True, sharey=True, squeeze=False,
    )  # fmt: skip
    places = np.arange(len(tokens))
    for ax, (title, values) in zip(axes[0], panels.items(), strict=True):
        chances = np.asarray(values, dtype=float)
        if chances.shape != places.shape:
            raise ValueError(
                f"panels[{title!r}]: got {chances.size} chances, wanted one for each of "
                f"the {len(tokens)} tokens"
            )
        ax.barh(places, chances, height=0.72, color=LIGHT["weight"])
        ax.set_title(title)
        ax.set_xlabel("chance")
        ax.tick_params(axis="y", length=0)
    axes[0, 0].set_yticks(places, tokens)
    axes[0, 0].invert_yaxis()
    axes[0, 0].set_xlim(0, None)
    return figure


def right_and_different(
    points: Mapping[str, tuple[float, float]], baseline: str
) -> Figure:
    """Draw ways of writing by how often they are right and how much they vary.

    Parameters
    ----------
    points
        Name -> share of right answers, 0 to 1, and number of different right answers.
    baseline
        The name whose two values are drawn as dashed lines.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide.

    Raises
    ------
    ValueError
        If ``baseline`` is not one of the names.
    """
    if baseline not in points:
        raise ValueError(f"baseline: got {baseline!r}, wanted one of {list(points)}")
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(PAGE_WIDTH, 0.7 + 0.27 * len(points)), sharey=True
    )
    places = np.arange(len(points))
    for ax, side in ((left, 0), (right, 1)):
        level = points[baseline][side]
        ax.axvline(level, color=LIGHT["muted"], linewidth=0.9, linestyle=(0, (4, 3)))
        values = [pair[side] for pair in points.values()]
        ax.hlines(places, 0, values, color=LIGHT["line"], linewidth=2)
        ax.plot(values, places, "o", color=LIGHT["query"], clip_on=False)
        ax.set_xlim(0, None)
        ax.tick_params(axis="y", length=0)
    left.set_yticks(places, list(points))
    left.invert_yaxis()
    left.set_title("share that fit")
    right.set_title("different answers that fit")
    left.set_xlim(0, 1)
    return figure
