"""Training: the code of its maps, in Python and JavaScript; what it refuses and shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest

from transformer_lib.widgets import Training
from transformer_lib.widgets.base import StateError, fixed, recording
from transformer_lib.widgets.training import END, NOTHING, ROWS, decode_map

pytestmark = pytest.mark.no_shape_hook
Node = Callable[..., Any]
RUN = recording("training")
LAST = len(RUN["steps"]) - 1


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ((), True),
        ((("Array(place - 99)", "Array(place - 100)"),), False),
        ((("[place] : Array", "[0] : Array"),), False),
    ],
    ids=["right", "one zero too few", "no weight"],
)
def test_javascript_reads_the_maps_as_python_does(
    node: Node, changes: tuple[tuple[str, str], ...], same: bool
) -> None:
    texts = [
        text for one in RUN["examples"] for moment in one["maps"] for text in moment
    ]
    expression = "data.texts.map((text) => decodeMap(text, data.code))"
    data = {"texts": texts, "code": RUN["code"]}
    read = node("training", expression, data, changes)
    assert (read == [decode_map(text, RUN["code"]) for text in texts]) == same


@pytest.mark.parametrize("head", range(RUN["heads"] + 1))
def test_javascript_chooses_the_head_or_the_mean_of_all(node: Node, head: int) -> None:
    for layer in range(1, RUN["layers"] + 1):
        state = {"snapshot": LAST // 2, "example": 1, "layer": layer, "head": head}
        expression = "weightsOf(data.run, data.state)"
        read = node("training", expression, {"run": RUN, "state": state})
        wanted = Training(**state).weights()
        assert len(read) == len(wanted)
        for row, right in zip(read, wanted, strict=True):
            assert row == pytest.approx(right, abs=1e-9)


def test_what_counts_as_right(node: Node) -> None:
    judged = node("training", "data.map((text) => judge(text, '1914-07-03'))",
                  ["1914-07-03.", "1914-07-03", "1914-07-3.", "", "1914-07-030"])  # fmt: skip
    assert [(one["wrong"], one["right"]) for one in judged] == [
        (0, True),
        (0, False),
        (2, False),
        (10, False),
        (0, False),
    ]


def test_the_recording_is_whole() -> None:
    """Each map has a row per written token, and each row is 100 percent."""
    assert RUN["steps"] == sorted(set(RUN["steps"]))
    assert set(RUN["steps"]) <= set(RUN["curve"]["steps"])
    assert RUN["curve"]["steps"][-1] == RUN["steps"][-1]
    for one in RUN["examples"]:
        assert len(one["written"]) == len(one["maps"]) == len(RUN["steps"])
        for written, maps in zip(one["written"], one["maps"], strict=True):
            assert 1 <= len(written) <= ROWS
            assert END not in written[:-1]
            assert len(maps) == RUN["layers"] * RUN["heads"]
            for text in maps:
                percents, width = decode_map(text, RUN["code"]), len(one["source"])
                assert len(percents) == len(written) * width
                for t in range(len(written)):
                    assert sum(percents[t * width : (t + 1) * width]) == 100


def test_the_recording_shows_what_it_is_there_for() -> None:
    """At first nothing is right, in the end all is; three languages; small enough."""
    assert RUN["curve"]["exact_match"][0] < 1 < 97 < RUN["curve"]["exact_match"][-1]
    assert {one["language"] for one in RUN["examples"]} == {"en", "de", "ko"}
    for one in RUN["examples"]:
        assert one["written"][0] != one["target"] + END
        assert one["written"][-1] == one["target"] + END
    file = resources.files("transformer_lib.widgets") / "data" / "training.json"
    assert len(file.read_bytes()) < 150_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"snapshot": LAST + 1}, f"snapshot: got {LAST + 1}, wanted a whole number from 0 to {LAST}"),
        ({"example": -1}, "example: got -1, wanted a whole number from 0"),
        ({"layer": 0}, "layer: got 0, wanted a whole number from 1 to 2"),
        ({"head": 5}, "head: got 5, wanted a whole number from 0 to 4"),
        ({"place": 11}, "place: got 11, wanted a whole number from 0 to 10"),
    ],
)  # fmt: skip
def test_a_bad_argument_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(StateError, match=message):
        Training(**arguments)


def test_only_the_recorded_run_is_shown() -> None:
    with pytest.raises(StateError, match="run: got other numbers"):
        Training().run = {}


def test_the_still_view_shows_the_way_from_nothing_to_the_date() -> None:
    widget = Training(example=2)
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', widget.static_view())
    steps = [int(step) for step, _ in rows]
    assert steps == sorted(steps)
    assert {0, RUN["steps"][LAST]} <= set(steps)
    for step, cells in rows:
        at = RUN["steps"].index(int(step))
        loss, right, said = re.findall("<td>(.*?)</td>", cells)
        assert loss == fixed(widget.measured("loss", at), 3)
        assert right == f"{fixed(widget.measured('exact_match', at), 1)} %"
        written = widget.written(at).replace(NOTHING, "")
        ended = written.endswith(END)
        assert said == (written[:-1] if ended else f"{written}…")
    assert repr(Training(place=3)).endswith("layer=2, head=0, place=3)")
