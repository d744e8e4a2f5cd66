"""Measurements of chapter 9: the whole Transformer on dates, less a part or with a fault.

The encoder reads a date in one of sixteen written forms, the decoder writes its ISO form
between a start and an end character. The model is
:class:`transformer_lib.nn.Transformer`; a variant is the same model with one part taken
out before training, or with one fault of wiring planted.

``python -m transformer_lib.experiments.encoder_decoder`` makes the records
``encoder_decoder_leave_one_out``, ``encoder_decoder_more`` and ``encoder_decoder_faults``
again.
"""

import argparse
import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib.experiments.records import write
from transformer_lib.nn import Transformer, TransformerConfig
from transformer_lib.tasks.dates import (
    WRITTEN_FORMS,
    Alphabet,
    all_dates,
    date_pairs,
    split_dates,
    write_date,
)

__all__ = [
    "END",
    "FAULTS",
    "START",
    "STEPS",
    "VARIANTS",
    "Curve",
    "Dates",
    "alphabet",
    "blind_floor",
    "dates_for_seed",
    "exact_match",
    "make_model",
    "planted",
    "train",
    "written",
]

START = "^"
"""What the decoder reads first."""

END = "#"
"""What the decoder writes last."""

ANSWER_LENGTH = 11
"""Characters that the decoder writes: ten of the date, and the end."""

WIDTH = 48
BATCH = 32
WARM_UP = 60
LEARNING_RATE = 4e-3
STEPS = 400
"""Training steps of every variant."""

POOL = 8
"""Batches that are drawn together and sorted by length, so that little is padding."""


# --- the task -------------------------------------------------------------------------


class Dates(NamedTuple):
    """Dates of one split, written and in ISO form.

    Attributes
    ----------
    pairs
        (written, iso), such as ``("July 13, 1914", "1914-07-13")``.
    source
        Characters of the written dates, shape (dates, longest), padded with 0.
    target
        Characters of ``^iso#``, shape (dates, 12).
    """

    pairs: list[tuple[str, str]]
    source: Int[Tensor, "dates n_s"]
    target: Int[Tensor, "dates n_t"]


def alphabet() -> Alphabet:
    """Make one alphabet for both sides: all sixteen forms, ISO, start and end.

    Examples
    --------
    >>> letters = alphabet()
    >>> START in letters.characters, "월" in letters.characters
    (True, True)
    """
    days = all_dates()[:400]  # every weekday, every month
    texts = [write_date(day, form) for day in days for form in WRITTEN_FORMS]
    return Alphabet.of([START, END, "0123456789-", *texts])


@functools.lru_cache(maxsize=2)
def dates_for_seed(
    seed: int, train: int = 30_000, test: int = 500
) -> tuple[Alphabet, Dates, Dates]:
    """Make alphabet, training and test dates; no date is in both, in whatever form."""
    letters = alphabet()
    split = split_dates(seed, train, 0, test)
    made = []
    for days in (split.train, split.test):
        pairs = date_pairs(days, WRITTEN_FORMS, seed)
        lines = [f"{START}{iso}{END}" for _, iso in pairs]
        made.append(
            Dates(
                pairs,
                torch.from_numpy(letters.encode([text for text, _ in pairs])),
                torch.from_numpy(letters.encode(lines)),
            )
        )
    return letters, made[0], made[1]


def blind_floor() -> float:
    """Mean surprise per character of a writer that knows all dates, and not which one.

    Each of the 73,049 dates is equally likely and eleven characters long, its end
    included.

    Returns
    -------
    float
        In nats per character.
    """
    return math.log(len(all_dates())) / ANSWER_LENGTH


# --- the model, and the same with a part left out -------------------------------------


class _Nothing(nn.Module):
    """Stands in for a sub-layer that is left out: it adds zero."""

    def forward(self, x: Tensor, *_: Any, **__: Any) -> Tensor:
        return torch.zeros_like(x)


class _NoSkip(nn.Module):
    """A sub-layer that reads its input normalised and is not added to it."""

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self.norm = whole.norm

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return sublayer(self.norm(x))


def _layers(model: Transformer) -> Iterator[nn.Module]:
    yield from model.encoder.layers
    yield from model.decoder.layers


