"""What a task of sequence to sequence is: pairs of texts, vocabularies and a score."""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from transformer_lib.tasks.vocabulary import (
    CharacterVocabulary,
    SubwordVocabulary,
    Vocabulary,
    WordVocabulary,
    vocabulary_from_dict,
)

__all__ = [
    "CharacterVocabulary",
    "EncodedPair",
    "Metric",
    "Pair",
    "SubwordVocabulary",
    "Task",
    "Vocabulary",
    "WordVocabulary",
    "exact_match",
    "vocabulary_from_dict",
]

Metric = Literal["exact_match", "bleu"]


class Pair(NamedTuple):
    """A text and what it should become."""

    source: str
    target: str


class EncodedPair(NamedTuple):
    """The same in token numbers: the source bare, the target between start and end."""

    source: list[int]
    target: list[int]


class Task(ABC):
    """Pairs of texts in splits, the vocabularies of both sides, and how to score.

    Making a task reads no data; the first call of :meth:`pairs` for a split, or the
    first look at a vocabulary, does.

    Attributes
    ----------
    name
        By which :func:`transformer_lib.tasks.load_task` finds it.
    metric
        Key of the number in what :meth:`score` returns that says how good a model is,
        in percent.
    splits
        ``"train"``, ``"validation"``, then the test sets.
    pool
        How many batches' worth of pairs :class:`~transformer_lib.tasks.Batches` should
        sort by length together.
    max_len
        No source or target of the task has more tokens, start and end included.
    """

    name: ClassVar[str]
    metric: ClassVar[Metric] = "exact_match"
    splits: tuple[str, ...] = ("train", "validation", "test")
    pool: ClassVar[int] = 64

    def __init__(self) -> None:
        self._pairs: dict[str, list[Pair]] = {}
        self._vocabularies: tuple[Vocabulary, Vocabulary] | None = None

    # --- what a task must say ---------------------------------------------------------

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Return the arguments that make this task again, ready for JSON."""

    @property
    @abstractmethod
    def max_len(self) -> int:
        """Longest source or target in tokens, start and end included."""

    @abstractmethod
    def _read(self, split: str) -> list[Pair]:
        """Make the pairs of one split."""

    @abstractmethod
    def _make_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """Make the vocabularies of source and target; twice the same one if shared."""

    def prepare(self, text: str) -> str:
        """Bring a source text that somebody typed to the form that the task uses."""
        return " ".join(unicodedata.normalize("NFC", text).split())

    # --- the same for all -------------------------------------------------------------

    def pairs(self, split: str) -> Sequence[Pair]:
        """Return the pairs of one split, always in the same order.

        Raises
        ------
        ValueError
            If there is no such split.
        """
        if split not in self.splits:
            raise ValueError(
                f"split: got {split!r}, wanted one of {', '.join(self.splits)}"
            )
        if split not in self._pairs:
            self._pairs[split] = self._read(split)
        return self._pairs[split]

    @property
    def source_vocabulary(self) -> Vocabulary:
        """Numbers of the source's tokens."""
        return self._both()[0]

    @property
    def target_vocabulary(self) -> Vocabulary:
        """Numbers of the target's tokens; the same object if one table serves both."""
        return self._both()[1]

    def _both(self) -> tuple[Vocabulary, Vocabulary]:
        if self._vocabularies is None:
            self._vocabularies = self._make_vocabularies()
        return self._vocabularies

    @property
    def shares_vocabulary(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.source_vocabulary is self.target_vocabulary

    def vocabularies(self) -> dict[str, Any]:
        """Return both vocabularies, ready for JSON: a checkpoint keeps them.

        Returns
        -------
        dict
            ``"source"`` and ``"target"``; the latter is ``None`` if they are shared.
        """
        target = None if self.shares_vocabulary else self.target_vocabulary.to_dict()
        return {"source": self.source_vocabulary.to_dict(), "target": target}

    def set_vocabularies(self, saved: Mapping[str, Any]) -> None:
        """Use the vocabularies of a checkpoint instead of making them from the data.

        Then texts can be translated where the data are not at hand.

        Raises
        ------
        ValueError
            If ``saved`` is not what :meth:`vocabularies` returned.
        """
        if set(saved) != {"source", "target"}:
            raise ValueError(
                f"saved: got the keys {sorted(saved)}, wanted source and target"
            )
        source = vocabulary_from_dict(saved["source"])
        target = saved["target"]
        self._vocabularies = (
            source,
            source if target is None else vocabulary_from_dict(target),
        )

    def encode(self, pairs: Sequence[Pair]) -> list[EncodedPair]:
        """Return the pairs in token numbers, the target between start and end.

        Raises
        ------
        ValueError
            If a text has a token that the vocabulary does not know, or a pair is longer
            than :attr:`max_len`.
        """
        sources = self.source_vocabulary.encode_all([pair.source for pair in pairs])
        target = self.target_vocabulary
        targets = target.encode_all([pair.target for pair in pairs])
        encoded = [
            EncodedPair(source, [target.bos_id, *ids, target.eos_id])
            for source, ids in zip(sources, targets, strict=True)
        ]
        most = self.max_len
        for pair, numbers in zip(pairs, encoded, strict=True):
            longer = max(map(len, numbers))
            if longer > most:
                raise ValueError(
                    f"pairs: got one of {longer} tokens, wanted at most max_len={most}: "
                    f"{pair.source!r}"
                )
        return encoded

    def encode_source(self, text: str) -> list[int]:
        """Return the token numbers of a source text that somebody typed.

        Raises
        ------
        ValueError
            If the text is empty, longer than :attr:`max_len` tokens, or has a token
            that the vocabulary does not know.
        """
        ids = self.source_vocabulary.encode(self.prepare(text))
        if not ids:
            raise ValueError(f"text: got {text!r}, wanted at least one character")
        if len(ids) > self.max_len:
            raise ValueError(
                f"text: got {len(ids)} tokens, wanted at most {self.max_len}: {text!r}"
            )
        return ids

    def score(
        self, written: Sequence[str], pairs: Sequence[Pair]
    ) -> dict[str, float | str]:
        """Compare what a model wrote for the sources with the targets.

        Returns
        -------
        dict
            At least :attr:`metric` in percent.

        Raises
        ------
        ValueError
            If there are not as many texts as pairs, or none.
        """
        return {"exact_match": exact_match(written, pairs)}

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.options().items())
        return f"{type(self).__name__}({given})"


def exact_match(written: Sequence[str], pairs: Sequence[Pair]) -> float:
    """Return the percentage of texts that equal their target in every character.

    Raises
    ------
    ValueError
        If there are not as many texts as pairs, or none.

    Examples
    --------
    >>> exact_match(["1914-07-03", "2"], [Pair("3.7.1914", "1914-07-03"), Pair("1", "1")])
    50.0
    """
    check_written(written, pairs)
    right = sum(text == pair.target for text, pair in zip(written, pairs, strict=True))
    return 100.0 * right / len(pairs)


def check_written(written: Sequence[str], pairs: Sequence[Pair]) -> None:
    """Raise unless there is one written text for each of at least one pair."""
    if len(written) != len(pairs) or not pairs:
        raise ValueError(
            f"written: got {len(written)} texts for {len(pairs)} pairs, "
            "wanted one for each, and at least one"
        )
