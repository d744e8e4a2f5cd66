"""Soft lookup in PyTorch: equal to the reference, safe in every precision."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.nn.lookup import SoftLookup, masked_softmax, soft_lookup
from transformer_lib.reference import lookup as reference

EXACT = 1e-12  # float64
SINGLE = 1e-5  # float32
PRECISIONS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
MaskedSoftmax = Callable[[Tensor, Tensor], Tensor]


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def mask_with_a_dead_row(*shape: int) -> Tensor:
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(9)) < 0.6
    mask[..., 0, :] = False
    mask[..., 1:, 0] = True
    return mask


@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float64, EXACT), (torch.float32, SINGLE)]
)
def test_masked_softmax_agrees_with_the_reference(
    dtype: torch.dtype, error: float
) -> None:
    scores, mask = 4 * draw(0, 2, 3, 4, 5), mask_with_a_dead_row(4, 5)
    got = masked_softmax(scores.to(dtype), mask)
    wanted = reference.masked_softmax(scores.numpy(), mask.numpy())
    np.testing.assert_allclose(got.double().numpy(), wanted, atol=error)
    assert torch.equal(masked_softmax(scores), torch.softmax(scores, -1))


def test_gradient_agrees_with_the_reference_and_is_zero_where_hidden() -> None:
    scores, upstream, mask = draw(1, 4, 5), draw(2, 4, 5), mask_with_a_dead_row(4, 5)
    leaf = scores.clone().requires_grad_()
    weights = masked_softmax(leaf, mask)
    weights.backward(upstream)
    assert leaf.grad is not None
    wanted = reference.masked_softmax_backward(
        upstream.numpy(), weights.detach().numpy()
    )
    np.testing.assert_allclose(leaf.grad.numpy(), wanted, atol=EXACT)
    assert (leaf.grad[~mask] == 0).all()


def test_autograd_of_masked_softmax_passes_gradcheck() -> None:
    mask = mask_with_a_dead_row(3, 4)
    leaf = draw(3, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: masked_softmax(s, mask), (leaf,))


# --- properties, each with planted faults ---------------------------------------------


def dead_rows_give_zeros_and_pass_back_zeros(weigh: MaskedSoftmax) -> None:
    for dtype in PRECISIONS:
        scores = draw(4, 3, 4, dtype=dtype).requires_grad_()
        mask = mask_with_a_dead_row(3, 4)
        weights = weigh(scores, mask)
        assert weights.dtype == dtype
        assert (weights[0] == 0).all()
        (weights.float() ** 2).sum().backward()
        assert scores.grad is not None
        assert torch.isfinite(scores.grad).all()
        assert (scores.grad[0] == 0).all()


def garbage_behind_the_mask_reaches_nothing(weigh: MaskedSoftmax) -> None:
    mask = mask_with_a_dead_row(3, 4)
    clean = draw(5, 3, 4)
    for garbage in (math.nan, math.inf, -math.inf, 1e300):
        dirty = clean.masked_fill(~mask, garbage).requires_grad_()
        weights = weigh(dirty, mask)
        torch.testing.assert_close(
            weights, masked_softmax(clean, mask), rtol=0, atol=EXACT
        )
        weights.square().sum().backward()
        assert dirty.grad is not None
        assert torch.isfinite(dirty.grad).all()


def large_scores_keep_their_weights_in_half_precision(weigh: MaskedSoftmax) -> None:
    mask = torch.tensor([[True, True, False]])
    for dtype in (torch.float16, torch.bfloat16):
        scores = torch.tensor([[20_000.0, 20_000.0, 60_000.0]], dtype=dtype)
        wanted = torch.tensor([[0.5, 0.5, 0.0]], dtype=dtype)
        torch.testing.assert_close(weigh(scores, mask), wanted, rtol=0, atol=0)


PROPERTIES: dict[Callable[[MaskedSoftmax], None], dict[str, MaskedSoftmax]] = {
    dead_rows_give_zeros_and_pass_back_zeros: {
        "minus infinity everywhere": lambda s, m: torch.softmax(
            s.masked_fill(~m, -math.inf), -1
        ),
        "large negative number": lambda s, m: torch.softmax(s.masked_fill(~m, -1e4), -1),
    },
    garbage_behind_the_mask_reaches_nothing: {
        "mask added": lambda s, m: masked_softmax(
            s + torch.where(m, 0.0, -math.inf), m | ~m
        ),
        "masked after the softmax": lambda s, m: F.normalize(
            torch.softmax(s, -1) * m, p=1, dim=-1
        ),
        "dead rows left as they are": lambda s, m: torch.softmax(
            s.masked_fill(~m & m.any(-1, keepdim=True), -math.inf), -1
        ).masked_fill(~m, 0.0),
    },
    large_scores_keep_their_weights_in_half_precision: {
        "no maximum": lambda s, m: F.normalize(torch.exp(s) * m, p=1, dim=-1),
        "hidden scores lowered by a constant": lambda s, m: torch.softmax(
            torch.where(m, s, s - 30_000), -1
        ),
    },
}  # fmt: skip


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda f: f.__name__)
def test_masked_softmax(holds: Callable[[MaskedSoftmax], None]) -> None:
    holds(masked_softmax)


@pytest.mark.parametrize(
    ("holds", "fault"),
    [
        pytest.param(holds, fault, id=f"{holds.__name__}: {name}")
        for holds, faults in PROPERTIES.items()
        for name, fault in faults.items()
    ],
)
def test_property_of_masked_softmax_rejects(
    holds: Callable[[MaskedSoftmax], None], fault: MaskedSoftmax
) -> None:
    with pytest.raises(AssertionError):
        holds(fault)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_mask_of_numbers_is_refused_with_the_conversion_to_use(
    dtype: torch.dtype,
) -> None:
    with pytest.raises(TypeError, match=r"mask: got dtype torch.*mask\.bool\(\)"):
        masked_softmax(torch.zeros(2, 3), torch.ones(2, 3, dtype=dtype))


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("shape", [(3, 2), (2,), (4, 2, 3)])
def test_mask_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"mask: got shape .* broadcasts to \(2, 3\)"):
        masked_softmax(torch.zeros(2, 3), torch.ones(shape, dtype=torch.bool))


@pytest.mark.no_shape_hook
def test_a_single_number_is_refused() -> None:
    with pytest.raises(ValueError, match="scores: got a single number"):
        masked_softmax(torch.tensor(1.0), torch.tensor(True))


@pytest.mark.no_shape_hook
def test_masked_softmax_compiles_without_a_break() -> None:
    scores, mask = draw(6, 3, 4), mask_with_a_dead_row(3, 4)
    compiled = torch.compile(masked_softmax, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(scores, mask), masked_softmax(scores, mask))


# --- soft lookup ----------------------------------------------------------------------


@pytest.mark.parametrize("leading", [(), (4,), (2, 4)])
@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float64, EXACT), (torch.float32, SINGLE)]
)
def test_soft_lookup_agrees_with_the_reference(
    leading: tuple[int, ...], dtype: torch.dtype, error: float
) -> None:
    parts = draw(10, *leading, 3), draw(11, 5, 3), draw(12, 5, 2)
    wanted = reference.soft_lookup(*(p.numpy() for p in parts), temperature=0.3)
    got = soft_lookup(*(p.to(dtype) for p in parts), temperature=0.3)
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine.double().numpy(), theirs, atol=error)


def test_gradients_agree_with_the_reference() -> None:
    parts = [
        p.requires_grad_() for p in (draw(13, 4, 3), draw(14, 5, 3), draw(15, 5, 2))
    ]
    upstream = draw(16, 4, 2)
    output, weights = soft_lookup(*parts, temperature=0.3)
    output.backward(upstream)
    wanted = reference.soft_lookup_backward(
        upstream.numpy(),
        *(p.detach().numpy() for p in parts),
        weights.detach().numpy(),
        0.3,
    )
    for part, gradient in zip(parts, wanted, strict=True):
        assert part.grad is not None
        np.testing.assert_allclose(part.grad.numpy(), gradient, atol=1e-10)


def test_module_is_the_function_on_its_own_keys_and_values() -> None:
    table = SoftLookup(num_entries=5, d_key=3, d_value=2, temperature=0.3)
    query = draw(17, 4, 3, dtype=torch.float32)
    output, _ = soft_lookup(query, table.keys, table.values, 0.3)
    assert torch.equal(table(query), output)
    assert [p.shape for p in table.parameters()] == [(5, 3), (5, 2)]
    assert "num_entries=5, d_key=3, d_value=2, temperature=0.3" in repr(table)


def test_one_hot_keys_at_low_temperature_make_an_embedding() -> None:
    embedding = torch.nn.Embedding(6, 4)
    table = SoftLookup(num_entries=6, d_key=6, d_value=4, temperature=1e-3)
    table.load_state_dict({"keys": torch.eye(6), "values": embedding.weight})
    ids = torch.tensor([3, 0, 5])
    torch.testing.assert_close(table(torch.eye(6)[ids]), embedding(ids))


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("query", "keys", "values", "temperature", "message"),
    [
        ((3,), (4, 2), (4, 1), 1.0, r"query: got shape \(3,\), wanted \(..., 2\)"),
        ((2,), (4, 2), (3, 1), 1.0, r"values: got shape \(3, 1\), wanted \(4, d_v\)"),
        ((2,), (0, 2), (0, 1), 1.0, r"keys: got shape \(0, 2\)"),
        ((2,), (4, 2), (4, 1), 0.0, "temperature: got 0.0"),
        ((2,), (4, 2), (4, 1), math.nan, "temperature: got nan"),
    ],
)
def test_soft_lookup_refuses(
    query: tuple[int, ...], keys: tuple[int, ...], values: tuple[int, ...],
    temperature: float, message: str,
) -> None:  # fmt: skip
    with pytest.raises(ValueError, match=message):
        soft_lookup(
            torch.zeros(query), torch.zeros(keys), torch.zeros(values), temperature
        )


def test_module_with_one_entry_of_one_number_gives_it() -> None:
    module = SoftLookup(1, 1, 1)
    assert torch.equal(module(torch.ones(2, 1)), module.values.expand(2, 1))


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("name", ["num_entries", "d_key", "d_value"])
def test_module_refuses_sizes_below_one(name: str) -> None:
    sizes = {"num_entries": 2, "d_key": 2, "d_value": 2, name: 0}
    with pytest.raises(ValueError, match=f"{name}: got 0, wanted 1 or more"):
        SoftLookup(**sizes)
    with pytest.raises(ValueError, match="temperature"):
        SoftLookup(2, 2, 2, temperature=0.0)
