"""Measurements of chapter 3: a token's weight on itself, *it* turning, and the scale.

``python -m transformer_lib.experiments.attention`` makes the records of many seeds again
(``attention_animal``, ``attention_start`` and ``attention_recall`` in ``records``).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib.experiments.records import write
from transformer_lib.reference.attention import attention
from transformer_lib.tasks.animal_street import (
    ANIMAL,
    IT,
    LAST,
    PLACE,
    PRONOUNS,
    VOCABULARY,
    Grammar,
    grammar,
)

__all__ = [
    "READERS",
    "SCALES",
    "Curve",
    "Look",
    "OneLook",
    "TwoLayers",
    "TwoLooks",
    "jacobian_norm",
    "points_at_referent",
    "random_scores",
    "right_answers",
    "right_with_stale_words",
    "train_animal",
    "train_recall",
    "weight_on_itself",
    "weights_of_it",
]


@dataclass
class Curve:
    """Accuracy against training step.

    Attributes
    ----------
    steps
        Steps of the optimiser done before each measurement.
    right
        Share of right answers, 0 to 1, on examples that are not trained on.
    """

    steps: list[int] = field(default_factory=list)
    right: list[float] = field(default_factory=list)


# --- all identical: q = k = v = x -----------------------------------------------------


def weight_on_itself(
    d: int, n: int = 10, sentences: int = 200, seed: int = 0
) -> tuple[float, float]:
    """Attention without projections, on sentences of random word vectors.

    Parameters
    ----------
    d
        Width of a word vector; its entries are independent with variance 1.
    n
        Words in a sentence.
    sentences, seed
        How many sentences, and the seed they are drawn from.

    Returns
    -------
    weight
        Mean weight that a word gives to itself.
    first
        Share of words that give themselves the largest weight.
    """
    X = np.random.default_rng(seed).normal(size=(sentences, n, d))
    _, weights = attention(X, X, X)
    first = weights.argmax(axis=-1) == np.arange(n)
    return float(np.diagonal(weights, axis1=-2, axis2=-1).mean()), float(first.mean())


# --- the animal and the street --------------------------------------------------------


class Look(nn.Module):
    """One head in plain pieces: some words ask, some answer.

    Parameters
    ----------
    d
        Width of words, queries, keys and values.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.query = nn.Linear(d, d, bias=False)
        self.key = nn.Linear(d, d, bias=False)
        self.value = nn.Linear(d, d, bias=False)

    def forward(
        self, asking: Float[Tensor, "b n_q d"], answering: Float[Tensor, "b n_k d"]
    ) -> tuple[Float[Tensor, "b n_q d"], Float[Tensor, "b n_q n_k"]]:
        """Return what was read, and the weights."""
        q, k, v = self.query(asking), self.key(answering), self.value(answering)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(k.shape[-1])).softmax(dim=-1)
        return weights @ v, weights


class _Reader(nn.Module):
    """What the three models share: word vectors, two looks, three answers."""

    def __init__(self, d: int = 32, spread: float = 0.2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), d)
        nn.init.normal_(self.embedding.weight, std=spread)
        self.first = Look(d)
        self.second = Look(d)
        self.answer = nn.Linear(d, len(PRONOUNS))


class OneLook(_Reader):
    """*it* looks at the sentence once. (The second look is never called.)"""

    def forward(
        self, tokens: Int[Tensor, "b 10"]
    ) -> tuple[Float[Tensor, "b 3"], Float[Tensor, "b 10"]]:
        """Return scores of the three pronouns, and the weights of *it*."""
        x = self.embedding(tokens)
        it = x[:, IT : IT + 1]
        read, weights = self.first(it, x)
        return self.answer(read[:, 0]), weights[:, 0]


class TwoLooks(_Reader):
    """*it* looks twice; what it read the first time changes what it asks next."""

    def forward(
        self, tokens: Int[Tensor, "b 10"]
    ) -> tuple[Float[Tensor, "b 3"], Float[Tensor, "b 10"]]:
        """Scores of the three pronouns, and the weights of the second look."""
        x = self.embedding(tokens)
        it = x[:, IT : IT + 1]
        it = it + self.first(it, x)[0]
        read, weights = self.second(it, x)
        return self.answer(read[:, 0]), weights[:, 0]


