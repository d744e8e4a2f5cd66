"""The configuration: presets, and what it refuses."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from transformer_lib.nn.config import TransformerConfig


def test_presets_are_the_published_sizes_and_can_be_changed() -> None:
    base = TransformerConfig.base(vocab_size=10)
    assert (base.d_model, base.num_heads, base.d_ff) == (512, 8, 2048)
    assert (base.num_encoder_layers, base.num_decoder_layers) == (6, 6)
    assert (base.dropout, base.norm_first, base.activation) == (0.1, False, "relu")
    big = TransformerConfig.big(vocab_size=10)
    assert (big.d_model, big.num_heads, big.d_ff, big.dropout) == (1024, 16, 4096, 0.3)
    tiny = TransformerConfig.tiny(vocab_size=10, num_decoder_layers=3)
    assert (tiny.d_model, tiny.num_heads, tiny.d_ff) == (128, 4, 512)
    assert (tiny.num_encoder_layers, tiny.num_decoder_layers) == (2, 3)


def test_one_vocabulary_or_two() -> None:
    one = TransformerConfig(vocab_size=10)
    assert (one.source_vocabulary, one.target_vocabulary) == (10, 10)
    two = TransformerConfig(src_vocab_size=10, tgt_vocab_size=20)
    assert (two.source_vocabulary, two.target_vocabulary) == (10, 20)


def test_pre_norm_ends_in_a_normalisation_and_post_norm_does_not() -> None:
    assert not TransformerConfig(vocab_size=10).has_final_norm
    assert TransformerConfig(vocab_size=10, norm_first=True).has_final_norm
    assert TransformerConfig(vocab_size=10, final_norm=True).has_final_norm
    assert not TransformerConfig(
        vocab_size=10, norm_first=True, final_norm=False
    ).has_final_norm


def test_it_cannot_be_changed_and_compares_by_value() -> None:
    config = TransformerConfig(vocab_size=10)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 3  # type: ignore[misc]
    assert config == TransformerConfig(vocab_size=10)
    assert TransformerConfig(**dataclasses.asdict(config)) == config


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"d_model": 10, "num_heads": 4}, ValueError, "d_model=10 is not divisible by"),
        ({"d_model": 0}, ValueError, "d_model: got 0"),
        ({"num_heads": 2.0}, TypeError, "num_heads: got 2.0"),
        ({"d_ff": 0}, ValueError, "d_ff: got 0"),
        ({"max_len": 0}, ValueError, "max_len: got 0"),
        ({"max_distance": 0}, ValueError, "max_distance: got 0"),
        ({"num_encoder_layers": -1}, ValueError, "num_encoder_layers: got -1"),
        ({"num_decoder_layers": True}, TypeError, "num_decoder_layers: got True"),
        ({"dropout": 1.0}, ValueError, "dropout: got 1.0, wanted a number in [0, 1)"),
        ({"attention_dropout": -0.1}, ValueError, "attention_dropout: got -0.1"),
        ({"dropout": float("nan")}, ValueError, "dropout: got nan"),
        ({"activation": "swish"}, ValueError, "activation: got 'swish'"),
        ({"positions": "learnt"}, ValueError, "positions: got 'learnt', wanted one of"),
        (
            {"positions": "rope", "d_model": 9, "num_heads": 3},
            ValueError,
            "num_heads: got 3, so that each head has 3 columns",
        ),
        ({"eps": 0.0}, ValueError, "eps: got 0.0"),
        ({"vocab_size": None}, ValueError, "vocab_size=None, src_vocab_size=None"),
        ({"src_vocab_size": 5}, ValueError, "wanted the first alone, or the other two"),
        ({"vocab_size": None, "src_vocab_size": 5}, ValueError, "tgt_vocab_size=None"),
        ({"vocab_size": 0}, ValueError, "vocab_size: got 0"),
        (
            {"pad_id": 10},
            ValueError,
            "pad_id: got 10, wanted a number below vocab_size",
        ),
        ({"pad_id": -1}, ValueError, "pad_id: got -1"),
        (
            {"vocab_size": None, "src_vocab_size": 9, "tgt_vocab_size": 3, "pad_id": 3},
            ValueError,
            "pad_id: got 3, wanted a number below tgt_vocab_size=3",
        ),
    ],
)
def test_bad_values_are_named(
    change: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        TransformerConfig(**{"vocab_size": 10, **change})
    assert words in str(caught.value)
