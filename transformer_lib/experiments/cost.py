"""Measurements of chapter 11: positions beyond the training length, and linear states.

Three studies are trained or drawn from seeds. Six ways to tell a place are taught two
tasks on short texts and asked on texts four times as long. Recurrences without a bend
between the steps are taught the running parity of chapter 1. And a state of fixed size
is filled with more and more pairs until it mixes them up.

Two instruments measure this machine: the time of a call and the bytes that autograd keeps.
With them four ways to let tokens meet are timed against the length of the text, and one
epoch of a small Transformer is timed on five rungs of a ladder, each as right as the last.

``python -m transformer_lib.experiments.cost`` makes the records again
(``cost_positions``, ``cost_parity``, ``cost_memory``, ``cost_times`` and ``cost_ladder``
in ``records``; the last two are times on the machine where it runs).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib.experiments.records import write
from transformer_lib.nn.config import TransformerConfig
from transformer_lib.nn.encoder_decoder import EncoderLayer, Transformer
from transformer_lib.nn.multi_head import MultiHeadAttention
from transformer_lib.nn.positions import (
    Alibi,
    LearnedPositions,
    RelativeBias,
    RotaryPositions,
    SinusoidalPositions,
)
from transformer_lib.nn.recurrence import LSTM, RNN
from transformer_lib.nn.training import cross_entropy
from transformer_lib.reference.lookup import softmax
from transformer_lib.tasks.parity import parity_batch
from transformer_lib.training.optimizer import adamw

__all__ = [
    "CONTESTANTS",
    "DECAYS",
    "LADDER",
    "LENGTHS",
    "PAIRS",
    "PLACES",
    "SCHEMES",
    "TASKS",
    "TEST_LENGTH",
    "TRAIN_LENGTH",
    "PlaceReader",
    "Rung",
    "StateReader",
    "contestant",
    "doubling_scan",
    "ladder_batches",
    "ladder_loss",
    "ladder_model",
    "ladder_optimizer",
    "ladder_seconds",
    "pairs_recalled",
    "place_right",
    "saved_bytes",
    "shortest_seconds",
    "task_answers",
    "train_parity",
    "train_places",
]

TRAIN_LENGTH, TEST_LENGTH = 24, 96
"""Tokens of a text in training and in the test."""

SCHEMES = ("none", "sinusoids", "learned table", "RoPE", "ALiBi", "relative bias")
"""Ways to tell a place."""

TASKS = ("the previous token", "the fifth token")
"""What every token has to name: a relative place, and an absolute one."""

PLACES: Mapping[str, slice] = {
    "1 to 24": slice(0, 24),
    "25 to 32": slice(24, 32),
    "33 to 48": slice(32, 48),
    "49 to 96": slice(48, 96),
}
"""Where in the test the answers are counted; only the first lies within training."""

DECAYS = ("fixed", "gated", "signed")
"""What a linear state is multiplied by at each step: one learned number in (0, 1) per
column, a number in (0, 1) that the token chooses, or one in (-1, 1)."""

PAIRS = (1, 2, 4, 8, 16, 32, 64)
"""How many pairs are put into a state."""

CONTESTANTS = ("RNN", "LSTM", "plain attention", "fused attention")
"""Layers that are timed, each 64 wide; attention has four heads."""

LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
"""Tokens of the texts that they are timed on."""

_SYMBOLS, _WIDTH, _HEADS = 16, 32, 4
_FIFTH = 4  # index of the token that the second task asks for


# --- positions beyond the training length ---------------------------------------------


class PlaceReader(nn.Module):
    """Embedding, one causal layer of four heads, a linear answer at every token.

    Parameters
    ----------
    scheme
        One of ``SCHEMES``: how a token is told its place.

    Raises
    ------
    ValueError
        If there is no scheme of that name.
    """

    def __init__(self, scheme: str) -> None:
        super().__init__()
        if scheme not in SCHEMES:
            raise ValueError(
                f"scheme: got {scheme!r}, wanted one of {', '.join(SCHEMES)}"
            )
        self.embedding = nn.Embedding(_SYMBOLS, _WIDTH)
        added: dict[str, Callable[[], nn.Module]] = {
            "sinusoids": lambda: SinusoidalPositions(_WIDTH, TEST_LENGTH),
            "learned table": lambda: LearnedPositions(_WIDTH, TEST_LENGTH),
        }
        self.add = added.get(scheme, nn.Identity)()
        within: dict[str, Callable[[], RotaryPositions | Alibi | RelativeBias]] = {
            "RoPE": lambda: RotaryPositions(_WIDTH // _HEADS, TEST_LENGTH),
            "ALiBi": lambda: Alibi(_HEADS),
            "relative bias": lambda: RelativeBias(_HEADS),
        }
        self.layer = EncoderLayer(
            _WIDTH,
            _HEADS,
            2 * _WIDTH,
            norm_first=True,
            positions=within[scheme]() if scheme in within else None,
        )
        self.answer = nn.Linear(_WIDTH, _SYMBOLS)

    def forward(self, ids: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n symbols"]:
        """Score the sixteen symbols at every token."""
        x = self.layer(self.add(self.embedding(ids)), is_causal=True)
        return self.answer(x)


def task_answers(
    task: str, ids: Int[Tensor, "batch n"]
) -> tuple[Int[Tensor, "batch n"], Bool[Tensor, " n"]]:
    """Say what every token should name, and which tokens are asked.

    Parameters
    ----------
    task
        One of ``TASKS``.
    ids
        Texts.

    Returns
    -------
    answers, asked
        The symbol that each token should name; the first token has no previous one, and
        tokens before the fifth cannot have seen it.

    Raises
    ------
    ValueError
        If there is no task of that name.
    """
    if task not in TASKS:
        raise ValueError(f"task: got {task!r}, wanted one of {', '.join(TASKS)}")
    places = torch.arange(ids.shape[1])
    if task == TASKS[0]:
        return ids.roll(1, dims=1), places > 0
    return ids[:, _FIFTH : _FIFTH + 1].expand_as(ids), places >= _FIFTH


def train_places(
    scheme: str, task: str, seed: int, steps: int = 300, batch: int = 32
) -> PlaceReader:
    """Teach one scheme one task on texts of 24 random symbols.

    Adam with learning rate 3e-3.

    Parameters
    ----------
    scheme, task
        One of ``SCHEMES`` and one of ``TASKS``.
    seed
        Of the parameters and the texts.
    steps, batch
        Steps, and texts in each.

    Returns
    -------
    model
        The trained reader.

    Raises
    ------
    ValueError
        If there is no scheme or task of that name.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PlaceReader(scheme)
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        ids = torch.randint(_SYMBOLS, (batch, TRAIN_LENGTH), generator=draw)
        answers, asked = task_answers(task, ids)
        loss = F.cross_entropy(
            model(ids)[:, asked].flatten(0, 1), answers[:, asked].flatten()
        )
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return model