class TwoLayers(_Reader):
    """Two layers of self-attention: in the first, every word looks and changes."""

    def forward(
        self, tokens: Int[Tensor, "b 10"]
    ) -> tuple[Float[Tensor, "b 3"], Float[Tensor, "b 10"]]:
        """Return scores of the three pronouns, and the weights of *it*, layer 2."""
        x = self.embedding(tokens)
        x = x + self.first(x, x)[0]
        it = x[:, IT : IT + 1]
        read, weights = self.second(it, x)
        return self.answer(read[:, 0]), weights[:, 0]


READERS: Mapping[str, type[_Reader]] = {
    "one look": OneLook,
    "two looks": TwoLooks,
    "two layers": TwoLayers,
}
"""The three models by name."""


def train_animal(
    reader: Callable[[], nn.Module],
    seed: int,
    steps: int = 400,
    every: int = 20,
    batch: int = 64,
    learning_rate: float = 1e-2,
) -> tuple[nn.Module, Curve]:
    """Train a model to say *it* in German; 18 pairs of nouns are never shown.

    Parameters
    ----------
    reader
        Makes the model, such as ``TwoLooks``.
    seed
        Of the initial weights and of the batches.
    steps, every, batch, learning_rate
        Steps of Adam, steps between two measurements, sentences per step, step size.

    Returns
    -------
    model
        The trained model.
    curve
        Accuracy on the sentences of the pairs that were held out.
    """
    every_sentence = grammar()
    tokens, answers = (
        torch.from_numpy(z) for z in (every_sentence.tokens, every_sentence.answers)
    )
    train = torch.from_numpy(np.flatnonzero(~every_sentence.held_out))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = reader()
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    curve = Curve()
    for step in range(steps + 1):
        if step % every == 0:
            curve.steps.append(step)
            curve.right.append(right_answers(model, every_sentence))
        if step == steps:
            break
        rows = train[torch.randint(len(train), (batch,), generator=generator)]
        logits, _ = model(tokens[rows])
        optimiser.zero_grad()
        torch.autograd.backward(F.cross_entropy(logits, answers[rows]))
        optimiser.step()
    return model, curve


@torch.no_grad()
def right_answers(model: nn.Module, sentences: Grammar, held_out: bool = True) -> float:
    """Share of right pronouns on held-out pairs, or on the pairs trained on."""
    rows = sentences.held_out if held_out else ~sentences.held_out
    logits, _ = model(torch.from_numpy(sentences.tokens[rows]))
    right = logits.argmax(dim=-1).numpy() == sentences.answers[rows]
    return float(right.mean())


@torch.no_grad()
def weights_of_it(
    model: nn.Module, tokens: Int[np.ndarray, "b 10"]
) -> Float[np.ndarray, "b 10"]:
    """Weights with which *it* reads the words of each sentence, in the last look."""
    _, weights = model(torch.from_numpy(tokens))
    array: np.ndarray = weights.numpy()
    return array


def points_at_referent(
    model: nn.Module, sentences: Grammar, held_out: bool = True
) -> float:
    """How often *it* weighs the noun it stands for above the other noun.

    A model whose weights do not depend on the last word gets 0.5 exactly.

    Returns
    -------
    share
        Of the sentences of held-out pairs, or of the pairs trained on.
    """
    rows = sentences.held_out if held_out else ~sentences.held_out
    weights = weights_of_it(model, sentences.tokens[rows])
    meant_animal = sentences.referents[rows] == ANIMAL
    looks_at_animal = weights[:, ANIMAL] > weights[:, PLACE]
    return float((meant_animal == looks_at_animal).mean())


