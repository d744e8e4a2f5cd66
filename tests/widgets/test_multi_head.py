"""Heads: hand-set queries and keys, JavaScript against the reference, and bad states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from transformer_lib.reference import (
    MultiHeadParameters,
    attention,
    multi_head_attention,
    split_heads,
)
from transformer_lib.widgets import Heads
from transformer_lib.widgets.base import StateError
from transformer_lib.widgets.multi_head import (
    COLUMNS,
    SENTENCES,
    big,
    cost,
    hand_set,
    memory,
)

Node = Callable[..., Any]
Changes = tuple[tuple[str, str], ...]
pytestmark = pytest.mark.no_shape_hook


def agrees(node: Node, changes: Changes = ()) -> bool:
    """Weights and ranks of random whole numbers, and of the three sentences."""
    rng = np.random.default_rng(0)
    cases = []
    for n in rng.integers(2, 9, 60):
        Q, K = rng.integers(-3, 4, (2, n, 8))
        K[rng.random(n) < 0.3] = 0
        cases.append((Q, K, int(rng.choice([1, 2, 4, 8]))))
    for text in SENTENCES:
        cases += [(*hand_set(text)[1:], h) for h in (1, 2, 4, 8)]
    data = [{"Q": Q.tolist(), "K": K.tolist(), "num_heads": h} for Q, K, h in cases]
    for found, (Q, K, h) in zip(
        node("multi_head", "data.map(attend)", data, changes), cases, strict=True
    ):
        q, k = (split_heads(Z.astype(float), h) for Z in (Q, K))
        _, weights = attention(
            q, k, np.broadcast_to(np.eye(len(Q)), (h, *2 * (len(Q),)))
        )
        ranks = np.linalg.matrix_rank(q @ k.swapaxes(-1, -2))
        if not np.allclose([one["weights"] for one in found], weights, atol=1e-12):
            return False
        if [one["rank"] for one in found] != ranks.tolist():
            return False
    return True


def costs_agree(node: Node, changes: Changes = ()) -> bool:
    cases = [(2**p, h) for p in range(4, 14) for h in (1, 2, 4, 8)]
    data = [{"length": n, "num_heads": h} for n, h in cases]
    expression = """data.map(one => { const counted = cost(one);
      return [counted, big(counted.projections), big(counted.core), memory(counted.bytes)]; })"""
    return bool(
        node("multi_head", expression, data, changes)
        == [
            [
                counted,
                big(counted["projections"]),
                big(counted["core"]),
                memory(counted["bytes"]),
            ]
            for counted in (cost(n, h) for n, h in cases)
        ]
    )


def test_javascript_computes_what_the_reference_computes(node: Node) -> None:
    assert agrees(node)
    assert costs_agree(node)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("s / Math.sqrt(width)", "s / Math.sqrt(D_MODEL)"),
        ("row.slice(head * width, (head + 1) * width)", "row.slice(0, width)"),
        ("matmul(block(Q), shared.transpose(block(K)))", "matmul(block(K), shared.transpose(block(Q)))"),
        ("A[row][k] -= factor * A[rank][k]", "A[row][k] -= A[rank][k]"),
        ("return { weights, rank: rankOf(products) }", "return { weights, rank: width }"),
    ],
)  # fmt: skip
def test_a_fault_in_the_heads_is_seen(right: str, wrong: str, node: Node) -> None:
    assert not agrees(node, ((right, wrong),))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("4 * num_heads * length * length", "4 * length * length"),
        ("2 * length * length * LAYER_WIDTH", "2 * length * length * LAYER_WIDTH / num_heads"),
        ("4 * length * LAYER_WIDTH * LAYER_WIDTH", "3 * length * LAYER_WIDTH * LAYER_WIDTH"),
        ("Math.min(length, LAYER_WIDTH / num_heads)", "LAYER_WIDTH"),
        ("share < 100 ? 1 : 0", "1"),
    ],
)  # fmt: skip
def test_a_fault_in_the_cost_is_seen(right: str, wrong: str, node: Node) -> None:
    assert not costs_agree(node, ((right, wrong),))


def test_the_weights_are_those_of_the_librarys_layer() -> None:
    """Queries and keys are handed to it through a stream of twice the width."""
    _, Q, K = hand_set(SENTENCES[0])
    for num_heads in (1, 2, 4, 8):
        stream = np.concatenate([Q, K], axis=1).astype(float)
        W_Q, W_K, nothing = np.zeros((3, 16, 16))
        d_head = 8 // num_heads
        for column in range(8):  # a head of the stream is twice as wide; half is empty
            head, inside = divmod(column, d_head)
            W_Q[column, head * 2 * d_head + inside] = np.sqrt(2)
            W_K[8 + column, head * 2 * d_head + inside] = 1
        parameters = MultiHeadParameters(W_Q, W_K, nothing, nothing)
        _, wanted = multi_head_attention(stream, stream, parameters, num_heads)
        found = Heads(num_heads=num_heads).results()["weights"]
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_what_the_chapter_says_of_the_sentence() -> None:
    """Two heads find both words; one mixes them; eight lose the earlier event."""
    words = SENTENCES[0].split()
    thing, went = words.index("CS224n"), words.index("went")
    reads = {h: Heads(num_heads=h).results()["weights"][:, -1] for h in (1, 2, 4, 8)}
    assert reads[2][0, thing] > 0.85
    assert reads[2][1, went] > 0.85
    assert 0.25 < reads[1][0, thing] < 0.6
    assert 0.25 < reads[1][0, went] < 0.6
    assert reads[4][0, thing] > 0.85
    assert reads[4][2, went] > 0.85
    assert reads[8][:, went].max() < 0.51


def test_keys_say_what_a_word_is_and_queries_what_its_kind_asks() -> None:
    words, Q, K = hand_set("the goat ate the grass and slept")
    assert K[1, COLUMNS.index("person")] == 1
    assert K[:, COLUMNS.index("position")].tolist() == list(range(7))
    assert (Q[2] == Q[6]).all()  # ate and slept are events both
    assert (Q[0] == Q[3]).all()
    assert len(words) == len(Q) == len(K)
    with pytest.raises(ValueError, match="got the word 'dog', wanted I, goat"):
        hand_set("the dog")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"num_heads": 3}, "num_heads: got 3, wanted 1, 2, 4 or 8"),
        ({"num_heads": 16}, "num_heads: got 16, wanted a whole number from 1 to 8"),
        ({"sentence": 3}, "sentence: got 3, wanted a whole number from 0 to 2"),
        ({"asks": 7}, "asks: got 7, wanted a position from 0 to 6"),
        ({"length": 1000}, "length: got 1000, wanted a power of two"),
        ({"length": 8}, "length: got 8, wanted a whole number from 16 to 8192"),
    ],
)
def test_a_state_that_cannot_be_shown_is_named(
    state: dict[str, int], message: str
) -> None:
    with pytest.raises(StateError, match=message):
        Heads(**state)


def test_queries_and_keys_stay_as_they_were_made() -> None:
    widget = Heads()
    with pytest.raises(StateError, match="stays as it was made"):
        widget.Q = (np.array(widget.Q) + 1).tolist()
    widget.num_heads = 8
    assert widget.results()["ranks"] == [1, 1, 1, 1, 1, 1, 0, 0]


def test_the_still_view_says_weights_ranks_and_cost() -> None:
    text = Heads(num_heads=8).static_view()
    assert text.count('<th scope="row">') == 8
    assert "head 8, rank 0" in text
    assert "2.15 billion multiplications, 32 MiB of scores, rank at most 64" in text
    assert Heads().as_html() == Heads().as_html()
