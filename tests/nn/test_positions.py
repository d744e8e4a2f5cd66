"""Position modules: equal to the reference, in every precision."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from arrays import draw
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from transformer_lib import reference
from transformer_lib.nn.positions import (
    Alibi,
    LearnedPositions,
    RelativeBias,
    RotaryPositions,
    SinusoidalPositions,
)

EXACT = 1e-12


@pytest.mark.parametrize("d_model", [1, 5, 8])
def test_sinusoids_equal_the_reference(d_model: int) -> None:
    x = torch.from_numpy(draw(0, 2, 7, d_model))
    module = SinusoidalPositions(d_model, max_len=20).double()
    np.testing.assert_allclose(
        module(x).numpy(),
        x.numpy() + reference.sinusoidal_positions(7, d_model),
        atol=EXACT,
    )


def test_positions_can_start_later() -> None:
    x = torch.from_numpy(draw(0, 1, 6, 4))
    for module in (
        SinusoidalPositions(4, 10).double(),
        LearnedPositions(4, 10).double(),
    ):
        torch.testing.assert_close(module(x)[:, 2:], module(x[:, 2:], start=2))
    rope = RotaryPositions(4, 10).double()
    torch.testing.assert_close(rope(x)[:, 2:], rope(x[:, 2:], start=2))


def test_learned_positions_are_added_and_learn_where_they_were_used() -> None:
    module = LearnedPositions(4, 10)
    x = torch.zeros(2, 3, 4)
    torch.testing.assert_close(module(x)[0], module.table[:3])
    module(x).sum().backward()
    np.testing.assert_array_equal(
        module.table.grad.numpy(),
        reference.learned_positions_backward(np.ones((2, 3, 4)), 10),
    )


def test_rope_equals_the_reference() -> None:
    x = draw(0, 2, 3, 7, 6)
    module = RotaryPositions(6, max_len=20).double()
    np.testing.assert_allclose(
        module(torch.from_numpy(x), start=5).numpy(),
        reference.rope(x, start=5),
        atol=EXACT,
    )


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), shift=st.integers(1, 40))
def test_scores_after_rope_depend_on_the_distance_only(seed: int, shift: int) -> None:
    q, k = (torch.from_numpy(draw(seed + i, 1, 6)) for i in range(2))
    rope = RotaryPositions(6, max_len=64).double()
    here = rope(q, 3) @ rope(k, 9).T
    there = rope(q, 3 + shift) @ rope(k, 9 + shift).T
    torch.testing.assert_close(here, there, atol=EXACT, rtol=0)


@pytest.mark.parametrize(("n_q", "n_k"), [(4, 4), (1, 5), (3, 5), (0, 2)])
def test_biases_equal_the_reference(n_q: int, n_k: int) -> None:
    np.testing.assert_allclose(
        Alibi(6).double()(n_q, n_k).numpy(), reference.alibi(6, n_q, n_k), atol=EXACT
    )
    module = RelativeBias(num_heads=2, max_distance=3).double()
    nn.init.normal_(module.table)
    np.testing.assert_allclose(
        module(n_q, n_k).detach().numpy(),
        reference.relative_bias(module.table.detach().numpy(), n_q, n_k),
        atol=EXACT,
    )


def test_relative_bias_learns() -> None:
    module = RelativeBias(num_heads=2, max_distance=2).double()
    G = draw(0, 2, 4, 6)
    (module(4, 6) * torch.from_numpy(G)).sum().backward()
    np.testing.assert_allclose(
        module.table.grad.numpy(), reference.relative_bias_backward(G, 5), atol=EXACT
    )


MODULES = [SinusoidalPositions(8, 300), RotaryPositions(8, 300), Alibi(8)]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: type(m).__name__)
def test_tables_are_rounded_once_whatever_precision_came_before(module: Any) -> None:
    """A plain buffer would keep the digits that .half() dropped."""
    module = copy.deepcopy(module)
    exact = module._values()
    for dtype in (torch.float16, torch.float64, torch.bfloat16, torch.float32):
        module.to(dtype)
        kept = torch.promote_types(dtype, torch.float32)
        assert module.table.dtype == kept
        torch.testing.assert_close(module.table, exact.to(kept), atol=0, rtol=0)
    assert not module.state_dict()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_tokens_stay_half_precision(dtype: torch.dtype) -> None:
    x = torch.from_numpy(draw(0, 1, 300, 8)).to(dtype)
    assert LearnedPositions(8, 300).to(dtype)(x).dtype == dtype
    for module in (SinusoidalPositions(8, 300), RotaryPositions(8, 300)):
        wanted = module(x.float()).to(dtype)  # rounded once, at the end
        got = module.to(dtype)(x)
        assert got.dtype == dtype
        torch.testing.assert_close(got, wanted, atol=0, rtol=0)


def test_tables_follow_to_another_device_and_out_of_nothing() -> None:
    with torch.device("meta"):
        module = SinusoidalPositions(4, 6)
    assert module.table.is_meta
    module.to_empty(device="cpu")
    torch.testing.assert_close(
        module.table.double(),
        torch.from_numpy(reference.sinusoidal_positions(6, 4)),
        atol=1e-6,
        rtol=0,
    )


def test_first_values_come_from_the_generator() -> None:
    one, two = (
        LearnedPositions(4, generator=torch.Generator().manual_seed(3)) for _ in "ab"
    )
    torch.testing.assert_close(one.table, two.table, atol=0, rtol=0)
    assert 0.015 < one.table.std() < 0.025


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: SinusoidalPositions(0, 4), ValueError, "d_model: got 0"),
        (lambda: SinusoidalPositions(4, 0), ValueError, "max_len: got 0"),
        (lambda: LearnedPositions(4.0, 4), TypeError, "d_model: got 4.0"),
        (lambda: LearnedPositions(4, -1), ValueError, "max_len: got -1"),
        (lambda: RotaryPositions(5), ValueError, "d_head: got 5, wanted an even"),
        (lambda: Alibi(0), ValueError, "num_heads: got 0"),
        (lambda: RelativeBias(2, 0), ValueError, "max_distance: got 0"),
        (
            lambda: SinusoidalPositions(4, 5)(torch.zeros(1, 6, 4)),
            ValueError,
            "x: got 6 tokens from place 0 on, wanted places below max_len=5",
        ),
        (
            lambda: LearnedPositions(4, 5)(torch.zeros(1, 2, 4), start=4),
            ValueError,
            "x: got 2 tokens from place 4 on",
        ),
        (
            lambda: RotaryPositions(4, 5)(torch.zeros(1, 2, 4), start=-1),
            ValueError,
            "start: got -1",
        ),
        (
            lambda: RotaryPositions(4, 5)(torch.zeros(1, 2, 6)),
            ValueError,
            "x: got width 6, wanted d_head=4",
        ),
        (
            lambda: SinusoidalPositions(4, 5)(torch.zeros(1, 2, 1)),
            ValueError,
            "x: got shape (1, 2, 1), wanted (batch, n, d_model=4)",
        ),
        (
            lambda: LearnedPositions(4, 5)(torch.zeros(1, 2, 1)),
            ValueError,
            "x: got shape (1, 2, 1), wanted (batch, n, d_model=4)",
        ),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
