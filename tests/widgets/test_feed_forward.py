"""Bend: JavaScript against the reference, what its start promises, and bad states."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from transformer_lib.reference import feed_forward
from transformer_lib.widgets import Bend
from transformer_lib.widgets.base import StateError
from transformer_lib.widgets.feed_forward import CORNERS, NETWORK

Node = Callable[..., Any]
Changes = tuple[tuple[str, str], ...]
pytestmark = pytest.mark.no_shape_hook


def agrees(node: Node, changes: Changes = ()) -> bool:
    """Outputs of random networks at random points, with and without the bend."""
    rng = np.random.default_rng(0)
    cases = []
    for units in rng.integers(2, 9, 200):
        cases.append(
            {
                "units": int(units),
                "network": rng.integers(-9, 10, (8, 4)).tolist(),
                "bend": bool(rng.random() < 0.7),
                "point": rng.uniform(-0.5, 1.5, 2).tolist(),
            }
        )
    found = node(
        "feed_forward", "data.map((now) => compute(now, now.point))", cases, changes
    )
    for one, case in zip(found, cases, strict=True):
        used = np.array(case["network"][: case["units"]], float)
        x = np.array([case["point"]])
        W_1, b_1, W_2 = used[:, :2].T, used[:, 2], used[:, 3:]
        if case["bend"]:
            wanted = feed_forward(x, W_1, b_1, W_2, np.zeros(1))[0, 0]
        else:
            wanted = ((x @ W_1 + b_1) @ W_2)[0, 0]
        if not np.isclose(one["output"], wanted, rtol=0, atol=1e-10):
            return False
        if not np.isclose(sum(one["written"]), wanted, rtol=0, atol=1e-10):
            return False
    return True


def test_javascript_computes_what_the_reference_computes(node: Node) -> None:
    assert agrees(node)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("bend ? Math.max(0, x) : x", "Math.max(0, x)"),
        ("bend ? Math.max(0, x) : x", "bend ? x : Math.max(0, x)"),
        ("W_a * a + W_b * b + bias", "W_a * a + W_b * b - bias"),
        ("network.slice(0, units)", "network"),
        ("x * network[m][3]", "x * network[0][3]"),
    ],
)
def test_a_fault_in_the_javascript_is_seen(right: str, wrong: str, node: Node) -> None:
    assert not agrees(node, ((right, wrong),))


def test_the_start_misses_the_exclusive_or_by_one_number() -> None:
    wanted = np.array([0, 1, 1, 0])
    assert ((Bend().outputs() > 0.5) == wanted).sum() == 3
    solved = [list(unit) for unit in NETWORK]
    solved[1][3] = -2
    for units in range(2, 9):  # the other units are 0 on the corners
        np.testing.assert_array_equal(Bend(solved, units=units).outputs(), wanted)
    elsewhere = [(-0.3, 0.4), (1.2, 0.1)]
    two, eight = (Bend(solved, units=u).outputs(elsewhere) for u in (2, 8))
    assert np.abs(two - eight).min() > 0.1


@pytest.mark.parametrize("seed", range(20))
def test_without_the_bend_no_network_gets_all_four_corners(seed: int) -> None:
    network = np.random.default_rng(seed).integers(-9, 10, (8, 4)).tolist()
    outputs = Bend(network, units=8, bend=False).outputs()
    assert outputs[0] + outputs[3] == outputs[1] + outputs[2]
    assert ((outputs > 0.5) == [a != b for a, b in CORNERS]).sum() < 4


def test_html_holds_the_state_and_a_still_table() -> None:
    text = Bend().as_html()
    assert text == Bend().as_html()
    assert 'data-widget="feed_forward"' in text
    assert json.dumps(Bend().current_state()["network"]).replace('"', "&quot;") in text
    assert text.count("<tr>") == 3
    assert "(1, 1) gives 1.00, wanted 0" in text


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"units": 1}, "units: got 1, wanted a whole number from 2 to 8"),
        ({"units": 2.5}, "units: got 2.5, wanted a whole number"),
        ({"network": NETWORK[:3]}, "network: got 3 rows, wanted 8"),
        ({"network": [(1, 1, 0)] * 8}, "network: got .*, wanted rows of 4"),
        (
            {"network": [(10, 1, 0, 1)] * 8},
            r"network\[0\]\[0\]: got 10, wanted a whole",
        ),
        ({"bend": 1}, "bend: got 1, wanted True or False"),
        ({"point": (0.0, 2.0)}, r"point\[1\]: got 2.0, wanted a number from -0.5"),
        ({"point": (0.0,)}, "point: got .*, wanted 2 numbers"),
        ({"chosen": (2, 0)}, "chosen: got unit 2, wanted less than 2"),
        ({"chosen": (0, 4)}, "column: got 4, wanted a whole number from 0 to 3"),
    ],
)
def test_a_state_that_cannot_be_shown_is_named(
    state: dict[str, Any], message: str
) -> None:
    with pytest.raises(StateError, match=message):
        Bend(**state)
