"""Figures with one visual language. Imports no torch."""

from transformer_lib.plotting.attention import (
    HeadDrawing,
    Sight,
    accuracy_panels,
    arcs,
    bus,
    who_sees_whom,
)
from transformer_lib.plotting.cost import ladder_bars, scheme_panels
from transformer_lib.plotting.decoding import (
    chance_panels,
    right_and_different,
)
from transformer_lib.plotting.feed_forward import (
    NetworkDrawing,
    bus_with_network,
    truth_plane,
)
from transformer_lib.plotting.heat_map import (
    heat_map,
)
from transformer_lib.plotting.masks import (
    marks_and_examination,
)
from transformer_lib.plotting.multi_head import (
    head_blocks,
    keys_on_circle,
    median_and_range,
)
from transformer_lib.plotting.normalization import (
    plateau_panels,
    shared_statistics,
    stack_panels,
    two_orders,
)
from transformer_lib.plotting.positions import learning_panels, turned_pair
from transformer_lib.plotting.recurrence import (
    Steps,
    draw_steps,
    labelled_curves,
    seed_panels,
    threshold,
)
from transformer_lib.plotting.style import (
    PAGE_WIDTH,
    SIGNED,
    WEIGHTS,
    use_style,
)
from transformer_lib.plotting.training import (
    HtmlTable,
    attention_table,
    run_panels,
    text_table,
)

__all__ = [
    "PAGE_WIDTH",
    "SIGNED",
    "WEIGHTS",
    "HeadDrawing",
    "HtmlTable",
    "NetworkDrawing",
    "Sight",
    "Steps",
    "accuracy_panels",
    "arcs",
    "attention_table",
    "bus",
    "bus_with_network",
    "chance_panels",
    "draw_steps",
    "head_blocks",
    "heat_map",
    "keys_on_circle",
    "labelled_curves",
    "ladder_bars",
    "learning_panels",
    "marks_and_examination",
    "median_and_range",
    "plateau_panels",
    "right_and_different",
    "run_panels",
    "scheme_panels",
    "seed_panels",
    "shared_statistics",
    "stack_panels",
    "text_table",
    "threshold",
    "truth_plane",
    "turned_pair",
    "two_orders",
    "use_style",
    "who_sees_whom",
]
