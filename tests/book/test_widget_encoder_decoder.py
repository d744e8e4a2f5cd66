"""Map on its page, by keyboard from disk and by mouse over http."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operating import told
from operating.encoder_decoder import SIZES, SLIDER, box, check, chosen_box

Open = Callable[..., Any]
BASE, BIG = 63_082_496, 214_245_376


def total(widget: Any) -> int:
    text = widget.locator("tr.tl-sums td").first.inner_text()
    return int(text.replace(",", ""))


def test_map_by_keyboard(show: Open) -> None:
    widget, visit = show("encoder_decoder", disk=True)
    press = visit.page.keyboard.press
    first = check(widget)
    before = told(widget)
    assert first["chosen"] == "cross-attention"

    chosen_box(widget).focus()
    press("ArrowUp")
    assert check(widget)["chosen"] == "add, norm after cross-attention, decoder"
    press("ArrowLeft")  # to the encoder, at the same height
    assert check(widget)["chosen"] == "add, norm after feed-forward, encoder"
    press("ArrowLeft")  # there is no more
    assert check(widget)["chosen"] == "add, norm after feed-forward, encoder"
    press("ArrowDown")
    assert check(widget)["chosen"] == "feed-forward network of the encoder"
    press("ArrowRight")
    assert check(widget)["chosen"] == "cross-attention"
    press("Home")
    assert check(widget)["chosen"] == "source tokens"
    press("ArrowDown")
    assert check(widget)["chosen"] == "source tokens"
    visited = set()
    for _ in range(15):
        visited.add(check(widget)["chosen"])
        press("ArrowUp")
    assert len(visited) == 15
    assert check(widget)["chosen"] == "scores of the next token"
    press("Escape")
    assert check(widget)["chosen"] == "cross-attention"

    for label, key in SIZES.items():
        press("Tab")
        assert visit.page.evaluate("document.activeElement.type") == "range", label
        press("ArrowRight")
        assert check(widget)[key] > first[key]
    changed = check(widget)
    assert all(changed[key] > first[key] for key in SIZES.values())

    widget.get_by_role("button", name="Reset").focus()
    press("Enter")
    assert check(widget) == first
    assert told(widget) == before


def test_map_by_mouse(show: Open) -> None:
    widget, _ = show("encoder_decoder")
    first = check(widget)
    assert total(widget) == BASE
    names = [
        one.get_attribute("aria-label") for one in widget.get_by_role("option").all()
    ]
    assert len(names) == len(set(names)) == 15
    for name in names:
        box(widget, name).click()
        assert check(widget)["chosen"] == name
    widget.get_by_role("button", name="big, 2017").click()
    assert check(widget)["d_model"] == 1024
    assert total(widget) == BIG
    widget.get_by_role("button", name="base, 2017").click()
    assert total(widget) == BASE
    widget.get_by_role("button", name="Reset").click()
    assert check(widget) == first


def test_heads_change_the_scores_and_nothing_else(show: Open) -> None:
    widget, _ = show("encoder_decoder")
    before = [row.inner_text().split("\t") for row in widget.locator("tbody tr").all()]
    widget.get_by_role("slider", name="heads", exact=True).press("End")
    assert check(widget)["num_heads"] == 16
    after = [row.inner_text().split("\t") for row in widget.locator("tbody tr").all()]
    assert [row[:3] for row in before] == [row[:3] for row in after]
    assert [row[3] for row in before] != [row[3] for row in after]


def test_the_table_marks_the_row_of_the_chosen_box(show: Open) -> None:
    widget, _ = show("encoder_decoder")
    for name, row in (
        ("cross-attention", "cross-attention"),
        ("scores of the next token", "tokens and head"),
        ("add, norm after self-attention, decoder", "decoder norms"),
    ):
        box(widget, name).click()
        assert widget.locator("tr.tl-here th").all_inner_texts() == [row]
    box(widget, "positions of the source").click()
    assert widget.locator("tr.tl-here").count() == 0  # nothing is learned there
    assert SLIDER in SIZES
