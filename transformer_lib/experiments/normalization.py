"""Measurements of chapter 8: deep stacks, fresh and trained, and what depth buys.

``python -m transformer_lib.experiments.normalization`` makes the records of many seeds
again (``normalization_fresh``, ``normalization_trained``, ``normalization_steps``,
``normalization_few`` and ``normalization_hops`` in ``records``) and the recorded runs
that the widget *Depth* plays (``widgets/data/normalization.json``). Names after the
command, such as ``hops`` or ``widget``, make only those. All take about 12 minutes.
"""

import argparse
import itertools
import json
import statistics
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib.experiments.attention import Curve
from transformer_lib.experiments.records import write
from transformer_lib.nn import FeedForward, LayerNorm, MultiHeadAttention

__all__ = [
    "ARRANGEMENTS",
    "LENGTH",
    "LETTERS",
    "STARTS",
    "FreshStack",
    "Layer",
    "Reader",
    "bag_plateau",
    "fresh_stack",
    "hop_batch",
    "reversal_batch",
    "stops_short",
    "train_hops",
    "train_on_few",
    "train_reversal",
]

Arrangement = Literal["plain", "norm", "skip", "post-norm", "pre-norm"]
Start = Literal["Xavier", "default", "0.02"]

ARRANGEMENTS: tuple[Arrangement, ...] = get_args(Arrangement)
"""What stands around a sub-layer F: F(x); N(F(x)); x + F(x); N(x + F(x)); x + F(N(x))."""

STARTS: tuple[Start, ...] = get_args(Start)
"""How the matrices of the layers begin: Xavier's uniform numbers, PyTorch's default for
``nn.Linear``, normal with standard deviation 0.02 as in GPT. Embeddings are the same in
all three."""

LETTERS, LENGTH = 8, 6
"""The task of the depth study: six letters out of eight, to be written backwards."""

WIDTH, HEADS, INNER = 32, 4, 64


# --- the model ------------------------------------------------------------------------


class Layer(nn.Module):
    """One layer of a Transformer, with skip and normalisation as asked.

    Parameters
    ----------
    arrangement
        One of :data:`ARRANGEMENTS`.
    """

    def __init__(self, arrangement: Arrangement) -> None:
        super().__init__()
        self.arrangement = arrangement
        self.attention = MultiHeadAttention(WIDTH, HEADS)
        self.feed_forward = FeedForward(WIDTH, INNER)
        if "norm" in arrangement:
            self.norms = nn.ModuleList(LayerNorm(WIDTH) for _ in range(2))
        else:
            self.norms = nn.ModuleList(nn.Identity() for _ in range(2))

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """Attend, then think."""
        for sublayer, norm in zip(
            (self.attention, self.feed_forward), self.norms, strict=True
        ):
            if self.arrangement == "pre-norm":
                x = x + sublayer(norm(x))
            elif self.arrangement in ("post-norm", "skip"):
                x = norm(x + sublayer(x))  # "skip" has no norm: the identity
            else:
                x = norm(sublayer(x))
        return x


class Reader(nn.Module):
    """Letters in, one answer at every place out.

    Parameters
    ----------
    arrangement, start
        One of :data:`ARRANGEMENTS` and one of :data:`STARTS`.
    layers
        Depth, 0 or more.
    places
        Length of a sequence; every place has a learned position vector.

    Raises
    ------
    ValueError
        If ``arrangement`` or ``start`` is not known, or ``layers`` is negative.
    """

    def __init__(
        self,
        arrangement: Arrangement,
        start: Start,
        layers: int,
        places: int = LENGTH,
    ) -> None:
        super().__init__()
        for name, got, known in (
            ("arrangement", arrangement, ARRANGEMENTS),
            ("start", start, STARTS),
        ):
            if got not in known:
                raise ValueError(f"{name}: got {got!r}, wanted one of {known}")
        if layers < 0:
            raise ValueError(f"layers: got {layers}, wanted 0 or more")
        self.letters = nn.Embedding(LETTERS, WIDTH)
        self.positions = nn.Parameter(torch.randn(places, WIDTH))
        self.layers = nn.ModuleList(Layer(arrangement) for _ in range(layers))
        last = LayerNorm(WIDTH) if arrangement == "pre-norm" else nn.Identity()
        self.norm = last
        self.answer = nn.Linear(WIDTH, LETTERS)
        for layer in self.layers.modules():
            if isinstance(layer, MultiHeadAttention):
                _begin(layer.W_Q, start)
                _begin(layer.W_KV, start, matrices=2)
                _begin(layer.W_O, start)
            elif isinstance(layer, FeedForward):
                _begin(layer.W_1, start)
                _begin(layer.W_2, start)

    def forward(
        self, ids: Int[Tensor, "b n"], streams: list[Tensor] | None = None
    ) -> Float[Tensor, "b n letters"]:
        """Return scores of the letters; note the stream after each layer."""
        x = self.letters(ids) + self.positions
        streams = [] if streams is None else streams
        streams.append(x)
        for layer in self.layers:
            x = layer(x)
            streams.append(x)
        return self.answer(self.norm(x))


