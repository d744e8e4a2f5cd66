"""Cost: a plot whose tokens are chosen, three sliders, a choice of devices, a table."""

from __future__ import annotations

from typing import Any

from operating import slider, told
from transformer_lib import reference
from transformer_lib.widgets.base import short
from transformer_lib.widgets.cost import DEVICES, in_bytes, in_time

SLIDER = "layers"
_NAMES = ("RNN", "LSTM", "plain", "fused")


def check(widget: Any) -> dict[str, Any]:
    """Compare what Cost shows with the reference; return what is set."""
    d, h, layers = (
        int(text.replace(",", ""))
        for text in widget.locator(".tl-slider .tl-number").all_inner_texts()
    )
    n = int(slider(widget, "tokens").get_attribute("aria-valuenow"))
    name = widget.get_by_role("combobox", name="device").input_value()
    on = DEVICES[name]
    b = on.bytes_each

    flops = [
        layers * one
        for one in (
            reference.rnn_flops(n, d, d),
            reference.lstm_flops(n, d, d),
            reference.multi_head_attention_flops(n, n, d),
            reference.multi_head_attention_flops(n, n, d),
        )
    ]
    weights = layers * reference.score_bytes(n, n, h, b)
    tokens = layers * n * d * b
    kept = [tokens, 6 * tokens, 4 * tokens + weights, 4 * tokens]
    again = [0, 0, 3 * weights, 0]
    seconds = []
    for k, (parameters, steps) in enumerate(((2, n), (8, n), (4, 5), (4, 3))):
        moved = layers * parameters * d * d * b + tokens + kept[k] + again[k]
        seconds.append(
            reference.least_seconds(
                flops[k],
                moved,
                layers * steps,
                on.flops_per_second,
                on.bytes_per_second,
                on.pause,
            )
        )
    rows = [
        row.locator("th, td").all_inner_texts()
        for row in widget.locator(".tl-cost tbody tr").all()
    ]
    assert rows == [
        [_NAMES[k], short(flops[k]), in_bytes(kept[k]), in_time(seconds[k])]
        for k in range(4)
    ]
    labels = widget.locator(".tl-plot-label").all_text_contents()
    assert labels == [f"{_NAMES[k]} {in_time(seconds[k])}" for k in range(4)]
    text = slider(widget, "tokens").get_attribute("aria-valuetext")
    assert text.startswith(f"{n:,} tokens: RNN {in_time(seconds[0])}")

    line = told(widget)
    core = reference.attention_flops(n, n, d)
    projections = reference.multi_head_attention_flops(n, n, d) - core
    assert f"= {short(projections)} + {short(core)} operations" in line
    assert f"2d = {2 * d:,}." in line
    assert f"{h}·{n:,}²·{b} bytes = {in_bytes(weights / layers)}." in line
    fits = "fits into" if kept[2] <= on.memory else "does not fit into"
    assert f"which {fits} {in_bytes(on.memory)}" in line
    assert f"RNN {layers * n:,}, plain attention {layers * 5:,}." in line
    return {"n": n, "d": d, "h": h, "layers": layers, "device": name}


def use_all(widget: Any) -> None:
    """The largest of everything: the longest numbers."""
    for name in ("tokens", "width", "heads", "layers"):
        slider(widget, name).press("End")
    widget.get_by_role("combobox", name="device").select_option("one processor core")
