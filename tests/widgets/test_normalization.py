"""Depth: what it refuses, and what its still view says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from transformer_lib.widgets import Depth
from transformer_lib.widgets.base import StateError, short
from transformer_lib.widgets.normalization import RECORDED

pytestmark = pytest.mark.no_shape_hook


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": 3}, "layers: got 3, wanted one of 2, 4, 8, 12, 24, 48"),
        ({"layers": True}, "layers: got True, wanted one of 2"),
        ({"layer": 25}, "layer: got 25, wanted 1 to 24, the number of layers"),
        ({"layer": 0}, "layer: got 0, wanted a whole number from 1 to 48"),
        (
            {"arrangement": "sandwich"},
            "arrangement: got 'sandwich', wanted one of plain",
        ),
        ({"start": "zero"}, "start_of_weights: got 'zero', wanted one of Xavier"),
    ],
)
def test_a_bad_argument_is_named_with_what_was_wanted(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(StateError, match=message):
        Depth(**arguments)


def test_only_the_recorded_runs_are_shown() -> None:
    widget = Depth()
    with pytest.raises(StateError, match="runs: got other numbers"):
        widget.runs = {**RECORDED, "seeds": [7]}
    assert widget.runs == RECORDED


@pytest.mark.parametrize("start", ["Xavier", "default", "0.02"])
@pytest.mark.parametrize("layers", [2, 48])
def test_the_still_view_shows_the_ends_of_every_arrangement(
    layers: int, start: str
) -> None:
    widget = Depth(layers=layers, start=start)
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', widget.static_view())
    assert [name for name, _ in rows] == RECORDED["arrangements"]
    for name, cells in rows:
        run = widget.run(name)
        wanted = (run["sizes"][-1], run["gradients"][0], run["gradients"][-1])
        assert re.findall("<td>(.*?)</td>", cells) == [short(x) for x in wanted]


def test_the_text_of_a_widget_is_short_and_the_same_every_time() -> None:
    assert repr(Depth(layer=3)) == (
        "Depth(layers=24, arrangement='skip', start='Xavier', layer=3)"
    )
    assert Depth().as_html() == Depth().as_html()
    assert len(Depth().as_html()) < 40_000
