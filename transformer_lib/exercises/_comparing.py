"""Compares results with the expected ones, says how they differ, shows numbers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RELATIVE = 1e-6
"""Relative difference up to which two float64 results count as equal."""

ABSOLUTE = 1e-7
"""Absolute difference up to which two float64 results count as equal."""

_COARSE = {"float32": 1e-4, "float16": 1e-2, "complex64": 1e-4}
_SHOWN = 30  # largest number of entries that an array is written out with


@dataclass(frozen=True)
class Unusable:
    """A returned object that is no array of numbers, and a sentence that says so."""

    says: str


Canonical = np.ndarray | Unusable


def is_torch(value: Any) -> bool:
    """Whether ``value`` is a torch tensor, found out without importing torch."""
    return any(c.__module__.split(".")[0] == "torch" for c in type(value).__mro__)


def canonical(value: Any) -> Canonical:
    """``value`` as an array of real numbers, or a sentence why it is none."""
    kind = type(value).__name__
    if value is None:
        return Unusable("It returned None: is the line with return missing?")
    if value is Ellipsis:
        return Unusable("It returned the placeholder `...`.")
    if is_torch(value):
        return Unusable(
            "It returned a torch tensor; this exercise is in NumPy. Compute with "
            "np functions, or return tensor.detach().numpy()."
        )
    if inspect.iscoroutine(value):
        value.close()
        return Unusable("It returned a coroutine: write def instead of async def.")
    if isinstance(value, str | bytes | dict | set | type) or callable(value):
        return Unusable(f"It returned {_a(kind)}, and numbers were wanted.")
    if hasattr(value, "__next__"):
        return Unusable(
            f"It returned {_a(kind)}: use return instead of yield, or collect the "
            "numbers in an array first."
        )
    try:
        array = np.asarray(value)
    except Exception:
        return Unusable(
            f"It returned {_a(kind)} that does not form an array: are its rows of "
            "different lengths?"
        )
    if array.dtype.kind == "O":
        return _from_objects(array, kind)
    if array.dtype.kind not in "biufc":
        return Unusable(
            f"It returned an array of dtype {array.dtype}, and numbers were wanted."
        )
    if array.dtype.kind == "c":
        if not np.allclose(array.imag, 0.0):
            return Unusable("It returned complex numbers, and real ones were wanted.")
        array = array.real
    return array


def _from_objects(array: np.ndarray, kind: str) -> Canonical:
    if any(item is None or item is Ellipsis for item in array.flat):
        return Unusable("Some of the numbers that it returned are None or `...`.")
    if any(is_torch(item) for item in array.flat):
        return Unusable("It returned torch tensors; this exercise is in NumPy.")
    try:
        return array.astype(np.float64)
    except Exception:
        what = f"an array of objects ({kind})" if kind != "object" else "an object"
        return Unusable(f"It returned {what}, and numbers were wanted.")


def close(got: Any, expected: Any) -> bool:
    """Equal in shape and, up to the precision of the coarser dtype, in numbers.

    NaN equals NaN and infinity equals infinity, so that two wrong results compare.
    """
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        return False
    coarse = max(_COARSE.get(str(got.dtype), 0), _COARSE.get(str(expected.dtype), 0))
    return bool(
        np.allclose(
            got.astype(np.float64),
            expected.astype(np.float64),
            rtol=max(RELATIVE, coarse),
            atol=max(ABSOLUTE, coarse),
            equal_nan=True,
        )
    )


def number(value: Any) -> str:
    """One number with at most four decimals, or four digits when it is small.

    Examples
    --------
    >>> number(0.5), number(1 / 3), number(-1e-17), number(2.0), number(3.2e-5)
    ('0.5', '0.3333', '0', '2', '3.2e-05')
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    x = float(value)
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    if abs(x) < 1e-12:
        return "0"
    if abs(x) < 1e-3 or abs(x) >= 1e6:
        return f"{x:.4g}"
    text = f"{x:.4f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def shown(value: Any) -> str:
    """A value as a learner would write it; long arrays by shape and first numbers."""
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else repr(value[:56]) + " ..."
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, bool | int | float | np.number):
        return number(value)
    if isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        head = ", ".join(repr(v) for v in value[:4])
        return f"[{head}, ... {len(value)} in all]" if len(value) > 4 else f"[{head}]"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(shown(v) for v in value[:12]) + "]"
    if isinstance(value, dict):
        items = list(value.items())[:12]
        return "{" + ", ".join(f"{k}: {shown(v)}" for k, v in items) + "}"
    return f"({type(value).__name__})"


