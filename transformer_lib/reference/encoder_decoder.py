"""The whole Transformer: layers, stacks, embeddings, and the gradient through them all.

Each block here only puts earlier blocks together. A ``..._backward`` function runs its
block forward once more to have the values in between at hand, where a framework would
have kept them; then it goes through the same lines from the last to the first.

Parameters are named tuples of arrays, gradients are named tuples of the same kind. The
order of a layer is ``norm_first=False``, LayerNorm(x + sublayer(x)) as in 2017, or
``norm_first=True``, x + sublayer(LayerNorm(x)).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Real

from transformer_lib.reference.feed_forward import (
    Activation,
    feed_forward,
    feed_forward_backward,
)
from transformer_lib.reference.masks import causal_mask
from transformer_lib.reference.multi_head import (
    MultiHeadParameters,
    multi_head_attention,
    multi_head_attention_backward,
)
from transformer_lib.reference.normalization import (
    Sublayer,
    SublayerBackward,
    layer_norm,
    layer_norm_backward,
    residual_post,
    residual_post_backward,
    residual_pre,
    residual_pre_backward,
)
from transformer_lib.reference.positions import sinusoidal_positions

__all__ = [
    "DecoderLayerParameters",
    "EncoderLayerParameters",
    "FeedForwardParameters",
    "NormParameters",
    "TransformerParameters",
    "decoder",
    "decoder_backward",
    "decoder_layer",
    "decoder_layer_backward",
    "embed",
    "embed_backward",
    "encoder",
    "encoder_backward",
    "encoder_layer",
    "encoder_layer_backward",
    "transformer",
    "transformer_backward",
]


class NormParameters(NamedTuple):
    """Scale and shift of a layer normalisation."""

    gamma: Float[np.ndarray, " d_model"]
    beta: Float[np.ndarray, " d_model"]


class FeedForwardParameters(NamedTuple):
    """Weights and biases of a feed-forward network."""

    W_1: Float[np.ndarray, "d_model d_ff"]
    b_1: Float[np.ndarray, " d_ff"]
    W_2: Float[np.ndarray, "d_ff d_model"]
    b_2: Float[np.ndarray, " d_model"]


class EncoderLayerParameters(NamedTuple):
    """Two sub-layers, each with its own normalisation."""

    self_attention: MultiHeadParameters
    norm_1: NormParameters
    feed_forward: FeedForwardParameters
    norm_2: NormParameters


class DecoderLayerParameters(NamedTuple):
    """Three sub-layers, each with its own normalisation."""

    self_attention: MultiHeadParameters
    norm_1: NormParameters
    cross_attention: MultiHeadParameters
    norm_2: NormParameters
    feed_forward: FeedForwardParameters
    norm_3: NormParameters


class TransformerParameters(NamedTuple):
    """Everything that a Transformer learns.

    Tied weights are one array in several places: pass the same table as source and
    target embedding to share it, leave ``head`` at ``None`` to multiply by the target
    table, turned. :func:`transformer_backward` gives one gradient per place; of tied
    places add them.
    """

    source_embedding: Float[np.ndarray, "source_vocab d_model"]
    target_embedding: Float[np.ndarray, "target_vocab d_model"]
    encoder: tuple[EncoderLayerParameters, ...]
    decoder: tuple[DecoderLayerParameters, ...]
    encoder_norm: NormParameters | None = None
    """After the last layer; pre-norm needs it, the post-norm model of 2017 has none."""
    decoder_norm: NormParameters | None = None
    head: Float[np.ndarray, "d_model target_vocab"] | None = None


def embed(
    ids: Int[np.ndarray, "*batch n"], table: Float[np.ndarray, "vocab d_model"]
) -> Float[np.ndarray, "*batch n d_model"]:
    """Look up each token's row, times ``sqrt(d_model)``, plus its sinusoidal position.

    The factor makes rows of length about 1 as long as the positions are.

    Parameters
    ----------
    ids
        Token numbers, shape ``(..., n)``, from 0 to ``vocab - 1``.
    table
        Shape ``(vocab, d_model)``.

    Returns
    -------
    X
        Shape ``(..., n, d_model)``.

    Raises
    ------
    TypeError
        If ``ids`` are not integers.
    ValueError
        If a number is outside the vocabulary or a shape is wrong.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, sections 3.4 and 3.5.

    Examples
    --------
    >>> embed(np.array([1, 0]), np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]]))[0]
    array([2., 5., 6., 9.])
    """
    _check_ids(ids, table)
    n, d_model = ids.shape[-1], table.shape[1]
    X: np.ndarray = table[ids] * np.sqrt(d_model) + sinusoidal_positions(n, d_model)
    return X


def embed_backward(
    dX: Float[np.ndarray, "*batch n d_model"],
    ids: Int[np.ndarray, "*batch n"],
    vocab_size: int,
) -> Float[np.ndarray, "vocab_size d_model"]:
    """Gradient of the loss with respect to the table of :func:`embed`.

    ``table[ids]`` is the product of a one-hot matrix with the table, so the gradient is
    that matrix, turned, times the incoming one: each row of ``dX`` is added to the row
    of its token. Positions are constants and receive nothing.

    Parameters
    ----------
    dX
        Gradient with respect to the output, shape ``(..., n, d_model)``.
    ids
        Token numbers, shape ``(..., n)``.
    vocab_size
        Rows of the table.

    Returns
    -------
    d_table
        Shape ``(vocab_size, d_model)``; tokens that did not occur get 0.

    Raises
    ------
    ValueError
        If the shapes do not fit together.

    Examples
    --------
    >>> embed_backward(np.array([[1.0], [2.0], [4.0]]), np.array([0, 2, 0]), 3)
    array([[5.],
           [0.],
           [2.]])
    """
    if dX.shape[:-1] != ids.shape:
        raise ValueError(
            f"dX: got shape {dX.shape}, wanted {(*ids.shape, 'd_model')}, one row per id"
        )
    d_model = dX.shape[-1]
    one_hot = np.arange(vocab_size) == ids.reshape(-1, 1)  # (tokens, vocab)
    d_table: np.ndarray = one_hot.T @ dX.reshape(-1, d_model) * np.sqrt(d_model)
    return d_table


def encoder_layer(
    X: Real[np.ndarray, "*batch n d_model"],
    parameters: EncoderLayerParameters,
    num_heads: int,
    mask: Bool[np.ndarray, "..."] | None = None,
    norm_first: bool = False,
    activation: Activation = "relu",
) -> Float[np.ndarray, "*batch n d_model"]:
    """Attend to all tokens, then think about each one alone.

    Parameters
    ----------
    X
        Tokens, shape ``(..., n, d_model)``.
    parameters
        Of the two sub-layers.
    num_heads
        Must divide ``d_model``.
    mask
        Boolean, ``True`` = may attend; as for
        :func:`~transformer_lib.reference.multi_head.multi_head_attention`.
    norm_first
        Pre-norm if ``True``, else post-norm.
    activation
        ``"relu"`` or ``"gelu"``.

    Returns
    -------
    Y
        Same shape as ``X``.

    Raises
    ------
    TypeError, ValueError
        As the blocks that it is made of.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.1 and figure 1.
    """
    residual = residual_pre if norm_first else residual_post

    def attend(Z: np.ndarray) -> np.ndarray:
        return multi_head_attention(Z, Z, parameters.self_attention, num_heads, mask)[0]

    def think(Z: np.ndarray) -> np.ndarray:
        return feed_forward(Z, *parameters.feed_forward, activation)

    X = residual(X, attend, *parameters.norm_1)
    return residual(X, think, *parameters.norm_2)


def encoder_layer_backward(
    d_output: Real[np.ndarray, "*batch n d_model"],
    X: Real[np.ndarray, "*batch n d_model"],
    parameters: EncoderLayerParameters,
    num_heads: int,
    mask: Bool[np.ndarray, "..."] | None = None,
    norm_first: bool = False,
    activation: Activation = "relu",
) -> tuple[Float[np.ndarray, "*batch n d_model"], EncoderLayerParameters]:
    """Gradients through :func:`encoder_layer`: the second sub-layer, then the first.

    Parameters
    ----------
    d_output
        Gradient with respect to the output, shape of ``X``.
    X, parameters, num_heads, mask, norm_first, activation
        What :func:`encoder_layer` was given.

    Returns
    -------
    dX
        Shape of ``X``.
    gradients
        One gradient per parameter.

    Raises
    ------
    TypeError, ValueError
        As :func:`encoder_layer`.
    """
    residual, residual_backward = _order(norm_first)
    attend, attend_backward = _self_attention(
        parameters.self_attention, num_heads, mask
    )
    think, think_backward = _feed_forward(parameters.feed_forward, activation)
    middle = residual(X, attend, *parameters.norm_1)

    d_middle, d_network, *d_norm_2 = residual_backward(
        d_output, middle, think, think_backward, *parameters.norm_2
    )
    dX, d_attention, *d_norm_1 = residual_backward(
        d_middle, X, attend, attend_backward, *parameters.norm_1
    )
    return dX, EncoderLayerParameters(
        d_attention, NormParameters(*d_norm_1), d_network, NormParameters(*d_norm_2)
    )


def decoder_layer(
    X: Real[np.ndarray, "*batch n_t d_model"],
    memory: Real[np.ndarray, "*batch n_s d_model"],
    parameters: DecoderLayerParameters,
    num_heads: int,
    mask: Bool[np.ndarray, "..."] | None = None,
    memory_mask: Bool[np.ndarray, "..."] | None = None,
    norm_first: bool = False,
    activation: Activation = "relu",
) -> Float[np.ndarray, "*batch n_t d_model"]:
    """Attend to the target so far, then to the source, then think about each token.

    Parameters
    ----------
    X
        Target tokens, shape ``(..., n_t, d_model)``.
    memory
        What the encoder's *last* layer gave, shape ``(..., n_s, d_model)``; it is the
        same for every decoder layer. Queries come from the target, keys and values
        from here.
    parameters
        Of the three sub-layers.
    num_heads
        Must divide ``d_model``.
    mask
        Who may see whom among the targets, boolean; ``None`` means the causal mask, to
        which a decoder is bound.
    memory_mask
        Which source tokens may be seen (padding), boolean; ``None`` hides none.
    norm_first
        Pre-norm if ``True``, else post-norm.
    activation
        ``"relu"`` or ``"gelu"``.

    Returns
    -------
    Y
        Same shape as ``X``.

    Raises
    ------
    TypeError, ValueError
        As the blocks that it is made of.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.1 and figure 1.
    """
    residual = residual_pre if norm_first else residual_post
    mask = causal_mask(X.shape[-2]) if mask is None else mask

    def attend(Z: np.ndarray) -> np.ndarray:
        return multi_head_attention(Z, Z, parameters.self_attention, num_heads, mask)[0]

    def consult(Z: np.ndarray) -> np.ndarray:
        return multi_head_attention(
            Z, memory, parameters.cross_attention, num_heads, memory_mask
        )[0]

    def think(Z: np.ndarray) -> np.ndarray:
        return feed_forward(Z, *parameters.feed_forward, activation)

    X = residual(X, attend, *parameters.norm_1)
    X = residual(X, consult, *parameters.norm_2)
    return residual(X, think, *parameters.norm_3)


def decoder_layer_backward(
    d_output: Real[np.ndarray, "*batch n_t d_model"],
    X: Real[np.ndarray, "*batch n_t d_model"],
    memory: Real[np.ndarray, "*batch n_s d_model"],
    parameters: DecoderLayerParameters,
    num_heads: int,
    mask: Bool[np.ndarray, "..."] | None = None,
    memory_mask: Bool[np.ndarray, "..."] | None = None,
    norm_first: bool = False,
    activation: Activation = "relu",
) -> tuple[
    Float[np.ndarray, "*batch n_t d_model"],
    Float[np.ndarray, "*batch n_s d_model"],
    DecoderLayerParameters,
]:
    """Gradients through :func:`decoder_layer`: the third sub-layer, second, first.

    Parameters
    ----------
    d_output
        Gradient with respect to the output, shape of ``X``.
    X, memory, parameters, num_heads, mask, memory_mask, norm_first, activation
        What :func:`decoder_layer` was given.

    Returns
    -------
    dX, dmemory
        Shapes of ``X`` and ``memory``.
    gradients
        One gradient per parameter.

    Raises
    ------
    TypeError, ValueError
        As :func:`decoder_layer`.
    """
    residual, residual_backward = _order(norm_first)
    mask = causal_mask(X.shape[-2]) if mask is None else mask
    attend, attend_backward = _self_attention(
        parameters.self_attention, num_heads, mask
    )
    consult, consult_backward = _cross_attention(
        memory, parameters.cross_attention, num_heads, memory_mask
    )
    think, think_backward = _feed_forward(parameters.feed_forward, activation)
    first = residual(X, attend, *parameters.norm_1)
    second = residual(first, consult, *parameters.norm_2)

    d_second, d_network, *d_norm_3 = residual_backward(
        d_output, second, think, think_backward, *parameters.norm_3
    )
    d_first, (d_cross, dmemory), *d_norm_2 = residual_backward(
        d_second, first, consult, consult_backward, *parameters.norm_2
    )
    dX, d_attention, *d_norm_1 = residual_backward(
        d_first, X, attend, attend_backward, *parameters.norm_1
    )
    gradients = DecoderLayerParameters(
        d_attention,
        NormParameters(*d_norm_1),
        d_cross,
        NormParameters(*d_norm_2),
        d_network,
        NormParameters(*d_norm_3),
    )
    return dX, dmemory, gradients


def encoder(
    X: Real[np.ndarray, "*batch n d_model"],
    layers: Sequence[EncoderLayerParameters],
    num_heads: int,
    mask: Bool[np.ndarray, "..."] | None = None,
    final_norm: NormParameters | None = None,
    norm_first: bool = False,
    activation: Activation = "relu",
) -> Float[np.ndarray, "*batch n d_model"]:
    """Run one encoder layer after the other.

    Parameters
    ----------
    X
        Embedded source tokens, shape ``(..., n, d_model)``.
    layers
        Parameters of each layer, first to last.
    num_heads, mask, norm_first, activation
        As in :func:`encoder_layer`, the same for every layer.
    final_norm
        A last normalisation, or ``None``.

    Returns
    -------
    memory
        Same shape as ``X``.

    Raises
    ------
    TypeError, ValueError
        As :func:`encoder_layer`.
    """
    for parameters in layers:
        X = encoder_layer(X, parameters, num_heads, mask, norm_first, activation)
    return X if final_norm is None else layer_norm(X, *final_norm)


def encoder_backward(
    d_memory: Real[np.ndarray, "*batch n d_model"],
    X: Real[np.ndarray, "*batch n d_model"],
    layers: Sequence[EncoderLayerParameters],
    num_heads: int,
    mask: Bool[np.ndarray, "..."] | None = None,
    final_norm: NormParameters | None = None,
    norm_first: bool = False,
    activation: Activation = "relu",
) -> tuple[
    Float[np.ndarray, "*batch n d_model"],
    tuple[EncoderLayerParameters, ...],
    NormParameters | None,
]:
    """Gradients through :func:`encoder`, from the last layer to the first.

    Parameters
    ----------
    d_memory
        Gradient with respect to the output, shape of ``X``.
    X, layers, num_heads, mask, final_norm, norm_first, activation
        What :func:`encoder` was given.

    Returns
    -------
    dX
        Shape of ``X``.
    gradients
        One tuple per layer, first to last.
    d_final_norm
        Gradients of the last normalisation, or ``None``.

    Raises
    ------
    TypeError, ValueError
        As :func:`encoder`.
    """
    inputs = [X]  # of each layer; the last entry is the output of the last layer
    for parameters in layers:
        inputs.append(
            encoder_layer(
                inputs[-1], parameters, num_heads, mask, norm_first, activation
            )
        )
    dX, d_final_norm = _final_norm_backward(d_memory, inputs[-1], final_norm)
    gradients = []
    for parameters, layer_input in zip(layers[::-1], inputs[-2::-1], strict=True):
        dX, of_layer = encoder_layer_backward(
            dX, layer_input, parameters, num_heads, mask, norm_first, activation
        )
        gradients.append(of_layer)
    return dX, tuple(gradients[::-1]), d_final_norm


def decoder(
    X: Real[np.ndarray, "*batch n_t d_model"],
    memory: Real[np.ndarray, "*batch n_s d_model"],
    layers: Sequence[DecoderLayerParameters],
    num_heads: int,
    mask: Bool[np.ndarray, "..."] | None = None,
    memory_mask: Bool[np.ndarray, "..."] | None = None,
    final_norm: NormParameters | None = None,
    norm_first: bool = False,
    activation: Activation = "relu",
) -> Float[np.ndarray, "*batch n_t d_model"]:
    """Run one decoder layer after the other, each consulting the same memory.

    Parameters
    ----------
    X
        Embedded target tokens, shape ``(..., n_t, d_model)``.
    memory
        Output of :func:`encoder`, shape ``(..., n_s, d_model)``.
    layers
        Parameters of each layer, first to last.
    num_heads, mask, memory_mask, norm_first, activation
        As in :func:`decoder_layer`, the same for every layer.
    final_norm
        A last normalisation, or ``None``.

    Returns
    -------
    Y
        Same shape as ``X``.

    Raises
    ------
    TypeError, ValueError
        As :func:`decoder_layer`.
    """
    for parameters in layers:
        X = decoder_layer(
            X, memory, parameters, num_heads, mask, memory_mask, norm_first, activation
        )
    return X if final_norm is None else layer_norm(X, *final_norm)


def decoder_backward(
    d_output: Real[np.ndarray, "*batch n_t d_model"],
    X: Real[np.ndarray, "*batch n_t d_model"],
    memory: Real[np.ndarray, "*batch n_s d_model"],
    layers: Sequence[DecoderLayerParameters],
    num_heads: int,
    mask: Bool[np.ndarray, "..."] | None = None,
    memory_mask: Bool[np.ndarray, "..."] | None = None,
    final_norm: NormParameters | None = None,
    norm_first: bool = False,
    activation: Activation = "relu",
) -> tuple[
    Float[np.ndarray, "*batch n_t d_model"],
    Float[np.ndarray, "*batch n_s d_model"],
    tuple[DecoderLayerParameters, ...],
    NormParameters | None,
]:
    """Gradients through :func:`decoder`; the memory collects one share per layer.

    Parameters
    ----------
    d_output
        Gradient with respect to the output, shape of ``X``.
    X, memory, layers, num_heads, mask, memory_mask, final_norm, norm_first, activation
        What :func:`decoder` was given.

    Returns
    -------
    dX, dmemory
        Shapes of ``X`` and ``memory``.
    gradients
        One tuple per layer, first to last.
    d_final_norm
        Gradients of the last normalisation, or ``None``.

    Raises
    ------
    TypeError, ValueError
        As :func:`decoder`.
    """
    inputs = [X]  # of each layer; the last entry is the output of the last layer
    for parameters in layers:
        inputs.append(
            decoder_layer(
                inputs[-1],
                memory,
                parameters,
                num_heads,
                mask,
                memory_mask,
                norm_first,
                activation,
            )
        )
    dX, d_final_norm = _final_norm_backward(d_output, inputs[-1], final_norm)
    dmemory = np.zeros(memory.shape)
    gradients = []
    for parameters, layer_input in zip(layers[::-1], inputs[-2::-1], strict=True):
        dX, share, of_layer = decoder_layer_backward(
            dX,
            layer_input,
            memory,
            parameters,
            num_heads,
            mask,
            memory_mask,
            norm_first,
            activation,
        )
        dmemory = dmemory + share
        gradients.append(of_layer)
    return dX, dmemory, tuple(gradients[::-1]), d_final_norm


def transformer(
    source_ids: Int[np.ndarray, "*batch n_s"],
    target_ids: Int[np.ndarray, "*batch n_t"],
    parameters: TransformerParameters,
    num_heads: int,
    source_mask: Bool[np.ndarray, "..."] | None = None,
    norm_first: bool = False,
    activation: Activation = "relu",
) -> Float[np.ndarray, "*batch n_t target_vocab"]:
    """Read the source, and score every token as the next one after each target token.

    Parameters
    ----------
    source_ids
        Token numbers, shape ``(..., n_s)``.
    target_ids
        Token numbers of the target *as the decoder reads it*, beginning with the
        start token, shape ``(..., n_t)``. Targets see only what stands before them, so
        padding at their end needs no mask.
    parameters
        Everything learned.
    num_heads
        Must divide ``d_model``.
    source_mask
        Which source tokens may be seen, as from
        :func:`~transformer_lib.reference.masks.padding_mask`; hides them from the
        encoder and from the decoder's look at the source. ``None`` hides none.
    norm_first
        Pre-norm if ``True``, else post-norm.
    activation
        ``"relu"`` or ``"gelu"``.

    Returns
    -------
    logits
        Shape ``(..., n_t, target_vocab)``: row ``t`` scores the token after target
        ``t``.

    Raises
    ------
    TypeError, ValueError
        As the blocks that it is made of.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.
    """
    memory = encoder(
        embed(source_ids, parameters.source_embedding),
        parameters.encoder,
        num_heads,
        source_mask,
        parameters.encoder_norm,
        norm_first,
        activation,
    )
    Y = decoder(
        embed(target_ids, parameters.target_embedding),
        memory,
        parameters.decoder,
        num_heads,
        None,
        source_mask,
        parameters.decoder_norm,
        norm_first,
        activation,
    )
    logits: np.ndarray = Y @ _head(parameters)
    return logits


def transformer_backward(
    d_logits: Real[np.ndarray, "*batch n_t target_vocab"],
    source_ids: Int[np.ndarray, "*batch n_s"],
    target_ids: Int[np.ndarray, "*batch n_t"],
    parameters: TransformerParameters,
    num_heads: int,
    source_mask: Bool[np.ndarray, "..."] | None = None,
    norm_first: bool = False,
    activation: Activation = "relu",
) -> TransformerParameters:
    """Gradients of the loss with respect to everything learned.

    The road goes through the head, down the decoder, over the memory into the encoder
    and down to both embeddings. A tied head (``head=None``) is the target table turned,
    so its gradient, turned, is added to that table's.

    Parameters
    ----------
    d_logits
        Gradient with respect to the logits, as from
        :func:`~transformer_lib.reference.training.cross_entropy_backward`.
    source_ids, target_ids, parameters, num_heads, source_mask, norm_first, activation
        What :func:`transformer` was given.

    Returns
    -------
    gradients
        One gradient per parameter; ``None`` where the parameter is ``None``.

    Raises
    ------
    TypeError, ValueError
        As :func:`transformer`.
    """
    source = embed(source_ids, parameters.source_embedding)
    target = embed(target_ids, parameters.target_embedding)
    memory = encoder(
        source,
        parameters.encoder,
        num_heads,
        source_mask,
        parameters.encoder_norm,
        norm_first,
        activation,
    )
    Y = decoder(
        target,
        memory,
        parameters.decoder,
        num_heads,
        None,
        source_mask,
        parameters.decoder_norm,
        norm_first,
        activation,
    )

    head = _head(parameters)
    dY = d_logits @ head.T
    d_head = Y.reshape(-1, Y.shape[-1]).T @ d_logits.reshape(-1, d_logits.shape[-1])
    d_target, d_memory, d_decoder, d_decoder_norm = decoder_backward(
        dY,
        target,
        memory,
        parameters.decoder,
        num_heads,
        None,
        source_mask,
        parameters.decoder_norm,
        norm_first,
        activation,
    )
    d_source, d_encoder, d_encoder_norm = encoder_backward(
        d_memory,
        source,
        parameters.encoder,
        num_heads,
        source_mask,
        parameters.encoder_norm,
        norm_first,
        activation,
    )
    d_target_table = embed_backward(
        d_target, target_ids, parameters.target_embedding.shape[0]
    )
    tied = parameters.head is None
    return TransformerParameters(
        embed_backward(d_source, source_ids, parameters.source_embedding.shape[0]),
        d_target_table + d_head.T if tied else d_target_table,
        d_encoder,
        d_decoder,
        d_encoder_norm,
        d_decoder_norm,
        None if tied else d_head,
    )


def _order(norm_first: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    if norm_first:
        return residual_pre, residual_pre_backward
    return residual_post, residual_post_backward


def _self_attention(
    parameters: MultiHeadParameters, num_heads: int, mask: np.ndarray | None
) -> tuple[Sublayer, SublayerBackward[MultiHeadParameters]]:
    """Forward and backward of self-attention as a sub-layer: one input, one output."""

    def forward(Z: np.ndarray) -> np.ndarray:
        return multi_head_attention(Z, Z, parameters, num_heads, mask)[0]

    def backward(
        d_output: np.ndarray, Z: np.ndarray
    ) -> tuple[np.ndarray, MultiHeadParameters]:
        _, weights = multi_head_attention(Z, Z, parameters, num_heads, mask)
        by_queries, by_source, gradients = multi_head_attention_backward(
            d_output, Z, Z, parameters, num_heads, weights
        )
        return by_queries + by_source, gradients

    return forward, backward


def _cross_attention(
    memory: np.ndarray,
    parameters: MultiHeadParameters,
    num_heads: int,
    mask: np.ndarray | None,
) -> tuple[Sublayer, SublayerBackward[tuple[MultiHeadParameters, np.ndarray]]]:
    """Forward and backward of cross-attention; the memory's gradient comes along."""

    def forward(Z: np.ndarray) -> np.ndarray:
        return multi_head_attention(Z, memory, parameters, num_heads, mask)[0]

    def backward(
        d_output: np.ndarray, Z: np.ndarray
    ) -> tuple[np.ndarray, tuple[MultiHeadParameters, np.ndarray]]:
        _, weights = multi_head_attention(Z, memory, parameters, num_heads, mask)
        dZ, dmemory, gradients = multi_head_attention_backward(
            d_output, Z, memory, parameters, num_heads, weights
        )
        return dZ, (gradients, dmemory)

    return forward, backward


