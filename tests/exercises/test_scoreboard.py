"""The scoreboard shows the record, up to the chapter that is asked for."""

from __future__ import annotations

import statistics
import subprocess
import sys

import pytest

from transformer_lib.exercises import scoreboard as public_scoreboard
from transformer_lib.exercises.scoreboard import MODELS, scoreboard
from transformer_lib.experiments import records
from transformer_lib.experiments.scoreboard import ROWS


@pytest.mark.parametrize("topic", MODELS)
def test_rows_end_with_the_chapter_asked_for(topic: str) -> None:
    rows = scoreboard(topic).rows
    assert rows[-1].topic == topic
    assert [row.topic for row in rows] == list(MODELS)[: len(rows)]
    assert [row.chapter for row in rows] == sorted(row.chapter for row in rows)


def test_every_row_shown_can_be_measured_again() -> None:
    assert list(MODELS) == list(ROWS)


def test_numbers_shown_are_those_of_the_record() -> None:
    record = records.load("scoreboard")
    for row in scoreboard(list(MODELS)[-1]).rows:
        exact = record["values"][f"{row.topic}.exact_match"]
        assert list(row.exact_match) == exact
        middle = f"{100 * statistics.median(exact):.1f} %"
        spread = f"({100 * min(exact):.1f} to {100 * max(exact):.1f})"
        assert f"{middle} {spread}" in str(scoreboard(row.topic))
        html = scoreboard(row.topic)._repr_html_()
        assert middle in html
        assert spread in html


def test_text_and_html_tell_the_same() -> None:
    board = scoreboard("lookup")
    bundle = board._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    for row in board.rows:
        for text in bundle.values():
            assert row.model in text
            assert f"{row.parameters:,}" in text
    assert "attention alone" not in "".join(bundle.values())


def test_same_table_every_time() -> None:
    assert scoreboard("lookup")._repr_html_() == scoreboard("lookup")._repr_html_()


def test_package_offers_it() -> None:
    assert public_scoreboard is scoreboard


@pytest.mark.parametrize("unknown", ["lookups", "", "Lookup"])
def test_unknown_topic_is_answered_with_those_there_are(unknown: str) -> None:
    with pytest.raises(ValueError, match=r"upto: got .*wanted one of 'recurrence'"):
        scoreboard(unknown)


def test_works_where_torch_cannot_be_imported() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from transformer_lib.exercises import scoreboard\n"
        "print(scoreboard('lookup'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "LSTM" in done.stdout
