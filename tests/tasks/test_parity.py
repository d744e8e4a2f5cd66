from __future__ import annotations

import pytest
import torch

from transformer_lib.tasks.parity import parity_batch


def draw(length: int, count: int, seed: int = 0):
    return parity_batch(length, count, torch.Generator().manual_seed(seed))


def test_parity_by_a_loop() -> None:
    bits, parity = draw(12, 20)
    for row, answers in zip(bits.tolist(), parity.tolist(), strict=True):
        odd = 0
        for bit, answer in zip(row, answers, strict=True):
            odd = odd ^ bit
            assert answer == odd


def test_one_flipped_bit_turns_every_later_answer() -> None:
    bits, parity = draw(12, 20)
    flipped = bits.clone()
    flipped[:, 4] ^= 1
    again = flipped.cumsum(1) % 2
    assert torch.equal(again[:, :4], parity[:, :4])
    assert torch.equal(again[:, 4:], 1 - parity[:, 4:])


def test_the_last_bit_alone_says_nothing() -> None:
    bits, parity = draw(12, 20_000)
    agree = (bits[:, -1] == parity[:, -1]).float().mean().item()
    assert abs(agree - 0.5) < 0.011  # three standard errors
    first = (bits[:, 0] == parity[:, 0]).float().mean().item()
    assert first == 1.0  # the measure can see a bit that does say it


@pytest.mark.no_shape_hook
def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"length: got -1, wanted 0 or more"):
        draw(-1, 2)
    with pytest.raises(ValueError, match=r"count: got -1"):
        draw(2, -1)
