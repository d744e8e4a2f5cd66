"""Curves of a training run, and tables in HTML for texts that figures have no letters for."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from transformer_lib.palette import LIGHT
from transformer_lib.plotting.heat_map import text_colour
from transformer_lib.plotting.recurrence import threshold
from transformer_lib.plotting.style import PAGE_WIDTH, WEIGHTS

__all__ = ["HtmlTable", "attention_table", "run_panels", "text_table"]


def run_panels(
    history: Sequence[Mapping[str, Any]],
    metric: str,
    *,
    metric_name: str,
    floor: float | None = None,
) -> Figure:
    """Draw a training run: losses, score, learning rate and speed against the update.

    Parameters
    ----------
    history
        Lines of the run's log: ``step``, ``loss``, ``lr``, ``tokens_per_second``, and,
        where it was validated, ``validation_loss`` and the metric. Lines may have
        ``utilisation`` too, from 0 to 1: then that is drawn in place of the speed.
    metric
        Key of the score, in percent or BLEU.
    metric_name
        Title of its panel.
    floor
        The lowest training loss that label smoothing leaves, drawn as a line.

    Returns
    -------
    figure
        ``PAGE_WIDTH`` wide, two rows of two panels.

    Raises
    ------
    ValueError
        If the history is empty or was never validated.
    """
    if not history:
        raise ValueError("history: got no line, wanted one or more")
    looks = [line for line in history if line.get(metric) is not None]
    if not looks:
        raise ValueError(f"history: no line has the score {metric!r}")
    figure, axes = plt.subplots(2, 2, figsize=(PAGE_WIDTH, 4.3), sharex=True)
    (losses, score), (rate, speed) = axes
    _curve(losses, history, "loss", "query")
    losses.set_title("loss, in nats per token")
    losses.set_ylim(0, None)
    losses.plot(
        [line["step"] for line in looks],
        [line["validation_loss"] for line in looks],
        "o--", color=LIGHT["key"], linewidth=1.4, clip_on=False,
    )  # fmt: skip
    _name(losses, history[0]["step"], history[0]["loss"], "training", "query", (6, -2))
    last = looks[-1]
    _name(
        losses,
        last["step"],
        last["validation_loss"],
        "held out",
        "key",
        (0, 9),
        "right",
    )
    score.plot(
        [line["step"] for line in looks], [line[metric] for line in looks],
        "o-", color=LIGHT["value"], clip_on=False,
    )  # fmt: skip
    score.set_title(metric_name)
    score.set_ylim(0, 100 if metric == "exact_match" else None)
    _curve(rate, history, "lr", "output")
    rate.set_title("learning rate")
    rate.set_ylim(0, None)
    if all(line.get("utilisation") is not None for line in history):
        shown = [{**line, "percent": 100 * line["utilisation"]} for line in history]
        _curve(speed, shown, "percent", "ink")
        speed.set_title("utilisation, in percent")
    else:
        _curve(speed, history, "tokens_per_second", "ink")
        speed.set_title("real target tokens per second")
    speed.set_ylim(0, None)
    for ax in (rate, speed):
        ax.set_xlabel("update")
    losses.set_xlim(0, history[-1]["step"])
    if floor is not None:
        threshold(losses, floor, "no training loss is lower", place=0.32)
    return figure


def _curve(ax: Axes, lines: Sequence[Mapping[str, Any]], key: str, role: str) -> None:
    ax.plot(
        [line["step"] for line in lines],
        [line[key] for line in lines],
        color=LIGHT[role],
    )


def _name(
    ax: Axes,
    x: float | int,
    y: float,
    words: str,
    role: str,
    offset: tuple[int, int],
    side: str = "left",
) -> None:
    ax.annotate(
        words, (x, y), offset, textcoords="offset points", color=LIGHT[role], fontsize=9.5,
        va="center", ha=side,
    )  # fmt: skip


# --- tables ---------------------------------------------------------------------------


@dataclass(frozen=True)
class HtmlTable:
    """A table that a notebook shows as HTML and a terminal as text.

    Parameters
    ----------
    caption
        What it shows, in a sentence.
    source
        The HTML.
    text
        The same without marks.
    """

    caption: str
    source: str
    text: str

    def __repr__(self) -> str:
        return f"{self.caption}\n{self.text}"

    def _repr_html_(self) -> str:
        return self.source


def text_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str
) -> HtmlTable:
    """Make a table of texts, in any script that the reader's browser can write.

    Parameters
    ----------
    columns
        Names of the columns.
    rows
        One text for each column.
    caption
        What the table shows.

    Returns
    -------
    table
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        If a row has not one text for each column.
    """
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            raise ValueError(
                f"rows[{number}]: got {len(row)} texts, wanted one for each of the "
                f"{len(columns)} columns"
            )
    head = "".join(f'<th scope="col" style="{_LEFT}">{_html(c)}</th>' for c in columns)
    body = "\n".join(
        "<tr>"
        + "".join(
            f'<td style="{_LEFT};white-space:nowrap">{_html(cell)}</td>' for cell in row
        )
        + "</tr>"
        for row in rows
    )
    text = "\n".join("  ".join(row) for row in [columns, *rows])
    return HtmlTable(caption, _framed(caption, f"<tr>{head}</tr>", body), text)


def attention_table(
    weights: ArrayLike, asks: Sequence[str], answers: Sequence[str], caption: str
) -> HtmlTable:
    """Show attention weights as a table: rows ask, columns answer, in percent.

    A heat map for labels that the figures' font cannot write.

    Parameters
    ----------
    weights
        From 0 to 1, shape ``(len(asks), len(answers))``.
    asks, answers
        Labels of rows and columns.
    caption
        What the table shows.

    Returns
    -------
    table
        Shows itself as the last line of a cell.

    Raises
    ------
    ValueError
        If the weights do not fit the labels or are outside [0, 1].
    """
    table = np.asarray(weights, dtype=float)
    if table.shape != (len(asks), len(answers)):
        raise ValueError(
            f"weights: got shape {table.shape}, wanted ({len(asks)}, {len(answers)}), "
            "one row for each that asks and one column for each that answers"
        )
    if not ((table >= 0) & (table <= 1 + 1e-6)).all():
        raise ValueError("weights: got a number outside [0, 1]")
    head = "<td></td>" + "".join(
        f'<th scope="col" style="{_CELL}">{_html(label)}</th>' for label in answers
    )
    body = "\n".join(
        f'<tr><th scope="row" style="{_CELL}">{_html(label)}</th>'
        + "".join(_weight(w) for w in row)
        + "</tr>"
        for label, row in zip(asks, table, strict=True)
    )
    lines = [
        f"{label}  " + " ".join(f"{100 * w:3.0f}" for w in row)
        for label, row in zip(asks, table, strict=True)
    ]
    text = "\n".join(["   " + "   ".join(answers), *lines])
    return HtmlTable(caption, _framed(caption, f"<tr>{head}</tr>", body), text)


_LEFT = "text-align:left"
_CELL = "text-align:center;padding:.1em .3em;min-width:1.7em"


def _weight(weight: float) -> str:
    """One cell: its ground tells the weight, and its ink can be read on it."""
    ground = to_hex(WEIGHTS(min(weight, 1.0)))
    ink = text_colour(*to_rgb(ground))
    return (
        f'<td style="{_CELL};background:{ground};color:{ink};'
        f'font-variant-numeric:tabular-nums">{100 * weight:.0f}</td>'
    )


def _html(text: str) -> str:
    return html.escape(text.replace(" ", "\N{NO-BREAK SPACE}"))


def _framed(caption: str, head: str, body: str) -> str:
    words = html.escape(caption)
    return (
        f'<div role="region" tabindex="0" aria-label="{words}" style="overflow-x:auto">\n'
        f'<table style="border-collapse:collapse">\n<caption style="{_LEFT}">{words}'
        f"</caption>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )
