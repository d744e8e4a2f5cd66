"""The attention function: every path gives the numbers of the reference."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from arrays import draw, some_mask
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from transformer_lib import reference
from transformer_lib.nn.attention import attend, attention, fused_is_faster
from transformer_lib.nn.masks import causal_mask

EXACT = 1e-12
SINGLE = 1e-5
PATHS = pytest.mark.parametrize("return_weights", [False, True])  # fused, written out


def parts(
    seed: int = 0,
    batch: tuple[int, ...] = (2, 3),
    n_q: int = 4,
    n_k: int = 5,
    dtype: torch.dtype = torch.float64,
) -> list[Tensor]:
    shapes = ((n_q, 6), (n_k, 6), (n_k, 7))
    arrays = (draw(seed + i, *batch, *shape) for i, shape in enumerate(shapes))
    return [torch.from_numpy(a).to(dtype) for a in arrays]


def output_of(result: Any) -> Tensor:
    return result[0] if isinstance(result, tuple) else result


def the_mask(kind: str, n_q: int, n_k: int) -> np.ndarray | None:
    if kind == "none":
        return None
    if kind == "padding":
        return some_mask(9, 2, 1, 1, n_k, dead=False)
    mask = some_mask(9, 2, 3, n_q, n_k)
    mask[1, 2] = False  # a head that sees nothing at all
    return mask


MASKS = pytest.mark.parametrize("kind", ["none", "padding", "full"])


@PATHS
@MASKS
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("n_q", "n_k"), [(4, 4), (3, 5), (5, 3), (1, 4), (1, 1)])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, SINGLE)]
)
def test_equals_the_reference(
    return_weights: bool,
    kind: str,
    is_causal: bool,
    n_q: int,
    n_k: int,
    dtype: torch.dtype,
    tolerance: float,
) -> None:
    q, k, v = parts(n_q=n_q, n_k=n_k, dtype=dtype)
    mask = the_mask(kind, n_q, n_k)
    both = mask
    if is_causal:
        causal = reference.causal_mask(n_q, n_k)
        both = causal if mask is None else mask & causal
    wanted = reference.attention(*(t.double().numpy() for t in (q, k, v)), both)
    got = attention(
        *(q, k, v, None if mask is None else torch.from_numpy(mask), is_causal),
        return_weights=return_weights,
    )
    assert isinstance(got, tuple) == return_weights
    np.testing.assert_allclose(output_of(got).numpy(), wanted[0], atol=tolerance)
    if isinstance(got, tuple):
        np.testing.assert_allclose(got[1].numpy(), wanted[1], atol=tolerance)


@MASKS
@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_of_both_paths_equal_the_reference(
    kind: str, is_causal: bool
) -> None:
    mask, G = the_mask(kind, 4, 5), draw(5, 2, 3, 4, 7)
    both = mask
    if is_causal:
        causal = reference.causal_mask(4, 5)
        both = causal if mask is None else mask & causal
    arrays = [t.numpy() for t in parts()]
    _, weights = reference.attention(*arrays, both)
    wanted = reference.attention_backward(G, *arrays, weights)
    for return_weights in (False, True):
        inputs = [t.requires_grad_() for t in parts()]
        output = output_of(
            attention(
                *(*inputs, None if mask is None else torch.from_numpy(mask), is_causal),
                return_weights=return_weights,
            )
        )
        output.backward(torch.from_numpy(G))
        for tensor, right in zip(inputs, wanted, strict=True):
            np.testing.assert_allclose(tensor.grad.numpy(), right, atol=EXACT)


@PATHS
@pytest.mark.parametrize("masked", [False, True])
def test_a_bias_is_added_to_the_scores_and_learns(
    return_weights: bool, masked: bool
) -> None:
    q, k, v = parts()
    bias, G = draw(5, 3, 4, 5), draw(6, 2, 3, 4, 7)
    mask = the_mask("full", 4, 5) if masked else None
    arrays = [t.numpy() for t in (q, k, v)]
    wanted, weights = reference.biased_attention(*arrays, bias, mask)
    *_, d_bias = reference.biased_attention_backward(G, *arrays, weights)
    b = torch.from_numpy(bias).requires_grad_()
    m = None if mask is None else torch.from_numpy(mask)
    got = output_of(attention(q, k, v, m, return_weights=return_weights, bias=b))
    np.testing.assert_allclose(got.detach().numpy(), wanted, atol=EXACT)
    got.backward(torch.from_numpy(G))
    np.testing.assert_allclose(b.grad.numpy(), d_bias.sum(axis=0), atol=EXACT)


@PATHS
@pytest.mark.parametrize("n_queries", [1, 2, 4])
def test_the_last_query_sees_the_last_key(return_weights: bool, n_queries: int) -> None:
    """torch's own flag aligns the first query with the first key instead."""
    q, k, v = parts(n_q=5, n_k=5)
    whole = attention(q, k, v, is_causal=True)
    last = attention(
        q[..., -n_queries:, :], k, v, is_causal=True, return_weights=return_weights
    )
    torch.testing.assert_close(
        output_of(last), whole[..., -n_queries:, :], atol=EXACT, rtol=0
    )
    if n_queries > 1:
        theirs = F.scaled_dot_product_attention(
            q[..., -n_queries:, :], k, v, is_causal=True
        )
        assert (theirs - output_of(last)).abs().max() > 1e-3


