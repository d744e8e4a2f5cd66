"""Widgets that live with and without a kernel. Imports no torch."""

from transformer_lib.widgets.attention import AttentionCalculator
from transformer_lib.widgets.cost import Cost
from transformer_lib.widgets.decoding import Beam
from transformer_lib.widgets.encoder_decoder import ModelMap
from transformer_lib.widgets.feed_forward import Bend
from transformer_lib.widgets.lookup import Lookup
from transformer_lib.widgets.masks import MaskBuilder
from transformer_lib.widgets.multi_head import Heads
from transformer_lib.widgets.normalization import Depth
from transformer_lib.widgets.pad_dial import PadDial
from transformer_lib.widgets.positions import Positions
from transformer_lib.widgets.prediction import Prediction
from transformer_lib.widgets.recurrence import Reach
from transformer_lib.widgets.training import Training

__all__ = [
    "AttentionCalculator",
    "Beam",
    "Bend",
    "Cost",
    "Depth",
    "Heads",
    "Lookup",
    "MaskBuilder",
    "ModelMap",
    "PadDial",
    "Positions",
    "Prediction",
    "Reach",
    "Training",
]
