"""Chapter 1: how far a gradient reaches, what is learned from far, and what it costs.

``python -m transformer_lib.experiments.recurrence`` writes the records
``recurrence_agreement`` and ``recurrence_parity`` again (a quarter of an hour on one
busy core).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.experiments import records
from transformer_lib.nn.recurrence import LSTM, RNN
from transformer_lib.tasks.agreement import VERBS, VOCABULARY, agreement_batch
from transformer_lib.tasks.parity import parity_batch

__all__ = [
    "AGREEMENT_CLAUSES",
    "AGREEMENT_CONTESTANTS",
    "PARITY_CONTESTANTS",
    "PARITY_LENGTH",
    "PARITY_TEST_LENGTH",
    "SEEDS",
    "AttentionReader",
    "RecurrentReader",
    "agreement_reader",
    "gradient_reach",
    "multiply_adds",
    "parity_reader",
    "train_agreement",
    "train_parity",
]

AGREEMENT_CONTESTANTS = (
    "RNN",
    "LSTM",
    "attention",
    "LSTM, forget bias 1",
    "LSTM, forget bias 3",
    "RNN, orthogonal",
    "RNN, short first",
    "LSTM, short first",
)
"""As they come (three), with one number of the start changed (three), taught in steps."""

AGREEMENT_CLAUSES = (2, 4, 8, 16)
PARITY_CONTESTANTS = ("RNN", "LSTM", "attention")
PARITY_LENGTH, PARITY_TEST_LENGTH = 24, 96
SEEDS = (0, 1, 2, 3, 4)

_QUIET = 0.1  # W_x of the orthogonal network, so that tanh stays near its straight part


def _layer(
    name: str,
    d_in: int,
    d_hidden: int,
    generator: torch.Generator,
    dtype: torch.dtype | None = None,
) -> RNN | LSTM:
    """The recurrent layer of a contestant."""
    if name.startswith("LSTM"):
        bias = {"LSTM, forget bias 1": 1.0, "LSTM, forget bias 3": 3.0}.get(name, 0.0)
        return LSTM(d_in, d_hidden, forget_bias=bias, generator=generator, dtype=dtype)
    orthogonal = name == "RNN, orthogonal"
    layer = RNN(d_in, d_hidden, orthogonal=orthogonal, generator=generator, dtype=dtype)
    if orthogonal:
        with torch.no_grad():
            layer.W_x.mul_(_QUIET)
            layer.b.zero_()
    return layer


class RecurrentReader(nn.Module):
    """Embedding, a recurrent layer, and a linear answer after every token.

    Parameters
    ----------
    vocab_size, d_model, num_answers
        Sizes of the embedding and of the answer.
    layer
        ``RNN`` or ``LSTM`` that reads ``d_model`` numbers per token.
    """

    def __init__(
        self, vocab_size: int, d_model: int, num_answers: int, layer: RNN | LSTM
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.layer = layer
        self.answer = nn.Linear(layer.d_hidden, num_answers)

    def forward(self, ids: Tensor) -> Tensor:
        """``(batch, n)`` ids to ``(batch, n, num_answers)`` scores."""
        return self.answer(self.layer(self.embedding(ids))[0])


class _Block(nn.Module):
    """Attention and a feed-forward layer, each added to its input (chapters 3 to 8)."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, causal: bool) -> None:
        super().__init__()
        self.num_heads, self.causal = num_heads, causal
        self.before_attention = nn.LayerNorm(d_model)
        self.project = nn.Linear(d_model, 3 * d_model)
        self.merge = nn.Linear(d_model, d_model)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(d_model),
            nn.Linear(d_model, d_ff),
            nn.ReLU(),
            nn.Linear(d_ff, d_model),
        )

    def forward(self, X: Tensor) -> Tensor:
        batch, n, d = X.shape
        heads = self.project(self.before_attention(X)).view(
            batch, n, 3, self.num_heads, d // self.num_heads
        )
        q, k, v = heads.permute(2, 0, 3, 1, 4)  # each (batch, heads, n, d_head)
        read = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        X = X + self.merge(read.transpose(1, 2).reshape(batch, n, d))
        return X + self.feed_forward(X)


