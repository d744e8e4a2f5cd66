"""Positions: what it computes, writes and refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from transformer_lib import reference
from transformer_lib.widgets import Positions
from transformer_lib.widgets.base import StateError, fixed
from transformer_lib.widgets.positions import SCHEMES

pytestmark = pytest.mark.no_shape_hook
Node = Callable[..., Any]
Changes = tuple[tuple[str, str], ...]

EXPRESSION = """data.map((now) => {
  const P = vectors(now);
  const { products, spread } = compare(P);
  return { P, products, spread: [...spread].sort(([a], [b]) => a - b) };
})"""


def agrees(node: Node, changes: Changes = ()) -> bool:
    """Is every vector, product and range in JavaScript that of the reference?"""
    rng = np.random.default_rng(0)
    cases = [
        Positions(
            scheme=scheme,
            base=float(rng.choice([10, 500, 10000, 100000])),
            width=int(2 * rng.integers(1, 17)),
            length=int(rng.integers(4, 41)),
            asks=1,
            answers=2,
        )
        for scheme in SCHEMES
        for _ in range(5)
    ]
    states = [case.current_state() for case in cases]
    for case, one in zip(
        cases, node("positions", EXPRESSION, states, changes), strict=True
    ):
        P = case.vectors()
        products = P @ P.T
        reach = case.length - 1
        ranges = [
            [k, np.diagonal(products, k).min(), np.diagonal(products, k).max()]
            for k in range(-reach, reach + 1)
        ]
        found = [[k, *pair] for k, pair in one["spread"]]
        for ours, theirs in (
            (P, one["P"]),
            (products, one["products"]),
            (ranges, found),
        ):
            a, b = np.asarray(ours, float), np.asarray(theirs, float)
            if a.shape != b.shape or np.abs(a - b).max() > 1e-10 * max(1.0, a.max()):
                return False
    return True


def test_the_arithmetic_is_that_of_the_reference(node: Node) -> None:
    assert agrees(node)


@pytest.mark.parametrize(
    "change",
    [
        ("base ** ((-2 * i) / width)", "base ** (-i / width)"),
        ('(scheme === "sinusoids")', '(scheme !== "sinusoids")'),
        ("return t / length", "return t / (length - 1)"),
        ("seen[0] = Math.min(seen[0], product)", "seen[0] = product"),
    ],
)
def test_the_comparison_can_fail(change: tuple[str, str], node: Node) -> None:
    assert not agrees(node, (change,))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_vectors_are_those_of_the_reference(scheme: str) -> None:
    wanted = {
        "sinusoids": reference.sinusoidal_positions(9, 6, 50.0),
        "index": reference.index_positions(9, 6),
        "index / length": reference.index_over_length_positions(9, 6),
        "RoPE": reference.rope(np.tile([1.0, 0.0], (9, 3)), base=50.0),
    }[scheme]
    widget = Positions(scheme, base=50.0, width=6, length=9, asks=3, answers=1)
    np.testing.assert_array_equal(widget.vectors(), wanted)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_still_view_shows_the_products(scheme: str) -> None:
    widget = Positions(scheme, length=20, asks=5, answers=3)
    products = widget.vectors() @ widget.vectors().T
    rows = re.findall(r'<tr><th scope="row">\D?(\d+)</th>(.*?)</tr>', widget.as_html())
    assert [int(distance) for distance, _ in rows] == [0, 1, 2, 4, 8, 16]
    digits = 0 if scheme == "index" else 2
    for distance, cells in rows:
        pairs = np.diagonal(products, -int(distance))
        wanted = [fixed(pairs.min(), digits), fixed(pairs.max(), digits)]
        assert re.findall("<td>(.*?)</td>", cells) == wanted


def test_the_html_holds_name_and_state_and_is_the_same_every_time() -> None:
    widget = Positions()
    html = widget.as_html()
    assert 'data-widget="positions"' in html
    found = re.search(r'data-state="(.*?)"', html)
    assert found is not None
    assert json.loads(found[1].replace("&quot;", '"')) == widget.current_state()
    assert html == Positions().as_html()
    widget.base = 100.0
    assert widget.as_html() != html


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scheme": "ALiBi"}, "scheme: got 'ALiBi', wanted one of sinusoids, index"),
        ({"base": 5}, "base: got 5, wanted a number from 10"),
        ({"width": 7}, "width: got 7, wanted an even number"),
        ({"width": 34}, "width: got 34, wanted a whole number from 2 to 32"),
        ({"length": 3}, "length: got 3, wanted a whole number from 4 to 40"),
        ({"length": 20, "asks": 20}, "asks: got 20, wanted less than length=20"),
        ({"length": 18, "asks": 3, "answers": 18}, "answers: got 18, wanted less"),
        ({"asks": -1}, "asks: got -1, wanted a whole number from 0"),
    ],
)
def test_a_state_that_cannot_be_shown_is_refused(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(StateError, match=re.escape(message)):
        Positions(**given)


def test_the_module_imports_nothing_and_exports_once() -> None:
    words = re.findall(r"^[ \t]*(?:import|export)\b.*$", Positions._esm, re.MULTILINE)
    assert words == ["export default { render };"]