def test_causal_attention_builds_no_mask_when_the_flag_says_it() -> None:
    q, k, v = parts(n_k=4)
    with mock.patch.object(
        F, "scaled_dot_product_attention", wraps=F.scaled_dot_product_attention
    ) as kernel:
        attention(q, k, v, is_causal=True)
        attention(q[..., :1, :], k, v, is_causal=True)
    for call, flag in zip(kernel.call_args_list, (True, False), strict=True):
        *_, mask, _dropout, is_causal = call.args
        assert mask is None
        assert is_causal is flag


def test_the_one_rule_of_the_dispatch() -> None:
    def q(dtype: torch.dtype, n: int, grad: bool) -> Tensor:
        return torch.zeros(1, 1, n, 4, dtype=dtype, requires_grad=grad)

    bf16, fp32 = torch.bfloat16, torch.float32
    for dtype, n, grad, fused in (
        (fp32, 16, True, True),
        (bf16, 16, False, True),
        (bf16, 16, True, False),
        (bf16, 599, True, False),
        (bf16, 600, True, True),
    ):
        x = q(dtype, n, grad)
        assert fused_is_faster(x, x) is fused, (dtype, n, grad)
    meta = torch.zeros(1, 1, 16, 4, dtype=bf16, device="meta", requires_grad=True)
    assert fused_is_faster(meta, meta)  # the exception is the CPU's alone
    some, none = torch.zeros(2, 4), torch.zeros(0, 4)
    assert fused_is_faster(some, some)
    assert not fused_is_faster(some, none)
    assert not fused_is_faster(none, some)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_training_path_equals_the_fused_one(
    dtype: torch.dtype, is_causal: bool
) -> None:
    q, k, v = parts(n_k=4, dtype=dtype)
    mask = torch.from_numpy(some_mask(3, 4, 4))
    fused = attention(q, k, v, mask, is_causal)
    plain = attention(q.clone().requires_grad_(), k, v, mask, is_causal)
    torch.testing.assert_close(plain, fused, atol=2e-2, rtol=2e-2)


@PATHS
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16]
)
@pytest.mark.parametrize("is_causal", [False, True])
def test_dead_rows_give_zeros_and_zero_gradients(
    return_weights: bool, dtype: torch.dtype, is_causal: bool
) -> None:
    q, k, v = (t.requires_grad_() for t in parts(dtype=dtype))
    mask = torch.ones(2, 1, 4, 5, dtype=torch.bool)
    mask[0] = False  # a sentence of nothing but padding
    mask[1, :, 2] = False
    got = attention(q, k, v, mask, is_causal, return_weights=return_weights)
    output = output_of(got)
    assert not output[0].any()
    assert not output[1, :, 2].any()
    assert output[1, :, 3].abs().min() > 0
    if isinstance(got, tuple):
        assert not got[1][0].any()
        assert not got[1][1, :, 2].any()
    output.sum().backward()
    assert not q.grad[0].any()
    assert not q.grad[1, :, 2].any()
    assert not k.grad[0].any()
    assert not v.grad[0].any()
    assert all(t.grad.isfinite().all() for t in (q, k, v))
    assert v.grad[1].abs().sum() > 0


@PATHS
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scores_beyond_half_precision_do_not_overflow(
    return_weights: bool, dtype: torch.dtype
) -> None:
    q = torch.full((1, 1, 2, 64), 40.0, dtype=dtype)  # q k is 102,400; float16 ends at
    k = q.clone()  # 65,504, and the score after the division is 12,800
    v = torch.tensor([[1.0], [3.0]], dtype=dtype).view(1, 1, 2, 1)
    got = output_of(attention(q, k, v, return_weights=return_weights))
    torch.testing.assert_close(got.float(), torch.full((1, 1, 2, 1), 2.0))