def _begin(linear: nn.Linear, start: Start, matrices: int = 1) -> None:
    """Draw the first values; ``matrices`` of them lie in one weight, each on its own."""
    if start == "default":
        return
    for matrix in linear.weight.data.chunk(matrices):
        if start == "Xavier":
            nn.init.xavier_uniform_(matrix)
        else:
            nn.init.normal_(matrix, std=0.02)
    nn.init.zeros_(linear.bias)


# --- the task: write it backwards -----------------------------------------------------


def reversal_batch(
    count: int, generator: torch.Generator
) -> tuple[Int[Tensor, "count 6"], Int[Tensor, "count 6"]]:
    """Draw rows of six letters, and the same rows backwards.

    Parameters
    ----------
    count
        How many rows.
    generator
        Source of the random numbers.

    Returns
    -------
    letters, answers
        Numbers 0 to 7, shape ``(count, 6)``.
    """
    letters = torch.randint(LETTERS, (count, LENGTH), generator=generator)
    return letters, letters.flip(1)


def bag_plateau(letters: int = LETTERS, length: int = LENGTH) -> float:
    """Best score of a model that knows which letters there are, and not where.

    At every place it does best to answer with the most frequent letter of the row. So it
    is right in max(count) of ``length`` places, averaged over all rows there are.

    Parameters
    ----------
    letters, length
        Size of the alphabet and letters in a row, 1 or more; ``letters ** length`` rows
        are counted.

    Returns
    -------
    share
        Of right places, 0 to 1.

    Raises
    ------
    ValueError
        If ``letters`` or ``length`` is below 1.

    Examples
    --------
    Of two letters in a row of two, half of the rows hold one letter twice:

    >>> bag_plateau(letters=2, length=2)
    0.75
    """
    for name, size in (("letters", letters), ("length", length)):
        if size < 1:
            raise ValueError(f"{name}: got {size}, wanted 1 or more")
    rows = np.indices((letters,) * length).reshape(length, -1)
    counts = np.stack([(rows == letter).sum(axis=0) for letter in range(letters)])
    return float(counts.max(axis=0).mean() / length)


# --- before any training --------------------------------------------------------------


class FreshStack(NamedTuple):
    """What signal and gradient do in a stack that has not been trained."""

    sizes: list[float]
    """Root mean square of the stream: after the embedding, then after each layer."""
    gradients: list[float]
    """Norm of the gradient of the loss with respect to each layer's matrices and biases
    (those of the norms left out), first layer first."""


def fresh_stack(
    arrangement: Arrangement, start: Start, layers: int, seed: int, rows: int = 64
) -> FreshStack:
    """Send one batch through a stack as it begins, and one gradient back.

    Computed in float64, since some gradients are too small for float32.

    Parameters
    ----------
    arrangement, start, layers
        As in :class:`Reader`.
    seed
        Of the first weights and of the batch.
    rows
        Rows of letters in the batch.
    """
    model = _fresh(lambda: Reader(arrangement, start, layers), seed).double()
    letters, answers = reversal_batch(rows, torch.Generator().manual_seed(seed))
    streams: list[Tensor] = []
    logits = model(letters, streams)
    torch.autograd.backward(F.cross_entropy(logits.flatten(0, 1), answers.flatten()))
    gradients = [_gradient_norm(layer) for layer in model.layers]
    sizes = [_root_mean_square(x) for x in streams]
    return FreshStack(sizes, gradients)


