"""Map: the whole Transformer, part by part, with what each part costs."""

from __future__ import annotations

from typing import NamedTuple

from transformer_lib.reference.cost import (
    feed_forward_flops,
    matmul_flops,
    multi_head_attention_flops,
    score_bytes,
)
from transformer_lib.widgets.base import (
    HINT,
    OneOf,
    Widget,
    short,
    table,
)

__all__ = ["ModelMap", "PartCost"]

WIDTHS = (64, 128, 256, 512, 1024, 2048)
HEADS = (1, 2, 4, 8, 16)
LAYERS = tuple(range(1, 13))
VOCABULARIES = (100, 1_000, 8_000, 16_000, 32_000, 37_000, 50_000, 100_000)
LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096)

BOXES = (
    "source_tokens",
    "source_positions",
    "encoder_attention",
    "encoder_norm_1",
    "encoder_network",
    "encoder_norm_2",
    "target_tokens",
    "target_positions",
    "decoder_attention",
    "decoder_norm_1",
    "cross_attention",
    "decoder_norm_2",
    "decoder_network",
    "decoder_norm_3",
    "head",
)
"""The boxes of the map, from the source to the scores."""

BASE = {"d_model": 512, "num_heads": 8, "layers": 6, "vocabulary": 37_000, "length": 64}


class PartCost(NamedTuple):
    """What a part of the model costs, all its layers together.

    Attributes
    ----------
    name
        The part, in words.
    parameters
        Learned numbers.
    flops
        Operations of one forward pass over one pair of sequences, as
        :mod:`transformer_lib.reference.cost` counts them.
    score_bytes
        Bytes of its score matrices, in float32, if they are kept.
    """

    name: str
    parameters: int
    flops: int
    score_bytes: int


class ModelMap(Widget):
    """Where is everything, and what does it cost? The encoder-decoder of 2017 as a map.

    The feed-forward network is four times as wide as the model, both stacks have as many
    layers, source and target are as long, and one table of tokens serves three places.

    Parameters
    ----------
    d_model
        Width: 64, 128, 256, 512, 1024 or 2048.
    num_heads
        1, 2, 4, 8 or 16.
    layers
        Of each stack, 1 to 12.
    vocabulary
        Shared tokens: 100, 1000, 8000, 16000, 32000, 37000, 50000 or 100000.
    length
        Tokens of the source, and of the target: a power of two from 8 to 4096.
    chosen
        The box that is told first; ``BOXES`` lists them.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> ModelMap().total().parameters
    63082496
    >>> ModelMap(d_model=1024, num_heads=16).total().parameters
    214245376
    """

    name = "encoder_decoder"
    question = "Where is everything, and what does it cost?"
    in_repr = tuple(BASE)
    d_model = OneOf(512, WIDTHS)
    num_heads = OneOf(8, HEADS)
    layers = OneOf(6, LAYERS)
    vocabulary = OneOf(37_000, VOCABULARIES)
    length = OneOf(64, LENGTHS)
    chosen = OneOf("cross_attention", BOXES)

    def __init__(
        self,
        d_model: int = 512,
        num_heads: int = 8,
        layers: int = 6,
        vocabulary: int = 37_000,
        length: int = 64,
        chosen: str = "cross_attention",
    ) -> None:
        super().__init__(
            d_model=d_model,
            num_heads=num_heads,
            layers=layers,
            vocabulary=vocabulary,
            length=length,
            chosen=chosen,
        )

    def costs(self) -> list[PartCost]:
        """Count every part, all layers of a kind together.

        Returns
        -------
        costs
            Eight parts, from the table of tokens to the decoder's norms.
        """
        d, n, layers = self.d_model, self.length, self.layers
        look = PartCost(
            "",
            layers * (4 * d * d + 4 * d),
            layers * multi_head_attention_flops(n, n, d),
            layers * score_bytes(n, n, self.num_heads),
        )
        think = PartCost(
            "",
            layers * (2 * d * 4 * d + 4 * d + d),
            layers * feed_forward_flops(n, d, 4 * d),
            0,
        )
        head = matmul_flops(n, d, self.vocabulary)
        return [
            PartCost("tokens and head", self.vocabulary * d, head, 0),
            look._replace(name="encoder attention"),
            think._replace(name="encoder network"),
            PartCost("encoder norms", layers * 2 * 2 * d, 0, 0),
            look._replace(name="decoder attention"),
            look._replace(name="cross-attention"),
            think._replace(name="decoder network"),
            PartCost("decoder norms", layers * 3 * 2 * d, 0, 0),
        ]

    def total(self) -> PartCost:
        """Sum of all parts."""
        parts = self.costs()
        return PartCost(
            "total",
            sum(part.parameters for part in parts),
            sum(part.flops for part in parts),
            sum(part.score_bytes for part in parts),
        )

    def static_view(self) -> str:
        """Write what every part costs as a table."""
        rows = [
            (
                part.name,
                f"{part.parameters:,}",
                short(part.flops),
                short(part.score_bytes / 1e6),
            )
            for part in [*self.costs(), self.total()]
        ]
        columns = ("part", "parameters", "FLOPs", "scores, MB")
        caption = (
            f"width {self.d_model}, {self.num_heads} heads, {self.layers} and "
            f"{self.layers} layers, {self.vocabulary:,} tokens, length {self.length}"
        )
        return f"{table(columns, rows, caption)}\n<p>{HINT}</p>"
