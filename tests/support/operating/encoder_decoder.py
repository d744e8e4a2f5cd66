"""Map: boxes to choose, five sizes to slide, and a table of what every part costs."""

from __future__ import annotations

from typing import Any

from operating import told
from transformer_lib.reference import (
    decoder_layer_flops,
    encoder_layer_flops,
    feed_forward_flops,
    matmul_flops,
    multi_head_attention_flops,
    score_bytes,
    transformer_flops,
)
from transformer_lib.widgets.base import short

SLIDER = "length of source and target"

SIZES = {
    "width d": "d_model",
    "heads": "num_heads",
    "layers of each stack": "layers",
    "tokens in the table": "vocabulary",
    SLIDER: "length",
}


READ = """card => ({
  sliders: Object.fromEntries([...card.querySelectorAll("input[type=range]")].map(
    (input) => [input.labels[0].textContent, input.getAttribute("aria-valuetext")])),
  rows: [...card.querySelectorAll("tbody tr")].map(
    (row) => [...row.children].map((cell) => cell.textContent)),
})"""


def chosen_box(widget: Any) -> Any:
    """The box that is told."""
    return widget.locator('[role="option"][aria-selected="true"]')


def box(widget: Any, name: str) -> Any:
    """One box, by its accessible name."""
    return widget.get_by_role("option", name=name, exact=True)


def check(widget: Any) -> dict[str, Any]:
    """Compare what Map shows with the reference's counts; return what is set."""
    seen = widget.evaluate(READ)  # all at one moment
    sizes = {
        key: int(seen["sliders"][label].replace(",", ""))
        for label, key in SIZES.items()
    }
    d, heads, layers, vocabulary, n = sizes.values()
    attention = 4 * (d * d + d)  # four matrices with their biases
    network = d * 4 * d + 4 * d + 4 * d * d + d
    look = layers * multi_head_attention_flops(n, n, d)
    think = layers * feed_forward_flops(n, d, 4 * d)
    scores = layers * score_bytes(n, n, heads)
    wanted = [
        (vocabulary * d, matmul_flops(n, d, vocabulary), 0),
        (layers * attention, look, scores),
        (layers * network, think, 0),
        (layers * 2 * 2 * d, 0, 0),
        (layers * attention, look, scores),
        (layers * attention, look, scores),
        (layers * network, think, 0),
        (layers * 3 * 2 * d, 0, 0),
    ]
    total = tuple(sum(column) for column in zip(*wanted, strict=True))
    assert total[1] == transformer_flops(n, n, d, 4 * d, layers, layers, vocabulary)
    assert total[1] - wanted[0][1] == layers * (
        encoder_layer_flops(n, d, 4 * d) + decoder_layer_flops(n, n, d, 4 * d)
    )
    assert [tuple(row[1:]) for row in seen["rows"]] == [
        (f"{parameters:,}", short(flops), short(memory / 1e6))
        for parameters, flops, memory in [*wanted, total]
    ]

    assert chosen_box(widget).count() == 1
    name = chosen_box(widget).get_attribute("aria-label")
    title, parameters, flops = widget.locator(".tl-told b").all_inner_texts()
    assert title == name
    kind = next(
        (
            k
            for k in ("norm", "network", "positions", "tokens", "attention")
            if k in name
        ),
        "head",
    )
    each = {
        "norm": (2 * d, 0),
        "network": (network, feed_forward_flops(n, d, 4 * d)),
        "positions": (0, 0),
        "tokens": (vocabulary * d, 0),
        "attention": (attention, multi_head_attention_flops(n, n, d)),
        "head": (0, matmul_flops(n, d, vocabulary)),
    }
    if name == "scores of the next token":
        kind = "head"
    assert (parameters, flops) == (f"{each[kind][0]:,}", short(each[kind][1]))
    if kind == "attention":
        assert f"{heads:,} × {n:,} × {d // heads:,}" in told(widget)
    return {**sizes, "chosen": name}


def use_all(widget: Any) -> None:
    """The largest model and the box with the longest formula."""
    for label in SIZES:
        widget.get_by_role("slider", name=label, exact=True).press("End")
    box(widget, "cross-attention").click()
