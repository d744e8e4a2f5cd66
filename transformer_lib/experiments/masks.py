"""Measurements of chapter 6: the cheat, the padding, and probes for any model.

A *writer* reads a written date and goes on, character by character:
``13.07.1914>1914-07-13#``. It is a decoder without an encoder, built of what chapters 3
to 5 have: positions, one head, a residual stream, a feed-forward network, two layers.
Two copies differ in one argument, the mask.

``python -m transformer_lib.experiments.masks`` makes the records ``masks_writer`` and
``masks_padding`` again, and the runs that the widget *Pad dial* plays
(``widgets/data/pad_dial.json``).
"""

import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib.decoding import Rerun, greedy
from transformer_lib.experiments.records import write
from transformer_lib.nn import (
    FeedForward,
    SelfAttention,
    SinusoidalPositions,
    causal_mask,
    cross_entropy,
    padding_mask,
)
from transformer_lib.tasks.dates import (
    ISO_CHARACTERS,
    ISO_LENGTH,
    NUMERIC_FORMS,
    Alphabet,
    all_dates,
    date_pairs,
    iso_classes,
    split_dates,
)

__all__ = [
    "END",
    "EXTRA_PADS",
    "SEPARATOR",
    "Dates",
    "Layer",
    "SlotReader",
    "Writer",
    "WriterCurve",
    "answer_targets",
    "bag_ceiling",
    "dates_for_seed",
    "everything",
    "exact_answers",
    "place_entropy",
    "slots_right",
    "train_slots",
    "train_writer",
    "weight_on_the_next",
    "written_answers",
    "wrong_by_neighbours",
    "wrong_by_padding",
    "wrong_by_the_future",
]

SEPARATOR = ">"
"""Stands between the written date and its ISO form."""

END = "#"
"""The character that says: I have finished."""

ALPHABET = Alphabet(f"{END}-./0123456789{SEPARATOR}")
WIDTH = 64
BATCH = 64
WARM_UP = 60
LEARNING_RATE = 5e-3


# --- the task -------------------------------------------------------------------------


class Dates(NamedTuple):
    """Dates of one split, written and in ISO form.

    Attributes
    ----------
    pairs
        (written, iso), such as ``("13.07.1914", "1914-07-13")``.
    lines
        Characters of ``written>iso#``, shape (dates, 22), padded with 0.
    written
        Characters of the written date alone, shape (dates, 10), padded with 0.
    """

    pairs: list[tuple[str, str]]
    lines: Int[Tensor, "dates n"]
    written: Int[Tensor, "dates n_written"]

    def first(self, count: int) -> "Dates":
        """The first dates alone."""
        return Dates(self.pairs[:count], self.lines[:count], self.written[:count])


@cache
def dates_for_seed(
    seed: int, train: int = 30_000, test: int = 1_000
) -> tuple[Dates, Dates]:
    """Make training and test dates in the three numeric forms; no date is in both."""
    split = split_dates(seed, train, 0, test)
    made = []
    for days in (split.train, split.test):
        pairs = date_pairs(days, NUMERIC_FORMS, seed)
        lines = [f"{written}{SEPARATOR}{iso}{END}" for written, iso in pairs]
        made.append(
            Dates(
                pairs,
                torch.from_numpy(ALPHABET.encode(lines)),
                torch.from_numpy(ALPHABET.encode([written for written, _ in pairs])),
            )
        )
    return made[0], made[1]


def answer_targets(lines: Int[Tensor, "b n"]) -> Int[Tensor, "b n_less_1"]:
    """What is to be predicted at each place but the last: the next character.

    Places before the separator hold padding, which the loss leaves out: nobody can know
    which date will be asked.

    Examples
    --------
    >>> line = torch.from_numpy(ALPHABET.encode(["19>19#"]))
    >>> [ALPHABET.decode([i]) for i in answer_targets(line)[0]]
    ['', '', '1', '9', '#']
    """
    separator = int(ALPHABET.encode([SEPARATOR])[0, 0])
    answering = (lines == separator).cumsum(dim=1)[:, :-1] > 0
    return lines[:, 1:].where(answering, Alphabet.pad_id)


