"""Measurements of chapter 5: collapse, what a stack still knows, XOR, a small memory.

``python -m transformer_lib.experiments.feed_forward`` makes the records of ten seeds again
(``feed_forward_collapse``, ``feed_forward_probe``, ``feed_forward_xor`` and
``feed_forward_memory`` in ``records``).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lib.experiments.attention import Look
from transformer_lib.experiments.records import write
from transformer_lib.reference.attention import self_attention
from transformer_lib.reference.feed_forward import feed_forward

__all__ = [
    "DEPTHS",
    "FACTS",
    "STACKS",
    "STARTS",
    "XOR_INPUTS",
    "XOR_MODELS",
    "Memory",
    "Network",
    "XorRun",
    "bag_score",
    "collapse",
    "forgotten",
    "memory_inputs",
    "probe",
    "spread",
    "train_memory",
    "train_xor",
    "wired_memory",
]


# --- collapse -------------------------------------------------------------------------

STARTS = ("unit", "torch", "small")
"""How fresh weights are drawn.

``unit``: normal, variance 1 / rows, so that a product keeps the size of a random vector.
``torch``: uniform up to 1 / sqrt(rows), as ``nn.Linear`` begins; a third of that variance.
``small``: normal with standard deviation 0.02, as GPT-2 began.
"""

STACKS: Mapping[str, tuple[bool, bool]] = {
    "attention": (False, False),
    "attention, FFN": (False, True),
    "attention, skip": (True, False),
    "attention, FFN, skip": (True, True),
}
"""Name -> (skip connections?, feed-forward networks?)."""

WIDTH, TOKENS, DEPTH = 64, 10, 12


def spread(X: Float[np.ndarray, "*batch n d"]) -> Float[np.ndarray, "*batch"]:
    """Which part of the tokens is not common to all: ``norm(X - mean) / norm(X)``.

    Parameters
    ----------
    X
        Tokens as rows, shape ``(..., n, d)``.

    Returns
    -------
    spread
        0 if all tokens are the same, 1 if they add up to nothing.

    Examples
    --------
    >>> float(spread(np.array([[1.0, 0.0], [1.0, 0.0]])))
    0.0
    >>> float(spread(np.array([[1.0, 0.0], [-1.0, 0.0]])))
    1.0
    """
    apart = X - X.mean(axis=-2, keepdims=True)
    size = np.linalg.norm(X, axis=(-2, -1))
    return np.asarray(np.linalg.norm(apart, axis=(-2, -1)) / size)


def _draw(
    rng: np.random.Generator, start: str, rows: int, columns: int
) -> Float[np.ndarray, "rows columns"]:
    """One weight matrix of a fresh layer."""
    if start == "unit":
        return rng.normal(size=(rows, columns)) / math.sqrt(rows)
    if start == "torch":
        return rng.uniform(-1, 1, size=(rows, columns)) / math.sqrt(rows)
    if start == "small":
        return 0.02 * rng.normal(size=(rows, columns))
    raise ValueError(f"start: got {start!r}, wanted one of {', '.join(STARTS)}")


def _layers(
    X: Float[np.ndarray, "*batch n d"],
    skip: bool,
    with_ffn: bool,
    rng: np.random.Generator,
    start: str,
    depth: int,
    sharpness: float = 1.0,
) -> Iterator[Float[np.ndarray, "*batch n d"]]:
    """The tokens before the first and after every layer of a fresh stack."""
    yield X
    d = X.shape[-1]
    for _ in range(depth):
        W_Q, W_K, W_V, W_O = (_draw(rng, start, d, d) for _ in range(4))
        written = self_attention(X, sharpness * W_Q, W_K, W_V)[0] @ W_O
        X = X + written if skip else written
        if with_ffn:
            W_1, W_2 = _draw(rng, start, d, 4 * d), _draw(rng, start, 4 * d, d)
            written = feed_forward(X, W_1, np.zeros(4 * d), W_2, np.zeros(d))
            X = X + written if skip else written
        yield X


def collapse(
    skip: bool,
    with_ffn: bool,
    seed: int,
    start: str = "unit",
    depth: int = DEPTH,
    sharpness: float = 1.0,
) -> Float[np.ndarray, " layers"]:
    """How far apart ten random tokens are, layer by layer, in a stack of fresh layers.

    One head, no mask, no normalisation; width 64, the feed-forward network 256 wide.

    Parameters
    ----------
    skip
        Add what each sub-layer gives to what it was given.
    with_ffn
        Put a feed-forward network with ReLU behind each attention.
    seed
        Of the tokens and of all weights.
    start
        One of :data:`STARTS`.
    depth
        Layers.
    sharpness
        Multiplies the scores; above 1 the attention is harder.

    Returns
    -------
    spreads
        :func:`spread` before the first layer and after each, shape ``(depth + 1,)``.

    Raises
    ------
    ValueError
        If there is no such start.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(TOKENS, WIDTH))
    stack = _layers(X, skip, with_ffn, rng, start, depth, sharpness)
    return np.array([float(spread(Z)) for Z in stack])


