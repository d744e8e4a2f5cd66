"""The measurements of chapter 4: each claim, and what would refute it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from transformer_lib.experiments import records
from transformer_lib.experiments.positions import (
    LENGTHS,
    READERS,
    STARTS,
    SYMBOLS,
    WIDTH,
    Index,
    IndexOverLength,
    Learned,
    Reader,
    Rotary,
    RotaryHalved,
    Sinusoidal,
    bag_level,
    mean_weights,
    neighbours_right,
    order_right,
    order_sentences,
    train_neighbours,
    train_order,
)
from transformer_lib.reference.positions import rope_halved

SENTENCES = torch.randint(SYMBOLS, (4, 9), generator=torch.Generator().manual_seed(0))


def make(reader: type[Reader], seed: int = 0) -> Reader:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return reader()


@pytest.fixture(scope="module")
def trained() -> dict[str, Reader]:
    names = ("none", "index / length", "sinusoids", "RoPE")
    return {
        name: train_neighbours(READERS[name], seed=0, every=300)[0] for name in names
    }


# --- what the readers are -------------------------------------------------------------


def test_without_positions_a_shuffle_shuffles_the_answers_and_no_other_reader_does() -> (
    None
):
    order = torch.tensor([3, 0, 8, 5, 1, 7, 4, 2, 6])
    with torch.no_grad():
        for name, reader in READERS.items():
            model = make(reader)
            if isinstance(model, Learned):  # its rows start too small to be seen
                model.positions.table.mul_(50)
            before, _ = model(SENTENCES)
            after, _ = model(SENTENCES[:, order])
            same = torch.allclose(before[:, order], after, atol=1e-5)
            assert same == (name == "none"), name


@pytest.mark.parametrize("name", list(READERS))
def test_a_shift_leaves_the_weights_of_relative_readers_alone(name: str) -> None:
    model = make(READERS[name]).double()
    with torch.no_grad():
        here, there = (model(SENTENCES, start)[1] for start in (0, 7))
    assert torch.allclose(here, there, atol=1e-12) == (name in ("none", "RoPE"))


def test_the_numbers_are_those_of_the_reference() -> None:
    x = torch.zeros(1, 3, WIDTH)
    assert (make(Index).add(x, 2)[0, :, 5] == torch.tensor([2, 3, 4])).all()
    over = make(IndexOverLength).add(x, 2)[0, :, 5]
    np.testing.assert_allclose(over, [2 / 5, 3 / 5, 4 / 5], rtol=1e-6)


def test_the_other_pairing_is_that_of_the_reference() -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, WIDTH))
    turned = RotaryHalved().double().turn(torch.from_numpy(x), 3)
    np.testing.assert_allclose(turned, rope_halved(x, start=3), atol=1e-12)
    neighbours = Rotary().double().turn(torch.from_numpy(x), 3)
    assert np.abs(turned.numpy() - neighbours.numpy()).max() > 0.1


def test_a_number_can_single_out_only_an_end() -> None:
    """Between copies of one word the scores of (4.4) are a straight line."""
    copies = torch.full((1, 12), 5)
    for reader in (Index, IndexOverLength):
        for seed in range(5):
            _, weights = make(reader, seed).double()(copies)
            best = weights[0].argmax(dim=-1)
            assert set(best.tolist()) <= {0, 11}
            slopes = weights[0, 4].log().diff()
            assert torch.allclose(slopes, slopes[0].expand(11), atol=1e-9)
    inside = [
        set(make(Sinusoidal, seed)(copies)[1][0].argmax(dim=-1).tolist()) - {0, 11}
        for seed in range(5)
    ]
    assert any(inside)


# --- which of two comes first ---------------------------------------------------------


def test_every_order_sentence_has_one_a_and_one_b_and_the_answer_fits() -> None:
    tokens, place, first = order_sentences(200, torch.Generator().manual_seed(1))
    assert ((tokens == 0).sum(dim=1) == 1).all()
    assert ((tokens == 1).sum(dim=1) == 1).all()
    for row, at, answer in zip(tokens, place, first, strict=True):
        a, b = row.tolist().index(0), row.tolist().index(1)
        assert a == at
        assert answer == int(a < b)
    assert 0.4 < first.double().mean() < 0.6


def test_without_positions_exactly_half_is_right_trained_or_not() -> None:
    for seed in range(3):
        _, curve = train_order(Reader, seed=seed, steps=60, every=20)
        assert curve.right == [0.5] * 4


def test_a_model_that_knows_the_answer_is_right_on_every_pair() -> None:
    """The measure itself: a reader that looks at the places gets all, or none."""

    class Knows(Reader):
        def __init__(self, right: bool) -> None:
            super().__init__(2)
            self.right = right

        def forward(
            self, tokens: torch.Tensor, start: int = 0
        ) -> tuple[torch.Tensor, torch.Tensor]:
            a = (tokens == 0).long().argmax(dim=1)
            b = (tokens == 1).long().argmax(dim=1)
            before = (a < b) == self.right
            scores = nn.functional.one_hot(before.long(), 2).double()
            return scores[:, None].expand(-1, tokens.shape[1], -1), scores

    assert order_right(Knows(right=True)) == 1.0
    assert order_right(Knows(right=False)) == 0.0


def test_the_index_over_the_length_learns_before_and_after() -> None:
    _, curve = train_order(IndexOverLength, seed=0, every=250)
    low, high = records.spread(records.load("positions_order"), "right, index / length")
    assert low - 0.03 <= curve.right[-1] <= high + 0.03


# --- who stands left of me ------------------------------------------------------------


@pytest.mark.parametrize("name", ["none", "index / length", "sinusoids", "RoPE"])
def test_seed_zero_lies_in_the_recorded_range(
    name: str, trained: dict[str, Reader]
) -> None:
    record = records.load("positions_neighbours")
    low, high = records.spread(record, f"right, {name}")
    margin = 0.03  # other processors sum in another order
    assert low - margin <= neighbours_right(trained[name]) <= high + margin


def test_the_weight_lies_on_the_left_neighbour(trained: dict[str, Reader]) -> None:
    def on_neighbour(name: str) -> float:
        return float(np.diagonal(mean_weights(trained[name]), -1).mean())

    assert on_neighbour("RoPE") > 0.8
    assert on_neighbour("sinusoids") > 0.4
    assert on_neighbour("none") < 0.15
    assert on_neighbour("index / length") < 0.25


def test_the_bag_is_what_no_positions_can_reach(trained: dict[str, Reader]) -> None:
    assert neighbours_right(trained["none"]) == pytest.approx(bag_level(), abs=0.01)
    # By hand: in a sentence of two the other letter is the neighbour.
    assert bag_level([2]) == 1.0
    assert bag_level([24]) < bag_level([8])


def test_rope_answers_where_it_was_never_trained(trained: dict[str, Reader]) -> None:
    assert neighbours_right(trained["RoPE"], [12], start=48) > 0.99
    assert neighbours_right(trained["sinusoids"], [12], start=24) < 0.99


def test_a_seed_gives_the_same_model_and_leaves_torch_alone() -> None:
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    runs = [train_neighbours(Rotary, seed=s, steps=3, every=3)[0] for s in (0, 0, 1)]
    assert torch.equal(before, torch.random.get_rng_state())
    first, again, other = (run.embedding.weight for run in runs)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_recorded_claims_of_the_chapter() -> None:
    order = records.load("positions_order")
    assert records.spread(order, "right, none") == (0.5, 0.5)
    assert records.median(order, "right, index") > 0.95
    assert records.spread(order, "right, index")[0] < 0.8
    assert records.spread(order, "right, index / length")[0] > 0.99

    record = records.load("positions_neighbours")
    bag = bag_level(LENGTHS)
    assert records.spread(record, "right, none")[1] < bag + 0.01
    assert records.spread(record, "right, index")[1] < bag - 0.03
    low, high = records.spread(record, "right, index / length")
    assert bag + 0.05 < low
    assert high < 0.4
    for name in ("sinusoids", "learned table", "RoPE"):
        assert records.spread(record, f"right, {name}")[0] > 0.95
        for start in (0, 6):
            assert records.spread(record, f"right, {name}, start {start}")[0] > 0.95
    for start in STARTS:
        assert records.spread(record, f"right, RoPE, start {start}")[0] > 0.99
    for start in (24, 48):
        middle = records.median(record, f"right, sinusoids, start {start}")
        assert 0.5 < middle < 0.95
        table = records.spread(record, f"right, learned table, start {start}")
        assert table[1] < bag_level([12]) + 0.03
    assert records.spread(record, "right, RoPE, other pairing")[1] < 0.999


def test_the_step_size_serves_all_readers() -> None:
    rates = records.load("positions_rates")
    for name in READERS:
        medians = {
            rate: records.median(rates, f"right, {name}, step size {rate}")
            for rate in (0.003, 0.01, 0.03)
        }
        assert medians[0.01] > max(medians.values()) - 0.02, name


@pytest.mark.no_shape_hook
def test_a_sentence_without_a_neighbour_is_refused() -> None:
    with pytest.raises(ValueError, match="lengths: got 1, wanted 2 or more"):
        bag_level([1])
