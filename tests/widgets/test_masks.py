"""MaskBuilder and PadDial: JavaScript against the reference, records, bad states."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from transformer_lib.experiments import records
from transformer_lib.widgets import MaskBuilder, PadDial
from transformer_lib.widgets.base import FOLDER, StateError, fixed
from transformer_lib.widgets.masks import HOW

Node = Callable[..., Any]
Changes = tuple[tuple[str, str], ...]
pytestmark = pytest.mark.no_shape_hook


def agrees(node: Node, changes: Changes = ()) -> bool:
    """Rule, mask, weights, leaks and reach of 60 random states."""
    rng = np.random.default_rng(0)
    cases = [
        MaskBuilder(
            causal=bool(rng.random() < 0.5),
            length=int(rng.integers(1, 7)),
            how=HOW[int(rng.integers(3))],
            flips=(rng.random((6, 6)) < 0.2).astype(int).tolist(),
        )
        for _ in range(60)
    ]
    data = [case.current_state() for case in cases]
    for found, case in zip(
        node("masks", "data.map(build)", data, changes), cases, strict=True
    ):
        for name, right in case.results().items():
            if not np.allclose(np.array(found[name], float), right, atol=1e-12):
                return False
    return True


def test_the_script_computes_what_the_reference_computes(node: Node) -> None:
    assert agrees(node)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("j <= i)", "j < i)"),
        ("j < length &&", "i < length &&"),
        ("open !== Boolean(flips[i][j])", "open"),
        ("(seen[j] ? s : 0)", "(seen[j] ? s : -100)"),
        ("(seen[j] ? a : 0)", "a"),
        ("a > 0 && !rule[i][j]", "a > 0"),
        ("a > 0 || i === j", "a > 0"),
    ],
)
def test_a_planted_fault_in_the_script_is_seen(
    right: str, wrong: str, node: Node
) -> None:
    assert not agrees(node, ((right, wrong),))


def test_one_open_cell_leaks_to_others_in_the_second_layer() -> None:
    flips = np.zeros((6, 6), dtype=int)
    flips[2, 5] = 1  # the third token sees the last
    found = MaskBuilder(flips=flips.tolist()).results()
    assert np.argwhere(found["leaks"]).tolist() == [[2, 5]]
    later = found["reach"] & ~found["rule"]
    # It also learns what the last has read, and the two between learn of the last.
    assert np.argwhere(later).tolist() == [[2, 3], [2, 4], [2, 5], [3, 5], [4, 5]]


def test_multiplying_leaves_a_weight_on_every_hidden_key() -> None:
    found = MaskBuilder(how=HOW[1]).results()
    assert found["leaks"].sum() == 15
    assert not MaskBuilder(how=HOW[0]).results()["leaks"].any()
    rows = MaskBuilder(how=HOW[2]).results()["weights"].sum(axis=1)
    assert (rows[:-1] < 0.95).all()


def test_the_dial_plays_the_record() -> None:
    dial = PadDial()
    record = records.load("masks_padding")
    for name, rows in (("mask", dial.with_mask), ("no mask", dial.without_mask)):
        for pads, (middle, low, high) in enumerate(rows):
            measure = f"exact, {name}, {pads} pads"
            assert middle == pytest.approx(records.median(record, measure), abs=1e-4)
            assert (low, high) == pytest.approx(
                records.spread(record, measure), abs=1e-4
            )
    assert dial.seeds == len(record["seeds"])
    assert len(dial.answers) == 31 * 2 * 3
    assert [len(answer) for answer in dial.answers] == [10] * 186


def test_the_models_of_the_dial_answer_alike_with_the_mask_and_not_without() -> None:
    answers = np.array(PadDial().answers).reshape(31, 2, 3)
    assert (answers[:, 0] == answers[:1, 0]).all()
    assert (answers[-1, 1] != answers[0, 1]).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MaskBuilder(length=7), "length: got 7, wanted a whole number from 1"),
        (lambda: MaskBuilder(how="hope"), "how: got 'hope', wanted one of"),
        (lambda: MaskBuilder(causal=1), "causal: got 1, wanted True or False"),  # type: ignore[arg-type]
        (lambda: MaskBuilder(flips=[[0] * 6]), "flips: got 1 rows, wanted 6"),
        (lambda: MaskBuilder(flips=[[2] * 6] * 6), r"flips\[0\]\[0\]: got 2"),
        (lambda: MaskBuilder(chosen=(0, 6)), "chosen column: got 6"),
        (lambda: PadDial(pads=31), "pads: got 31, wanted a whole number from 0 to 30"),
    ],
)
def test_a_bad_argument_is_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(StateError, match=message):
        make()


def test_a_bad_assignment_changes_nothing() -> None:
    builder, dial = MaskBuilder(), PadDial()
    for widget, name, value in (
        (builder, "flips", [[0] * 6]),
        (builder, "tokens", list("abcdef")),
        (builder, "chosen", [6, 0]),
        (dial, "pads", -1),
        (dial, "seeds", 99),
    ):
        before = widget.current_state()
        with pytest.raises(StateError):
            setattr(widget, name, value)
        assert widget.current_state() == before


def test_the_still_views_show_the_numbers() -> None:
    html = MaskBuilder(length=4).as_html()
    rows = re.findall(r'<tr><th scope="row">(\w+)</th>(.*?)</tr>', html)
    assert [name for name, _ in rows] == ["the", "cat", "sat", "on", "pad", "pad"]
    weights = MaskBuilder(length=4).results()["weights"]
    for (_, cells), row in zip(rows, weights, strict=True):
        shown = re.findall("<td>(.*?)</td>", cells)
        assert shown == [fixed(float(a), 2) if a else "·" for a in row]
    text = PadDial().as_html()
    middle = fixed(100 * PadDial().without_mask[30][0], 1)
    assert f"<td>{middle} % (" in text
    for widget in (html, text):
        assert not re.search(r"<(script|style|svg|iframe)|id=", widget)


@pytest.mark.parametrize("make", [MaskBuilder, PadDial])
def test_the_text_is_the_same_every_time_and_follows_the_state(
    make: Callable[[], Any],
) -> None:
    one, other = make(), make()
    assert one.as_html() == other.as_html()
    if isinstance(one, MaskBuilder):
        one.causal = False
    else:
        one.pads = 9
    assert one.as_html() != other.as_html()


@pytest.mark.parametrize("name", ["masks", "pad_dial"])
def test_a_module_imports_nothing_and_exports_once(name: str) -> None:
    text = (FOLDER / f"{name}.js").read_text(encoding="utf-8")
    words = re.findall(r"^[ \t]*(?:import|export)\b.*$", text, re.MULTILINE)
    assert words == ["export default { render };"]
    assert "http" not in text
