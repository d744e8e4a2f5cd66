"""Subject-verb agreement across relative clauses: *the chef who saw the dogs ... was*.

The verb agrees with the second word, however many nouns come in between. Each noun in
between is singular or plural by a coin of its own, so that counting them says nothing
about the answer (Linzen, Dupoux and Goldberg 2016 call such nouns attractors).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

__all__ = ["TOKENS_PER_CLAUSE", "VERBS", "VOCABULARY", "agreement_batch", "sentence"]

_NOUNS = ("chef", "dog", "girl", "king", "bird", "guest", "pilot", "friend")
_ACTIONS = ("saw", "heard", "liked", "met")

VOCABULARY = ("the", "who", *_ACTIONS, *_NOUNS, *(noun + "s" for noun in _NOUNS))
"""The words by id."""

VERBS = ("was", "were")
"""The two answers: 0 for a singular subject, 1 for a plural one."""

TOKENS_PER_CLAUSE = 4
"""*who*, an action, *the*, a noun."""

_FIRST_ACTION = 2
_FIRST_NOUN = _FIRST_ACTION + len(_ACTIONS)


def agreement_batch(
    clauses: int,
    count: int,
    generator: torch.Generator,
    same_number: float | int = 0.5,
) -> tuple[Int[Tensor, "count n"], Int[Tensor, " count"]]:
    """Draw beginnings of sentences, up to where the verb must come.

    Parameters
    ----------
    clauses
        Relative clauses between subject and verb, 0 or more.
    count
        How many beginnings.
    generator
        Source of the random numbers.
    same_number
        How probable it is that a noun in between has the subject's number. At 0.5 they
        are independent; anything else lets them give the answer away.

    Returns
    -------
    tuple of Tensor
        Word ids, ``(count, 2 + 4 * clauses)``, and 1 where the subject is plural,
        ``(count,)``.

    Raises
    ------
    ValueError
        If ``clauses`` or ``count`` is negative, or ``same_number`` no probability.

    Examples
    --------
    >>> ids, plural = agreement_batch(1, 1, torch.Generator().manual_seed(1))
    >>> ids.shape, plural.shape
    (torch.Size([1, 6]), torch.Size([1]))
    """
    for name, value in (("clauses", clauses), ("count", count)):
        if value < 0:
            raise ValueError(f"{name}: got {value}, wanted 0 or more")
    if not 0.0 <= same_number <= 1.0:
        raise ValueError(
            f"same_number: got {same_number}, wanted a probability from 0 to 1"
        )

    def draw(below: int, *shape: int) -> Tensor:
        return torch.randint(below, shape, generator=generator)

    plural = draw(2, count)
    same = torch.rand(count, clauses, generator=generator) < same_number
    number = torch.cat(
        [plural[:, None], torch.where(same, plural[:, None], 1 - plural[:, None])], 1
    )
    nouns = _FIRST_NOUN + draw(len(_NOUNS), count, 1 + clauses) + len(_NOUNS) * number
    ids = torch.zeros(count, 2 + TOKENS_PER_CLAUSE * clauses, dtype=torch.int64)
    ids[:, 1::TOKENS_PER_CLAUSE] = nouns
    ids[:, 2::TOKENS_PER_CLAUSE] = VOCABULARY.index("who")
    ids[:, 3::TOKENS_PER_CLAUSE] = _FIRST_ACTION + draw(len(_ACTIONS), count, clauses)
    return ids, plural


def sentence(ids: Int[Tensor, " n"] | Sequence[int]) -> str:
    """The words of one row of ids, with spaces in between.

    Raises
    ------
    ValueError
        If an id is not in the vocabulary.

    Examples
    --------
    >>> sentence([0, 6, 1, 2, 0, 15])
    'the chef who saw the dogs'
    """
    numbers = [int(i) for i in ids]
    for number in numbers:
        if not 0 <= number < len(VOCABULARY):
            raise ValueError(f"ids: got {number}, wanted 0 to {len(VOCABULARY) - 1}")
    return " ".join(VOCABULARY[number] for number in numbers)