def place_entropy(dates: Dates) -> float:
    """Loss of a writer that knows how often each character stands at each place.

    Such a writer has read nothing. Mean over the eleven places of an answer, in nats.
    """
    total = 0.0
    for place in range(ISO_LENGTH + 1):
        counts = Counter((iso + END)[place] for _, iso in dates.pairs).values()
        total -= sum(
            c / len(dates.pairs) * math.log(c / len(dates.pairs)) for c in counts
        )
    return total / (ISO_LENGTH + 1)


def bag_ceiling() -> float:
    """Share of dates that can be told by who knows all digits and not their order.

    All 73,049 dates; of those with the same digits at most one can be answered right.

    Examples
    --------
    >>> round(bag_ceiling(), 3)
    0.048
    """
    dates = all_dates()
    return len({"".join(sorted(day.isoformat())) for day in dates}) / len(dates)


# --- the writer -----------------------------------------------------------------------

MaskOf = Callable[[int], Bool[Tensor, "n n"] | None]
"""Number of tokens -> who may see whom."""


def everything(n: int) -> None:
    """Give no mask at all: every token sees every other."""


class Layer(nn.Module):
    """Look around, then think: one head and a feed-forward network, both added.

    Parameters
    ----------
    d
        Width of a token.
    """

    def __init__(self, d: int = WIDTH) -> None:
        super().__init__()
        self.look = SelfAttention(d)
        self.think = FeedForward(d, 4 * d)

    def forward(
        self, x: Float[Tensor, "b n d"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "b n d"]:
        """Add to each token what it read and what it made of that."""
        x = x + self.look(x, mask)
        return x + self.think(x)


class Writer(nn.Module):
    """Scores of the next character, at every place at once.

    Parameters
    ----------
    mask_of
        Who may see whom, given the number of tokens: ``causal_mask``, or
        :func:`everything`.
    positions
        Whether positions are added to the characters.
    """

    def __init__(self, mask_of: MaskOf, positions: bool = True) -> None:
        super().__init__()
        self.mask_of = mask_of
        self.characters = nn.Embedding(len(ALPHABET), WIDTH)
        self.positions = SinusoidalPositions(WIDTH) if positions else nn.Identity()
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.scores = nn.Linear(WIDTH, len(ALPHABET))

    def forward(self, ids: Int[Tensor, "b n"]) -> Float[Tensor, "b n vocab"]:
        """Score all characters as the follower of each place."""
        mask = self.mask_of(ids.shape[1])
        x = self.positions(self.characters(ids))
        for layer in self.layers:
            x = layer(x, mask)
        logits: Tensor = self.scores(x)
        return logits

    @torch.no_grad()
    def maps(self, ids: Int[Tensor, "b n"]) -> list[Float[Tensor, "b n n"]]:
        """Return the attention weights of each layer."""
        mask = self.mask_of(ids.shape[1])
        x, found = self.positions(self.characters(ids)), []
        for layer in self.layers:
            assert isinstance(layer, Layer)
            found.append(layer.look(x, mask, return_weights=True)[1])
            x = layer(x, mask)
        return found


@dataclass
class WriterCurve:
    """What is measured while a writer trains, on dates that it is not trained on.

    Attributes
    ----------
    steps
        Steps of the optimiser before each measurement of the loss.
    loss
        Mean surprise per character of the answer, in nats, no smoothing. The right
        answer so far is given (teacher forcing).
    exact_steps, exact
        Steps, and share of dates that the model then *writes* without a mistake.
    """

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    exact_steps: list[int] = field(default_factory=list)
    exact: list[float] = field(default_factory=list)


def train_writer(
    mask_of: MaskOf,
    seed: int,
    steps: int = 250,
    every: int = 10,
    exact_every: int = 50,
    positions: bool = True,
    targets_of: Callable[[Tensor], Tensor] = answer_targets,
) -> tuple[Writer, WriterCurve]:
    """Train a writer on the next character of each answer.

    Parameters
    ----------
    mask_of, positions
        As in :class:`Writer`.
    seed
        Of the dates, the initial weights and the batches.
    steps, every, exact_every
        Steps of Adam; steps between two measurements of the loss (256 dates), and
        between two of what it writes (200 dates).
    targets_of
        What is to be predicted at each place but the last.

    Returns
    -------
    model
        The trained model.
    curve
        Loss and exact match on unseen dates.
    """
    train, test = dates_for_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Writer(mask_of, positions)
    watched, asked = test.lines[:256], test.first(200)
    curve = WriterCurve()

    def loss_of(lines: Tensor) -> Tensor:
        return cross_entropy(
            model(lines[:, :-1]), targets_of(lines), pad_id=Alphabet.pad_id
        )

    def measure(step: int) -> None:
        if step % every == 0:
            with torch.no_grad():
                loss = cross_entropy(
                    model(watched[:, :-1]),
                    answer_targets(watched),
                    pad_id=Alphabet.pad_id,
                )
            curve.steps.append(step)
            curve.loss.append(loss.item())
        if step % exact_every == 0:
            curve.exact_steps.append(step)
            curve.exact.append(exact_answers(model, asked))

    _train(model, loss_of, train.lines, seed, steps, measure)
    return model, curve


def written_answers(model: nn.Module, dates: Dates) -> list[str]:
    """Let a writer answer: greedily, each character from those it has written.

    Returns
    -------
    answers
        One per date, with :data:`END` if it came; at most 11 characters.
    """
    separator, end = (int(i) for i in ALPHABET.encode([SEPARATOR + END])[0])

    def continued(source: Tensor, target: Tensor) -> Tensor:
        logits: Tensor = model(torch.cat([source, target], dim=1))
        return logits[:, source.shape[1] :]

    answers = [""] * len(dates.pairs)
    lengths = (dates.written != Alphabet.pad_id).sum(dim=1)
    for length in sorted(set(lengths.tolist())):  # so that no prompt is padded
        rows = (lengths == length).nonzero()[:, 0]
        ids = greedy(
            Rerun(continued),
            dates.written[rows, :length],
            bos_id=separator,
            eos_id=end,
            max_len=ISO_LENGTH + 1,
        )
        for row, answer in zip(rows.tolist(), ids, strict=True):
            answers[row] = ALPHABET.decode(answer)
    return answers


def exact_answers(model: nn.Module, dates: Dates) -> float:
    """Share of the dates whose ISO form the model writes without a mistake."""
    wanted = [iso + END for _, iso in dates.pairs]
    answers = written_answers(model, dates)
    right = (answer == want for answer, want in zip(answers, wanted, strict=True))
    return sum(right) / len(wanted)


def weight_on_the_next(model: Writer, dates: Dates) -> float:
    """How much weight an answering place gives to the character it is to predict.

    That character stands one place to its right. Mean over the ten digits and hyphens of
    100 answers, in the layer where it is largest.
    """
    means = []
    for weights in model.maps(dates.lines[:100, :-1]):
        ahead = weights.diagonal(1, 1, 2)  # place t on place t + 1
        asked = answer_targets(dates.lines[:100, :-1]) != Alphabet.pad_id
        means.append(float(ahead[asked].mean()))
    return max(means)


# --- the reader with slots: padding ---------------------------------------------------

EXTRA_PADS = tuple(range(31))
"""How much more padding the Pad dial adds to every text."""


class SlotReader(nn.Module):
    """The scoreboard's task: ten slots read a written date, all at once.

    Slots and characters all see each other; there is no triangle here.

    Parameters
    ----------
    hide_padding
        Whether the padding is hidden, as a key, from everybody.
    """

    def __init__(self, hide_padding: bool) -> None:
        super().__init__()
        self.hide_padding = hide_padding
        self.characters = nn.Embedding(len(ALPHABET), WIDTH)
        self.positions = SinusoidalPositions(WIDTH)
        self.slots = nn.Parameter(torch.randn(ISO_LENGTH, WIDTH))
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.scores = nn.Linear(WIDTH, len(ISO_CHARACTERS))

    def forward(self, ids: Int[Tensor, "b n"]) -> Float[Tensor, "b 10 11"]:
        """Score the eleven characters of ISO dates for each slot."""
        characters = self.positions(self.characters(ids))
        x = torch.cat([self.slots.expand(len(ids), -1, -1), characters], dim=1)
        mask = None
        if self.hide_padding:
            real = padding_mask(ids, Alphabet.pad_id)[:, 0]  # (b, 1, n): no heads here
            mask = F.pad(real, (ISO_LENGTH, 0), value=True)
        for layer in self.layers:
            x = layer(x, mask)
        logits: Tensor = self.scores(x[:, :ISO_LENGTH])
        return logits


def train_slots(hide_padding: bool, seed: int, steps: int = 300) -> SlotReader:
    """Train a reader with ten slots; short dates are padded to the longest.

    Parameters
    ----------
    hide_padding
        As in :class:`SlotReader`.
    seed
        Of the dates, the initial weights and the batches.
    steps
        Steps of Adam.
    """
    train, _ = dates_for_seed(seed)
    classes = torch.from_numpy(iso_classes([iso for _, iso in train.pairs]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SlotReader(hide_padding)
    joined = torch.cat([train.written, classes], dim=1)
    longest = train.written.shape[1]

    def loss_of(rows: Tensor) -> Tensor:
        return cross_entropy(model(rows[:, :longest]), rows[:, longest:])

    _train(model, loss_of, joined, seed, steps)
    return model


@torch.no_grad()
def slots_right(
    model: nn.Module, dates: Dates, extra: int = 0, alone: bool = False
) -> Bool[Tensor, " dates"]:
    """Tell which dates are read right when every text gets more padding.

    Parameters
    ----------
    model
        Gives logits of ten slots.
    dates
        What to read.
    extra
        Columns of padding added behind the longest text, 0 or more.
    alone
        Read each date without company instead: no padding at all.

    Raises
    ------
    ValueError
        If ``extra`` is negative.
    """
    if extra < 0:
        raise ValueError(f"extra: got {extra}, wanted 0 or more")
    wanted = torch.from_numpy(iso_classes([iso for _, iso in dates.pairs]))
    if not alone:
        padded = F.pad(dates.written, (0, extra), value=Alphabet.pad_id)
        return (model(padded).argmax(dim=-1) == wanted).all(dim=1)
    right = torch.zeros(len(wanted), dtype=torch.bool)
    lengths = (dates.written != Alphabet.pad_id).sum(dim=1)
    for length in sorted(set(lengths.tolist())):
        rows = lengths == length
        answers = model(dates.written[rows, :length]).argmax(dim=-1)
        right[rows] = (answers == wanted[rows]).all(dim=1)
    return right


# --- probes: point them at any model --------------------------------------------------

Model = Callable[[Tensor], Tensor]
"""Token numbers, shape (b, n), to an array whose first axis is the batch."""


@torch.no_grad()
def wrong_by_the_future(
    model: Model, ids: Int[Tensor, "b n"], vocab_size: int, seed: int = 0
) -> float:
    """How much outputs move when only *later* tokens change.

    For each place in turn, all tokens behind it are drawn anew; the outputs up to that
    place must stay as they are.

    Parameters
    ----------
    model
        Gives one output per token: shape ``(b, n, ...)``. Dropout must be off.
    ids
        Some sequences without padding.
    vocab_size
        New tokens are drawn from 1 to this number, not included (0 is padding).
    seed
        Of the new tokens.

    Returns
    -------
    change
        The largest absolute change. 0, up to rounding, if nothing looks ahead.

    Raises
    ------
    ValueError
        If the outputs are not one per token, the model does not repeat itself, or there
        are fewer than two tokens.
    """
    before = _steady(model, ids)
    n = ids.shape[1]
    if n < 2:
        raise ValueError(f"ids: got {n} tokens, wanted two or more")
    if before.ndim < 2 or before.shape[1] != n:
        raise ValueError(
            f"model: gave shape {tuple(before.shape)} for {n} tokens, wanted one output "
            "per token, (b, n, ...)"
        )
    generator = torch.Generator().manual_seed(seed)
    worst = 0.0
    for place in range(n - 1):
        changed = ids.clone()
        later = ids[:, place + 1 :]
        step = torch.randint(1, vocab_size - 1, later.shape, generator=generator)
        changed[:, place + 1 :] = (later - 1 + step) % (vocab_size - 1) + 1
        after = model(changed)
        worst = max(worst, _largest(before[:, : place + 1], after[:, : place + 1]))
    return worst


@torch.no_grad()
def wrong_by_padding(
    model: Model,
    ids: Int[Tensor, "b n"],
    pad_id: int = 0,
    extra: Sequence[int] = (1, 12),
) -> float:
    """How much outputs move when more padding is put behind every sequence.

    Parameters
    ----------
    model
        Gives one output per token, or outputs whose number does not depend on ``n``.
        Dropout must be off.
    ids
        Some sequences, padded or not.
    pad_id
        The number that fills up.
    extra
        Numbers of columns to add.

    Returns
    -------
    change
        The largest absolute change at places that are not padding.

    Raises
    ------
    ValueError
        If the model does not repeat itself.
    """
    before = _steady(model, ids)
    one_per_token = before.ndim >= 2 and before.shape[1] == ids.shape[1]
    worst = 0.0
    for more in extra:
        after = model(F.pad(ids, (0, more), value=pad_id))
        if one_per_token and after.shape[1] == ids.shape[1] + more:
            real = ids != pad_id
            kept, moved = before[real], after[:, : ids.shape[1]][real]
        else:
            kept, moved = before, after
        worst = max(worst, _largest(kept, moved))
    return worst


@torch.no_grad()
def wrong_by_neighbours(model: Model, ids: Int[Tensor, "b n"], seed: int = 0) -> float:
    """How much the outputs of a sequence move when its batch changes.

    The batch is shuffled, and each sequence is also run alone.

    Parameters
    ----------
    model
        Any. Dropout must be off.
    ids
        Two sequences or more.
    seed
        Of the order.

    Returns
    -------
    change
        The largest absolute change.

    Raises
    ------
    ValueError
        If the model does not repeat itself, or there are fewer than two sequences.
    """
    if len(ids) < 2:
        raise ValueError(f"ids: got {len(ids)} sequences, wanted two or more")
    before = _steady(model, ids)
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed))
    shuffled = _largest(before[order], model(ids[order]))
    alone = torch.cat([model(ids[i : i + 1]) for i in range(len(ids))])
    return max(shuffled, _largest(before, alone))


def _steady(model: Model, ids: Tensor) -> Tensor:
    """The outputs, if the model gives them twice."""
    before, again = model(ids), model(ids)
    if not torch.equal(before.isnan(), again.isnan()) or _largest(before, again) > 0:
        raise ValueError(
            "model: gave two different outputs for the same tokens, wanted a model that "
            "repeats itself; switch dropout off with model.eval()"
        )
    return before


def _largest(one: Tensor, other: Tensor) -> float:
    """Largest absolute difference; infinite if only one of the two is NaN."""
    if one.numel() == 0:
        return 0.0
    both = one.isnan() & other.isnan()
    difference = (one - other).abs().masked_fill(both, 0.0)
    return float(difference.nan_to_num(nan=math.inf).max())


# --- training -------------------------------------------------------------------------


def _train(
    model: nn.Module,
    loss_of: Callable[[Tensor], Tensor],
    rows: Tensor,
    seed: int,
    steps: int,
    measure: Callable[[int], None] = lambda step: None,
) -> None:
    """Adam, with 60 steps of warm-up and then a half cosine."""
    if steps < 1:
        raise ValueError(f"steps: got {steps}, wanted 1 or more")
    order = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98)
    )
    for step in range(steps + 1):
        measure(step)
        if step == steps:
            break
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * _schedule(step, steps)
        batch = rows[torch.randint(len(rows), (BATCH,), generator=order)]
        optimizer.zero_grad()
        torch.autograd.backward(loss_of(batch))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def _schedule(step: int, steps: int) -> float:
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / max(steps - WARM_UP, 1)))


