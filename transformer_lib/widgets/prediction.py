"""Prediction: say what you expect before you see it, with one click."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from transformer_lib.widgets.base import Number, StateError, Text, Texts, Widget

__all__ = ["Prediction"]

LONG = 60
"""Letters of all options together that do not fit side by side; as in the script."""


class Prediction(Widget):
    """What do you expect? Three options, one click, then what was measured.

    The guess is kept in the reader's browser under ``name`` and goes nowhere else.

    Parameters
    ----------
    name
        Unique in the course, such as ``"ch01-distance"``.
    question
        What is asked, in one sentence.
    options
        Three different answers, in few words.
    answer
        Which option was measured, 0 to 2.
    because
        Why, in one or two sentences.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> Prediction("ch00-sum", "What is 1 + 1?", ("1", "2", "3"), answer=1)
    Prediction('ch00-sum')
    """

    name = "prediction"
    label = Text()
    question = Text()
    options = Texts()
    answer = Number(0, 0, 2, whole=True, constant=True)
    because = Text()
    choice = Number(-1, -1, 2, whole=True)

    def __init__(
        self,
        name: str,
        question: str,
        options: Sequence[str],
        answer: int,
        because: str = "",
    ) -> None:
        for what, text in (("name", name), ("question", question)):
            if not isinstance(text, str) or not text.strip():
                raise StateError(f"{what}: got {text!r}, wanted some text")
        if len(options) != 3 or len({str(option).strip() for option in options}) != 3:
            raise StateError(f"options: got {options!r}, wanted three different texts")
        super().__init__(
            label=name,
            question=question,
            options=options,
            answer=answer,
            because=because,
        )

    def static_view(self) -> str:
        """Write the options, and the answer folded away."""
        options = "\n".join(
            f"<li>{html.escape(option)}</li>" for option in self.options
        )
        measured = html.escape(self.options[int(self.answer)])
        reason = f" {html.escape(self.because)}" if self.because else ""
        long = sum(len(option) for option in self.options) > LONG
        stacked = ' class="tl-stacked"' if long else ""
        return (
            f"<ul{stacked}>\n{options}\n</ul>\n"
            f"<details><summary>What was measured</summary>\n"
            f"<p><strong>{measured}</strong>{'.' if reason else ''}{reason}</p>\n"
            "</details>"
        )

    def __repr__(self) -> str:
        return f"Prediction({self.label!r})"

    def _shown_in_repr(self) -> dict[str, Any]:
        return {"name": self.label}
