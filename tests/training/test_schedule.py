"""The learning rate against its formulas, the reference and the paper."""

from __future__ import annotations

import math

import pytest

from transformer_lib.reference.training import inverse_square_root, warmup_cosine
from transformer_lib.training import TrainingSettings, learning_rate


def settings(schedule: str, warmup: int, steps: int = 1000) -> TrainingSettings:
    return TrainingSettings.from_dict(
        {
            "steps": steps,
            "max_tokens": 64,
            "lr": 5e-3,
            "schedule": schedule,
            "warmup": warmup,
        }
    )


@pytest.mark.parametrize("step", [1, 7, 99, 100, 101, 500, 1000])
def test_cosine_by_hand(step: int) -> None:
    wanted = (
        5e-3 * step / 100
        if step <= 100
        else 5e-3 * (1 + math.cos(math.pi * (step - 100) / 900)) / 2
    )
    assert learning_rate(settings("cosine", 100), step) == pytest.approx(wanted)
    assert learning_rate(settings("cosine", 100), step) == 5e-3 * warmup_cosine(
        step, 1000, 100
    )


@pytest.mark.parametrize("step", [1, 7, 99, 100, 101, 500, 5000])
def test_inverse_square_root_by_hand(step: int) -> None:
    wanted = 5e-3 * (step / 100 if step <= 100 else math.sqrt(100 / step))
    assert learning_rate(settings("inverse_sqrt", 100), step) == pytest.approx(wanted)


def test_the_papers_rate_is_one_of_them() -> None:
    """Base model: highest rate 512^-0.5 * 4000^-0.5, about 7e-4."""
    highest = (512 * 4000) ** -0.5
    paper = TrainingSettings(
        steps=100_000,
        max_tokens=25_000,
        lr=highest,
        schedule="inverse_sqrt",
        warmup=4000,
    )
    for step in (1, 4000, 4001, 100_000):
        assert learning_rate(paper, step) == pytest.approx(
            inverse_square_root(step, 512, 4000), rel=1e-12
        )


@pytest.mark.parametrize("schedule", ["cosine", "inverse_sqrt"])
def test_the_rate_is_highest_at_the_end_of_the_warmup(schedule: str) -> None:
    rates = [learning_rate(settings(schedule, 30), step) for step in range(1, 1001)]
    assert max(rates) == rates[29] == pytest.approx(5e-3)
    assert rates[:30] == sorted(rates[:30])
    assert rates[29:] == sorted(rates[29:], reverse=True)


def test_without_warmup_cosine_begins_at_its_height() -> None:
    assert learning_rate(settings("cosine", 0), 1) == pytest.approx(5e-3, rel=1e-5)


def test_cosine_is_0_at_the_last_step_and_after_it() -> None:
    for step in (1000, 2000):
        assert learning_rate(settings("cosine", 10), step) == 0.0


def test_there_is_no_step_0() -> None:
    with pytest.raises(ValueError, match="step: got 0, wanted 1 or more"):
        learning_rate(settings("cosine", 10), 0)
