"""What an exercise is declared with: probes, mistakes, variants, properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Function = Callable[..., Any]


class Probe:
    """Arguments to call an answer with.

    Parameters
    ----------
    *arguments
        Arrays, numbers, strings, lists; they are copied for each call.
    about
        What is special about this input; a learner reads "Right with ...".
    """

    def __init__(self, *arguments: Any, about: str = "") -> None:
        self.arguments = arguments
        self.about = about


@dataclass(frozen=True)
class Mistake:
    """A known mistake.

    Parameters
    ----------
    name
        Short, unique in its exercise; appears in the confusion matrix.
    says
        One sentence that names the mistake.
    ask
        A question that leads to the cure.
    function
        A small implementation that makes it.
    settings
        Instead of ``function``: arguments of the exercise's ``assemble``.
    """

    name: str
    says: str
    ask: str
    function: Function | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Variant:
    """Another convention that is accepted; ``note`` says what differs."""

    name: str
    note: str
    function: Function


@dataclass(frozen=True)
class Property:
    """What every right result has, such as rows that sum to 1.

    Parameters
    ----------
    says
        Told when it does not hold: a full sentence.
    holds
        Called with the result (an array, or a tuple of them) and the arguments.
    """

    says: str
    holds: Callable[..., bool]


@dataclass(frozen=True)
class Beyond:
    """An input beyond what is asked: a right answer that fails on it gets ``note``."""

    probe: Probe
    note: str


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Normal random numbers with one decimal: a probe that can be printed.

    Examples
    --------
    >>> numbers(1, 3)
    array([0.3, 0.8, 0.3])
    """
    return np.random.default_rng(seed).normal(size=shape).round(1)
