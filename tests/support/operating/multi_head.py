"""Heads: one slider cuts, another sets the tokens of the layer whose cost is shown."""

from __future__ import annotations

from typing import Any

import numpy as np

from operating import HALF_DIGIT, number, slider, start_of, told
from transformer_lib.reference import attention, split_heads
from transformer_lib.reference.cost import (
    attention_flops,
    multi_head_attention_flops,
    score_bytes,
)
from transformer_lib.widgets.base import fixed
from transformer_lib.widgets.multi_head import big, memory

SLIDER = "heads"

READ = """card => ({
  words: [...card.querySelectorAll(".tl-one-head")].map(head =>
    [...head.querySelectorAll(".tl-word")].map(word =>
      [word.firstChild.textContent, word.querySelector(".tl-word-weight").textContent])),
  ranks: [...card.querySelectorAll(".tl-rank")].map(line => line.textContent),
  maps: [...card.querySelectorAll(".tl-map")].map(map =>
    [...map.querySelectorAll(".tl-map-cell")].map(cell =>
      cell.style.getPropertyValue("--light"))),
  cost: [...card.querySelectorAll(".tl-cost tbody tr")].map(row =>
    [...row.querySelectorAll("td")].map(cell => cell.textContent)),
  numbers: [...card.querySelectorAll(".tl-slider .tl-number")].map(n => n.textContent),
  chosen: [...card.querySelectorAll("select")].map(select => Number(select.value)),
})"""


def check(widget: Any) -> dict[str, Any]:
    """Compare what Heads shows with the reference; return what is set."""
    start, shown = start_of(widget), widget.evaluate(READ)
    num_heads, length = (int(number(text)) for text in shown["numbers"])
    sentence, asks = shown["chosen"]
    lengths = [len(text.split()) for text in start["sentences"]]
    words = start["sentences"][sentence].split()
    rows = slice(sum(lengths[:sentence]), sum(lengths[: sentence + 1]))
    q, k = (split_heads(np.array(start[key][rows], float), num_heads) for key in "QK")
    itself = np.broadcast_to(np.eye(len(words)), (num_heads, len(words), len(words)))
    _, weights = attention(q, k, itself)
    ranks = np.linalg.matrix_rank(q @ k.swapaxes(-1, -2))

    assert len(shown["words"]) == len(shown["ranks"]) == num_heads
    for head in range(num_heads):
        assert [word for word, _ in shown["words"][head]] == words
        row = np.array([number(text) for _, text in shown["words"][head]])
        assert np.abs(row - weights[head, asks]).max() <= HALF_DIGIT[2]
        bound = min(8 // num_heads, len(words))
        assert shown["ranks"][head] == f"scores of rank {ranks[head]}, at most {bound}"
        # The darker a cell, the larger its weight.
        lightness = [
            sum(int(colour[i : i + 2], 16) for i in (1, 3, 5))
            for colour in shown["maps"][head]
        ]
        order = np.argsort(-weights[head].ravel(), kind="stable")
        sorted_by_weight = np.array(lightness)[order]
        assert (np.diff(sorted_by_weight) >= -3).all()  # ramps round each channel
    assert [row[0] for row in shown["cost"]] == _cost(length, 1)
    assert [row[1] for row in shown["cost"]] == _cost(length, num_heads)
    best = weights[:, asks].argmax(axis=-1)
    line = told(widget)
    assert line.startswith(f"{words[asks]} asks")
    for head in range(num_heads):
        if q[head, asks].any():
            weight = fixed(float(weights[head, asks, best[head]]), 2)
            assert f"head {head + 1} reads {words[best[head]]} {weight}" in line
    return {
        "heads": num_heads, "length": length, "sentence": sentence, "asks": asks,
    }  # fmt: skip


def _cost(n: int, num_heads: int) -> list[str]:
    core = attention_flops(n, n, 512)
    return [
        str(512 // num_heads),
        str(min(n, 512 // num_heads)),
        big((multi_head_attention_flops(n, n, 512) - core) // 2),
        big(core // 2),
        memory(score_bytes(n, n, num_heads)),
    ]


def use_all(widget: Any) -> None:
    """Eight heads, the longest sentence and the largest layer."""
    slider(widget, "heads").press("End")
    slider(widget, "tokens").press("End")
    widget.get_by_label("sentence").select_option(index=2)
    # Taller than the window now: its top goes below the page's bar, which would hide
    # a row of words from whoever measures colours.
    widget.evaluate(
        "card => scrollBy({ top: card.getBoundingClientRect().top - 120, behavior: 'instant' })"
    )