# --- what a stack still knows ---------------------------------------------------------

_SYMBOLS, _TRAIN, _TEST = 16, 200, 50
_RIDGE = 1e-3
DEPTHS = (0, 1, 2, 4, 8, 12)
"""After how many layers the probe reads."""


def bag_score(seed: int = 0, count: int = 20_000) -> float:
    """How often a token is named by who knows the ten tokens and not which is which.

    Always naming the most frequent token of the ten is right with this share.
    """
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(TOKENS, [1 / _SYMBOLS] * _SYMBOLS, size=count)
    return float(counts.max(axis=-1).mean() / TOKENS)


def probe(
    skip: bool, with_ffn: bool, seed: int, start: str = "torch"
) -> Float[np.ndarray, " depths"]:
    """Can a linear reader tell which token stood here, after L fresh layers?

    The reader is fitted by least squares with a small ridge, relative to the size of
    what it reads: it does not amplify differences that are tiny beside the rest.

    Parameters
    ----------
    skip, with_ffn, seed, start
        As for :func:`collapse`.

    Returns
    -------
    right
        Share of tokens of new sequences named right, for each of :data:`DEPTHS`.
        Guessing gives 1/16.
    """
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(_SYMBOLS, WIDTH))
    tokens = rng.integers(_SYMBOLS, size=(_TRAIN + _TEST, TOKENS))
    names, fitted = tokens.ravel(), _TRAIN * TOKENS
    right = []
    stack = _layers(table[tokens], skip, with_ffn, rng, start, max(DEPTHS))
    for depth, X in enumerate(stack):
        if depth not in DEPTHS:
            continue
        seen = X.reshape(-1, WIDTH) / np.abs(X).max()
        seen = np.column_stack([seen, np.ones(len(seen))])
        gram = seen[:fitted].T @ seen[:fitted]
        gram += _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
        reader = np.linalg.solve(
            gram, seen[:fitted].T @ np.eye(_SYMBOLS)[names[:fitted]]
        )
        said = (seen[fitted:] @ reader).argmax(axis=-1)
        right.append(float((said == names[fitted:]).mean()))
    return np.array(right)


# --- exclusive or inside one token ----------------------------------------------------

XOR_INPUTS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
"""The four inputs. The answer is 1 where the two numbers differ."""


class XorModel(NamedTuple):
    """What a model for the exclusive or is made of.

    Attributes
    ----------
    layers
        Layers of attention with one head, each with a skip connection.
    second_token
        A learned constant token beside the one that carries the input.
    layer_norm
        A LayerNorm before each sub-layer.
    feed_forward
        A feed-forward network behind each attention.
    """

    layers: int
    second_token: bool = False
    layer_norm: bool = False
    feed_forward: bool = False


