"""The whole model in NumPy: equal to torch's, forward and backward, both orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from arrays import (
    decoder_layer_parameters,
    difference_quotient,
    directional_quotient,
    draw,
    encoder_layer_parameters,
    leaves,
    some_mask,
    transformer_parameters,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from porting import (
    decoder_layer_gradients,
    encoder_layer_gradients,
    norm_gradients,
    tensor,
    torch_decoder_layer,
    torch_encoder_layer,
    torch_transformer,
)

from transformer_lib.reference.encoder_decoder import (
    TransformerParameters,
    decoder,
    decoder_backward,
    decoder_layer,
    decoder_layer_backward,
    embed,
    embed_backward,
    encoder,
    encoder_backward,
    encoder_layer,
    encoder_layer_backward,
    transformer,
    transformer_backward,
)
from transformer_lib.reference.masks import causal_mask, padding_mask
from transformer_lib.reference.positions import sinusoidal_positions
from transformer_lib.reference.training import cross_entropy, cross_entropy_backward

EXACT = 1e-12
MODEL = 1e-11  # a few layers, and normalisation divides by small numbers
D_MODEL, D_FF, HEADS = 6, 10, 3
ORDERS = pytest.mark.parametrize("norm_first", [False, True])
ACTIVATIONS = pytest.mark.parametrize("activation", ["relu", "gelu"])

SOURCE = np.array([[3, 5, 8, 0, 0], [1, 2, 3, 4, 5]])  # 0 is padding
TARGET = np.array([[1, 10, 4], [1, 7, 2]])


def close(got: np.ndarray, wanted: Any, tolerance: float = MODEL) -> None:
    right = wanted.detach().numpy() if isinstance(wanted, torch.Tensor) else wanted
    np.testing.assert_allclose(got, right, atol=tolerance, rtol=tolerance)


@ORDERS
@ACTIVATIONS
@pytest.mark.parametrize("masked", [False, True])
def test_encoder_layer_equals_torch_and_its_gradients(
    norm_first: bool, activation: Any, masked: bool
) -> None:
    X, G = draw(0, 2, 4, D_MODEL), draw(1, 2, 4, D_MODEL)
    parameters = encoder_layer_parameters(2, D_MODEL, D_FF)
    mask = some_mask(3, 2, HEADS, 4, 4, dead=False) if masked else None
    module = torch_encoder_layer(parameters, HEADS, norm_first, activation)
    x = tensor(X).requires_grad_()
    theirs = None if mask is None else tensor(~mask.reshape(-1, 4, 4))
    wanted = module(x, src_mask=theirs)
    rest = (parameters, HEADS, mask, norm_first, activation)
    close(encoder_layer(X, *rest), wanted, EXACT)
    wanted.backward(tensor(G))
    dX, gradients = encoder_layer_backward(G, X, *rest)
    close(dX, x.grad)
    for got, right in zip(
        leaves(gradients), encoder_layer_gradients(module), strict=True
    ):
        close(got, right)


@ORDERS
@ACTIVATIONS
@pytest.mark.parametrize("masked", [False, True])
def test_decoder_layer_equals_torch_and_its_gradients(
    norm_first: bool, activation: Any, masked: bool
) -> None:
    X, memory, G = (
        draw(0, 2, 4, D_MODEL),
        draw(1, 2, 5, D_MODEL),
        draw(2, 2, 4, D_MODEL),
    )
    parameters = decoder_layer_parameters(3, D_MODEL, D_FF)
    mask = memory_mask = None
    of_target, of_memory = ~causal_mask(4), np.zeros((2, 5), bool)
    if masked:
        mask = causal_mask(4) & some_mask(4, 4, 4, dead=False)
        memory_mask = some_mask(5, 2, 1, 1, 5, dead=False)
        of_target, of_memory = ~mask, ~memory_mask[:, 0, 0]
    module = torch_decoder_layer(parameters, HEADS, norm_first, activation)
    x, m = tensor(X).requires_grad_(), tensor(memory).requires_grad_()
    wanted = module(
        x, m, tgt_mask=tensor(of_target), memory_key_padding_mask=tensor(of_memory)
    )
    rest = (memory, parameters, HEADS, mask, memory_mask, norm_first, activation)
    close(decoder_layer(X, *rest), wanted, EXACT)
    wanted.backward(tensor(G))
    dX, dmemory, gradients = decoder_layer_backward(G, X, *rest)
    close(dX, x.grad)
    close(dmemory, m.grad)
    for got, right in zip(
        leaves(gradients), decoder_layer_gradients(module), strict=True
    ):
        close(got, right)


@ORDERS
@ACTIVATIONS
def test_stacks_equal_torch_and_their_gradients(
    norm_first: bool, activation: Any
) -> None:
    parameters = transformer_parameters(0, D_MODEL, D_FF)
    X, Y, G = draw(1, 2, 5, D_MODEL), draw(2, 2, 4, D_MODEL), draw(3, 2, 4, D_MODEL)
    padding = np.array([[True] * 3 + [False] * 2, [True] * 5])
    mask = padding[:, None, None, :]
    module = torch_transformer(parameters, HEADS, norm_first, activation)
    x, y = tensor(X).requires_grad_(), tensor(Y).requires_grad_()
    memory = module.encoder(x, src_key_padding_mask=tensor(~padding))
    memory.retain_grad()
    wanted = module.decoder(
        y,
        memory,
        tgt_mask=tensor(~causal_mask(4)),
        memory_key_padding_mask=tensor(~padding),
    )
    order = (norm_first, activation)
    of_encoder = (parameters.encoder, HEADS, mask, parameters.encoder_norm, *order)
    of_decoder = (
        *(parameters.decoder, HEADS, None, mask, parameters.decoder_norm),
        *order,
    )
    ours = encoder(X, *of_encoder)
    close(ours, memory, EXACT)
    close(decoder(Y, ours, *of_decoder), wanted, EXACT)

    wanted.backward(tensor(G))
    dY, dmemory, of_layers, of_norm = decoder_backward(G, Y, ours, *of_decoder)
    close(dY, y.grad)
    close(dmemory, memory.grad)
    for got, layer in zip(of_layers, module.decoder.layers, strict=True):
        for mine, right in zip(
            leaves(got), decoder_layer_gradients(layer), strict=True
        ):
            close(mine, right)
    for got, right in zip(of_norm, norm_gradients(module.decoder.norm), strict=True):
        close(got, right)
    dX, of_layers, of_norm = encoder_backward(dmemory, X, *of_encoder)
    close(dX, x.grad)
    for got, layer in zip(of_layers, module.encoder.layers, strict=True):
        for mine, right in zip(
            leaves(got), encoder_layer_gradients(layer), strict=True
        ):
            close(mine, right)
    for got, right in zip(of_norm, norm_gradients(module.encoder.norm), strict=True):
        close(got, right)


@ORDERS
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("final_norm", [False, True])
def test_gradients_of_the_whole_model_equal_central_differences(
    norm_first: bool, tied: bool, final_norm: bool
) -> None:
    parameters = transformer_parameters(
        0, D_MODEL, D_FF, layers=(1, 2), tied=tied, final_norm=final_norm
    )
    labels = np.array([[10, 4, 2], [7, 2, 0]])
    rest = (parameters, HEADS, padding_mask(SOURCE, 0), norm_first, "gelu")

    def loss() -> float:
        logits = transformer(SOURCE, TARGET, *rest)
        return cross_entropy(logits, labels, label_smoothing=0.1, pad_id=0)

    logits = transformer(SOURCE, TARGET, *rest)
    d_logits = cross_entropy_backward(logits, labels, label_smoothing=0.1, pad_id=0)
    gradients = transformer_backward(d_logits, SOURCE, TARGET, *rest)
    arrays, slopes = leaves(parameters), leaves(gradients)
    assert [a.shape for a in arrays] == [s.shape for s in slopes]
    by_differences, by_gradients = directional_quotient(loss, arrays, slopes)
    assert by_differences == pytest.approx(by_gradients, rel=1e-5, abs=1e-9)


def test_the_whole_model_puts_the_blocks_together() -> None:
    parameters = transformer_parameters(0, D_MODEL, D_FF)
    mask = padding_mask(SOURCE, 0)
    memory = encoder(
        embed(SOURCE, parameters.source_embedding),
        parameters.encoder,
        HEADS,
        mask,
        parameters.encoder_norm,
    )
    Y = decoder(
        embed(TARGET, parameters.target_embedding),
        memory,
        parameters.decoder,
        HEADS,
        memory_mask=mask,
        final_norm=parameters.decoder_norm,
    )
    logits = transformer(SOURCE, TARGET, parameters, HEADS, mask)
    close(logits, Y @ parameters.head, EXACT)
    tied = parameters._replace(head=None)
    close(
        transformer(SOURCE, TARGET, tied, HEADS, mask),
        Y @ parameters.target_embedding.T,
        EXACT,
    )


def test_embedding_scales_rows_and_adds_positions() -> None:
    table = draw(0, 7, 4)
    got = embed(np.array([[2, 6, 2]]), table)
    np.testing.assert_allclose(
        got[0], table[[2, 6, 2]] * 2.0 + sinusoidal_positions(3, 4), atol=EXACT
    )


def test_gradient_of_embedding() -> None:
    table, ids, G = draw(0, 5, 4), np.array([[2, 4, 2], [0, 1, 1]]), draw(1, 2, 3, 4)

    def loss() -> float:
        return float((G * embed(ids, table)).sum())

    close(embed_backward(G, ids, 5), difference_quotient(loss, table), 1e-8)


@ORDERS
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), place=st.integers(1, 4))
def test_changing_a_later_target_leaves_earlier_logits_alone(
    norm_first: bool, seed: int, place: int
) -> None:
    parameters = transformer_parameters(seed, layers=(1, 2))
    target = np.random.default_rng(seed).integers(0, 11, size=(1, 5))
    changed = target.copy()
    changed[:, place:] = (changed[:, place:] + 1) % 11
    before, after = (
        transformer(SOURCE[:1], ids, parameters, HEADS, norm_first=norm_first)
        for ids in (target, changed)
    )
    np.testing.assert_array_equal(before[:, :place], after[:, :place])
    assert np.abs(before[:, place:] - after[:, place:]).max() > 1e-6


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), extra=st.integers(1, 4))
def test_more_source_padding_changes_nothing(seed: int, extra: int) -> None:
    parameters = transformer_parameters(seed, layers=(2, 1))
    source = np.random.default_rng(seed).integers(1, 9, size=(1, 4))
    longer = np.concatenate([source, np.zeros((1, extra), int)], axis=1)
    few, many = (
        transformer(ids, TARGET[:1], parameters, HEADS, padding_mask(ids, 0))
        for ids in (source, longer)
    )
    close(many, few, EXACT)


def test_a_source_of_nothing_but_padding_gives_finite_logits_and_gradients() -> None:
    parameters = transformer_parameters(0)
    source = np.zeros((2, 3), int)
    rest = (parameters, HEADS, padding_mask(source, 0))
    logits = transformer(source, TARGET, *rest)
    assert np.isfinite(logits).all()
    gradients = transformer_backward(np.ones(logits.shape), source, TARGET, *rest)
    assert all(np.isfinite(leaf).all() for leaf in leaves(gradients))
    # The decoder never looked at the memory, so nothing reaches the source.
    assert not gradients.source_embedding.any()


def test_sentences_of_a_batch_do_not_meet() -> None:
    parameters = transformer_parameters(0)
    together = transformer(SOURCE, TARGET, parameters, HEADS, padding_mask(SOURCE, 0))
    for i in range(2):
        alone = transformer(
            SOURCE[i], TARGET[i], parameters, HEADS, padding_mask(SOURCE[i], 0)
        )
        close(together[i], alone, EXACT)


def test_gradients_of_tied_places_add_up() -> None:
    """One array as both tables and as the head: the sum of the three gradients."""
    base = transformer_parameters(0, vocabularies=(11, 11), layers=(1, 1), tied=True)
    table = base.target_embedding
    shared: TransformerParameters = base._replace(source_embedding=table)
    labels = np.array([[10, 4, 2], [7, 2, 3]])

    def loss() -> float:
        return cross_entropy(transformer(SOURCE, TARGET, shared, HEADS), labels)

    d_logits = cross_entropy_backward(
        transformer(SOURCE, TARGET, shared, HEADS), labels
    )
    gradients = transformer_backward(d_logits, SOURCE, TARGET, shared, HEADS)
    total = gradients.source_embedding + gradients.target_embedding
    by_differences, by_gradients = directional_quotient(loss, [table], [total])
    assert by_differences == pytest.approx(by_gradients, rel=1e-6)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: embed(np.array([5]), draw(0, 5, 2)),
            ValueError,
            "ids: got 5, wanted numbers from 0 to 4",
        ),
        (lambda: embed(np.array([-1]), draw(0, 5, 2)), ValueError, "ids: got -1"),
        (
            lambda: embed(np.array([1.0]), draw(0, 5, 2)),
            TypeError,
            "ids: got dtype float64",
        ),
        (lambda: embed(np.array(1), draw(0, 5, 2)), ValueError, "ids: got shape ()"),
        (lambda: embed(np.array([1]), draw(0, 5)), ValueError, "table: got shape (5,)"),
        (
            lambda: embed_backward(draw(0, 2, 3), np.array([1, 2, 3]), 5),
            ValueError,
            "dX: got shape (2, 3)",
        ),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
