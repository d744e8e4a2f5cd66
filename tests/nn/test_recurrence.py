"""The recurrent modules against the reference, torch.nn, and their promises."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib import reference as ref
from transformer_lib.nn import LSTM, RNN

KINDS = pytest.mark.parametrize("kind", ["rnn", "lstm"])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make(kind: str, d_in: int, d: int, **options: Any) -> Any:
    options.setdefault("generator", generator())
    return {"rnn": RNN, "lstm": LSTM}[kind](d_in, d, **options)


def arrays(module: Any) -> dict[str, np.ndarray]:
    return {
        k: getattr(module, k).detach().double().numpy() for k in ("W_x", "W_h", "b")
    }


def start(
    kind: str, batch: int, d: int, dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    count = 1 if kind == "rnn" else 2
    return tuple(
        torch.randn(batch, d, dtype=dtype, generator=generator(k)) for k in range(count)
    )


@KINDS
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)]
)
def test_module_equals_the_reference(
    kind: str, dtype: torch.dtype, tolerance: float
) -> None:
    module = make(kind, 3, 5, dtype=dtype)
    X = torch.randn(2, 7, 3, dtype=dtype, generator=generator(3))
    state = start(kind, 2, 5, dtype)
    H, _ = module(X, state[0] if kind == "rnn" else state)
    for row in range(2):
        begin = [s[row].double().numpy() for s in state]
        want = {"rnn": ref.rnn, "lstm": ref.lstm}[kind](
            X[row].double().numpy(), *begin, **arrays(module)
        )
        want = want if kind == "rnn" else want[0]
        assert np.abs(want - H[row].detach().numpy()).max() < tolerance


@KINDS
def test_module_equals_torch_with_its_weights(kind: str) -> None:
    module = make(kind, 3, 5, dtype=torch.float64)
    theirs = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM}[kind](
        3, 5, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(module.W_x.T)
        theirs.weight_hh_l0.copy_(module.W_h.T)
        theirs.bias_ih_l0.copy_(module.b)
        theirs.bias_hh_l0.zero_()
    X = torch.randn(4, 9, 3, dtype=torch.float64, generator=generator(3))
    H, last = module(X)
    want, want_last = theirs(X)
    assert (H - want).abs().max() < 1e-12
    for got, wanted in zip(
        last if kind == "lstm" else (last,),
        want_last if kind == "lstm" else (want_last,),
        strict=True,
    ):
        assert (got - wanted[0]).abs().max() < 1e-12


@KINDS
def test_gradients_equal_the_reference(kind: str) -> None:
    module = make(kind, 3, 5, dtype=torch.float64)
    X = torch.randn(1, 6, 3, dtype=torch.float64, generator=generator(3))
    d_H = torch.randn(1, 6, 5, dtype=torch.float64, generator=generator(4))
    H, _ = module(X)
    (H * d_H).sum().backward()
    zero, p = np.zeros(5), arrays(module)
    x, d = X[0].numpy(), d_H[0].numpy()
    if kind == "rnn":
        found = ref.rnn_backward(d, x, zero, ref.rnn(x, zero, **p), p["W_x"], p["W_h"])
    else:
        states, cells = ref.lstm(x, zero, zero, **p)
        found = ref.lstm_backward(d, 0 * d, x, zero, zero, states, cells, **p)
    for name in ("W_x", "W_h", "b"):
        gap = np.abs(getattr(found, name) - getattr(module, name).grad.numpy()).max()
        assert gap < 1e-12, name


def test_the_default_draws_as_torch_does() -> None:
    d = 64
    ours = LSTM(8, d, generator=generator())
    theirs = torch.nn.LSTM(8, d)
    bias = theirs.bias_ih_l0 + theirs.bias_hh_l0
    for a, b in ((ours.W_h, theirs.weight_hh_l0), (ours.b, bias)):
        # 16,384 and 256 draws: standard errors of the std near 0.5 % and 4 %
        assert a.std().item() == pytest.approx(b.std().item(), rel=0.15)
        assert a.mean().abs() < 0.02
    assert ours.W_h.abs().max() <= d**-0.5


def test_orthogonal_start_has_all_singular_values_one() -> None:
    for module in (RNN(3, 6, orthogonal=True), LSTM(3, 6, orthogonal=True)):
        for block in module.W_h.detach().split(6, dim=1):
            assert torch.linalg.svdvals(block) == pytest.approx(np.ones(6), abs=1e-5)
    plain = torch.linalg.svdvals(RNN(3, 6, generator=generator()).W_h.detach())
    assert plain.min() < 0.5


def test_forget_bias_is_added_to_the_forget_gate_only() -> None:
    plain = LSTM(3, 6, generator=generator())
    kept = LSTM(3, 6, forget_bias=3.0, generator=generator())
    change = (kept.b - plain.b).detach()
    assert torch.allclose(change[6:12], torch.full((6,), 3.0), atol=1e-6)
    assert not change[:6].any()
    assert not change[12:].any()


@KINDS
def test_the_same_generator_gives_the_same_parameters(kind: str) -> None:
    torch.manual_seed(1)
    first = make(kind, 3, 5, orthogonal=True, generator=generator(7))
    torch.manual_seed(2)
    second = make(kind, 3, 5, orthogonal=True, generator=generator(7))
    other = make(kind, 3, 5, orthogonal=True, generator=generator(8))
    for a, b, c in zip(
        first.parameters(), second.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


@KINDS
def test_making_a_module_with_a_generator_leaves_the_global_one_alone(
    kind: str,
) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    make(kind, 3, 5, orthogonal=True)
    assert torch.equal(before, torch.get_rng_state())


@KINDS
@given(
    batch=st.integers(1, 3),
    n=st.integers(2, 6),
    seed=st.integers(0, 2**31),
    where=st.integers(1, 5),
)
@settings(max_examples=25, deadline=None)
def test_a_later_token_and_a_batch_mate_change_nothing(
    kind: str, batch: int, n: int, seed: int, where: int
) -> None:
    where = min(where, n - 1)
    module = make(kind, 3, 4, dtype=torch.float64)
    X = torch.randn(batch, n, 3, dtype=torch.float64, generator=generator(seed))
    changed = X.clone()
    changed[-1, where:] += 1.0
    with torch.no_grad():
        H, G = module(X)[0], module(changed)[0]
    assert torch.allclose(H[:-1], G[:-1], atol=1e-13)  # batch mates
    assert torch.allclose(H[-1, :where], G[-1, :where], atol=1e-13)  # earlier tokens
    assert not torch.allclose(H[-1, where], G[-1, where], atol=1e-6)  # it is read


class Backwards(RNN):
    """A planted fault: reads the sequence from its end."""

    def forward(self, X: torch.Tensor, h0: Any = None) -> Any:
        H, h = super().forward(X.flip(1), h0)
        return H.flip(1), h


def test_a_planted_fault_breaks_causality() -> None:
    module = Backwards(3, 4, generator=generator())
    X = torch.randn(1, 5, 3, generator=generator(1))
    changed = X.clone()
    changed[0, -1] += 1.0
    assert not torch.allclose(module(X)[0][0, 0], module(changed)[0][0, 0], atol=1e-6)


@KINDS
def test_carrying_the_state_on_equals_one_long_run(kind: str) -> None:
    module = make(kind, 3, 5, dtype=torch.float64)
    X = torch.randn(2, 8, 3, dtype=torch.float64, generator=generator(3))
    whole, end = module(X)
    first, state = module(X[:, :3])
    rest, end_again = module(X[:, 3:], state)
    assert torch.allclose(whole, torch.cat([first, rest], 1), atol=1e-14)
    ends = zip(end, end_again, strict=True) if kind == "lstm" else [(end, end_again)]
    for a, b in ends:
        assert torch.allclose(a, b, atol=1e-14)


@KINDS
@pytest.mark.parametrize("shape", [(2, 0, 3), (0, 4, 3), (2, 1, 3)])
def test_empty_batches_and_sequences_are_fine(
    kind: str, shape: tuple[int, int, int]
) -> None:
    H, last = make(kind, 3, 5)(torch.zeros(shape))
    assert H.shape == (*shape[:2], 5)
    for tensor in last if kind == "lstm" else (last,):
        assert tensor.shape == (shape[0], 5)


@KINDS
def test_non_contiguous_input_and_deepcopy(kind: str) -> None:
    module = make(kind, 3, 5, dtype=torch.float64)
    X = torch.randn(7, 2, 3, dtype=torch.float64, generator=generator(3)).transpose(
        0, 1
    )
    same = copy.deepcopy(module)(X.contiguous())[0]
    assert torch.allclose(module(X)[0], same, atol=1e-14)  # other order of sums


@KINDS
def test_state_dict_goes_round(kind: str) -> None:
    first, second = make(kind, 3, 5), make(kind, 3, 5, generator=generator(9))
    second.load_state_dict(first.state_dict())
    X = torch.randn(2, 4, 3, generator=generator(3))
    assert torch.equal(first(X)[0], second(X)[0])
    assert sorted(first.state_dict()) == ["W_h", "W_x", "b"]


@KINDS
def test_under_autocast_it_takes_what_a_bfloat16_layer_hands_it(kind: str) -> None:
    module = make(kind, 3, 5)
    before = torch.nn.Linear(3, 3)
    X = torch.randn(2, 6, 3, generator=generator(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        X = before(X)
        got = module(X)[0]
    assert X.dtype == torch.bfloat16
    assert torch.allclose(got, module(X.float())[0], atol=1e-6)


@pytest.mark.no_shape_hook
@KINDS
def test_compiled_module_gives_the_same(kind: str) -> None:
    module = make(kind, 3, 5)
    X = torch.randn(2, 6, 3, generator=generator(3))
    compiled = torch.compile(copy.deepcopy(module), backend="aot_eager")
    for run in (module, compiled):
        run(X)[0].square().sum().backward()
    assert torch.allclose(compiled(X)[0], module(X)[0], atol=1e-6)
    pairs = zip(module.parameters(), compiled.parameters(), strict=True)
    assert all(torch.allclose(a.grad, b.grad, atol=1e-5) for a, b in pairs)


@KINDS
def test_repr_names_what_was_chosen(kind: str) -> None:
    text = repr(make(kind, 3, 5, orthogonal=True))
    assert "3, 5, orthogonal=True" in text
    assert ("forget_bias=0.0" in text) == (kind == "lstm")


@pytest.mark.no_shape_hook
@KINDS
def test_bad_input_is_refused_by_name(kind: str) -> None:
    for wrong in (0, -2):
        with pytest.raises(ValueError, match=rf"d_in: got {wrong}, wanted 1 or more"):
            make(kind, wrong, 5)
    with pytest.raises(TypeError, match=r"d_hidden: got 2.5, wanted a whole number"):
        make(kind, 3, 2.5)
    module = make(kind, 3, 5)
    with pytest.raises(ValueError, match=r"X: got shape \(2, 4, 7\), wanted .*d_in=3"):
        module(torch.zeros(2, 4, 7))
    with pytest.raises(ValueError, match=r"X: got shape \(4, 3\)"):
        module(torch.zeros(4, 3))
    with pytest.raises(TypeError, match=r"X: got torch.int64, wanted floating point"):
        module(torch.zeros(2, 4, 3, dtype=torch.int64))
    bad = torch.zeros(3, 5)
    with pytest.raises(ValueError, match=r"h0: got shape \(3, 5\), wanted \(2, 5\)"):
        module(torch.zeros(2, 4, 3), bad if kind == "rnn" else (bad, bad))


def test_the_loop_in_single_operations_equals_the_kernel() -> None:
    module = make("lstm", 3, 5, dtype=torch.float64)
    X = torch.randn(2, 7, 3, dtype=torch.float64, generator=generator(3))
    state = start("lstm", 2, 5, torch.float64)
    H, last = module(X, state)
    looped, end = module._loop(X, *state)
    torch.testing.assert_close(looped, H, atol=1e-12, rtol=0)
    torch.testing.assert_close(end, last, atol=1e-12, rtol=0)


@KINDS
def test_one_number_in_and_one_of_state_are_enough(kind: str) -> None:
    H, _ = make(kind, 1, 1)(torch.ones(1, 2, 1))
    assert H.shape == (1, 2, 1)


@pytest.mark.no_shape_hook
def test_a_forget_bias_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"forget_bias: got nan"):
        LSTM(3, 5, forget_bias=float("nan"))
