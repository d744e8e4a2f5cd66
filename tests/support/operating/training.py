"""Training: a slider over snapshots, two choices, and a row of the map to read out."""

from __future__ import annotations

import math
import re
from typing import Any

from operating import slider, start_of, told
from transformer_lib.widgets.base import fixed, recording
from transformer_lib.widgets.training import END, NOTHING, ROWS, Training

SLIDER = "step"

READ = """card => [...card.querySelectorAll(".tl-look-rows > *")].map(row => ({
  label: row.querySelector(".tl-look-label").textContent,
  wrong: row.querySelectorAll(".tl-wrong").length,
  chosen: row.getAttribute("aria-selected") === "true",
  numbers: [...row.querySelectorAll(".tl-look-cell")].map(cell => cell.textContent),
  grounds: [...row.querySelectorAll(".tl-look-cell")].map(
    cell => cell.style.getPropertyValue("--light")),
}))"""
HEADS = """card => [...card.querySelectorAll(".tl-look-head span")].map(
  one => [one.textContent, one.lang])"""


def rows(widget: Any) -> Any:
    """The list of what was written, one row per token."""
    return widget.get_by_role("listbox", name="what it writes")


def choice(widget: Any, name: str) -> Any:
    """One of the two choices, by its label."""
    return widget.get_by_role("combobox", name=name)


TOKENS = {END: "the end", NOTHING: "no character", "-": "dash"}
CHARACTERS = {
    " ": "space",
    ",": "comma",
    ".": "full stop",
    "(": "bracket",
    ")": "bracket",
}


def check(widget: Any) -> dict[str, Any]:
    """Compare what Training shows with the record; return what is set."""
    assert start_of(widget)["run"] == recording("training")
    layer, head = map(int, choice(widget, "attention").input_value().split())
    read = widget.evaluate(READ)
    assert len(read) == ROWS
    (place,) = (t for t, row in enumerate(read) if row["chosen"])
    state = {
        "snapshot": int(slider(widget, SLIDER).input_value()),
        "example": int(choice(widget, "date").input_value()),
        "layer": layer,
        "head": head,
        "place": place,
    }
    model = Training(**state)
    step = model.run["steps"][state["snapshot"]]
    assert widget.locator(".tl-slider .tl-number").inner_text() == str(step)
    example = model.run["examples"][state["example"]]
    written, wanted = model.written(), example["target"] + END
    looks = [[_rounded(weight) for weight in row] for row in model.weights()]

    columns = [c.replace(" ", "·") for c in example["source"]]
    heads = widget.evaluate(HEADS)
    assert heads == [["writes", ""], *([c, example["language"]] for c in columns)]
    for t, row in enumerate(read):
        token, right = written[t : t + 1], wanted[t : t + 1]
        assert row["label"] == f"place {t + 1}: {_label(token, right)}"
        assert row["wrong"] == int(bool(token) and token != right)
        weights = looks[t] if token else [0] * len(columns)
        shown = [str(w) if w and t == place else "" for w in weights]
        assert row["numbers"] == shown
        _check_grounds(row["grounds"], weights)

    loss = fixed(model.measured("loss"), 3)
    share = f"{fixed(model.measured('exact_match'), 1)} %"
    lines = told(widget).splitlines()
    assert lines[0] == f"step {step}: {share} of the dates right, loss {loss}"
    assert lines[1] == f"writes {_verdict(written, example['target'])}"
    if place < len(written):
        token, right = (TOKENS.get(c, c) for c in (written[place], wanted[place]))
        asks = f"place {place + 1}, {token}"
        if token != right:
            asks += f" instead of {right}"
        assert lines[2] == f"{asks}, looks at {_best(example['source'], looks[place])}"
    else:
        assert lines[2] == f"place {place + 1}: nothing is written here"
    labels = widget.locator(".tl-run-plot .tl-plot-label").all_text_contents()
    assert labels == [f"dates right {share}", f"loss {loss}"]
    _check_curve(widget, model)
    return state


def _rounded(weight: float) -> int:
    return math.floor(weight + 0.5)


def _label(token: str, right: str) -> str:
    shown = {END: "end"}
    if token == right:
        return shown.get(token, token) or "–"
    return f"{shown.get(token, token) or '–'} ({shown.get(right, right)})"


def _verdict(written: str, target: str) -> str:
    said = written.replace(END, "").replace(NOTHING, "") or "nothing"
    wrong = sum(written[t : t + 1] != c for t, c in enumerate(target))
    if written == target + END:
        return f"{said}: right"
    if wrong:
        return f"{said}: wrong at {wrong} of 10 places; {target} is right"
    return f"{said}: all characters right, but it does not stop"


def _best(source: str, weights: list[int]) -> str:
    ranked = sorted((-weight, i) for i, weight in enumerate(weights) if weight)[:3]
    parts = [
        f"{CHARACTERS.get(source[i], source[i])} (character {i + 1}) {-w} %"
        for w, i in ranked
    ]
    rest = 100 + sum(weight for weight, _ in ranked)
    return ", ".join(parts) + (f", others {rest} %" if rest > 0 else "")


def _check_grounds(grounds: list[str], weights: list[int]) -> None:
    """More weight is never a lighter ground, and the same weight is the same one."""
    tone = dict(zip(weights, grounds, strict=True))
    assert [tone[w] for w in weights] == grounds
    brightness = [int(tone[w][1:3], 16) for w in sorted(tone)]
    assert brightness == sorted(brightness, reverse=True)
    assert tone.get(0, "#ffffff") == "#ffffff"


def _check_curve(widget: Any, model: Training) -> None:
    curve = model.run["curve"]
    right = [96 - 70 * value / 100 for value in curve["exact_match"]]
    loss = [
        192 - 64 * math.log10(value / 0.05) / math.log10(200) for value in curve["loss"]
    ]
    for role, wanted in (("query", right), ("key", loss)):
        path = widget.locator(f".tl-run-plot .tl-dial-{role}").get_attribute("d")
        heights = [float(y) for y in re.findall(r",([\d.]+)", path)]
        assert len(heights) == len(wanted)
        assert max(abs(a - b) for a, b in zip(heights, wanted, strict=True)) < 0.06


def use_all(widget: Any) -> None:
    """The longest date, the last head, before anything was learned."""
    sources = [one["source"] for one in recording("training")["examples"]]
    longest = max(range(len(sources)), key=lambda i: len(sources[i]))
    choice(widget, "date").select_option(str(longest))
    run = recording("training")
    choice(widget, "attention").select_option(f"{run['layers']} {run['heads']}")
    slider(widget, SLIDER).press("Home")
    slider(widget, SLIDER).press("PageUp")
