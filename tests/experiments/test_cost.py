"""What chapter 11 measures: the instruments, the tasks, and the records they wrote."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from transformer_lib import reference
from transformer_lib.experiments import cost as lab
from transformer_lib.experiments import records

# --- positions ------------------------------------------------------------------------


def test_the_tasks_ask_for_the_previous_and_for_the_fifth_token() -> None:
    ids = torch.arange(12).view(2, 6)
    answers, asked = lab.task_answers("the previous token", ids)
    assert asked.tolist() == [False] + 5 * [True]
    assert torch.equal(answers[:, asked], ids[:, :-1])
    answers, asked = lab.task_answers("the fifth token", ids)
    assert asked.tolist() == 4 * [False] + 2 * [True]
    assert answers[:, asked].tolist() == [[4, 4], [10, 10]]


@pytest.mark.parametrize("scheme", lab.SCHEMES)
def test_no_reader_of_places_looks_ahead(scheme: str) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = lab.PlaceReader(scheme).double()
    ids = torch.zeros(1, 30, dtype=torch.long)
    other = ids.clone()
    other[0, 20] = 3
    moved = (model(ids) - model(other)).abs().amax(-1)[0] > 1e-12
    assert not moved[:20].any()
    assert moved[20:].all()


class Knows(torch.nn.Module):
    """Answers the previous token, up to a place where it begins to guess."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores = torch.nn.functional.one_hot(ids.roll(1, dims=1), 16).double()
        scores[:, 48:] = 0.0
        return scores


def test_answers_are_counted_place_by_place() -> None:
    right = lab.place_right(Knows(), "the previous token")
    assert math.isnan(right[0])
    assert (right[1:48] == 1.0).all()
    assert right[48:].mean() < 0.12
    assert np.nanmean(lab.place_right(Knows(), "the fifth token")) < 0.2


def test_one_seed_of_positions_lies_in_the_recorded_range() -> None:
    record = records.load("cost_positions")
    task = "the previous token"
    right = lab.place_right(lab.train_places("RoPE", task, 0), task)
    for name, part in lab.PLACES.items():
        low, high = records.spread(record, f"{task} | RoPE | {name}")
        margin = 0.2 if name == "33 to 48" else 0.05
        assert low - margin <= np.nanmean(right[part]) <= high + margin
    untrained = lab.place_right(lab.train_places("RoPE", task, 0, steps=2), task)
    assert np.nanmean(untrained[:24]) < 0.3


def test_recorded_claims_about_positions() -> None:
    record = records.load("cost_positions")
    near, fifth = lab.TASKS

    def ends(task: str, scheme: str, place: str) -> tuple[float, float]:
        return records.spread(record, f"{task} | {scheme} | {place}")

    for scheme in ("sinusoids", "learned table", "RoPE", "relative bias"):
        assert ends(near, scheme, "1 to 24")[0] > 0.95
    assert ends(near, "RoPE", "25 to 32")[0] > 0.95
    assert ends(near, "sinusoids", "25 to 32")[1] < 0.5
    assert ends(near, "learned table", "25 to 32")[1] < 0.12
    assert ends(near, "RoPE", "49 to 96")[1] < 0.12
    assert ends(near, "relative bias", "49 to 96")[0] > 0.6
    assert ends(near, "ALiBi", "1 to 24")[1] < 0.85
    assert ends(near, "ALiBi", "49 to 96")[0] > 0.5
    assert ends(fifth, "learned table", "49 to 96")[0] > 0.9
    assert ends(fifth, "sinusoids", "25 to 32")[0] > 0.9
    for scheme in ("none", "RoPE", "ALiBi", "relative bias"):
        assert ends(fifth, scheme, "1 to 24")[1] < 0.3