@torch.no_grad()
def place_right(
    model: nn.Module, task: str, count: int = 200, seed: int = 1000
) -> Float[np.ndarray, " n"]:
    """Share of right answers at each place of texts of 96 tokens.

    Parameters
    ----------
    model
        A trained reader.
    task
        One of ``TASKS``.
    count, seed
        How many texts, and the seed that they are drawn from.

    Returns
    -------
    right
        ``(96,)``; NaN at places that are not asked.
    """
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(_SYMBOLS, (count, TEST_LENGTH), generator=draw)
    answers, asked = task_answers(task, ids)
    right = (model(ids).argmax(-1) == answers).double().mean(0)
    right[~asked] = torch.nan
    return right.numpy()


# --- states without a bend ------------------------------------------------------------


def doubling_scan(
    a: Float[Tensor, "batch n d"], b: Float[Tensor, "batch n d"]
) -> Float[Tensor, "batch n d"]:
    """Solve ``h_t = a_t h_(t-1) + b_t`` for all ``t``, in log2(n) rounds.

    After ``r`` rounds, ``b_t`` holds what the last ``2^r`` tokens contribute and ``a_t``
    what their steps multiply an older state by. A round joins each such stretch to the
    one before it.

    Parameters
    ----------
    a, b
        Factors and inputs, ``(batch, n, d)``. The state before the first token is 0.

    Returns
    -------
    h
        All states, ``(batch, n, d)``.

    References
    ----------
    Hillis and Steele 1986, *Data Parallel Algorithms*; Blelloch 1990, *Prefix Sums and
    Their Applications*.

    Examples
    --------
    >>> a, b = torch.full((1, 4, 1), 0.5), torch.ones(1, 4, 1)
    >>> doubling_scan(a, b).flatten()
    tensor([1.0000, 1.5000, 1.7500, 1.8750])
    """
    shift = 1
    while shift < a.shape[1]:
        b = b + a * F.pad(b, (0, 0, shift, 0))[:, :-shift]
        a = a * F.pad(a, (0, 0, shift, 0), value=1.0)[:, :-shift]
        shift *= 2
    return b


