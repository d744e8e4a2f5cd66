"""What a notebook stores of a widget: the same text always, safe, and never empty."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from transformer_lib.reference import attention_reach, lstm_reach, scalar_reach
from transformer_lib.widgets import AttentionCalculator, Lookup, Prediction, Reach
from transformer_lib.widgets.base import Widget, short

FOLDER = Path(__file__).resolve().parents[2] / "transformer_lib" / "widgets"
EVIL = "<script>alert('x')</script> & \"quotes\" </div>"


def widgets() -> list[Widget]:
    return [
        Reach(),
        Lookup(),
        AttentionCalculator(),
        Prediction("ch00-sum", "What is 1 + 1?", ("1", "2", "3"), 1, "We count."),
    ]


class Reader(HTMLParser):
    """Collects tags, the attributes of the outer div, and the text."""

    VOID = frozenset({"br", "hr", "img", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root: dict[str, str | None] = {}
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.root = self.root or dict(attrs)
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("number", range(4))
def test_two_widgets_of_one_state_are_the_same_text(number: int) -> None:
    one, other = (widgets()[number]._repr_mimebundle_() for _ in range(2))
    assert one is not None
    assert other is not None
    for mime in ("text/html", "text/plain"):
        assert one[0][mime] == other[0][mime]
        assert not re.search(r"0x[0-9a-f]{6,}|IPY_MODEL", one[0][mime])
    view = "application/vnd.jupyter.widget-view+json"
    assert one[0][view]["model_id"] != other[0][view]["model_id"]


def test_the_text_is_the_same_in_another_process_with_other_hashing() -> None:
    code = (
        "from transformer_lib.widgets import *\n"
        "for w in (Reach(), Lookup(), AttentionCalculator(),"
        " Prediction('a', 'b', ('1', '2', '3'), 1)): print(w.as_html())"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


@pytest.mark.parametrize("number", range(4))
def test_the_html_holds_name_state_and_a_still_view(number: int) -> None:
    widget = widgets()[number]
    read = Reader(widget.as_html())
    assert read.open == []
    assert read.root["class"] == "tl-widget"
    assert read.root["data-widget"] == widget.name
    assert json.loads(read.root["data-state"] or "") == widget.current_state()
    assert widget.question in read.text
    assert "table" in read.tags or "details" in read.tags
    assert len(read.text) > 40
    assert not {"script", "style", "svg", "iframe"} & set(
        read.tags
    )  # GitHub drops them
    assert "id=" not in widget.as_html()  # would clash between two instances


def test_the_html_follows_the_state() -> None:
    widget = Reach()
    before = widget.as_html()
    widget.recurrent = 0.9
    assert widget.as_html() != before


def test_the_still_view_of_reach_shows_the_numbers_of_the_reference() -> None:
    text = Reach(recurrent=0.9, forget_bias=3.0, length=40).as_html()
    rows = re.findall(r'<tr><th scope="row">(\d+)</th>(.*?)</tr>', text)
    assert [int(t) for t, _ in rows] == [1, 2, 4, 8, 16, 32]
    for t, cells in rows:
        wanted = (
            scalar_reach(0.9, int(t)),
            lstm_reach(3.0, int(t)),
            attention_reach(40),
        )
        assert re.findall("<td>(.*?)</td>", cells) == [short(float(w)) for w in wanted]


@pytest.mark.parametrize(
    "widget",
    [
        Prediction("ch00-evil", EVIL, (EVIL, "b", "c"), 0, EVIL),
        Lookup(names=[EVIL, *"bcdef"]),
        AttentionCalculator(tokens=[EVIL, "b", "c"]),
    ],
    ids=["Prediction", "Lookup", "AttentionCalculator"],
)
def test_texts_are_escaped(widget: Widget) -> None:
    html = widget.as_html()
    read = Reader(html)
    assert "script" not in read.tags
    assert "<script" not in html
    assert EVIL in read.text
    assert read.open == []
    assert EVIL in json.dumps(json.loads(read.root["data-state"] or ""), indent=None).replace(
        '\\"', '"'
    )  # fmt: skip


def test_the_answer_of_a_prediction_is_folded_away() -> None:
    html = Prediction("a", "b", ("one", "two", "three"), 2, "Because.").as_html()
    shown, hidden = html.split("<details>")
    assert "Because" not in re.sub(r"data-state=\"[^\"]*\"", "", shown)
    assert "three" in hidden
    assert "Because" in hidden


@pytest.mark.parametrize("name", ["recurrence", "lookup", "attention", "prediction"])
def test_a_module_imports_nothing_and_exports_once(name: str) -> None:
    shared = (FOLDER / "shared.js").read_text(encoding="utf-8")
    module = (FOLDER / f"{name}.js").read_text(encoding="utf-8")
    words = re.findall(r"^[ \t]*(?:import|export)\b.*$", shared + module, re.MULTILINE)
    assert words == ["export default { render };"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", shared + module)


@pytest.mark.parametrize("number", range(4))
def test_jupyter_gets_shared_and_own_source_as_one_module(number: int) -> None:
    widget: Any = widgets()[number]
    shared = (FOLDER / "shared.js").read_text(encoding="utf-8")
    own = (FOLDER / f"{widget.name}.js").read_text(encoding="utf-8")
    assert widget._esm.startswith(shared)
    assert widget._esm.endswith(own)
    assert widget._css == (FOLDER / "shared.css").read_text(encoding="utf-8")