def _no_network(model: Transformer) -> None:
    for layer in _layers(model):
        layer.feed_forward = _Nothing()


def _no_look_at_the_source(model: Transformer) -> None:
    for layer in model.decoder.layers:
        layer.cross_attention = _Nothing()


def _no_look_at_the_answer(model: Transformer) -> None:
    for layer in model.decoder.layers:
        layer.self_attention = _Nothing()


def _no_norm(model: Transformer) -> None:
    for name in [name for name, _ in model.named_modules()]:
        if name.endswith("norm"):
            owner = model.get_submodule(name.rpartition(".")[0])
            setattr(owner, "norm", nn.Identity())  # noqa: B010 - mypy knows no Identity there


def _no_skip(model: Transformer) -> None:
    for layer in _layers(model):
        for name, module in list(layer.named_children()):
            if name.startswith("residual"):
                setattr(layer, name, _NoSkip(module))


def _nothing_left_out(_: Transformer) -> None:
    pass


class _Variant(NamedTuple):
    changes: dict[str, Any]
    """Of the configuration."""
    remove: Callable[[Transformer], None] = _nothing_left_out


VARIANTS: dict[str, _Variant] = {
    "everything": _Variant({}),
    "no positions": _Variant({"positions": "none"}),
    "no feed-forward": _Variant({}, _no_network),
    "one head": _Variant({"num_heads": 1}),
    "no skip": _Variant({}, _no_skip),
    "no norm": _Variant({}, _no_norm),
    "no look at the answer so far": _Variant({}, _no_look_at_the_answer),
    "no look at the source": _Variant({}, _no_look_at_the_source),
}
"""Name -> how the model differs from the whole one."""


# --- the same with a fault of wiring, which leaves every shape as it was --------------


class _Triangle(nn.Module):
    """Cross-attention that gets the target's mask: place t sees source tokens 0 to t."""

    def __init__(self, whole: nn.Module) -> None:
        super().__init__()
        self.whole = whole

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        *_: Any,
        **more: Any,
    ) -> Any:
        past = torch.ones(x.shape[1], memory.shape[1], dtype=torch.bool).tril()
        return self.whole(x, memory, past if mask is None else mask & past, **more)


class _Beside(nn.Module):
    """Cross-attention that reads the encoder layer of its own height."""

    def __init__(self, whole: nn.Module, heights: list[Tensor], place: int) -> None:
        super().__init__()
        self.whole, self.heights, self.place = whole, heights, place

    def forward(self, x: Tensor, _: Tensor, *more: Any, **named: Any) -> Any:
        return self.whole(x, self.heights[self.place], *more, **named)


def _triangle_in_the_encoder(model: Transformer) -> None:
    read = model.encoder.forward
    model.encoder.forward = functools.partial(read, is_causal=True)  # type: ignore[method-assign]


def _triangle_in_cross_attention(model: Transformer) -> None:
    for layer in model.decoder.layers:
        layer.cross_attention = _Triangle(cast("nn.Module", layer.cross_attention))


def _triangle_in_both(model: Transformer) -> None:
    _triangle_in_the_encoder(model)
    _triangle_in_cross_attention(model)


def _layer_beside_layer(model: Transformer) -> None:
    heights: list[Tensor] = []
    encoder = model.encoder

    def read(x: Tensor, mask: Tensor | None = None, **_: Any) -> Tensor:
        heights.clear()
        for layer in encoder.layers:
            x = layer(x, mask)
            heights.append(x if encoder.norm is None else encoder.norm(x))
        return heights[-1]

    encoder.forward = read  # type: ignore[assignment, method-assign]
    for place, layer in enumerate(model.decoder.layers):
        whole = cast("nn.Module", layer.cross_attention)
        layer.cross_attention = _Beside(whole, heights, place)


def _one_norm_behind_the_sum(model: Transformer) -> None:
    for layer in model.encoder.layers:
        layer.residual_2.norm_first = False  # type: ignore[union-attr]
    for layer in model.decoder.layers:
        layer.residual_3.norm_first = False  # type: ignore[union-attr]


def _no_norm_behind_the_stacks(model: Transformer) -> None:
    model.encoder.norm = model.decoder.norm = None


