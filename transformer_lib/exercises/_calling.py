"""Calls a learner's function safely: copies of the inputs, a time limit, no crash.

Nothing here knows what is right; :mod:`transformer_lib.exercises.engine` judges.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import inspect
import io
import re
import signal
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 5.0
"""How long all calls of one check may take together, in seconds."""

_REPEAT = 0.05  # the alarm rings again, in case a bare `except:` swallowed it
_KEPT_CHARACTERS = 4000
_HERE = str(Path(__file__).parent)


class TimeIsUp(BaseException):
    """Raised inside an answer that runs too long.

    Not an ``Exception``, so that ``except Exception`` in the answer does not stop it.
    """


@dataclass(frozen=True)
class Outcome:
    """What one call did.

    Parameters
    ----------
    value
        What the function returned; ``None`` when it raised or ran too long.
    error
        Exception class and message, such as ``"ValueError: shapes differ"``, or "".
    error_class
        Name of the exception's class, or "".
    where
        The source line that raised, or "".
    late
        Whether the time limit ended the call.
    printed
        What it wrote to standard output (at most 4,000 characters).
    warned
        Messages of the warnings raised meanwhile, without repeats.
    changed
        Name and new value of each argument that the function changed in place.
    """

    value: Any = None
    error: str = ""
    error_class: str = ""
    where: str = ""
    late: bool = False
    printed: str = ""
    warned: tuple[str, ...] = ()
    changed: tuple[tuple[str, Any], ...] = ()


class _Kept(io.TextIOBase):
    """Keeps the first characters that are written and drops the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if len(self.text) < _KEPT_CHARACTERS:
            self.text += text[: _KEPT_CHARACTERS - len(self.text)]
        return len(text)


def limit_applies() -> bool:
    """Whether a time limit can be set here: on the main thread, not on Windows."""
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
    )


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise `TimeIsUp` in the block after ``seconds``; restore any earlier timer."""
    if not limit_applies():
        yield
        return
    armed = True

    def ring(signum: int, frame: types.FrameType | None) -> None:
        if armed:
            raise TimeIsUp

    started = time.monotonic()
    before = signal.signal(signal.SIGALRM, ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT)
    try:
        try:
            yield
        finally:
            armed = False
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # somebody else's timer, pytest-timeout's for example
            left = max(left - (time.monotonic() - started), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, left, interval)


def call(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    names: Sequence[str],
    seconds: float = SECONDS,
) -> Outcome:
    """Call ``function`` with copies of ``arguments`` and tell what happened.

    Never raises for what the function does, ``SystemExit`` included. Only
    ``KeyboardInterrupt`` passes: it is the reader's own key press.
    """
    given = copy.deepcopy(list(arguments))
    kept = _Kept()
    value: Any = None
    error = error_class = where = ""
    late = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.redirect_stdout(kept):
            try:
                with _alarm(seconds):
                    value = function(*given)
            except TimeIsUp:
                late = True
            except KeyboardInterrupt:
                raise
            except BaseException as problem:
                error_class = type(problem).__name__
                error = _message(problem)
                where = _line(problem)
    changed = [
        (name, now)
        for name, now, then in zip(names, given, arguments, strict=False)
        if not same_input(now, then)
    ]
    warned = tuple(dict.fromkeys(_first_line(str(w.message)) for w in caught))
    return Outcome(
        value, error, error_class, where, late, kept.text, warned, tuple(changed)
    )


def same_input(a: Any, b: Any) -> bool:
    """Whether an argument is still what it was: same type, shape and numbers."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        same = a.shape == b.shape and a.dtype == b.dtype
        return same and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same_input, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same_input(a[k], b[k]) for k in a)
    return bool(a == b)


def is_stub(function: Any) -> bool:
    """Whether a function's body does nothing: ``...``, ``pass``, ``return None``."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return False
    idle = {
        "RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "POP_TOP",
        "COPY_FREE_VARS", "MAKE_CELL", "LOAD_SMALL_INT", "NOT_TAKEN",
    }  # fmt: skip
    if any(step.opname not in idle for step in dis.get_instructions(code)):
        return False
    returned = [c for c in code.co_consts if not isinstance(c, str)]
    return all(c is None or c is Ellipsis for c in returned)


def arity_problem(function: Any, names: Sequence[str]) -> str:
    """Why ``function`` cannot be called with these arguments by position, or ""."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*names)
    except TypeError:
        own = ", ".join(signature.parameters)
        wanted = ", ".join(names)
        return (
            f"Your function takes ({own}), and the exercise calls it with "
            f"{_count(len(names), 'argument')}: ({wanted})."
        )
    return ""


def parameters(function: Any) -> list[str]:
    """Names of a function's parameters, [] if they cannot be found out."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _first_line(text: str, limit: int = 200) -> str:
    """First line, without memory addresses, at most ``limit`` characters."""
    line = (text.strip().splitlines() or [""])[0]
    line = re.sub(r"\bat 0x[0-9a-fA-F]+", "at ...", line)
    return line if len(line) <= limit else line[: limit - 4] + " ..."


def _message(problem: BaseException) -> str:
    """Class and message of an exception whose ``__str__`` may itself be broken."""
    try:
        text = _first_line(str(problem))
    except Exception:
        text = ""
    name = type(problem).__name__
    return f"{name}: {text}" if text else name


def _line(problem: BaseException) -> str:
    """The learner's source line that raised: the deepest one outside libraries."""
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        inside = "site-packages" in frame.filename or frame.filename.startswith(_HERE)
        if frame.line and not inside and not frame.filename.startswith("<frozen"):
            return frame.line.strip()
    return ""
