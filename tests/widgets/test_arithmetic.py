"""What the widgets compute in JavaScript is what the reference computes in Python."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from transformer_lib.reference import (
    attention_reach,
    entropy,
    lstm_reach,
    scalar_reach,
    self_attention,
    sigmoid,
    soft_lookup,
    softmax,
)
from transformer_lib.widgets.base import fixed, short
from transformer_lib.widgets.recurrence import half_distance

TOLERANCE = 1e-12  # both sides use float64; sums have at most nine terms
CASES = 300
Node = Callable[..., Any]
Changes = tuple[tuple[str, str], ...]


def close(found: Any, wanted: Any, scale: float = 1.0) -> bool:
    """Do all numbers agree to the tolerance? ``"NaN"`` and ``null`` never do."""
    try:
        a = np.asarray(found, dtype=float)
    except (TypeError, ValueError):
        return False
    b = np.asarray(wanted, dtype=float)
    limit = TOLERANCE * np.maximum(scale, np.abs(b))
    return a.shape == b.shape and bool((np.abs(a - b) <= limit).all())


def softmax_agrees(node: Node, changes: Changes = ()) -> bool:
    rng = np.random.default_rng(1)
    rows = [
        rng.normal(rng.choice([0, 800, -800]), rng.choice([0.1, 1, 30]), n)
        for n in rng.integers(1, 10, CASES)
    ]
    found = node(
        "shared", "data.map(shared.softmax)", [list(row) for row in rows], changes
    )
    return all(close(a, softmax(row)) for a, row in zip(found, rows, strict=True))


def entropy_agrees(node: Node, changes: Changes = ()) -> bool:
    rng = np.random.default_rng(2)
    rows = [softmax(rng.normal(0, 3, n)) for n in rng.integers(1, 10, CASES)]
    rows += [np.eye(4)[2], np.full(8, 1 / 8)]
    found = node(
        "shared", "data.map(shared.entropy)", [list(row) for row in rows], changes
    )
    return all(close(a, entropy(row)) for a, row in zip(found, rows, strict=True))


def lookup_agrees(node: Node, changes: Changes = ()) -> bool:
    rng = np.random.default_rng(3)
    cases = []
    for n in rng.integers(2, 9, CASES):
        cases.append(
            {
                "query": rng.uniform(-1.5, 1.5, 2).tolist(),
                "places": rng.uniform(-1.5, 1.5, (n, 2)).tolist(),
                "values": rng.integers(-999, 1000, n).tolist(),
                "temperature": float(10 ** rng.uniform(-2, 2)),
            }
        )
    found = node("lookup", "data.map(compute)", cases, changes)
    for one, case in zip(found, cases, strict=True):
        query, keys = np.array(case["query"]), np.array(case["places"])
        output, weights = soft_lookup(
            query, keys, np.array(case["values"], float)[:, None], case["temperature"]
        )
        if not (
            close(one["scores"], keys @ query)
            and close(one["weights"], weights)
            and close(one["output"], output[0], scale=1000.0)
            and close(one["entropy"], entropy(weights))
        ):
            return False
    return True


def attention_agrees(node: Node, changes: Changes = ()) -> bool:
    rng = np.random.default_rng(4)
    cases = []
    for n in rng.integers(2, 5, CASES):
        case: dict[str, Any] = {"X": rng.integers(-3, 4, (n, 2)).tolist()}
        for name in ("W_Q", "W_K", "W_V"):
            case[name] = rng.integers(-2, 3, (2, 2)).tolist()
        case["scaled"] = bool(rng.random() < 0.5)
        case["temperature"] = 1.0 if rng.random() < 0.5 else float(rng.uniform(0.1, 10))
        cases.append(case)
    found = node("attention", "data.map(compute)", cases, changes)
    plain = 0
    for one, case in zip(found, cases, strict=True):
        X, *W = (np.array(case[key], float) for key in ("X", "W_Q", "W_K", "W_V"))
        Q, K, V = (X @ w for w in W)
        scores = Q @ K.T / (math.sqrt(2.0) if case["scaled"] else 1.0)
        weights = softmax(scores / case["temperature"])
        if case["scaled"] and case["temperature"] == 1.0:  # the formula of 2017
            plain += 1
            output, again = self_attention(X, *W)
            if not (close(one["O"], output, 10.0) and close(one["weights"], again)):
                return False
        if not (
            all(close(one[name], M) for name, M in zip("QKV", (Q, K, V), strict=True))
            and close(one["scores"], scores, 10.0)
            and close(one["weights"], weights)
            and close(one["O"], weights @ V, 10.0)
        ):
            return False
    return plain > 20


def reach_agrees(node: Node, changes: Changes = ()) -> bool:
    rng = np.random.default_rng(5)
    cases = []
    for _ in range(CASES):
        length = int(rng.integers(5, 101))
        state = {
            "recurrent": float(rng.uniform(0.5, 1.2)),
            "forget_bias": float(rng.uniform(-2, 6)),
            "length": length,
        }
        cases.append([state, int(rng.integers(0, length))])
    expression = """data.map(([state, t]) => ({ ...reaches(state, t),
        half: halfDistance(state.recurrent), gate: shared.sigmoid(state.forget_bias) }))"""
    found = node("recurrence", expression, cases, changes)
    return all(
        close(one["rnn"], scalar_reach(state["recurrent"], t))
        and close(one["lstm"], lstm_reach(state["forget_bias"], t))
        and close(one["attention"], attention_reach(state["length"]))
        and close(one["half"], half_distance(state["recurrent"]))
        and close(one["gate"], sigmoid(state["forget_bias"]))
        for one, (state, t) in zip(found, cases, strict=True)
    )


def texts_agree(node: Node, changes: Changes = ()) -> bool:
    rng = np.random.default_rng(6)
    numbers = [
        0.0,
        1.0,
        0.0125,
        999.4,
        999.6,
        0.000999,
        9.96e-5,
        9.94,
        1e-9,
        1234.0,
        0.125,
        1.25,
        2.5,
        1250.0,
    ]
    numbers += (10 ** rng.uniform(-40, 9, CASES)).tolist()
    signed = [
        -0.0,
        -0.001,
        -0.004999,
        -1.5,
        0.125,
        -0.125,
        0.005,
        2.675,
        *rng.normal(0, 50, CASES).tolist(),
    ]
    found = node(
        "shared",
        "[data[0].map(shared.short), data[1].map((x) => shared.fixed(x, 2))]",
        [numbers, signed],
        changes,
    )
    return found == [[short(x) for x in numbers], [fixed(x, 2) for x in signed]]


AGREEMENTS = {
    "softmax": softmax_agrees,
    "entropy": entropy_agrees,
    "lookup": lookup_agrees,
    "attention": attention_agrees,
    "reach": reach_agrees,
    "texts": texts_agree,
}

FAULTS = [
    ("softmax", "Math.exp(s - highest)", "Math.exp(s)"),
    ("softmax", "x / total", "x / (total + 1e-9)"),
    ("entropy", "w * Math.log(w)", "w * Math.log2(w)"),
    ("entropy", "w > 0 ? w * Math.log(w) : 0", "w * Math.log(w)"),
    ("lookup", "s / temperature)", "s * temperature)"),
    ("lookup", "shared.dot(weights, values)", "values[0]"),
    ("attention", "Math.sqrt(WIDTH)", "WIDTH"),
    ("attention", "s / temperature)", "s)"),
    ("attention", "shared.matmul(Q, shared.transpose(K))", "shared.matmul(K, shared.transpose(Q))"),
    ("attention", "[W_Q, W_K, W_V].map", "[W_Q, W_Q, W_V].map"),
    ("attention", "O: shared.matmul(weights, V)", "O: shared.matmul(shared.transpose(weights), V)"),
    ("reach", "attention: 1 / length", "attention: 1 / (length + 1)"),
    ("reach", "recurrent ** distance", "recurrent ** (distance + 1)"),
    ("reach", "Math.LN2 /", "Math.LN10 /"),
    ("reach", "a >= 0 ? 1 / (1 + Math.exp(-a))", "a >= 0 ? 1 / (1 + Math.exp(a))"),
    ("texts", "Number(text) === 0", "false"),
    ("texts", "power < 3", "power < 4"),
]  # fmt: skip


@pytest.mark.parametrize("name", AGREEMENTS)
def test_javascript_computes_what_the_reference_computes(name: str, node: Node) -> None:
    assert AGREEMENTS[name](node)


@pytest.mark.parametrize(("name", "right", "wrong"), FAULTS)
def test_a_fault_in_the_javascript_is_seen(
    name: str, right: str, wrong: str, node: Node
) -> None:
    assert not AGREEMENTS[name](node, ((right, wrong),))


def test_numbers_reach_node_and_come_back_exactly(node: Node) -> None:
    numbers = np.random.default_rng(7).normal(size=500).tolist()
    assert node("shared", "data", numbers) == json.loads(json.dumps(numbers))


@pytest.mark.parametrize("factor", [0.0, -0.5, math.nan, math.inf])
@pytest.mark.no_shape_hook
def test_half_distance_refuses_what_has_none(factor: float) -> None:
    with pytest.raises(
        ValueError, match=r"factor: got .*, wanted a finite number above"
    ):
        half_distance(factor)
