"""One look for every figure: ``use_style()`` is called by each notebook's first cell."""

from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.colors import LinearSegmentedColormap

from transformer_lib.palette import LIGHT

__all__ = ["PAGE_WIDTH", "SIGNED", "WEIGHTS", "use_style"]

PAGE_WIDTH = 6.8
"""Width in inches of a figure that fills the text column."""

WEIGHTS = LinearSegmentedColormap.from_list(
    "weights", ["#ffffff", "#cfe0ef", "#7fb0d8", "#2f78b4", "#0b4f8a"]
)
"""One hue from nothing to full, for attention weights and other values from 0 up."""

SIGNED = LinearSegmentedColormap.from_list(
    "signed", ["#b4470b", "#e6a277", "#f6f6f6", "#7fb0d8", "#0b62a8"]
)
"""Two hues from a neutral zero, for signed values."""


def use_style() -> None:
    """Set Matplotlib's defaults to the course's look, and make PNG output reproducible.

    Inside IPython this also configures the inline backend: white opaque ground, tight
    bounding box, and no software tag, so that a figure is the same bytes every time.
    """
    mpl.rcParams.update(
        {
            "figure.figsize": (PAGE_WIDTH, 3.0),
            "figure.dpi": 150,
            "figure.facecolor": LIGHT["ground"],
            "figure.constrained_layout.use": True,
            "savefig.facecolor": LIGHT["ground"],
            "font.family": ["DejaVu Sans"],
            "font.size": 9.5,
            "axes.titlesize": 10.5,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.titlecolor": LIGHT["ink"],
            "axes.labelcolor": LIGHT["ink"],
            "axes.edgecolor": LIGHT["muted"],
            "axes.linewidth": 0.8,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": False,
            "axes.prop_cycle": cycler(
                color=[
                    LIGHT[name] for name in ("query", "key", "value", "output", "muted")
                ]
            ),
            "xtick.color": LIGHT["muted"],
            "ytick.color": LIGHT["muted"],
            "xtick.labelcolor": LIGHT["ink"],
            "ytick.labelcolor": LIGHT["ink"],
            "text.color": LIGHT["ink"],
            "lines.linewidth": 2.0,
            "lines.markersize": 5,
            "legend.frameon": False,
            "svg.hashsalt": "transformer_lib",
        }
    )
    try:
        from IPython import get_ipython
    except ImportError:  # plain Python without IPython: nothing more to set
        return
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    from matplotlib_inline.config import InlineBackend

    kwargs: Any = {
        "bbox_inches": "tight",
        "facecolor": LIGHT["ground"],
        "metadata": {"Software": None},
    }
    InlineBackend.instance(parent=shell).print_figure_kwargs = kwargs
