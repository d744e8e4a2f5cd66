"""``predict``: a guess before the result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer_lib.widgets import Prediction

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


def predict(
    name: str,
    question: str,
    options: Sequence[str],
    answer: int,
    because: str = "",
) -> Prediction:
    """Ask what the reader expects: three options, one click, kept in the browser.

    Parameters
    ----------
    name
        Unique in the course: the chapter, a hyphen and one or more words, such as
        ``"ch01-distance"``. The browser keeps the guess under this name, so a test
        refuses two questions of one name.
    question
        One sentence.
    options
        Three short answers.
    answer
        Index of the option that was measured: 0, 1 or 2.
    because
        Why, in a sentence or two, shown after the click.

    Returns
    -------
    Prediction
        The widget; it shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        If an argument is not as described.
    TypeError
        If a text is no text or ``answer`` no integer.
    """
    from transformer_lib.widgets import Prediction

    for what, text in (("name", name), ("question", question), ("because", because)):
        if not isinstance(text, str):
            raise TypeError(f"{what}: got {type(text).__name__}, wanted text")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"name: got {name!r}, wanted small letters and digits joined by hyphens, "
            "such as 'ch01-distance'"
        )
    if not question.strip():
        raise ValueError("question: got an empty text")
    if isinstance(options, str) or len(options) != 3:
        raise ValueError(f"options: got {options!r}, wanted three texts")
    for option in options:
        if not isinstance(option, str):
            raise TypeError(f"options: got {option!r} in it, wanted three texts")
    if len({option.strip() for option in options}) != 3 or not all(
        option.strip() for option in options
    ):
        raise ValueError(f"options: got {list(options)!r}, wanted three different ones")
    if isinstance(answer, bool) or not isinstance(answer, int):
        raise TypeError(f"answer: got {answer!r}, wanted the index 0, 1 or 2")
    if answer not in (0, 1, 2):
        raise ValueError(f"answer: got {answer}, wanted the index 0, 1 or 2")
    return Prediction(name, question, list(options), answer, because)