class AttentionReader(nn.Module):
    """Embedding plus position, blocks of attention, and a linear answer at every token.

    It borrows positions (chapter 4), the feed-forward layer and residuals (5), the
    causal mask (6), several heads (7) and layer normalisation (8).

    Parameters
    ----------
    vocab_size, d_model, num_answers
        Sizes of the embedding and of the answer.
    num_layers, num_heads, d_ff
        How many blocks, heads in each, and the feed-forward width.
    causal
        ``True`` lets a token read itself and what stands before it only.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_answers: int,
        *,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        causal: bool,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.Sequential(
            *(_Block(d_model, num_heads, d_ff, causal) for _ in range(num_layers))
        )
        self.answer = nn.Sequential(
            nn.LayerNorm(d_model), nn.Linear(d_model, num_answers)
        )

    def forward(self, ids: Tensor) -> Tensor:
        """``(batch, n)`` ids to ``(batch, n, num_answers)`` scores."""
        X = self.embedding(ids)
        return self.answer(self.blocks(X + _sinusoids(X.shape[1], X.shape[2])))


def _sinusoids(n: int, d: int) -> Tensor:
    rates = 10_000.0 ** -(torch.arange(0, d, 2) / d)
    angles = torch.arange(n)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def _check_name(name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(f"name: got {name!r}, wanted one of {', '.join(known)}")


def _seeded(seed: int, build: Callable[[torch.Generator], nn.Module]) -> nn.Module:
    """Build a model from a seed and leave the global random state as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(torch.Generator().manual_seed(seed))


def agreement_reader(name: str, seed: int) -> nn.Module:
    """The untrained contestant for the agreement task, ten to fourteen thousand parameters.

    Parameters
    ----------
    name
        One of ``AGREEMENT_CONTESTANTS``.
    seed
        Of its first parameters.

    Returns
    -------
    torch.nn.Module
        Ids ``(batch, n)`` in, scores of the two verbs at each token out,
        ``(batch, n, 2)``.

    Raises
    ------
    ValueError
        If there is no contestant of that name.
    """
    _check_name(name, AGREEMENT_CONTESTANTS)
    words, answers, d = len(VOCABULARY), len(VERBS), 32

    def build(generator: torch.Generator) -> nn.Module:
        if name == "attention":
            return AttentionReader(
                words, d, answers, num_layers=1, num_heads=2, d_ff=4 * d, causal=False
            )
        d_hidden = 40 if name.startswith("LSTM") else 80
        return RecurrentReader(words, d, answers, _layer(name, d, d_hidden, generator))

    return _seeded(seed, build)


