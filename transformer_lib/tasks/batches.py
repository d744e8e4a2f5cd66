"""Batches of pairs of similar length, as many tokens in each as the memory bears.

Sentences differ in length, and a batch is as wide as its longest one. Batches drawn at
random are half padding; here the pairs are sorted by length first, in large shuffled
pools, so that a batch holds pairs of almost equal length. A budget of tokens, not a
number of pairs, decides how many rows it has.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from transformer_lib.nn.checks import check_size
from transformer_lib.tasks.task import EncodedPair

__all__ = ["Batch", "Batches", "Update", "padding_share", "sorted_batches"]

Rows = np.ndarray
"""Indices of the pairs of a batch."""


class Batch(NamedTuple):
    """Padded token numbers of some pairs.

    Attributes
    ----------
    source
        Shape ``(batch, n_s)``.
    target
        From start to end, shape ``(batch, n_t)``: a model reads all but the last
        column, and all but the first are its labels.
    target_tokens
        How many labels are no padding.
    """

    source: Int[Tensor, "batch n_s"]
    target: Int[Tensor, "batch n_t"]
    target_tokens: int


class Update(NamedTuple):
    """The batches whose gradients are added for one step of the optimizer.

    Attributes
    ----------
    batches
        With W processes, process r takes ``batches[r::W]``, one after the other. A
        batch is made when it is taken, so nobody pays for those of the others.
    target_tokens
        Labels that are no padding, in all batches together.
    epoch
        In which pass over the data the first batch is, from 0.
    """

    batches: Sequence[Batch]
    target_tokens: int
    epoch: int


class _Table:
    """All pairs in two long rows of numbers, to be cut into batches without a loop."""

    def __init__(self, pairs: Sequence[EncodedPair], pad_id: int) -> None:
        self.pad_id = pad_id
        sides = [[pair.source for pair in pairs], [pair.target for pair in pairs]]
        self.lengths = np.array([[len(row) for row in rows] for rows in sides])
        self.starts = np.cumsum(self.lengths, axis=1) - self.lengths
        self.tokens = [
            np.fromiter((i for row in rows for i in row), np.int64) for rows in sides
        ]

    def batch(self, rows: Rows) -> Batch:
        """Pad the pairs of these indices to the longest among them."""
        source, target = (self._padded(side, rows) for side in (0, 1))
        return Batch(source, target, self.labels(rows))

    def labels(self, rows: Rows) -> int:
        """Count the labels of the pairs of these indices."""
        return int(self.lengths[1, rows].sum()) - len(rows)

    def _padded(self, side: int, rows: Rows) -> Tensor:
        tokens, lengths = self.tokens[side], self.lengths[side, rows][:, None]
        columns = np.arange(lengths.max())
        places = self.starts[side, rows][:, None] + columns
        taken = tokens.take(places, mode="clip")
        return torch.from_numpy(np.where(columns < lengths, taken, self.pad_id))

    def fingerprint(self) -> int:
        """A number that changes if any token or length does."""
        number = 0
        for part in (self.lengths, *self.tokens):
            number = zlib.crc32(part.tobytes(), number)
        return number


class _MadeWhenTaken(Sequence[Batch]):
    """The batches of these rows of a table."""

    def __init__(self, table: _Table, rows: Sequence[Rows]) -> None:
        self._table, self._rows = table, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Batch: ...

    @overload
    def __getitem__(self, place: slice) -> list[Batch]: ...

    def __getitem__(self, place: int | slice) -> Batch | list[Batch]:
        if isinstance(place, slice):
            return [self._table.batch(rows) for rows in self._rows[place]]
        return self._table.batch(self._rows[place])


class Batches:
    """Endless updates over encoded pairs: every pair once per epoch.

    Each epoch draws the pairs in another order, sorts pools of them by length, cuts the
    pools into batches and shuffles the batches. The order depends on ``seed`` and the
    epoch alone, so any place in it is found again at once: :meth:`state_dict` says
    where the next update begins, :meth:`load_state_dict` goes there.

    If the last batches of an epoch do not fill an update, the first ones of the next
    epoch do; none is lost and none comes twice.

    Parameters
    ----------
    pairs
        Token numbers, as :meth:`transformer_lib.tasks.Task.encode` returns them.
    max_tokens
        A batch has at most so many numbers in its source, and in its target, padding
        included.
    seed
        Same seed, same batches.
    batches_per_update
        Batches for one step of the optimizer: gradient accumulation times processes.
    pad_id
        Fills up the rows.
    pool
        Batches' worth of tokens that are drawn together and sorted by length. More
        leaves less padding, less mixes the lengths better. Multi30k in batches of 1500
        subwords: 64 leave 4 % padding, 8 leave 14 %, no sorting at all 48 %.
    shuffle
        ``False`` takes the pairs from short to long, alike in every epoch.

    Raises
    ------
    ValueError
        If there are no pairs, a source is empty, a target has not two tokens, a pair is
        longer than ``max_tokens``, or a size is below 1.

    Examples
    --------
    >>> pairs = [EncodedPair([7] * n, [1, 8, 2]) for n in (2, 5, 3, 2)]
    >>> batches = Batches(pairs, max_tokens=6, seed=0)
    >>> update = next(batches)
    >>> update.batches[0].source.shape, update.target_tokens
    (torch.Size([1, 5]), 2)
    >>> batches.updates_per_epoch
    3
    """

    def __init__(
        self,
        pairs: Sequence[EncodedPair],
        *,
        max_tokens: int,
        seed: int,
        batches_per_update: int = 1,
        pad_id: int = 0,
        pool: int = 64,
        shuffle: bool = True,
    ) -> None:
        self.max_tokens = check_size("max_tokens", max_tokens)
        self.seed = check_size("seed", seed, least=0)
        self.batches_per_update = check_size("batches_per_update", batches_per_update)
        self.pool = check_size("pool", pool)
        self.shuffle = shuffle
        self._table = _Table(pairs, check_size("pad_id", pad_id, least=0))
        _check_lengths(self._table.lengths, max_tokens)
        self._fingerprint = self._table.fingerprint()
        self._epoch, self._next, self._plan = 0, 0, self._make_plan(0)

    def _make_plan(self, epoch: int) -> list[Rows]:
        """Return the indices of each batch of an epoch."""
        lengths = self._table.lengths
        if not self.shuffle:
            return _cut(_by_length(lengths), lengths, self.max_tokens)
        generator = np.random.default_rng([self.seed, epoch])
        order = generator.permutation(lengths.shape[1])
        tokens = int(lengths.max(axis=0).sum())
        pools = max(1, round(tokens / (self.pool * self.max_tokens)))
        plan: list[Rows] = []
        for pool in np.array_split(order, pools):
            # A small last batch would make a noisy update: it waits for the next pool.
            rows = np.concatenate([plan.pop(), pool]) if plan else pool
            by_length = rows[_by_length(lengths[:, rows])]
            plan += _cut(by_length, lengths, self.max_tokens)
        return [plan[i] for i in generator.permutation(len(plan))]

    def __iter__(self) -> Iterator[Update]:
        """Return itself: the updates never end."""
        return self

    def __next__(self) -> Update:
        """Return the next update."""
        epoch = self._epoch
        rows: list[Rows] = []
        while len(rows) < self.batches_per_update:
            rows.append(self._plan[self._next])
            self._next += 1
            if self._next == len(self._plan):
                self._epoch, self._next = self._epoch + 1, 0
                self._plan = self._make_plan(self._epoch)
        labels = sum(map(self._table.labels, rows))
        return Update(_MadeWhenTaken(self._table, rows), labels, epoch)

    @property
    def epoch(self) -> int:
        """In which epoch the next update begins, from 0."""
        return self._epoch

    @property
    def updates_per_epoch(self) -> int:
        """About how many updates an epoch has: other epochs may differ by a few."""
        return -(-len(self._plan) // self.batches_per_update)

    def state_dict(self) -> dict[str, int]:
        """Say where the next update begins, ready for JSON.

        Returns
        -------
        dict
            ``"epoch"``, ``"batch"`` in it, and what the order depends on, with a
            fingerprint of the pairs.
        """
        return {"epoch": self._epoch, "batch": self._next, **self._order()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to where :meth:`state_dict` was taken.

        ``batches_per_update`` may be another one than then.

        Raises
        ------
        ValueError
            If the state is of other pairs or was taken with another ``seed``,
            ``max_tokens``, ``pool`` or ``shuffle``, or there is no such place.
        """
        wanted = {"epoch", "batch", *self._order()}
        if set(state) != wanted:
            raise ValueError(
                f"state: got the keys {sorted(state)}, wanted {sorted(wanted)}"
            )
        for name, here in self._order().items():
            if state[name] != here:
                raise ValueError(
                    f"state: it was taken with {name}={state[name]}, here it is {here}"
                )
        epoch = check_size("epoch", state["epoch"], least=0)
        batch = check_size("batch", state["batch"], least=0)
        plan = self._make_plan(epoch)
        if batch >= len(plan):
            raise ValueError(
                f"batch: got {batch}, wanted 0 to {len(plan) - 1} in epoch {epoch}"
            )
        self._epoch, self._next, self._plan = epoch, batch, plan

    def _order(self) -> dict[str, int]:
        return {
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "pool": self.pool,
            "shuffle": int(self.shuffle),
            "pairs": self._fingerprint,
        }


