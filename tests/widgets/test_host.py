"""The host of a page without kernel: a model as a widget expects it, and safe mounting."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Node = Callable[..., Any]
HOST = Path(__file__).resolve().parents[2] / "book" / "_static" / "widget-host.js"

# A page of two elements, in as few lines as the host needs of a browser.
PAGE = """
const log = [], errors = [];
console.error = (...words) => errors.push(words.map(String).join(" "));
function element(name, state) {
  return {
    dataset: { widget: name, state }, classes: [], replaced: null,
    classList: { add(c) { this.owner.classes.push(c); } },
    cloneNode() { return element(name, state); },
    replaceWith(other) { this.replaced = other; },
  };
}
const elements = data.elements.map(([name, state]) => {
  const made = element(name, state);
  made.classList.owner = made;
  return made;
});
globalThis.document = { readyState: data.readyState ?? "interactive",
  querySelectorAll: () => elements,
  addEventListener: (event, call) => { log.push(event); globalThis.later = call; } };
globalThis.window = { courseWidgets: {
  good: { render({ model, el }) { el.model = model; el.drawn = true; } },
  bad: { render() { throw new Error("broken"); } },
} };
"""


def page(node: Node, elements: list[Any], then: str, **more: Any) -> Any:
    """Run the host on a page of ``elements``, then the JavaScript ``then``."""
    host = HOST.read_text(encoding="utf-8")
    expression = f"(() => {{ {PAGE}\n{host}\n{then} }})()"
    return node("shared", expression, {"elements": elements, **more})


def test_each_element_gets_its_own_model(node: Node) -> None:
    state = json.dumps({"a": 1})
    then = """
      const [one, two] = elements.map((e) => e.replaced.model);
      one.set("a", 5);
      return [one.get("a"), two.get("a"), one.get("start").a];
    """
    assert page(node, [["good", state], ["good", state]], then) == [5, 1, 1]


def test_events_fire_key_first_once_and_only_on_change(node: Node) -> None:
    then = """
      const model = elements[0].replaced.model;
      for (const event of ["change:a", "change:b", "change"])
        model.on(event, () => log.push(`${event} ${model.get("a")} ${model.get("b")}`));
      model.set("a", [1]); model.save_changes();
      log.push("-");
      model.set({ a: [2], b: 3 });
      return log;
    """
    state = json.dumps({"a": [1], "b": 2})
    assert page(node, [["good", state]], then) == [
        "-",
        "change:a 2 3",
        "change:b 2 3",
        "change 2 3",
    ]


def test_off_stops_one_listener_and_leaves_the_others(node: Node) -> None:
    then = """
      const model = elements[0].replaced.model;
      const first = () => log.push("first"), second = () => log.push("second");
      model.on("change", first); model.on("change", second);
      model.off("change", first); model.off("change:never", first);
      model.set("a", 2);
      return log;
    """
    assert page(node, [["good", '{"a": 1}']], then) == ["second"]


def test_a_broken_widget_keeps_its_still_view_and_harms_no_other(node: Node) -> None:
    elements = [["bad", "{}"], ["good", "{not json"], ["none", "{}"], ["good", "{}"]]
    then = "return [elements.map((e) => Boolean(e.replaced)), elements.map((e) => e.classes), errors]"
    replaced, classes, errors = page(node, elements, then)
    assert replaced == [False, False, False, True]
    assert classes == [["tl-still"], ["tl-still"], ["tl-still"], []]
    assert "broken" in errors[0]
    assert "JSON" in errors[1]
    assert '"none" stays still: Error: its script is not on this page' in errors[2]


def test_a_page_that_is_still_loading_is_waited_for(node: Node) -> None:
    then = """
      const before = Boolean(elements[0].replaced);
      later();
      return [log, before, Boolean(elements[0].replaced)];
    """
    found = page(node, [["good", "{}"]], then, readyState="loading")
    assert found == [["DOMContentLoaded"], False, True]