class StateReader(nn.Module):
    """Two linear states, one above the other, and an answer after every bit.

    No function bends the state on its way from one token to the next; between the two
    layers, and before the answer, there is a feed-forward network.

    Parameters
    ----------
    decay
        One of ``DECAYS``.
    d_model
        Width of tokens and states.

    Raises
    ------
    ValueError
        If there is no decay of that name.
    """

    def __init__(self, decay: str, d_model: int = 16) -> None:
        super().__init__()
        if decay not in DECAYS:
            raise ValueError(f"decay: got {decay!r}, wanted one of {', '.join(DECAYS)}")
        self.decay = decay
        self.embedding = nn.Embedding(2, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
        self.inputs = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(2))
        self.factors = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(2))
        self.bends = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(d_model),
                nn.Linear(d_model, 2 * d_model),
                nn.ReLU(),
                nn.Linear(2 * d_model, d_model),
            )
            for _ in range(2)
        )
        self.answer = nn.Linear(d_model, 2)

    def factor(
        self, layer: int, x: Float[Tensor, "batch n d"]
    ) -> Float[Tensor, "batch n d"]:
        """What each column of the state is multiplied by at each token."""
        chosen = cast("nn.Linear", self.factors[layer])
        if self.decay == "fixed":
            return torch.sigmoid(chosen.bias).expand_as(x)
        found: Tensor = chosen(x)
        return torch.sigmoid(found) if self.decay == "gated" else torch.tanh(found)

    def forward(self, bits: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n 2"]:
        """Score even and odd after each bit."""
        x = self.embedding(bits)
        for i, (norm, read, bend) in enumerate(
            zip(self.norms, self.inputs, self.bends, strict=True)
        ):
            y = norm(x)
            x = x + doubling_scan(self.factor(i, y), read(y))
            x = x + bend(x)
        return self.answer(x)


def train_parity(decay: str, seed: int, steps: int = 600) -> Float[np.ndarray, " n"]:
    """Train on running parity of 24 bits and test on 96, as chapter 1 does.

    Adam with learning rate 3e-3, batches of 32, gradients clipped to norm 1.

    Parameters
    ----------
    decay
        One of ``DECAYS``.
    seed
        Of parameters and bits.
    steps
        Training steps.

    Returns
    -------
    right
        ``(96,)``: the share of 500 unseen rows answered rightly after each bit.

    Raises
    ------
    ValueError
        If there is no decay of that name.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = StateReader(decay)
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        bits, parity = parity_batch(TRAIN_LENGTH, 32, draw)
        loss = F.cross_entropy(model(bits).flatten(0, 1), parity.flatten())
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    bits, parity = parity_batch(
        TEST_LENGTH, 500, torch.Generator().manual_seed(1_000_000 + seed)
    )
    with torch.no_grad():
        right = model(bits).argmax(-1) == parity
    return right.double().mean(0).numpy()


def pairs_recalled(
    how: str, pairs: int, width: int, seed: int, rows: int = 200
) -> float:
    """Put pairs of key and value away, ask for each key, count the right values.

    Nothing is trained. Keys are random directions of length 1, values are drawn from
    sixteen and written as one-hot vectors; an answer is right if the largest of its
    sixteen numbers stands where the value has its 1.

    Parameters
    ----------
    how
        ``"state"``: the sum of all ``k^T v``, a ``(width, 16)`` matrix, is asked by
        ``q S``. ``"softmax"``: attention over all keys, at temperature 1/64.
    pairs, width
        How many pairs, and the width of a key.
    seed, rows
        Of keys and values, and how many sets are drawn.

    Returns
    -------
    share
        Of right values, 0 to 1; guessing gets 1/16.

    Raises
    ------
    ValueError
        If ``how`` is neither.
    """
    if how not in ("state", "softmax"):
        raise ValueError(f"how: got {how!r}, wanted 'state' or 'softmax'")
    rng = np.random.default_rng(seed)
    K = rng.normal(size=(rows, pairs, width))
    K /= np.linalg.norm(K, axis=-1, keepdims=True)
    wanted = rng.integers(_SYMBOLS, size=(rows, pairs))
    V = np.eye(_SYMBOLS)[wanted]
    if how == "state":
        answers = K @ (K.swapaxes(-1, -2) @ V)  # q S
    else:
        answers = softmax(64.0 * K @ K.swapaxes(-1, -2)) @ V
    return float((answers.argmax(-1) == wanted).mean())


# --- time against length --------------------------------------------------------------


def contestant(name: str) -> Callable[[Tensor], object]:
    """One layer of width 64, ready to read ``(1, n, 64)``.

    Parameters
    ----------
    name
        One of ``CONTESTANTS``. Plain attention is asked for its weights, and so must
        write them down.

    Returns
    -------
    layer
        A function of the tokens.

    Raises
    ------
    ValueError
        If there is no contestant of that name.
    """
    width = 64
    draw = torch.Generator().manual_seed(0)
    if name == "RNN":
        return RNN(width, width, generator=draw)
    if name == "LSTM":
        return LSTM(width, width, generator=draw)
    if name not in CONTESTANTS:
        raise ValueError(f"name: got {name!r}, wanted one of {', '.join(CONTESTANTS)}")
    attend = MultiHeadAttention(width, _HEADS, generator=draw)
    if name == "fused attention":
        return attend
    return lambda x: attend(x, return_weights=True)


# --- the ladder -----------------------------------------------------------------------


@dataclass(frozen=True)
class Rung:
    """What one rung of the ladder does otherwise than the one below it.

    Attributes
    ----------
    name
        What is new.
    by_length
        Sentences of similar length share a batch.
    fused
        Attention weights are never written to memory.
    pieces
        The logits exist for a few rows at a time.
    one_pass
        AdamW makes one pass over the parameters.
    """

    name: str
    by_length: bool = False
    fused: bool = False
    pieces: bool = False
    one_pass: bool = False


LADDER = (
    Rung("as written"),
    Rung("similar lengths together", True),
    Rung("fused attention", True, True),
    Rung("loss in pieces", True, True, True),
    Rung("AdamW in one pass", True, True, True, True),
)
"""Each rung keeps what the rungs below it do."""

_BATCH, _SENTENCES, _VOCABULARY = 16, 64, 4000


def ladder_model(seed: int = 0) -> Transformer:
    """Make the model of the ladder: width 128, two and two layers, 4,000 tokens."""
    draw = torch.Generator().manual_seed(seed)
    config = TransformerConfig.tiny(vocab_size=_VOCABULARY, dropout=0.0)
    return Transformer(config, draw)


def ladder_optimizer(rung: Rung, model: nn.Module) -> torch.optim.AdamW:
    """Make PyTorch's default AdamW, or the one that makes a single pass."""
    if rung.one_pass:
        return adamw(model)
    return torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0
    )