def _feed_forward(
    parameters: FeedForwardParameters, activation: Activation
) -> tuple[Sublayer, SublayerBackward[FeedForwardParameters]]:
    """Forward and backward of the feed-forward network as a sub-layer."""

    def forward(Z: np.ndarray) -> np.ndarray:
        return feed_forward(Z, *parameters, activation)

    def backward(
        d_output: np.ndarray, Z: np.ndarray
    ) -> tuple[np.ndarray, FeedForwardParameters]:
        dZ, *gradients = feed_forward_backward(d_output, Z, *parameters, activation)
        return dZ, FeedForwardParameters(*gradients)

    return forward, backward


def _final_norm_backward(
    d_output: np.ndarray, X: np.ndarray, norm: NormParameters | None
) -> tuple[np.ndarray, NormParameters | None]:
    if norm is None:
        return d_output, None
    dX, dgamma, dbeta = layer_norm_backward(d_output, X, norm.gamma)
    return dX, NormParameters(dgamma, dbeta)


def _head(parameters: TransformerParameters) -> np.ndarray:
    """The last matrix, (d_model, vocab): its own, or the target table turned."""
    if parameters.head is None:
        return parameters.target_embedding.T
    return parameters.head


def _check_ids(ids: np.ndarray, table: np.ndarray) -> None:
    if table.ndim != 2:
        raise ValueError(f"table: got shape {table.shape}, wanted (vocab, d_model)")
    if not np.issubdtype(ids.dtype, np.integer):
        raise TypeError(f"ids: got dtype {ids.dtype}, wanted integers (token numbers)")
    if ids.ndim == 0:
        raise ValueError(f"ids: got shape {ids.shape}, wanted (..., n)")
    wrong = (ids < 0) | (ids >= table.shape[0])
    if wrong.any():
        raise ValueError(
            f"ids: got {ids[wrong].flat[0]}, wanted numbers from 0 to "
            f"{table.shape[0] - 1}, the rows of the table"
        )
