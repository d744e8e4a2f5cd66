"""Cost: what it computes, writes and refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from transformer_lib import reference
from transformer_lib.widgets import Cost
from transformer_lib.widgets.base import StateError
from transformer_lib.widgets.cost import DEVICES, MODELS, in_bytes, in_time

pytestmark = pytest.mark.no_shape_hook
Node = Callable[..., Any]
Changes = tuple[tuple[str, str], ...]


def agrees(node: Node, changes: Changes = ()) -> bool:
    """Is every bill in JavaScript that of Python?"""
    rng = np.random.default_rng(0)
    cases = [
        Cost(
            n=int(2 ** rng.integers(4, 18)),
            d_model=int(2 ** rng.integers(6, 14)),
            num_heads=int(2 ** rng.integers(0, 7)),
            num_layers=int(rng.integers(1, 97)),
            device=device,
        )
        for device in DEVICES
        for _ in range(6)
    ]
    found = node(
        "cost", "data.map(bills)", [case.current_state() for case in cases], changes
    )
    keys = ("rnn", "lstm", "plain", "fused")
    return all(
        np.allclose(
            [
                theirs[key][part]
                for part in ("flops", "kept", "moved", "steps", "seconds")
            ],
            [bill.flops, bill.kept, bill.moved, bill.steps, bill.seconds],
            rtol=1e-12,
        )
        for case, theirs in zip(cases, found, strict=True)
        for key, bill in zip(keys, case.bills().values(), strict=True)
    )


def test_the_arithmetic_is_that_of_python(node: Node) -> None:
    assert agrees(node)


@pytest.mark.parametrize(
    "change",
    [
        ("8 * n * d * d + 4 * n * n * d;", "8 * n * d * d + 2 * n * n * d;"),
        ("h * n * n * b;", "n * n * b;"),
        ("bill(16 * n", "bill(8 * n"),
        ("slower + layers * steps * pause", "slower"),
        ("Math.max((layers", "Math.min((layers"),
        ("bytesPerSecond: 4.8e12", "bytesPerSecond: 3.35e12"),
    ],
)
def test_the_comparison_can_fail(change: tuple[str, str], node: Node) -> None:
    assert not agrees(node, (change,))


def test_numbers_are_written_alike(node: Node) -> None:
    values = [0.0, 3.0, 9.96, 512.0, 1023.6, 1536.0, 2.0**20, 3.3e12, 7e17]
    written = node("cost", "data.map((x) => [inBytes(x), inTime(x / 1e6)])", values)
    assert written == [[in_bytes(x), in_time(x / 1e6)] for x in values]


def test_bills_by_hand() -> None:
    made = Cost(
        n=16, d_model=64, num_heads=4, num_layers=2, device="one processor core"
    )
    bills = made.bills()
    assert tuple(bills) == MODELS
    assert bills["RNN"].flops == 2 * 2 * 16 * 64 * 128
    assert bills["LSTM"].flops == 4 * bills["RNN"].flops
    plain, fused = bills["plain attention"], bills["fused attention"]
    assert plain.flops == fused.flops
    assert plain.kept - fused.kept == 2 * 4 * 16 * 16 * 4
    assert plain.moved - fused.moved == 4 * (plain.kept - fused.kept)
    assert (bills["RNN"].steps, plain.steps) == (32, 10)
    assert bills["RNN"].seconds > 32 * 1e-5


def test_attention_and_lstm_meet_at_twice_the_width() -> None:
    for n, sign in ((512, -1), (1024, 0), (2048, 1)):
        bills = Cost(n=n, d_model=512).bills()
        difference = bills["plain attention"].flops - bills["LSTM"].flops
        assert np.sign(difference) == sign


def test_the_still_view_says_the_same() -> None:
    made = Cost()
    found = re.search(r'data-state="([^"]*)"', made.as_html())
    assert found is not None
    state = json.loads(found[1].replace("&quot;", '"'))
    assert state["n"] == 1024
    assert in_bytes(6 * reference.score_bytes(1024, 1024, 8, 2) + 6 * 4 * 2**20) in (
        made.static_view()
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n": 1000}, "n: got 1000, wanted a power of two"),
        ({"d_model": 96}, "d_model: got 96, wanted a power of two"),
        ({"num_heads": 128}, "num_heads: got 128, wanted a whole number from 1 to 64"),
        ({"num_layers": 0}, "num_layers: got 0"),
        (
            {"device": "abacus"},
            "device: got 'abacus', wanted one of one processor core",
        ),
    ],
)
def test_states_that_cannot_be_shown_are_refused(
    wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(StateError, match="got") as caught:
        Cost(**wrong)
    assert words in str(caught.value)