def train_agreement(
    name: str, clauses: int, seed: int, steps: int = 250, every: int = 50
) -> list[tuple[int, float]]:
    """Train one contestant on sentences of one length and test it on that length.

    Adam with learning rate 3e-3, batches of 32 sentences drawn afresh, gradients
    clipped to norm 1. The contestants *short first* see clauses that grow in number
    from none to ``clauses`` over the first 60 % of the steps; the others see
    ``clauses`` from the first step on.

    Parameters
    ----------
    name
        One of ``AGREEMENT_CONTESTANTS``.
    clauses
        Relative clauses between subject and verb, 0 or more.
    seed
        Of parameters and sentences.
    steps
        Training steps.
    every
        Steps between two tests.

    Returns
    -------
    list of tuple
        Step, and the share of 500 unseen sentences answered rightly. Guessing gets
        0.5, with a standard error of 0.022.

    Raises
    ------
    ValueError
        If there is no contestant of that name.
    """
    model = agreement_reader(name, seed)
    draw = torch.Generator().manual_seed(seed)
    held_out, wanted = agreement_batch(
        clauses, 500, torch.Generator().manual_seed(1_000_000 + seed)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    curve = []
    for step in range(1, steps + 1):
        now = clauses
        if name.endswith("short first"):
            now = min(clauses, round(clauses * step / (0.6 * steps)))
        ids, plural = agreement_batch(now, 32, draw)
        loss = F.cross_entropy(model(ids)[:, -1], plural)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % every == 0:
            with torch.no_grad():
                right = model(held_out)[:, -1].argmax(-1) == wanted
            curve.append((step, right.float().mean().item()))
    return curve


def parity_reader(name: str, seed: int) -> nn.Module:
    """The untrained contestant for running parity.

    Parameters
    ----------
    name
        One of ``PARITY_CONTESTANTS``: 32 units of an RNN, 16 of an LSTM (about 1,500
        parameters each), or two causal blocks of attention (17,282).
    seed
        Of its first parameters.

    Returns
    -------
    torch.nn.Module
        Bits ``(batch, n)`` in, scores of even and odd after each bit out,
        ``(batch, n, 2)``.

    Raises
    ------
    ValueError
        If there is no contestant of that name.
    """
    _check_name(name, PARITY_CONTESTANTS)

    def build(generator: torch.Generator) -> nn.Module:
        if name == "attention":
            return AttentionReader(
                2, 32, 2, num_layers=2, num_heads=4, d_ff=64, causal=True
            )
        d_hidden = 16 if name == "LSTM" else 32
        return RecurrentReader(2, 8, 2, _layer(name, 8, d_hidden, generator))

    return _seeded(seed, build)


def train_parity(name: str, seed: int, steps: int = 600) -> np.ndarray:
    """Train on running parity of 24 bits and test on 96.

    Adam with learning rate 3e-3, batches of 32, gradients clipped to norm 1, the loss
    averaged over all bits.

    Parameters
    ----------
    name
        One of ``PARITY_CONTESTANTS``.
    seed
        Of parameters and bits.
    steps
        Training steps.

    Returns
    -------
    numpy.ndarray
        ``(96,)``: the share of 500 unseen rows answered rightly after each bit.

    Raises
    ------
    ValueError
        If there is no contestant of that name.
    """
    model = parity_reader(name, seed)
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        bits, parity = parity_batch(PARITY_LENGTH, 32, draw)
        loss = F.cross_entropy(model(bits).flatten(0, 1), parity.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    bits, parity = parity_batch(
        PARITY_TEST_LENGTH, 500, torch.Generator().manual_seed(1_000_000 + seed)
    )
    with torch.no_grad():
        right = model(bits).argmax(-1) == parity
    return right.double().mean(0).numpy()


def gradient_reach(name: str, length: int, seed: int, width: int = 32) -> np.ndarray:
    """How much the last output of an untrained layer depends on each earlier token.

    One layer of the contestant, ``width`` numbers in and out, in float64, on tokens
    drawn from a standard normal. *attention* is one head, ``softmax(q K^T / sqrt(d)) V``
    with ``q`` from the last token, and projections drawn with variance ``1 / width``.

    Parameters
    ----------
    name
        One of ``AGREEMENT_CONTESTANTS`` (*short first* starts like its namesake).
    length
        Number of tokens, 1 or more.
    seed
        Of parameters and tokens.
    width
        Width of tokens and states.

    Returns
    -------
    numpy.ndarray
        ``(length,)``: entry ``k`` is the Frobenius norm of the derivative of the last
        output with respect to the token ``k`` places before the last.

    Raises
    ------
    ValueError
        If there is no contestant of that name, or ``length`` is below 1.
    """
    _check_name(name, AGREEMENT_CONTESTANTS)
    if length < 1:
        raise ValueError(f"length: got {length}, wanted 1 or more")
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    if name == "attention":
        W_Q, W_K, W_V = normal(3, width, width) / math.sqrt(width)

        def last_output(X: Tensor) -> Tensor:
            q, K, V = X[:, -1:] @ W_Q, X @ W_K, X @ W_V
            scores = q @ K.transpose(1, 2) / math.sqrt(width)
            return (torch.softmax(scores, dim=-1) @ V)[:, 0]

    else:
        layer = _layer(name, width, width, generator, torch.float64)

        def last_output(X: Tensor) -> Tensor:
            return layer(X)[0][:, -1]

    # One copy of the tokens for each output number: copy i is differentiated by output i.
    X = normal(1, length, width).repeat(width, 1, 1).requires_grad_()
    (slopes,) = torch.autograd.grad(last_output(X).diagonal().sum(), X)
    return slopes.square().sum((0, 2)).sqrt().flip(0).numpy()


def multiply_adds(length: int, width: int) -> dict[str, int]:
    """Multiplications (each with its addition) of one layer's matrix products.

    Parameters
    ----------
    length
        Number of tokens ``n``.
    width
        Width ``d`` of tokens, states, queries, keys and values alike.

    Returns
    -------
    dict
        ``RNN``: ``x W_x`` and ``h W_h``, ``2 n d^2``. ``LSTM``: the same for four
        gates, ``8 n d^2``. ``attention core``: ``Q K^T`` and weights times ``V``,
        ``2 n^2 d``. ``attention``: with the projections ``Q, K, V`` and the one of the
        output, ``4 n d^2 + 2 n^2 d``.

    Raises
    ------
    ValueError
        If a size is below 1.
    """
    for name, value in (("length", length), ("width", width)):
        if value < 1:
            raise ValueError(f"{name}: got {value}, wanted 1 or more")
    core = 2 * length**2 * width
    square = length * width**2
    return {
        "RNN": 2 * square,
        "LSTM": 8 * square,
        "attention core": core,
        "attention": 4 * square + core,
    }


def _record_agreement(command: str) -> None:
    values: dict[str, list[float]] = {}
    for clauses in AGREEMENT_CLAUSES:
        for name in AGREEMENT_CONTESTANTS:
            for seed in SEEDS:
                for step, right in train_agreement(name, clauses, seed, every=25):
                    if clauses == 8 or step == 250:
                        key = f"{name} | {clauses} clauses | step {step}"
                        values.setdefault(key, []).append(right)
    records.write("recurrence_agreement", command, SEEDS, values)


def _record_parity(command: str) -> None:
    values: dict[str, list[float]] = {}
    for name in PARITY_CONTESTANTS:
        for seed in SEEDS:
            right = train_parity(name, seed)
            for bit, share in enumerate(right, start=1):
                values.setdefault(f"{name} | bit {bit}", []).append(float(share))
    records.write("recurrence_parity", command, SEEDS, values)


def main() -> None:
    """Write both records."""
    torch.set_num_threads(1)
    command = "python -m transformer_lib.experiments.recurrence"
    _record_parity(command)
    _record_agreement(command)


if __name__ == "__main__":
    main()
