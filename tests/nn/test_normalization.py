"""LayerNorm and the residual sub-layer: equal to the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from arrays import draw
from torch import Tensor, nn

from transformer_lib import reference
from transformer_lib.nn.normalization import LayerNorm, ResidualSublayer

EXACT = 1e-12
ORDERS = pytest.mark.parametrize("norm_first", [False, True])


def perturbed(module: nn.Module) -> Any:
    """Move gamma and beta off 1 and 0, or a missing normalisation goes unseen."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return module


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_layer_norm_equals_the_reference_and_its_gradients(eps: float) -> None:
    module = perturbed(LayerNorm(5, eps).double())
    gamma, beta = module.reference_parameters()
    X, G = draw(0, 2, 3, 5), draw(1, 2, 3, 5)
    x = torch.from_numpy(X).requires_grad_()
    output = module(x)
    np.testing.assert_allclose(
        output.detach().numpy(), reference.layer_norm(X, gamma, beta, eps), atol=EXACT
    )
    output.backward(torch.from_numpy(G))
    wanted = reference.layer_norm_backward(G, X, gamma, eps)
    for got, right in zip(
        (x.grad, module.gamma.grad, module.beta.grad), wanted, strict=True
    ):
        np.testing.assert_allclose(got.numpy(), right, atol=EXACT)


@ORDERS
def test_residual_equals_the_reference(norm_first: bool) -> None:
    module = perturbed(ResidualSublayer(4, norm_first=norm_first, eps=0.1).double())
    X, W = draw(0, 2, 3, 4), draw(1, 4, 4)
    residual = reference.residual_pre if norm_first else reference.residual_post
    wanted = residual(
        X, lambda Y: np.tanh(Y @ W), *module.norm.reference_parameters(), 0.1
    )
    got = module(torch.from_numpy(X), lambda y: torch.tanh(y @ torch.from_numpy(W)))
    np.testing.assert_allclose(got.detach().numpy(), wanted, atol=EXACT)


@ORDERS
def test_dropout_falls_on_the_sublayer_and_never_on_the_skip(norm_first: bool) -> None:
    torch.manual_seed(0)
    module = ResidualSublayer(4, dropout=0.5, norm_first=norm_first)
    x = torch.randn(1, 4000, 4)

    def ones(y: Tensor) -> Tensor:
        return torch.ones_like(y)

    added = module(x, ones) - x if norm_first else None
    if added is not None:  # each entry is dropped, or doubled to keep the mean
        assert set(added.round(decimals=3).unique().tolist()) == {0.0, 2.0}
        assert added.mean().item() == pytest.approx(1.0, abs=0.03)
    assert not torch.equal(module(x, ones), module(x, ones))
    module.eval()
    torch.testing.assert_close(
        module(x, ones), x + 1 if norm_first else module.norm(x + 1)
    )


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: LayerNorm(0), ValueError, "d_model: got 0"),
        (lambda: LayerNorm(4, eps=0.0), ValueError, "eps: got 0.0"),
        (
            lambda: LayerNorm(4)(torch.zeros(2, 1)),
            ValueError,
            "x: got shape (2, 1), wanted (..., d_model=4)",
        ),
        (lambda: ResidualSublayer(4, dropout=1.0), ValueError, "dropout: got 1.0"),
        (lambda: ResidualSublayer(4, dropout=-0.1), ValueError, "dropout: got -0.1"),
        (
            lambda: ResidualSublayer(4)(torch.zeros(1, 2, 4), lambda y: y[:, :1]),
            ValueError,
            "sublayer: its output has shape (1, 1, 4), wanted (1, 2, 4)",
        ),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_repr_says_size_and_order() -> None:
    assert "d_model=4, eps=0.1" in repr(LayerNorm(4, 0.1))
    assert "norm_first=True" in repr(ResidualSublayer(4, norm_first=True))
