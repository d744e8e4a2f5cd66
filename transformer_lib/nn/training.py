"""The training loss: the twin of :mod:`transformer_lib.reference.training`.

``cross_entropy`` takes logits. ``linear_cross_entropy`` takes what stands before the
last matrix product and never holds all logits at once: with a vocabulary of tens of
thousands they are by far the largest tensor of a training step.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

__all__ = ["cross_entropy", "linear_cross_entropy"]


def cross_entropy(
    logits: Float[Tensor, "*batch vocab"],
    targets: Int[Tensor, "*batch"],
    label_smoothing: float = 0.0,
    pad_id: int | None = None,
) -> Float[Tensor, ""]:
    """Mean surprise over the tokens that are not padding, in nats.

    Parameters
    ----------
    logits
        Shape ``(..., vocab)``.
    targets
        Right token numbers, shape ``(...)``.
    label_smoothing
        Share spread over all tokens of the vocabulary, from 0 to below 1.
    pad_id
        Targets of this number do not count; ``None`` counts all.

    Returns
    -------
    loss
        One number, nats per real token; 0 if there is none. At least float32.

    Raises
    ------
    TypeError
        If ``targets`` are not integers.
    ValueError
        If the shapes do not fit or the share is outside [0, 1).

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 5.4.

    Examples
    --------
    >>> cross_entropy(torch.zeros(2, 4), torch.tensor([1, 0]), pad_id=0)  # ln 4
    tensor(1.3863)
    """
    if logits.ndim == 0:
        raise ValueError("logits: got a single number, wanted (..., vocab)")
    _check(logits.shape[:-1], logits.shape[-1], targets, label_smoothing, pad_id)
    ignored = -100 if pad_id is None else pad_id
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    total = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]),
        targets.reshape(-1).long(),
        ignore_index=ignored,
        reduction="sum",
        label_smoothing=label_smoothing,
    )
    count = targets.numel() if pad_id is None else (targets != pad_id).sum()
    return total / (max(count, 1) if isinstance(count, int) else count.clamp(min=1))


def linear_cross_entropy(
    hidden: Float[Tensor, "*batch d_model"],
    weight: Float[Tensor, "vocab d_model"],
    targets: Int[Tensor, "*batch"],
    label_smoothing: float = 0.0,
    pad_id: int | None = None,
) -> Float[Tensor, ""]:
    """``cross_entropy(hidden @ weight.T, ...)`` without holding all logits.

    The loss is linear in what the backward pass will bring, so the gradients can be
    computed in the forward pass, for a few rows at a time while their logits are still
    in the cache, and only be scaled in the backward pass. What is kept for it is as
    large as ``hidden`` and ``weight``, not as the logits.

    Parameters
    ----------
    hidden
        Output of the last layer, shape ``(..., d_model)``.
    weight
        The head, one row per token of the vocabulary (a tied embedding fits as it is).
    targets, label_smoothing, pad_id
        As in :func:`cross_entropy`.

    Returns
    -------
    loss
        As :func:`cross_entropy`.

    Raises
    ------
    TypeError, ValueError
        As :func:`cross_entropy`, or if the widths of ``hidden`` and ``weight`` differ.

    Examples
    --------
    >>> linear_cross_entropy(torch.zeros(3, 8), torch.zeros(4, 8), torch.tensor([0, 1, 2]))
    tensor(1.3863)
    """
    if weight.ndim != 2 or weight.shape[1] != hidden.shape[-1]:
        raise ValueError(
            f"weight: got shape {tuple(weight.shape)}, "
            f"wanted (vocab, {hidden.shape[-1]}), the width of hidden"
        )
    _check(hidden.shape[:-1], weight.shape[0], targets, label_smoothing, pad_id)
    if torch.compiler.is_compiling():  # the compiler fuses the plain form by itself
        return cross_entropy(F.linear(hidden, weight), targets, label_smoothing, pad_id)
    rows, labels = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1).long()
    if pad_id is not None and hidden.device.type == "cpu":
        # Padding needs no logits. On a GPU their number would have to be waited for.
        real = (labels != pad_id).nonzero()[:, 0]
        if len(real) < len(labels):
            rows, labels = rows.index_select(0, real), labels[real]
    loss: Tensor = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        rows,
        weight,
        labels,
        label_smoothing,
        pad_id,
        torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad),
    )
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    """Loss and gradients, a few rows at a time; see :func:`linear_cross_entropy`."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        label_smoothing: float,
        pad_id: int | None,
        train: bool,
    ) -> Tensor:
        half = _product_dtype(hidden)
        full = torch.promote_types(half, torch.float32)
        rows, matrix = hidden.to(half), weight.to(half)
        vocab = weight.shape[0]
        real = torch.ones_like(targets) if pad_id is None else targets != pad_id
        count = real.sum().clamp(min=1)
        # float16 has no room for gradients divided by thousands: divide at the end.
        late = half == torch.float16
        shares = real.to(full) if late else real / count.to(full)
        labels = targets.where(real.bool(), 0)[:, None]

        loss = torch.zeros((), dtype=full, device=hidden.device)
        d_hidden = torch.empty_like(rows, dtype=full) if train else None
        d_weight = torch.zeros_like(weight, dtype=full) if train else None
        step = max(1, _chunk_bytes(half) // (max(vocab, 1) * full.itemsize))
        # One room for the logits of all chunks: it is in the cache already.
        room = rows.new_empty(min(step, rows.shape[0]), vocab)
        for begin in range(0, rows.shape[0], step):
            these = slice(begin, begin + step)
            part, label, share = rows[these], labels[these], shares[these, None]
            logits = torch.mm(part, matrix.T, out=room[: part.shape[0]]).to(full)
            logits -= logits.amax(dim=-1, keepdim=True)  # so that exp has room
            right = (1.0 - label_smoothing) * logits.gather(1, label)
            if label_smoothing:
                right += label_smoothing * logits.mean(dim=-1, keepdim=True)
            p = logits.exp_()
            total = p.sum(dim=-1, keepdim=True)
            loss += ((total.log() - right) * share).sum()
            if d_hidden is None or d_weight is None:
                continue
            # The gradient, p - q, times each row's share in the mean.
            d_logits = p.mul_(share / total)
            if label_smoothing:
                d_logits -= share * (label_smoothing / vocab)
            d_logits.scatter_add_(1, label, share * (label_smoothing - 1.0))
            d_logits = d_logits.to(half)
            d_hidden[these] = d_logits @ matrix
            if half == full:
                d_weight.addmm_(d_logits.T, part)
            else:
                d_weight += d_logits.T @ part
        if late:
            loss = loss / count
        ctx.save_for_backward(d_hidden, d_weight, count if late else None)
        ctx.dtypes = hidden.dtype, weight.dtype
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, count = ctx.saved_tensors
        scale = d_loss if count is None else d_loss / count
        of_hidden, of_weight = ctx.dtypes
        d_hidden, d_weight = d_hidden * scale, d_weight * scale
        return d_hidden.to(of_hidden), d_weight.to(of_weight), None, None, None, None


def _product_dtype(x: Tensor) -> torch.dtype:
    """The precision that autocast would give a matrix product of ``x``."""
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype != torch.float64:
        return torch.get_autocast_dtype(device)
    return x.dtype


def _chunk_bytes(dtype: torch.dtype) -> int:
    """How many bytes of logits to make at a time.

    Few stay in the processor's cache between their product, their softmax and the two
    products of the gradient; in half precision these products are so fast that adding
    up the gradient of the weights, once per chunk, is what counts.
    """
    return 8 * 2**20 if dtype.itemsize >= 4 else 16 * 2**20


def _check(
    wanted: torch.Size,
    vocab_size: int,
    targets: Tensor,
    label_smoothing: float,
    pad_id: int | None,
) -> None:
    if targets.shape != wanted:
        raise ValueError(
            f"targets: got shape {tuple(targets.shape)}, wanted {tuple(wanted)}"
        )
    if targets.is_floating_point() or targets.dtype == torch.bool:
        raise TypeError(
            f"targets: got {targets.dtype}, wanted integers (token numbers)"
        )
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(
            f"label_smoothing: got {label_smoothing}, wanted a number in [0, 1)"
        )
    if targets.device.type != "cpu" or torch.compiler.is_compiling():
        return  # looking at the numbers would make the CPU wait for the GPU
    outside = (targets < 0) | (targets >= vocab_size)
    if pad_id is not None:
        outside &= targets != pad_id
    if outside.any():
        raise ValueError(
            f"targets: got {int(targets[outside][0])}, wanted numbers from 0 to "
            f"{vocab_size - 1} (or pad_id={pad_id})"
        )
