"""The multi-head module: equal to the reference and to torch.nn, with and without cache."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from arrays import draw, leaves, some_mask
from hypothesis import given, settings
from hypothesis import strategies as st
from porting import torch_attention
from torch import Tensor, nn

from transformer_lib import reference
from transformer_lib.nn.multi_head import (
    KeysAndValues,
    KeyValueCache,
    MultiHeadAttention,
    merge_heads,
    split_heads,
)
from transformer_lib.nn.positions import Alibi, RelativeBias, RotaryPositions

EXACT = 1e-12
D_MODEL, HEADS = 12, 3
PATHS = pytest.mark.parametrize("return_weights", [False, True])


def module(positions: nn.Module | None = None, bias: bool = True) -> Any:
    generator = torch.Generator().manual_seed(0)
    return MultiHeadAttention(
        D_MODEL, HEADS, bias, positions=positions, generator=generator
    ).double()


def tokens(seed: int, n: int = 5, batch: int = 2) -> Tensor:
    return torch.from_numpy(draw(seed, batch, n, D_MODEL))


def output_of(result: Any) -> Tensor:
    return result[0] if isinstance(result, tuple) else result


def test_splitting_and_merging_equal_the_reference() -> None:
    x = tokens(0)
    heads = split_heads(x, HEADS)
    np.testing.assert_array_equal(
        heads.numpy(), reference.split_heads(x.numpy(), HEADS)
    )
    assert heads.data_ptr() == x.data_ptr()  # a view
    np.testing.assert_array_equal(merge_heads(heads).numpy(), x.numpy())


@PATHS
@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, 1e-5)]
)
def test_equals_the_reference(
    return_weights: bool,
    cross: bool,
    masked: bool,
    bias: bool,
    dtype: torch.dtype,
    tolerance: float,
) -> None:
    ours = module(bias=bias).to(dtype)
    x, source = tokens(0, 4).to(dtype), tokens(1, 5 if cross else 4).to(dtype)
    mask = some_mask(2, 2, HEADS, 4, source.shape[1]) if masked else None
    m = None if mask is None else torch.from_numpy(mask)
    got = ours(x, source if cross else None, m, return_weights=return_weights)
    wanted = reference.multi_head_attention(
        x.double().numpy(),
        (source if cross else x).double().numpy(),
        ours.reference_parameters(),
        HEADS,
        mask,
    )
    np.testing.assert_allclose(
        output_of(got).detach().numpy(), wanted[0], atol=tolerance
    )
    assert isinstance(got, tuple) == return_weights
    if isinstance(got, tuple):
        np.testing.assert_allclose(got[1].detach().numpy(), wanted[1], atol=tolerance)


@pytest.mark.parametrize("cross", [False, True])
def test_gradients_equal_the_reference(cross: bool) -> None:
    ours = module()
    x, source = tokens(0, 4).requires_grad_(), tokens(1, 5).requires_grad_()
    G, mask = draw(2, 2, 4, D_MODEL), some_mask(3, 2, 1, 4, 5 if cross else 4)
    ours(x, source if cross else None, torch.from_numpy(mask)).backward(
        torch.from_numpy(G)
    )
    X = x.detach().numpy()
    S = source.detach().numpy() if cross else X
    parameters = ours.reference_parameters()
    _, weights = reference.multi_head_attention(X, S, parameters, HEADS, mask)
    dX, dS, wanted = reference.multi_head_attention_backward(
        G, X, S, parameters, HEADS, weights
    )
    gradients = copy.deepcopy(ours)
    for mine, its in zip(gradients.parameters(), ours.parameters(), strict=True):
        mine.data = its.grad
    for got, right in zip(
        leaves(gradients.reference_parameters()), leaves(wanted), strict=True
    ):
        np.testing.assert_allclose(got, right, atol=EXACT)
    np.testing.assert_allclose(x.grad.numpy(), dX if cross else dX + dS, atol=EXACT)
    if cross:
        np.testing.assert_allclose(source.grad.numpy(), dS, atol=EXACT)


@PATHS
@pytest.mark.parametrize("masked", [False, True])
def test_equals_torch_with_its_weights(return_weights: bool, masked: bool) -> None:
    ours, x, source = module(), tokens(0, 4), tokens(1, 5)
    theirs = torch_attention(ours.reference_parameters(), HEADS)
    mask = (
        torch.from_numpy(some_mask(2, 2, HEADS, 4, 5, dead=False)) if masked else None
    )
    wanted, weights = theirs(
        *(x, source, source),
        attn_mask=None if mask is None else ~mask.flatten(0, 1),
        average_attn_weights=False,
    )
    got = ours(x, source, mask, return_weights=return_weights)
    torch.testing.assert_close(output_of(got), wanted, atol=EXACT, rtol=0)
    if isinstance(got, tuple):
        torch.testing.assert_close(got[1], weights, atol=EXACT, rtol=0)


@PATHS
def test_padding_and_causality_together_equal_torch(return_weights: bool) -> None:
    ours, x = module(), tokens(0)
    theirs = torch_attention(ours.reference_parameters(), HEADS)
    padding = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    wanted, _ = theirs(
        *(x, x, x),
        key_padding_mask=~padding,
        attn_mask=~torch.ones(5, 5, dtype=torch.bool).tril(),
    )
    got = ours(
        x,
        mask=padding[:, None, None, :],
        is_causal=True,
        return_weights=return_weights,
    )
    torch.testing.assert_close(output_of(got), wanted, atol=EXACT, rtol=0)


@pytest.mark.parametrize("kind", ["rope", "alibi", "relative"])
@pytest.mark.parametrize("is_causal", [False, True])
@PATHS
def test_positions_act_between_queries_and_keys(
    kind: str, is_causal: bool, return_weights: bool
) -> None:
    positions: Any = {
        "rope": RotaryPositions(D_MODEL // HEADS, 16),
        "alibi": Alibi(HEADS),
        "relative": RelativeBias(HEADS, 3),
    }[kind].double()
    if kind == "relative":
        nn.init.normal_(positions.table)
    ours, x = module(positions), tokens(0)
    p, X = ours.reference_parameters(), x.numpy()
    Q, K, V = (
        reference.split_heads(X @ W + b, HEADS)
        for W, b in ((p.W_Q, p.b_Q), (p.W_K, p.b_K), (p.W_V, p.b_V))
    )
    bias = np.zeros((1, 5, 5))
    if kind == "rope":
        Q, K = reference.rope(Q), reference.rope(K)
    elif kind == "alibi":
        bias = reference.alibi(HEADS, 5, 5)
    else:
        bias = reference.relative_bias(positions.table.detach().numpy(), 5, 5)
    mask = reference.causal_mask(5) if is_causal else None
    heads, _ = reference.biased_attention(Q, K, V, bias, mask)
    wanted = reference.merge_heads(heads) @ p.W_O + p.b_O
    got = output_of(ours(x, is_causal=is_causal, return_weights=return_weights))
    np.testing.assert_allclose(got.detach().numpy(), wanted, atol=EXACT)


@pytest.mark.parametrize("kind", ["none", "rope", "alibi", "relative"])
@pytest.mark.parametrize("split", [(1, 1, 1, 1, 1), (3, 2), (2, 1, 2), (5,)])
@PATHS
def test_a_cache_gives_what_the_whole_sequence_gives(
    kind: str, split: tuple[int, ...], return_weights: bool
) -> None:
    positions: Any = {
        "none": None,
        "rope": RotaryPositions(D_MODEL // HEADS, 16),
        "alibi": Alibi(HEADS),
        "relative": RelativeBias(HEADS, 3),
    }[kind]
    if kind == "relative":
        nn.init.normal_(positions.table)
    ours, x = module(positions), tokens(0)
    whole = ours(x, is_causal=True)
    cache = KeyValueCache(2, HEADS, 8, D_MODEL // HEADS, like=x)
    steps = [
        output_of(
            ours(part, is_causal=True, return_weights=return_weights, cache=cache)
        )
        for part in x.split(split, dim=1)
    ]
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=EXACT, rtol=0)
    assert cache.length == 5


def test_a_cache_follows_its_rows() -> None:
    ours, x = module(), tokens(0, batch=3)
    rows = torch.tensor([2, 2, 0, 1])
    cache = KeyValueCache(3, HEADS, 8, D_MODEL // HEADS, like=x)
    ours(x[:, :4], is_causal=True, cache=cache)
    cache.select(rows)
    step = ours(x[rows, 4:], is_causal=True, cache=cache)
    torch.testing.assert_close(
        step, ours(x, is_causal=True)[rows, 4:], atol=EXACT, rtol=0
    )
    cache.select(torch.tensor([1, 0, 3, 2]))  # as many rows as before: in place
    swapped = ours(x[rows][[1, 0, 3, 2], 4:], is_causal=True, cache=cache)
    assert swapped.shape == (4, 1, D_MODEL)


def test_a_source_projected_beforehand_gives_the_same() -> None:
    ours, x, source = module(), tokens(0, 4), tokens(1, 5)
    prepared = ours.keys_and_values(source)
    assert isinstance(prepared, KeysAndValues)
    torch.testing.assert_close(ours(x, prepared), ours(x, source), atol=EXACT, rtol=0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), place=st.integers(1, 4))
def test_changing_a_later_token_leaves_earlier_outputs_alone(
    seed: int, place: int
) -> None:
    ours, x = module(), tokens(seed)
    changed = x.clone()
    changed[:, place:] += 1.0
    before, after = (ours(y, is_causal=True) for y in (x, changed))
    torch.testing.assert_close(before[:, :place], after[:, :place], atol=0, rtol=0)
    assert (before - after)[:, place:].abs().amax() > 1e-4


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), order=st.permutations(range(5)))
def test_reordering_the_tokens_reorders_the_outputs(
    seed: int, order: list[int]
) -> None:
    ours, x = module(), tokens(seed)
    torch.testing.assert_close(ours(x[:, order]), ours(x)[:, order], atol=EXACT, rtol=0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_sentences_of_a_batch_do_not_meet(seed: int) -> None:
    ours, x = module(), tokens(seed, batch=3)
    together = ours(x, is_causal=True)
    for i in range(3):
        alone = ours(x[i : i + 1], is_causal=True)
        torch.testing.assert_close(together[i : i + 1], alone, atol=EXACT, rtol=0)


@PATHS
def test_a_dead_row_gives_the_output_bias_and_no_gradient(return_weights: bool) -> None:
    ours, x, source = module(), tokens(0, 4), tokens(1, 5).requires_grad_()
    mask = torch.zeros(2, 1, 1, 5, dtype=torch.bool)
    got = output_of(ours(x, source, mask, return_weights=return_weights))
    torch.testing.assert_close(got, ours.W_O.bias.expand_as(got), atol=0, rtol=0)
    got.sum().backward()
    assert not source.grad.any()
    assert not ours.W_Q.weight.grad.any()


@pytest.mark.parametrize(("batch", "n"), [(0, 3), (2, 1), (1, 0)])
def test_small_and_empty_batches(batch: int, n: int) -> None:
    assert module()(tokens(0, n, batch), is_causal=True).shape == (batch, n, D_MODEL)


def test_inputs_that_are_not_contiguous() -> None:
    ours, x = module(), tokens(0)
    turned = x.transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(ours(turned), ours(x), atol=EXACT, rtol=0)


def test_attention_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    ours, x = MultiHeadAttention(D_MODEL, HEADS, dropout=0.5), tokens(0).float()
    assert not torch.equal(ours(x), ours(x))
    ours.eval()
    torch.testing.assert_close(ours(x), ours(x), atol=0, rtol=0)
    assert "dropout=0.5" in repr(ours)


@PATHS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", ["autocast", "cast"])
@pytest.mark.parametrize("kind", ["none", "rope", "alibi"])
def test_half_precision_stays_near_full_precision(
    return_weights: bool, dtype: torch.dtype, mode: str, kind: str
) -> None:
    positions = {
        "none": None,
        "rope": RotaryPositions(D_MODEL // HEADS, 16),
        "alibi": Alibi(HEADS),
    }[kind]
    ours, x = module(positions).float(), tokens(0).float()
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    wanted = ours(x, mask=mask, is_causal=True)
    if mode == "cast":
        half = copy.deepcopy(ours).to(dtype)
        got = half(
            x.to(dtype), mask=mask, is_causal=True, return_weights=return_weights
        )
    else:
        with torch.autocast("cpu", dtype):
            got = ours(x, mask=mask, is_causal=True, return_weights=return_weights)
    output = output_of(got)
    assert output.dtype == dtype
    torch.testing.assert_close(output.float(), wanted, atol=3e-2, rtol=3e-2)
    output.float().sum().backward()


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("kind", ["none", "rope", "relative"])
def test_compiles_in_one_piece(kind: str) -> None:
    positions = {
        "none": None,
        "rope": RotaryPositions(D_MODEL // HEADS, 16),
        "relative": RelativeBias(HEADS, 3),
    }[kind]
    ours, x = module(positions), tokens(0)
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(
        compiled(x, is_causal=True), ours(x, is_causal=True), atol=EXACT, rtol=0
    )


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda m, x: MultiHeadAttention(10, 4),
            ValueError,
            "d_model=10 is not divisible by num_heads=4",
        ),
        (lambda m, x: MultiHeadAttention(12, 0), ValueError, "num_heads: got 0"),
        (lambda m, x: MultiHeadAttention(12, 3, dropout=2.0), ValueError, "dropout"),
        (lambda m, x: m(x[0]), ValueError, "x: got shape (5, 12), wanted (batch, n"),
        (lambda m, x: m(x[..., :6]), ValueError, "x: got shape (2, 5, 6)"),
        (lambda m, x: m(x.long()), TypeError, "x: got torch.int64"),
        (lambda m, x: m(x, x[..., :6]), ValueError, "source: got shape (2, 5, 6)"),
        (
            lambda m, x: m(x, mask=torch.ones(2, 5, dtype=torch.bool)),
            ValueError,
            "mask: got shape (2, 5)",
        ),
        (
            lambda m, x: m(x, mask=torch.ones(5, 5)),
            TypeError,
            "mask: got torch.float32",
        ),
        (
            lambda m, x: m(x, x, cache=KeyValueCache(2, 3, 9, 4, x)),
            ValueError,
            "source: got one, wanted None, since this call has a cache",
        ),
        (
            lambda m, x: module(Alibi(3))(x, x),
            ValueError,
            "source: got one, wanted None, since this call has positions",
        ),
        (
            lambda m, x: m(x, cache=KeyValueCache(2, 3, 4, 4, x)),
            ValueError,
            "keys: got token 5, but the cache has room for max_len=4",
        ),
        (
            lambda m, x: m(x, cache=KeyValueCache(1, 3, 9, 4, x)),
            ValueError,
            "keys: got shape (2, 3, 5, 4), wanted (1, 3, 'n', 4)",
        ),
        (lambda m, x: split_heads(x, 5), ValueError, "d_model=12 is not divisible"),
        (lambda m, x: split_heads(x[0], 3), ValueError, "x: got shape (5, 12)"),
        (lambda m, x: merge_heads(x), ValueError, "heads: got shape (2, 5, 12)"),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call(module(), tokens(0))
    assert words in str(caught.value)
