"""The feed-forward module: equal to the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from arrays import draw

from transformer_lib import reference
from transformer_lib.nn.feed_forward import FeedForward

EXACT = 1e-12


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, 1e-5)]
)
def test_equals_the_reference_and_its_gradients(
    activation: Any, dtype: torch.dtype, tolerance: float
) -> None:
    module = FeedForward(4, 7, activation).to(dtype)
    parameters = module.reference_parameters()
    X, G = draw(0, 2, 3, 4), draw(1, 2, 3, 4)
    x = torch.from_numpy(X).to(dtype).requires_grad_()
    output = module(x)
    wanted = reference.feed_forward(X, *parameters, activation)
    np.testing.assert_allclose(output.detach().numpy(), wanted, atol=tolerance)
    output.backward(torch.from_numpy(G).to(dtype))
    dX, dW_1, db_1, dW_2, db_2 = reference.feed_forward_backward(
        G, X, *parameters, activation
    )
    for got, right in (
        (x.grad, dX),
        (module.W_1.weight.grad.T, dW_1),
        (module.W_1.bias.grad, db_1),
        (module.W_2.weight.grad.T, dW_2),
        (module.W_2.bias.grad, db_2),
    ):
        np.testing.assert_allclose(got.numpy(), right, atol=10 * tolerance)


def test_every_token_is_treated_alone() -> None:
    module, x = FeedForward(4, 7).double(), torch.from_numpy(draw(0, 2, 5, 4))
    torch.testing.assert_close(module(x)[1, 3], module(x[1, 3]), atol=EXACT, rtol=0)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (4,)])
def test_any_number_of_tokens(shape: tuple[int, ...]) -> None:
    assert FeedForward(4, 7)(torch.zeros(shape)).shape == shape


def test_first_values_are_those_of_a_linear_layer_and_come_from_the_generator() -> None:
    one, two = (
        FeedForward(100, 50, generator=torch.Generator().manual_seed(3)) for _ in "ab"
    )
    torch.testing.assert_close(one.W_1.weight, two.W_1.weight, atol=0, rtol=0)
    for layer, bound in ((one.W_1, 0.1), (one.W_2, 50**-0.5)):
        for parameter in layer.parameters():
            assert parameter.abs().max() <= bound
        assert layer.weight.abs().max() > 0.99 * bound
    assert "activation='relu'" in repr(one)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: FeedForward(0, 4), ValueError, "d_model: got 0"),
        (lambda: FeedForward(4, 2.5), TypeError, "d_ff: got 2.5"),
        (lambda: FeedForward(4, 4, "tanh"), ValueError, "activation: got 'tanh'"),
        (
            lambda: FeedForward(4, 4)(torch.zeros(2, 3)),
            ValueError,
            "x: got shape (2, 3), wanted (..., d_model=4)",
        ),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
