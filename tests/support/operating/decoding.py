"""Beam: a choice of texts and three sliders over a recorded tree."""

from __future__ import annotations

from typing import Any

from operating import number, slider, start_of, told
from transformer_lib.widgets.base import fixed
from transformer_lib.widgets.decoding import END, Hypothesis, recorded, romanised, walk

SLIDER = "step"

READ = """card => [...card.querySelectorAll(".tl-hypotheses tbody tr")].map(row =>
  [...row.children].map(cell => cell.textContent.trim()))"""


def check(widget: Any) -> dict[str, Any]:
    """Compare what Beam shows with the search of the library; return what is set."""
    assert start_of(widget)["trees"] == recorded()
    chosen = int(widget.locator("select").input_value())
    texts = widget.locator(".tl-slider .tl-number").all_inner_texts()
    taken, size, penalty = (number(text.split()[0]) for text in texts)
    tree = recorded()[chosen]
    steps = walk(tree["next"], int(size), penalty)
    assert texts[0] == f"{int(taken)} of {len(steps)}"

    rows = steps[: int(taken)]
    finished = [one for step in rows for one in step if one.state == "finished"]
    finished.sort(key=lambda one: -one.score)
    shown = finished + [one for one in rows[-1] if one.state != "finished"]
    read = widget.evaluate(READ)
    assert len(read) == 4
    for got, one in zip(read, shown, strict=False):
        assert got == _row(one)
    assert all(got[1:] == ["", "", ""] for got in read[len(shown) :])
    assert widget.locator(".tl-beam-box").count() == sum(map(len, rows))
    last = [one.text[-1].replace(END, "end") for step in rows for one in step]
    nodes = widget.locator(".tl-beam-text").all_text_contents()
    assert sorted(nodes) == sorted(last)
    line = told(widget)
    assert line.startswith(f"step {int(taken)} of {len(steps)}: ")
    if finished:
        text = finished[0].text.removesuffix(END)
        fits = "fits" if text in tree["fits"] else "does not fit"
        assert f"{text} ({romanised(text)}), {fits} what was heard" in line
        ended = all(one.state != "open" for one in rows[-1])
        assert ("answer: " in line) == ended
    return {"heard": chosen, "beam": int(size), "penalty": penalty, "step": int(taken)}


def _row(one: Hypothesis) -> list[str]:
    text = one.text.removesuffix(END)
    bound = "" if one.state == "finished" else "≤ "
    said = f"{text} {romanised(text)}".strip()
    return [said, fixed(one.total, 2), bound + fixed(one.score, 2), one.state]


def use_all(widget: Any) -> None:
    """The longest text, the widest beam, the last step."""
    widget.locator("select").select_option("1")
    for name in ("step", "beam size", "length penalty"):
        slider(widget, name).press("End")
