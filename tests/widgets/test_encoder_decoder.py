"""Map: what it refuses, what its still view says, and that its counts are the model's."""

from __future__ import annotations

import re
from typing import Any

import pytest

from transformer_lib.nn import Transformer, TransformerConfig
from transformer_lib.reference import score_bytes
from transformer_lib.widgets import ModelMap
from transformer_lib.widgets.base import StateError, short

pytestmark = pytest.mark.no_shape_hook


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d_model": 100}, "d_model: got 100, wanted one of 64, 128, 256"),
        ({"d_model": True}, "d_model: got True, wanted one of 64"),
        ({"num_heads": 3}, "num_heads: got 3, wanted one of 1, 2, 4, 8, 16"),
        ({"layers": 13}, "layers: got 13, wanted one of 1, 2, 3"),
        ({"length": 65}, "length: got 65, wanted one of 8, 16"),
        ({"chosen": "roof"}, "chosen: got 'roof', wanted one of source_tokens"),
    ],
)
def test_a_bad_argument_is_named_with_what_was_wanted(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(StateError, match=message):
        ModelMap(**arguments)


@pytest.mark.parametrize(
    ("d_model", "num_heads", "layers", "vocabulary"),
    [(64, 4, 2, 100), (128, 16, 3, 1_000), (256, 1, 1, 100)],
)
def test_parameters_and_flops_are_those_of_the_module(
    d_model: int, num_heads: int, layers: int, vocabulary: int
) -> None:
    module = Transformer(
        TransformerConfig(
            vocab_size=vocabulary,
            d_model=d_model,
            num_heads=num_heads,
            d_ff=4 * d_model,
            num_encoder_layers=layers,
            num_decoder_layers=layers,
        )
    )
    widget = ModelMap(d_model, num_heads, layers, vocabulary, length=32)
    total = widget.total()
    assert total.parameters == module.num_parameters()
    assert total.flops == module.flops(32, 32)
    assert total.score_bytes == 3 * layers * score_bytes(32, 32, num_heads)


def test_the_still_view_shows_every_part_and_the_sum() -> None:
    widget = ModelMap(layers=3)
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', widget.static_view())
    assert [name for name, _ in rows] == [
        part.name for part in [*widget.costs(), widget.total()]
    ]
    cells = [re.findall("<td>(.*?)</td>", cells) for _, cells in rows]
    assert cells[-1] == [
        f"{widget.total().parameters:,}",
        short(widget.total().flops),
        short(widget.total().score_bytes / 1e6),
    ]
    assert sum(int(row[0].replace(",", "")) for row in cells[:-1]) == int(
        cells[-1][0].replace(",", "")
    )


def test_the_text_of_a_widget_is_short_and_the_same_every_time() -> None:
    assert repr(ModelMap(layers=2)) == (
        "ModelMap(d_model=512, num_heads=8, layers=2, vocabulary=37000, length=64)"
    )
    assert ModelMap().as_html() == ModelMap().as_html()
