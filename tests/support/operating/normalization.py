"""Depth: recorded runs, a depth to slide, two choices, and a layer to read out."""

from __future__ import annotations

import json
import math
import re
from importlib import resources
from typing import Any

from operating import told
from transformer_lib.widgets.base import short

SLIDER = "layers"

RECORDED = json.loads(
    (
        resources.files("transformer_lib.widgets") / "data" / "normalization.json"
    ).read_text(encoding="utf-8")
)
"""What the widget plays; the tests of the experiments compare it with the reference."""


def layer_slider(widget: Any) -> Any:
    """The plot, in which a layer is chosen."""
    return widget.get_by_role("slider", name="layer", exact=True)


def check(widget: Any) -> dict[str, Any]:
    """Compare what Depth shows with the recorded runs; return what is set."""
    layers = int(widget.locator(".tl-slider .tl-number").inner_text())
    radios = widget.locator("input[type=radio]:checked")
    arrangement, start = (radio.input_value() for radio in radios.all())
    plot = layer_slider(widget)
    layer = int(plot.get_attribute("aria-valuenow"))
    assert plot.get_attribute("aria-valuemax") == str(layers)
    run = RECORDED["runs"][f"{arrangement}, {start}, {layers}"]
    sizes, gradients = run["sizes"], run["gradients"]
    assert (len(sizes), len(gradients)) == (layers + 1, layers)

    stream, gradient = short(sizes[layer]), short(gradients[layer - 1])
    share = short(gradients[0] / gradients[-1])
    strong = widget.locator(".tl-told b").all_inner_texts()
    assert strong == [f"layer {layer} of {layers}", stream, gradient, share]
    line = told(widget)
    assert f"{short(sizes[layer - 1])} goes in" in line
    assert f", {arrangement}: " in line
    labels = widget.locator(".tl-plot-label").all_text_contents()
    assert [re.sub(" [↓↑]$", "", label) for label in labels] == [
        f"stream {stream}",
        f"gradient {gradient}",
    ]
    for kind, numbers in (("sizes", sizes), ("gradients", gradients)):
        path = widget.locator(f".tl-curve-{kind}").get_attribute("d")
        heights = [float(y) for y in re.findall(r",([\d.]+)", path)]
        powers = [min(12.0, max(-12.0, math.log10(number))) for number in numbers]
        wanted = [26 + (300 - 26 - 48) * (12 - power) / 24 for power in powers]
        assert len(heights) == len(wanted)
        assert max(abs(a - b) for a, b in zip(heights, wanted, strict=True)) < 0.06
    return {
        "layers": layers,
        "arrangement": arrangement,
        "start": start,
        "layer": layer,
    }


def use_all(widget: Any) -> None:
    """Forty-eight layers without skip, the smallest start, the last layer."""
    widget.get_by_role("slider", name=SLIDER, exact=True).press("End")
    widget.get_by_role("radio", name="plain").check()
    widget.get_by_role("radio", name="0.02").check()
    layer_slider(widget).press("Home")
