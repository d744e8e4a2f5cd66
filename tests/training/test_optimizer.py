"""The optimiser: fused, and equal to torch's; bfloat16 weights with a float32 copy."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from transformer_lib.training import MasterAdamW, adamw


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


def train(model: nn.Module, optimizer: Any, steps: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(8, 5, generator=generator).to(dtype)
        optimizer.zero_grad()
        (model(x) ** 2).sum().backward()
        optimizer.step()


def test_it_is_fused_and_equal_to_torchs_loop() -> None:
    ours, theirs = network(), network()
    fast = adamw(ours, lr=0.01, weight_decay=0.1)
    assert fast.param_groups[0]["fused"] is True
    slow = torch.optim.AdamW(
        theirs.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1
    )
    train(ours, fast, 5, torch.float32)
    train(theirs, slow, 5, torch.float32)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_frozen_parameters_stay_as_they_are() -> None:
    for bf16 in (False, True):
        model = network()
        model[0].weight.requires_grad_(False)
        optimizer = adamw(model, lr=0.01, bf16_weights=bf16)
        before = model[0].weight.clone()
        train(model, optimizer, 2, model[0].weight.dtype)
        torch.testing.assert_close(model[0].weight, before, atol=0, rtol=0)


def test_steps_too_small_for_bfloat16_are_not_lost() -> None:
    """Planted beside it: a plain bfloat16 AdamW, whose weights do not move."""
    ours, plain = network(), network().to(torch.bfloat16)
    optimizer = adamw(ours, lr=2e-5, bf16_weights=True)
    assert all(p.dtype == torch.bfloat16 for p in ours.parameters())
    start = [p.clone() for p in plain.parameters()]
    lost = torch.optim.AdamW(plain.parameters(), lr=2e-5, weight_decay=0.0)
    train(ours, optimizer, 100, torch.bfloat16)
    train(plain, lost, 100, torch.bfloat16)
    moved = [
        (a != b).float().mean().item()
        for a, b in zip(ours.parameters(), start, strict=True)
    ]
    stuck = [
        (a != b).float().mean().item()
        for a, b in zip(plain.parameters(), start, strict=True)
    ]
    assert min(moved) > max(stuck)
    assert sum(moved) > 2 * sum(stuck)


def test_the_model_holds_the_rounded_copy_and_learns_as_in_full_precision() -> None:
    half, full = network(), network()
    train(half, adamw(half, lr=0.01, bf16_weights=True), 20, torch.bfloat16)
    train(full, adamw(full, lr=0.01), 20, torch.float32)
    for a, b in zip(half.parameters(), full.parameters(), strict=True):
        torch.testing.assert_close(a.float(), b, atol=0.03, rtol=0.1)


def test_training_goes_on_where_it_stopped() -> None:
    model = network()
    optimizer = adamw(model, lr=0.01, bf16_weights=True)
    train(model, optimizer, 3, torch.bfloat16)
    kept_model = copy.deepcopy(model.state_dict())
    kept = copy.deepcopy(optimizer.state_dict())
    train(model, optimizer, 3, torch.bfloat16)
    other = network(seed=5)
    again = adamw(other, lr=0.5, bf16_weights=True)
    other.load_state_dict(kept_model)
    again.load_state_dict(kept)
    train(other, again, 3, torch.bfloat16)
    for a, b in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=0, rtol=0)


def test_a_parameter_without_gradient_is_not_moved_by_an_old_one() -> None:
    model = network()
    optimizer = MasterAdamW(model, lr=0.1, betas=(0.0, 0.0), weight_decay=0.0)
    train(model, optimizer, 1, torch.bfloat16)
    optimizer.zero_grad()
    before = [p.clone() for p in model.parameters()]
    optimizer.step()
    for parameter, kept in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter, kept, atol=0, rtol=0)
    assert model[0].weight.grad is None
    model[0].weight.grad = torch.ones_like(model[0].weight)
    optimizer.zero_grad(set_to_none=False)
    assert not model[0].weight.grad.any()


def test_schedules_act_on_it() -> None:
    model = network()
    optimizer = adamw(model, lr=1.0, bf16_weights=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0)
    before = [p.clone() for p in model.parameters()]
    train(model, optimizer, 1, torch.bfloat16)
    schedule.step()
    for parameter, kept in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter, kept, atol=0, rtol=0)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lr": -1.0}, "lr: got -1.0"),
        ({"lr": float("nan")}, "lr: got nan"),
        ({"eps": -1e-9}, "eps: got -1e-09"),
        ({"weight_decay": -0.1}, "weight_decay: got -0.1"),
        ({"betas": (0.9, 1.0)}, "betas: got (0.9, 1.0)"),
        ({"model": nn.ReLU()}, "model: got no parameter"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match="got") as caught:
        adamw(**{"model": network(), **change})
    assert words in str(caught.value)
    with pytest.raises(ValueError, match="closure: got one"):
        MasterAdamW(network(), lr=0.1).step(lambda: 0.0)