def ladder_batches(rung: Rung, seed: int = 0) -> Sequence[tuple[Tensor, Tensor]]:
    """Draw 64 pairs of sentences of 4 to 48 tokens and pad them, sixteen to a batch.

    Parameters
    ----------
    rung
        Says whether the pairs are sorted by length first.
    seed
        The same pairs for every rung.

    Returns
    -------
    batches
        Source and target ids, 0 for padding.
    """
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(4, 49, (_SENTENCES,), generator=draw)
    pairs = [
        torch.randint(3, _VOCABULARY, (2, int(n)), generator=draw) for n in lengths
    ]
    if rung.by_length:
        pairs.sort(key=lambda pair: pair.shape[1])
    batches = []
    for start in range(0, _SENTENCES, _BATCH):
        part = pairs[start : start + _BATCH]
        source, target = (
            nn.utils.rnn.pad_sequence([pair[side] for pair in part], batch_first=True)
            for side in (0, 1)
        )
        batches.append((source, target))
    return batches


def ladder_loss(
    rung: Rung, model: Transformer, source: Tensor, target: Tensor
) -> Float[Tensor, ""]:
    """Mean surprise over the real target tokens of one batch, the rung's way."""
    if rung.pieces:
        return model.loss(source, target)
    mask = model.source_mask(source)
    keep: dict[str, list[Tensor]] = {} if rung.fused else {"maps": []}
    across: dict[str, list[Tensor]] = {} if rung.fused else {"cross_maps": []}
    memory = model.encode(source, mask, **keep)
    hidden = model.decode(target[:, :-1], memory, mask, **keep, **across)
    return cross_entropy(F.linear(hidden, model.head), target[:, 1:], pad_id=0)


