"""Greedy decoding and sampling: one token at a time, never looking back."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lib.decoding.step import (
    StepModel,
    check_request,
    check_vocabulary,
    evaluating,
)

__all__ = ["greedy", "next_token_distribution", "sample"]


def greedy(
    model: StepModel,
    source_ids: Int[Tensor, "batch n_s"],
    *,
    bos_id: int,
    eos_id: int,
    max_len: int,
    pad_id: int = 0,
) -> Int[Tensor, "batch n"]:
    """Write the most likely next token, again and again.

    Each row stops at its own end token and is left alone after it; all stop when the
    last one did, or after ``max_len`` tokens.

    Parameters
    ----------
    model
        Offers the step interface (see :mod:`transformer_lib.decoding.step`). Dropout is
        off while it is decoded; afterwards each of its modules has its mode back.
    source_ids
        Token numbers, shape ``(batch, n_s)``.
    bos_id
        Token that every target begins with; it is read, not returned.
    eos_id
        Token that ends a target; it is returned.
    max_len
        Number of tokens to write at most, the end token included.
    pad_id
        Fills a row behind its end.

    Returns
    -------
    ids
        Shape ``(batch, n)``, ``n`` at most ``max_len``.

    Raises
    ------
    TypeError
        If an id or ``max_len`` is not a whole number, ``source_ids`` are not integers, or
        the model has no step interface.
    ValueError
        If an id is negative or beyond the vocabulary, ``max_len`` is below 1, or the
        source is not ``(batch, n_s)``.

    Examples
    --------
    >>> from transformer_lib.nn import Transformer, TransformerConfig
    >>> model = Transformer(TransformerConfig.tiny(vocab_size=20))
    >>> source = torch.tensor([[5, 6, 7, 0], [8, 9, 3, 4]])
    >>> ids = greedy(model, source, bos_id=1, eos_id=2, max_len=6)
    >>> ids.shape[0], ids.shape[1] <= 6
    (2, True)
    """
    return _write(
        model, source_ids, bos_id, eos_id, max_len, pad_id, lambda z: z.argmax(dim=-1)
    )


def sample(
    model: StepModel,
    source_ids: Int[Tensor, "batch n_s"],
    *,
    bos_id: int,
    eos_id: int,
    max_len: int,
    pad_id: int = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "batch n"]:
    """Draw each next token from the model's distribution, sharpened or cut off.

    Parameters
    ----------
    model, source_ids, bos_id, eos_id, max_len, pad_id
        As in :func:`greedy`.
    temperature, top_k, top_p
        As in :func:`next_token_distribution`; temperature 0 is :func:`greedy`.
    generator
        Source of randomness, on the model's device; ``None`` is torch's global one.

    Returns
    -------
    ids
        Shape ``(batch, n)``, ``n`` at most ``max_len``.

    Raises
    ------
    TypeError, ValueError
        As :func:`greedy` and :func:`next_token_distribution`.

    Examples
    --------
    >>> from transformer_lib.nn import Transformer, TransformerConfig
    >>> model = Transformer(TransformerConfig.tiny(vocab_size=20))
    >>> chance = torch.Generator().manual_seed(0)
    >>> ids = sample(
    ...     model, torch.tensor([[5, 6, 7]]), bos_id=1, eos_id=2, max_len=6,
    ...     temperature=0.8, top_p=0.9, generator=chance,
    ... )
    >>> ids.shape[0]
    1
    """
    _check_sampling(temperature, top_k, top_p)

    def draw(logits: Tensor) -> Tensor:
        chances = next_token_distribution(logits, temperature, top_k, top_p)
        return torch.multinomial(chances, 1, generator=generator)[:, 0]

    return _write(model, source_ids, bos_id, eos_id, max_len, pad_id, draw)


def next_token_distribution(
    logits: Float[Tensor, "batch vocab"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "batch vocab"]:
    """Turn scores into the chances that :func:`sample` draws from.

    First the temperature divides the scores, then all but the ``top_k`` likeliest
    tokens get chance 0, then all but the smallest set that holds at least ``top_p`` of
    what is left; what remains is made to sum to 1 again.

    Parameters
    ----------
    logits
        Scores, shape ``(batch, vocab)``.
    temperature
        0 or more: below 1 sharpens, above 1 flattens, 0 gives all to the best.
    top_k
        Number of tokens kept, 1 or more; of equals the ones with the lower numbers.
    top_p
        Share kept, above 0 and at most 1: the token that crosses it is kept.

    Returns
    -------
    chances
        Shape ``(batch, vocab)``; each row sums to 1.

    Raises
    ------
    TypeError
        If ``top_k`` is not a whole number.
    ValueError
        If ``temperature`` is negative, infinite or NaN, ``top_k`` below 1, or ``top_p``
        not in (0, 1].

    References
    ----------
    Fan et al. 2018, *Hierarchical Neural Story Generation* (top-k); Holtzman et al.
    2020, *The Curious Case of Neural Text Degeneration* (top-p).

    Examples
    --------
    >>> logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    >>> next_token_distribution(logits, top_p=0.5)
    tensor([[0.5714, 0.4286, 0.0000, 0.0000]])
    """
    _check_sampling(temperature, top_k, top_p)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if temperature == 0.0:
        best = logits.argmax(dim=-1, keepdim=True)
        return torch.zeros_like(logits).scatter_(-1, best, 1.0)
    # A stable order, so that equal scores are cut the same way everywhere; the highest
    # score becomes 0, so that no temperature is low enough to make it infinite.
    ordered, place = torch.sort(logits, dim=-1, descending=True, stable=True)
    below_best = ordered - ordered[..., :1]
    least = torch.finfo(logits.dtype).tiny  # a lower temperature would divide by 0
    chances = torch.softmax(below_best / max(temperature, least), dim=-1)
    if top_k is not None:
        chances[..., top_k:] = 0.0
        chances = chances / chances.sum(dim=-1, keepdim=True)
    if top_p is not None:
        before = chances.cumsum(dim=-1) - chances  # what the likelier tokens hold
        chances = chances.masked_fill(before >= top_p, 0.0)
        chances = chances / chances.sum(dim=-1, keepdim=True)
    return torch.zeros_like(chances).scatter_(-1, place, chances)


def _write(
    model: StepModel,
    source_ids: Tensor,
    bos_id: int,
    eos_id: int,
    max_len: int,
    pad_id: int,
    choose: Callable[[Tensor], Tensor],
) -> Tensor:
    """Step until every row has ended; ``choose`` picks one token per row of logits."""
    check_request(
        model, source_ids, max_len, bos_id=bos_id, eos_id=eos_id, pad_id=pad_id
    )
    batch, device = source_ids.shape[0], source_ids.device
    written = torch.full((batch, max_len), pad_id, dtype=torch.int64, device=device)
    # Asking a GPU whether all have ended makes the CPU wait, so it is asked less often.
    ask_every = 1 if device.type == "cpu" else 8
    with evaluating(model):
        state = model.start(source_ids, max_len)
        ids = torch.full((batch,), bos_id, dtype=torch.int64, device=device)
        ended = torch.zeros(batch, dtype=torch.bool, device=device)
        for t in range(max_len):
            logits = model.step(ids, state)
            if t == 0:
                check_vocabulary(logits, bos_id=bos_id, eos_id=eos_id)
            ids = choose(logits).masked_fill_(ended, pad_id)
            written[:, t] = ids
            ended |= ids == eos_id
            if (t + 1) % ask_every == 0 and bool(ended.all()):
                break
        ends = (written == eos_id).int()
        length = torch.where(ends.any(-1), ends.argmax(-1) + 1, max_len)
    return written[:, : int(length.max()) if batch else 0].clone()


def _check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not 0.0 <= temperature < math.inf:
        raise ValueError(
            f"temperature: got {temperature}, wanted a finite number, 0 or more"
        )
    if top_k is not None:
        if isinstance(top_k, bool) or not isinstance(top_k, int):
            raise TypeError(f"top_k: got {top_k!r}, wanted a whole number or None")
        if top_k < 1:
            raise ValueError(f"top_k: got {top_k}, wanted 1 or more, or None")
    if top_p is not None and not 0.0 < top_p <= 1.0:
        raise ValueError(f"top_p: got {top_p}, wanted a number in (0, 1], or None")
