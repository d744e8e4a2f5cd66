"""Measurements of chapter 4: which of two comes first, and who stands left of me.

One attention layer with one head, and nothing else of a Transformer, learns two tasks
about order. In the first a sentence holds one ``A`` and one ``B`` among other letters;
the token ``A`` answers whether it comes first. In the second every token names its left
neighbour. The readers differ only in how a token is told its place.

``python -m transformer_lib.experiments.positions`` makes the records again
(``positions_order``, ``positions_neighbours`` and ``positions_rates`` in ``records``).
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib.experiments.attention import Curve
from transformer_lib.experiments.records import write
from transformer_lib.nn.positions import (
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
)
from transformer_lib.reference.positions import (
    index_over_length_positions,
    index_positions,
)

__all__ = [
    "LENGTHS",
    "LONGEST",
    "READERS",
    "STARTS",
    "SYMBOLS",
    "WIDTH",
    "Index",
    "IndexOverLength",
    "Learned",
    "Reader",
    "Rotary",
    "RotaryHalved",
    "Sinusoidal",
    "bag_level",
    "mean_weights",
    "neighbours_right",
    "order_right",
    "order_sentences",
    "train_neighbours",
    "train_order",
]

SYMBOLS = 16
"""Letters of the alphabet; in the order task 0 is ``A`` and 1 is ``B``."""

WIDTH = 32
"""Width of tokens, queries, keys and values."""

LONGEST = 24
"""The longest sentence in training; the shortest has 8 tokens."""

_SHORTEST = 8

LENGTHS = (8, 16, 24)
"""Lengths at which the neighbour task is tested."""

STARTS = (0, 6, 12, 24, 48)
"""Places of the first token when sentences of twelve are moved."""

_PLACES = 96
"""Rows of the tables: enough for the farthest sentence of twelve."""

_ORDER_LENGTH = 10


class Reader(nn.Module):
    """One head of self-attention between word vectors and a linear answer.

    Without positions, as it stands. A subclass says how a token is told its place, in
    :meth:`add` or in :meth:`turn`.

    Parameters
    ----------
    answers
        How many answers there are to choose from.
    """

    def __init__(self, answers: int = SYMBOLS) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.value = nn.Linear(WIDTH, WIDTH, bias=False)
        self.answer = nn.Linear(WIDTH, answers)

    def add(self, x: Float[Tensor, "b n d"], start: int) -> Float[Tensor, "b n d"]:
        """Add positions to the tokens, the first of which stands at ``start``."""
        return x

    def turn(self, x: Float[Tensor, "b n d"], start: int) -> Float[Tensor, "b n d"]:
        """Turn queries, or keys, by their places."""
        return x

    def forward(
        self, tokens: Int[Tensor, "b n"], start: int = 0
    ) -> tuple[Float[Tensor, "b n answers"], Float[Tensor, "b n n"]]:
        """Return the scores of the answers of each token, and the weights."""
        x = self.add(self.embedding(tokens), start)
        q, k = self.turn(self.query(x), start), self.turn(self.key(x), start)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(WIDTH)).softmax(dim=-1)
        return self.answer(weights @ self.value(x)), weights


class Index(Reader):
    """The number of the place is added to every column."""

    def numbers(self, length: int) -> Float[np.ndarray, "length d"]:
        """Return one row per place of a text of that length."""
        return index_positions(length, WIDTH)

    def add(self, x: Float[Tensor, "b n d"], start: int) -> Float[Tensor, "b n d"]:
        """Add the rows; with fillers in front, the text is longer by ``start``."""
        rows = self.numbers(start + x.shape[1])[start:]
        return x + torch.from_numpy(rows).to(x)


class IndexOverLength(Index):
    """The number of the place, divided by the length of the text."""

    def numbers(self, length: int) -> Float[np.ndarray, "length d"]:
        """Return one row per place of a text of that length."""
        return index_over_length_positions(length, WIDTH)


class Sinusoidal(Reader):
    """Sines and cosines are added."""

    def __init__(self, answers: int = SYMBOLS) -> None:
        super().__init__(answers)
        self.positions = SinusoidalPositions(WIDTH, _PLACES)

    def add(self, x: Float[Tensor, "b n d"], start: int) -> Float[Tensor, "b n d"]:
        """Add the rows from ``start`` on."""
        added: Tensor = self.positions(x, start)
        return added


class Learned(Reader):
    """A learned row per place is added. Rows beyond ``LONGEST`` are never trained."""

    def __init__(self, answers: int = SYMBOLS) -> None:
        super().__init__(answers)
        self.positions = LearnedPositions(WIDTH, _PLACES)

    def add(self, x: Float[Tensor, "b n d"], start: int) -> Float[Tensor, "b n d"]:
        """Add the rows from ``start`` on."""
        added: Tensor = self.positions(x, start)
        return added


class Rotary(Reader):
    """Queries and keys are turned by angles that grow with the place."""

    def __init__(self, answers: int = SYMBOLS) -> None:
        super().__init__(answers)
        self.positions = RotaryPositions(WIDTH, _PLACES)

    def turn(self, x: Float[Tensor, "b n d"], start: int) -> Float[Tensor, "b n d"]:
        """Turn by the angles from ``start`` on."""
        turned: Tensor = self.positions(x, start)
        return turned


class RotaryHalved(Rotary):
    """RoPE with the other pairing: column ``i`` turns with column ``i + d/2``."""

    def turn(self, x: Float[Tensor, "b n d"], start: int) -> Float[Tensor, "b n d"]:
        """Bring partners side by side, turn them, and put them back."""
        side_by_side = torch.arange(WIDTH).view(2, -1).T.flatten()
        turned: Tensor = super().turn(x[..., side_by_side], start)
        return turned[..., side_by_side.argsort()]


READERS: Mapping[str, type[Reader]] = {
    "none": Reader,
    "index": Index,
    "index / length": IndexOverLength,
    "sinusoids": Sinusoidal,
    "learned table": Learned,
    "RoPE": Rotary,
}
"""The six readers by name."""


# --- which of two comes first ---------------------------------------------------------


def order_sentences(
    count: int, generator: torch.Generator
) -> tuple[Int[Tensor, "count 10"], Int[Tensor, " count"], Int[Tensor, " count"]]:
    """Draw sentences of ten letters with one ``A`` and one ``B``.

    Returns
    -------
    tokens, place, first
        The letters (``A`` is 0, ``B`` is 1), the place of ``A``, and 1 where ``A``
        comes before ``B``.
    """
    tokens = torch.randint(2, SYMBOLS, (count, _ORDER_LENGTH), generator=generator)
    shuffled = torch.rand(count, _ORDER_LENGTH, generator=generator).argsort(dim=-1)
    a, b = shuffled[:, 0], shuffled[:, 1]
    rows = torch.arange(count)
    tokens[rows, a], tokens[rows, b] = 0, 1
    return tokens, a, (a < b).long()


@torch.no_grad()
def order_right(model: Reader, count: int = 512, seed: int = 1000) -> float:
    """Share of right answers on sentences that come in pairs.

    For each sentence the same one is asked with ``A`` and ``B`` exchanged. A model that
    sees no order answers both alike, and is right exactly once.

    Parameters
    ----------
    model
        A reader with two answers. It is asked in double precision, so that sums taken
        in another order cannot tip an undecided answer.
    count, seed
        How many pairs, and the seed that they are drawn from.
    """
    tokens, a, first = order_sentences(count, torch.Generator().manual_seed(seed))
    b = (tokens == 1).long().argmax(dim=-1)
    exchanged = tokens.clone()
    rows = torch.arange(count)
    exchanged[rows, a], exchanged[rows, b] = 1, 0
    right = 0
    model.double()
    for asked, place, answer in ((tokens, a, first), (exchanged, b, 1 - first)):
        scores, _ = model(asked)
        right += int((scores[rows, place].argmax(dim=-1) == answer).sum())
    model.float()
    return right / (2 * count)


def train_order(
    reader: Callable[[int], Reader],
    seed: int,
    steps: int = 250,
    every: int = 10,
    batch: int = 64,
    learning_rate: float = 3e-3,
) -> tuple[Reader, Curve]:
    """Train a reader to say whether ``A`` comes before ``B``.

    Parameters
    ----------
    reader
        Makes the model, such as ``Sinusoidal``; it is called with the number of answers.
    seed
        Of the initial weights and of the batches.
    steps, every, batch, learning_rate
        Steps of Adam, steps between two measurements, sentences per step, step size.

    Returns
    -------
    model, curve
        The trained reader, and its share of right answers on paired sentences.
    """
    model, generator, optimiser = _begin(lambda: reader(2), seed, learning_rate)
    curve = Curve()
    rows = torch.arange(batch)
    for step in range(steps + 1):
        if step % every == 0:
            curve.steps.append(step)
            curve.right.append(order_right(model))
        if step == steps:
            break
        tokens, place, first = order_sentences(batch, generator)
        scores, _ = model(tokens)
        optimiser.zero_grad()
        torch.autograd.backward(F.cross_entropy(scores[rows, place], first))
        optimiser.step()
    return model, curve


# --- who stands left of me ------------------------------------------------------------


def train_neighbours(
    reader: Callable[[], Reader],
    seed: int,
    steps: int = 300,
    every: int = 20,
    batch: int = 64,
    learning_rate: float = 1e-2,
) -> tuple[Reader, Curve]:
    """Train a reader to name the left neighbour of every token but the first.

    The sentences of one step have one length, drawn from 8 to 24; they begin at place 0.

    Parameters
    ----------
    reader
        Makes the model, such as ``Sinusoidal``.
    seed
        Of the initial weights and of the batches.
    steps, every, batch, learning_rate
        Steps of Adam, steps between two measurements, sentences per step, step size.

    Returns
    -------
    model, curve
        The trained reader, and its share of right answers on fresh sentences.
    """
    model, generator, optimiser = _begin(reader, seed, learning_rate)
    curve = Curve()
    for step in range(steps + 1):
        if step % every == 0:
            curve.steps.append(step)
            curve.right.append(neighbours_right(model))
        if step == steps:
            break
        length = int(torch.randint(_SHORTEST, LONGEST + 1, (), generator=generator))
        tokens = torch.randint(SYMBOLS, (batch, length), generator=generator)
        scores, _ = model(tokens)
        loss = F.cross_entropy(scores[:, 1:].flatten(0, 1), tokens[:, :-1].flatten())
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    return model, curve


@torch.no_grad()
def neighbours_right(
    model: Reader,
    lengths: Sequence[int] = LENGTHS,
    start: int = 0,
    count: int = 256,
    seed: int = 1000,
) -> float:
    """Share of left neighbours that are named right, averaged over the lengths.

    Parameters
    ----------
    model
        A trained reader.
    lengths
        Lengths of the sentences, 2 or more each.
    start
        Place of the first token, as if so many fillers that nobody sees stood in front.
    count, seed
        Sentences of each length, and the seed that they are drawn from.
    """
    shares = []
    for tokens in _test_sentences(lengths, count, seed):
        scores, _ = model(tokens, start)
        right = scores[:, 1:].argmax(dim=-1) == tokens[:, :-1]
        shares.append(right.double().mean().item())
    return float(np.mean(shares))


@torch.no_grad()
def mean_weights(
    model: Reader, length: int = 12, start: int = 0, count: int = 256, seed: int = 1000
) -> Float[np.ndarray, "length length"]:
    """Weights between the places, averaged over random sentences."""
    (tokens,) = _test_sentences([length], count, seed)
    _, weights = model(tokens, start)
    mean: np.ndarray = weights.mean(dim=0).numpy()
    return mean


def bag_level(
    lengths: Sequence[int] = LENGTHS, count: int = 256, seed: int = 1000
) -> float:
    """What can be had without order: always name the commonest of the other letters.

    The left neighbour is one of the others, and without order any of them is as likely.
    The level is the expected share of right answers over all orders of the test
    sentences.

    Parameters
    ----------
    lengths, count, seed
        As in :func:`neighbours_right`.
    """
    levels = []
    for tokens in _test_sentences(lengths, count, seed):
        letters = F.one_hot(tokens, SYMBOLS)
        others = letters.sum(dim=1, keepdim=True) - letters  # (count, n, symbols)
        share = others.amax(dim=-1) / (tokens.shape[1] - 1)
        levels.append(share.double().mean().item())
    return float(np.mean(levels))


def _test_sentences(
    lengths: Sequence[int], count: int, seed: int
) -> list[Int[Tensor, "count n"]]:
    sentences = []
    for length in lengths:
        if length < 2:
            raise ValueError(f"lengths: got {length}, wanted 2 or more each")
        generator = torch.Generator().manual_seed(seed + length)
        sentences.append(torch.randint(SYMBOLS, (count, length), generator=generator))
    return sentences


def _begin(
    reader: Callable[[], Reader], seed: int, learning_rate: float
) -> tuple[Reader, torch.Generator, torch.optim.Optimizer]:
    """Make the model, the source of its batches, and the optimiser."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = reader()
    generator = torch.Generator().manual_seed(seed)
    return model, generator, torch.optim.Adam(model.parameters(), lr=learning_rate)


