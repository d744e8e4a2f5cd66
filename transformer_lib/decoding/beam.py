"""Beam search: several unfinished sentences side by side."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lib.decoding.step import (
    StepModel,
    check_request,
    check_vocabulary,
    evaluating,
)

__all__ = ["BeamResult", "beam_search", "length_norm"]


class BeamResult(NamedTuple):
    """The best sentences found for each source, best first."""

    ids: Int[Tensor, "batch n_best n"]
    """Without start token, with end token, padded."""
    scores: Float[Tensor, "batch n_best"]
    """Log-probability over :func:`length_norm`; ``-inf`` where fewer were found.

    Float64. Highest first, but sentences cut off at ``max_len`` come after those that
    ended.
    """


def length_norm(length: int, length_penalty: float) -> float:
    r"""What the log-probability of a sentence is divided by.

    .. math:: \mathrm{norm}(n) = \Big(\frac{5 + n}{6}\Big)^\alpha

    Each token makes a sentence less likely, so without it the search prefers short
    sentences. 0 leaves the log-probability as it is.

    Parameters
    ----------
    length
        Number of tokens, the end token included.
    length_penalty
        :math:`\alpha`, 0 or more; the Transformer of 2017 used 0.6.

    Returns
    -------
    norm
        1 or more.

    References
    ----------
    Wu et al. 2016, *Google's Neural Machine Translation System*, equation 14.

    Examples
    --------
    >>> length_norm(7, 1.0)
    2.0
    """
    norm: float = ((5 + length) / 6) ** length_penalty
    return norm


def beam_search(
    model: StepModel,
    source_ids: Int[Tensor, "batch n_s"],
    *,
    bos_id: int,
    eos_id: int,
    max_len: int,
    pad_id: int = 0,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    n_best: int = 1,
) -> BeamResult:
    """Keep the ``beam_size`` likeliest beginnings and extend them all at once.

    At each step all extensions of a source's beginnings compete for its places. One
    that ends in ``eos_id`` is finished: it keeps its place, so that fewer beginnings
    are extended afterwards, and with one place this is greedy decoding. The search for
    a source stops when no place is open, or when no beginning can still overtake its
    ``n_best`` finished sentences, however it went on. Beginnings cut off at ``max_len``
    are returned only where fewer than ``n_best`` sentences ended.

    Parameters
    ----------
    model, source_ids, bos_id, eos_id, max_len, pad_id
        As in :func:`~transformer_lib.decoding.sampling.greedy`.
    beam_size
        Number of places per source, 1 or more.
    length_penalty
        Of :func:`length_norm`, 0 or more.
    n_best
        Number of sentences to return, at most ``beam_size``.

    Returns
    -------
    result
        Ids of shape ``(batch, n_best, n)`` and scores of shape ``(batch, n_best)``.

    Raises
    ------
    TypeError
        If a number that must be whole is not, ``source_ids`` are not integers, or the
        model has no step interface.
    ValueError
        If a number is out of its range or the source is not ``(batch, n_s)``.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 6.1 (beam 4, penalty 0.6).

    Examples
    --------
    >>> from transformer_lib.nn import Transformer, TransformerConfig
    >>> model = Transformer(TransformerConfig.tiny(vocab_size=20))
    >>> ids, scores = beam_search(
    ...     model, torch.tensor([[5, 6, 7]]), bos_id=1, eos_id=2, max_len=6, n_best=2
    ... )
    >>> ids.shape[:2], scores.shape
    (torch.Size([1, 2]), torch.Size([1, 2]))
    """
    check_request(
        model, source_ids, max_len, bos_id=bos_id, eos_id=eos_id, pad_id=pad_id
    )
    _check_beam(beam_size, length_penalty, n_best)
    batch, device = source_ids.shape[0], source_ids.device
    finished: list[list[_Sentence]] = [[] for _ in range(batch)]
    with evaluating(model):
        state = model.start(source_ids, max_len)
        rows = torch.arange(batch, device=device).repeat_interleave(beam_size)
        state.select(rows)
        first_row = beam_size * torch.arange(batch, device=device)[:, None]
        ids = torch.full((batch * beam_size,), bos_id, dtype=torch.int64, device=device)
        begun = ids.new_empty(batch, beam_size, 0)
        # All places of a source begin alike, so at first only one of them counts.
        total = torch.full((batch, beam_size), -math.inf, device=device)
        total[:, :1] = 0.0

        for length in range(1, max_len + 1):
            logits = model.step(ids, state)
            if length == 1:
                check_vocabulary(logits, bos_id=bos_id, eos_id=eos_id)
            vocab = logits.shape[-1]
            log_p = _log_softmax(logits).view(batch, beam_size, vocab)
            extended = (total[..., None] + log_p).flatten(1)  # all extensions, in a row
            total, best = extended.topk(beam_size, dim=-1)
            parent, token = best // vocab, best % vocab
            begun = begun.gather(1, parent[..., None].expand_as(begun))
            begun = torch.cat([begun, token[..., None]], dim=-1)

            _close_places(total, [beam_size - len(found) for found in finished])
            for i, place in ((token == eos_id) & total.isfinite()).nonzero().tolist():
                score = total[i, place].item() / length_norm(length, length_penalty)
                finished[i].append(_Sentence(score, begun[i, place]))
                total[i, place] = -math.inf
            _stop_where_settled(total, finished, n_best, max_len, length_penalty)
            if not total.isfinite().any():
                break
            state.select((first_row + parent).flatten())
            ids = token.flatten()
        cut_off = [
            [
                _Sentence(p / length_norm(max_len, length_penalty), begun[i, place])
                for place, p in enumerate(row)
                if p > -math.inf
            ]
            for i, row in enumerate(total.tolist())
        ]
    return _collect(finished, cut_off, n_best, pad_id, source_ids)


class _Sentence(NamedTuple):
    score: float
    ids: Tensor


def _log_softmax(logits: Tensor) -> Tensor:
    full = torch.promote_types(logits.dtype, torch.float32)
    return torch.log_softmax(logits.to(full), dim=-1)


def _close_places(total: Tensor, open_places: list[int]) -> None:
    """Drop the extensions, ordered best first, for which no place is left."""
    for i, number in enumerate(open_places):
        total[i, number:] = -math.inf


def _stop_where_settled(
    total: Tensor,
    finished: list[list[_Sentence]],
    n_best: int,
    max_len: int,
    length_penalty: float,
) -> None:
    """Drop beginnings that cannot overtake the ``n_best`` finished sentences any more.

    The most that a beginning can reach is to lose nothing more and to be divided by the
    largest norm.
    """
    largest_norm = length_norm(max_len, length_penalty)
    for i, found in enumerate(finished):
        if len(found) >= n_best:
            worst = sorted((sentence.score for sentence in found), reverse=True)
            settled = total[i] / largest_norm <= worst[n_best - 1]
            total[i] = total[i].masked_fill(settled, -math.inf)


def _collect(
    finished: list[list[_Sentence]],
    cut_off: list[list[_Sentence]],
    n_best: int,
    pad_id: int,
    source_ids: Tensor,
) -> BeamResult:
    """Put the best sentences into rectangles: finished ones first, each kind by score."""
    chosen = [
        [
            *sorted(of_finished, key=lambda sentence: -sentence.score),
            *sorted(of_cut_off, key=lambda sentence: -sentence.score),
        ][:n_best]
        for of_finished, of_cut_off in zip(finished, cut_off, strict=True)
    ]
    longest = max((len(s.ids) for row in chosen for s in row), default=0)
    ids = torch.full((len(chosen), n_best, longest), pad_id, dtype=torch.int64)
    scores = torch.full((len(chosen), n_best), -math.inf, dtype=torch.float64)
    for i, row in enumerate(chosen):
        for rank, sentence in enumerate(row):
            ids[i, rank, : len(sentence.ids)] = sentence.ids
            scores[i, rank] = sentence.score
    return BeamResult(ids.to(source_ids.device), scores.to(source_ids.device))


def _check_beam(beam_size: int, length_penalty: float, n_best: int) -> None:
    for name, value in (("beam_size", beam_size), ("n_best", n_best)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}: got {value!r}, wanted a whole number")
        if value < 1:
            raise ValueError(f"{name}: got {value}, wanted 1 or more")
    if n_best > beam_size:
        raise ValueError(f"n_best: got {n_best}, wanted at most beam_size={beam_size}")
    if not 0.0 <= length_penalty < math.inf:
        raise ValueError(
            f"length_penalty: got {length_penalty}, wanted a finite number, 0 or more"
        )
