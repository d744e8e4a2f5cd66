"""The clock, the turns, and the ratio with its interval."""

from __future__ import annotations

import time

import pytest
import torch

from benchmarks.measure import Clock, Ratio, Times, interleaved


def test_a_ratio_is_the_median_of_the_pairs_within_its_interval() -> None:
    ratio = Ratio.of([2.0, 2.1, 1.9, 2.0, 2.2, 1.8, 9.0])
    assert ratio.median == 2.0
    assert 1.8 <= ratio.low <= 2.0 <= ratio.high < 9.0
    assert str(Ratio(1.5, 1.25, 2.0)) == "1.50 (1.25 to 2.00)"


def test_equal_pairs_leave_no_doubt() -> None:
    assert Ratio.of([3.0] * 7) == Ratio(3.0, 3.0, 3.0)


def test_what_slows_both_sides_of_a_round_leaves_the_ratio_alone() -> None:
    times = Times({"theirs": [2.0, 20.0, 2.0], "ours": [1.0, 10.0, 1.0]})
    assert times.ratio("theirs", "ours") == Ratio(2.0, 2.0, 2.0)
    assert times.fastest(["theirs", "ours"]) == "ours"


def test_everybody_runs_in_every_round_and_the_order_turns() -> None:
    seen: list[str] = []
    calls = {name: (lambda name=name: seen.append(name)) for name in "abc"}
    times = interleaved(calls, 3, Clock(torch.device("cpu")))
    assert "".join(seen) == "abc" + "abc" + "bca" + "cab"  # the first round warms up
    assert {name: len(values) for name, values in times.seconds.items()} == {
        "a": 3,
        "b": 3,
        "c": 3,
    }


def test_the_clock_counts_work_and_not_waiting() -> None:
    clock = Clock(torch.device("cpu"))
    assert clock.seconds(lambda: time.sleep(0.2)) < 0.1

    def work() -> None:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass

    assert clock.seconds(work) == pytest.approx(0.05, abs=0.04)
