"""The small grammar of chapter 3, and what can be answered without turning *it*."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from transformer_lib.tasks.animal_street import (
    ADJECTIVES,
    ANIMAL,
    ANIMALS,
    IT,
    LAST,
    PLACE,
    PLACES,
    PRONOUNS,
    VERBS,
    VOCABULARY,
    encode,
    grammar,
)

EVERY = grammar()
WORDS = np.array(VOCABULARY)[EVERY.tokens]


def test_every_combination_occurs_once() -> None:
    assert EVERY.tokens.shape == (
        len(ANIMALS) * len(PLACES) * len(VERBS) * len(ADJECTIVES),
        10,
    )
    assert len({tuple(row) for row in EVERY.tokens.tolist()}) == len(EVERY.tokens)
    assert len(set(VOCABULARY)) == len(VOCABULARY)


def test_named_positions_hold_what_their_names_say() -> None:
    assert set(WORDS[:, ANIMAL]) == set(ANIMALS)
    assert set(WORDS[:, PLACE]) == set(PLACES)
    assert set(WORDS[:, IT]) == {"it"}
    assert set(WORDS[:, LAST]) == set(ADJECTIVES)


@pytest.mark.parametrize(
    ("sentence", "pronoun", "position"),
    [
        ("the animal didn't cross the street because it was tired", "es", ANIMAL),
        ("the animal didn't cross the street because it was wide", "sie", PLACE),
        ("the dog didn't leave the field because it was foggy", "es", PLACE),
        ("the cow didn't enter the river because it was shy", "sie", ANIMAL),
    ],
)
def test_answers_by_hand(sentence: str, pronoun: str, position: int) -> None:
    (row,) = np.flatnonzero((EVERY.tokens == encode(sentence)).all(axis=1))
    assert PRONOUNS[EVERY.answers[row]] == pronoun
    assert EVERY.referents[row] == position


def test_only_the_last_word_decides_what_it_stands_for() -> None:
    """Each beginning occurs with both readings, equally often."""
    readings: dict[tuple[str, ...], Counter[int]] = {}
    for words, referent in zip(WORDS[:, :LAST], EVERY.referents, strict=True):
        readings.setdefault(tuple(words), Counter())[int(referent)] += 1
    assert all(count == {ANIMAL: 6, PLACE: 6} for count in readings.values())


def test_held_out_pairs_are_unseen_in_training_but_their_words_are_not() -> None:
    pairs = [tuple(row) for row in WORDS[:, [ANIMAL, PLACE]]]
    held = {pair for pair, out in zip(pairs, EVERY.held_out, strict=True) if out}
    trained = {pair for pair, out in zip(pairs, EVERY.held_out, strict=True) if not out}
    assert ("animal", "street") in held
    assert len(held) == 18
    assert not held & trained
    assert Counter(a for a, _ in held) == dict.fromkeys(ANIMALS, 2)
    assert Counter(p for _, p in held) == dict.fromkeys(PLACES, 2)
    assert set(WORDS[~EVERY.held_out].flat) == set(VOCABULARY)


@pytest.mark.parametrize("which", ["held out", "training", "all"])
def test_a_third_of_the_pairs_needs_no_choice(which: str) -> None:
    """Both nouns have the same pronoun: chance levels in the chapter rest on this."""
    rows = {
        "held out": EVERY.held_out,
        "training": ~EVERY.held_out,
        "all": np.ones(len(EVERY.tokens), dtype=bool),
    }[which]
    same = [ANIMALS[a] == PLACES[p] for a, p in WORDS[rows][:, [ANIMAL, PLACE]]]
    assert np.mean(same) == pytest.approx(1 / 3)


def additive_accuracy(rng: np.random.Generator, rows: np.ndarray) -> float:
    """Best pronoun by a sum of one vector per word: all that one look can do."""
    votes = rng.normal(size=(len(VOCABULARY), 3)) * rng.exponential()
    logits = votes[EVERY.tokens].sum(axis=1)
    return float((logits.argmax(axis=1) == EVERY.answers)[rows].mean())


@pytest.mark.parametrize("held_out", [True, False])
def test_a_sum_of_votes_reaches_five_sixths_and_no_more(held_out: bool) -> None:
    rows = EVERY.held_out if held_out else ~EVERY.held_out
    rng = np.random.default_rng(0)
    assert max(additive_accuracy(rng, rows) for _ in range(200)) <= 5 / 6
    # Each noun votes for its pronoun, each adjective for a place in the order er, sie,
    # es: the choice follows the adjective for half of the unequal pairs, and sticks to
    # the animal for the other half.
    votes = np.zeros((len(VOCABULARY), 3))
    for nouns, strength in ((ANIMALS, (11, 10, 10)), (PLACES, (10, 9.9, 8.9))):
        for word, pronoun in nouns.items():
            number = PRONOUNS.index(pronoun)
            votes[VOCABULARY.index(word), number] = strength[number]
    for word, kind in ADJECTIVES.items():
        votes[VOCABULARY.index(word)] = np.arange(3) * (1 if kind == "animal" else -1)
    logits = votes[EVERY.tokens].sum(axis=1)
    right = (logits.argmax(axis=1) == EVERY.answers)[rows].mean()
    assert right == pytest.approx(5 / 6)


@pytest.mark.no_shape_hook
def test_a_word_outside_the_grammar_is_named() -> None:
    with pytest.raises(ValueError, match="sentence: got 'tram', wanted words of"):
        encode("the tram")
