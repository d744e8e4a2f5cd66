"""Attention in NumPy: equation, properties, gradients, and planted faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib.reference.attention import (
    attention,
    attention_backward,
    self_attention,
    self_attention_backward,
)
from transformer_lib.reference.lookup import masked_softmax, softmax

EXACT = 1e-12  # float64, a few dozen additions per number
GRADIENT = 1e-8  # the project's bound; autograd agrees far better than this


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def parts(seed: int, batch: tuple[int, ...] = (2,)) -> tuple[np.ndarray, ...]:
    """Sizes that all differ, so that no mix-up of axes passes unseen."""
    n_q, n_k, d_k, d_v = 4, 5, 3, 6
    return (
        draw(seed, *batch, n_q, d_k),
        draw(seed + 1, *batch, n_k, d_k),
        draw(seed + 2, *batch, n_k, d_v),
    )


def some_mask(seed: int, *shape: int) -> np.ndarray:
    """A random mask whose first query sees nothing."""
    mask = np.random.default_rng(seed).random(shape) < 0.6
    mask[..., 0, :] = False
    return mask


# --- the equation ---------------------------------------------------------------------


def test_three_pencil_tokens_give_the_numbers_of_the_chapter() -> None:
    Q = np.array([[1, 1], [0, 2], [2, 3]])
    K = np.array([[0, 1], [2, 2], [1, 3]])
    V = np.array([[1, 0], [-2, 2], [1, 1]])
    output, weights = attention(Q, K, V)
    # Row "the": scores 1, 4, 4, so the weights are 1 : e^(3/sqrt 2) : e^(3/sqrt 2).
    share = np.exp(3 / np.sqrt(2))
    np.testing.assert_allclose(
        weights[0], np.array([1, share, share]) / (1 + 2 * share), atol=EXACT
    )
    np.testing.assert_allclose(
        output[0], [(1 - share) / (1 + 2 * share), 3 * share / (1 + 2 * share)],
        atol=EXACT,
    )  # fmt: skip


def test_projections_of_the_pencil_tokens_are_the_printed_integers() -> None:
    X = np.array([[1, 0], [0, 2], [2, 1]])
    W_Q, W_K, W_V = (
        np.array(W) for W in ([[1, 1], [0, 1]], [[0, 1], [1, 1]], [[1, 0], [-1, 1]])
    )
    by_hand = attention(
        np.array([[1, 1], [0, 2], [2, 3]]),
        np.array([[0, 1], [2, 2], [1, 3]]),
        np.array([[1, 0], [-2, 2], [1, 1]]),
    )
    for got, wanted in zip(self_attention(X, W_Q, W_K, W_V), by_hand, strict=True):
        np.testing.assert_allclose(got, wanted, atol=EXACT)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_agrees_with_torch(batch: tuple[int, ...], masked: bool) -> None:
    Q, K, V = parts(0, batch)
    mask = some_mask(3, *batch, 4, 5) if masked else None
    if mask is not None:
        mask[..., 0, 0] = True  # torch has its own idea of a row that sees nothing
        mask[..., 1:, 1] = True
    output, _ = attention(Q, K, V, mask)
    q, k, v = (torch.from_numpy(z)[None] for z in (Q, K, V))
    wanted = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=None if mask is None else torch.from_numpy(mask)[None]
    )[0]
    np.testing.assert_allclose(output, wanted.numpy(), atol=EXACT)


def test_self_attention_agrees_with_one_head_of_torch() -> None:
    n, d = 5, 4
    X = draw(0, 2, n, d)
    W_Q, W_K, W_V = (draw(s, d, d) for s in (1, 2, 3))
    theirs = torch.nn.MultiheadAttention(
        d, 1, bias=False, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        theirs.in_proj_weight.copy_(
            torch.from_numpy(np.concatenate([W_Q.T, W_K.T, W_V.T]))
        )
        theirs.out_proj.weight.copy_(torch.eye(d))
        x = torch.from_numpy(X)
        wanted_output, wanted_weights = theirs(x, x, x)
    output, weights = self_attention(X, W_Q, W_K, W_V)
    np.testing.assert_allclose(output, wanted_output.numpy(), atol=EXACT)
    np.testing.assert_allclose(weights, wanted_weights.numpy(), atol=EXACT)


# --- properties, each with planted faults ---------------------------------------------

Attention = Callable[..., tuple[np.ndarray, np.ndarray]]


def rows_sum_to_one(attend: Attention) -> None:
    _, weights = attend(*parts(0))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=EXACT)


def output_stays_between_the_values(attend: Attention) -> None:
    Q, K, V = parts(1)
    output, _ = attend(Q, K, V)
    assert (output <= V.max(-2, keepdims=True) + EXACT).all()
    assert (output >= V.min(-2, keepdims=True) - EXACT).all()


def reordering_the_keys_with_their_values_changes_nothing(attend: Attention) -> None:
    Q, K, V = parts(2)
    order = [3, 0, 4, 1, 2]
    np.testing.assert_allclose(
        attend(Q, K[:, order], V[:, order])[0], attend(Q, K, V)[0], atol=EXACT
    )


def changing_one_query_leaves_the_other_rows_alone(attend: Attention) -> None:
    Q, K, V = parts(3)
    other = Q.copy()
    other[:, 2] += 1
    before, after = attend(Q, K, V)[0], attend(other, K, V)[0]
    kept = [0, 1, 3]
    np.testing.assert_array_equal(before[:, kept], after[:, kept])
    assert np.abs(before[:, 2] - after[:, 2]).max() > 1e-3


def batch_mates_do_not_matter(attend: Attention) -> None:
    Q, K, V = parts(4)
    together = attend(Q, K, V)[0][0]
    alone = attend(Q[:1], K[:1], V[:1])[0][0]
    np.testing.assert_allclose(together, alone, atol=EXACT)


def one_vector_added_to_all_keys_changes_nothing(attend: Attention) -> None:
    Q, K, V = parts(5)
    np.testing.assert_allclose(
        attend(Q, K + draw(9, K.shape[-1]), V)[0], attend(Q, K, V)[0], atol=1e-11
    )


def scores_are_divided_by_the_root_of_the_key_width(attend: Attention) -> None:
    Q = np.zeros((1, 4, 16))
    K = np.zeros((1, 5, 16))
    Q[..., 0], K[:, 0, 0] = 4, 1  # the score of key 0 is 4 / sqrt(16) = 1, others 0
    _, weights = attend(Q, K, draw(0, 1, 5, 3))
    np.testing.assert_allclose(weights[..., 0], np.e / (np.e + 4), atol=EXACT)


def weights_average_the_values(attend: Attention) -> None:
    Q, K, V = parts(6)
    output, weights = attend(Q, K, V)
    np.testing.assert_allclose(output, weights @ V, atol=EXACT)
    np.testing.assert_allclose(attend(Q, K, 0 * V)[0], 0, atol=0)


def hidden_keys_do_not_matter(attend: Attention) -> None:
    Q, K, V = parts(7)
    mask = np.ones((4, 5), dtype=bool)
    mask[:, 3] = False
    other_K, other_V = K.copy(), V.copy()
    other_K[:, 3], other_V[:, 3] = 100.0, -7.0
    output, weights = attend(Q, K, V, mask)
    assert (weights[..., 3] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=EXACT)
    np.testing.assert_array_equal(output, attend(Q, other_K, other_V, mask)[0])


def a_query_that_sees_nothing_gets_zeros(attend: Attention) -> None:
    mask = np.ones((4, 5), dtype=bool)
    mask[1] = False
    output, weights = attend(*parts(8), mask)
    np.testing.assert_array_equal(output[:, 1], 0)
    np.testing.assert_array_equal(weights[:, 1], 0)


def faulty(
    scale: Callable[[int, int, int, int], float] = lambda n_q, n_k, d_k, d_v: d_k**-0.5,
    axis: int | tuple[int, ...] = -1,
    hide: str = "softmax",
    values: str = "V",
) -> Attention:
    """An attention in which one thing can be wrong."""

    def attend(
        Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        scores = Q @ K.swapaxes(-1, -2)
        scores = scores * scale(Q.shape[-2], K.shape[-2], K.shape[-1], V.shape[-1])
        if mask is None:
            numerators = np.exp(scores - scores.max())
            weights = numerators / numerators.sum(axis=axis, keepdims=True)
        elif hide == "multiply":
            weights = softmax(scores * mask)
        elif hide == "after":
            weights = softmax(scores) * mask
        elif hide == "inverted":
            weights = masked_softmax(scores, ~mask)
        elif hide == "uniform":  # a large negative number in place of minus infinity
            weights = softmax(np.where(mask, scores, -1e9))
        else:
            weights = masked_softmax(scores, mask)
        if values == "K":
            return weights @ K, weights
        if values == "first":
            return weights @ V + 0 * weights.sum() + V[:1, :1], weights
        return weights @ V, weights

    return attend


def mixes_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    return attention(Q - Q.mean(-2, keepdims=True), K, V, mask)


def mixes_batch(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    return attention(Q, K - K.mean(0, keepdims=True), V, mask)


def counts_places(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    return attention(Q, K + np.arange(K.shape[-2])[:, None], V, mask)


def distance_instead_of_product(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    scores = -((Q[..., :, None, :] - K[..., None, :, :]) ** 2).sum(-1)
    weights = masked_softmax(scores, mask)
    return weights @ V, weights


PLANTED: list[tuple[Callable[[Attention], None], str, Attention]] = [
    (rows_sum_to_one, "softmax over the queries", faulty(axis=-2)),
    (rows_sum_to_one, "softmax over everything", faulty(axis=(-2, -1))),
    (output_stays_between_the_values, "softmax over the queries", faulty(axis=-2)),
    (
        reordering_the_keys_with_their_values_changes_nothing,
        "keys know their place",
        counts_places,
    ),
    (
        changing_one_query_leaves_the_other_rows_alone,
        "queries are centred together",
        mixes_queries,
    ),
    (
        changing_one_query_leaves_the_other_rows_alone,
        "softmax over the queries",
        faulty(axis=-2),
    ),
    (batch_mates_do_not_matter, "keys are centred over the batch", mixes_batch),
    (
        one_vector_added_to_all_keys_changes_nothing,
        "distance in place of product",
        distance_instead_of_product,
    ),
    (
        scores_are_divided_by_the_root_of_the_key_width,
        "no scale",
        faulty(lambda n_q, n_k, d_k, d_v: 1.0),
    ),
    (
        scores_are_divided_by_the_root_of_the_key_width,
        "divided by d_k",
        faulty(lambda n_q, n_k, d_k, d_v: 1 / d_k),
    ),
    (
        scores_are_divided_by_the_root_of_the_key_width,
        "divided by sqrt(n_k)",
        faulty(lambda n_q, n_k, d_k, d_v: n_k**-0.5),
    ),
    (
        scores_are_divided_by_the_root_of_the_key_width,
        "divided by sqrt(n_q)",
        faulty(lambda n_q, n_k, d_k, d_v: n_q**-0.5),
    ),
    (
        scores_are_divided_by_the_root_of_the_key_width,
        "divided by sqrt(d_v)",
        faulty(lambda n_q, n_k, d_k, d_v: d_v**-0.5),
    ),
    (weights_average_the_values, "keys are averaged", faulty(values="K")),
    (weights_average_the_values, "a value is added", faulty(values="first")),
    (hidden_keys_do_not_matter, "scores times 0", faulty(hide="multiply")),
    (hidden_keys_do_not_matter, "mask after the softmax", faulty(hide="after")),
    (hidden_keys_do_not_matter, "mask inverted", faulty(hide="inverted")),
    (
        a_query_that_sees_nothing_gets_zeros,
        "minus a billion in place of minus infinity",
        faulty(hide="uniform"),
    ),
]


@pytest.mark.parametrize(
    "holds", sorted({p for p, _, _ in PLANTED}, key=lambda p: p.__name__)
)
def test_property_holds(holds: Callable[[Attention], None]) -> None:
    holds(attention)


@pytest.mark.parametrize(
    ("holds", "attend"),
    [(p, a) for p, _, a in PLANTED],
    ids=[f"{p.__name__}: {name}" for p, name, _ in PLANTED],
)
def test_property_catches_the_planted_fault(
    holds: Callable[[Attention], None], attend: Attention
) -> None:
    with pytest.raises((AssertionError, ValueError)):
        holds(attend)


def test_the_planted_frame_is_right_when_nothing_is_planted() -> None:
    for got, wanted in zip(faulty()(*parts(0)), attention(*parts(0)), strict=True):
        np.testing.assert_allclose(got, wanted, atol=EXACT)


@given(seed=st.integers(0, 2**32 - 8), n=st.integers(1, 6), d=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_swapping_the_two_projections_transposes_the_scores(
    seed: int, n: int, d: int
) -> None:
    """In self-attention W_Q and W_K swapped is the same as asking from the other end."""
    X, W_Q, W_K = draw(seed, n, d), draw(seed + 1, d, 3), draw(seed + 2, d, 3)
    scores = (X @ W_Q) @ (X @ W_K).T
    swapped = (X @ W_K) @ (X @ W_Q).T
    np.testing.assert_allclose(swapped, scores.T, atol=1e-9)
    eye = np.eye(n)  # with one-hot values the output is the matrix of weights
    _, weights = attention(X @ W_K, X @ W_Q, eye)
    np.testing.assert_allclose(
        weights, softmax(scores.T / np.sqrt(3)), atol=1e-9
    )  # scores up to some hundreds


# --- backward -------------------------------------------------------------------------


def autograd(
    Q: np.ndarray,
    K: np.ndarray,
    V: np.ndarray,
    d_output: np.ndarray,
    mask: np.ndarray | None,
) -> list[np.ndarray]:
    """An independent route: torch differentiates its own formula."""
    q, k, v = (torch.tensor(z, requires_grad=True) for z in (Q, K, V))
    scores = torch.einsum("...qd,...kd->...qk", q, k) / K.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~torch.from_numpy(mask), float("-inf"))
        dead = ~torch.from_numpy(mask).any(-1, keepdim=True)
        scores = scores.masked_fill(dead, 0.0)
        weights = scores.softmax(-1) * ~dead
    else:
        weights = scores.softmax(-1)
    (weights @ v).backward(torch.from_numpy(d_output))
    return [z.grad.numpy() for z in (q, k, v) if z.grad is not None]


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_backward_agrees_with_autograd(batch: tuple[int, ...], masked: bool) -> None:
    Q, K, V = parts(10, batch)
    mask = some_mask(3, *batch, 4, 5) if masked else None
    output, weights = attention(Q, K, V, mask)
    d_output = draw(11, *output.shape)
    ours = attention_backward(d_output, Q, K, V, weights)
    theirs = autograd(Q, K, V, d_output, mask)
    assert len(theirs) == 3
    for got, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, wanted, atol=GRADIENT, rtol=0)


def central_difference(
    f: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-5
) -> np.ndarray:
    slope = np.zeros_like(at)
    for index in np.ndindex(*at.shape):
        up, down = at.copy(), at.copy()
        up[index] += step
        down[index] -= step
        slope[index] = (f(up) - f(down)) / (2 * step)
    return slope


def test_self_attention_backward_agrees_with_central_differences() -> None:
    X, d_output = draw(0, 2, 4, 3), draw(1, 2, 4, 2)
    inputs = {"X": X, "W_Q": draw(2, 3, 5), "W_K": draw(3, 3, 5), "W_V": draw(4, 3, 2)}
    _, weights = self_attention(**inputs)
    gradients = self_attention_backward(d_output, **inputs, weights=weights)
    for (name, value), gradient in zip(inputs.items(), gradients, strict=True):

        def loss(z: np.ndarray, name: str = name) -> float:
            return float((self_attention(**{**inputs, name: z})[0] * d_output).sum())

        np.testing.assert_allclose(
            gradient, central_difference(loss, value), atol=GRADIENT, err_msg=name
        )


def test_a_dead_row_passes_no_gradient_back() -> None:
    Q, K, V = parts(12)
    mask = np.ones((4, 5), dtype=bool)
    mask[2] = False
    _, weights = attention(Q, K, V, mask)
    d_output = np.zeros((2, 4, 6))
    d_output[:, 2] = 1.0
    for gradient in attention_backward(d_output, Q, K, V, weights):
        np.testing.assert_array_equal(gradient, 0)


def wrong_backward(fault: str) -> Callable[..., tuple[np.ndarray, ...]]:
    def backward(
        d_output: np.ndarray,
        Q: np.ndarray,
        K: np.ndarray,
        V: np.ndarray,
        A: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        scale = 1.0 if fault == "scale" else K.shape[-1] ** -0.5
        d_A = d_output @ V.swapaxes(-1, -2)
        centre = (d_A * A).sum(-1, keepdims=True)
        if fault == "no coupling":
            centre = d_A * A
        if fault == "mean of the row":
            centre = d_A.mean(-1, keepdims=True)
        d_S = A * (d_A - centre)
        dK = d_S.swapaxes(-1, -2) @ Q * scale
        dV = A.swapaxes(-1, -2) @ d_output
        if fault == "sign":
            dK = -dK
        if fault == "dV of the scores":
            dV = d_S.swapaxes(-1, -2) @ d_output
        return d_S @ K * scale, dK, dV

    return backward


@pytest.mark.parametrize(
    "fault", ["scale", "no coupling", "mean of the row", "sign", "dV of the scores"]
)
def test_autograd_rejects_a_wrong_backward(fault: str) -> None:
    Q, K, V = parts(10)
    output, weights = attention(Q, K, V)
    d_output = draw(11, *output.shape)
    wanted = autograd(Q, K, V, d_output, None)
    for got, other in zip(
        wrong_backward("none")(d_output, Q, K, V, weights), wanted, strict=True
    ):
        np.testing.assert_allclose(got, other, atol=GRADIENT)
    off = [
        np.abs(got - other).max()
        for got, other in zip(
            wrong_backward(fault)(d_output, Q, K, V, weights), wanted, strict=True
        )
    ]
    assert max(off) > 1e-3


# --- bad input ------------------------------------------------------------------------


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Q": np.zeros(3)}, r"Q: got shape \(3,\), wanted \(\.\.\., tokens, width\)"),
        (
            {"K": np.zeros((5, 2))},
            "K: got keys of width 2, wanted the width of the que",
        ),
        ({"V": np.zeros((4, 6))}, "V: got 4 values, wanted one per key, 5"),
        ({"K": np.zeros((7, 5, 3))}, r"K: got leading axes \(7,\), wanted those of Q"),
        ({"V": np.zeros((7, 5, 6))}, r"V: got leading axes \(7,\), wanted those of Q"),
        ({"mask": np.ones((3, 5), dtype=bool)}, r"mask: got shape \(3, 5\)"),
    ],
)
def test_shapes_that_do_not_fit_are_named(change: dict[str, Any], message: str) -> None:
    good = {"Q": np.zeros((4, 3)), "K": np.zeros((5, 3)), "V": np.zeros((5, 6))}
    attention(**good)
    with pytest.raises(ValueError, match=message):
        attention(**{**good, **change})


@pytest.mark.no_shape_hook
def test_width_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        attention(np.zeros((4, 0)), np.zeros((5, 0)), np.zeros((5, 6)))


@pytest.mark.no_shape_hook
def test_a_mask_of_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match=r"mask: got dtype float64, wanted bool"):
        attention(np.zeros((4, 3)), np.zeros((5, 3)), np.zeros((5, 6)), np.ones((4, 5)))


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros(3)}, r"X: got shape \(3,\), wanted \(\.\.\., n, d_model\)"),
        ({"W_V": np.zeros((2, 2))}, r"W_V: got shape \(2, 2\), wanted \(3, width\)"),
        ({"W_Q": np.zeros(3)}, r"W_Q: got shape \(3,\), wanted \(3, width\)"),
        ({"W_K": np.zeros((3, 5))}, r"W_K: got shape \(3, 5\), wanted that of W_Q"),
    ],
)
def test_projections_that_do_not_fit_are_named(
    change: dict[str, Any], message: str
) -> None:
    good = {
        "X": np.zeros((4, 3)),
        "W_Q": np.zeros((3, 2)),
        "W_K": np.zeros((3, 2)),
        "W_V": np.zeros((3, 6)),
    }
    self_attention(**good)
    with pytest.raises(ValueError, match=message):
        self_attention(**{**good, **change})


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_output": np.zeros((4, 5))}, r"d_output: got shape \(4, 5\), wanted"),
        ({"weights": np.zeros((5, 4))}, r"weights: got shape \(5, 4\), wanted \(4, 5"),
    ],
)
def test_gradients_that_do_not_fit_are_named(
    change: dict[str, Any], message: str
) -> None:
    good = {
        "d_output": np.zeros((4, 6)),
        "Q": np.zeros((4, 3)),
        "K": np.zeros((5, 3)),
        "V": np.zeros((5, 6)),
        "weights": np.zeros((4, 5)),
    }
    attention_backward(**good)
    with pytest.raises(ValueError, match=message):
        attention_backward(**{**good, **change})
