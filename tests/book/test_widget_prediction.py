"""Predictions on their page: one click, kept, forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operating import start_of
from operating.prediction import check

Open = Callable[..., Any]


REFUSE_STORAGE = """
  for (const name of ["getItem", "setItem", "removeItem"]) {
    const before = Storage.prototype[name];
    Storage.prototype[name] = function (key, ...rest) {
      if (key.startsWith("transformer-lib:")) throw new DOMException("refused", "SecurityError");
      return before.call(this, key, ...rest);
    };
  }
"""


def test_a_prediction_reveals_keeps_and_forgets(show: Open) -> None:
    widget, visit = show("prediction", disk=True)
    assert check(widget) == -1
    clear = widget.get_by_role("button", name="Clear my guess")
    assert not clear.is_visible()
    widget.get_by_role("radio").nth(2).click()
    assert check(widget) == 2
    widget.get_by_role("radio").nth(0).click(force=True)  # a guess is one click
    assert check(widget) == 2

    visit.page.reload()
    visit.settle()
    assert check(widget) == 2
    clear.click()
    assert check(widget) == -1
    assert not clear.is_visible()
    visit.page.reload()
    visit.settle()
    assert check(widget) == -1
    assert visit.errors == []


def test_a_prediction_by_keyboard_is_one_deliberate_press(show: Open) -> None:
    widget, visit = show("prediction")
    press = visit.page.keyboard.press
    widget.get_by_role("radio").first.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft"):
        press(key)
        assert check(widget) == -1
    press("Enter")
    assert check(widget) == 2
    press("Tab")
    assert visit.page.evaluate("document.activeElement.textContent") == "Clear my guess"
    press("Enter")
    assert check(widget) == -1
    assert visit.page.evaluate("document.activeElement.getAttribute('role')") == "radio"
    press("Space")
    assert check(widget) == 0


def test_a_prediction_works_where_storage_is_refused(show: Open) -> None:
    def prepare(visit: Any) -> None:
        visit.context.add_init_script(REFUSE_STORAGE)

    widget, visit = show("prediction", prepare=prepare)
    widget.get_by_role("radio").nth(1).click()
    assert check(widget) == 1
    widget.get_by_role("button", name="Clear my guess").click()
    assert check(widget) == -1
    assert visit.errors == []


def test_a_guess_whose_option_is_gone_is_forgotten(show: Open) -> None:
    widget, visit = show("prediction")
    label = start_of(widget)["label"]
    visit.page.evaluate(
        "label => localStorage.setItem(`transformer-lib:prediction:${label}`, 'old text')",
        label,
    )
    visit.page.reload()
    visit.settle()
    assert check(widget) == -1


def test_predictions_of_one_page_do_not_share_a_guess(show: Open) -> None:
    widget, visit = show("prediction")
    others = visit.page.locator('[data-widget="prediction"]').all()[1:]
    widget.get_by_role("radio").nth(1).click()
    assert [check(other) for other in others] == [-1] * len(others)
