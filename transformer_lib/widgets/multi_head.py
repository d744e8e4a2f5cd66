"""Heads: the same queries and keys, cut into more and narrower heads.

The queries and keys are set by hand. They have eight columns with names, so that it can
be said what a head asks for; nothing here is trained.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import traitlets

from transformer_lib.reference.attention import attention
from transformer_lib.reference.cost import (
    attention_flops,
    multi_head_attention_flops,
    score_bytes,
)
from transformer_lib.reference.multi_head import split_heads
from transformer_lib.widgets.base import (
    HINT,
    Number,
    NumberTable,
    StateError,
    Texts,
    Widget,
    fixed,
    table,
)

__all__ = ["COLUMNS", "SENTENCES", "Heads", "Sentence", "cost", "hand_set"]

COLUMNS = (
    "thing", "place", "person", "name", "event", "position", "link", "article",
)  # fmt: skip
"""What the eight columns of queries and keys are about."""

D_MODEL = len(COLUMNS)
LAYER_WIDTH = 512
"""Width of the layer whose cost is shown: that of the base model of 2017."""

SENTENCES = (
    "I went to Stanford CS224n and learned",
    "the goat ate the grass and slept",
    "Ada read a book in bed and smiled",
)

_KINDS = {
    "person": ("I", "goat", "Ada"),
    "event": ("went", "learned", "ate", "slept", "read", "smiled"),
    "place": ("Stanford", "bed"),
    "thing": ("CS224n", "grass", "book"),
    "link": ("to", "and", "in"),
    "article": ("the", "a"),
}
_NAMES = ("I", "Stanford", "CS224n", "Ada")

_ASKS = {
    # thing, place, person, name | event, position, link, article
    "event": (10, 4, 0, 0, 8, -1, 0, 0),  # what? | when? after an earlier event
    "person": (6, 0, 0, 0, 8, -1, 0, 0),
    "place": (0, 0, 8, 0, 6, 0, 0, 0),
    "thing": (0, 8, 0, 0, 8, 1, 0, 0),
    "link": (0, 0, 0, 6, 8, 0, 0, 0),
    "article": (6, 6, 6, 0, 0, 0, 0, 0),
}


class Sentence(NamedTuple):
    """A sentence with its hand-set queries and keys.

    Attributes
    ----------
    words
        The ``n`` words.
    Q, K
        Whole numbers, shape ``(n, 8)``, with the columns of :data:`COLUMNS`.
    """

    words: list[str]
    Q: np.ndarray
    K: np.ndarray


def hand_set(text: str) -> Sentence:
    """Set queries and keys of a sentence by hand.

    Parameters
    ----------
    text
        Words of the three :data:`SENTENCES`, separated by blanks.

    Returns
    -------
    sentence
        Words, queries and keys.

    Raises
    ------
    ValueError
        If a word is unknown.

    Examples
    --------
    >>> words, Q, K = hand_set("I went")
    >>> Q.tolist()[1], K.tolist()[1]
    ([10, 4, 0, 0, 8, -1, 0, 0], [0, 0, 0, 0, 1, 1, 0, 0])
    """
    kind_of = {word: kind for kind, words in _KINDS.items() for word in words}
    words = text.split()
    for word in words:
        if word not in kind_of:
            raise ValueError(
                f"text: got the word {word!r}, wanted {', '.join(kind_of)}"
            )
    kinds = [kind_of[word] for word in words]
    keys = []
    for position, (word, kind) in enumerate(zip(words, kinds, strict=True)):
        about = {kind: 1, "position": position, "name": int(word in _NAMES)}
        keys.append([about.get(column, 0) for column in COLUMNS])
    return Sentence(words, np.array([_ASKS[kind] for kind in kinds]), np.array(keys))


def cost(n: int, num_heads: int) -> dict[str, int]:
    """Count what a layer of width 512 costs.

    Parameters
    ----------
    n
        Tokens.
    num_heads
        Must divide 512.

    Returns
    -------
    cost
        ``d_head``; multiplications of the four ``projections`` and of the ``core``
        (scores and averages of all heads); ``bytes`` of all scores in float32; and
        ``rank``, what the rank of one head's scores cannot exceed.
    """
    d_head = LAYER_WIDTH // num_heads
    core = attention_flops(n, n, LAYER_WIDTH)
    return {
        "d_head": d_head,
        "projections": (multi_head_attention_flops(n, n, LAYER_WIDTH) - core) // 2,
        "core": core // 2,
        "bytes": score_bytes(n, n, num_heads),
        "rank": min(n, d_head),
    }


def big(count: int) -> str:
    """Write a count with three digits and a unit: thousand, million, billion.

    Examples
    --------
    >>> big(262144), big(1073741824), big(64)
    ('262 thousand', '1.07 billion', '64')
    """
    for unit, name in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if count >= unit:
            share = count / unit
            return (
                f"{fixed(share, 2 if share < 10 else 1 if share < 100 else 0)} {name}"
            )
    return str(count)


def memory(size: int) -> str:
    """Write bytes in binary units.

    Examples
    --------
    >>> memory(4 * 1024 * 1024), memory(1024), memory(3 * 2**30)
    ('4 MiB', '1 KiB', '3 GiB')
    """
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << power:
            return f"{size / (1 << power):g} {name}"
    return f"{size} B"


def _stacked(letter: str) -> list[list[int]]:
    """The queries or keys of all sentences below each other, as plain data."""
    rows: list[list[int]] = []
    for text in SENTENCES:
        rows += getattr(hand_set(text), letter).tolist()
    return rows


def _power_of_two(name: str, value: int, wanted: str) -> int:
    if value & (value - 1):
        raise StateError(f"{name}: got {value}, wanted {wanted}")
    return value


class Heads(Widget):
    """One wide head or several narrow ones? Maps, ranks and cost.

    Parameters
    ----------
    sentence
        0, 1 or 2: which of :data:`SENTENCES`.
    num_heads
        1, 2, 4 or 8.
    asks
        Position of the word whose reading is told; the last one if left out.
    length
        Tokens of the layer whose cost is shown: a power of two, 16 to 8192.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> Heads(num_heads=4)
    Heads(sentence=0, num_heads=4, asks=6, length=1024)
    """

    name = "multi_head"
    question = "One wide head or several narrow ones?"
    in_repr = ("sentence", "num_heads", "asks", "length")
    sentences = Texts(SENTENCES)
    columns = Texts(COLUMNS)
    Q = NumberTable(_stacked("Q"), -20, 20, D_MODEL, whole=True, constant=True)
    K = NumberTable(_stacked("K"), -20, 20, D_MODEL, whole=True, constant=True)
    sentence = Number(0, 0, 2, whole=True)
    num_heads = Number(2, 1, 8, whole=True)
    asks = Number(6, 0, 7, whole=True)
    length = Number(1024, 16, 8192, whole=True)

    def __init__(
        self,
        sentence: int = 0,
        num_heads: int = 2,
        asks: int | None = None,
        length: int = 1024,
    ) -> None:
        last = len(SENTENCES[sentence].split()) - 1 if sentence in (0, 1, 2) else 0
        super().__init__(
            sentence=sentence,
            num_heads=num_heads,
            asks=last if asks is None else asks,
            length=length,
        )
        if self.asks > last:
            raise StateError(f"asks: got {asks}, wanted a position from 0 to {last}")

    @traitlets.validate("num_heads")
    def _check_heads(self, proposal: Any) -> int:
        return _power_of_two("num_heads", proposal["value"], "1, 2, 4 or 8")

    @traitlets.validate("length")
    def _check_length(self, proposal: Any) -> int:
        return _power_of_two("length", proposal["value"], "a power of two")

    def results(self) -> dict[str, Any]:
        """Compute what is shown.

        Returns
        -------
        results
            ``weights`` of shape ``(num_heads, n, n)``, ``ranks`` of the scores of each
            head, and :func:`cost` of the wide layer under ``cost``.
        """
        words, Q, K = hand_set(SENTENCES[self.sentence])
        q, k = (split_heads(Z, self.num_heads) for Z in (Q, K))
        itself = np.broadcast_to(
            np.eye(len(words)), (self.num_heads, *2 * (len(words),))
        )
        _, weights = attention(q, k, itself)
        ranks = np.linalg.matrix_rank(q @ k.swapaxes(-1, -2))
        return {
            "weights": weights,
            "ranks": [int(rank) for rank in ranks],
            "cost": cost(self.length, self.num_heads),
        }

    def static_view(self) -> str:
        """Write what the asking word reads in each head, and the cost, as a table."""
        words = SENTENCES[self.sentence].split()
        found = self.results()
        rows = [
            (
                f"head {head + 1}, rank {found['ranks'][head]}",
                *(fixed(weight, 2) for weight in weights[self.asks]),
            )
            for head, weights in enumerate(found["weights"])
        ]
        return (
            f"{table((f'{words[self.asks]} reads', *words), rows)}\n"
            f"<p>{self._cost_in_words(found['cost'])}</p>\n<p>{HINT}</p>"
        )

    def _cost_in_words(self, counted: dict[str, int]) -> str:
        heads = "1 head" if self.num_heads == 1 else f"{self.num_heads} heads"
        return (
            f"A layer of width {LAYER_WIDTH} over {self.length} tokens with {heads}: "
            f"{big(counted['projections'] + counted['core'])} multiplications, "
            f"{memory(counted['bytes'])} of scores, "
            f"rank at most {counted['rank']} in each head."
        )