def ladder_seconds(rung: Rung, rounds: int = 5) -> float:
    """Processor time of one pass over the 64 pairs, the fastest of some."""
    model = ladder_model()
    optimizer = ladder_optimizer(rung, model)
    batches = ladder_batches(rung)

    def epoch() -> None:
        for source, target in batches:
            optimizer.zero_grad()
            torch.autograd.backward(ladder_loss(rung, model, source, target))
            optimizer.step()

    return shortest_seconds(epoch, rounds)


# --- instruments ----------------------------------------------------------------------


def shortest_seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """Processor time of the fastest of some calls, after one that is not counted.

    Other programs can only make a call slower, so the fastest says most about the call
    itself.

    Parameters
    ----------
    call
        What to measure.
    repeats
        How often, 1 or more.

    Returns
    -------
    seconds
        Processor time, not time on the clock: waiting for others is left out.
    """
    call()
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        call()
        found.append(time.process_time() - begun)
    return min(found)


def saved_bytes(call: Callable[[], object], *apart: Tensor) -> int:
    """Bytes that autograd keeps for the backward pass of a call.

    Parameters
    ----------
    call
        Runs forward.
    *apart
        Tensors that are there anyway, such as parameters; they are not counted.

    Returns
    -------
    bytes
        Each piece of memory once, however many tensors look at it.
    """
    known = {tensor.untyped_storage().data_ptr() for tensor in apart}
    kept: dict[int, int] = {}
    alive = []  # so that no piece of memory is used twice during the call

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor.detach())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = call()
    del result
    return sum(kept.values())


# --- records --------------------------------------------------------------------------

_COMMAND = "python -m transformer_lib.experiments.cost"


def _write_positions(seeds: range) -> None:
    values: dict[str, list[float]] = {}
    for task in TASKS:
        for scheme in SCHEMES:
            for seed in seeds:
                right = place_right(train_places(scheme, task, seed), task)
                for name, part in PLACES.items():
                    key = f"{task} | {scheme} | {name}"
                    values.setdefault(key, []).append(float(np.nanmean(right[part])))
    write("cost_positions", _COMMAND, list(seeds), values)


def _write_parity(seeds: range) -> None:
    values: dict[str, list[float]] = {}
    for decay in DECAYS:
        for seed in seeds:
            for bit, share in enumerate(train_parity(decay, seed), start=1):
                values.setdefault(f"{decay} | bit {bit}", []).append(float(share))
    write("cost_parity", _COMMAND, list(seeds), values)


def _write_memory(seeds: range) -> None:
    values = {
        f"{how} | {pairs} pairs": [pairs_recalled(how, pairs, 16, s) for s in seeds]
        for how in ("state", "softmax")
        for pairs in PAIRS
    }
    write("cost_memory", _COMMAND, list(seeds), values)


def _write_times(rounds: range) -> None:
    layers = {name: contestant(name) for name in CONTESTANTS}
    values: dict[str, list[float]] = {}
    with torch.no_grad():
        for _ in rounds:
            for n in LENGTHS:
                x = torch.randn(1, n, 64, generator=torch.Generator().manual_seed(n))
                for name, layer in layers.items():
                    seconds = shortest_seconds(lambda f=layer, x=x: f(x), 3)  # type: ignore[misc]
                    values.setdefault(f"{name} | {n} tokens", []).append(1e3 * seconds)
            for n in (128, 256, 512):  # what the machine can do: one large product
                x = torch.randn(n, n, generator=torch.Generator().manual_seed(n))
                seconds = shortest_seconds(lambda x=x: x @ x, 5)  # type: ignore[misc]
                values.setdefault(f"product | {n} wide", []).append(1e3 * seconds)
    write("cost_times", _COMMAND, list(rounds), values)


def _write_ladder(rounds: range) -> None:
    values: dict[str, list[float]] = {}
    for _ in rounds:
        for rung in LADDER:
            values.setdefault(rung.name, []).append(1e3 * ladder_seconds(rung, 2))
    write("cost_ladder", _COMMAND, list(rounds), values)


def main() -> None:
    """Write the five records."""
    torch.set_num_threads(1)
    _write_times(range(5))
    _write_ladder(range(5))
    _write_memory(range(10))
    _write_parity(range(10))
    _write_positions(range(10))


if __name__ == "__main__":
    main()
