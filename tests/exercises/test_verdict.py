"""A verdict reads as text and as HTML, in both themes and for a screen reader."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from transformer_lib.exercises import check
from transformer_lib.exercises.verdict import WIDTH, Verdict

FULL = Verdict(
    "softmax",
    "mistake",
    ("It runs over the queries.", "Right on 2 of 3 inputs: <b>one row</b> & more."),
    ask="Which numbers compete?",
    exhibit=(("scores", "[[0, 1],\n [2, 5]]"), ("expected", "[1]"), ("got", "<i>")),
    notes=("It printed: <script>alert(1)</script>",),
    mistakes=("columns",),
)


class _Checker(HTMLParser):
    """Fails on unbalanced tags; collects tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _parsed(page: str) -> _Checker:
    checker = _Checker()
    checker.feed(page)
    assert checker.open == []
    return checker


def test_the_text_holds_every_part_in_order_and_narrow() -> None:
    text = str(FULL)
    parts = [
        "✗ softmax: not yet", "It runs over the queries.", "Question: Which numbers",
        "scores", "expected", "got", "Note: It printed",
    ]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert all(len(line) <= WIDTH for line in text.splitlines())
    assert repr(FULL) == text


def test_rows_of_an_array_stay_under_each_other() -> None:
    lines = str(FULL).splitlines()
    first = next(line for line in lines if "[[0, 1]" in line)
    second = lines[lines.index(first) + 1]
    assert first.index("[0, 1]") == second.index("[2, 5]")


def test_html_escapes_whatever_a_learner_wrote() -> None:
    page = FULL._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page
    _parsed(page)


def test_a_learners_hostile_names_and_messages_are_escaped() -> None:
    def attack(scores: np.ndarray) -> np.ndarray:
        raise ValueError("<img src=x onerror=alert(1)>")

    verdict = check("softmax", attack)
    page = verdict._repr_html_()
    assert "<img" not in page
    assert "&lt;img" in page
    hostile = Verdict('"><script>', "wrong", ("x",))._repr_html_()
    assert "<script>" not in hostile
    _parsed(hostile)


def test_html_says_everything_that_the_text_says() -> None:
    page = FULL._repr_html_()
    words = re.sub(r"<[^>]+>", " ", page)
    for part in (*FULL.says, FULL.ask, *FULL.notes):
        escaped = part.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        assert escaped in words


def test_html_is_labelled_and_does_not_speak_by_colour_alone() -> None:
    for status, word in (("right", "right"), ("wrong", "not yet")):
        checker = _parsed(Verdict("softmax", status)._repr_html_())
        attributes = checker.seen[0][1]
        assert attributes["role"] == "group"
        assert attributes["aria-label"] == f"Check of softmax: {word}"
        assert word in Verdict("softmax", status)._repr_html_()


def test_html_takes_ground_and_ink_from_the_page_and_loads_nothing() -> None:
    """So it is readable on a light and on a dark ground, wherever it is shown."""
    page = FULL._repr_html_()
    styles = " ".join(re.findall(r'style="([^"]*)"', page))
    assert not re.search(r"(?<!-)\bcolor:", styles)
    assert "background" not in styles
    assert "http" not in page
    assert "src=" not in page


def test_the_bundle_of_a_notebook_has_text_and_html_and_nothing_random() -> None:
    bundle = FULL._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"] == str(FULL)
    assert FULL._repr_mimebundle_() == bundle
    assert "id=" not in bundle["text/html"]


def test_ipython_shows_both_forms() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    formatter = InteractiveShell.instance().display_formatter
    assert formatter is not None
    data, _ = formatter.format(FULL)
    assert data["text/html"] == FULL._repr_html_()
    assert data["text/plain"] == str(FULL)


@pytest.mark.parametrize("status", ["right", "right so far", "not attempted", "error"])
def test_every_status_has_a_sign_and_a_word(status: str) -> None:
    text = str(Verdict("softmax", status))
    assert re.fullmatch(r"[✓○✗] softmax: [a-z ]+", text)
