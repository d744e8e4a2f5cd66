"""Misspelt months: one slip each, and letter pairs that survive it."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib.tasks.months import (
    MONTHS,
    letter_pair_vectors,
    letter_pairs,
    misspell,
    misspelt,
)

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=12)


def one_slip_apart(word: str, typed: str) -> bool:
    """Whether one swap of neighbours, one drop or one replacement explains it."""
    drops = {word[:i] + word[i + 1 :] for i in range(len(word))}
    swaps = {
        word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)
    }
    replaced = len(word) == len(typed) and (
        sum(a != b for a, b in zip(word, typed, strict=True)) <= 1
    )
    return typed in drops or typed in swaps or replaced


Misspell = Callable[[str, random.Random], str]


def slips_are_single(slip: Misspell) -> None:
    generator = random.Random(0)
    for word in MONTHS * 20:
        assert one_slip_apart(word, slip(word, generator))


def every_kind_of_slip_occurs(slip: Misspell) -> None:
    generator = random.Random(1)
    typed = [slip("march", generator) for _ in range(300)]
    assert any(len(word) == 4 for word in typed)
    assert any(sorted(word) == sorted("march") and word != "march" for word in typed)
    assert any(len(word) == 5 and set(word) - set("march") for word in typed)
    assert {"amrch", "marhc"} <= set(typed)  # at both ends too
    assert {"arch", "marc"} <= set(typed)


PROPERTIES: dict[Callable[[Misspell], None], list[Misspell]] = {
    slips_are_single: [
        lambda word, generator: misspell(misspell(word + "x", generator), generator),
        lambda word, generator: "".join(generator.sample(word, len(word))),
    ],
    every_kind_of_slip_occurs: [
        lambda word, generator: word,
        lambda word, generator: word[:-1],
        lambda word, generator: word[0] + misspell(word[1:], generator),
    ],
}


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda f: f.__name__)
def test_misspell(holds: Callable[[Misspell], None]) -> None:
    holds(misspell)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda f: f.__name__)
def test_property_of_misspell_rejects_faults(holds: Callable[[Misspell], None]) -> None:
    for fault in PROPERTIES[holds]:
        with pytest.raises(AssertionError):
            holds(fault)


def test_every_month_is_misspelt_equally_often_and_the_seed_decides_how() -> None:
    pairs = misspelt(per_month=7, seed=2)
    months = [month for _, month in pairs]
    assert [months.count(month) for month in range(12)] == [7] * 12
    assert all(one_slip_apart(MONTHS[month], word) for word, month in pairs)
    assert pairs == misspelt(7, 2) != misspelt(7, 3)


@settings(deadline=None, max_examples=60)
@given(words=st.lists(WORDS, min_size=1, max_size=6))
def test_rows_have_length_one_and_likeness_is_symmetric_and_bounded(
    words: list[str],
) -> None:
    vectors = letter_pair_vectors(words)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-12)
    likeness = vectors @ vectors.T
    np.testing.assert_allclose(likeness, likeness.T, atol=1e-12)
    assert (likeness >= 0).all()
    assert (likeness <= 1 + 1e-12).all()
    for i, first in enumerate(words):
        for j, second in enumerate(words):
            shares = bool(set(letter_pairs(first)) & set(letter_pairs(second)))
            assert (likeness[i, j] > 0) == shares


def test_juny_is_as_near_to_june_as_to_july() -> None:
    june, july, juny = letter_pair_vectors(["june", "july", "juny"])
    # It shares ^j ju un with June and ^j ju y$ with July, three of five pairs each.
    assert abs(juny @ june - juny @ july) < 1e-12
    assert abs(juny @ june - 3 / 5) < 1e-12


def test_pair_that_repeats_counts_twice() -> None:
    vectors = letter_pair_vectors(["anan", "an"])
    # ^a an na an n$ and ^a an n$: (1·1 + 2·1 + 1·1) / (sqrt 7 · sqrt 3)
    assert abs(vectors[0] @ vectors[1] - 4 / np.sqrt(21)) < 1e-12


@pytest.mark.no_shape_hook
def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="words: got none"):
        letter_pair_vectors([])
    with pytest.raises(ValueError, match="per_month: got 0, wanted 1 or more"):
        misspelt(per_month=0)
    with pytest.raises(ValueError, match="word: got 'x', wanted two letters or more"):
        misspell("x", random.Random(0))
