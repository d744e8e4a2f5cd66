"""Normalisation and residuals in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from arrays import difference_quotient, draw, norm_parameters
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from transformer_lib.reference.normalization import (
    batch_norm,
    batch_norm_backward,
    batch_norm_evaluation,
    layer_norm,
    layer_norm_backward,
    residual_post,
    residual_post_backward,
    residual_pre,
    residual_pre_backward,
)

EXACT = 1e-12
GRADIENT = 1e-8
EPS = 1e-3  # large enough to be seen where it stands


def test_layer_norm_equals_torch_and_its_gradients() -> None:
    X, G = draw(0, 2, 3, 5) * [1, 10, 0.01, 1, 1], draw(1, 2, 3, 5)
    gamma, beta = norm_parameters(2, 5)
    x, g, b = (torch.from_numpy(a.copy()).requires_grad_() for a in (X, gamma, beta))
    wanted = F.layer_norm(x, (5,), g, b, EPS)
    np.testing.assert_allclose(
        layer_norm(X, gamma, beta, EPS), wanted.detach().numpy(), atol=EXACT
    )
    wanted.backward(torch.from_numpy(G))
    for got, t in zip(layer_norm_backward(G, X, gamma, EPS), (x, g, b), strict=True):
        np.testing.assert_allclose(got, t.grad.numpy(), atol=EXACT)


def test_batch_norm_equals_torch_and_its_gradients() -> None:
    X, G = draw(0, 2, 3, 5), draw(1, 2, 3, 5)
    gamma, beta = norm_parameters(2, 5)
    x, g, b = (torch.from_numpy(a.copy()).requires_grad_() for a in (X, gamma, beta))
    rows = x.reshape(6, 5)
    wanted = F.batch_norm(rows, None, None, g, b, training=True, eps=EPS)
    Y, mean, variance = batch_norm(X, gamma, beta, EPS)
    np.testing.assert_allclose(Y.reshape(6, 5), wanted.detach().numpy(), atol=EXACT)
    np.testing.assert_allclose(mean, rows.mean(0).detach().numpy(), atol=EXACT)
    np.testing.assert_allclose(
        variance, rows.var(0, unbiased=False).detach().numpy(), atol=EXACT
    )
    wanted.backward(torch.from_numpy(G.reshape(6, 5)))
    for got, t in zip(batch_norm_backward(G, X, gamma, EPS), (x, g, b), strict=True):
        np.testing.assert_allclose(got, t.grad.numpy(), atol=EXACT)


def test_batch_norm_in_evaluation_mode_equals_torch() -> None:
    X, (gamma, beta) = draw(0, 6, 5), norm_parameters(2, 5)
    mean, variance = draw(3, 5), np.abs(draw(4, 5))
    wanted = F.batch_norm(
        *(torch.from_numpy(a) for a in (X, mean, variance, gamma, beta)), eps=EPS
    )
    np.testing.assert_allclose(
        batch_norm_evaluation(X, gamma, beta, mean, variance, EPS),
        wanted.numpy(),
        atol=EXACT,
    )


@pytest.mark.parametrize("kind", ["layer", "batch"])
def test_gradients_equal_central_differences(kind: str) -> None:
    X, G = draw(0, 4, 3), draw(1, 4, 3)
    gamma, beta = norm_parameters(2, 3)

    def loss() -> float:
        if kind == "layer":
            return float((G * layer_norm(X, gamma, beta, EPS)).sum())
        return float((G * batch_norm(X, gamma, beta, EPS)[0]).sum())

    backward = layer_norm_backward if kind == "layer" else batch_norm_backward
    got = backward(G, X, gamma, EPS)
    for gradient, array in zip(got, (X, gamma, beta), strict=True):
        np.testing.assert_allclose(
            gradient, difference_quotient(loss, array), atol=GRADIENT
        )


def test_both_rows_by_hand_become_the_same() -> None:
    X = np.array([[1, 2, 3], [4, 5, 6]])
    got = layer_norm(X, np.ones(3), np.zeros(3), eps=0.0)
    np.testing.assert_allclose(got, np.array([[-1, 0, 1]] * 2) * np.sqrt(1.5))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(2, 5))
def test_layer_norm_looks_at_one_token_only(seed: int, n: int) -> None:
    X, (gamma, beta) = draw(seed, 2, n, 4), norm_parameters(seed + 1, 4)
    whole = layer_norm(X, gamma, beta)
    for sentence in range(2):
        for token in range(n):
            alone = layer_norm(X[sentence, token], gamma, beta)
            np.testing.assert_allclose(whole[sentence, token], alone, atol=EXACT)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), shift=st.floats(-5, 5), scale=st.floats(0.1, 10))
def test_layer_norm_forgets_shift_and_scale(
    seed: int, shift: float, scale: float
) -> None:
    X, (gamma, beta) = draw(seed, 3, 6), norm_parameters(seed + 1, 6)
    np.testing.assert_allclose(
        layer_norm(X * scale + shift, gamma, beta, eps=0.0),
        layer_norm(X, gamma, beta, eps=0.0),
        atol=1e-9,
    )


def test_batch_norm_lets_a_later_token_change_an_earlier_one() -> None:
    X, (gamma, beta) = draw(0, 2, 3, 4), norm_parameters(1, 4)
    changed = X.copy()
    changed[1, 2] += 3.0
    leak = batch_norm(changed, gamma, beta)[0] - batch_norm(X, gamma, beta)[0]
    assert np.abs(leak[0, 0]).max() > 0.1
    still = layer_norm(changed, gamma, beta) - layer_norm(X, gamma, beta)
    assert not still[0].any()
    assert not still[1, :2].any()


def test_a_token_of_equal_numbers_becomes_beta_and_not_nan() -> None:
    gamma, beta = norm_parameters(0, 4)
    np.testing.assert_array_equal(
        layer_norm(np.full((1, 4), 7.0), gamma, beta)[0], beta
    )


# --- residuals ------------------------------------------------------------------------


def test_the_two_orders_with_a_sublayer_that_gives_back_its_input() -> None:
    X, (gamma, beta) = draw(0, 3, 4), norm_parameters(1, 4)

    def same(Y: np.ndarray) -> np.ndarray:
        return Y

    np.testing.assert_allclose(
        residual_pre(X, same, gamma, beta), X + layer_norm(X, gamma, beta), atol=EXACT
    )
    np.testing.assert_allclose(
        residual_post(X, same, gamma, beta), layer_norm(2 * X, gamma, beta), atol=EXACT
    )


def test_the_two_orders_with_a_sublayer_that_adds_nothing() -> None:
    X, (gamma, beta) = draw(0, 3, 4), norm_parameters(1, 4)
    np.testing.assert_array_equal(residual_pre(X, np.zeros_like, gamma, beta), X)
    np.testing.assert_array_equal(
        residual_post(X, np.zeros_like, gamma, beta), layer_norm(X, gamma, beta)
    )


@pytest.mark.parametrize(
    ("forward", "backward"),
    [(residual_pre, residual_pre_backward), (residual_post, residual_post_backward)],
)
def test_gradients_of_residuals(forward: Any, backward: Any) -> None:
    X, W, G = draw(0, 3, 4), draw(1, 4, 4), draw(2, 3, 4)
    gamma, beta = norm_parameters(3, 4)

    def sublayer(Y: np.ndarray) -> np.ndarray:
        return np.tanh(Y @ W)

    def sublayer_backward(
        d: np.ndarray, Y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        d_before = d * (1.0 - np.tanh(Y @ W) ** 2)
        return d_before @ W.T, Y.T @ d_before

    def loss() -> float:
        return float((G * forward(X, sublayer, gamma, beta, EPS)).sum())

    got = backward(G, X, sublayer, sublayer_backward, gamma, beta, EPS)
    for gradient, array in zip(got, (X, W, gamma, beta), strict=True):
        np.testing.assert_allclose(
            gradient, difference_quotient(loss, array), atol=GRADIENT
        )


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda X, g, b: layer_norm(X, g[:3], b), "gamma: got shape (3,), wanted (4,)"),
        (lambda X, g, b: layer_norm(X, g, b[:3]), "beta: got shape (3,), wanted (4,)"),
        (lambda X, g, b: layer_norm(X, g, b, -1.0), "eps: got -1.0, wanted 0 or more"),
        (lambda X, g, b: layer_norm(X[:, :0], g, b), "X: got shape (3, 0)"),
        (lambda X, g, b: layer_norm(np.array(1.0), g, b), "X: got shape ()"),
        (
            lambda X, g, b: layer_norm_backward(X[:2], X, g),
            "d_output: got shape (2, 4)",
        ),
        (lambda X, g, b: batch_norm(X[:0], g, b), "at least one token"),
        (lambda X, g, b: batch_norm(X, g[:3], b), "gamma: got shape (3,)"),
        (
            lambda X, g, b: batch_norm_backward(X[:2], X, g),
            "d_output: got shape (2, 4)",
        ),
        (lambda X, g, b: batch_norm_backward(X, X, g[:3]), "gamma: got shape (3,)"),
        (
            lambda X, g, b: batch_norm_evaluation(X, g, b, g[:3], g),
            "mean: got shape (3,)",
        ),
        (
            lambda X, g, b: batch_norm_evaluation(X, g, b, g, -np.ones(4)),
            "variance: got -1.0, wanted 0 or more",
        ),
        (
            lambda X, g, b: residual_pre(X, lambda Y: Y[:1], g, b),
            "sublayer: its output has shape (1, 4), wanted (3, 4)",
        ),
        (
            lambda X, g, b: residual_pre_backward(
                X, X, lambda Y: Y[:1], lambda d, Y: (d, None), g, b
            ),
            "sublayer: its output has shape (1, 4), wanted (3, 4)",
        ),
        (
            lambda X, g, b: residual_post_backward(
                X, X, lambda Y: Y[:1], lambda d, Y: (d, None), g, b
            ),
            "sublayer: its output has shape (1, 4), wanted (3, 4)",
        ),
        (
            lambda X, g, b: residual_post(X, lambda Y: Y[:1], g, b),
            "sublayer: its output has shape (1, 4), wanted (3, 4)",
        ),
    ],
)
def test_bad_input_is_named(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=r"got|sublayer") as caught:
        call(draw(0, 3, 4), np.ones(4), np.zeros(4))
    assert words in str(caught.value)
