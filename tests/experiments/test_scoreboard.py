"""The scoreboard's models: fair, reproducible, and what the record says."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from transformer_lib.experiments import records, scoreboard
from transformer_lib.experiments.scoreboard import (
    LEARNING_RATES,
    ROWS,
    STEPS,
    TEMPERATURES,
    AttentionRow,
    LookupRow,
    RecurrenceRow,
    Result,
    dates_for_seed,
    row,
    run,
    tune,
)
from transformer_lib.tasks.dates import Alphabet

ALL_ON = AttentionRow(
    width=16, num_heads=4, num_layers=2, positions=True, residual=True,
    layer_norm=True, feed_forward=True, padding_mask=True,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A hundredth of the data, except where the recorded run is repeated."""
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(scoreboard, "TRAINING_DATES", 300)
        monkeypatch.setattr(scoreboard, "VALIDATION_DATES", 30)
        monkeypatch.setattr(scoreboard, "TEST_DATES", 40)


def model_of(configuration: object) -> torch.nn.Module:
    torch.manual_seed(0)
    if isinstance(configuration, RecurrenceRow):
        return scoreboard._RecurrentSlots(configuration, 13).eval()
    assert isinstance(configuration, AttentionRow)
    return scoreboard._AttendingSlots(configuration, 13).eval()


MODELS = [
    RecurrenceRow(width=16),
    AttentionRow(width=16, padding_mask=True),
    ALL_ON,
]


def test_no_date_is_in_two_sets() -> None:
    _, *parts = dates_for_seed(0)
    isos = [{tuple(slots) for slots in part.slots.tolist()} for part in parts]
    assert [len(part) for part in isos] == [300, 30, 40]
    assert len(set().union(*isos)) == 370


@pytest.mark.parametrize("configuration", MODELS, ids=["lstm", "attention", "all on"])
def test_answer_does_not_depend_on_padding(configuration: object) -> None:
    model = model_of(configuration)
    ids = torch.from_numpy(Alphabet("./0123456789").encode(["13.07.1914", "19140713"]))
    padded = torch.nn.functional.pad(ids, (0, 7))
    torch.testing.assert_close(model(padded), model(ids))
    torch.testing.assert_close(model(ids[1:, :8]), model(ids)[1:])


def test_without_the_mask_padding_is_read() -> None:
    model = model_of(dataclasses.replace(ALL_ON, padding_mask=False))
    ids = torch.from_numpy(Alphabet("./0123456789").encode(["19140713"]))
    padded = torch.nn.functional.pad(ids, (0, 7))
    assert not torch.allclose(model(padded), model(ids), atol=1e-4)


def order_of_characters_matters(model: torch.nn.Module) -> bool:
    ids = torch.from_numpy(Alphabet("./0123456789").encode(["19140713", "17130419"]))
    first, second = model(ids)
    return not torch.allclose(first, second, atol=1e-6)


def test_only_recurrence_and_positions_see_the_order_of_characters() -> None:
    assert order_of_characters_matters(model_of(RecurrenceRow(width=16)))
    assert order_of_characters_matters(model_of(ALL_ON))
    without = dataclasses.replace(ALL_ON, positions=False)
    assert not order_of_characters_matters(model_of(without))


@pytest.mark.parametrize(
    "switch", ["residual", "layer_norm", "feed_forward", "positions"]
)
def test_each_switch_changes_the_answers(switch: str) -> None:
    ids = torch.from_numpy(Alphabet("./0123456789").encode(["13.07.1914"]))
    on, off = model_of(ALL_ON), model_of(dataclasses.replace(ALL_ON, **{switch: False}))
    off.load_state_dict(on.state_dict(), strict=False)
    assert not torch.allclose(on(ids), off(ids), atol=1e-4)


def test_lstm_starts_with_forget_bias_one() -> None:
    lstm = model_of(RecurrenceRow(width=16)).lstm
    assert isinstance(lstm, torch.nn.LSTM)
    total = (lstm.bias_ih_l0 + lstm.bias_hh_l0).detach()
    torch.testing.assert_close(total[16:32], torch.ones(16))
    assert total[:16].abs().max() < 1.0
    assert total[32:].abs().max() < 1.0


def test_same_seed_gives_the_same_row_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    first = run(AttentionRow(width=16), seed=1, steps=3)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(5)
    assert run(AttentionRow(width=16), seed=1, steps=3) == first


def test_training_lowers_the_loss_and_the_score_is_counted_by_whole_dates() -> None:
    easy = run(dataclasses.replace(ALL_ON, learning_rate=1e-2), seed=0, steps=150)
    untrained = run(dataclasses.replace(ALL_ON, learning_rate=0.0), seed=0, steps=1)
    assert easy.character_accuracy > 0.5 > untrained.character_accuracy
    assert 0.0 <= easy.exact_match <= easy.character_accuracy
    answers = torch.tensor([[1, 2, 3], [1, 2, 3], [1, 2, 3], [0, 0, 0]])
    slots = torch.tensor([[1, 2, 3], [1, 2, 0], [0, 0, 0], [0, 0, 0]])
    assert scoreboard._score(answers, slots, 7) == Result(0.5, 8 / 12, 7)


def test_schedule_rises_to_one_and_falls_to_zero() -> None:
    factors = [scoreboard._schedule(step, 300) for step in range(300)]
    assert factors[0] == pytest.approx(1 / 60)
    assert factors[59] == factors[60] == 1.0
    assert factors[180] == pytest.approx(0.5)
    assert factors[-1] < 1e-3
    assert factors[60:] == sorted(factors[60:], reverse=True)
    assert math.isfinite(scoreboard._schedule(5, 6))


def test_tuning_tries_every_candidate_on_dates_that_the_table_never_shows() -> None:
    results = tune("lookup", seed=0)
    assert list(results) == list(TEMPERATURES)
    _, train, validation, _ = dates_for_seed(0)
    answers = scoreboard._look_up(LookupRow(TEMPERATURES[0]), train, validation)
    wanted = scoreboard._score(answers, validation.slots, 0)
    assert results[TEMPERATURES[0]] == wanted


def test_every_row_holds_a_number_that_was_tried() -> None:
    for configuration in ROWS.values():
        if isinstance(configuration, LookupRow):
            assert configuration.temperature in TEMPERATURES
        else:
            assert configuration.learning_rate in LEARNING_RATES


def test_record_holds_every_row_with_every_measure() -> None:
    record = records.load("scoreboard")
    assert record["values"]["steps"][0] == STEPS
    for name in ROWS:
        for measure in Result._fields:
            assert len(record["values"][f"{name}.{measure}"]) == len(record["seeds"])


# The rows between these run the same code with some of its switches off.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["recurrence", "lookup", "positions", "normalization"])
def test_one_seed_scores_within_the_recorded_range(name: str) -> None:
    record = records.load("scoreboard")
    result = row(name, seed=0)
    for measure in ("exact_match", "character_accuracy"):
        low, high = records.spread(record, f"{name}.{measure}")
        assert low - 0.05 <= getattr(result, measure) <= high + 0.05
    assert result.parameters == record["values"][f"{name}.parameters"][0]


def test_unknown_row_and_no_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="name: no row 'lstm'; there are recurrence"):
        row("lstm")
    with pytest.raises(ValueError, match="name: no row"):
        tune("lstm")
    with pytest.raises(ValueError, match="steps: got 0, wanted 1 or more"):
        row("attention", steps=0)
