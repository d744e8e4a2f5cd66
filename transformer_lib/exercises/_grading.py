"""Compares one result with the expected one, and two calls with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from transformer_lib.exercises._calling import Outcome
from transformer_lib.exercises._comparing import (
    Unusable,
    canonical,
    close,
    here,
    is_torch,
    relations,
    shape_relations,
    shape_says,
    shown,
    too_long,
)
from transformer_lib.exercises.parts import Probe, Property


@dataclass(frozen=True)
class Finding:
    """How one result compares with the expected one.

    Parameters
    ----------
    right
        Whether they agree.
    status
        Otherwise: "error", "type", "shape" or "wrong".
    says
        What can be said for sure.
    good
        Names of those of several results that are right.
    finite
        Whether the result is free of nan and inf.
    related
        Ways in which the result may come from the expected one.
    here
        Where it is wrong on this input, or "".
    notes
        Remarks that do not decide.
    """

    right: bool
    status: str = ""
    says: tuple[str, ...] = ()
    good: tuple[str, ...] = ()
    finite: bool = True
    related: tuple[str, ...] = ()
    here: str = ""
    notes: tuple[str, ...] = ()


def grade(
    outcome: Outcome,
    expected: Outcome,
    probe: Probe,
    names: Sequence[str],
    returns: Sequence[str] = (),
    properties: Sequence[Property] = (),
) -> Finding:
    """Compare what a call did with what the reference did on the same probe.

    Parameters
    ----------
    outcome, expected
        The answer's call and the reference's.
    probe
        What both were called with.
    names
        Names of the arguments.
    returns
        Names of the results when there are several.
    properties
        What every right result has.
    """
    if outcome.error_class:
        return Finding(False, "error", (_error(outcome),))
    got = outcome.value
    if not returns:
        place = _right_one(got, expected.value)
        if place:
            said = f"It returned {len(got)} things, and the {place} is right: "
            return Finding(False, "type", (said + "return it alone.",))
        items, wanted = [got], [np.asarray(expected.value)]
    else:
        wanted = [np.asarray(value) for value in expected.value]
        if not _several(got, wanted):
            return Finding(False, "type", (_not_several(got, returns),))
        items = list(got)
    arrays: list[np.ndarray] = []
    notes: list[str] = []
    for k, item in enumerate(items):
        array = canonical(item)
        if isinstance(array, Unusable):
            name = f"{returns[k]}: " if returns else ""
            return Finding(False, "type", (name + array.says,))
        arrays.append(array)
        notes += _remarks(item, array, wanted[k])
    good = tuple(
        n for n, a, w in zip(returns, arrays, wanted, strict=False) if close(a, w)
    )
    for k, (array, want) in enumerate(zip(arrays, wanted, strict=True)):
        name = f"{returns[k]}: " if returns else ""
        if array.shape != want.shape:
            related = shape_relations(array, want)
            said = name + shape_says(array, want)
            return Finding(
                False, "shape", (said,), good, related=_named(related, returns, k)
            )
        if not close(array, want):
            related = relations(array, want, probe.arguments, names)
            where = here(array, want)
            return Finding(
                False,
                "wrong",
                _broken(arrays, probe, returns, properties),
                good,
                finite=bool(np.isfinite(array).all()),
                related=_named(related, returns, k),
                here=name + where if where else "",
            )
    return Finding(True, notes=tuple(dict.fromkeys(notes)))


def alike(a: Outcome, b: Outcome, several: bool) -> bool:
    """Whether two calls did the same: the same numbers, or both an error."""
    if a.error_class or b.error_class:
        return bool(a.error_class) and bool(b.error_class)
    first, second = loose(a.value, several), loose(b.value, several)
    if len(first) != len(second):
        return False
    for x, y in zip(first, second, strict=True):
        if isinstance(x, Unusable) and isinstance(y, Unusable):
            same = x == y
        elif isinstance(x, Unusable) or isinstance(y, Unusable):
            same = False
        else:
            same = _same_numbers(x, y)
        if not same:
            return False
    return True


def loose(value: Any, several: bool) -> list[np.ndarray | Unusable]:
    """Results as arrays: each of several, or one (a tuple of arrays counts as several)."""
    if isinstance(value, tuple) and not several:
        several = any(isinstance(v, np.ndarray) and v.ndim > 0 for v in value)
    if several and isinstance(value, list | tuple):
        return [canonical(v) for v in value]
    return [canonical(value)]


def result_text(outcome: Outcome, several: bool) -> str:
    """What a call gave, for the learner to read."""
    if outcome.error_class:
        return f"raises {outcome.error_class}"
    if outcome.late:
        return "no result in time"
    texts = [
        shown(outcome.value) if isinstance(v, Unusable) else shown(v)
        for v in loose(outcome.value, several)
    ]
    return ", ".join(texts)


def result_rows(
    expected: Outcome, outcome: Outcome, returns: Sequence[str]
) -> list[tuple[str, str]]:
    """Expected and got; of several results the wrong ones only."""
    if not returns:
        got = loose(outcome.value, False)[0]
        if outcome.error_class or outcome.late or isinstance(got, Unusable):
            wanted = shown(np.asarray(expected.value))
            return [("expected", wanted), ("got", result_text(outcome, False))]
        return _pair("", np.asarray(expected.value), got)
    value = outcome.value
    parts = [np.asarray(v) for v in expected.value]
    if outcome.error_class or outcome.late or not _several(value, parts):
        named = [f"{n} = {shown(v)}" for n, v in zip(returns, parts, strict=True)]
        return [("expected", "\n".join(named)), ("got", result_text(outcome, False))]
    rows = []
    for name, want, got in zip(returns, parts, value, strict=True):
        array = canonical(got)
        if isinstance(array, Unusable):
            rows += [(f"expected {name}", shown(want)), (f"got {name}", shown(got))]
        elif not close(array, want):
            rows += _pair(f" {name}", want, array)
    return rows


def _pair(name: str, want: np.ndarray, got: np.ndarray) -> list[tuple[str, str]]:
    """Two rows; of long arrays only the first number that differs."""
    if want.shape == got.shape and too_long(want):
        wrong = ~np.isclose(got, want, rtol=1e-6, atol=1e-7)
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        at = f"{name}[{', '.join(map(str, place))}]" if name else f" at {list(place)}"
        return [(f"expected{at}", shown(want[place])), (f"got{at}", shown(got[place]))]
    return [(f"expected{name}", shown(want)), (f"got{name}", shown(got))]


def _error(outcome: Outcome) -> str:
    where = f" The line: `{outcome.where}`." if outcome.where else ""
    end = "" if outcome.error.endswith((".", "?", "!")) else "."
    return f"It raised {outcome.error}{end}{where}"


def _right_one(got: Any, expected: Any) -> str:
    """Which item of a returned tuple alone would be right: "first" ..., or ""."""
    want = np.asarray(expected)
    if not isinstance(got, tuple) or not 2 <= len(got) <= 4:
        return ""
    whole = canonical(got)
    if not isinstance(whole, Unusable) and whole.shape == want.shape:
        return ""  # numbers in a tuple are an array to us
    for item, place in zip(got, ("first", "second", "third", "fourth"), strict=False):
        array = canonical(item)
        if not isinstance(array, Unusable) and close(array, want):
            return place
    return ""


def _several(got: Any, wanted: Sequence[np.ndarray]) -> bool:
    """Whether ``got`` holds as many results as wanted: a tuple, a list, stacked rows."""
    if is_torch(got) or not isinstance(got, tuple | list | np.ndarray):
        return False
    if isinstance(got, np.ndarray) and got.ndim != wanted[0].ndim + 1:
        return False
    return len(got) == len(wanted)


def _not_several(got: Any, returns: Sequence[str]) -> str:
    wanted = f"return {', '.join(returns)}"
    if isinstance(got, tuple | list):
        return (
            f"It returned {len(got)} things, and {len(returns)} were wanted: {wanted}."
        )
    found = canonical(got)
    if isinstance(found, Unusable):
        return f"{found.says} Wanted: {wanted}."
    what = "one array" if found.ndim else "one number"
    return f"It returned {what}, and {len(returns)} results were wanted: {wanted}."


def _named(related: Sequence[str], returns: Sequence[str], k: int) -> tuple[str, ...]:
    subject = f"{returns[k]} " if returns else "Your result "
    return tuple(f"{subject}{phrase}." for phrase in related)


def _remarks(item: Any, array: np.ndarray, want: np.ndarray) -> list[str]:
    notes = []
    if array.dtype.kind == "b" and want.dtype.kind == "f":
        notes.append("You return booleans; they were read as 0 and 1.")
    if isinstance(item, list) and want.ndim:
        notes.append("You return a list; np.array(...) would make it an array.")
    if str(array.dtype) in ("float32", "float16"):
        notes.append(
            f"Your result is {array.dtype}, so it was compared to that precision; the "
            "course computes in float64."
        )
    return notes


def _broken(
    arrays: Sequence[np.ndarray],
    probe: Probe,
    returns: Sequence[str],
    properties: Sequence[Property],
) -> tuple[str, ...]:
    """The first property that the result has not."""
    if not all(np.isfinite(a).all() for a in arrays):
        return ()
    results = tuple(array.astype(np.float64) for array in arrays)
    result = results if returns else results[0]
    with np.errstate(all="ignore"):
        for rule in properties:
            if not rule.holds(result, *probe.arguments):
                return (rule.says,)
    return ()


def _same_numbers(x: np.ndarray, y: np.ndarray) -> bool:
    """Equal where finite, and finite in the same places.

    Whether a division by zero ends in nan or in inf depends on how it is written.
    """
    if x.shape != y.shape:
        return False
    if x.size and abs(float(x.flat[0]) - float(y.flat[0])) > 1e-2 * _size(x, y):
        return False  # the usual case, decided without a pass over the array
    finite = np.isfinite(x)
    if not (finite == np.isfinite(y)).all():
        return False
    return close(np.where(finite, x, 0.0), np.where(finite, y, 0.0))


def _size(x: np.ndarray, y: np.ndarray) -> float:
    """1, or the larger of the two first numbers."""
    return max(1.0, abs(float(x.flat[0])), abs(float(y.flat[0])))
