"""Random arrays and parameters for tests; sizes that all differ unless asked otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from transformer_lib.reference.encoder_decoder import (
    DecoderLayerParameters,
    EncoderLayerParameters,
    FeedForwardParameters,
    NormParameters,
    TransformerParameters,
)
from transformer_lib.reference.multi_head import MultiHeadParameters


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def some_mask(seed: int, *shape: int, dead: bool = True) -> np.ndarray:
    """A random mask; its first query sees nothing if ``dead``, else all see something."""
    mask = np.random.default_rng(seed).random(shape) < 0.6
    mask[..., 0] = True
    if dead:
        mask[..., 0, :] = False
    return mask


def attention_parameters(
    seed: int, d_model: int, bias: bool = True
) -> MultiHeadParameters:
    matrices = [draw(seed + i, d_model, d_model) * 0.5 for i in range(4)]
    biases = [draw(seed + 10 + i, d_model) for i in range(4)] if bias else []
    return MultiHeadParameters(*matrices, *biases)


def norm_parameters(seed: int, d_model: int) -> NormParameters:
    """Far from ones and zeros, or a missing normalisation would go unseen."""
    return NormParameters(1.0 + 0.5 * draw(seed, d_model), draw(seed + 1, d_model))


def feed_forward_parameters(
    seed: int, d_model: int, d_ff: int
) -> FeedForwardParameters:
    return FeedForwardParameters(
        draw(seed, d_model, d_ff) * 0.5,
        draw(seed + 1, d_ff),
        draw(seed + 2, d_ff, d_model) * 0.5,
        draw(seed + 3, d_model),
    )


def encoder_layer_parameters(
    seed: int, d_model: int, d_ff: int
) -> EncoderLayerParameters:
    return EncoderLayerParameters(
        attention_parameters(seed, d_model),
        norm_parameters(seed + 20, d_model),
        feed_forward_parameters(seed + 30, d_model, d_ff),
        norm_parameters(seed + 40, d_model),
    )


def decoder_layer_parameters(
    seed: int, d_model: int, d_ff: int
) -> DecoderLayerParameters:
    return DecoderLayerParameters(
        attention_parameters(seed, d_model),
        norm_parameters(seed + 20, d_model),
        attention_parameters(seed + 50, d_model),
        norm_parameters(seed + 25, d_model),
        feed_forward_parameters(seed + 30, d_model, d_ff),
        norm_parameters(seed + 40, d_model),
    )


def transformer_parameters(
    seed: int,
    d_model: int = 6,
    d_ff: int = 10,
    vocabularies: tuple[int, int] = (9, 11),
    layers: tuple[int, int] = (2, 3),
    final_norm: bool = True,
    tied: bool = False,
) -> TransformerParameters:
    source_vocab, target_vocab = vocabularies
    return TransformerParameters(
        draw(seed, source_vocab, d_model),
        draw(seed + 1, target_vocab, d_model),
        tuple(
            encoder_layer_parameters(seed + 100 * i, d_model, d_ff)
            for i in range(1, layers[0] + 1)
        ),
        tuple(
            decoder_layer_parameters(seed + 1000 * i, d_model, d_ff)
            for i in range(1, layers[1] + 1)
        ),
        norm_parameters(seed + 2, d_model) if final_norm else None,
        norm_parameters(seed + 4, d_model) if final_norm else None,
        None if tied else draw(seed + 6, d_model, target_vocab),
    )


def leaves(parameters: Any) -> list[np.ndarray]:
    """All arrays of nested named tuples, in order; ``None`` is skipped."""
    if parameters is None:
        return []
    if isinstance(parameters, np.ndarray):
        return [parameters]
    return [leaf for part in parameters for leaf in leaves(part)]


def difference_quotient(
    loss: Callable[[], float], array: np.ndarray, step: float = 1e-5
) -> np.ndarray:
    """Central differences of ``loss()`` by each entry of ``array``, changed in place."""
    quotient = np.empty(array.shape)
    for place in np.ndindex(array.shape):
        kept = array[place]
        array[place] = kept + step
        above = loss()
        array[place] = kept - step
        below = loss()
        array[place] = kept
        quotient[place] = (above - below) / (2.0 * step)
    return quotient


def directional_quotient(
    loss: Callable[[], float],
    arrays: list[np.ndarray],
    gradients: list[np.ndarray],
    step: float = 1e-6,
    seed: int = 0,
) -> tuple[float, float]:
    """Slope of ``loss()`` along one random direction: by differences, by gradients.

    For losses with too many parameters to move them one by one. The arrays are changed
    in place and put back.
    """
    rng = np.random.default_rng(seed)
    ways = [rng.normal(size=array.shape) for array in arrays]
    kept = [array.copy() for array in arrays]
    values = []
    for sign in (1.0, -1.0):
        for array, start, way in zip(arrays, kept, ways, strict=True):
            array[...] = start + sign * step * way
        values.append(loss())
    for array, start in zip(arrays, kept, strict=True):
        array[...] = start
    by_gradients = sum(
        float((gradient * way).sum())
        for gradient, way in zip(gradients, ways, strict=True)
    )
    return (values[0] - values[1]) / (2.0 * step), by_gradients
