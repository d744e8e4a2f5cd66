"""Measurements of chapter 7: several lookups at once, narrow heads, and two questions.

``python -m transformer_lib.experiments.multi_head`` makes the records of many seeds again
(``multi_head_lookups``, ``multi_head_off``, ``multi_head_rank`` and ``multi_head_view``
in ``records``).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib.experiments.hand_wired import LENGTH, START, SYMBOLS
from transformer_lib.experiments.records import write
from transformer_lib.nn.multi_head import split_heads
from transformer_lib.reference.attention import attention
from transformer_lib.reference.lookup import softmax
from transformer_lib.reference.multi_head import (
    MultiHeadParameters,
    multi_head_attention,
)

__all__ = [
    "PAIR_LANES",
    "PAIR_WIDTH",
    "LookupCurve",
    "Lookups",
    "Room",
    "circle",
    "pair_accuracy",
    "pair_layer",
    "pair_stream",
    "pair_texts",
    "right_without",
    "rooms",
    "scale_to_single_out",
    "train_lookups",
    "weights_on_asked",
]

NAMES, NUMBERS, PEOPLE, WIDTH = 32, 16, 16, 64
"""Known names, numbers that can be held, people in a room, and the width of a token."""


# --- several lookups at once ----------------------------------------------------------


class Room(NamedTuple):
    """A batch of rooms: who is there, what each holds, and who is asked for."""

    names: Int[Tensor, "b 16"]
    """All different in one room."""
    held: Int[Tensor, "b 16"]
    places: Int[Tensor, "b lookups"]
    """Where the people asked for stand, all different."""

    @property
    def asked(self) -> Int[Tensor, "b lookups"]:
        """Names of the people asked for."""
        return self.names.gather(1, self.places)

    @property
    def answers(self) -> Int[Tensor, "b lookups"]:
        """What they hold."""
        return self.held.gather(1, self.places)


def rooms(size: int, lookups: int, generator: torch.Generator) -> Room:
    """Fill ``size`` rooms at random: 16 of 32 names, each with a number from 0 to 15.

    Parameters
    ----------
    size
        How many rooms.
    lookups
        How many people are asked for at once, 1 to 16.
    generator
        Source of the draws.
    """
    names = torch.rand(size, NAMES, generator=generator).argsort(dim=-1)[:, :PEOPLE]
    held = torch.randint(NUMBERS, (size, PEOPLE), generator=generator)
    order = torch.rand(size, PEOPLE, generator=generator).argsort(dim=-1)
    return Room(names, held, order[:, :lookups])


class Lookups(nn.Module):
    """One layer of multi-head attention answers several questions about a room.

    A person is one token, name vector plus number vector. The question is one token,
    the sum of a vector per person asked for. All questions are answered from the one
    output of the layer. Its four projections have the same shape for any ``num_heads``.

    Parameters
    ----------
    num_heads
        Must divide 64.
    lookups
        Questions at once.
    hidden
        Units of a hidden layer in the read-out; ``None`` reads out linearly.
    split
        Cuts the columns into heads; a planted fault goes here.
    """

    def __init__(
        self,
        num_heads: int,
        lookups: int,
        hidden: int | None = None,
        split: Callable[[Tensor, int], Tensor] = split_heads,
    ) -> None:
        super().__init__()
        self.num_heads, self.lookups, self.split = num_heads, lookups, split
        self.names = nn.Embedding(NAMES, WIDTH)
        self.numbers = nn.Embedding(NUMBERS, WIDTH)
        self.questions = nn.Embedding(lookups * NAMES, WIDTH)
        self.W_Q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.W_K = nn.Linear(WIDTH, WIDTH, bias=False)
        self.W_V = nn.Linear(WIDTH, WIDTH, bias=False)
        self.W_O = nn.Linear(WIDTH, WIDTH, bias=False)
        answers = lookups * NUMBERS
        self.read_out: nn.Module = nn.Linear(WIDTH, answers)
        if hidden is not None:
            self.read_out = nn.Sequential(
                nn.Linear(WIDTH, hidden), nn.ReLU(), nn.Linear(hidden, answers)
            )

    def forward(
        self, room: Room, without: int | None = None
    ) -> tuple[Float[Tensor, "b lookups 16"], Float[Tensor, "b h 16"]]:
        """Return the scores of the answers, and the weights of every head.

        ``without`` switches one head off: zeros stand in place of its output.
        """
        people = self.names(room.names) + self.numbers(room.held)  # (b, 16, width)
        which = room.asked + NAMES * torch.arange(self.lookups)
        question = self.questions(which).sum(dim=1, keepdim=True)  # (b, 1, width)

        q = self.split(self.W_Q(question), self.num_heads)  # (b, h, 1, d_k)
        k = self.split(self.W_K(people), self.num_heads)  # (b, h, 16, d_k)
        v = self.split(self.W_V(people), self.num_heads)
        scores = q @ k.transpose(-1, -2) / math.sqrt(k.shape[-1])
        weights = scores.softmax(dim=-1)  # (b, h, 1, 16)
        heads = weights @ v
        if without is not None:
            heads = heads.index_fill(1, torch.tensor(without), 0.0)
        read = self.W_O(heads.transpose(1, 2).flatten(1))  # (b, width)
        return self.read_out(read).unflatten(-1, (self.lookups, NUMBERS)), weights[
            :, :, 0
        ]


@dataclass
class LookupCurve:
    """Accuracy against training step.

    Attributes
    ----------
    steps
        Steps of the optimiser done before each measurement.
    each
        Share of the questions that are answered right, 0 to 1.
    together
        Share of the rooms in which all questions are.
    """

    steps: list[int] = field(default_factory=list)
    each: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)


def train_lookups(
    num_heads: int,
    lookups: int,
    seed: int,
    steps: int = 400,
    every: int = 20,
    batch: int = 64,
    learning_rate: float = 3e-3,
    hidden: int | None = None,
    split: Callable[[Tensor, int], Tensor] = split_heads,
) -> tuple[Lookups, LookupCurve]:
    """Train a layer to answer ``lookups`` questions at once.

    Parameters
    ----------
    num_heads, lookups, hidden, split
        See :class:`Lookups`.
    seed
        Of the initial weights and of the rooms.
    steps, every, batch, learning_rate
        Steps of Adam, steps between two measurements, rooms per step, step size.

    Returns
    -------
    model
        The trained model.
    curve
        Accuracy on 1,000 fresh rooms at each measurement; guessing one answer gives 1/16.

    Raises
    ------
    ValueError
        If ``lookups`` is not from 1 to 16, or ``num_heads`` does not divide 64.
    """
    if not 1 <= lookups <= PEOPLE:
        raise ValueError(f"lookups: got {lookups}, wanted 1 to {PEOPLE}")
    if num_heads < 1 or WIDTH % num_heads:
        raise ValueError(f"num_heads: got {num_heads}, which does not divide {WIDTH}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Lookups(num_heads, lookups, hidden, split)
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    curve = LookupCurve()
    for step in range(steps + 1):
        if step % every == 0:
            right = _right(model, rooms(1000, lookups, generator))
            curve.steps.append(step)
            curve.each.append(right.float().mean().item())
            curve.together.append(right.all(dim=1).float().mean().item())
        if step == steps:
            break
        room = rooms(batch, lookups, generator)
        logits, _ = model(room)
        loss = F.cross_entropy(logits.flatten(0, 1), room.answers.flatten())
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    return model, curve


@torch.no_grad()
def _right(
    model: Lookups, room: Room, without: int | None = None
) -> Bool[Tensor, "b lookups"]:
    logits, _ = model(room, without)
    right: Tensor = logits.argmax(dim=-1) == room.answers
    return right


def right_without(
    model: Lookups, seed: int = 99, size: int = 1000
) -> Float[np.ndarray, "h lookups"]:
    """Share of right answers with one head switched off, for each head and question.

    Parameters
    ----------
    model
        A trained model.
    seed, size
        Of the rooms that are asked about.
    """
    room = rooms(size, model.lookups, torch.Generator().manual_seed(seed))
    shares = [
        _right(model, room, without=head).double().mean(dim=0).numpy()
        for head in range(model.num_heads)
    ]
    return np.stack(shares)


@torch.no_grad()
def weights_on_asked(
    model: Lookups, seed: int = 99, size: int = 1000
) -> Float[np.ndarray, "h lookups"]:
    """Mean weight that each head gives to each of the people asked for.

    Parameters
    ----------
    model
        A trained model.
    seed, size
        Of the rooms that are asked about.
    """
    room = rooms(size, model.lookups, torch.Generator().manual_seed(seed))
    _, weights = model(room)  # (b, h, 16)
    places = room.places[:, None, :].expand(-1, model.num_heads, -1)
    mean: np.ndarray = weights.gather(-1, places).double().mean(dim=0).numpy()
    return mean


# --- narrow heads ---------------------------------------------------------------------


def circle(n: int) -> Float[np.ndarray, "n 2"]:
    """Place ``n`` keys evenly on the circle of radius 1.

    Raises
    ------
    ValueError
        If ``n`` is below 2.
    """
    if n < 2:
        raise ValueError(f"n: got {n}, wanted 2 or more")
    angle = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def scale_to_single_out(n: int, weight: float = 0.99) -> float:
    """Find the factor on the scores with which a key on the circle gets ``weight``.

    The query points at the key, so the score of a key at angle ``t`` from it is
    ``scale * cos(t)``. The weight grows with the scale, which is found by halving.

    Parameters
    ----------
    n
        Keys on the circle.
    weight
        Wanted for the best key, above ``1 / n`` and below 1.

    Returns
    -------
    scale
        To a relative error of ``1e-12``.

    Raises
    ------
    ValueError
        If ``n`` is below 2 or ``weight`` is out of range.
    """
    scores = circle(n)[:, 0]  # the query points at key 0
    if not 1 / n < weight < 1:
        raise ValueError(f"weight: got {weight}, wanted above 1/{n} and below 1")
    low, high = 0.0, 1.0
    while softmax(high * scores)[0] < weight:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        enough = softmax(middle * scores)[0] >= weight
        low, high = (low, middle) if enough else (middle, high)
    return high


# --- wired by hand: two neighbours at once --------------------------------------------

PAIR_LANES = {
    "token": slice(0, 7),
    "position": slice(7, 20),
    "left": slice(20, 27),
    "second left": slice(27, 34),
}
"""Name of a lane -> its columns, for the stream with two lanes of neighbours."""

PAIR_WIDTH = 34
PAIR_STRENGTH = 50


def pair_stream(text: str) -> Int[np.ndarray, "n 34"]:
    """Fill the lanes *token* and *position*; both lanes of neighbours are empty.

    Raises
    ------
    ValueError
        If the text is empty, too long, or holds an unknown symbol.
    """
    if not 1 <= len(text) <= LENGTH:
        raise ValueError(f"text: got {len(text)} symbols, wanted 1 to {LENGTH}")
    X = np.zeros((len(text), PAIR_WIDTH), dtype=int)
    for i, symbol in enumerate(text):
        if symbol not in SYMBOLS:
            raise ValueError(f"text: got {symbol!r}, wanted symbols of {SYMBOLS!r}")
        X[i, PAIR_LANES["token"].start + SYMBOLS.index(symbol)] = 1
        X[i, PAIR_LANES["position"].start + i] = 1
    return X


def pair_layer(
    steps_back: Sequence[Sequence[int]] = ((1,), (2,)),
) -> MultiHeadParameters:
    """Wire a layer of two heads: who stands left of me, and who one further left?

    Each head has 17 columns. Thirteen of its queries and keys and seven of its values
    are used. The first head writes into the lane *left*, the second into *second left*.

    Parameters
    ----------
    steps_back
        For each head, at which distances to the left it looks. A head without any asks
        for nothing, and what it reads is not written.

    Raises
    ------
    ValueError
        If there are more than two heads or a distance is not from 1 to 12.
    """
    if len(steps_back) > 2:
        raise ValueError(f"steps_back: got {len(steps_back)} heads, wanted 2 at most")
    W_Q, W_K, W_V, W_O = np.zeros((4, PAIR_WIDTH, PAIR_WIDTH), dtype=int)
    d_head, letters = PAIR_WIDTH // 2, np.eye(len(SYMBOLS), dtype=int)
    for head, back in enumerate(steps_back):
        asks = slice(head * d_head, head * d_head + LENGTH)
        carries = slice(head * d_head, head * d_head + len(SYMBOLS))
        for steps in back:
            if not 1 <= steps < LENGTH:
                raise ValueError(f"steps_back: got {steps}, wanted 1 to {LENGTH - 1}")
            earlier = np.eye(LENGTH, k=-steps, dtype=int)
            W_Q[PAIR_LANES["position"], asks] += PAIR_STRENGTH * earlier
        W_K[PAIR_LANES["position"], asks] = np.eye(LENGTH, dtype=int)
        W_V[PAIR_LANES["token"], carries] = letters
        W_O[carries, PAIR_LANES[("left", "second left")[head]]] = letters
    return MultiHeadParameters(W_Q, W_K, W_V, W_O)


def pair_texts(count: int = 100, seed: int = 0) -> list[str]:
    """Random texts of twelve letters a, b, c in which each *pair* has one follower.

    What comes after a letter depends on the letter before it, so "what followed this
    letter last time?" need not have the same answer twice, and "what followed these two
    letters last time?" does.
    """
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        follower = rng.integers(3, size=(3, 3))
        walk = [int(letter) for letter in rng.integers(3, size=2)]
        while len(walk) < LENGTH - 1:
            walk.append(int(follower[walk[-2], walk[-1]]))
        made.append("".join(SYMBOLS[i] for i in walk))
    return made


def pair_accuracy(
    written: Sequence[str],
    layer: MultiHeadParameters,
    matches: Sequence[tuple[str, str]] = (("token", "left"), ("left", "second left")),
) -> tuple[int, int]:
    """Count right answers to "what followed these two letters last time?".

    The second layer has one head. Its query and key are made of several lanes side by
    side, so that its score adds up the agreements.

    Parameters
    ----------
    written
        Texts of letters, such as :func:`pair_texts` makes.
    layer
        The first layer.
    matches
        For each part of the second layer's query the lane it reads, and the lane that
        the matching part of the key reads.

    Returns
    -------
    right, asked
        How many answers are right, and how often a pair has stood in the text before.
    """
    letters_only = np.eye(len(SYMBOLS))
    letters_only[SYMBOLS.index(START)] = 0  # the beginning is nobody's namesake
    right = asked = 0
    for letters in written:
        X = pair_stream(START + letters)
        past = np.tril(np.ones((len(X), len(X)), dtype=bool))
        written_by_heads, _ = multi_head_attention(X, X, layer, 2, past)
        filled = X + written_by_heads
        asks, answers = (
            np.concatenate([filled[:, PAIR_LANES[lane]] for lane in lanes], axis=1)
            for lanes in zip(*matches, strict=True)
        )
        known = np.kron(np.eye(len(matches)), letters_only)
        found, _ = attention(
            PAIR_STRENGTH * asks, answers @ known, filled[:, PAIR_LANES["token"]], past
        )
        for i in range(1, len(letters)):
            last = letters.rfind(letters[i - 1 : i + 1], 0, i)
            if last >= 0:
                asked += 1
                right += SYMBOLS[found[i + 1].argmax()] == letters[last + 2]
    return right, asked


# --- records --------------------------------------------------------------------------

_COMMAND = "python -m transformer_lib.experiments.multi_head"


def _write_lookups(seeds: range) -> None:
    """One to four questions, one to four heads, and one head with a hidden layer."""
    values: dict[str, list[float]] = {}

    def add(name: str, curve: LookupCurve) -> None:
        for step, each, together in zip(
            curve.steps, curve.each, curve.together, strict=True
        ):
            if step:
                values.setdefault(f"each, {name}, step {step}", []).append(each)
                values.setdefault(f"together, {name}, step {step}", []).append(together)

    for seed in seeds:
        for lookups in (1, 2, 4):
            for heads in (1, 2, 4):
                _, curve = train_lookups(heads, lookups, seed, steps=800, every=400)
                add(f"questions {lookups}, heads {heads}", curve)
        _, curve = train_lookups(1, 2, seed, steps=800, every=400, hidden=256)
        add("questions 2, heads 1, hidden 256", curve)
    write("multi_head_lookups", _COMMAND, list(seeds), values)


def _write_off(seeds: range) -> None:
    """Two questions: which head reads whom, and what is lost without it."""
    values: dict[str, list[float]] = {}
    for seed in seeds:
        for heads in (2, 4):
            model, curve = train_lookups(heads, 2, seed, every=400)
            off, looks = right_without(model), weights_on_asked(model)
            for name, value in {
                "each": curve.each[-1],
                "largest weight on person 1": looks[:, 0].max(),
                "largest weight on person 2": looks[:, 1].max(),
                "head 1 reads person 1": float(looks[0, 0] > looks[0, 1]),
                "worse answer, head most needed off": off.min(axis=1).min(),
                "worse answer, head least needed off": off.min(axis=1).max(),
                "better answer, any head off": off.max(axis=1).min(),
            }.items():
                values.setdefault(f"{name}, heads {heads}", []).append(float(value))
    write("multi_head_off", _COMMAND, list(seeds), values)


def _write_rank(seeds: range) -> None:
    """One question, from one head of width 64 to 64 heads of width 1."""
    values: dict[str, list[float]] = {}
    for seed in seeds:
        for heads in (1, 2, 4, 8, 16, 32, 64):
            _, curve = train_lookups(heads, 1, seed, every=200)
            for step, each in zip(curve.steps[1:], curve.each[1:], strict=True):
                values.setdefault(f"heads {heads}, step {step}", []).append(each)
    write("multi_head_rank", _COMMAND, list(seeds), values)


def _by_view(x: Tensor, num_heads: int) -> Tensor:
    """Cut the columns wrongly: heads and tokens never change places."""
    batch, n, d_model = x.shape
    return x.view(batch, num_heads, n, d_model // num_heads)


def _write_view(seeds: range) -> None:
    """Two heads with the fault ``view`` without ``transpose``, one and two questions."""
    values: dict[str, list[float]] = {}
    for seed in seeds:
        for lookups in (1, 2):
            _, curve = train_lookups(2, lookups, seed, every=400, split=_by_view)
            values.setdefault(f"each, questions {lookups}", []).append(curve.each[-1])
    write("multi_head_view", _COMMAND, list(seeds), values)


if __name__ == "__main__":
    torch.set_num_threads(1)
    _write_lookups(range(10))
    _write_off(range(10))
    _write_rank(range(10))
    _write_view(range(10))
