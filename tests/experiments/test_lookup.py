"""What lookups answer: counts that can be made again, and votes that can be checked."""

from __future__ import annotations

import numpy as np
import pytest

from transformer_lib.experiments import records
from transformer_lib.experiments.lookup import (
    MonthAnswers,
    date_answers,
    date_table,
    month_answers,
    month_scores,
    slot_votes,
)
from transformer_lib.reference.lookup import softmax
from transformer_lib.tasks.dates import ISO_CHARACTERS


@pytest.mark.parametrize("seed", [0, 4])
def test_counts_of_misspelt_months_are_those_of_the_record(seed: int) -> None:
    record = records.load("lookup_months")
    wanted = [record["values"][name][seed] for name in MonthAnswers._fields]
    assert list(month_answers(seed)) == wanted


def test_every_misspelling_is_counted_once() -> None:
    answers = month_answers(seed=3, per_month=5)
    assert answers.words == 60
    assert answers.right + answers.tied + answers.wrong == 60


def test_juny_ties_june_and_july_exactly() -> None:
    (scores,) = month_scores(["juny"])
    assert scores[5] == scores[6] == scores.max()


def test_comparing_beats_equality_in_every_recorded_set() -> None:
    values = records.load("lookup_months")["values"]
    assert max(values["dictionary"]) < 0.05 * 600
    assert min(values["right"]) > 0.95 * 600


@pytest.mark.parametrize("unseen_years", [0, 20])
def test_no_asked_date_is_stored(unseen_years: int) -> None:
    table = date_table(1, stored=3000, asked=200, unseen_years=unseen_years)
    stored = {iso for _, iso in table.stored}
    asked = {iso for _, iso in table.asked}
    assert len(stored) == 3000
    assert len(asked) == 200
    assert not stored & asked
    years = {iso[:4] for iso in stored} & {iso[:4] for iso in asked}
    assert bool(years) == (unseen_years == 0)


def test_votes_are_the_weighted_characters_of_the_stored_dates() -> None:
    table = date_table(2, stored=300, asked=130)  # more than one portion of a hundred
    votes = slot_votes(table.queries, table.keys, table.values, temperature=0.1)
    assert votes.shape == (130, 10, 11)
    np.testing.assert_allclose(votes.sum(axis=-1), 1.0, atol=1e-12)
    weights = softmax(table.keys @ table.queries[117] / 0.1)
    for slot in (0, 6, 9):
        for c, character in enumerate(ISO_CHARACTERS):
            by_hand = sum(
                weight
                for weight, (_, iso) in zip(weights, table.stored, strict=True)
                if iso[slot] == character
            )
            assert abs(votes[117, slot, c] - by_hand) < 1e-12


def test_picking_never_finds_what_is_not_stored_and_averaging_does() -> None:
    answers = date_answers(date_table(0, stored=10_000, asked=100))
    assert answers["hard"] == 0.0
    assert answers["soft"] > 0.3


def test_recorded_claims_about_dates_hold_for_every_seed() -> None:
    values = records.load("lookup_dates")["values"]
    assert set(values["unseen_dates.hard"] + values["unseen_years.hard"]) == {0.0}
    assert min(values["unseen_dates.soft"]) > 0.7
    assert max(values["unseen_years.soft"]) < 0.5 * min(values["unseen_dates.soft"])


@pytest.mark.slow
def test_dates_of_one_seed_score_what_the_record_says() -> None:
    values = records.load("lookup_dates")["values"]
    assert date_answers(date_table(0)) == {
        "hard": values["unseen_dates.hard"][0],
        "soft": pytest.approx(values["unseen_dates.soft"][0], abs=0.002),
    }


@pytest.mark.no_shape_hook
def test_impossible_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="stored: got 0, wanted 1 or more"):
        date_table(0, stored=0)
    with pytest.raises(ValueError, match="unseen_years: got -1, wanted 0 or more"):
        date_table(0, unseen_years=-1)
    with pytest.raises(ValueError, match="wanted at most 0 and 73049"):
        date_table(0, stored=10, asked=10, unseen_years=500)