@torch.no_grad()
def right_with_stale_words(
    model: TwoLayers, sentences: Grammar, positions: Sequence[int]
) -> float:
    """Share of right pronouns if the second layer gets some words unchanged.

    The words at these positions are handed to the second layer as they were before the
    first, so that nothing which they have read there can be read from them.

    Parameters
    ----------
    model
        A trained model with two full layers.
    sentences
        The held-out pairs of these are asked.
    positions
        Which words lose what they have read, 0 to 9.
    """
    rows = sentences.held_out
    before = model.embedding(torch.from_numpy(sentences.tokens[rows]))
    after = before + model.first(before, before)[0]
    stale = list(positions)
    after[:, stale] = before[:, stale]
    read, _ = model.second(after[:, IT : IT + 1], after)
    right = model.answer(read[:, 0]).argmax(dim=-1).numpy() == sentences.answers[rows]
    return float(right.mean())


# --- why the root of d_k --------------------------------------------------------------


def random_scores(
    d_k: int, n_keys: int = 64, rows: int = 1000, seed: int = 0
) -> Float[np.ndarray, "rows n_keys"]:
    """Unscaled scores of independent queries and keys with entries of variance 1.

    Parameters
    ----------
    d_k
        Width of queries and keys.
    n_keys
        Keys per query.
    rows, seed
        How many queries, each with keys of its own, and the seed they come from.
    """
    rng = np.random.default_rng(seed)
    scores = np.empty((rows, n_keys))
    for row in scores:
        row[:] = rng.normal(size=(n_keys, d_k)) @ rng.normal(size=d_k)
    return scores


def jacobian_norm(weights: Float[np.ndarray, "rows n"]) -> Float[np.ndarray, " rows"]:
    """Frobenius norm of the Jacobian of softmax, diag(a) - a^T a, one per row.

    It bounds what can flow back through the weights ``a``: 0 where one weight is 1, at
    most 1/2, reached when two keys share the weight equally.
    """
    diagonal = (weights * (1 - weights)) ** 2
    squares = weights**2
    beside = squares.sum(axis=-1, keepdims=True) - squares
    norm: np.ndarray = np.sqrt((diagonal + squares * beside).sum(axis=-1))
    return norm


SCALES: Mapping[str, Callable[[int], float]] = {
    "nothing": lambda d_k: 1.0,
    "root": lambda d_k: math.sqrt(d_k),
    "width": float,
}
"""What the scores are divided by, as a function of d_k."""

_SYMBOLS, _ANSWERS, _PAIRS, _WIDTH = 32, 16, 16, 64


class _Recall(nn.Module):
    """One head looks up the partner of a symbol among 16 pairs.

    Every weight starts with the variance that keeps queries and keys at variance 1, the
    assumption of the argument for the root.
    """

    def __init__(self, d_k: int, divisor: float) -> None:
        super().__init__()

        def matrix(rows: int, columns: int, spread: float = 1.0) -> nn.Parameter:
            return nn.Parameter(torch.randn(rows, columns) * spread)

        self.symbols = matrix(_SYMBOLS, _WIDTH)
        self.partners = matrix(_ANSWERS, _WIDTH)
        self.asked = matrix(_SYMBOLS, _WIDTH)
        self.W_Q = matrix(_WIDTH, d_k, _WIDTH**-0.5)
        self.W_K = matrix(_WIDTH, d_k, _WIDTH**-0.5)
        self.W_V = matrix(_WIDTH, _WIDTH, _WIDTH**-0.5)
        self.W_O = matrix(_WIDTH, _ANSWERS, _WIDTH**-0.5)
        self.divisor = divisor

    def forward(
        self, symbols: Int[Tensor, "b n"], partners: Int[Tensor, "b n"], asked: Tensor
    ) -> Float[Tensor, "b answers"]:
        pairs = (self.symbols[symbols] + self.partners[partners]) / math.sqrt(2)
        q = self.asked[asked][:, None] @ self.W_Q  # (b, 1, d_k)
        scores = q @ (pairs @ self.W_K).transpose(-1, -2) / self.divisor
        read = scores.softmax(dim=-1) @ (pairs @ self.W_V)  # (b, 1, width)
        return (read @ self.W_O)[:, 0]