def sorted_batches(
    pairs: Sequence[EncodedPair], *, max_tokens: int, pad_id: int = 0
) -> Iterator[tuple[list[int], Batch]]:
    """Go through the pairs once, from short to long, as an evaluation does.

    Parameters
    ----------
    pairs, max_tokens, pad_id
        As for :class:`Batches`.

    Yields
    ------
    indices, batch
        The rows of ``batch`` are ``pairs[i] for i in indices``.

    Raises
    ------
    ValueError
        As for :class:`Batches`.

    Examples
    --------
    >>> pairs = [EncodedPair([7] * n, [1, 8, 2]) for n in (2, 5, 3, 2)]
    >>> [indices for indices, _ in sorted_batches(pairs, max_tokens=6)]
    [[0, 3], [2], [1]]
    """
    check_size("max_tokens", max_tokens)
    table = _Table(pairs, check_size("pad_id", pad_id, least=0))
    _check_lengths(table.lengths, max_tokens)
    for rows in _cut(_by_length(table.lengths), table.lengths, max_tokens):
        yield rows.tolist(), table.batch(rows)


def padding_share(batches: Iterable[Batch], pad_id: int = 0) -> float:
    """Return the share of the numbers in sources and targets that is padding.

    Raises
    ------
    ValueError
        If there is no batch.

    Examples
    --------
    >>> source, target = torch.tensor([[5, 6], [5, 0]]), torch.tensor([[1, 2], [1, 2]])
    >>> padding_share([Batch(source, target, 2)])
    0.125
    """
    padding = numbers = 0
    for batch in batches:
        for side in (batch.source, batch.target):
            padding += int((side == pad_id).sum())
            numbers += side.numel()
    if not numbers:
        raise ValueError("batches: got none, wanted at least one")
    return padding / numbers


