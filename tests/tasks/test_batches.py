"""Batches: nothing lost, nothing twice, within the budget, found again, little padding."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from transformer_lib.tasks.batches import (
    Batch,
    Batches,
    Update,
    padding_share,
    sorted_batches,
)
from transformer_lib.tasks.task import EncodedPair

FIRST = 10
"""The first source token of pair i is FIRST + i: a batch shows which pairs it holds."""


def numbered_pairs(lengths: list[tuple[int, int]]) -> list[EncodedPair]:
    return [
        EncodedPair([FIRST + i] + [5] * (n_s - 1), [1] + [6] * (n_t - 2) + [2])
        for i, (n_s, n_t) in enumerate(lengths)
    ]


def caption_like(count: int, seed: int = 0) -> list[EncodedPair]:
    """Draw lengths like Multi30k's: medians 13 and 15, both sides correlated."""
    rng = np.random.default_rng(seed)
    source = np.exp(rng.normal(2.57, 0.33, count)).round().clip(4, 50)
    target = (source + rng.normal(2.2, 3.1, count)).round().clip(5, 55)
    return numbered_pairs(
        list(zip(source.astype(int), target.astype(int), strict=True))
    )


def indices(batch: Batch) -> list[int]:
    return [int(row[0]) - FIRST for row in batch.source]


def stream(batches: Iterator[Update]) -> Iterator[Batch]:
    for update in batches:
        yield from update.batches


def shown(updates: list[Update]) -> list[list[list[int]]]:
    return [[indices(batch) for batch in update.batches] for update in updates]


# Without shrinking: faults are looked for here too, and each must be found quickly.
FEW = settings(
    deadline=None,
    max_examples=80,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    derandomize=True,
)
LENGTHS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(2, 9)), min_size=1, max_size=40
)
SETTINGS = {
    "max_tokens": st.integers(9, 60),
    "batches_per_update": st.integers(1, 5),
    "pool": st.integers(1, 4),
    "seed": st.integers(0, 2**31),
}

# --- properties, each with an implementation that it rejects --------------------------

Make = Callable[..., Batches]


def every_pair_comes_once_per_epoch(make: Make) -> None:
    @FEW
    @given(LENGTHS, st.fixed_dictionaries(SETTINGS))
    def check(lengths: list[tuple[int, int]], options: dict[str, int]) -> None:
        batches = stream(make(numbered_pairs(lengths), **options))
        for _ in range(3):
            seen: list[int] = []
            while len(seen) < len(lengths):
                seen += indices(next(batches))
            assert sorted(seen) == list(range(len(lengths)))

    check()


def the_budget_is_kept(make: Make) -> None:
    @FEW
    @given(LENGTHS, st.fixed_dictionaries(SETTINGS))
    def check(lengths: list[tuple[int, int]], options: dict[str, int]) -> None:
        for batch in islice(stream(make(numbered_pairs(lengths), **options)), 30):
            assert batch.source.numel() <= options["max_tokens"]
            assert batch.target.numel() <= options["max_tokens"]

    check()


def rows_are_the_pairs_and_padding(make: Make) -> None:
    @FEW
    @given(LENGTHS, st.fixed_dictionaries(SETTINGS))
    def check(lengths: list[tuple[int, int]], options: dict[str, int]) -> None:
        pairs = numbered_pairs(lengths)
        for update in islice(make(pairs, pad_id=0, **options), 5):
            assert len(update.batches) == options["batches_per_update"]
            real = 0
            for batch in update.batches:
                assert batch.source.dtype == batch.target.dtype == torch.int64
                chosen = [pairs[i] for i in indices(batch)]
                for side, rows in (("source", batch.source), ("target", batch.target)):
                    texts = [getattr(pair, side) for pair in chosen]
                    width = max(map(len, texts))
                    padded = [text + [0] * (width - len(text)) for text in texts]
                    assert rows.tolist() == padded
                assert batch.target_tokens == sum(len(p.target) - 1 for p in chosen)
                assert batch.target_tokens == int((batch.target[:, 1:] != 0).sum())
                real += batch.target_tokens
            assert update.target_tokens == real

    check()