FAULTS: dict[str, Callable[[Transformer], None]] = {
    "triangle in the encoder": _triangle_in_the_encoder,
    "triangle in cross-attention": _triangle_in_cross_attention,
    "triangle in both": _triangle_in_both,
    "layer beside layer": _layer_beside_layer,
    "one norm behind the sum": _one_norm_behind_the_sum,
    "no norm behind the stacks": _no_norm_behind_the_stacks,
}
"""Name -> what plants the fault in a model of :func:`make_model`."""


def planted(model: Transformer, fault: str) -> Transformer:
    """Copy a model, its weights included, and plant a fault in the copy.

    Parameters
    ----------
    model
        Of :func:`make_model`, trained or not.
    fault
        A key of :data:`FAULTS`.

    Returns
    -------
    copy
        The same weights, wired wrongly.

    Raises
    ------
    ValueError
        If there is no such fault.
    """
    if fault not in FAULTS:
        raise ValueError(f"fault: got {fault!r}, wanted one of {', '.join(FAULTS)}")
    twin = copy.deepcopy(model)
    FAULTS[fault](twin)
    return twin


def make_model(variant: str, num_ids: int, seed: int = 0) -> Transformer:
    """Make an untrained model: whole, with a part left out, or with a fault.

    Parameters
    ----------
    variant
        A key of :data:`VARIANTS` or :data:`FAULTS`.
    num_ids
        Size of the shared vocabulary.
    seed
        Of the first weights.

    Returns
    -------
    model
        Width 48, four heads, two and two layers, pre-norm.

    Raises
    ------
    ValueError
        If there is no such variant.
    """
    known = {
        **VARIANTS,
        **{name: _Variant({}, plant) for name, plant in FAULTS.items()},
    }
    if variant not in known:
        raise ValueError(f"variant: got {variant!r}, wanted one of {', '.join(known)}")
    chosen = known[variant]
    sizes = {
        "vocab_size": num_ids,
        "d_model": WIDTH,
        "num_heads": 4,
        "d_ff": 4 * WIDTH,
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "max_len": 64,
        "dropout": 0.0,
        "norm_first": True,
    }
    config = TransformerConfig(**{**sizes, **chosen.changes})
    model = Transformer(config, torch.Generator().manual_seed(seed))
    chosen.remove(model)
    return model


# --- training and reading -------------------------------------------------------------


class Curve(NamedTuple):
    """What was measured on the way.

    Attributes
    ----------
    steps
        Steps at which the test dates were read.
    right
        Share of the test dates that are right, at each.
    losses
        Loss of every training batch, in nats per character.
    """

    steps: list[int]
    right: list[float]
    losses: list[float]


@torch.no_grad()
def exact_match(model: Transformer, dates: Dates) -> float:
    """Share of the dates that the model would write without a mistake.

    One pass with the true answer as the decoder's input is enough. Up to the first
    mistake a model that writes on its own has read the same characters, so it writes all
    of a date right exactly when each true character comes first after the true ones.

    Parameters
    ----------
    model
        Any variant.
    dates
        What is asked.

    Returns
    -------
    share
        From 0 to 1.
    """
    best = model(dates.source, dates.target[:, :-1]).argmax(dim=-1)
    return float((best == dates.target[:, 1:]).all(dim=1).double().mean())


@torch.no_grad()
def written(
    model: Transformer,
    source: Int[Tensor, "b n_s"],
    letters: Alphabet,
    source_mask: Tensor | None = None,
) -> list[str]:
    """Let the model write on its own, always the likeliest character next.

    Parameters
    ----------
    model
        Any variant.
    source
        Characters of the written dates, padded with 0.
    letters
        The alphabet.
    source_mask
        As in :meth:`Transformer.forward`; ``None`` hides the padding.

    Returns
    -------
    texts
        What it wrote after the start, eleven characters each.
    """
    first = letters.encode([START])[0, 0]
    answer = torch.full((len(source), 1), int(first))
    mask = model.source_mask(source, source_mask)
    memory = model.encode(source, mask)
    for _ in range(ANSWER_LENGTH):
        hidden = model.decode(answer, memory, mask)[:, -1]
        following = (hidden @ model.head.T).argmax(dim=-1, keepdim=True)
        answer = torch.cat([answer, following], dim=1)
    return [letters.decode(row[1:]) for row in answer]


