"""What is compared computes the same, and what does not is refused before any timing."""

from __future__ import annotations

import pytest
import torch

from benchmarks import work
from benchmarks.contestants import Ours, TorchTransformer


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> work.Options:
    """The two contestants that are always installed."""
    monkeypatch.setattr(work, "present", lambda: [TorchTransformer, Ours])
    return work.Options(torch.device("cpu"), 1, ["tiny"], ["fp32"], 4, True)


def test_both_are_right(options: work.Options) -> None:
    told = list(work.check(options))
    assert len(told) == 2
    assert all(": right; " in sentence for sentence in told)


def test_who_looks_ahead_is_refused(
    options: work.Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Ours.logits
    monkeypatch.setattr(
        Ours, "logits", lambda self, s, t: right(self, s, t).flip(1).cumsum(1).flip(1)
    )
    with pytest.raises(ArithmeticError, match="ours, tiny: not causal"):
        list(work.check(options))


def test_whose_cache_errs_is_refused(
    options: work.Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Ours.greedy
    monkeypatch.setattr(Ours, "greedy", lambda self, s, n: right(self, s, n) + 1)
    with pytest.raises(
        ArithmeticError, match="decoding with a cache gives other tokens"
    ):
        list(work.check(options))


@pytest.mark.parametrize("name", ["attention", "memory"])
def test_a_work_gives_a_row_of_ours_with_a_ratio(
    options: work.Options, name: str
) -> None:
    rows = list(work.WORK[name](options))
    assert all(row.value > 0 for row in rows)
    assert any(row.who.startswith("ours") and row.ratio is not None for row in rows)


def test_lengths_are_like_those_of_captions() -> None:
    lengths = work.sentence_lengths(1000)
    assert 4 <= lengths.min() < 8
    assert 30 < lengths.max() <= 45
    assert 13 < lengths.mean() < 15
