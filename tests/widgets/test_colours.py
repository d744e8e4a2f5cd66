"""One palette for figures, stylesheet and scripts, and cells whose text can be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_rgb
from wcag import contrast, luminance

from transformer_lib.palette import DARK, LIGHT
from transformer_lib.plotting import SIGNED, WEIGHTS

Node = Callable[..., Any]
CSS = Path(__file__).resolve().parents[2] / "transformer_lib/widgets/shared.css"
SHARES = [i / 400 for i in range(401)]


def css_palettes(text: str) -> list[dict[str, str]]:
    """The ``--tl-...: #...`` of each rule that sets colours, in order."""
    rules = re.findall(r"\{([^{}]*)\}", text)
    found = [dict(re.findall(r"--tl-(\w+):\s*(#[0-9a-f]{6})", rule)) for rule in rules]
    return [one for one in found if one]


def test_the_stylesheet_repeats_the_palette() -> None:
    assert css_palettes(CSS.read_text(encoding="utf-8")) == [LIGHT, DARK]


def test_a_changed_colour_in_the_stylesheet_is_seen() -> None:
    text = CSS.read_text(encoding="utf-8").replace("#0b62a8", "#0b62a9", 1)
    assert css_palettes(text) != [LIGHT, DARK]


def test_the_scripts_repeat_the_palette(node: Node) -> None:
    assert node("shared", "shared.palette") == {"light": LIGHT, "dark": DARK}


@pytest.mark.parametrize(
    ("kind", "colours"), [("weights", WEIGHTS), ("signed", SIGNED)]
)
def test_light_cells_have_the_colours_of_the_figures(
    kind: str, colours: Any, node: Node
) -> None:
    found = node(
        "shared", f"data.map((s) => shared.shade('{kind}', s).light.ground)", SHARES
    )
    for share, colour in zip(SHARES, found, strict=True):
        wanted = colours(share)[:3]
        # Matplotlib keeps 256 colours of the ramp, the widget computes each one.
        assert to_rgb(colour) == pytest.approx(wanted, abs=3 / 255)


@pytest.mark.parametrize("kind", ["weights", "signed"])
def test_text_reads_on_every_shade(kind: str, node: Node) -> None:
    for shade in node("shared", f"data.map((s) => shared.shade('{kind}', s))", SHARES):
        for theme in ("light", "dark"):
            ground, text = shade[theme]["ground"], shade[theme]["text"]
            assert contrast(ground, text) >= 4.5, f"{text} on {ground}"


def test_text_in_the_ink_alone_would_not_read_on_every_shade(node: Node) -> None:
    changes = (("if (contrast(ink, ground) >= 5) return ink;", "return ink;"),)
    shades = node(
        "shared", "data.map((s) => shared.shade('weights', s))", SHARES, changes
    )
    assert min(contrast(*s["light"].values()) for s in shades) < 4.5


@pytest.mark.parametrize(("name", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_every_text_colour_reads_on_the_grounds_of_a_card(
    name: str, palette: dict[str, str]
) -> None:
    for role in ("ink", "muted", "query", "key", "value", "output"):
        for ground in ("ground", "panel"):
            assert contrast(palette[role], palette[ground]) >= 4.5, f"{role}, {name}"


def test_luminance_agrees_with_the_script(node: Node) -> None:
    colours = [*LIGHT.values(), *DARK.values()]
    found = node("shared", "data.map(shared.luminance)", colours)
    assert found == pytest.approx([luminance(c) for c in colours], abs=1e-12)