def _gradient_norm(layer: nn.Module) -> float:
    """Norm of the gradient of a layer's two sub-layers; the norms' own are left out."""
    gradients = [
        parameter.grad.flatten()
        for name, parameter in layer.named_parameters()
        if parameter.grad is not None and not name.startswith("norms")
    ]
    numbers = torch.cat(gradients)
    return _root_mean_square(numbers) * numbers.numel() ** 0.5


def _root_mean_square(numbers: Tensor) -> float:
    """Without squaring anything tiny: squares of 1e-170 are 0 even in float64."""
    largest = numbers.detach().abs().max()
    if not largest > 0.0:
        return 0.0
    return float(largest * (numbers.detach() / largest).square().mean().sqrt())


def _fresh(make: Callable[[], Reader], seed: int) -> Reader:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


# --- training -------------------------------------------------------------------------

Batch = Callable[[int, torch.Generator], tuple[Tensor, Tensor]]


def _fresh_rows(batches: Batch) -> tuple[Tensor, Tensor]:
    """512 rows to measure on, the same for every run."""
    return batches(512, torch.Generator().manual_seed(10_000))


def _train(
    model: nn.Module,
    batches: Batch,
    fresh: tuple[Tensor, Tensor],
    seed: int,
    steps: int,
    every: int,
    learning_rate: float,
    warm_up: int = 0,
    batch: int = 32,
) -> Curve:
    """Train with Adam; measure on the rows ``fresh``."""
    order = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    curve = Curve()
    for step in range(steps + 1):
        if step % every == 0:
            curve.steps.append(step)
            curve.right.append(_right(model, *fresh))
        if step == steps:
            break
        share = min(1.0, (step + 1) / warm_up) if warm_up else 1.0
        optimiser.param_groups[0]["lr"] = learning_rate * share
        letters, answers = batches(batch, order)
        optimiser.zero_grad()
        loss = F.cross_entropy(model(letters).flatten(0, 1), answers.flatten())
        torch.autograd.backward(loss)
        optimiser.step()
    return curve


@torch.no_grad()
def _right(model: nn.Module, letters: Tensor, answers: Tensor) -> float:
    return float((model(letters).argmax(dim=-1) == answers).double().mean())


def train_reversal(
    arrangement: Arrangement,
    start: Start,
    seed: int,
    layers: int = 12,
    steps: int = 160,
    every: int = 20,
    learning_rate: float = 1e-3,
    warm_up: int = 0,
    change: Callable[[Reader], None] | None = None,
) -> tuple[Reader, Curve]:
    """Train a stack to write six letters backwards.

    Parameters
    ----------
    arrangement, start, layers
        As in :class:`Reader`.
    seed
        Of the first weights and of the batches.
    steps, every, learning_rate
        Steps of Adam, 32 rows each; steps between two measurements; step size.
    warm_up
        Steps over which the step size rises from 0.
    change
        Called with the fresh model, to plant a fault in it.

    Returns
    -------
    model
        The trained model.
    curve
        Share of right places in 512 fresh rows.
    """
    model = _fresh(lambda: Reader(arrangement, start, layers), seed)
    if change is not None:
        change(model)
    fresh = _fresh_rows(reversal_batch)
    curve = _train(
        model, reversal_batch, fresh, seed, steps, every, learning_rate, warm_up
    )
    return model, curve


# --- few rows, seen often: does a norm keep a model from memorising? -------------------


