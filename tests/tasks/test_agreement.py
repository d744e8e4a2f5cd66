from __future__ import annotations

import pytest
import torch

from transformer_lib.tasks.agreement import (
    TOKENS_PER_CLAUSE,
    VERBS,
    VOCABULARY,
    agreement_batch,
    sentence,
)

COUNT = 20_000


def draw(clauses: int, count: int = COUNT, seed: int = 0, **options: float):
    return agreement_batch(
        clauses, count, torch.Generator().manual_seed(seed), **options
    )


def is_plural(ids: torch.Tensor) -> torch.Tensor:
    return torch.tensor([w.endswith("s") for w in VOCABULARY])[ids]


def nouns_between(ids: torch.Tensor) -> torch.Tensor:
    return ids[:, 1 + TOKENS_PER_CLAUSE :: TOKENS_PER_CLAUSE]


def test_every_beginning_is_grammatical() -> None:
    nouns = {w for w in VOCABULARY if w.rstrip("s") in ("chef", "dog", "girl", "king")}
    nouns |= {w for w in VOCABULARY if w.rstrip("s") in ("bird", "guest", "pilot")}
    nouns |= {"friend", "friends"}
    ids, _ = draw(3, 200)
    for row in ids:
        said = sentence(row).split()
        assert said[0] == "the"
        assert said[1] in nouns
        for k in range(2, len(said), TOKENS_PER_CLAUSE):
            who, action, the, noun = said[k : k + TOKENS_PER_CLAUSE]
            assert (who, the) == ("who", "the")
            assert action in ("saw", "heard", "liked", "met")
            assert noun in nouns


def test_the_answer_is_the_number_of_the_second_word() -> None:
    ids, plural = draw(2)
    assert torch.equal(is_plural(ids[:, 1]).long(), plural)
    assert VERBS == ("was", "were")


@pytest.mark.parametrize("clauses", [0, 1, 16])
def test_length_is_two_and_four_for_each_clause(clauses: int) -> None:
    ids, plural = draw(clauses, 3)
    assert ids.shape == (3, 2 + 4 * clauses)
    assert ids.dtype == plural.dtype == torch.int64


def majority_accuracy(ids: torch.Tensor, plural: torch.Tensor) -> float:
    """Guess the number that most nouns in between have, or its opposite if that pays."""
    right = (is_plural(nouns_between(ids)).float().mean(1) > 0.5).long() == plural
    share = right.float().mean().item()
    return max(share, 1 - share)


def test_the_nouns_between_say_nothing_about_the_answer() -> None:
    # three standard errors of 20,000 coins: 0.011
    assert majority_accuracy(*draw(5)) < 0.515


def test_a_planted_leak_is_seen_by_the_same_measure() -> None:
    assert majority_accuracy(*draw(5, same_number=0.3)) > 0.8


def test_both_answers_are_equally_frequent() -> None:
    assert abs(draw(0)[1].float().mean().item() - 0.5) < 0.011


def test_the_same_seed_draws_the_same_and_another_another() -> None:
    assert torch.equal(draw(2, 50)[0], draw(2, 50)[0])
    assert not torch.equal(draw(2, 50)[0], draw(2, 50, seed=1)[0])


@pytest.mark.no_shape_hook
def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"clauses: got -1, wanted 0 or more"):
        draw(-1)
    with pytest.raises(ValueError, match=r"count: got -2"):
        draw(1, -2)
    with pytest.raises(ValueError, match=r"same_number: got 1.5, wanted a probability"):
        draw(1, same_number=1.5)
    with pytest.raises(ValueError, match=r"ids: got 99, wanted 0 to 21"):
        sentence([99])
