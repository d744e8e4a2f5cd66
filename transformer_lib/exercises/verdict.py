"""What ``check`` answers: readable text, and the same as HTML in notebooks."""

from __future__ import annotations

import html
import re
import textwrap
from dataclasses import dataclass
from typing import Any

WIDTH = 79

Rows = tuple[tuple[str, str], ...]
"""Pairs of label and value: the input that shows a mistake, expected and got."""

_SIGNS = {"right": "✓", "right so far": "✓", "not attempted": "○"}
_HEADLINES = {
    "right": "right",
    "right so far": "right so far",
    "not attempted": "not attempted yet",
}
_EDGES = {
    "right": "#0a7a56",
    "right so far": "#0a7a56",
    "not attempted": "#7a8496",
}
_EDGE_ELSE = "#b4470b"
_MONO = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;"


@dataclass(frozen=True)
class Verdict:
    """The result of one check.

    In a notebook it shows itself when it is the last line of a cell; ``print`` it
    anywhere else. Its truth value says whether the answer is right.

    Parameters
    ----------
    exercise
        Name of the exercise.
    status
        ``"right"``, ``"right so far"``, ``"not attempted"``, ``"mistake"`` (recognised, see ``mistakes``),
        ``"either"`` (several known mistakes fit), ``"wrong"``, ``"error"``,
        ``"endless"``, ``"type"``, ``"shape"``, ``"changes its input"``, ``"unsteady"`` or
        ``"checker failed"``.
    says
        Sentences that say what was found.
    ask
        One question that leads to the cure, or "".
    exhibit
        Pairs of label and value: the input that shows it, expected and got.
    notes
        Remarks that do not decide.
    mistakes
        Names of the known mistakes that fit.
    """

    exercise: str
    status: str
    says: tuple[str, ...] = ()
    ask: str = ""
    exhibit: Rows = ()
    notes: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the answer is right."""
        return self.status == "right"

    def __bool__(self) -> bool:
        return self.passed

    @property
    def headline(self) -> str:
        """The name of the exercise and the result in two or three words."""
        return f"{self.exercise}: {_HEADLINES.get(self.status, 'not yet')}"

    def __str__(self) -> str:
        sign = _SIGNS.get(self.status, "✗")
        lines = [f"{sign} {self.headline}"]
        for sentence in self.says:
            lines += _wrapped(sentence)
        if self.ask:
            lines += _wrapped(f"Question: {self.ask}")
        width = max((len(label) for label, _ in self.exhibit), default=0)
        for label, value in self.exhibit:
            first, *rest = value.split("\n")
            lines.append(f"  {label:<{width}}  {first}".rstrip())
            lines += [" " * (width + 4) + line for line in rest]
        for note in self.notes:
            lines += _wrapped(f"Note: {note}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        edge = _EDGES.get(self.status, _EDGE_ELSE)
        sign = _SIGNS.get(self.status, "✗")
        label = html.escape(f"Check of {self.headline}", quote=True)
        status = html.escape(self.status, quote=True)
        out = [
            f'<div class="tl-verdict" data-status="{status}" role="group" '
            f'aria-label="{label}" style="border-left:4px solid {edge};'
            "padding:.4em .9em;margin:.5em 0;max-width:46em;line-height:1.45;"
            'overflow-wrap:anywhere">',
            f'<p style="margin:.2em 0"><strong>{sign} {_html(self.headline)}</strong></p>',
        ]
        paragraph = '<p style="margin:.4em 0">{}</p>'
        out += [paragraph.format(_html(sentence)) for sentence in self.says]
        if self.ask:
            question = f"<strong>Question:</strong> {_html(self.ask)}"
            out.append(paragraph.format(question))
        if self.exhibit:
            out.append(f'<dl style="{_MONO}font-size:.85em;margin:.4em 0">')
            out += [
                '<div style="display:flex;flex-wrap:wrap;margin:.15em 0">'
                f'<dt style="min-width:8.5em;margin:0">{html.escape(label)}</dt>'
                f'<dd style="white-space:pre-wrap;margin:0">{html.escape(value)}</dd>'
                "</div>"
                for label, value in self.exhibit
            ]
            out.append("</dl>")
        out += [paragraph.format(_html(f"Note: {note}")) for note in self.notes]
        out.append("</div>")
        return "\n".join(out)

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def _html(text: str) -> str:
    """Escaped; what stands between backticks is set as code."""
    code = rf'<span style="{_MONO}font-size:.9em">\1</span>'
    return re.sub(r"`([^`]+)`", code, html.escape(text, quote=True))


def _wrapped(sentence: str) -> list[str]:
    """The sentence in lines of at most `WIDTH` characters, indented by two."""
    lines: list[str] = []
    for part in sentence.split("\n"):
        lines += textwrap.wrap(
            part, WIDTH, initial_indent="  ", subsequent_indent="  "
        ) or [""]
    return lines


def unattempted(exercise: str) -> Verdict:
    """The verdict on a stub. Its text never changes: notebooks store it."""
    return Verdict(
        exercise,
        "not attempted",
        ("Put your answer in place of the `...`, then run the cell again.",),
    )
