"""Pencil exercises: numbers worked out by hand, blank by blank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from transformer_lib.exercises._calling import SECONDS
from transformer_lib.exercises._comparing import Unusable, canonical, shape, shown
from transformer_lib.exercises.verdict import Verdict, unattempted

Value = int | float | Sequence[Any] | np.ndarray


@dataclass(frozen=True)
class Blank:
    """One blank of the sheet.

    Parameters
    ----------
    name
        What it is called on the sheet and in a dict of answers.
    value
        The right number, or array of numbers.
    hint
        A question that helps with this blank.
    tolerance
        How far off is still right: half a unit of the second decimal, and a little.
    """

    name: str
    value: Value
    hint: str
    tolerance: float = 0.0101

    def fits(self, given: np.ndarray, value: Value | None = None) -> np.ndarray:
        """Elementwise, whether ``given`` is ``value`` (by default the right one)."""
        want = np.asarray(self.value if value is None else value, dtype=np.float64)
        if given.shape != want.shape:
            return np.zeros(given.shape, dtype=bool)
        return np.asarray(np.abs(given - want) <= self.tolerance)


@dataclass(frozen=True)
class Slip:
    """A known mistake: the values that it puts into the blanks that it spoils."""

    name: str
    says: str
    ask: str
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Pencil:
    """A sheet of blanks.

    The answer is a dict (blank to number), or a list in the order of the sheet. A blank
    that holds ``None`` or ``...`` counts as open.

    Parameters
    ----------
    name, statement
        What ``check`` is called with; what is asked.
    blanks
        In the order in which they are worked out: the first wrong one is told.
    mistakes
        Known wrong sheets.
    """

    name: str
    statement: str
    blanks: tuple[Blank, ...]
    mistakes: tuple[Slip, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the blanks, in order."""
        return tuple(blank.name for blank in self.blanks)

    def judge(self, answer: Any, seconds: float = SECONDS) -> Verdict:
        """Judge a filled-in sheet; ``seconds`` is there for the sake of `Exercise`."""
        if answer is None or answer is Ellipsis:
            return self._unattempted()
        if callable(answer):
            return self._verdict(
                "type",
                "This is a pencil exercise: it wants numbers, not a function.",
                f"Blanks: {', '.join(self.names)}.",
            )
        sheet = self._sheet(answer)
        if isinstance(sheet, str):
            return self._verdict("type", sheet)
        filled = [b for b in self.blanks if not _open(sheet.get(b.name))]
        if not filled:
            return self._unattempted()
        given: dict[str, np.ndarray] = {}
        for blank in filled:
            array = canonical(sheet[blank.name])
            if isinstance(array, Unusable) or array.dtype.kind == "b":
                said = f"{blank.name}: got {shown(sheet[blank.name])}, wanted a number."
                if np.ndim(np.asarray(blank.value)):
                    said = said.replace("a number", "numbers")
                return self._verdict("type", said)
            given[blank.name] = array.astype(np.float64)
        return self._compare(filled, given)

    def _compare(
        self, filled: Sequence[Blank], given: Mapping[str, np.ndarray]
    ) -> Verdict:
        right = [b for b in filled if b.fits(given[b.name]).all() and _same(b, given)]
        if len(right) == len(self.blanks):
            return self._verdict("right", "Every blank is right.")
        if len(right) == len(filled):
            left = [b.name for b in self.blanks if b.name not in given]
            return self._verdict(
                "right so far",
                f"{len(right)} of {len(self.blanks)} blanks are filled in, and right. "
                f"Still open: {', '.join(left)}.",
            )
        first = next(b for b in filled if b not in right)
        score = f"{len(right)} of {len(self.blanks)} blanks right so far."
        if len(self.blanks) == 1:
            score = ""
        got = given[first.name]
        want = np.asarray(first.value)
        exhibit = ((first.name, shown(got)),)
        if got.shape != want.shape:
            return self._verdict(
                "shape",
                f"{score} {first.name} holds {_sort(got)}, wanted {_sort(want)}.".strip(),
                ask=first.hint,
                exhibit=exhibit,
            )
        found = self._slips(first, filled, given)
        place = _place(first.fits(got))
        start = f"{score} The first wrong one is {first.name}{place}."
        if len(self.blanks) == 1:
            start = "The number is not right." if got.ndim == 0 else "Not right."
        if len(found) == 1:
            return self._verdict(
                "mistake",
                start,
                found[0].says,
                ask=found[0].ask,
                exhibit=exhibit,
                mistakes=(found[0].name,),
            )
        if found:
            return self._verdict(
                "either",
                start,
                "Several known mistakes give this value:",
                *(f"{n}. {s.says}" for n, s in enumerate(found, start=1)),
                ask=first.hint,
                exhibit=exhibit,
                mistakes=tuple(s.name for s in found),
            )
        return self._verdict("wrong", start, ask=first.hint, exhibit=exhibit)

    def _slips(
        self, first: Blank, filled: Sequence[Blank], given: Mapping[str, np.ndarray]
    ) -> list[Slip]:
        """Known mistakes that put this value into the first wrong blank.

        When several do, those that explain the blanks after it as well.
        """

        def explains(slip: Slip, blank: Blank) -> bool:
            value = slip.values.get(blank.name, blank.value)
            return np.shape(value) == given[blank.name].shape and bool(
                blank.fits(given[blank.name], value).all()
            )

        fits = [
            s for s in self.mistakes if first.name in s.values and explains(s, first)
        ]
        whole = [s for s in fits if all(explains(s, blank) for blank in filled)]
        return whole or fits

    def _sheet(self, answer: Any) -> dict[str, Any] | str:
        """The answer as a dict from blank to value, or a sentence why it is none."""
        wanted = f"Wanted a dict with {', '.join(self.names)}, or a list in this order."
        if isinstance(answer, Mapping):
            unknown = [str(key) for key in answer if key not in self.names]
            if unknown:
                return f"There is no blank {unknown[0]!r}. {wanted}"
            return dict(answer)
        if len(self.blanks) == 1:
            alone = isinstance(answer, list | tuple) and len(answer) == 1
            return {self.names[0]: answer[0] if alone else answer}
        try:
            values = list(answer)
        except TypeError:
            return f"Got one value of type {type(answer).__name__}. {wanted}"
        if isinstance(answer, str) or len(values) != len(self.blanks):
            return f"Got {len(values)} values. {wanted}"
        return dict(zip(self.names, values, strict=True))

    def _unattempted(self) -> Verdict:
        return unattempted(self.name)

    def _verdict(self, status: str, *says: str, **more: Any) -> Verdict:
        return Verdict(self.name, status, tuple(says), **more)


def _open(value: Any) -> bool:
    """Whether a blank is not filled in: None, ``...``, or a list of such."""
    if isinstance(value, list | tuple):
        return not value or any(_open(v) for v in value)
    return value is None or value is Ellipsis


def _same(blank: Blank, given: Mapping[str, np.ndarray]) -> bool:
    return given[blank.name].shape == np.shape(blank.value)


def _sort(array: np.ndarray) -> str:
    if array.ndim == 0:
        return "one number"
    if array.ndim == 1:
        return _count(len(array), "number")
    return f"an array of shape {shape(array)}"


def _place(fits: np.ndarray) -> str:
    """Where in the blank it goes wrong: " (number 2)", " (row 0, column 1)", or ""."""
    if fits.ndim == 0 or not fits.any():
        return ""
    where = [int(i) for i in np.argwhere(~fits)[0]]
    if fits.ndim == 1:
        return f", number {where[0] + 1} in it"
    return f", row {where[0] + 1}, number {where[1] + 1}" if fits.ndim == 2 else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
