"""Everything that decides how a model is trained, and the check of every value."""

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any, Literal

import torch

__all__ = ["TrainingSettings", "check_known"]

Schedule = Literal["cosine", "inverse_sqrt"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]
Switch = Literal["auto", "on", "off"]

_LEAST_WHOLE = {
    "steps": 1,
    "max_tokens": 2,
    "accumulate": 1,
    "warmup": 0,
    "seed": 0,
    "log_every": 1,
    "validate_every": 0,
    "validation_pairs": 1,
    "checkpoint_every": 0,
    "keep": 1,
    "average": 1,
    "patience": 0,
    "beam_size": 1,
    "threads": 1,
}
_MAY_BE_NONE = ("validation_pairs", "threads")
_NUMBERS = ("clip", "weight_decay", "length_penalty")
_FLOATS = ("lr", "label_smoothing", *_NUMBERS)
_CHOICES = {
    "schedule": ("cosine", "inverse_sqrt"),
    "precision": ("auto", "fp32", "bf16", "fp16"),
    "compile": ("auto", "on", "off"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How a model is trained: length, batches, optimiser, checks on the way.

    Parameters
    ----------
    steps
        Number of updates.
    max_tokens
        Room of one batch: sentences times the longest of them, on either side.
    accumulate
        Batches per update and process; their gradients are added up.
    lr
        Highest learning rate, reached at the end of the warm-up.
    schedule
        ``"cosine"`` falls to 0 at the last step, ``"inverse_sqrt"`` as the paper's; see
        :func:`~transformer_lib.training.schedule.learning_rate`.
    warmup
        Updates during which the rate rises.
    label_smoothing
        Share of each label that is spread over the vocabulary.
    clip
        Largest norm of a gradient, all weights together; 0 clips nothing.
    weight_decay, betas
        Of AdamW.
    seed
        Of the first weights, the order of the batches and dropout.
    device
        ``"auto"`` (CUDA, else MPS, else CPU) or a name that torch knows.
    precision
        ``"auto"`` is ``"bf16"`` on GPUs that have it, ``"fp16"`` on older ones, else
        ``"fp32"``. The halves act through autocast: weights stay in float32.
    compile
        ``torch.compile``; ``"auto"`` compiles on CUDA.
    log_every
        Updates between two lines of the log, at which the losses are read.
    validate_every
        Updates between two validations, and one after the last; 0 is never.
    validation_pairs
        How many pairs of the split to validate on; ``None`` is all.
    checkpoint_every
        Updates between two checkpoints, and one after the last; 0 is only the last.
    keep
        Number of these checkpoints that are kept.
    average
        Number of last checkpoints whose mean is evaluated, at most ``keep``.
    patience
        Stop when so many validations in a row brought no better score, and evaluate
        the weights of the best one; 0 does not stop early.
    beam_size, length_penalty
        Of the last evaluation; 1 is greedy. Validations on the way are greedy.
    threads
        Of torch, on the CPU; ``None`` leaves them as they are.

    Raises
    ------
    TypeError, ValueError
        If a value cannot be used; the message names it.

    Examples
    --------
    >>> TrainingSettings(steps=100, max_tokens=2048, lr=1e-3).schedule
    'cosine'
    >>> TrainingSettings(steps=0, max_tokens=2048, lr=1e-3)
    Traceback (most recent call last):
    ...
    ValueError: steps: got 0, wanted 1 or more
    """

    steps: int
    max_tokens: int
    lr: float
    accumulate: int = 1
    schedule: Schedule = "cosine"
    warmup: int = 0
    label_smoothing: float = 0.1
    clip: float = 1.0
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    seed: int = 0
    device: str = "auto"
    precision: Precision = "auto"
    compile: Switch = "auto"
    log_every: int = 50
    validate_every: int = 0
    validation_pairs: int | None = None
    checkpoint_every: int = 0
    keep: int = 5
    average: int = 1
    patience: int = 0
    beam_size: int = 1
    length_penalty: float = 0.6
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST_WHOLE.items():
            self._check_whole(name, least)
        if self.seed >= 2**63:
            raise ValueError(f"seed: got {self.seed}, wanted a number below 2**63")
        self._check_number("lr")
        if not 0.0 < self.lr < math.inf:
            raise ValueError(f"lr: got {self.lr}, wanted a finite number above 0")
        for name in _NUMBERS:
            if not 0.0 <= self._check_number(name) < math.inf:
                raise ValueError(
                    f"{name}: got {getattr(self, name)}, wanted a finite number, "
                    "0 or more"
                )
        if not 0.0 <= self._check_number("label_smoothing") < 1.0:
            raise ValueError(
                f"label_smoothing: got {self.label_smoothing}, wanted a number in [0, 1)"
            )
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name}: got {getattr(self, name)!r}, wanted one of "
                    + ", ".join(map(repr, known))
                )
        self._check_betas()
        self._check_device()
        self._check_together()

    def to_dict(self) -> dict[str, Any]:
        """All values, for JSON or TOML; the way back is :meth:`from_dict`."""
        return {**dataclasses.asdict(self), "betas": list(self.betas)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainingSettings":
        """Make settings of names and values.

        Parameters
        ----------
        values
            At least ``steps``, ``max_tokens`` and ``lr``.

        Returns
        -------
        settings
            What is not named has its default.

        Raises
        ------
        TypeError, ValueError
            If a name is unknown or missing, or a value cannot be used.

        Examples
        --------
        >>> TrainingSettings.from_dict({"steps": 9, "max_tokens": 64, "lr": 1}).lr
        1.0
        >>> TrainingSettings.from_dict({"step": 9})
        Traceback (most recent call last):
        ...
        ValueError: settings: there is no 'step'; perhaps 'steps' is meant
        """
        fields = dataclasses.fields(cls)
        check_known("settings", values, [field.name for field in fields])
        for field in fields:
            if field.default is dataclasses.MISSING and field.name not in values:
                raise ValueError(f"settings: {field.name!r} is missing")
        # JSON and TOML have lists for tuples, and write 1.0 as 1.
        given: dict[str, Any] = {
            name: float(value) if type(value) is int and name in _FLOATS else value
            for name, value in values.items()
        }
        if isinstance(given.get("betas"), list):
            given["betas"] = tuple(
                float(beta) if type(beta) is int else beta for beta in given["betas"]
            )
        return cls(**given)

    def _check_whole(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if value is None and name in _MAY_BE_NONE:
            return
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}: got {value!r}, wanted a whole number")
        if value < least:
            raise ValueError(f"{name}: got {value}, wanted {least} or more")

    def _check_number(self, name: str) -> float:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name}: got {value!r}, wanted a number")
        return float(value)

    def _check_betas(self) -> None:
        wanted = f"betas: got {self.betas!r}, wanted two numbers in [0, 1)"
        if not isinstance(self.betas, tuple) or len(self.betas) != 2:
            raise ValueError(wanted)
        for beta in self.betas:
            if isinstance(beta, bool) or not isinstance(beta, int | float):
                raise TypeError(wanted)
            if not 0.0 <= beta < 1.0:
                raise ValueError(wanted)

    def _check_device(self) -> None:
        if not isinstance(self.device, str):
            raise TypeError(f"device: got {self.device!r}, wanted a name")
        if self.device != "auto":
            try:
                torch.device(self.device)
            except RuntimeError:
                raise ValueError(
                    f"device: got {self.device!r}, wanted 'auto', 'cpu', 'cuda', "
                    "'cuda:1' or another name that torch knows"
                ) from None

    def _check_together(self) -> None:
        if self.schedule == "cosine" and self.warmup >= self.steps:
            raise ValueError(
                f"warmup: got {self.warmup}, wanted below steps={self.steps}"
            )
        if self.schedule == "inverse_sqrt" and self.warmup < 1:
            raise ValueError(
                "warmup: got 0, wanted 1 or more for schedule='inverse_sqrt'"
            )
        if self.average > self.keep:
            raise ValueError(
                f"average: got {self.average}, wanted at most keep={self.keep}: only "
                "what was kept can be averaged"
            )
        if self.patience and not self.validate_every:
            raise ValueError(
                f"patience: got {self.patience}, wanted 0 with validate_every=0"
            )
        if self.patience and self.average > 1:
            raise ValueError(
                f"average: got {self.average}, wanted 1 with patience={self.patience}: "
                "an early stop evaluates the best weights, not a mean of the last"
            )


def check_known(what: str, names: Mapping[str, Any], known: list[str]) -> None:
    """Raise ``ValueError`` at a name that is not known, with the one that is closest.

    Examples
    --------
    >>> check_known("model", {"d_modle": 64}, ["d_model", "d_ff"])
    Traceback (most recent call last):
    ...
    ValueError: model: there is no 'd_modle'; perhaps 'd_model' is meant
    """
    for name in names:
        if name in known:
            continue
        close = difflib.get_close_matches(str(name), known, n=1)
        hint = (
            f"perhaps {close[0]!r} is meant"
            if close
            else "known are " + ", ".join(known)
        )
        raise ValueError(f"{what}: there is no {name!r}; {hint}")