def _recall_batch(
    size: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shuffled = torch.rand(size, _SYMBOLS, generator=generator).argsort(dim=-1)
    symbols = shuffled[:, :_PAIRS]
    partners = torch.randint(_ANSWERS, (size, _PAIRS), generator=generator)
    which = torch.randint(_PAIRS, (size, 1), generator=generator)
    asked, answers = (z.gather(1, which)[:, 0] for z in (symbols, partners))
    return symbols, partners, asked, answers


def train_recall(
    d_k: int,
    divisor: float,
    seed: int,
    steps: int = 150,
    every: int = 10,
    batch: int = 64,
    learning_rate: float = 3e-3,
) -> Curve:
    """Train one head to recall: 16 pairs of symbols are shown, one symbol is asked.

    Parameters
    ----------
    d_k
        Width of queries and keys.
    divisor
        The scores are divided by it before the softmax.
    seed
        Of the initial weights and of the examples.
    steps, every, batch, learning_rate
        Steps of Adam, steps between two measurements, examples per step, step size.

    Returns
    -------
    curve
        Accuracy on 512 fresh examples at each measurement; guessing gives 1/16.

    Raises
    ------
    ValueError
        If ``d_k`` is below 1 or ``divisor`` is not above 0.
    """
    if d_k < 1:
        raise ValueError(f"d_k: got {d_k}, wanted 1 or more")
    if not divisor > 0:
        raise ValueError(f"divisor: got {divisor}, wanted a number above 0")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _Recall(d_k, divisor)
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    curve = Curve()
    for step in range(steps + 1):
        if step % every == 0:
            with torch.no_grad():
                *shown, answers = _recall_batch(512, generator)
                right = (model(*shown).argmax(dim=-1) == answers).float().mean().item()
            curve.steps.append(step)
            curve.right.append(right)
        if step == steps:
            break
        *shown, answers = _recall_batch(batch, generator)
        optimiser.zero_grad()
        torch.autograd.backward(F.cross_entropy(model(*shown), answers))
        optimiser.step()
    return curve


# --- records --------------------------------------------------------------------------

_COMMAND = "python -m transformer_lib.experiments.attention"


def _write_animal(seeds: range) -> None:
    """The three models: right answers, pointing, and two layers with stale words."""
    every_sentence = grammar()
    values: dict[str, list[float]] = {}
    for name, reader in READERS.items():
        for seed in seeds:
            model, curve = train_animal(reader, seed, every=400)
            values.setdefault(f"right, {name}", []).append(curve.right[-1])
            values.setdefault(f"points, {name}", []).append(
                points_at_referent(model, every_sentence)
            )
            if isinstance(model, TwoLayers):
                for word, positions in (
                    ("last word", [LAST]),
                    ("nouns", [ANIMAL, PLACE]),
                ):
                    values.setdefault(f"right, {word} stale", []).append(
                        right_with_stale_words(model, every_sentence, positions)
                    )
    write("attention_animal", _COMMAND, list(seeds), values)


def _write_start(seeds: range) -> None:
    """Two looks from word vectors that start at other sizes."""
    every_sentence = grammar()
    values: dict[str, list[float]] = {}
    for spread in (0.2, 1.0):
        for seed in seeds:
            model, curve = train_animal(
                partial(TwoLooks, spread=spread), seed, every=400
            )
            values.setdefault(f"right, start {spread}", []).append(curve.right[-1])
            values.setdefault(f"points, start {spread}", []).append(
                points_at_referent(model, every_sentence)
            )
    write("attention_start", _COMMAND, list(seeds), values)


def _write_recall(seeds: range) -> None:
    """Recall at three widths and three divisors."""
    values: dict[str, list[float]] = {}
    for d_k in (16, 64, 256):
        for name, divisor in SCALES.items():
            for seed in seeds:
                curve = train_recall(d_k, divisor(d_k), seed, every=50)
                for step, right in zip(curve.steps[1:], curve.right[1:], strict=True):
                    values.setdefault(f"{name}, d_k {d_k}, step {step}", []).append(
                        right
                    )
    write("attention_recall", _COMMAND, list(seeds), values)


if __name__ == "__main__":
    torch.set_num_threads(1)
    _write_animal(range(10))
    _write_start(range(10))
    _write_recall(range(5))