def _by_length(lengths: Rows) -> Rows:
    """Sort by the longer side; equal ones by the difference, up and down in turn.

    So neighbours are alike on both sides. What is equal keeps its order.
    """
    longer = lengths.max(axis=0)
    difference = lengths[0] - lengths[1]
    return np.lexsort((np.where(longer % 2, difference, -difference), longer))


def _cut(rows: Rows, lengths: Rows, max_tokens: int) -> list[Rows]:
    """Cut a row of indices into the fewest runs that stay within the budget."""
    cut, first = [], 0
    while first < len(rows):
        most = max_tokens // lengths[:, rows[first]].max()
        run = rows[first : first + most]
        longest = np.maximum.accumulate(lengths[:, run].max(axis=0))
        padded = longest * np.arange(1, len(run) + 1)
        count = int(np.searchsorted(padded, max_tokens, side="right"))
        cut.append(run[:count])
        first += count
    return cut


def _check_lengths(lengths: Rows, max_tokens: int) -> None:
    if not lengths.shape[1]:
        raise ValueError("pairs: got none, wanted at least one")
    for side, least in (("source", 1), ("target", 2)):
        row = lengths[int(side == "target")]
        for index in np.flatnonzero((row < least) | (row > max_tokens))[:1]:
            few = row[index] < least
            raise ValueError(
                f"pairs: the {side} of number {index} has {row[index]} tokens, wanted "
                + (f"{least} or more" if few else f"at most max_tokens={max_tokens}")
            )