def the_seed_and_the_epoch_decide(make: Make) -> None:
    pairs = caption_like(2000)
    options = {"max_tokens": 200, "pool": 8}
    one, same = (make(pairs, seed=3, **options) for _ in range(2))
    first = shown(list(islice(one, 300)))
    assert first == shown(list(islice(same, 300)))
    other = make(pairs, seed=4, **options)
    assert first != shown(list(islice(other, 300)))
    epochs: list[set[tuple[int, ...]]] = [set(), set()]
    batches = make(pairs, seed=3, **options)
    while batches.epoch < 2:
        update = next(batches)
        epochs[update.epoch].add(tuple(sorted(indices(update.batches[0]))))
    assert len(epochs[0] & epochs[1]) < len(epochs[0]) / 10


def any_place_is_found_again(make: Make) -> None:
    pairs = numbered_pairs([(1 + i % 7, 2 + i % 5) for i in range(50)])
    options = {"max_tokens": 24, "seed": 1, "batches_per_update": 3, "pool": 2}
    batches = make(pairs, **options)
    states, updates = [], []
    while batches.epoch < 3:
        states.append(json.loads(json.dumps(batches.state_dict())))
        updates.append(next(batches))
    assert any(  # an update that begins in one epoch and ends in the next is among them
        update.epoch < later["epoch"] and later["batch"] > 0
        for update, later in zip(updates, states[1:], strict=False)
    )
    expected = shown(updates)
    for place, state in enumerate(states):
        again = make(pairs, **options)
        again.load_state_dict(state)
        assert again.state_dict() == state
        rest = list(islice(again, len(updates) - place))
        assert shown(rest) == expected[place:]
        assert [u.epoch for u in rest] == [u.epoch for u in updates[place:]]


def lengths_come_mixed(make: Make) -> None:
    widths = [
        batch.target.shape[1]
        for batch in islice(
            stream(make(caption_like(4000), max_tokens=500, seed=0)), 100
        )
    ]
    assert abs(np.corrcoef(widths[:-1], widths[1:])[0, 1]) < 0.4


def little_is_padding(make: Make) -> None:
    batches = make(caption_like(10_000), max_tokens=1500, seed=0)
    share = padding_share(islice(stream(batches), batches.updates_per_epoch))
    assert share < 0.06


class ForgetsTheLastGroup(Batches):
    """The habit of drop_last: batches that fill no update are thrown away."""

    def __next__(self) -> Update:
        if self._next + self.batches_per_update > len(self._plan):
            self._epoch, self._next = self._epoch + 1, 0
            self._plan = self._make_plan(self._epoch)
            if len(self._plan) < self.batches_per_update:
                return super().__next__()
        return super().__next__()


class CountsRealTokens(Batches):
    """The budget counts tokens without the padding that comes with them."""

    def _make_plan(self, epoch: int) -> list[np.ndarray]:
        rows, plan, used = [], [], 0
        lengths = self._table.lengths
        for i in np.random.default_rng([self.seed, epoch]).permutation(
            lengths.shape[1]
        ):
            if used + lengths[:, i].max() > self.max_tokens:
                plan.append(np.array(rows))
                rows, used = [], 0
            rows.append(i)
            used += lengths[:, i].max()
        return [*plan, np.array(rows)]


class PadsWithTheStart(Batches):
    """The padding of the table is forgotten where the rows are filled up."""

    def __next__(self) -> Update:
        self._table.pad_id = 1
        return super().__next__()


class Undecided(Batches):
    def _make_plan(self, epoch: int) -> list[np.ndarray]:
        self.seed = random.randrange(10**9)
        return super()._make_plan(epoch)

    def _order(self) -> dict[str, int]:
        return {**super()._order(), "seed": 0}


class StartsTheEpochOver(Batches):
    def load_state_dict(self, state: dict[str, int]) -> None:
        super().load_state_dict({**state, "batch": 0})


class FromShortToLong(Batches):
    def _make_plan(self, epoch: int) -> list[np.ndarray]:
        return sorted(
            super()._make_plan(epoch),
            key=lambda rows: self._table.lengths[1, rows].max(),
        )


class AtRandom(Batches):
    """A fixed number of pairs drawn at random, as a plain loader has it."""

    def _make_plan(self, epoch: int) -> list[np.ndarray]:
        order = np.random.default_rng([self.seed, epoch]).permutation(
            self._table.lengths.shape[1]
        )
        return np.array_split(order, len(order) // 40)


PROPERTIES: dict[Callable[[Make], None], Make] = {
    every_pair_comes_once_per_epoch: ForgetsTheLastGroup,
    the_budget_is_kept: CountsRealTokens,
    rows_are_the_pairs_and_padding: PadsWithTheStart,
    the_seed_and_the_epoch_decide: Undecided,
    any_place_is_found_again: StartsTheEpochOver,
    lengths_come_mixed: FromShortToLong,
    little_is_padding: AtRandom,
}


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda f: f.__name__)
def test_batches(holds: Callable[[Make], None]) -> None:
    holds(Batches)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda f: f.__name__)
