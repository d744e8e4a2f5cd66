"""The page of exercises tells every exercise of every chapter, and what it knows."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from course_site import exercises

from transformer_lib.exercises import registry

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = exercises.chapters(ROOT)
TOPICS = {chapter.page.partition("_")[2] for chapter in CHAPTERS}


TYPESET = str.maketrans(
    {"…": "...", "‘": "'", "’": "'", "“": '"', "”": '"', "–": "--", "—": "---"}
)


def words(page: str) -> str:
    """What a page says, without tags, each gap one space, as typed on a keyboard."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    told = html.unescape(re.sub(r"<[^>]+>", "", text))
    return " ".join(told.translate(TYPESET).split())


@pytest.fixture(scope="module")
def built(site: Path) -> str:
    return (site / "book" / "exercises.html").read_text(encoding="utf-8")


def test_each_chapter_asks_all_exercises_of_its_topic_once() -> None:
    told = [one.name for chapter in CHAPTERS for one in chapter.exercises]
    declared = {name for name, topic in registry.topics().items() if topic in TOPICS}
    assert len(told) == len(set(told))
    assert set(told) == declared
    for chapter in CHAPTERS:
        numbers = [one.number for one in chapter.exercises]
        assert numbers == list(range(1, len(numbers) + 1)), chapter.page
        assert all(one.time for one in chapter.exercises), chapter.page


def test_the_page_tells_each_exercise_and_each_mistake_with_its_hint(
    built: str,
) -> None:
    said = words(built)
    for chapter in CHAPTERS:
        for one in chapter.exercises:
            declared = registry.find(one.name)
            title = f"Exercise {chapter.number}.{one.number}. {one.title}"
            for text in (title, declared.statement):
                assert " ".join(text.translate(TYPESET).split()) in said, text
            for mistake in declared.mistakes:
                hint = f"{mistake.says} {mistake.ask}".translate(TYPESET)
                assert " ".join(hint.split()) in said, hint
            address = f'href="../{chapter.page}.html#{one.anchor}"'
            assert address in built


def test_the_mistakes_are_folded_and_counted(built: str) -> None:
    folded = re.findall(r"<details>\s*<summary>(\d.*?)</summary>", built)
    counts = [
        len(registry.find(one.name).mistakes)
        for chapter in CHAPTERS
        for one in chapter.exercises
    ]
    assert folded == [f"{n} mistakes that it knows" for n in counts]
    said = words(built)
    assert f"There are {len(counts)} exercises in {len(CHAPTERS)} chapters." in said
    assert f"Together they know {sum(counts):,} mistakes." in said


def test_what_is_asked_is_read_off_a_notebook() -> None:
    def cell(kind: str, text: str) -> dict[str, Any]:
        return {"cell_type": kind, "source": [text]}

    stub, solved = 'check("double", mine)', 'check("double", solved)'
    notebook = {
        "cells": [
            cell("code", 'check("before any heading", mine)'),
            cell("markdown", "### Exercise 2. Twice?\n\n*Easy, 4 minutes.* Do it."),
            cell("code", f"def mine(x):\n    ...\n\n\n{stub}"),
            cell("code", solved),
        ]
    }
    wanted = exercises.Asked(
        "double", 2, "Twice?", "exercise-2-twice", "Easy, 4 minutes"
    )
    assert list(exercises.asked(notebook)) == [wanted]


def test_a_text_is_shown_as_it_stands() -> None:
    said = exercises.plain("W_Q * W_K has  shape (d,) [i, j] <n> $5 `x` a|b 2^3 \\d")
    from markdown_it import MarkdownIt

    shown = MarkdownIt("commonmark").renderInline(said)
    assert (
        html.unescape(shown) == "W_Q * W_K has shape (d,) [i, j] <n> $5 `x` a|b 2^3 \\d"
    )


def test_one_mistake_is_told_in_the_singular() -> None:
    assert exercises.counted(1) == "One mistake"
    assert exercises.counted(7) == "7 mistakes"
