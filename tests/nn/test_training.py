"""The loss: fused and plain, equal to the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from arrays import draw

from transformer_lib import reference
from transformer_lib.nn import training
from transformer_lib.nn.training import cross_entropy, linear_cross_entropy

EXACT = 1e-12
TARGETS = np.array([[3, 0, 6, 2], [1, 5, 0, 0]])
SMOOTHING = pytest.mark.parametrize("smoothing", [0.0, 0.1])
PADDING = pytest.mark.parametrize("pad_id", [None, 0])


@SMOOTHING
@PADDING
def test_cross_entropy_equals_the_reference(
    smoothing: float, pad_id: int | None
) -> None:
    logits = 3.0 * draw(0, 2, 4, 7)
    z = torch.from_numpy(logits).requires_grad_()
    loss = cross_entropy(z, torch.from_numpy(TARGETS), smoothing, pad_id)
    assert loss.item() == pytest.approx(
        reference.cross_entropy(logits, TARGETS, smoothing, pad_id), abs=EXACT
    )
    (2.5 * loss).backward()
    np.testing.assert_allclose(
        z.grad.numpy(),
        2.5 * reference.cross_entropy_backward(logits, TARGETS, smoothing, pad_id),
        atol=EXACT,
    )


@SMOOTHING
@PADDING
@pytest.mark.parametrize("rows_at_a_time", [1, 3, 100])
def test_the_fused_loss_equals_the_reference_and_its_gradients(
    smoothing: float,
    pad_id: int | None,
    rows_at_a_time: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training, "_chunk_bytes", lambda _: rows_at_a_time * 7 * 8)
    hidden, weight = draw(0, 2, 4, 5), draw(1, 7, 5)
    h, w = (torch.from_numpy(a.copy()).requires_grad_() for a in (hidden, weight))
    loss = linear_cross_entropy(h, w, torch.from_numpy(TARGETS), smoothing, pad_id)
    logits = hidden @ weight.T
    assert loss.item() == pytest.approx(
        reference.cross_entropy(logits, TARGETS, smoothing, pad_id), abs=EXACT
    )
    (2.5 * loss).backward()
    d_logits = 2.5 * reference.cross_entropy_backward(
        logits, TARGETS, smoothing, pad_id
    )
    np.testing.assert_allclose(h.grad.numpy(), d_logits @ weight, atol=EXACT)
    np.testing.assert_allclose(
        w.grad.numpy(),
        d_logits.reshape(8, 7).T @ hidden.reshape(8, 5),
        atol=EXACT,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_hopeless_token_costs_what_it_should(dtype: torch.dtype) -> None:
    """Its probability, e^-10000, is 0 in any precision; its logarithm is not."""
    h = torch.full((1, 1), 100.0, dtype=dtype, requires_grad=True)
    w = torch.tensor([[100.0], [0.0]], dtype=dtype, requires_grad=True)
    loss = linear_cross_entropy(h, w, torch.tensor([1]))
    loss.backward()
    assert loss.item() == 10_000.0
    assert h.grad.item() == 100.0
    assert w.grad[:, 0].tolist() == [100.0, -100.0]


def test_chunks_hold_several_rows_and_are_bounded() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        assert 2**20 <= training._chunk_bytes(dtype) <= 2**25


@PADDING
def test_nothing_but_padding_costs_nothing(pad_id: int | None) -> None:
    h = torch.from_numpy(draw(0, 1, 3, 5)).requires_grad_()
    w = torch.from_numpy(draw(1, 7, 5)).requires_grad_()
    n = 3 if pad_id is not None else 0
    targets = torch.zeros(1, n, dtype=torch.int64)
    fused = linear_cross_entropy(h[:, :n], w, targets, pad_id=pad_id)
    plain = cross_entropy(h[:, :n] @ w.T, targets, pad_id=pad_id)
    (fused + plain).backward()
    assert fused.item() == plain.item() == 0.0
    assert not h.grad.any()
    assert not w.grad.any()
    assert linear_cross_entropy(h[:, :n], w[:0], targets, pad_id=pad_id).item() == 0.0


def test_backward_twice_and_without_gradients() -> None:
    h = torch.from_numpy(draw(0, 2, 4, 5)).requires_grad_()
    w = torch.from_numpy(draw(1, 7, 5)).requires_grad_()
    targets = torch.from_numpy(TARGETS)
    loss = linear_cross_entropy(h, w, targets)
    loss.backward(retain_graph=True)
    once = h.grad.clone()
    loss.backward()
    torch.testing.assert_close(h.grad, 2 * once, atol=EXACT, rtol=0)
    with torch.no_grad():
        assert not linear_cross_entropy(h, w, targets).requires_grad
    frozen = linear_cross_entropy(h.detach(), w, targets)
    frozen.backward()  # only the head learns
    assert linear_cross_entropy(h.detach(), w.detach(), targets).item() == loss.item()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", ["autocast", "cast"])
def test_half_precision_stays_near_full_precision(
    dtype: torch.dtype, mode: str
) -> None:
    hidden, weight = (
        torch.from_numpy(draw(0, 40, 16)),
        torch.from_numpy(draw(1, 50, 16)),
    )
    targets = torch.arange(40)
    full = [t.clone().requires_grad_() for t in (hidden, weight)]
    wanted = linear_cross_entropy(*full, targets, 0.1)
    wanted.backward()
    kind = dtype if mode == "cast" else torch.float32
    half = [t.to(kind).requires_grad_() for t in (hidden, weight)]
    with torch.autocast("cpu", dtype, enabled=mode == "autocast"):
        loss = linear_cross_entropy(*half, targets, 0.1)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-2)
    scale = 1024.0  # as a gradient scaler does
    (scale * loss).backward()
    for got, right in zip(half, full, strict=True):
        assert got.grad.dtype == kind
        error = (got.grad.double() / scale - right.grad).abs().max()
        assert error < 2e-2 * right.grad.abs().max()


def test_float16_gradients_over_many_tokens_do_not_vanish() -> None:
    """One chance in 600, divided by 20,000 tokens, is about the least float16 number."""
    tokens, vocab = 20_000, 600
    weight = 1.0 + 0.1 * torch.from_numpy(draw(0, vocab, 2)).float()
    h = torch.zeros(tokens, 2, requires_grad=True)
    targets = torch.arange(tokens) % vocab
    with torch.autocast("cpu", torch.float16):
        loss = linear_cross_entropy(h, weight, targets)
    (tokens * loss).backward()
    wanted = weight.mean(0) - weight[targets]
    assert (h.grad - wanted).abs().max() < 5e-3


@pytest.mark.parametrize("real", [0, 1])
def test_one_real_token_counts_whole_and_none_gives_zero(real: int) -> None:
    h, w = torch.from_numpy(draw(0, 3, 5)), torch.from_numpy(draw(1, 7, 5))
    targets = torch.tensor([0, 4 * real, 0])
    wanted = real * cross_entropy(h[1] @ w.T, torch.tensor(4))
    for loss in (
        linear_cross_entropy(h, w, targets, pad_id=0),
        cross_entropy(h @ w.T, targets, pad_id=0),
    ):
        torch.testing.assert_close(loss, wanted, atol=EXACT, rtol=0)


def test_the_plain_form_gives_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    h, w = torch.from_numpy(draw(0, 2, 4, 5)), torch.from_numpy(draw(1, 7, 5))
    targets = torch.from_numpy(TARGETS)
    fused = linear_cross_entropy(h, w, targets, 0.1, 0)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    plain = linear_cross_entropy(h, w, targets, 0.1, 0)
    torch.testing.assert_close(plain, fused, atol=EXACT, rtol=0)


@pytest.mark.no_shape_hook
def test_compiles_in_one_piece() -> None:
    h, w = torch.from_numpy(draw(0, 2, 4, 5)), torch.from_numpy(draw(1, 7, 5))
    targets = torch.from_numpy(TARGETS)
    compiled = torch.compile(linear_cross_entropy, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(
        compiled(h, w, targets, 0.1, 0),
        linear_cross_entropy(h, w, targets, 0.1, 0),
        atol=EXACT,
        rtol=0,
    )


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"targets": torch.tensor([1])}, ValueError, "targets: got shape (1,)"),
        (
            {"targets": torch.tensor([1.0, 2.0])},
            TypeError,
            "targets: got torch.float32",
        ),
        ({"targets": torch.tensor([1, 3])}, ValueError, "targets: got 3, wanted"),
        ({"targets": torch.tensor([-1, 1])}, ValueError, "targets: got -1, wanted"),
        ({"label_smoothing": 1.0}, ValueError, "label_smoothing: got 1.0"),
    ],
)
def test_bad_input_is_named(
    change: dict[str, Any], error: type[Exception], words: str
) -> None:
    arguments = {"targets": torch.tensor([1, 2]), **change}
    for call in (
        lambda: cross_entropy(torch.zeros(2, 3), **arguments),
        lambda: linear_cross_entropy(torch.zeros(2, 4), torch.zeros(3, 4), **arguments),
    ):
        with pytest.raises(error) as caught:
            call()
        assert words in str(caught.value)


@pytest.mark.no_shape_hook
def test_a_head_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"weight: got shape \(3, 5\), wanted"):
        linear_cross_entropy(torch.zeros(2, 4), torch.zeros(3, 5), torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="logits: got a single number"):
        cross_entropy(torch.tensor(1.0), torch.tensor(1))
