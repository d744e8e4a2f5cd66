"""Which German word for *it*? "The animal didn't cross the street because it was tired."

Every sentence of the grammar has ten words: *the <animal> didn't <verb> the <place>
because it was <adjective>*. The last word settles what *it* stands for: an animal can
be tired, a street can be wide. English hides the choice, German shows it: *it* becomes
*er*, *sie* or *es*, whichever goes with the German noun that is meant (*das Tier* is
*es*, *die Straße* is *sie*).

The sentence pair is that of the blog post which introduced the Transformer (Uszkoreit
2017, translating into French).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Bool, Int

__all__ = [
    "ADJECTIVES",
    "ANIMAL",
    "ANIMALS",
    "IT",
    "LAST",
    "PLACE",
    "PLACES",
    "PRONOUNS",
    "VERBS",
    "VOCABULARY",
    "Grammar",
    "encode",
    "grammar",
]

PRONOUNS = ("er", "sie", "es")
"""The three German words for *it*: the classes of the task."""

ANIMALS = {
    "animal": "es", "horse": "es", "sheep": "es",
    "dog": "er", "fox": "er", "donkey": "er",
    "cat": "sie", "cow": "sie", "goat": "sie",
}  # fmt: skip
"""Animal -> the German pronoun for it (das Tier, der Hund, die Katze, ...)."""

PLACES = {
    "street": "sie", "bridge": "sie", "meadow": "sie",
    "river": "er", "stream": "er", "canal": "er",
    "field": "es", "valley": "es", "moor": "es",
}  # fmt: skip
"""Place -> the German pronoun for it (die Straße, der Fluss, das Feld, ...)."""

VERBS = ("cross", "enter", "pass", "leave")

ADJECTIVES = {
    "tired": "animal", "afraid": "animal", "hungry": "animal",
    "sleepy": "animal", "ill": "animal", "shy": "animal",
    "wide": "place", "flooded": "place", "slippery": "place",
    "icy": "place", "foggy": "place", "blocked": "place",
}  # fmt: skip
"""Adjective -> which of the two nouns it can be said of."""

VOCABULARY = (
    "the", "didn't", "because", "it", "was",
    *ANIMALS, *PLACES, *VERBS, *ADJECTIVES,
)  # fmt: skip
"""Every word of the grammar; a word's id is its place in this list."""

ANIMAL, PLACE, IT, LAST = 1, 5, 7, 9
"""Positions in the sentence, counted from 0: the two nouns, *it*, the adjective."""

_IDS = {word: number for number, word in enumerate(VOCABULARY)}


@dataclass(frozen=True)
class Grammar:
    """All sentences of the grammar, one row each.

    Attributes
    ----------
    tokens
        Word ids, shape ``(3888, 10)``. The order is animal, place, verb, adjective,
        the last changing fastest.
    answers
        The right pronoun, 0 to 2, shape ``(3888,)``.
    referents
        Position of the noun that *it* stands for, ``ANIMAL`` or ``PLACE``.
    held_out
        ``True`` for the sentences of 18 of the 81 pairs of animal and place. These are
        kept from training; each noun has two such pairs, and (animal, street) is one.
    """

    tokens: Int[np.ndarray, "sentences 10"]
    answers: Int[np.ndarray, " sentences"]
    referents: Int[np.ndarray, " sentences"]
    held_out: Bool[np.ndarray, " sentences"]


def encode(sentence: str) -> Int[np.ndarray, " words"]:
    """Word ids of a sentence.

    Parameters
    ----------
    sentence
        Words of the vocabulary with spaces between them; case does not matter.

    Returns
    -------
    ids
        Shape ``(words,)``.

    Raises
    ------
    ValueError
        If a word is not in the vocabulary.

    Examples
    --------
    >>> encode("It was tired")
    array([ 3,  4, 27])
    """
    words = sentence.lower().split()
    for word in words:
        if word not in _IDS:
            raise ValueError(
                f"sentence: got {word!r}, wanted words of the grammar: "
                f"{', '.join(VOCABULARY)}"
            )
    return np.array([_IDS[word] for word in words])


def grammar() -> Grammar:
    """Write out the whole grammar.

    Examples
    --------
    >>> every = grammar()
    >>> print(*(VOCABULARY[i] for i in every.tokens[0]))
    the animal didn't cross the street because it was tired
    >>> PRONOUNS[every.answers[0]], bool(every.held_out[0])
    ('es', True)
    """
    sentences = list(_sentences())
    return Grammar(
        tokens=np.array([encode(text) for text, *_ in sentences]),
        answers=np.array([PRONOUNS.index(answer) for _, answer, *_ in sentences]),
        referents=np.array([referent for _, _, referent, _ in sentences]),
        held_out=np.array([held for *_, held in sentences]),
    )


def _sentences() -> Iterator[tuple[str, str, int, bool]]:
    pairs = product(enumerate(ANIMALS), enumerate(PLACES))
    for ((i, animal), (j, place)), verb, adjective in product(pairs, VERBS, ADJECTIVES):
        text = f"the {animal} didn't {verb} the {place} because it was {adjective}"
        of_animal = ADJECTIVES[adjective] == "animal"
        answer = ANIMALS[animal] if of_animal else PLACES[place]
        yield text, answer, ANIMAL if of_animal else PLACE, (i - j) % 9 in (0, 4)