# --- states ---------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 96])
def test_doubling_gives_the_states_of_the_loop(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    a, b = torch.randn(2, 3, n, 4, generator=generator, dtype=torch.float64)
    found = lab.doubling_scan(a, b)
    for row in range(3):
        want = reference.linear_recurrence(a[row].numpy(), b[row].numpy())
        assert np.allclose(found[row], want, rtol=1e-9, atol=1e-12)
    if n > 1:  # planted: the order of the tokens matters
        assert not torch.allclose(lab.doubling_scan(a.flip(1), b.flip(1)), found)


def test_factors_keep_to_their_ranges_and_the_fixed_one_looks_at_nothing() -> None:
    x = 9.0 * torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
    for decay in lab.DECAYS:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            factor = lab.StateReader(decay).factor(0, x)
        assert factor.shape == x.shape
        assert factor.abs().max() <= 1
        assert bool((factor < 0).any()) == (decay == "signed")
        assert bool((factor == factor[0, 0]).all()) == (decay == "fixed")


def test_parity_is_a_linear_recurrence_with_signs() -> None:
    bits = np.random.default_rng(0).integers(2, size=(200, 1)).astype(float)
    states = reference.linear_recurrence(1 - 2 * bits, bits)
    assert np.array_equal(states, bits.cumsum(axis=0) % 2)


def share(record: dict[str, object], decay: str, first: int, last: int) -> np.ndarray:
    values = record["values"]
    assert isinstance(values, dict)
    return np.mean([values[f"{decay} | bit {b}"] for b in range(first, last + 1)], 0)


def test_recorded_claims_about_parity() -> None:
    record = records.load("cost_parity")
    assert share(record, "signed", 1, 24).min() > 0.99
    assert share(record, "signed", 73, 96).min() > 0.85
    for decay in ("fixed", "gated"):
        assert share(record, decay, 1, 24).max() < 0.9
        assert np.abs(share(record, decay, 25, 96) - 0.5).max() < 0.03


def test_one_seed_of_parity_gives_again_what_is_recorded() -> None:
    right = lab.train_parity("signed", seed=0)
    assert right[:24].mean() > 0.98
    assert right[72:].mean() > 0.8
    few = lab.train_parity("signed", seed=0, steps=5)
    assert few[24:].mean() < 0.6


def test_a_state_of_fixed_size_mixes_and_attention_does_not() -> None:
    record = records.load("cost_memory")
    for pairs in (4, 64):
        for how in ("state", "softmax"):
            found = lab.pairs_recalled(how, pairs, 16, seed=0)
            assert record["values"][f"{how} | {pairs} pairs"][0] == pytest.approx(
                found, abs=1e-6
            )
    assert records.spread(record, "softmax | 64 pairs")[0] > 0.99
    assert records.spread(record, "state | 64 pairs")[1] < 0.65
    assert records.spread(record, "state | 4 pairs")[0] > 0.99


# --- instruments and the ladder -------------------------------------------------------


def test_bytes_kept_are_counted_once_and_without_what_is_there_anyway() -> None:
    x = torch.randn(10, 10, requires_grad=True)
    assert lab.saved_bytes(lambda: (x.exp(), x.exp())) == 2 * 400
    assert lab.saved_bytes(lambda: x * x) == 400
    assert lab.saved_bytes(lambda: x * x, x) == 0
    with torch.no_grad():
        assert lab.saved_bytes(lambda: x * x) == 0


def test_plain_attention_keeps_the_square_and_fused_does_not() -> None:
    attend = lab.MultiHeadAttention(16, 2)

    def kept(n: int, **options: bool) -> int:
        x = torch.randn(1, n, 16)
        return lab.saved_bytes(lambda: attend(x, **options), *attend.parameters())

    weights = reference.score_bytes(256, 256, 2)
    assert kept(256, return_weights=True) - kept(256) > 0.9 * weights
    assert kept(512) < 2.1 * kept(256)
    assert kept(512, return_weights=True) > 3 * kept(256, return_weights=True)


def test_the_fastest_of_the_calls_counts() -> None:
    pauses = iter([0.0, 0.05, 0.01, 0.05])

    def call() -> None:
        import time

        end = time.process_time() + next(pauses)
        while time.process_time() < end:
            pass

    assert 0.005 < lab.shortest_seconds(call, 3) < 0.045


def test_every_rung_computes_the_same() -> None:
    def loss(rung: lab.Rung) -> float:
        model = lab.ladder_model().double()
        total = 0.0
        with torch.no_grad():
            for source, target in lab.ladder_batches(rung):
                count = int((target[:, 1:] != 0).sum())
                total += count * lab.ladder_loss(rung, model, source, target).item()
        return total

    first = loss(lab.LADDER[0])
    for rung in lab.LADDER[1:]:
        assert loss(rung) == pytest.approx(first, rel=1e-10)


def test_sorting_spares_padding_and_loses_no_sentence() -> None:
    as_written, by_length = (lab.ladder_batches(rung) for rung in lab.LADDER[:2])
    places = [sum(s.numel() for s, _ in some) for some in (as_written, by_length)]
    assert places[1] < 0.75 * places[0]

    def sentences(batches: object) -> list[list[int]]:
        return sorted(
            [int(i) for i in row if i]
            for batch in batches  # type: ignore[attr-defined]
            for row in batch[0].tolist()
        )

    assert sentences(as_written) == sentences(by_length)


def test_recorded_times() -> None:
    times = records.load("cost_times")["values"]

    def least(name: str, n: int) -> float:
        return min(times[f"{name} | {n} tokens"])

    assert least("RNN", 64) > 2 * least("fused attention", 64)
    assert least("plain attention", 2048) > 3 * least("fused attention", 2048)
    assert least("plain attention", 2048) > 8 * least("plain attention", 512)
    assert least("RNN", 2048) < 8 * least("RNN", 512)
    rungs = records.load("cost_ladder")["values"]
    bars = [min(rungs[rung.name]) for rung in lab.LADDER]
    assert bars == sorted(bars, reverse=True)


@pytest.mark.no_shape_hook
def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="scheme: got 'index', wanted one of none"):
        lab.PlaceReader("index")
    with pytest.raises(ValueError, match="task: got 'next', wanted one of"):
        lab.task_answers("next", torch.zeros(1, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="decay: got 'free', wanted one of fixed"):
        lab.StateReader("free")
    with pytest.raises(ValueError, match="how: got 'sum', wanted 'state'"):
        lab.pairs_recalled("sum", 1, 1, 0)
    with pytest.raises(ValueError, match="name: got 'GRU', wanted one of RNN"):
        lab.contestant("GRU")
