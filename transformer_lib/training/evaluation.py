"""How good a model is: its loss on the right answers, and what it writes by itself."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from transformer_lib.decoding import beam_search, greedy, pack
from transformer_lib.decoding.step import evaluating
from transformer_lib.nn import Transformer
from transformer_lib.tasks.batches import Batch, sorted_batches
from transformer_lib.tasks.task import EncodedPair, Pair, Task, Vocabulary

__all__ = ["Evaluation", "evaluate", "translate"]

ROWS = 256
"""Sentences written side by side; more are no faster on a CPU."""


class Evaluation(NamedTuple):
    """What :func:`evaluate` found.

    Attributes
    ----------
    split
        Which pairs were asked.
    loss
        Mean surprise over the real target tokens, in nats, without label smoothing.
    scores
        Of the task: at least its metric, in percent.
    written
        What the model wrote, in the order of ``pairs``.
    pairs
        Sources and right answers.
    """

    split: str
    loss: float
    scores: dict[str, float | str]
    written: list[str]
    pairs: list[Pair]

    def errors(self) -> list[tuple[Pair, str]]:
        """Every pair whose target was not written exactly, and what was written."""
        both = zip(self.pairs, self.written, strict=True)
        return [(pair, text) for pair, text in both if text != pair.target]


def evaluate(
    model: Transformer,
    task: Task,
    split: str,
    *,
    beam_size: int = 1,
    length_penalty: float = 0.6,
    limit: int | None = None,
    max_tokens: int = 8192,
    between: Callable[[], None] | None = None,
) -> Evaluation:
    """Ask a model all pairs of a split.

    Pairs of similar length go together, so that little is padding and a batch is done
    when its short sentences are.

    Parameters
    ----------
    model
        Left as it is; dropout is off.
    task
        Gives pairs and vocabularies, and scores.
    split
        One of ``task.splits``.
    beam_size
        1 is greedy decoding, more is beam search.
    length_penalty
        Of beam search.
    limit
        Ask only the first pairs of the split; ``None`` is all.
    max_tokens
        Room of a batch, as in :class:`~transformer_lib.tasks.batches.Batches`; raised
        to the longest pair if that is more.
    between
        Called before each batch; what it raises ends the evaluation.

    Returns
    -------
    evaluation
        Loss, scores and texts.

    Raises
    ------
    ValueError
        If there is no such split, ``beam_size`` or ``limit`` is below 1, or a sentence
        is longer than the model's ``max_len``.

    Examples
    --------
    >>> from transformer_lib.nn import TransformerConfig
    >>> from transformer_lib.tasks import load_task
    >>> task = load_task("dates", train=10, validation=0, test=20)
    >>> sizes = len(task.source_vocabulary), len(task.target_vocabulary)
    >>> model = Transformer(
    ...     TransformerConfig.tiny(src_vocab_size=sizes[0], tgt_vocab_size=sizes[1])
    ... )
    >>> evaluate(model, task, "test").scores  # untrained
    {'exact_match': 0.0}
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit: got {limit}, wanted 1 or more, or None")
    pairs = list(task.pairs(split)[:limit])
    encoded = task.encode(pairs)
    longest = max((max(map(len, pair)) for pair in encoded), default=1)
    written = [""] * len(pairs)
    loss, tokens = 0.0, 0
    writer = _Writer(model, task.target_vocabulary, beam_size, length_penalty)
    for indices, batch in sorted_batches(encoded, max_tokens=max(max_tokens, longest)):
        if between is not None:
            between()
        loss += _loss(model, batch) * batch.target_tokens
        tokens += batch.target_tokens
        for i, text in zip(indices, writer.write(batch.source), strict=True):
            written[i] = text
    return Evaluation(split, loss / tokens, task.score(written, pairs), written, pairs)


def translate(
    model: Transformer,
    task: Task,
    texts: list[str],
    *,
    beam_size: int = 1,
    length_penalty: float = 0.6,
) -> list[str]:
    """Let a model write the targets of texts that somebody typed.

    Parameters
    ----------
    model
        Left as it is.
    task
        Gives the vocabularies; its data are not needed.
    texts
        Sources.
    beam_size, length_penalty
        As in :func:`evaluate`.

    Returns
    -------
    written
        One for each text.

    Raises
    ------
    ValueError
        If a text is empty, too long, or has a token that the vocabulary does not know.
    """
    vocabulary = task.target_vocabulary
    nothing = [vocabulary.bos_id, vocabulary.eos_id]
    sources = [EncodedPair(task.encode_source(text), nothing) for text in texts]
    if not sources:
        return []
    longest = max(len(pair.source) for pair in sources)
    writer = _Writer(model, vocabulary, beam_size, length_penalty)
    written = [""] * len(texts)
    for indices, batch in sorted_batches(sources, max_tokens=max(8192, longest, 2)):
        for i, text in zip(indices, writer.write(batch.source), strict=True):
            written[i] = text
    return written


class _Writer:
    """Greedy decoding or beam search, some sentences at a time."""

    def __init__(
        self,
        model: Transformer,
        vocabulary: Vocabulary,
        beam_size: int,
        length_penalty: float,
    ) -> None:
        if beam_size < 1:
            raise ValueError(f"beam_size: got {beam_size}, wanted 1 or more")
        self.device = model.head.device
        self.longest = model.config.max_len
        self.model = pack(model) if self.device.type == "cpu" else model
        self.vocabulary = vocabulary
        self.beam_size, self.length_penalty = beam_size, length_penalty

    def write(self, source: Tensor) -> list[str]:
        written = []
        for rows in torch.split(source, max(1, ROWS // self.beam_size)):
            ids = self._ids(rows.to(self.device))
            written += [self.vocabulary.decode(row) for row in ids.tolist()]
        return written

    def _ids(self, source: Tensor) -> Tensor:
        vocabulary = self.vocabulary
        # Nothing is written that is so much longer than its source.
        most = min(self.longest, 2 * source.shape[1] + 20)
        request = {
            "bos_id": vocabulary.bos_id,
            "eos_id": vocabulary.eos_id,
            "pad_id": vocabulary.pad_id,
            "max_len": most,
        }
        if self.beam_size == 1:
            return greedy(self.model, source, **request)
        return beam_search(
            self.model,
            source,
            beam_size=self.beam_size,
            length_penalty=self.length_penalty,
            **request,
        ).ids[:, 0]


def _loss(model: Transformer, batch: Batch) -> float:
    device = model.head.device
    with evaluating(model):
        return float(model.loss(batch.source.to(device), batch.target.to(device)))
