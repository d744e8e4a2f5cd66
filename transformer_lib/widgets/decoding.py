"""Beam: walk through a recorded tree with a few hypotheses at a time.

The numbers are those of chapter 10's model. They lie in ``data/decoding.json``, written
by ``python -m transformer_lib.experiments.decoding widget``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from transformer_lib.widgets.base import (
    HINT,
    Number,
    Recorded,
    Widget,
    fixed,
    recording,
    table,
)

__all__ = ["Beam", "Hypothesis", "recorded", "walk"]

MAX_LEN = 20
"""Longest sentence, as in the experiments; it bounds what an open beginning can reach."""

END = "."
"""Stands for the end token in the recorded texts."""

MOST_STEPS = 11
"""Steps of the longest search of the recorded trees."""


class Hypothesis(NamedTuple):
    """One kept beginning after one step of the search.

    Attributes
    ----------
    text
        Its syllables; the end token is :data:`END`.
    total
        Log-probability, in nats.
    parent
        Its place among the hypotheses of the step before.
    state
        ``"open"``, ``"finished"``, or ``"given up"``: it cannot overtake the best
        finished one any more.
    score
        Of a finished one, total over norm; else the most that it can still reach.
    """

    text: str
    total: float
    parent: int
    state: str
    score: float


Next = Mapping[str, Sequence[Sequence[Any]]]


def walk(
    following: Next, beam_size: int, length_penalty: float
) -> list[list[Hypothesis]]:
    """Search a recorded tree by the rules of :func:`transformer_lib.decoding.beam_search`.

    Parameters
    ----------
    following
        Beginning -> its likeliest next syllables and their log-probabilities.
    beam_size, length_penalty
        As in :func:`transformer_lib.decoding.beam_search`.

    Returns
    -------
    steps
        For each step the hypotheses that it kept, likeliest first.
    """
    before = [Hypothesis("", 0.0, 0, "open", 0.0)]
    steps: list[list[Hypothesis]] = []
    scores: list[float] = []

    def norm(length: int) -> float:
        return float(((5 + length) / 6) ** length_penalty)

    while any(one.state == "open" for one in before):
        length = len(steps) + 1
        extended = [
            (one.text + token, one.total + log_p, place)
            for place, one in enumerate(before)
            if one.state == "open"
            for token, log_p in following[one.text]
        ]
        extended.sort(key=lambda item: -item[1])
        kept = extended[: beam_size - len(scores)]
        scores += [p / norm(length) for text, p, _ in kept if text.endswith(END)]
        best = max(scores, default=None)
        rows = []
        for text, total, parent in kept:
            if text.endswith(END):
                state, score = "finished", total / norm(length)
            else:
                score = total / norm(MAX_LEN)
                state = "given up" if best is not None and score <= best else "open"
            rows.append(Hypothesis(text, total, parent, state, score))
        steps.append(rows)
        before = rows
    return steps


def recorded() -> list[dict[str, Any]]:
    """Give the trees: what was heard, what fits it, and what follows each beginning."""
    trees: list[dict[str, Any]] = recording("decoding")["trees"]
    return trees


def romanised(text: str) -> str:
    """Spell syllables in Latin letters."""
    return " ".join(recording("decoding")["sounds"][syllable] for syllable in text)


class Beam(Widget):
    """Which beginnings survive? A beam search over the model's own numbers.

    Parameters
    ----------
    heard
        Which recorded text, 0 to 2.
    beam_size
        Places, 1 to 4; with one it is greedy decoding.
    length_penalty
        The exponent of the norm, 0 to 2.
    step
        Steps that have been taken, 1 to 11; a search that has ended stays as it was.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> Beam(beam_size=3)
    Beam(heard=0, beam_size=3, length_penalty=0.6, step=5)
    """

    name = "decoding"
    question = "Which beginnings survive?"
    in_repr = ("heard", "beam_size", "length_penalty", "step")
    heard = Number(0, 0, 2, whole=True)
    beam_size = Number(2, 1, 4, whole=True)
    length_penalty = Number(0.6, 0, 2)
    step = Number(5, 1, MOST_STEPS, whole=True)
    trees = Recorded(recorded())

    def __init__(
        self,
        heard: int = 0,
        beam_size: int = 2,
        length_penalty: float = 0.6,
        step: int = 5,
    ) -> None:
        super().__init__(
            trees=recorded(),
            heard=heard,
            beam_size=beam_size,
            length_penalty=length_penalty,
            step=step,
        )

    def steps(self) -> list[list[Hypothesis]]:
        """All steps of the search that the state asks for."""
        following = self.trees[self.heard]["next"]
        return walk(following, int(self.beam_size), float(self.length_penalty))

    def static_view(self) -> str:
        """Write the finished sentences of the whole search as a table."""
        found = [
            one for step in self.steps() for one in step if one.state == "finished"
        ]
        found.sort(key=lambda one: -one.score)
        rows = []
        for one in found:
            text = one.text.removesuffix(END)
            said = f"{text} ({romanised(text)})"
            rows.append((said, fixed(one.total, 2), fixed(one.score, 2)))
        caption = (
            f"Heard: {self.trees[self.heard]['heard']}. A beam of {self.beam_size} with "
            f"length penalty {fixed(self.length_penalty, 1)} finishes these."
        )
        columns = ("sentence", "log-probability", "score")
        return f"{table(columns, rows, caption)}\n<p>{HINT}</p>"