def _batches(dates: Dates, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless batches of dates of about one length."""
    order = torch.Generator().manual_seed(seed)
    lengths = (dates.source != Alphabet.pad_id).sum(dim=1)
    while True:
        pool = torch.randint(len(lengths), (POOL * BATCH,), generator=order)
        rows = pool[lengths[pool].argsort()].view(POOL, BATCH)
        for row in rows[torch.randperm(POOL, generator=order)]:
            yield dates.source[row][:, : int(lengths[row].max())], dates.target[row]


def train(
    variant: str,
    seed: int = 0,
    steps: int = STEPS,
    every: int = 100,
    targets: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None,
) -> tuple[Transformer, Curve]:
    """Train a model, whole or with a part left out, on dates in sixteen forms.

    Parameters
    ----------
    variant
        A key of :data:`VARIANTS` or :data:`FAULTS`.
    seed
        Decides split, forms, first weights and batches.
    steps
        Training steps, 32 dates each.
    every
        Steps between two looks at the test dates.
    targets
        Makes the decoder's input and the labels from ``^iso#``; ``None`` shifts them as
        :meth:`Transformer.loss` does. For planting faults.

    Returns
    -------
    model
        The trained model.
    curve
        What was measured.

    Raises
    ------
    ValueError
        If there is no such variant or ``steps`` is below 1.
    """
    if steps < 1:
        raise ValueError(f"steps: got {steps}, wanted 1 or more")
    letters, seen, unseen = dates_for_seed(seed)
    model = make_model(variant, len(letters), seed).train()
    optimiser = torch.optim.Adam(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), fused=True
    )
    curve = Curve([0], [exact_match(model, unseen)], [])
    for step, (source, target) in zip(range(steps), _batches(seen, seed)):  # noqa: B905
        optimiser.param_groups[0]["lr"] = LEARNING_RATE * _schedule(step, steps)
        optimiser.zero_grad()
        loss = _loss(model, source, target, targets)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        curve.losses.append(float(loss.detach()))
        if (step + 1) % every == 0 or step + 1 == steps:
            curve.steps.append(step + 1)
            curve.right.append(exact_match(model, unseen))
    return model.eval(), curve


def _loss(
    model: Transformer,
    source: Tensor,
    target: Tensor,
    targets: Callable[[Tensor], tuple[Tensor, Tensor]] | None,
) -> Float[Tensor, ""]:
    if targets is None:
        return model.loss(source, target)
    inputs, labels = targets(target)
    logits = model(source, inputs)
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def _schedule(step: int, steps: int) -> float:
    """Factor on the learning rate: rises over WARM_UP steps, then a half cosine."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / max(steps - WARM_UP, 1)))


# --- records --------------------------------------------------------------------------

_COMMAND = "python -m transformer_lib.experiments.encoder_decoder"
_PARTS = ("everything", "no positions", "no feed-forward", "one head")
_MORE = ("no skip", "no norm", "no look at the answer so far", "no look at the source")


def _write(name: str, variants: Sequence[str], seeds: range) -> None:
    values: dict[str, list[float]] = {}
    for seed in seeds:
        for variant in variants:
            model, curve = train(variant, seed)
            for step, right in zip(curve.steps, curve.right, strict=True):
                values.setdefault(f"right, {variant}, step {step}", []).append(right)
            last = sum(curve.losses[-50:]) / 50
            values.setdefault(f"loss, {variant}", []).append(last)
            size = values.setdefault(f"parameters, {variant}", [])
            size.append(model.num_parameters())
            print(variant, seed, curve.right, round(last, 3), flush=True)
    write(name, f"{_COMMAND} {name.removeprefix('encoder_decoder_')}", seeds, values)


_WRITERS: dict[str, Callable[[], None]] = {
    "leave_one_out": lambda: _write("encoder_decoder_leave_one_out", _PARTS, range(10)),
    "more": lambda: _write("encoder_decoder_more", _MORE, range(3)),
    "faults": lambda: _write("encoder_decoder_faults", tuple(FAULTS), range(10)),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the records again, all or those that are named."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *_WRITERS], metavar="NAME")
    torch.set_num_threads(1)
    for name in parser.parse_args(arguments).names or _WRITERS:
        _WRITERS[name]()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