def train_on_few(
    arrangement: Arrangement, rows: int, seed: int, layers: int = 2, steps: int = 400
) -> tuple[float, float]:
    """Train on the same few rows over and over, and look at fresh ones.

    Parameters
    ----------
    arrangement, layers
        As in :class:`Reader`; the matrices begin with PyTorch's default.
    rows
        How many rows there are to train on.
    seed
        Of the first weights, the rows and their order.
    steps
        Steps of Adam, 32 of the rows each.

    Returns
    -------
    seen, fresh
        Share of right places in the rows of training, and in 512 others.

    Raises
    ------
    ValueError
        If ``rows`` is below 1.
    """
    if rows < 1:
        raise ValueError(f"rows: got {rows}, wanted 1 or more")
    few = reversal_batch(rows, torch.Generator().manual_seed(20_000 + seed))

    def batches(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        which = torch.randint(rows, (count,), generator=generator)
        return few[0][which], few[1][which]

    model = _fresh(lambda: Reader(arrangement, "default", layers), seed)
    fresh = _fresh_rows(reversal_batch)
    curve = _train(model, batches, fresh, seed, steps, every=steps, learning_rate=3e-3)
    return _right(model, *few), curve.right[-1]


# --- what depth buys: following a pointer ---------------------------------------------


def hop_batch(
    hops: int, count: int, generator: torch.Generator
) -> tuple[Int[Tensor, "count 8"], Int[Tensor, "count 8"]]:
    """Draw rows in which every place points to a place; ask where ``hops`` steps lead.

    Parameters
    ----------
    hops
        Steps to follow, 1 or more. One step is what the row itself says.
    count
        How many rows.
    generator
        Source of the random numbers.

    Returns
    -------
    pointers
        Numbers 0 to 7: place ``i`` of a row points to place ``pointers[row, i]``.
    answers
        Where one stands after ``hops`` steps from each place.

    Raises
    ------
    ValueError
        If ``hops`` is below 1.

    Examples
    --------
    >>> rows, two = hop_batch(2, 1, torch.Generator().manual_seed(0))
    >>> bool((two[0] == rows[0][rows[0]]).all())
    True
    """
    if hops < 1:
        raise ValueError(f"hops: got {hops}, wanted 1 or more")
    pointers = torch.randint(LETTERS, (count, LETTERS), generator=generator)
    answers = pointers
    for _ in range(hops - 1):
        answers = pointers.gather(1, answers)
    return pointers, answers


def stops_short(steps: int, hops: int, rows: int = 50_000) -> float:
    """Score of a model that stops after ``steps`` of ``hops`` steps.

    The two places are often the same one, since paths among eight places soon run into
    each other or in a loop.

    Parameters
    ----------
    steps, hops
        How far it goes and how far it was asked to go, 1 or more.
    rows
        Random rows that are counted.

    Returns
    -------
    share
        Of places, 0 to 1.
    """
    ends = [
        hop_batch(count, rows, torch.Generator().manual_seed(0))[1]
        for count in (steps, hops)
    ]
    return float((ends[0] == ends[1]).double().mean())


def train_hops(
    layers: int,
    hops: int,
    seed: int,
    steps: int = 400,
    every: int = 20,
    learning_rate: float = 3e-3,
) -> Curve:
    """Train a pre-norm stack to follow pointers.

    Parameters
    ----------
    layers
        Depth.
    hops
        Steps to follow; see :func:`hop_batch`.
    seed
        Of the first weights and of the batches.
    steps, every, learning_rate
        Steps of Adam, 32 rows each; steps between two measurements; step size.

    Returns
    -------
    curve
        Share of right places in 512 fresh rows.
    """
    model = _fresh(lambda: Reader("pre-norm", "default", layers, LETTERS), seed)

    def batches(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return hop_batch(hops, count, generator)

    return _train(
        model, batches, _fresh_rows(batches), seed, steps, every, learning_rate
    )


# --- records --------------------------------------------------------------------------

_COMMAND = "python -m transformer_lib.experiments.normalization"
_DEPTHS = (2, 4, 8, 12, 24, 48)
_WIDGET_SEEDS = range(3)


def _note(values: dict[str, list[float]], measure: str, number: float) -> None:
    values.setdefault(measure, []).append(number)


def _write_fresh(seeds: range) -> None:
    """All arrangements and starts at 24 layers, untrained (powers of ten)."""
    values: dict[str, list[float]] = {}
    for arrangement, start in itertools.product(ARRANGEMENTS, STARTS):
        for seed in seeds:
            stack = fresh_stack(arrangement, start, 24, seed)
            for measure, number in (
                ("stream", stack.sizes[-1]),
                ("first gradient", stack.gradients[0]),
                ("last gradient", stack.gradients[-1]),
            ):
                _note(values, f"{measure}, {arrangement}, {start}", np.log10(number))
    write("normalization_fresh", _COMMAND, list(seeds), values)


def _note_curve(values: dict[str, list[float]], measure: str, curve: Curve) -> None:
    for step, right in zip(curve.steps, curve.right, strict=True):
        _note(values, f"{measure}, step {step}", right)


def _write_trained(seeds: range) -> None:
    """Twelve layers from three starts, and shallower post-norm stacks from Xavier's."""
    values: dict[str, list[float]] = {}
    for arrangement, start in itertools.product(ARRANGEMENTS[2:], STARTS):
        for seed in seeds:
            _, curve = train_reversal(arrangement, start, seed)
            _note_curve(values, f"{arrangement}, {start}", curve)
    for layers, seed in itertools.product((6, 8), seeds):
        _, curve = train_reversal(
            "post-norm", "Xavier", seed, layers=layers, steps=240, every=60
        )
        _note_curve(values, f"{layers} layers, post-norm, Xavier", curve)
    write("normalization_trained", _COMMAND, list(seeds), values)


def _write_steps(seeds: range) -> None:
    """Twelve layers with a step size of 0.01, with and without warm-up."""
    values: dict[str, list[float]] = {}
    for arrangement, warm_up in itertools.product(ARRANGEMENTS[2:], (0, 100)):
        for seed in seeds:
            _, curve = train_reversal(
                arrangement, "default", seed, learning_rate=1e-2, warm_up=warm_up
            )
            _note_curve(values, f"{arrangement}, warm-up {warm_up}", curve)
    write("normalization_steps", _COMMAND, list(seeds), values)


def _write_few(seeds: range) -> None:
    """Thirty rows of training, with and without norm."""
    values: dict[str, list[float]] = {}
    pair: tuple[Arrangement, ...] = ("skip", "pre-norm")
    for arrangement, seed in itertools.product(pair, seeds):
        seen, fresh = train_on_few(arrangement, 30, seed)
        _note(values, f"seen, {arrangement}", seen)
        _note(values, f"fresh, {arrangement}", fresh)
    write("normalization_few", _COMMAND, list(seeds), values)


def _write_hops(seeds: range) -> None:
    """Two, four and eight hops with one to four layers."""
    values: dict[str, list[float]] = {}
    for hops, layers, seed in itertools.product((2, 4, 8), (1, 2, 3, 4), seeds):
        curve = train_hops(layers, hops, seed, every=400)
        _note(values, f"{hops} hops, {layers} layers", curve.right[-1])
    write("normalization_hops", _COMMAND, list(seeds), values)


def _widget_runs() -> dict[str, object]:
    """What the widget plays: medians over three seeds, three digits."""
    runs: dict[str, dict[str, list[float]]] = {}
    for arrangement, start, layers in itertools.product(ARRANGEMENTS, STARTS, _DEPTHS):
        stacks = [fresh_stack(arrangement, start, layers, s) for s in _WIDGET_SEEDS]
        runs[f"{arrangement}, {start}, {layers}"] = {
            name: [
                float(f"{statistics.median(numbers):.3g}")
                for numbers in zip(*(getattr(s, name) for s in stacks), strict=True)
            ]
            for name in FreshStack._fields
        }
    return {
        "command": f"{_COMMAND} widget",
        "seeds": list(_WIDGET_SEEDS),
        "layers": list(_DEPTHS),
        "arrangements": list(ARRANGEMENTS),
        "starts": list(STARTS),
        "runs": runs,
    }


def _write_widget(seeds: range) -> None:
    """Write the recorded runs of the widget *Depth*; it has its own seeds."""
    file = Path(str(resources.files("transformer_lib.widgets"))) / "data"
    file.mkdir(exist_ok=True)
    text = json.dumps(_widget_runs(), separators=(",", ":"))
    (file / "normalization.json").write_text(text + "\n", encoding="utf-8")


_WRITERS: dict[str, Callable[[range], None]] = {
    "fresh": _write_fresh,
    "widget": _write_widget,
    "trained": _write_trained,
    "steps": _write_steps,
    "few": _write_few,
    "hops": _write_hops,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the records again, all or those that are named."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *_WRITERS], metavar="NAME")
    torch.set_num_threads(1)
    for name in parser.parse_args(arguments).names or _WRITERS:
        _WRITERS[name](range(10))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
