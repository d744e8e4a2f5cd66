"""Turning a trained model into text: greedy, sampling, beam search, KV cache."""

from transformer_lib.decoding.beam import (
    BeamResult,
    beam_search,
    length_norm,
)
from transformer_lib.decoding.packed import (
    PackedTransformer,
    pack,
)
from transformer_lib.decoding.sampling import (
    greedy,
    next_token_distribution,
    sample,
)
from transformer_lib.decoding.step import (
    Rerun,
    StepModel,
    StepState,
)

__all__ = [
    "BeamResult",
    "PackedTransformer",
    "Rerun",
    "StepModel",
    "StepState",
    "beam_search",
    "greedy",
    "length_norm",
    "next_token_distribution",
    "pack",
    "sample",
]
