"""The bus with a feed-forward network on it, and a plane that a model colours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from numpy.typing import ArrayLike

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.attention import HeadDrawing, bus
from transformer_lib.plotting.style import SIGNED

__all__ = ["NetworkDrawing", "bus_with_network", "truth_plane"]


@dataclass(frozen=True)
class NetworkDrawing:
    """A feed-forward network on the bus: the lanes it reads, and the lane it writes.

    Attributes
    ----------
    name
        Written in the network's box.
    reads
        Names of lanes.
    writes
        Name of a lane.
    """

    name: str
    reads: Sequence[str]
    writes: str


def bus_with_network(
    ax: Axes,
    lanes: Mapping[str, int],
    heads: Sequence[HeadDrawing],
    network: NetworkDrawing,
) -> None:
    """Draw the residual stream as a bus, first the heads, then a feed-forward network.

    Parameters
    ----------
    ax
        The axes to draw on.
    lanes
        Name of a lane -> its number of columns, from top to bottom.
    heads
        From the first layer to the last.
    network
        It stands behind the last head.

    Raises
    ------
    ValueError
        If a head or the network names a lane that is not there.
    """
    heights = {name: -1.0 * i for i, name in enumerate(lanes)}
    for lane in (*network.reads, network.writes):
        if lane not in heights:
            raise ValueError(
                f"network: {network.name!r} uses the lane {lane!r}; there are "
                f"{', '.join(lanes)}"
            )
    bus(ax, lanes, heads)
    for arrow in [text for text in ax.texts if not text.get_text()]:
        arrow.remove()  # the lanes run on
    length = ax.get_xlim()[1] - 0.6
    for height in heights.values():
        ax.plot(
            [length, length + 3.9], [height, height], color=LIGHT["line"], linewidth=9,
            solid_capstyle="butt", zorder=1,
        )  # fmt: skip
        ax.annotate(
            "", (length + 4.25, height), (length + 3.85, height), zorder=1,
            arrowprops={"arrowstyle": "-|>", "color": LIGHT["muted"]},
        )  # fmt: skip
    top, left = 1.15, length + 0.25
    ax.add_patch(
        FancyBboxPatch(
            (left, top - 0.3), 3.1, 0.72, boxstyle="round,pad=0.05",
            facecolor=LIGHT["panel"], edgecolor=LIGHT["ink"], linewidth=1.1,
        )
    )  # fmt: skip
    ax.text(left + 1.55, top + 0.06, network.name, ha="center", va="center")
    taps = [(lane, "key", "reads") for lane in network.reads]
    taps.append((network.writes, "value", "writes"))
    for place, (lane, role, words) in zip(
        np.linspace(0.35, 2.5, len(taps)), taps, strict=True
    ):
        x, height, colour = left + place, heights[lane], LIGHT[role]
        ax.scatter([x], [height], s=26, color=colour, zorder=4)
        start, end = (x, height), (x, top - 0.35)
        if words == "writes":
            start, end = end, start
        ax.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle="-|>", mutation_scale=10, color=colour,
                linewidth=1.6, shrinkA=0, shrinkB=0, zorder=3,
            )
        )  # fmt: skip
        ax.text(
            x + 0.1, height + 0.16, words, color=colour, fontweight="bold", va="bottom"
        )
    ax.set_xlim(-2.7, length + 4.5)


def truth_plane(
    ax: Axes,
    inputs: ArrayLike,
    answers: ArrayLike,
    values: ArrayLike,
    *,
    edges: tuple[float, float] = (-0.5, 1.5),
    title: str = "",
) -> None:
    """Draw four labelled points on the plane that a model colours.

    Parameters
    ----------
    ax
        The axes to draw on.
    inputs
        Shape ``(m, 2)``: the points.
    answers
        Shape ``(m,)``: 0 or 1, written into each point.
    values
        Shape ``(k, k)``: the model's answers, 0 to 1, on an even grid of the plane;
        rows from bottom to top.
    edges
        Of the plane, in both directions.
    title
        Title of the axes.

    Raises
    ------
    ValueError
        If the shapes do not fit together.
    """
    X, y, Z = np.asarray(inputs, float), np.asarray(answers), np.asarray(values, float)
    if X.ndim != 2 or X.shape[1] != 2 or y.shape != X.shape[:1]:
        raise ValueError(
            f"inputs, answers: got shapes {X.shape} and {y.shape}, wanted (m, 2) and (m,)"
        )
    if Z.ndim != 2 or Z.shape[0] != Z.shape[1]:
        raise ValueError(f"values: got shape {Z.shape}, wanted (k, k)")
    ax.imshow(
        Z, cmap=SIGNED, vmin=0.0, vmax=1.0, origin="lower", extent=(*edges, *edges)
    )
    for (a, b), answer in zip(X, y, strict=True):
        ax.scatter(
            [a], [b], s=190, color=LIGHT["ground"], edgecolor=LIGHT["ink"], zorder=2
        )
        ax.text(
            a, b, f"{int(answer)}", ha="center", va="center_baseline", fontweight="bold"
        )
    ax.set_xticks([0, 1])
    ax.set_yticks([0, 1])
    ax.set_title(title)