def test_property_of_batches_rejects_its_fault(holds: Callable[[Make], None]) -> None:
    with pytest.raises(AssertionError):
        holds(PROPERTIES[holds])


def test_the_same_order_in_every_epoch_is_noticed() -> None:
    class Unchanging(Batches):
        def _make_plan(self, epoch: int) -> list[np.ndarray]:
            return super()._make_plan(0 * epoch)

    with pytest.raises(AssertionError):
        the_seed_and_the_epoch_decide(Unchanging)


# --- sharing among processes ----------------------------------------------------------


@pytest.mark.parametrize("processes", [1, 2, 3, 6])
def test_processes_and_accumulation_together_see_the_same_data(processes: int) -> None:
    pairs = caption_like(300)
    alone = stream(Batches(pairs, max_tokens=150, seed=2))
    together = Batches(pairs, max_tokens=150, seed=2, batches_per_update=6)
    for update in islice(together, 40):
        shares = [update.batches[r::processes] for r in range(processes)]
        assert len({len(share) for share in shares}) == 1
        in_turn = [batch for at_once in zip(*shares, strict=True) for batch in at_once]
        for batch in in_turn:
            assert indices(batch) == indices(next(alone))


def test_a_process_makes_its_own_batches_only(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = Batches(caption_like(300), max_tokens=150, seed=2, batches_per_update=6)
    made = batches._table.batch
    count = 0

    def counted(rows: np.ndarray) -> Batch:
        nonlocal count
        count += 1
        return made(rows)

    monkeypatch.setattr(batches._table, "batch", counted)
    update = next(batches)
    assert len(update.batches) == 6
    assert update.target_tokens > 0
    assert count == 0
    own = update.batches[1::3]
    assert count == len(own) == 2
    assert own[1].source.equal(update.batches[4].source)
    assert update.batches[-1].source.equal(update.batches[5].source)
    with pytest.raises(IndexError):
        update.batches[6]


def test_another_number_of_batches_goes_on_at_the_same_batch() -> None:
    pairs = caption_like(300)
    batches = Batches(pairs, max_tokens=150, seed=2, batches_per_update=4)
    list(islice(batches, 5))
    resumed = Batches(pairs, max_tokens=150, seed=2, batches_per_update=1)
    resumed.load_state_dict(batches.state_dict())
    rest = [indices(batch) for batch in next(batches).batches]
    assert [indices(next(resumed).batches[0]) for _ in range(4)] == rest


def test_updates_per_epoch_is_how_many_there_are() -> None:
    batches = Batches(caption_like(500), max_tokens=200, seed=0, batches_per_update=3)
    promised, count = batches.updates_per_epoch, 0
    while batches.epoch == 0:
        next(batches)
        count += 1
    assert count == promised


def test_no_batch_but_the_last_is_nearly_empty() -> None:
    """A noisy update by a handful of pairs, once in every pool, would be a fault."""
    batches = Batches(caption_like(20_000), max_tokens=1500, seed=0, pool=16)
    small = 0
    while batches.epoch == 0:
        (batch,) = next(batches).batches
        wide = max(batch.source.shape[1], batch.target.shape[1])
        small += len(batch.source) * wide < 750
    assert small <= 1


# --- one pass in order ----------------------------------------------------------------


@given(LENGTHS, st.integers(9, 60))
def test_sorted_batches_hold_each_pair_once_from_short_to_long(
    lengths: list[tuple[int, int]], max_tokens: int
) -> None:
    pairs = numbered_pairs(lengths)
    seen, longest = [], []
    for places, batch in sorted_batches(pairs, max_tokens=max_tokens):
        assert indices(batch) == places
        assert max(batch.source.numel(), batch.target.numel()) <= max_tokens
        seen += places
        longest += [max(lengths[i]) for i in places]
    assert sorted(seen) == list(range(len(lengths)))
    assert longest == sorted(longest)


def test_unshuffled_batches_are_the_sorted_ones_in_every_epoch() -> None:
    pairs = caption_like(200)
    batches = stream(Batches(pairs, max_tokens=300, seed=9, shuffle=False))
    for _ in range(2):
        for places, _ in sorted_batches(pairs, max_tokens=300):
            assert indices(next(batches)) == places


def test_padding_share_by_hand() -> None:
    batch = Batch(torch.tensor([[5, 0, 0]]), torch.tensor([[1, 2, 0]]), 1)
    full = Batch(torch.tensor([[5, 5]]), torch.tensor([[1, 2]]), 1)
    assert padding_share([batch]) == 0.5
    assert padding_share([batch, full]) == 0.3
    assert padding_share([full], pad_id=5) == 0.5


# --- bad input ------------------------------------------------------------------------

GOOD = EncodedPair([5, 5], [1, 2])


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("pairs", "options", "message"),
    [
        ([], {}, "pairs: got none, wanted at least one"),
        (
            [GOOD, EncodedPair([], [1, 2])],
            {},
            "source of number 1 has 0 tokens, wanted 1",
        ),
        (
            [GOOD, EncodedPair([5], [1])],
            {},
            "target of number 1 has 1 tokens, wanted 2",
        ),
        (
            [GOOD, GOOD, EncodedPair([5] * 9, [1, 2])],
            {"max_tokens": 8},
            "source of number 2 has 9 tokens, wanted at most max_tokens=8",
        ),
        (
            [EncodedPair([5], [1] * 9)],
            {"max_tokens": 8},
            "target of number 0 has 9 tokens, wanted at most max_tokens=8",
        ),
        ([GOOD], {"max_tokens": 0}, "max_tokens: got 0, wanted 1 or more"),
        ([GOOD], {"batches_per_update": 0}, "batches_per_update: got 0, wanted 1"),
        ([GOOD], {"seed": -1}, "seed: got -1, wanted 0 or more"),
        ([GOOD], {"pool": 0}, "pool: got 0, wanted 1 or more"),
        ([GOOD], {"pad_id": -1}, "pad_id: got -1, wanted 0 or more"),
    ],
)
def test_bad_input_is_refused(
    pairs: list[EncodedPair], options: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Batches(pairs, **{"max_tokens": 20, "seed": 0, **options})


@pytest.mark.no_shape_hook
def test_sizes_that_are_no_whole_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match=r"max_tokens: got 20.5, wanted a whole number"):
        Batches([GOOD], max_tokens=20.5, seed=0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="max_tokens: got '20'"):
        next(sorted_batches([GOOD], max_tokens="20"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batches: got none"):
        padding_share([])


@pytest.mark.no_shape_hook
def test_a_foreign_state_is_refused_with_the_reason() -> None:
    pairs = caption_like(30)
    state = Batches(pairs, max_tokens=100, seed=0).state_dict()

    def load(changes: dict[str, object], **options: object) -> None:
        arguments = {"pairs": pairs, "max_tokens": 100, "seed": 0, **options}
        Batches(**arguments).load_state_dict({**state, **changes})  # type: ignore[arg-type]

    load({})
    for options, name in (
        ({"seed": 1}, "seed=0, here it is 1"),
        ({"max_tokens": 99}, "max_tokens=100, here it is 99"),
        ({"pool": 2}, "pool=64, here it is 2"),
        ({"shuffle": False}, "shuffle=1, here it is 0"),
        ({"pairs": pairs[:-1]}, "pairs=.*, here it is"),
        ({"pairs": [pairs[0]._replace(target=[1, 7, 2]), *pairs[1:]]}, "pairs="),
    ):
        with pytest.raises(ValueError, match=f"it was taken with {name}"):
            load({}, **options)
    with pytest.raises(ValueError, match="batch: got 999, wanted 0 to"):
        load({"batch": 999})
    with pytest.raises(ValueError, match="epoch: got -1"):
        load({"epoch": -1})
    with pytest.raises(TypeError, match="epoch: got 'x'"):
        load({"epoch": "x"})
    with pytest.raises(ValueError, match="state: got the keys"):
        load({"step": 1})


def test_a_refused_state_changes_nothing() -> None:
    pairs = caption_like(60)
    batches = Batches(pairs, max_tokens=100, seed=0)
    next(batches)
    before = batches.state_dict()
    with pytest.raises(ValueError, match="batch: got 999"):
        batches.load_state_dict({**before, "epoch": 5, "batch": 999})
    assert batches.state_dict() == before
