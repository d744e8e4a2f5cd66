"""Beam: its walk is the library's beam search, in Python and in JavaScript."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from transformer_lib.decoding import beam_search
from transformer_lib.tasks.number_words import KOREAN, SOUNDS
from transformer_lib.widgets import Beam
from transformer_lib.widgets.base import StateError
from transformer_lib.widgets.decoding import (
    END,
    MAX_LEN,
    MOST_STEPS,
    Hypothesis,
    recorded,
    romanised,
    walk,
)

pytestmark = pytest.mark.no_shape_hook
Node = Callable[..., Any]
SETTINGS = list(itertools.product(range(3), (1, 2, 3, 4), (0.0, 0.6, 1.0, 2.0)))


class Table:
    """A model that gives the recorded numbers, and next to nothing to other tokens."""

    def __init__(self, following: dict[str, list[tuple[str, float]]]) -> None:
        self.following = following
        self.id_of = {END: KOREAN.eos_id}
        self.id_of |= {token: i for i, token in enumerate(KOREAN.tokens, start=3)}

    class State:
        def __init__(self, rows: int) -> None:
            self.texts: list[str | None] = [None] * rows

        def select(self, rows: Tensor) -> None:
            self.texts = [self.texts[i] for i in rows.tolist()]

    def start(self, source_ids: Tensor, max_len: int) -> State:
        return self.State(len(source_ids))

    def step(self, ids: Tensor, state: State) -> Tensor:
        names = {i: token for token, i in self.id_of.items()}
        logits = torch.full((len(ids), len(KOREAN)), -1e9, dtype=torch.float64)
        for row, i in enumerate(ids.tolist()):
            text = state.texts[row]
            state.texts[row] = "" if text is None else text + names.get(i, "?")
            known = self.following.get(state.texts[row] or "", [])
            for token, log_p in known:
                logits[row, self.id_of[token]] = log_p
            # What is left goes to the start token, which no answer can hold.
            left = 1.0 - sum(math.exp(log_p) for _, log_p in known)
            logits[row, KOREAN.bos_id] = math.log(max(left, 1e-12))
        return logits


@pytest.mark.parametrize(("heard", "size", "penalty"), SETTINGS)
def test_the_walk_ends_as_the_beam_search_does(
    heard: int, size: int, penalty: float
) -> None:
    following = recorded()[heard]["next"]
    steps = walk(following, size, penalty)
    finished = [one for step in steps for one in step if one.state == "finished"]
    best = max(finished, key=lambda one: one.score)
    ids, scores = beam_search(
        Table(following), torch.tensor([[5]]), bos_id=KOREAN.bos_id,
        eos_id=KOREAN.eos_id, max_len=MAX_LEN, beam_size=size, length_penalty=penalty,
    )  # fmt: skip
    assert "".join(KOREAN.decode(ids[0, 0])) + END == best.text
    assert scores[0, 0].item() == pytest.approx(best.score, abs=1e-6)
    assert len(steps) <= MOST_STEPS


def test_the_slider_reaches_the_longest_search_and_no_further() -> None:
    penalties = [k / 10 for k in range(21)]
    lengths = [
        len(walk(tree["next"], size, penalty))
        for tree in recorded()
        for size in (1, 2, 3, 4)
        for penalty in penalties
    ]
    assert max(lengths) == MOST_STEPS


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (("b.total - a.total", "a.total - b.total"),),
        (("beamSize - scores.length", "beamSize"),),
        (("finished ? length : MAX_LEN", "length"),),
    ],
    ids=["right", "worst first", "no place kept", "no bound"],
)
def test_javascript_walks_as_python_does(
    node: Node, changes: tuple[tuple[str, str], ...]
) -> None:
    data = [[recorded()[i]["next"], size, penalty] for i, size, penalty in SETTINGS]
    try:
        theirs = node("decoding", "data.map((args) => walk(...args))", data, changes)
    except AssertionError:
        assert changes  # a wrong walk leaves the recorded tree
        return
    same = all(_same(got, walk(*args)) for got, args in zip(theirs, data, strict=True))
    assert same == (not changes)


def _same(got: list[list[dict[str, Any]]], steps: list[list[Hypothesis]]) -> bool:
    if [len(step) for step in got] != [len(step) for step in steps]:
        return False
    pairs = zip(itertools.chain(*got), itertools.chain(*steps), strict=True)
    return all(
        (g["text"], g["parent"], g["state"]) == (one.text, one.parent, one.state)
        and abs(g["total"] - one.total) < 1e-9
        and abs(g["score"] - one.score) < 1e-9
        for g, one in pairs
    )


def test_every_syllable_is_spelt_as_in_the_tasks(node: Node) -> None:
    assert node("decoding", "SOUNDS") == SOUNDS
    assert romanised("".join(SOUNDS)) == " ".join(SOUNDS.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heard": 3}, "heard: got 3, wanted a whole number from 0 to 2"),
        ({"beam_size": 5}, "beam_size: got 5, wanted a whole number from 1 to 4"),
        ({"length_penalty": -1}, "length_penalty: got -1, wanted a number from 0"),
        ({"step": 0}, "step: got 0, wanted a whole number from 1"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(StateError, match=message):
        Beam(**arguments)


def test_only_the_recorded_trees_are_shown() -> None:
    with pytest.raises(StateError, match="trees: got other numbers"):
        Beam().trees = []


def test_the_still_view_shows_what_a_search_finishes() -> None:
    widget = Beam(heard=1, length_penalty=0)
    names = re.compile(r'<th scope="row">(.*?)</th>')
    assert names.findall(widget.static_view()) == ["십사 (sip sa)"]
    widget.length_penalty = 0.6
    first, second = names.findall(widget.static_view())
    assert first.startswith("천사백사십이만팔천육 (cheon sa baek")
    assert second == "십사 (sip sa)"
    widget.length_penalty = 0
    assert repr(widget) == "Beam(heard=1, beam_size=2, length_penalty=0.0, step=5)"
    assert len(widget.as_html()) < 40_000