XOR_MODELS: Mapping[str, XorModel] = {
    "attention, 1 layer": XorModel(1),
    "attention, 3 layers": XorModel(3),
    "+ FFN": XorModel(1, feed_forward=True),
    "+ second token": XorModel(1, second_token=True),
    "+ LayerNorm": XorModel(1, layer_norm=True),
}
"""The models that are compared. Width 16, the feed-forward network 64 wide."""


class XorRun(NamedTuple):
    """What a trained model makes of the exclusive or.

    Attributes
    ----------
    loss
        Cross-entropy at the end, in nats; answering one half to everything costs ln 2.
    right
        Share of the four inputs on the right side of one half.
    plane
        Shape ``(41, 41)``: its answers on the plane from -0.5 to 1.5; rows follow the
        second input, from low to high.
    """

    loss: float
    right: float
    plane: Float[np.ndarray, "41 41"]


class _Xor(nn.Module):
    def __init__(self, made: XorModel, d: int = 16) -> None:
        super().__init__()
        self.enter = nn.Linear(2, d)
        self.second = nn.Parameter(torch.randn(d)) if made.second_token else None
        self.looks = nn.ModuleList(Look(d) for _ in range(made.layers))
        self.writes = nn.ModuleList(nn.Linear(d, d) for _ in range(made.layers))
        self.norms = nn.ModuleList(
            nn.LayerNorm(d) if made.layer_norm else nn.Identity()
            for _ in range(made.layers)
        )
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
            for _ in range(made.layers if made.feed_forward else 0)
        )
        self.answer = nn.Linear(d, 1)

    def forward(self, inputs: Float[Tensor, "b 2"]) -> Float[Tensor, " b"]:
        x = self.enter(inputs)[:, None]  # (b, 1, d): one token
        if self.second is not None:
            x = torch.cat([x, self.second.expand(len(x), 1, -1)], dim=1)
        for i, look in enumerate(self.looks):
            seen = self.norms[i](x)
            x = x + self.writes[i](look(seen, seen)[0])
            if len(self.networks):
                x = x + self.networks[i](x)
        return self.answer(x[:, 0])[:, 0]


def train_xor(
    name: str, seed: int, steps: int = 500, learning_rate: float = 1e-2
) -> XorRun:
    """Train a model on the four inputs of the exclusive or.

    Parameters
    ----------
    name
        One of :data:`XOR_MODELS`.
    seed
        Of the initial weights.
    steps, learning_rate
        Steps of Adam over all four inputs, step size.

    Returns
    -------
    run
        Loss, share of right answers, and the plane as the model sees it.

    Raises
    ------
    ValueError
        If there is no such model.
    """
    if name not in XOR_MODELS:
        raise ValueError(f"name: got {name!r}, wanted one of {', '.join(XOR_MODELS)}")
    inputs = torch.tensor(XOR_INPUTS, dtype=torch.float32)
    answers = (inputs[:, 0] != inputs[:, 1]).float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _Xor(XOR_MODELS[name])
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(steps):
        loss = F.binary_cross_entropy_with_logits(model(inputs), answers)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    with torch.no_grad():
        logits = model(inputs)
        loss = F.binary_cross_entropy_with_logits(logits, answers)
        line = torch.linspace(-0.5, 1.5, 41)
        second, first = torch.meshgrid(line, line, indexing="ij")
        everywhere = torch.stack([first.flatten(), second.flatten()], dim=-1)
        plane = model(everywhere).sigmoid().reshape(41, 41).double().numpy()
    right = (logits > 0) == (answers > 0.5)
    return XorRun(loss.item(), right.float().mean().item(), plane)


# --- a memory of words ----------------------------------------------------------------

FACTS = (
    "the", "too", "who", "woe", "and", "are", "for", "her",
    "his", "you", "not", "can", "sea", "its", "yes", "big",
)  # fmt: skip
"""Sixteen words. Their first two letters settle the third."""

LETTERS = "".join(sorted(set("".join(FACTS))))
"""The seventeen letters that occur."""


