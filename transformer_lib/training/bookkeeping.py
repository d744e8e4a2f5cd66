"""What a loop remembers between two lines of its log, and of its best validation."""

import dataclasses
import math
import time
from typing import Any

import torch
from torch import Tensor

__all__ = ["Best", "Window"]


@dataclasses.dataclass
class Window:
    """Losses since the last line of the log.

    They stay on the device until somebody looks, for a GPU that must tell its loss
    after each step stands still in between.
    """

    loss_sum: float = 0.0
    counted_tokens: int = 0
    tokens: int = 0
    seconds: float = 0.0
    last_norm: float | None = None

    def __post_init__(self) -> None:
        self._losses: list[Tensor] = []
        self._norms: list[Tensor] = []
        self._tokens: list[int] = []
        self.start_clock()

    def start_clock(self) -> None:
        """Count the seconds from now on: what came before was no training."""
        self._begun = time.perf_counter()

    def add(self, loss: Tensor, norm: Tensor, tokens: int) -> None:
        """Remember one update: its loss, gradient norm and number of real tokens."""
        self._losses.append(loss)
        self._norms.append(norm)
        self._tokens.append(tokens)

    def take(self) -> tuple[list[float], list[float]]:
        """Give the losses and norms since the last call."""
        losses = torch.stack(self._losses).tolist() if self._losses else []
        norms = torch.stack(self._norms).tolist() if self._norms else []
        self.seconds += time.perf_counter() - self._begun
        self.start_clock()
        return losses, norms

    def count(self, losses: list[float], norms: list[float], good: list[bool]) -> None:
        """Add up the losses of the updates that took place."""
        for loss, tokens, fine in zip(losses, self._tokens, good, strict=True):
            self.tokens += tokens
            if fine:
                self.loss_sum += loss * tokens
                self.counted_tokens += tokens
        if norms:
            self.last_norm = norms[-1] if math.isfinite(norms[-1]) else None
        self._losses, self._norms, self._tokens = [], [], []

    @property
    def mean_loss(self) -> float | None:
        """Per real token; ``None`` if there was no update that counts."""
        return self.loss_sum / self.counted_tokens if self.counted_tokens else None

    def to_dict(self) -> dict[str, Any]:
        """What was read so far, for JSON; arguments of the class."""
        return dataclasses.asdict(self)


@dataclasses.dataclass
class Best:
    """The best validation so far."""

    score: float | None = None
    step: int = 0
    since: int = 0
    patience_ran_out: bool = False
    weights: dict[str, Tensor] = dataclasses.field(default_factory=dict)

    def note(self, score: float, step: int, patience: int) -> bool:
        """Whether this one is better than all before."""
        if self.score is None or score > self.score:
            self.score, self.step, self.since = score, step, 0
            return True
        self.since += 1
        self.patience_ran_out = self.since >= patience
        return False

    def to_dict(self) -> dict[str, Any]:
        """All but the weights, for JSON; arguments of the class."""
        names = ("score", "step", "since", "patience_ran_out")
        return {name: getattr(self, name) for name in names}
