"""The same blocks as PyTorch modules, written to be fast."""

from transformer_lib.nn.attention import (
    SelfAttention,
    attention,
)
from transformer_lib.nn.config import (
    TransformerConfig,
)
from transformer_lib.nn.encoder_decoder import (
    AttentionMaps,
    Decoder,
    DecoderLayer,
    DecoderState,
    Encoder,
    EncoderLayer,
    Transformer,
)
from transformer_lib.nn.feed_forward import (
    FeedForward,
)
from transformer_lib.nn.lookup import (
    SoftLookup,
    masked_softmax,
    soft_lookup,
)
from transformer_lib.nn.masks import (
    causal_mask,
    padding_mask,
)
from transformer_lib.nn.multi_head import (
    KeysAndValues,
    KeyValueCache,
    MultiHeadAttention,
    merge_heads,
    split_heads,
)
from transformer_lib.nn.normalization import (
    LayerNorm,
    ResidualSublayer,
)
from transformer_lib.nn.positions import (
    Alibi,
    LearnedPositions,
    RelativeBias,
    RotaryPositions,
    SinusoidalPositions,
)
from transformer_lib.nn.recurrence import (
    LSTM,
    RNN,
)
from transformer_lib.nn.training import (
    cross_entropy,
    linear_cross_entropy,
)

__all__ = [
    "LSTM",
    "RNN",
    "Alibi",
    "AttentionMaps",
    "Decoder",
    "DecoderLayer",
    "DecoderState",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "KeyValueCache",
    "KeysAndValues",
    "LayerNorm",
    "LearnedPositions",
    "MultiHeadAttention",
    "RelativeBias",
    "ResidualSublayer",
    "RotaryPositions",
    "SelfAttention",
    "SinusoidalPositions",
    "SoftLookup",
    "Transformer",
    "TransformerConfig",
    "attention",
    "causal_mask",
    "cross_entropy",
    "linear_cross_entropy",
    "masked_softmax",
    "merge_heads",
    "padding_mask",
    "soft_lookup",
    "split_heads",
]
