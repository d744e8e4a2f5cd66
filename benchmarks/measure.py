"""Time contestants side by side, and say how sure the ratio is.

All contestants run in one process, one after the other, round after round, in an order
that turns by one place each round. A ratio is taken within a round, so that whatever
slowed the machine for a while slowed both sides. The median over the rounds is reported
with a bootstrap interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch


@dataclass
class Clock:
    """Seconds that a call takes: of the processor on a CPU, between events on a GPU.

    Processor time leaves out the time in which other programs ran. With one thread on a
    quiet machine it is the time on the wall.
    """

    device: torch.device

    def seconds(self, call: Callable[[], object]) -> float:
        if self.device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            return begin.elapsed_time(end) / 1000.0
        began = time.process_time()
        call()
        return time.process_time() - began


@dataclass
class Times:
    """Seconds of each contestant in each round."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        return float(np.median(self.seconds[name]))

    def ratio(self, baseline: str, name: str) -> Ratio:
        """How many times faster ``name`` is than ``baseline``."""
        pairs = zip(self.seconds[baseline], self.seconds[name], strict=True)
        return Ratio.of([slow / fast for slow, fast in pairs])

    def fastest(self, names: list[str]) -> str:
        return min(names, key=self.median)


@dataclass(frozen=True)
class Ratio:
    """Median of paired ratios, and the interval that holds it with 95 %."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: list[float], resamples: int = 10_000) -> Ratio:
        values = np.asarray(ratios)
        rng = np.random.default_rng(0)
        draws = rng.choice(values, size=(resamples, len(values)))
        low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
        return cls(float(np.median(values)), float(low), float(high))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def interleaved(
    calls: dict[str, Callable[[], object]], rounds: int, clock: Clock, warm_up: int = 1
) -> Times:
    """Run all calls ``rounds`` times, turning the order."""
    for _ in range(warm_up):
        for call in calls.values():
            call()
    names = list(calls)
    times = Times({name: [] for name in names})
    for i in range(rounds):
        turn = i % len(names)
        for name in names[turn:] + names[:turn]:
            times.seconds[name].append(clock.seconds(calls[name]))
    return times