class Network(NamedTuple):
    """The weights of a feed-forward network.

    Attributes
    ----------
    W_1, b_1
        Shapes ``(34, d_ff)`` and ``(d_ff,)``: the lanes of the first and second letter.
    W_2, b_2
        Shapes ``(d_ff, 17)`` and ``(17,)``: the lane of the third letter.
    """

    W_1: Float[np.ndarray, "two_lanes d_ff"]
    b_1: Float[np.ndarray, " d_ff"]
    W_2: Float[np.ndarray, "d_ff letters"]
    b_2: Float[np.ndarray, " letters"]


class Memory(NamedTuple):
    """What a network does with the words.

    Attributes
    ----------
    network
        Its weights.
    hidden
        Shape ``(16, d_ff)``: what each hidden unit holds for each word.
    right
        Shape ``(16,)``: is the third letter right?
    loss
        Cross-entropy over the words, in nats.
    """

    network: Network
    hidden: Float[np.ndarray, "words d_ff"]
    right: Bool[np.ndarray, " words"]
    loss: float


def memory_inputs(
    words: Sequence[str] = FACTS,
) -> Float[np.ndarray, "words two_lanes"]:
    """First two letters of each word as two one-hot lanes.

    Raises
    ------
    ValueError
        If a word has fewer than two letters or holds a letter that does not occur.
    """
    X = np.zeros((len(words), 2 * len(LETTERS)))
    for i, word in enumerate(words):
        for place in (0, 1):
            if len(word) < 2 or word[place] not in LETTERS:
                raise ValueError(
                    f"words: got {word!r}, wanted two letters of {LETTERS!r} or more"
                )
            X[i, place * len(LETTERS) + LETTERS.index(word[place])] = 1.0
    return X


def wired_memory() -> Network:
    """Wire a memory by hand: one hidden unit per word, in whole numbers.

    Unit ``m`` holds 1 if both letters are those of word ``m`` and 0 otherwise. It then
    writes its word's third letter.
    """
    units = len(FACTS)
    answers = np.zeros((units, len(LETTERS)))
    answers[np.arange(units), [LETTERS.index(word[2]) for word in FACTS]] = 1.0
    return Network(
        W_1=memory_inputs().T,
        b_1=-np.ones(units),
        W_2=answers,
        b_2=np.zeros(len(LETTERS)),
    )


def _remember(network: Network, bend: bool = True) -> Memory:
    wanted = np.array([LETTERS.index(word[2]) for word in FACTS])
    before = memory_inputs() @ network.W_1 + network.b_1
    hidden = np.maximum(before, 0.0) if bend else before
    logits = hidden @ network.W_2 + network.b_2
    highest = logits.max(axis=-1, keepdims=True)
    log_sums = np.log(np.exp(logits - highest).sum(axis=-1)) + highest[:, 0]
    losses = log_sums - logits[np.arange(len(wanted)), wanted]
    return Memory(
        network, hidden, logits.argmax(axis=-1) == wanted, float(losses.mean())
    )


def train_memory(
    seed: int,
    d_ff: int = 16,
    bend: bool = True,
    steps: int = 600,
    learning_rate: float = 1e-2,
) -> Memory:
    """Train a feed-forward network to name the third letter of sixteen words.

    Parameters
    ----------
    seed
        Of the initial weights.
    d_ff
        Hidden units.
    bend
        ``False`` leaves the ReLU out: two linear layers.
    steps, learning_rate
        Steps of Adam over all words, step size.

    Returns
    -------
    memory
        The trained network and what it does with each word.

    Raises
    ------
    ValueError
        If ``d_ff`` is below 1.
    """
    if d_ff < 1:
        raise ValueError(f"d_ff: got {d_ff}, wanted 1 or more")
    X = torch.tensor(memory_inputs(), dtype=torch.float32)
    wanted = torch.tensor([LETTERS.index(word[2]) for word in FACTS])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first = nn.Linear(X.shape[1], d_ff)
        second = nn.Linear(d_ff, len(LETTERS))
    optimiser = torch.optim.Adam(
        [*first.parameters(), *second.parameters()], lr=learning_rate
    )
    for _ in range(steps):
        hidden = first(X).relu() if bend else first(X)
        loss = F.cross_entropy(second(hidden), wanted)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    arrays = [z.detach().numpy().astype(np.float64) for z in (
        first.weight.T, first.bias, second.weight.T, second.bias)]  # fmt: skip
    return _remember(Network(*arrays), bend)