def too_long(array: np.ndarray) -> bool:
    """Whether an array is shown by its shape and first numbers only."""
    return array.size > (_SHOWN if array.ndim < 3 else _SHOWN // 2)


def _array(array: np.ndarray) -> str:
    if array.dtype.kind not in "biuf":
        return f"array of dtype {array.dtype}"
    if array.ndim == 0:
        return number(array)
    if array.size == 0:
        return f"empty array of shape {shape(array)}"
    if too_long(array):
        first = ", ".join(number(x) for x in array.reshape(-1)[:4])
        return f"array of shape {shape(array)}, starting {first}, ..."
    cells = np.array([number(x) for x in array.flat]).reshape(array.shape)
    width = max(len(cell) for cell in cells.flat)
    if array.ndim == 1:
        return "[" + ", ".join(cells) + "]"
    flat = _nested(cells)
    if len(flat) <= 48:
        return flat
    if array.ndim > 2:
        return "[" + ",\n ".join(_nested(block) for block in cells) + "]"
    rows = ["[" + ", ".join(cell.rjust(width) for cell in row) + "]" for row in cells]
    return "[" + ",\n ".join(rows) + "]"


def _nested(cells: np.ndarray) -> str:
    if cells.ndim == 1:
        return "[" + ", ".join(cells) + "]"
    return "[" + ", ".join(_nested(row) for row in cells) + "]"


def shape(array: np.ndarray) -> str:
    """The shape as a tuple, ``()`` for a number."""
    return str(tuple(int(size) for size in array.shape))


def _a(kind: str) -> str:
    return f"an {kind}" if kind[:1].lower() in "aeio" else f"a {kind}"


def relations(
    got: np.ndarray,
    expected: np.ndarray,
    arguments: Sequence[Any],
    names: Sequence[str],
) -> list[str]:
    """How a wrong result (same shape) comes from the expected one, best guess first.

    Each phrase continues "Your result ...". One input may show a relation by accident;
    believe those that hold on all of them.
    """
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    if not np.isfinite(got).all() or not got.size:
        return []
    if not got.any():
        return ["is all zeros"] if got.ndim else ["is zero"]
    found = []
    for name, argument in zip(names, arguments, strict=False):
        array = argument if isinstance(argument, np.ndarray) else None
        if array is not None and array.shape == got.shape and close(got, array):
            found.append(f"is {name} itself")
    if got.ndim == 2 and close(got, expected.T):
        found.append("is the transpose of the expected one")
    if close(got, -expected):
        found.append("has the opposite sign")
    for decimals in range(5):
        if np.array_equal(got, expected.round(decimals)):
            found.append(f"is the expected one rounded to {decimals} decimals")
            break
    peak = np.abs(expected).argmax()
    if expected.flat[peak] != 0.0:
        factor = got.flat[peak] / expected.flat[peak]
        if close(got, factor * expected):
            found.append(f"is {number(factor)} times the expected one")
    shift = (got - expected).flat[0]
    if close(got - expected, np.full(got.shape, shift)):
        found.append(f"is off by {number(shift)} in every number")
    with np.errstate(all="ignore"):
        for phrase, transform in _TRANSFORMS:
            if close(got, transform(expected)):
                found.append(phrase)
    if got.ndim and close(got, expected[::-1]):
        order = "has the right rows" if got.ndim > 1 else "has the right numbers"
        found.append(f"{order} in reverse order")
    if got.ndim and close(np.sort(got, axis=None), np.sort(expected, axis=None)):
        found.append("has the right numbers in other places")
    return found


_TRANSFORMS: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("is the square of the expected one", np.square),
    ("is the square root of the expected one", np.sqrt),
    ("is 1 divided by the expected one", np.reciprocal),
    ("is exp of the expected one", np.exp),
    ("is the logarithm of the expected one", np.log),
    ("is the absolute value of the expected one", np.abs),
    ("is 1 minus the expected one", lambda x: 1.0 - x),
)


