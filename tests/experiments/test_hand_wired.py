"""The model wired by hand answers everything, and each piece of it is needed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from transformer_lib.experiments.hand_wired import (
    LANES,
    LENGTH,
    START,
    WIDTH,
    Head,
    accuracy,
    answers,
    apply_head,
    every_text,
    induction_head,
    past_and_self,
    previous_token_head,
    stream,
    texts,
)

TEXTS = texts(100, seed=0)


@pytest.mark.parametrize("seed", range(5))
def test_every_answer_is_right_with_a_start_token(seed: int) -> None:
    right, asked = accuracy(texts(100, seed))
    assert right == asked > 800


def test_every_answer_to_every_text_is_right() -> None:
    """No draw is left to luck: these are all texts with one follower per letter."""
    every = every_text()
    assert len(set(every)) == len(every) == 9786
    assert set(TEXTS) <= set(every)
    right, asked = accuracy(every)
    assert right == asked == 66_546


def test_without_a_start_token_some_answers_are_wrong() -> None:
    """Position 0 has no left neighbour, so it claims to be its own."""
    right, asked = accuracy(TEXTS, start=False)
    assert 0.9 * asked < right < asked


def test_answers_by_hand() -> None:
    #                 ^ c a d c a d: from the second c on, each letter has been there
    assert answers("^cadcad")[4:] == ["a", "d", "c"]


def test_every_weight_is_a_whole_number() -> None:
    for head in (previous_token_head(), induction_head()):
        for matrix in head:
            assert matrix.dtype.kind == "i"


def test_lanes_fill_the_stream_without_overlap() -> None:
    columns = np.concatenate([np.arange(WIDTH)[lane] for lane in LANES.values()])
    np.testing.assert_array_equal(columns, np.arange(WIDTH))


def test_first_head_writes_each_left_neighbour_into_the_empty_lane() -> None:
    text = "^fadebcfadebc"
    X = stream(text)
    assert not X[:, LANES["previous"]].any()
    written, weights = apply_head(previous_token_head(), X)
    np.testing.assert_allclose(
        written[1:, LANES["previous"]], X[:-1, LANES["token"]], atol=1e-4
    )
    assert not written[:, : LANES["previous"].start].any()
    np.testing.assert_allclose(weights[0], 1 / LENGTH)  # ^ asks for nobody
    np.testing.assert_allclose(np.diagonal(weights, -1), 1, atol=1e-4)


def planted(name: str) -> dict[str, Head]:
    """One piece of the wiring gone wrong."""
    first, second = previous_token_head(), induction_head()
    faults: dict[str, dict[str, Any]] = {
        "asks for itself": {"first": first._replace(W_Q=50 * first.W_K)},
        "asks for the right neighbour": {
            "first": first._replace(W_Q=np.roll(first.W_Q, -1, axis=0))
        },
        "writes nothing": {"first": first._replace(W_O=0 * first.W_O)},
        "asks too quietly": {"first": previous_token_head(strength=1)},
        "answers with the token": {
            "second": second._replace(W_K=(second.W_Q > 0).astype(int))
        },
        "hands over the left neighbour": {
            "second": second._replace(W_V=np.roll(second.W_V, 20, axis=0))
        },
    }
    return faults[name]


@pytest.mark.parametrize(
    "fault",
    [
        "asks for itself",
        "asks for the right neighbour",
        "writes nothing",
        "asks too quietly",
        "answers with the token",
        "hands over the left neighbour",
    ],
)
def test_a_fault_in_the_wiring_shows(fault: str) -> None:
    right, asked = accuracy(TEXTS, **planted(fault))
    assert right < asked


def test_texts_have_one_follower_per_letter() -> None:
    for text in TEXTS:
        followers: dict[str, set[str]] = {}
        for letter, after in pairwise(text):
            followers.setdefault(letter, set()).add(after)
        assert len(text) == LENGTH - 1
        assert all(len(found) == 1 for found in followers.values())
    assert texts(5, seed=1) == texts(5, seed=1) != texts(5, seed=2)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "text: got 0 symbols, wanted 1 to 13"),
        (START + "a" * 13, "text: got 14 symbols"),
        ("^ax", "text: got 'x', wanted symbols of"),
    ],
)
def test_a_text_that_does_not_fit_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stream(text)


@pytest.mark.parametrize("head", [previous_token_head, induction_head])
def test_strength_below_one_is_named(head: Any) -> None:
    with pytest.raises(ValueError, match="strength: got 0, wanted 1 or more"):
        head(0)


def test_without_a_mask_the_model_knows_what_it_cannot_know() -> None:
    """A letter that has not occurred has no answer in the past; the future has it."""

    def known_of_first_letters(mask: object) -> tuple[int, int]:
        right = asked = 0
        for text in texts(40, seed=0):
            given = answers(START + text, first_mask=mask, second_mask=mask)[1:]  # type: ignore[arg-type]
            for i, letter in enumerate(text[:-1]):
                if letter not in text[:i]:
                    asked += 1
                    right += given[i] == text[i + 1]
        return right, asked

    right, asked = known_of_first_letters(lambda n: np.ones((n, n), dtype=bool))
    assert right == asked > 50
    right, asked = known_of_first_letters(past_and_self)
    assert right < asked / 2


def test_a_first_token_that_sees_nothing_needs_no_beginning_of_sequence() -> None:
    def strict(n: int) -> np.ndarray:
        return np.tri(n, k=-1, dtype=bool)

    def score(mask: object) -> tuple[int, int]:
        right = asked = 0
        for text in texts(100, seed=0):
            given = answers(text, first_mask=mask)  # type: ignore[arg-type]
            for i, letter in enumerate(text):
                last = text.rfind(letter, 0, i)
                if last >= 0:
                    asked += 1
                    right += given[i] == text[last + 1]
        return right, asked

    assert score(strict) == (944, 944)
    assert score(past_and_self) == (903, 944)
