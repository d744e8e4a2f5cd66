"""The measurements of chapter 5: each claim, and what would refute it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from transformer_lib.experiments import records
from transformer_lib.experiments.feed_forward import (
    DEPTHS,
    FACTS,
    STACKS,
    STARTS,
    XOR_INPUTS,
    XOR_MODELS,
    bag_score,
    collapse,
    forgotten,
    memory_inputs,
    probe,
    spread,
    train_memory,
    train_xor,
    wired_memory,
)
from transformer_lib.reference import feed_forward

LN_2 = float(np.log(2))


# --- collapse -------------------------------------------------------------------------


def test_spread_of_equal_and_of_opposite_tokens() -> None:
    X = np.random.default_rng(0).normal(size=(5, 3))
    assert spread(np.ones((4, 3))) == 0.0
    assert spread(X - X.mean(axis=0)) == pytest.approx(1.0)
    assert spread(7 * X) == pytest.approx(spread(X))
    assert spread(X + 100) < 0.05
    np.testing.assert_allclose(
        spread(np.stack([X, X + 100])), [spread(X), spread(X + 100)]
    )


@pytest.mark.parametrize("start", STARTS)
def test_without_the_addition_every_start_collapses(start: str) -> None:
    for with_ffn in (False, True):
        spreads = collapse(False, with_ffn, seed=0, start=start)
        assert spreads.shape == (13,)
        assert spreads[0] > 0.9
        assert spreads[6] < 1e-5
    assert collapse(True, False, seed=0, start=start)[6] > 0.2


def test_collapse_is_measured_and_not_built_in() -> None:
    """Attention so sharp that each token finds itself keeps the tokens apart."""
    lone = collapse(False, False, seed=0, depth=2, sharpness=8.0)
    assert lone[2] > 0.6 > collapse(False, False, seed=0, depth=2)[2]


def test_what_the_network_does_to_one_token_it_does_to_equal_ones() -> None:
    rng = np.random.default_rng(0)
    x, W_1, W_2 = rng.normal(size=8), rng.normal(size=(8, 32)), rng.normal(size=(32, 8))
    X = feed_forward(np.tile(x, (5, 1)), W_1, np.zeros(32), W_2, np.zeros(8))
    assert spread(X) < 1e-12


def test_seed_zero_of_the_collapse_lies_in_the_recorded_range() -> None:
    record = records.load("feed_forward_collapse")
    for stack, parts in STACKS.items():
        spreads = collapse(*parts, seed=0, start="torch")
        for layer in (1, 4, 12):
            low, high = records.spread(record, f"{stack}, torch, layer {layer}")
            assert low - 1e-4 <= max(spreads[layer], 1e-6) <= high + 1e-4


def test_recorded_claims_of_the_collapse() -> None:
    record = records.load("feed_forward_collapse")
    for start in STARTS:
        for stack in ("attention", "attention, FFN"):
            assert records.spread(record, f"{stack}, {start}, layer 6")[1] < 1e-5
    middle = {
        s: records.median(record, f"attention, skip, {s}, layer 12") for s in STARTS
    }
    assert middle["unit"] < 0.2
    assert 0.7 < middle["torch"] < middle["small"]
    assert records.median(record, "sharpness 8, layer 4") > 0.1
    assert records.spread(record, "sharpness 8, layer 12")[1] < 1e-3


# --- what a stack still knows ---------------------------------------------------------


def test_the_bag_score_is_that_of_the_most_frequent_word() -> None:
    rng = np.random.default_rng(5)
    tokens = rng.integers(16, size=(5000, 10))
    best = np.array([np.bincount(row, minlength=16).argmax() for row in tokens])
    assert bag_score() == pytest.approx((tokens == best[:, None]).mean(), abs=0.01)


def test_the_probe_reads_what_is_there_and_not_what_is_lost() -> None:
    with_skip, without = (probe(skip, False, seed=0) for skip in (True, False))
    assert with_skip.shape == without.shape == (len(DEPTHS),)
    assert with_skip[0] == without[0] == 1.0
    assert with_skip[-1] > 0.99
    assert without[2:].max() < bag_score() + 0.05
    record = records.load("feed_forward_probe")
    for depth, right in zip(DEPTHS, without, strict=True):
        low, high = records.spread(record, f"attention, torch, layer {depth}")
        assert low - 0.02 <= right <= high + 0.02


def test_recorded_claims_of_the_probe() -> None:
    record = records.load("feed_forward_probe")
    bag = bag_score()
    for depth in (2, 4, 8, 12):
        low, high = records.spread(record, f"attention, torch, layer {depth}")
        assert abs(low - bag) < 0.03 > abs(high - bag)
    assert records.spread(record, "attention, skip, torch, layer 12")[0] > 0.99
    assert records.spread(record, "attention, skip, unit, layer 12")[1] < 0.8


# --- exclusive or ---------------------------------------------------------------------


@pytest.mark.parametrize("name", XOR_MODELS)
def test_xor_with_one_seed_lies_in_the_recorded_range(name: str) -> None:
    run = train_xor(name, seed=0)
    low, high = records.spread(records.load("feed_forward_xor"), f"loss, {name}")
    assert low - 1e-3 <= run.loss <= high + 1e-3
    if name.startswith("attention"):
        assert run.loss == pytest.approx(LN_2, abs=1e-4)
        assert np.abs(run.plane - 0.5).max() < 0.05
    else:
        assert run.right == 1.0
        answers = run.plane[[10, 10, 30, 30], [10, 30, 10, 30]]  # 00, 10, 01, 11
        np.testing.assert_allclose(answers, [0, 1, 1, 0], atol=0.05)


def test_recorded_claims_of_xor() -> None:
    record = records.load("feed_forward_xor")
    for name in XOR_MODELS:
        low, high = records.spread(record, f"loss, {name}")
        if name.startswith("attention"):
            assert abs(low - LN_2) < 1e-3 > abs(high - LN_2)
        else:
            assert high < 0.01
            assert records.spread(record, f"right, {name}") == (1.0, 1.0)


def test_no_affine_score_beats_ln_2_though_one_gets_three_of_four_right() -> None:
    y = np.array([-1.0, 1.0, 1.0, -1.0])
    rng = np.random.default_rng(0)
    best = 0.0
    for _ in range(2000):
        weights, bias = rng.normal(size=2) * 3, rng.normal() * 3
        z = XOR_INPUTS @ weights + bias
        assert np.log1p(np.exp(-y * z)).mean() >= LN_2
        best = max(best, float((y * z > 0).mean()))
    assert best == 0.75


# --- a memory of words ----------------------------------------------------------------


def test_two_letters_settle_the_third_and_four_words_are_an_exclusive_or() -> None:
    assert len({word[:2] for word in FACTS}) == len(FACTS) == 16
    the, too, who, woe = (word[2] for word in ("the", "too", "who", "woe"))
    assert the == woe != too == who
    assert {"the", "too", "who", "woe"} <= set(FACTS)


def test_the_wired_memory_knows_every_word_with_one_unit_each() -> None:
    network, X = wired_memory(), memory_inputs()
    hidden = np.maximum(0, X @ network.W_1 + network.b_1)
    np.testing.assert_array_equal(hidden, np.eye(16))
    said = feed_forward(X, *network).argmax(axis=1)
    wanted = network.W_2.argmax(axis=1)
    np.testing.assert_array_equal(said, wanted)
    for matrix in network:
        np.testing.assert_array_equal(matrix, matrix.round())


def test_one_trained_memory_lies_in_the_recorded_range() -> None:
    record = records.load("feed_forward_memory")
    for d_ff in (4, 16):
        memory = train_memory(seed=0, d_ff=d_ff)
        for measure, number in (
            ("right", memory.right.sum()),
            ("most forgotten", forgotten(memory).max()),
        ):
            low, high = records.spread(record, f"{measure}, {d_ff} units")
            assert low - 1 <= number <= high + 1


def test_forgotten_counts_the_words_of_a_unit() -> None:
    """In a wired network each unit takes exactly its own word with it."""
    trained = train_memory(seed=0, d_ff=16, steps=1)
    wired = wired_memory()
    hidden = np.maximum(0, memory_inputs() @ wired.W_1 + wired.b_1)
    memory = trained._replace(
        network=wired, hidden=hidden, right=np.ones(16, dtype=bool)
    )
    counts = forgotten(memory)
    # without its unit a word scores 0 everywhere, and argmax says the first letter, a
    assert counts.tolist() == [int(word[2] != "a") for word in FACTS]


def test_without_a_bend_the_four_words_cost_ln_2_each() -> None:
    record = records.load("feed_forward_memory")
    for value in records.spread(record, "loss, no bend"):
        assert value == pytest.approx(LN_2 * 4 / 16, abs=1e-3)
    assert train_memory(seed=0, d_ff=16).loss < 0.01


def test_recorded_claims_of_the_memory() -> None:
    record = records.load("feed_forward_memory")
    for d_ff in (8, 16, 64):
        assert records.spread(record, f"right, {d_ff} units") == (16.0, 16.0)
    assert records.spread(record, "words per unit, 16 units")[0] > 4
    assert records.spread(record, "most forgotten, 4 units")[0] > 4
    assert records.spread(record, "most forgotten, 16 units")[1] <= 1
    assert records.spread(record, "most forgotten, 64 units")[1] == 0


def test_seeds_are_kept_and_torch_is_left_alone() -> None:
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    one, again, other = (train_memory(seed, d_ff=4, steps=3).loss for seed in (0, 0, 1))
    train_xor("+ FFN", seed=0, steps=2)
    assert torch.equal(before, torch.random.get_rng_state())
    assert one == again != other
    np.testing.assert_array_equal(collapse(True, True, 3), collapse(True, True, 3))


@pytest.mark.no_shape_hook
def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="start: got 'xavier', wanted one of unit"):
        collapse(True, True, 0, start="xavier")
    with pytest.raises(ValueError, match="name: got 'MLP', wanted one of attention"):
        train_xor("MLP", 0)
    with pytest.raises(ValueError, match="d_ff: got 0, wanted 1 or more"):
        train_memory(0, d_ff=0)
    with pytest.raises(ValueError, match="words: got 'x', wanted two letters"):
        memory_inputs(["x"])
