"""Misspelt month names: a table that a dictionary cannot look up and a soft lookup can.

Keys are letter pairs. ``may`` with its ends marked is ``^may$`` and holds the pairs
``^m ma ay y$``; a misspelling keeps most of them.
"""

import random
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

__all__ = ["MONTHS", "letter_pair_vectors", "letter_pairs", "misspell", "misspelt"]

MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def letter_pairs(word: str) -> list[str]:
    """Return the pairs of neighbouring characters of ``^word$``.

    Examples
    --------
    >>> letter_pairs("may")
    ['^m', 'ma', 'ay', 'y$']
    """
    marked = f"^{word}$"
    return [marked[i : i + 2] for i in range(len(marked) - 1)]


def letter_pair_vectors(words: Sequence[str]) -> Float[np.ndarray, "words pairs"]:
    """Count each word's letter pairs and scale each row to length 1.

    Words that share most of their pairs get vectors with a dot product near 1; words
    that share none are orthogonal.

    Parameters
    ----------
    words
        At least one word. Characters outside a to z are allowed.

    Returns
    -------
    vectors
        One row per word, one column per pair that occurs in any of the words, sorted.

    Raises
    ------
    ValueError
        If there are no words.

    Examples
    --------
    >>> vectors = letter_pair_vectors(["june", "july", "may"])
    >>> (vectors @ vectors.T).round(2)
    array([[1.  , 0.4 , 0.  ],
           [0.4 , 1.  , 0.22],
           [0.  , 0.22, 1.  ]])
    """
    if not words:
        raise ValueError("words: got none, wanted at least one")
    pairs = [letter_pairs(word) for word in words]
    column = {pair: i for i, pair in enumerate(sorted(set().union(*pairs)))}
    counts = np.zeros((len(words), len(column)))
    for row, word_pairs in zip(counts, pairs, strict=True):
        for pair in word_pairs:
            row[column[pair]] += 1
    vectors: np.ndarray = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    return vectors


def misspell(word: str, generator: random.Random) -> str:
    """Swap two neighbours, drop a letter, or replace one, as a hasty typist does.

    The result can be the word itself (two equal neighbours swapped, a letter replaced
    by itself).

    Parameters
    ----------
    word
        At least two letters.
    generator
        Decides what goes wrong and where.

    Raises
    ------
    ValueError
        If the word has fewer than two letters.
    """
    if len(word) < 2:
        raise ValueError(f"word: got {word!r}, wanted two letters or more")
    slip = generator.choice(("swap", "drop", "replace"))
    if slip == "swap":
        i = generator.randrange(len(word) - 1)
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    i = generator.randrange(len(word))
    if slip == "drop":
        return word[:i] + word[i + 1 :]
    return word[:i] + generator.choice(LETTERS) + word[i + 1 :]


def misspelt(per_month: int = 50, seed: int = 0) -> list[tuple[str, int]]:
    """Return ``per_month`` misspellings of every month, each with the month's number.

    Parameters
    ----------
    per_month
        How many of each, 1 or more. The same misspelling may occur twice.
    seed
        Same seed, same misspellings.

    Returns
    -------
    list of (text, month)
        ``month`` counts from 0, January.

    Raises
    ------
    ValueError
        If ``per_month`` is below 1.
    """
    if per_month < 1:
        raise ValueError(f"per_month: got {per_month}, wanted 1 or more")
    generator = random.Random(seed)
    return [
        (misspell(name, generator), month)
        for month, name in enumerate(MONTHS)
        for _ in range(per_month)
    ]
