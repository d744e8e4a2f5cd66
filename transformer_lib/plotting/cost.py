"""Shares at several ranges of places, and times on the rungs of a ladder."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.style import PAGE_WIDTH

__all__ = ["ladder_bars", "scheme_panels"]

_LOOKS = (
    ("muted", "o", "-"),
    ("query", "s", "-"),
    ("key", "^", (0, (5, 1.5))),
    ("value", "D", "-"),
    ("output", "v", (0, (5, 1.5))),
    ("ink", "P", (0, (1.5, 1))),
)


def scheme_panels(
    panels: Mapping[str, Mapping[str, Sequence[Sequence[float]]]],
    places: Sequence[str],
    *,
    level: float,
    level_name: str,
    ylabel: str,
    xlabel: str,
) -> Figure:
    """Draw several schemes on several tasks: median over the seeds, bars over the range.

    Parameters
    ----------
    panels
        Title of the task -> name of the scheme -> for each place one share per seed,
        0 to 1. At most six schemes, the same in every panel; each keeps its colour,
        mark and dashes.
    places
        Names of the ranges of places, left to right.
    level, level_name
        What guessing reaches, drawn as a line, and its name.
    ylabel, xlabel
        Texts of the axes.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide, one panel per task, and one legend below.

    Raises
    ------
    ValueError
        If there is no panel, schemes differ between panels or are more than six, or a
        scheme has not one entry for each place.
    """
    if not panels:
        raise ValueError("panels: got none, wanted one or more")
    schemes = list(next(iter(panels.values())))
    if len(schemes) > len(_LOOKS):
        raise ValueError(
            f"panels: got {len(schemes)} schemes, wanted {len(_LOOKS)} at most"
        )
    figure, axes = plt.subplots(
        1, len(panels), figsize=(PAGE_WIDTH, 3.5), sharey=True, squeeze=False
    )
    handles: list[ErrorbarContainer] = []
    for ax, (title, shown) in zip(axes[0], panels.items(), strict=True):
        if list(shown) != schemes:
            raise ValueError(f"panels[{title!r}]: got {list(shown)}, wanted {schemes}")
        ax.axhline(level, color=LIGHT["muted"], linewidth=0.9, linestyle=(0, (4, 3)))
        ax.text(
            0, level - 0.015, level_name, va="top", color=LIGHT["muted"], fontsize=9
        )
        handles = []
        for k, (name, (colour, mark, dashes)) in enumerate(
            zip(schemes, _LOOKS, strict=False)
        ):
            shares = shown[name]
            if len(shares) != len(places):
                raise ValueError(
                    f"panels[{title!r}][{name!r}]: got {len(shares)} places, wanted "
                    f"{len(places)}"
                )
            x = np.arange(len(places)) + 0.05 * (k - (len(schemes) - 1) / 2)
            middle = [float(np.median(part)) for part in shares]
            low = [m - min(part) for m, part in zip(middle, shares, strict=True)]
            high = [max(part) - m for m, part in zip(middle, shares, strict=True)]
            handles.append(
                ax.errorbar(
                    x, middle, yerr=[low, high], color=LIGHT[colour], marker=mark,
                    linestyle=dashes, linewidth=1.6, elinewidth=1.1, label=name,
                )
            )  # fmt: skip
        ax.set_title(title)
        ax.set_xticks(range(len(places)), places)
        ax.set_xlabel(xlabel)
        ax.set_ylim(-0.06, 1.05)
    axes[0, 0].set_ylabel(ylabel)
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def ladder_bars(ax: Axes, values: Mapping[str, Sequence[float]], xlabel: str) -> None:
    """Draw one bar per rung from the top down: the least of its rounds, and the others.

    Parameters
    ----------
    ax
        The axes to draw on.
    values
        Name of the rung -> one time per round. The bar is the shortest; dots show all.
    xlabel
        What is measured, and its unit.

    Raises
    ------
    ValueError
        If there is no rung.
    """
    if not values:
        raise ValueError("values: got none, wanted one rung or more")
    names = list(values)
    for k, name in enumerate(names):
        least = min(values[name])
        ax.barh(k, least, height=0.6, color=LIGHT["weight"], zorder=1)
        ax.plot(
            values[name], [k] * len(values[name]), ".", color=LIGHT["ink"], zorder=2
        )
        ax.annotate(
            f"{least:.0f}", (least, k), xytext=(-5, 0), textcoords="offset points",
            ha="right", va="center", color=LIGHT["ground"], weight="bold",
        )  # fmt: skip
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(xlabel)
    ax.set_xlim(0, 1.08 * max(max(rounds) for rounds in values.values()))