@PATHS
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_weights_sum_to_one_so_outputs_lie_between_values(
    return_weights: bool, seed: int
) -> None:
    q, k, v = parts(seed)
    got = attention(q, k, v, return_weights=return_weights)
    output = output_of(got)
    lowest, highest = v.amin(-2, keepdim=True), v.amax(-2, keepdim=True)
    assert ((output >= lowest - EXACT) & (output <= highest + EXACT)).all()
    if isinstance(got, tuple):
        torch.testing.assert_close(
            got[1].sum(-1), torch.ones(2, 3, 4).double(), atol=EXACT, rtol=0
        )


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (2, 1, 3)])
@PATHS
def test_any_number_of_leading_axes(
    batch: tuple[int, ...], return_weights: bool
) -> None:
    q, k, v = parts(batch=batch)
    mask = some_mask(3, 4, 5)
    got = attention(q, k, v, torch.from_numpy(mask), return_weights=return_weights)
    wanted, _ = reference.attention(*(t.numpy() for t in (q, k, v)), mask)
    np.testing.assert_allclose(output_of(got).numpy(), wanted, atol=EXACT)


@PATHS
def test_inputs_that_are_not_contiguous(return_weights: bool) -> None:
    q, k, v = (t.transpose(-1, -2).contiguous().transpose(-1, -2) for t in parts())
    assert not q.is_contiguous()
    got = output_of(attention(q, k, v, return_weights=return_weights))
    torch.testing.assert_close(got, output_of(attention(*parts())), atol=EXACT, rtol=0)


@PATHS
@pytest.mark.parametrize("is_causal", [False, True])
def test_nothing_to_attend_with_or_to(return_weights: bool, is_causal: bool) -> None:
    empty_batch = attention(
        *parts(batch=(0, 3)), is_causal=is_causal, return_weights=return_weights
    )
    assert output_of(empty_batch).shape == (0, 3, 4, 7)
    no_keys = attention(
        *parts(n_k=0), is_causal=is_causal, return_weights=return_weights
    )
    assert output_of(no_keys).shape == (2, 3, 4, 7)
    assert not output_of(no_keys).any()
    no_queries = attention(
        *parts(n_q=0), is_causal=is_causal, return_weights=return_weights
    )
    assert output_of(no_queries).shape == (2, 3, 0, 7)


def test_dropout_acts_on_the_weights_and_keeps_their_mean() -> None:
    torch.manual_seed(0)
    q, k, v = parts(batch=(1, 1), n_q=4000, n_k=3)
    v = torch.ones_like(v)
    q = q * 0
    output, weights = attend(q, k, v, return_weights=True, dropout=0.5)
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / 3))
    assert output.mean().item() == pytest.approx(1.0, abs=0.03)
    # Each of three equal weights is kept or not, and doubled: multiples of 2/3.
    assert set((output * 1.5).round().unique().tolist()) == {0.0, 1.0, 2.0, 3.0}
    fused, _ = attend(q, k, v, dropout=0.5)
    assert fused.mean().item() == pytest.approx(1.0, abs=0.03)
    assert fused.std() > 0.3


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("is_causal", [False, True])
def test_compiles_in_one_piece(is_causal: bool) -> None:
    compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
    q, k, v = parts()
    mask = torch.from_numpy(some_mask(3, 4, 5))
    for arguments in ((q, k, v, None, is_causal), (q, k, v, mask, is_causal)):
        torch.testing.assert_close(
            compiled(*arguments), attention(*arguments), atol=EXACT, rtol=0
        )


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"q": torch.zeros(6)}, ValueError, "q: got shape (6,)"),
        ({"k": torch.zeros(3, 5, 6)}, ValueError, "k: got shape (3, 5, 6)"),
        ({"k": torch.zeros(2, 3, 5, 8)}, ValueError, "k: got width 8, wanted that of"),
        ({"v": torch.zeros(2, 3, 4, 6)}, ValueError, "v: got 4 values, wanted 5"),
        ({"v": torch.zeros(2, 3, 5, 6).double()}, TypeError, "v: got torch.float64"),
        (
            {"q": torch.zeros(2, 3, 4, 6, dtype=torch.int64)},
            TypeError,
            "q: got torch.int64",
        ),
        (
            {"mask": torch.ones(4, 5)},
            TypeError,
            "mask: got torch.float32, wanted torch",
        ),
        (
            {"mask": torch.ones(2, 5, dtype=torch.bool)},
            ValueError,
            "mask: got shape (2, 5), wanted (4, 5) or one",
        ),
        ({"bias": torch.zeros(2, 5)}, ValueError, "bias: got shape (2, 5)"),
    ],
)
def test_bad_input_is_named(
    change: dict[str, Any], error: type[Exception], words: str
) -> None:
    names = ("q", "k", "v")
    arguments = dict(zip(names, parts(dtype=torch.float32), strict=True)) | change
    with pytest.raises(error) as caught:
        attention(**arguments)
    assert words in str(caught.value)


def test_masks_of_the_library_fit_its_attention() -> None:
    q, k, v = parts(n_k=4)
    torch.testing.assert_close(
        attention(q, k, v, causal_mask(4)),
        attention(q, k, v, is_causal=True),
        atol=EXACT,
        rtol=0,
    )
