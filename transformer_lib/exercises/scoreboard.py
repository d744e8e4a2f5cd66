"""The scoreboard: what the best model of each chapter so far scores on one task.

It reads the record that ``python -m transformer_lib.experiments.scoreboard`` wrote, so
it needs no torch and shows the same table every time.
"""

from __future__ import annotations

import html
import json
import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

__all__ = ["MODELS", "Scoreboard", "ScoreboardRow", "scoreboard"]


class Model(NamedTuple):
    """One row's words: the chapter, and the model in a few words."""

    chapter: int
    words: str


MODELS: dict[str, Model] = {
    "recurrence": Model(1, "LSTM"),
    "lookup": Model(2, "soft lookup in 30,000 stored dates"),
    "attention": Model(3, "attention alone: one layer, one head"),
    "positions": Model(4, "+ positions (sinusoids)"),
    "feed_forward": Model(5, "+ residual connections and feed-forward"),
    "masks": Model(6, "+ padding mask"),
    "multi_head": Model(7, "+ four heads"),
    "normalization": Model(8, "+ LayerNorm and a second layer"),
}
"""Chapter topic -> its row, in the order of the chapters. Later chapters add theirs."""

WIDTH = 79
TASK = (
    "A written date to its ISO form: 13.07.1914 → 1914-07-13. Three numeric forms, "
    "1,000 unseen dates"
)


class ScoreboardRow(NamedTuple):
    """One model: its chapter, its name, and what it scored with every seed."""

    topic: str
    chapter: int
    model: str
    parameters: int
    exact_match: tuple[float, ...]
    character_accuracy: tuple[float, ...]


@dataclass(frozen=True)
class Scoreboard:
    """The table; in a notebook it shows itself as the last line of a cell.

    Parameters
    ----------
    rows
        One per chapter, in order.
    steps
        Training steps of the models that train.
    """

    rows: tuple[ScoreboardRow, ...]
    steps: int

    @property
    def caption(self) -> str:
        """What the numbers are."""
        seeds = len(self.rows[0].exact_match)
        return (
            f"{TASK}, {self.steps} training steps. Median of {seeds} seeds, and in "
            "brackets the lowest and the highest."
        )

    def __str__(self) -> str:
        cells = [_HEAD, *(_cells(row) for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(_HEAD))]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 1 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        return "\n".join([*textwrap.wrap(self.caption, WIDTH), "", *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        right, left = "text-align:right", "text-align:left"

        def row(shown: ScoreboardRow) -> str:
            chapter, model, *numbers = _cells(shown)
            return (
                f'<tr><td style="{right}">{chapter}</td>'
                f'<th scope="row" style="{left};font-weight:normal">'
                f"{html.escape(model)}</th>"
                + "".join(f'<td style="{right}">{_unbroken(n)}</td>' for n in numbers)
                + "</tr>"
            )

        head = "".join(
            f'<th scope="col" style="{left if name == "model" else right}">{name}</th>'
            for name in _HEAD
        )
        body = "\n".join(row(shown) for shown in self.rows)
        return (
            '<div class="tl-scoreboard">\n'
            f"<p>{html.escape(self.caption)}</p>\n"
            '<div role="region" tabindex="0" aria-label="Scoreboard" '
            'style="overflow-x:auto">\n'
            f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n"
            "</table>\n</div>\n</div>"
        )

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def scoreboard(upto: str) -> Scoreboard:
    """Show what the models of the chapters up to ``upto`` score on the course's task.

    The scores were measured once, over several seeds, and are read from the record;
    nothing is trained.

    Parameters
    ----------
    upto
        Topic of the last chapter to show, such as ``"lookup"``.

    Returns
    -------
    Scoreboard
        The table; ``rows`` holds the numbers.

    Raises
    ------
    ValueError
        If there is no such row yet.

    Examples
    --------
    >>> [row.topic for row in scoreboard("lookup").rows]
    ['recurrence', 'lookup']
    """
    if upto not in MODELS:
        raise ValueError(
            f"upto: got {upto!r}, wanted one of {', '.join(map(repr, MODELS))}"
        )
    values = _record()["values"]
    topics = list(MODELS)
    return Scoreboard(
        rows=tuple(
            ScoreboardRow(
                topic=topic,
                chapter=MODELS[topic].chapter,
                model=MODELS[topic].words,
                parameters=int(values[f"{topic}.parameters"][0]),
                exact_match=tuple(values[f"{topic}.exact_match"]),
                character_accuracy=tuple(values[f"{topic}.character_accuracy"]),
            )
            for topic in topics[: topics.index(upto) + 1]
        ),
        steps=int(values["steps"][0]),
    )


_HEAD = ("chapter", "model", "parameters", "dates right", "characters right")


def _cells(row: ScoreboardRow) -> tuple[str, ...]:
    return (
        str(row.chapter),
        row.model,
        f"{row.parameters:,}",
        _percent(row.exact_match),
        _percent(row.character_accuracy),
    )


def _percent(shares: Sequence[float]) -> str:
    middle = 100 * statistics.median(shares)
    return f"{middle:.1f} % ({100 * min(shares):.1f} to {100 * max(shares):.1f})"


def _unbroken(cell: str) -> str:
    """Break a narrow cell before the bracket only: 78.2 % / (76.7 to 79.4)."""
    parts = cell.replace(" (", "\n(").split("\n")
    return " ".join(f'<span style="white-space:nowrap">{p}</span>' for p in parts)


@cache
def _record() -> Any:
    # The record is data: read as a file, since exercises do not import experiments.
    folder = resources.files("transformer_lib").joinpath("experiments", "records")
    return json.loads(folder.joinpath("scoreboard.json").read_text(encoding="utf-8"))