def here(got: np.ndarray, expected: np.ndarray) -> str:
    """One sentence on where a result (same shape) is wrong on this input, or ""."""
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    if not np.isfinite(got).all():
        return _not_finite(got)
    right = np.isclose(got, expected, rtol=RELATIVE, atol=ABSOLUTE)
    if got.ndim > 1:
        rows = right.reshape(len(right), -1).all(axis=1)
        if rows.any():
            return f"Here {_list('row', rows)} right, {_list('row', ~rows)} wrong."
        columns = right.reshape(-1, right.shape[-1]).all(axis=0)
        if columns.any():
            return f"Here {_list('column', columns)} right, the others wrong."
        return ""
    if right.any() and got.size > 2:
        right_ones, others = _list("number", right), _list("number", ~right)
        return f"Here {right_ones} right, {others} wrong."
    return ""


def _not_finite(got: np.ndarray) -> str:
    bad = ~np.isfinite(got)
    kind = "nan" if np.isnan(got[bad]).any() else "inf"
    if bad.all():
        return f"Here your result is {kind}."
    if got.ndim > 1 and bad.reshape(len(bad), -1).all(axis=1).any():
        whole = bad.reshape(len(bad), -1).all(axis=1)
        return f"Here {_list('row', whole)} {kind}."
    place = ", ".join(str(int(i)) for i in np.argwhere(bad)[0])
    return f"Here your result holds {kind}, first at [{place}]."


def _list(noun: str, marks: np.ndarray) -> str:
    """``row 1 is``, ``rows 0 and 2 are``, ``7 of 9 rows are``: counted from 0."""
    places = [str(int(i)) for i in np.flatnonzero(marks)]
    if len(places) == 1:
        return f"{noun} {places[0]} is"
    if len(places) > 5:
        return f"{len(places)} of {len(marks)} {noun}s are"
    return f"{noun}s {', '.join(places[:-1])} and {places[-1]} are"


def shape_says(got: np.ndarray, expected: np.ndarray) -> str:
    """One sentence on a result of another shape."""
    if got.ndim == 0:
        return f"It is one number, and an array of shape {shape(expected)} was wanted."
    if expected.ndim == 0:
        return f"It is an array of shape {shape(got)}, and one number was wanted."
    return f"Its shape is {shape(got)}, and {shape(expected)} was wanted."


def shape_relations(got: np.ndarray, expected: np.ndarray) -> list[str]:
    """How a result of another shape comes from the expected one; see `relations`."""
    found = []
    if got.size == expected.size:
        turned = got.ndim == 2 and got.shape == expected.shape[::-1]
        if turned and close(got, expected.T):
            found.append("is the transpose of the expected one")
        if close(got.reshape(-1), expected.reshape(-1)):
            squeezed = np.squeeze(got).shape == np.squeeze(expected).shape
            if squeezed:
                found.append(
                    "has the right numbers, with an axis of length 1 too many or too few"
                )
            found.append("has the right numbers in another shape")
    if got.ndim == expected.ndim and got.ndim and got.shape[1:] == expected.shape[1:]:
        short, long = sorted((got, expected), key=len)
        missing = len(got) < len(expected)
        if len(short) and close(short, long[: len(short)]):
            found.append(
                "is the beginning of what was wanted; the end is missing"
                if missing
                else "begins with what was wanted; more follows"
            )
        elif len(short) and close(short, long[-len(short) :]):
            found.append(
                "is the end of what was wanted; the beginning is missing"
                if missing
                else "ends with what was wanted; more stands before it"
            )
    if got.ndim == expected.ndim + 1 and len(got):
        if close(got[-1], expected):
            found.append("holds what was wanted in its last entry")
        elif close(got[0], expected):
            found.append("holds what was wanted in its first entry")
    if got.ndim and got.ndim == expected.ndim - 1 and len(expected):
        if close(got, expected[-1]):
            found.append("is the last entry of what was wanted")
        elif close(got, expected[0]):
            found.append("is the first entry of what was wanted")
    return found