# --- records --------------------------------------------------------------------------

_COMMAND = "python -m transformer_lib.experiments.masks"
_NO_POSITIONS_STEPS = 600


def _write_writer(seeds: range) -> None:
    """Both copies, and one without positions."""
    values: dict[str, list[float]] = {}

    def note(measure: str, value: float) -> None:
        values.setdefault(measure, []).append(value)

    for seed in seeds:
        _, test = dates_for_seed(seed)
        curves = {}
        for name, mask_of in (("triangle", causal_mask), ("no mask", everything)):
            model, curve = train_writer(mask_of, seed, exact_every=1000)
            curves[name] = curve
            note(f"exact, {name}", exact_answers(model, test))
            for step in (50, 100, 150, 200, 250):
                note(f"loss, {name}, step {step}", curve.loss[step // 10])
            note(f"weight on the next, {name}", weight_on_the_next(model, test))
        lower = [
            cheat < honest
            for cheat, honest in zip(
                curves["no mask"].loss[5:], curves["triangle"].loss[5:], strict=True
            )
        ]
        note("no mask lower, share from step 50 on", sum(lower) / len(lower))
        steps = _NO_POSITIONS_STEPS
        model, _ = train_writer(
            causal_mask, seed, steps, every=steps, exact_every=steps, positions=False
        )
        note("exact, triangle and no positions", exact_answers(model, test))
        print(seed, {name: given[-1] for name, given in values.items()}, flush=True)
    write("masks_writer", _COMMAND, list(seeds), values)


def _write_padding(seeds: range) -> None:
    """Readers with and without the padding mask; also what the Pad dial plays."""
    values: dict[str, list[float]] = {}
    shown: dict[str, Any] = {}
    for seed in seeds:
        _, test = dates_for_seed(seed)
        for name, hide in (("mask", True), ("no mask", False)):
            model = train_slots(hide, seed)
            alone = slots_right(model, test, alone=True).double().mean().item()
            values.setdefault(f"exact, {name}, alone", []).append(alone)
            for extra in EXTRA_PADS:
                right = slots_right(model, test, extra).double().mean().item()
                values.setdefault(f"exact, {name}, {extra} pads", []).append(right)
            if seed == seeds[0]:
                shown[name] = _examples(model, test)
        print(seed, {k: v[-1] for k, v in values.items() if " 30 " in k}, flush=True)
    write("masks_padding", _COMMAND, list(seeds), values)
    data = {
        "command": _COMMAND,
        "seeds": list(seeds),
        "pads": list(EXTRA_PADS),
        "dates": [list(test_pair) for test_pair in shown["mask"][0]],
        "models": [
            {
                "name": name,
                **{
                    measure: [
                        round(summary(values[f"exact, {name}, {extra} pads"]), 4)
                        for extra in EXTRA_PADS
                    ]
                    for measure, summary in (
                        ("median", statistics.median), ("low", min), ("high", max),
                    )
                },
                "answers": shown[name][1],
            }
            for name in ("mask", "no mask")
        ],
    }  # fmt: skip
    folder = resources.files("transformer_lib.widgets") / "data"
    path = Path(str(folder)) / "pad_dial.json"
    path.parent.mkdir(exist_ok=True)
    text = json.dumps(data, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


@torch.no_grad()
def _examples(
    model: nn.Module, dates: Dates
) -> tuple[list[tuple[str, str]], list[list[str]]]:
    """The first date of each form, and what the model answers at each padding."""
    pairs = [
        next(pair for pair in dates.pairs if mark(pair[0]))
        for mark in (lambda w: "." in w, lambda w: "/" in w, str.isdigit)
    ]
    ids = torch.from_numpy(ALPHABET.encode([written for written, _ in pairs]))
    answers = []
    for extra in EXTRA_PADS:
        best = model(F.pad(ids, (0, extra), value=Alphabet.pad_id)).argmax(dim=-1)
        answers.append(["".join(ISO_CHARACTERS[i] for i in row) for row in best])
    return pairs, answers


if __name__ == "__main__":
    torch.set_num_threads(1)
    _write_writer(range(10))
    _write_padding(range(10))
