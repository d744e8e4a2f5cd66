"""The one-head module of chapter 3: equal to the reference and to torch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from transformer_lib.nn import SelfAttention
from transformer_lib.reference.attention import self_attention

EXACT = 1e-12


def head(d_model: int = 6, d_head: int | None = 4) -> SelfAttention:
    torch.manual_seed(0)
    return SelfAttention(d_model, d_head).double()


def tokens(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).double()


def matrices(module: SelfAttention) -> list[np.ndarray]:
    layers = (module.query, module.key, module.value)
    return [layer.weight.detach().T.numpy() for layer in layers]


@pytest.mark.parametrize("masked", [False, True])
def test_equals_the_reference(masked: bool) -> None:
    module, x = head(), tokens(2, 5, 6)
    mask = None
    if masked:
        mask = torch.rand(2, 5, 5, generator=torch.Generator().manual_seed(2)) < 0.5
        mask[0, 3] = False
    output, weights = module(x, mask, return_weights=True)
    wanted = self_attention(
        x.numpy(), *matrices(module), mask=None if mask is None else mask.numpy()
    )
    for got, right in zip((output, weights), wanted, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), right, atol=EXACT)
    np.testing.assert_allclose(module(x, mask).detach().numpy(), wanted[0], atol=EXACT)


def test_equals_one_head_of_torch() -> None:
    module, x = head(d_head=None), tokens(2, 5, 6)
    theirs = nn.MultiheadAttention(
        6, 1, bias=False, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        theirs.in_proj_weight.copy_(
            torch.cat([module.query.weight, module.key.weight, module.value.weight])
        )
        theirs.out_proj.weight.copy_(torch.eye(6))
    output, weights = module(x, return_weights=True)
    wanted = theirs(x, x, x)
    torch.testing.assert_close(output, wanted[0], atol=EXACT, rtol=0)
    torch.testing.assert_close(weights, wanted[1], atol=EXACT, rtol=0)


def test_causal_equals_the_triangular_mask() -> None:
    module, x = head(), tokens(2, 5, 6)
    triangle = torch.ones(5, 5, dtype=torch.bool).tril()
    torch.testing.assert_close(
        module(x, is_causal=True), module(x, triangle), atol=EXACT, rtol=0
    )


def test_changing_a_later_token_leaves_earlier_outputs_alone() -> None:
    module, x = head(), tokens(1, 5, 6)
    changed = x.clone()
    changed[:, 3] += 1
    before, after = module(x, is_causal=True), module(changed, is_causal=True)
    torch.testing.assert_close(before[:, :3], after[:, :3], atol=0, rtol=0)
    assert (before[:, 3:] - after[:, 3:]).abs().amax(-1).min() > 1e-4
    # The planted fault: without the mask the change does reach the earlier tokens.
    assert (module(x) - module(changed))[:, :3].abs().amax(-1).min() > 1e-4


def test_the_three_projections_are_three_different_matrices() -> None:
    """Each has its own parameters: changing one leaves the others' product alone."""
    module, x = head(), tokens(1, 5, 6)
    before, weights = module(x, return_weights=True)
    with torch.no_grad():
        module.value.weight.mul_(2)
    after, same = module(x, return_weights=True)
    torch.testing.assert_close(same, weights, atol=0, rtol=0)
    torch.testing.assert_close(after, 2 * before, atol=EXACT, rtol=0)
    with torch.no_grad():
        module.key.weight.zero_()
    _, uniform = module(x, return_weights=True)
    torch.testing.assert_close(uniform, torch.full_like(uniform, 1 / 5))


def test_gradient_agrees_with_differences() -> None:
    module = head()
    x = tokens(1, 3, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: module(z, is_causal=True), (x,))


def test_a_copy_is_independent_and_equal() -> None:
    module, x = head(), tokens(1, 5, 6)
    other = copy.deepcopy(module)
    torch.testing.assert_close(other(x), module(x), atol=0, rtol=0)
    with torch.no_grad():
        other.query.weight.zero_()
    assert (other(x) - module(x)).abs().max() > 1e-4


def test_one_token_attends_to_itself() -> None:
    output, weights = head()(tokens(2, 1, 6), return_weights=True)
    torch.testing.assert_close(weights, torch.ones_like(weights), atol=0, rtol=0)
    assert output.shape == (2, 1, 4)


@pytest.mark.no_shape_hook
def test_wrong_width_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"x: got shape \(2, 5, 7\), wanted \(\.\.\., n"
    ):
        head()(tokens(2, 5, 7))
    with pytest.raises(ValueError, match=r"x: got shape \(6,\)"):
        head()(tokens(6))


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(("sizes", "name"), [((0, 4), "d_model"), ((6, 0), "d_head")])
def test_width_below_one_is_named(sizes: tuple[int, int], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: got 0, wanted 1 or more"):
        SelfAttention(*sizes)
