"""The feed-forward network in NumPy: equal to torch, one token at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from arrays import difference_quotient, draw, feed_forward_parameters
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from transformer_lib.reference.feed_forward import (
    feed_forward,
    feed_forward_backward,
    gelu,
    gelu_backward,
    gelu_tanh,
    relu,
    relu_backward,
)

EXACT = 1e-12
GRADIENT = 1e-8
ACTIVATIONS = ("relu", "gelu")


def test_bends_equal_torch() -> None:
    x = np.linspace(-6.0, 6.0, 301)
    t = torch.from_numpy(x)
    np.testing.assert_array_equal(relu(x), F.relu(t).numpy())
    np.testing.assert_allclose(gelu(x), F.gelu(t).numpy(), atol=EXACT)
    np.testing.assert_allclose(
        gelu_tanh(x), F.gelu(t, approximate="tanh").numpy(), atol=EXACT
    )


def test_the_tanh_form_is_near_gelu_and_not_equal_to_it() -> None:
    x = np.linspace(-6.0, 6.0, 301)
    off = np.abs(gelu_tanh(x) - gelu(x)).max()
    assert 1e-4 < off < 5e-4


@pytest.mark.parametrize(
    ("bend", "bend_backward"), [(relu, relu_backward), (gelu, gelu_backward)]
)
def test_gradients_of_bends(bend: Any, bend_backward: Any) -> None:
    X, G = draw(0, 3, 4), draw(1, 3, 4)
    wanted = difference_quotient(lambda: float((G * bend(X)).sum()), X)
    np.testing.assert_allclose(bend_backward(G, X), wanted, atol=GRADIENT)


def test_relu_passes_no_gradient_at_zero_as_torch_does() -> None:
    assert relu_backward(np.array([7.0]), np.array([0.0]))[0] == 0.0


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_equals_torch_and_its_gradients(activation: Any) -> None:
    X, G = draw(0, 2, 3, 4), draw(1, 2, 3, 4)
    parameters = feed_forward_parameters(2, 4, 7)
    tensors = [torch.from_numpy(a).requires_grad_() for a in (X, *parameters)]
    x, W_1, b_1, W_2, b_2 = tensors
    wanted = getattr(F, activation)(x @ W_1 + b_1) @ W_2 + b_2
    np.testing.assert_allclose(
        feed_forward(X, *parameters, activation), wanted.detach().numpy(), atol=EXACT
    )
    wanted.backward(torch.from_numpy(G))
    got = feed_forward_backward(G, X, *parameters, activation)
    for gradient, parameter in zip(got, tensors, strict=True):
        np.testing.assert_allclose(gradient, parameter.grad.numpy(), atol=EXACT)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_equal_central_differences(activation: Any) -> None:
    X, G = draw(0, 3, 4), draw(1, 3, 4)
    parameters = feed_forward_parameters(2, 4, 5)

    def loss() -> float:
        return float((G * feed_forward(X, *parameters, activation)).sum())

    got = feed_forward_backward(G, X, *parameters, activation)
    for gradient, array in zip(got, (X, *parameters), strict=True):
        np.testing.assert_allclose(
            gradient, difference_quotient(loss, array), atol=GRADIENT
        )


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(2, 6))
def test_every_token_is_treated_alone_and_alike(seed: int, n: int) -> None:
    parameters = feed_forward_parameters(seed, 4, 7)
    X = draw(seed + 1, n, 4)
    whole = feed_forward(X, *parameters)
    for token in range(n):
        np.testing.assert_allclose(
            feed_forward(X[token], *parameters), whole[token], atol=EXACT
        )


def test_the_bend_comes_between_the_layers_and_nowhere_else() -> None:
    eye, nought = np.eye(3), np.zeros(3)
    X = np.array([[-1.0, 0.5, 2.0]])
    # Negative outputs are possible, negative inputs are not lost before W_1.
    np.testing.assert_array_equal(
        feed_forward(X, -eye, nought, -eye, nought), [[-1.0, 0.0, 0.0]]
    )


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": np.array(1.0)}, "X: got shape ()"),
        ({"W_1": draw(0, 3, 7)}, "W_1: got shape (3, 7), wanted (4, d_ff)"),
        ({"b_1": draw(0, 6)}, "b_1: got shape (6,), wanted (7,)"),
        ({"W_2": draw(0, 6, 4)}, "W_2: got shape (6, 4), wanted (7, d_out)"),
        ({"b_2": draw(0, 5)}, "b_2: got shape (5,), wanted (4,)"),
        ({"activation": "tanh"}, "activation: got 'tanh', wanted 'relu' or 'gelu'"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], words: str) -> None:
    names = ("W_1", "b_1", "W_2", "b_2")
    given_ = dict(zip(names, feed_forward_parameters(0, 4, 7), strict=True))
    arguments = {"X": draw(1, 2, 4), **given_, **change}
    with pytest.raises(ValueError, match="got") as caught:
        feed_forward(**arguments)
    assert words in str(caught.value)


@pytest.mark.no_shape_hook
def test_gradients_of_another_shape_are_refused() -> None:
    parameters = feed_forward_parameters(0, 4, 7)
    with pytest.raises(ValueError, match=r"d_output: got shape \(3, 4\)"):
        feed_forward_backward(draw(0, 3, 4), draw(1, 2, 4), *parameters)
    for bend_backward in (relu_backward, gelu_backward):
        with pytest.raises(ValueError, match=r"d_output: got shape \(3,\)"):
            bend_backward(draw(0, 3), draw(1, 2))
