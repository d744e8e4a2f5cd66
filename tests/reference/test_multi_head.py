"""Multi-head attention in NumPy: equal to torch's, with every mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from arrays import attention_parameters, difference_quotient, draw, leaves, some_mask
from hypothesis import given, settings
from hypothesis import strategies as st
from porting import attention_gradients, tensor, torch_attention

from transformer_lib.reference.attention import attention
from transformer_lib.reference.masks import causal_mask
from transformer_lib.reference.multi_head import (
    MultiHeadParameters,
    merge_heads,
    multi_head_attention,
    multi_head_attention_backward,
    split_heads,
)

EXACT = 1e-12
GRADIENT = 1e-8
HEADS = 3
D_MODEL = 12


def test_splitting_cuts_columns_and_merging_undoes_it() -> None:
    X = draw(0, 2, 5, 12)
    heads = split_heads(X, 3)
    assert heads.shape == (2, 3, 5, 4)
    for head in range(3):
        np.testing.assert_array_equal(
            heads[:, head], X[:, :, 4 * head : 4 * (head + 1)]
        )
    np.testing.assert_array_equal(merge_heads(heads), X)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_equals_torch_and_its_gradients(bias: bool, masked: bool) -> None:
    X, source, G = draw(0, 2, 4, 12), draw(1, 2, 5, 12), draw(2, 2, 4, 12)
    parameters = attention_parameters(3, D_MODEL, bias)
    mask = some_mask(4, 2, HEADS, 4, 5, dead=False) if masked else None
    module = torch_attention(parameters, HEADS)
    x, s = tensor(X).requires_grad_(), tensor(source).requires_grad_()
    theirs = None if mask is None else tensor(~mask.reshape(-1, 4, 5))
    wanted, wanted_weights = module(
        x, s, s, attn_mask=theirs, average_attn_weights=False
    )
    output, weights = multi_head_attention(X, source, parameters, HEADS, mask)
    np.testing.assert_allclose(output, wanted.detach().numpy(), atol=EXACT)
    np.testing.assert_allclose(weights, wanted_weights.detach().numpy(), atol=EXACT)

    wanted.backward(tensor(G))
    dX, dsource, gradients = multi_head_attention_backward(
        G, X, source, parameters, HEADS, weights
    )
    np.testing.assert_allclose(dX, x.grad.numpy(), atol=EXACT)
    np.testing.assert_allclose(dsource, s.grad.numpy(), atol=EXACT)
    for got, right in zip(leaves(gradients), attention_gradients(module), strict=True):
        np.testing.assert_allclose(got, right, atol=EXACT)
    assert (gradients.b_O is None) == (not bias)


def test_gradients_equal_central_differences() -> None:
    X, source, G = draw(0, 2, 6), draw(1, 3, 6), draw(2, 2, 6)
    parameters = attention_parameters(3, 6)
    mask = some_mask(4, 2, 2, 3)

    def loss() -> float:
        return float(
            (G * multi_head_attention(X, source, parameters, 2, mask)[0]).sum()
        )

    _, weights = multi_head_attention(X, source, parameters, 2, mask)
    got = multi_head_attention_backward(G, X, source, parameters, 2, weights)
    arrays = [X, source, *leaves(parameters)]
    for gradient, array in zip(leaves(got), arrays, strict=True):
        np.testing.assert_allclose(
            gradient, difference_quotient(loss, array), atol=GRADIENT
        )


def test_one_head_is_attention_between_its_projections() -> None:
    X, p = draw(0, 4, 6), attention_parameters(1, 6, bias=False)
    output, weights = multi_head_attention(X, X, p, num_heads=1)
    wanted, wanted_weights = attention(X @ p.W_Q, X @ p.W_K, X @ p.W_V)
    np.testing.assert_allclose(output, wanted @ p.W_O, atol=EXACT)
    np.testing.assert_allclose(weights[0], wanted_weights, atol=EXACT)


def test_each_head_reads_its_own_columns_and_scales_by_its_own_width() -> None:
    X, p = draw(0, 5, 6), attention_parameters(1, 6, bias=False)
    output, weights = multi_head_attention(X, X, p, num_heads=2)
    parts = []
    for columns in (slice(0, 3), slice(3, 6)):
        Q, K, V = X @ p.W_Q[:, columns], X @ p.W_K[:, columns], X @ p.W_V[:, columns]
        scores = np.exp(Q @ K.T / np.sqrt(3))
        parts.append(scores / scores.sum(axis=1, keepdims=True) @ V)
    np.testing.assert_allclose(output, np.hstack(parts) @ p.W_O, atol=EXACT)
    assert np.abs(weights[0] - weights[1]).max() > 0.01


def test_a_mask_per_head_acts_on_that_head_only() -> None:
    X, p = draw(0, 4, 6), attention_parameters(1, 6)
    mask = np.ones((2, 4, 4), bool)
    mask[1] = causal_mask(4)
    _, weights = multi_head_attention(X, X, p, 2, mask)
    _, free = multi_head_attention(X, X, p, 2)
    np.testing.assert_array_equal(weights[0], free[0])
    assert (weights[1][~causal_mask(4)] == 0.0).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), order=st.permutations(range(5)))
def test_reordering_the_tokens_reorders_the_outputs(
    seed: int, order: list[int]
) -> None:
    X, p = draw(seed, 5, 6), attention_parameters(seed + 1, 6)
    output, _ = multi_head_attention(X, X, p, 2)
    moved, _ = multi_head_attention(X[order], X[order], p, 2)
    np.testing.assert_allclose(moved, output[order], atol=EXACT)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_sentences_of_a_batch_do_not_meet(seed: int) -> None:
    X, p = draw(seed, 3, 4, 6), attention_parameters(seed + 1, 6)
    together, _ = multi_head_attention(X, X, p, 3)
    for sentence in range(3):
        alone, _ = multi_head_attention(X[sentence], X[sentence], p, 3)
        np.testing.assert_allclose(together[sentence], alone, atol=EXACT)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_weights_sum_to_one_and_a_dead_row_gives_the_output_bias(seed: int) -> None:
    X, p = draw(seed, 4, 6), attention_parameters(seed + 1, 6)
    mask = some_mask(seed, 4, 4)
    output, weights = multi_head_attention(X, X, p, 2, mask)
    np.testing.assert_allclose(
        weights.sum(axis=-1), np.broadcast_to(mask.any(axis=-1), (2, 4)), atol=EXACT
    )
    np.testing.assert_allclose(output[0], p.b_O, atol=EXACT)


def test_a_dead_row_passes_no_gradient_back() -> None:
    X, source = draw(0, 3, 6), draw(1, 4, 6)
    p = attention_parameters(2, 6)
    mask = np.zeros((3, 4), bool)
    _, weights = multi_head_attention(X, source, p, 2, mask)
    dX, dsource, gradients = multi_head_attention_backward(
        draw(3, 3, 6), X, source, p, 2, weights
    )
    assert not dX.any()
    assert not dsource.any()
    assert not any(g.any() for g in (gradients.W_Q, gradients.W_K, gradients.W_V))


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"num_heads": 4}, ValueError, "num_heads: got 4, which does not divide"),
        ({"num_heads": 0}, ValueError, "num_heads: got 0"),
        ({"X": draw(0, 6)}, ValueError, "X: got shape (6,)"),
        ({"source": draw(0, 2, 5, 5)}, ValueError, "source: got shape (2, 5, 5)"),
        ({"source": draw(0, 3, 5, 6)}, ValueError, "source: got shape (3, 5, 6)"),
        (
            {"parameters": MultiHeadParameters(*[np.eye(6)] * 3, np.eye(5))},
            ValueError,
            "W_O: got shape (5, 5), wanted (6, 6)",
        ),
        (
            {"parameters": MultiHeadParameters(*[np.eye(6)] * 4, b_V=np.ones(5))},
            ValueError,
            "b_V: got shape (5,), wanted (6,)",
        ),
        ({"mask": np.ones((2, 5), bool)}, ValueError, "mask: got shape (2, 5)"),
        ({"mask": np.ones((2, 4, 5), bool)}, ValueError, "mask: got shape (2, 4, 5)"),
        ({"mask": np.ones((4, 5))}, TypeError, "mask: got dtype float64, wanted bool"),
    ],
)
def test_bad_input_is_named(
    change: dict[str, Any], error: type[Exception], words: str
) -> None:
    arguments: dict[str, Any] = {
        "X": draw(0, 2, 4, 6),
        "source": draw(1, 2, 5, 6),
        "parameters": attention_parameters(2, 6),
        "num_heads": 2,
        "mask": None,
        **change,
    }
    with pytest.raises(error) as caught:
        multi_head_attention(**arguments)
    assert words in str(caught.value)


@pytest.mark.no_shape_hook
def test_shapes_of_split_merge_and_backward_are_checked() -> None:
    with pytest.raises(ValueError, match="num_heads: got 5"):
        split_heads(draw(0, 3, 6), 5)
    with pytest.raises(ValueError, match=r"X: got shape \(6,\)"):
        split_heads(draw(0, 6), 2)
    with pytest.raises(ValueError, match=r"heads: got shape \(3, 6\)"):
        merge_heads(draw(0, 3, 6))
    p = attention_parameters(2, 6)
    with pytest.raises(ValueError, match=r"d_output: got shape \(2, 6\)"):
        multi_head_attention_backward(
            draw(0, 2, 6), draw(1, 3, 6), draw(2, 3, 6), p, 2, draw(3, 2, 3, 3)
        )


def test_torch_is_used_in_double_precision() -> None:
    """A comparison at 1e-12 would be empty if both sides were rounded alike."""
    module = torch_attention(attention_parameters(0, 6), 2)
    assert module.in_proj_weight.dtype == torch.float64