# --- records --------------------------------------------------------------------------

_COMMAND = "python -m transformer_lib.experiments.positions"


def _write_order(seeds: range) -> None:
    """The order task without positions and with the two kinds of numbers."""
    values = {
        f"right, {name}": [
            train_order(READERS[name], seed, every=250)[1].right[-1] for seed in seeds
        ]
        for name in ("none", "index", "index / length")
    }
    write("positions_order", _COMMAND, list(seeds), values)


def _write_neighbours(seeds: range) -> None:
    """The neighbour task for all readers, in place and moved."""
    values: dict[str, list[float]] = {}
    for name, reader in READERS.items():
        for seed in seeds:
            model, curve = train_neighbours(reader, seed, every=300)
            values.setdefault(f"right, {name}", []).append(curve.right[-1])
            for start in STARTS:
                values.setdefault(f"right, {name}, start {start}", []).append(
                    neighbours_right(model, [12], start)
                )
            if reader is Rotary:
                other = RotaryHalved()
                other.load_state_dict(model.state_dict())
                values.setdefault("right, RoPE, other pairing", []).append(
                    neighbours_right(other)
                )
    write("positions_neighbours", _COMMAND, list(seeds), values)


def _write_rates(seeds: range) -> None:
    """The neighbour task at three step sizes."""
    values: dict[str, list[float]] = {}
    for name, reader in READERS.items():
        for rate in (0.003, 0.01, 0.03):
            values[f"right, {name}, step size {rate}"] = [
                train_neighbours(reader, seed, every=300, learning_rate=rate)[1].right[
                    -1
                ]
                for seed in seeds
            ]
    write("positions_rates", _COMMAND, list(seeds), values)


if __name__ == "__main__":
    torch.set_num_threads(1)
    _write_rates(range(3))
    _write_order(range(10))
    _write_neighbours(range(10))
