"""``check``: hand in an answer, read what it does."""

from __future__ import annotations

from typing import Any

from transformer_lib.exercises import registry
from transformer_lib.exercises._calling import SECONDS
from transformer_lib.exercises.verdict import Verdict


def check(name: str, answer: Any = None, *, seconds: float = SECONDS) -> Verdict:
    """Judge an answer to an exercise and, when it is wrong, name the mistake.

    Nothing that the answer does ends the notebook: it may raise, print, change its
    input, call ``exit``, or run for ever (then it is stopped, where Python can: in the
    main thread on Linux and macOS). Only the answer is executed.

    Parameters
    ----------
    name
        The exercise, such as ``"softmax"``.
    answer
        The function itself, ``my_softmax`` and not ``my_softmax(...)``; for a pencil exercise
        the numbers, as a dict or a list. A function whose body is ``...``, ``None`` and
        ``...`` count as not attempted.
    seconds
        How long all calls together may take, above 0.

    Returns
    -------
    Verdict
        Shows itself as the last line of a cell. Its truth value says whether the
        answer is right.

    Raises
    ------
    ValueError
        If there is no exercise of that name (close ones are listed), or ``seconds`` is
        not above 0.
    TypeError
        If ``name`` is no text.

    Examples
    --------
    >>> bool(check("softmax", lambda scores: scores / scores.sum()))
    False
    """
    if not isinstance(name, str):
        raise TypeError(
            f"name: got a value of type {type(name).__name__}, wanted the exercise's "
            'name in quotes first: check("softmax", my_softmax)'
        )
    if not isinstance(seconds, int | float) or not seconds > 0:
        raise ValueError(f"seconds: got {seconds!r}, wanted a number above 0")
    exercise = registry.find(name)
    try:
        verdict: Verdict = exercise.judge(answer, float(seconds))
    except Exception as problem:  # an answer must not end the notebook
        kind = type(problem).__name__
        said = f"The checker itself failed on this answer ({kind}); please report it."
        return Verdict(name, "checker failed", (said,))
    return verdict
