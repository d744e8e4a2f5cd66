"""Curves of a run and tables in HTML: what is shown is what was given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from wcag import contrast

from transformer_lib.plotting import attention_table, run_panels, text_table, use_style

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _style() -> Iterator[None]:
    with mpl.rc_context():
        use_style()
        yield
        plt.close("all")


def history(**more: Any) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [
        {"step": step, "loss": 3.0 / step, "lr": 0.001 * step, "tokens_per_second": 9e3}
        for step in (1, 2, 3, 4)
    ]
    for line in lines[1::2]:
        line.update(exact_match=20.0 * line["step"], validation_loss=0.1)
    return [{**line, **more} for line in lines]


def points(line: Any) -> list[tuple[float, float]]:
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


# --- curves ---------------------------------------------------------------------------


def test_every_line_of_the_log_is_a_point_and_every_validation_a_dot() -> None:
    figure = run_panels(history(), "exact_match", metric_name="dates right")
    losses, score, rate, speed = figure.axes
    assert points(losses.lines[0]) == [(s, 3.0 / s) for s in (1, 2, 3, 4)]
    assert points(losses.lines[1]) == [(2, 0.1), (4, 0.1)]
    assert points(score.lines[0]) == [(2, 40.0), (4, 80.0)]
    assert score.get_title(loc="left") == "dates right"
    assert [y for _, y in points(rate.lines[0])] == [0.001, 0.002, 0.003, 0.004]
    assert [y for _, y in points(speed.lines[0])] == [9e3] * 4
    assert score.get_ylim() == (0, 100)


def test_the_floor_is_a_line_in_the_panel_of_losses() -> None:
    figure = run_panels(history(), "exact_match", metric_name="right", floor=0.5)
    drawn = [set(np.asarray(line.get_ydata())) for line in figure.axes[0].lines]
    assert {0.5} in drawn


def test_utilisation_takes_the_place_of_speed_where_it_is_known() -> None:
    lines = history(utilisation=0.25)
    speed = run_panels(lines, "exact_match", metric_name="right").axes[3]
    assert [y for _, y in points(speed.lines[0])] == [25.0] * 4
    lines[0]["utilisation"] = None
    speed = run_panels(lines, "exact_match", metric_name="right").axes[3]
    assert [y for _, y in points(speed.lines[0])] == [9e3] * 4


def test_a_history_without_lines_or_scores_is_refused() -> None:
    with pytest.raises(ValueError, match="history: got no line"):
        run_panels([], "bleu", metric_name="BLEU")
    with pytest.raises(ValueError, match="history: no line has the score 'bleu'"):
        run_panels(history(), "bleu", metric_name="BLEU")


# --- tables ---------------------------------------------------------------------------


class Cells(HTMLParser):
    """The rows of a table as lists of (tag, style, text)."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.rows: list[list[tuple[str, str, str]]] = []
        self._open: tuple[str, str] | None = None
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._open = (tag, dict(attrs).get("style") or "")
            self.rows[-1].append((*self._open, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.rows[-1][-1] = (*self._open, self.rows[-1][-1][2] + data)


WEIGHTS = np.array([[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]])


def test_each_weight_is_a_cell_in_the_row_that_asks() -> None:
    shown = attention_table(WEIGHTS, ["1", "-"], ["월", " ", "일"], "where it looks")
    rows = Cells(shown._repr_html_()).rows
    assert [text for *_, text in rows[0]] == ["", "월", "\u00a0", "일"]
    assert [text for *_, text in rows[1]] == ["1", "0", "25", "75"]
    assert [text for *_, text in rows[2]] == ["-", "100", "0", "0"]
    assert "where it looks" in repr(shown)
    assert "100" in repr(shown)


def test_the_ink_of_every_cell_can_be_read_on_its_ground() -> None:
    weights = np.linspace(0, 1, 101)[None]
    shown = attention_table(weights, ["x"], ["y"] * 101, "all weights")
    styles = [style for tag, style, _ in Cells(shown.source).rows[1] if tag == "td"]
    for style in styles:
        found = re.search(r"background:(#\w+);color:(#\w+)", style)
        assert found is not None
        assert contrast(*found.groups()) >= 4.5, style


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"weights: got shape \(2, 3\), wanted \(3, 2\)"
    ):
        attention_table(WEIGHTS, ["a", "b", "c"], ["d", "e"], "no")
    with pytest.raises(ValueError, match=r"weights: got a number outside \[0, 1\]"):
        attention_table(2 * WEIGHTS, ["a", "b"], ["c", "d", "e"], "no")


def test_texts_cannot_become_marks() -> None:
    shown = text_table(["written"], [["<b>1914</b>"]], 'a "quoted" & marked caption')
    assert Cells(shown.source).rows[1][0][2] == "<b>1914</b>"
    assert "<b>" not in shown.source
    assert 'aria-label="a &quot;quoted&quot; &amp; marked caption"' in shown.source


def test_a_row_needs_a_text_for_each_column() -> None:
    with pytest.raises(
        ValueError, match=r"rows\[1\]: got 1 texts, wanted one for each"
    ):
        text_table(["a", "b"], [["1", "2"], ["3"]], "no")