def forgotten(memory: Memory) -> np.ndarray:
    """How many words each hidden unit takes with it when it is switched off.

    Parameters
    ----------
    memory
        As :func:`train_memory` gives it.

    Returns
    -------
    counts
        Shape ``(d_ff,)``: words that were right and no longer are.
    """
    wanted = np.array([LETTERS.index(word[2]) for word in FACTS])
    counts = np.zeros(memory.hidden.shape[1], dtype=int)
    for m in range(len(counts)):
        hidden = memory.hidden.copy()
        hidden[:, m] = 0.0
        logits = hidden @ memory.network.W_2 + memory.network.b_2
        counts[m] = (memory.right & (logits.argmax(axis=-1) != wanted)).sum()
    return counts


# --- records --------------------------------------------------------------------------

_COMMAND = "python -m transformer_lib.experiments.feed_forward"


def _write_collapse(seeds: range) -> None:
    """Spread after some layers: four stacks, three starts, sharper attention."""
    values: dict[str, list[float]] = {}
    for (stack, parts), start, seed in product(STACKS.items(), STARTS, seeds):
        spreads = collapse(*parts, seed, start)
        for layer in (1, 2, 4, 6, 12):
            values.setdefault(f"{stack}, {start}, layer {layer}", []).append(
                max(spreads[layer], 1e-6)
            )
    for sharpness, seed in product((2, 4, 8), seeds):
        spreads = collapse(False, False, seed, sharpness=sharpness)
        for layer in (4, 12):
            values.setdefault(f"sharpness {sharpness}, layer {layer}", []).append(
                max(spreads[layer], 1e-6)
            )
    write("feed_forward_collapse", _COMMAND, list(seeds), values)


def _write_probe(seeds: range) -> None:
    """Tokens that a linear reader still names, for four stacks and two starts."""
    values: dict[str, list[float]] = {}
    for (stack, parts), start, seed in product(
        STACKS.items(), ("unit", "torch"), seeds
    ):
        for depth, right in zip(DEPTHS, probe(*parts, seed, start), strict=True):
            values.setdefault(f"{stack}, {start}, layer {depth}", []).append(right)
    write("feed_forward_probe", _COMMAND, list(seeds), values)


def _write_xor(seeds: range) -> None:
    """Loss and right answers of the models for the exclusive or."""
    values: dict[str, list[float]] = {}
    for name, seed in product(XOR_MODELS, seeds):
        run = train_xor(name, seed)
        values.setdefault(f"loss, {name}", []).append(run.loss)
        values.setdefault(f"right, {name}", []).append(run.right)
    write("feed_forward_xor", _COMMAND, list(seeds), values)


def _write_memory(seeds: range) -> None:
    """Words known, words per unit, and words that one unit takes with it."""
    values: dict[str, list[float]] = {}

    def note(measure: str, number: float) -> None:
        values.setdefault(measure, []).append(number)

    for d_ff, seed in product((4, 8, 16, 64), seeds):
        memory = train_memory(seed, d_ff)
        note(f"right, {d_ff} units", float(memory.right.sum()))
        note(f"words per unit, {d_ff} units", float((memory.hidden > 0).sum(0).mean()))
        note(f"most forgotten, {d_ff} units", float(forgotten(memory).max()))
    for seed in seeds:
        note("loss, no bend", train_memory(seed, 16, bend=False, steps=2000).loss)
    write("feed_forward_memory", _COMMAND, list(seeds), values)


if __name__ == "__main__":
    torch.set_num_threads(1)
    _write_collapse(range(10))
    _write_probe(range(10))
    _write_memory(range(10))
    _write_xor(range(10))
