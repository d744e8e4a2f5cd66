"""One task from the first chapter to the last: a written date to its ISO form.

The text is one of three numeric forms (``13.07.1914``, ``1914/07/13``, ``19140713``),
read character by character. Ten *answer slots*, one per character of the ISO form, are
each classified into one of eleven characters, all at once: nothing is generated, so
the first chapter's model can play too. A date is right when all ten slots are.

Every row of the scoreboard is one entry of :data:`ROWS`. A later chapter adds an entry
here and in :data:`transformer_lib.exercises.scoreboard.MODELS`, chooses the row's one
free number with ``python -m transformer_lib.experiments.scoreboard --tune NAME`` and
runs the command without arguments to make the record again.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.experiments import records
from transformer_lib.experiments.lookup import slot_votes
from transformer_lib.tasks.dates import (
    ISO_CHARACTERS,
    ISO_LENGTH,
    NUMERIC_FORMS,
    Alphabet,
    date_pairs,
    iso_classes,
    split_dates,
)
from transformer_lib.tasks.months import letter_pair_vectors

__all__ = [
    "LEARNING_RATES",
    "ROWS",
    "STEPS",
    "TEMPERATURES",
    "AttentionRow",
    "Examples",
    "LookupRow",
    "RecurrenceRow",
    "Result",
    "dates_for_seed",
    "row",
    "run",
    "tune",
]

STEPS = 300
"""Training steps of every row that trains: a budget that separates the models."""

TRAINING_DATES = 30_000
VALIDATION_DATES = 1_000
TEST_DATES = 1_000
LEARNING_RATES = (1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 4e-2)
"""What :func:`tune` tries for a row that trains."""

TEMPERATURES = (1 / 5, 1 / 10, 1 / 20, 1 / 30, 1 / 50)
"""What :func:`tune` tries for a row that looks up."""

BATCH_SIZE = 64
WARM_UP = 60
"""Steps over which the learning rate rises; after them it falls along a cosine."""


class Examples(NamedTuple):
    """Dates of one split: texts, character ids, and the class of each answer slot."""

    texts: list[str]
    ids: Tensor
    """Shape (dates, longest), padded with 0."""
    slots: Tensor
    """Shape (dates, 10)."""


class Result(NamedTuple):
    """What one row scores on unseen dates."""

    exact_match: float
    """Share of the dates with all ten characters right, 0 to 1."""
    character_accuracy: float
    """Share of the characters that are right, 0 to 1."""
    parameters: int
    """Numbers that training adjusts."""


@dataclass(frozen=True)
class RecurrenceRow:
    """An LSTM reads the characters, then ten learned slot vectors, in that order.

    The slots follow the text because this model sees nothing to its right; the state
    after each slot is classified. The forget gates start with bias 1.
    """

    width: int = 64
    learning_rate: float = 2e-2


@dataclass(frozen=True)
class LookupRow:
    """Soft lookup among all training dates: keys are letter pairs, values ISO dates.

    Nothing is trained. Each slot answers with the character of the highest summed
    weight.
    """

    temperature: float = 1 / 20


@dataclass(frozen=True)
class AttentionRow:
    """Ten learned slot vectors stand before the characters; all attend to all.

    Each field switches one part of the Transformer on.
    """

    width: int = 64
    num_heads: int = 1
    num_layers: int = 1
    positions: bool = False
    """Sinusoids are added to the character vectors."""
    residual: bool = False
    """Each sub-layer is added to what it read."""
    layer_norm: bool = False
    """Each sub-layer reads its input normalised; one more norm after the last."""
    feed_forward: bool = False
    """A second sub-layer: ReLU between two linear maps, four times as wide."""
    padding_mask: bool = False
    """Padding is hidden; else it is one more character, at every text's end."""
    learning_rate: float = 2e-3


Row = RecurrenceRow | LookupRow | AttentionRow

ROWS: dict[str, Row] = {
    "recurrence": RecurrenceRow(),
    "lookup": LookupRow(),
    "attention": AttentionRow(learning_rate=1e-2),
    "positions": AttentionRow(positions=True, learning_rate=1e-2),
    "feed_forward": AttentionRow(
        positions=True, residual=True, feed_forward=True, learning_rate=5e-3
    ),
    "masks": AttentionRow(
        positions=True,
        residual=True,
        feed_forward=True,
        padding_mask=True,
        learning_rate=1e-2,
    ),
    "multi_head": AttentionRow(
        positions=True,
        residual=True,
        feed_forward=True,
        padding_mask=True,
        num_heads=4,
        learning_rate=2e-2,
    ),
    "normalization": AttentionRow(
        positions=True,
        residual=True,
        feed_forward=True,
        padding_mask=True,
        num_heads=4,
        layer_norm=True,
        num_layers=2,
        learning_rate=5e-3,
    ),
}
"""Chapter topic -> the best model up to that chapter. Later chapters add theirs."""


def dates_for_seed(seed: int) -> tuple[Alphabet, Examples, Examples, Examples]:
    """Make the task: alphabet, training, validation and test examples.

    No date is in two of the three, in whatever form.
    """
    split = split_dates(seed, TRAINING_DATES, VALIDATION_DATES, TEST_DATES)
    pairs = [date_pairs(dates, NUMERIC_FORMS, seed) for dates in split]
    alphabet = Alphabet("./0123456789")
    train, validation, test = (
        Examples(
            texts=[text for text, _ in part],
            ids=torch.from_numpy(alphabet.encode([text for text, _ in part])),
            slots=torch.from_numpy(iso_classes([iso for _, iso in part])),
        )
        for part in pairs
    )
    return alphabet, train, validation, test


def row(name: str, seed: int = 0, steps: int = STEPS) -> Result:
    """Run one row of the scoreboard.

    Parameters
    ----------
    name
        A key of :data:`ROWS`.
    seed
        Decides split, forms, initial weights and the order of the batches.
    steps
        Training steps; rows that train nothing ignore it.

    Returns
    -------
    Result
        Measured on 1,000 dates that the model has never seen.

    Raises
    ------
    ValueError
        If there is no row ``name`` or ``steps`` is below 1.
    """
    _known(name)
    return run(ROWS[name], seed, steps)


def run(configuration: Row, seed: int = 0, steps: int = STEPS) -> Result:
    """Run any configuration, named in :data:`ROWS` or not; see :func:`row`."""
    alphabet, train, _, test = dates_for_seed(seed)
    return _run(configuration, alphabet, train, test, seed, steps)


def tune(name: str, seed: int = 0, steps: int = STEPS) -> dict[float, Result]:
    """Run a row with each candidate for its one free number, on *validation* dates.

    Returns
    -------
    dict
        Learning rate (or, for a row that looks up, temperature) -> what it scored. The
        entry in :data:`ROWS` holds the one that scored the highest exact match.

    Raises
    ------
    ValueError
        If there is no row ``name`` or ``steps`` is below 1.
    """
    _known(name)
    chosen = ROWS[name]
    alphabet, train, validation, _ = dates_for_seed(seed)
    candidates: dict[float, Row] = (
        {t: replace(chosen, temperature=t) for t in TEMPERATURES}
        if isinstance(chosen, LookupRow)
        else {rate: replace(chosen, learning_rate=rate) for rate in LEARNING_RATES}
    )
    return {
        number: _run(configuration, alphabet, train, validation, seed, steps)
        for number, configuration in candidates.items()
    }


def _known(name: str) -> None:
    if name not in ROWS:
        raise ValueError(f"name: no row {name!r}; there are {', '.join(ROWS)}")


def _run(
    configuration: Row,
    alphabet: Alphabet,
    train: Examples,
    test: Examples,
    seed: int,
    steps: int,
) -> Result:
    if steps < 1:
        raise ValueError(f"steps: got {steps}, wanted 1 or more")
    if isinstance(configuration, LookupRow):
        return _score(_look_up(configuration, train, test), test.slots, parameters=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: nn.Module
        if isinstance(configuration, RecurrenceRow):
            model = _RecurrentSlots(configuration, len(alphabet))
        else:
            model = _AttendingSlots(configuration, len(alphabet))
        _train(model, train, configuration.learning_rate, seed, steps)
    with torch.no_grad():
        answers = model.eval()(test.ids).argmax(dim=-1)
    return _score(answers, test.slots, sum(p.numel() for p in model.parameters()))


def _score(answers: Tensor, slots: Tensor, parameters: int) -> Result:
    right = answers == slots
    return Result(
        exact_match=right.all(dim=1).double().mean().item(),
        character_accuracy=right.double().mean().item(),
        parameters=parameters,
    )


def _train(
    model: nn.Module, train: Examples, learning_rate: float, seed: int, steps: int
) -> None:
    optimizer = torch.optim.Adam(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.98)
    )
    order = torch.Generator().manual_seed(seed)
    model.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _schedule(step, steps)
        batch = torch.randint(len(train.texts), (BATCH_SIZE,), generator=order)
        logits = model(train.ids[batch])
        loss = F.cross_entropy(logits.flatten(0, 1), train.slots[batch].flatten())
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def _schedule(step: int, steps: int) -> float:
    """Factor on the learning rate: rises to 1 over WARM_UP steps, then a half cosine."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / max(steps - WARM_UP, 1)))


def _look_up(configuration: LookupRow, train: Examples, test: Examples) -> Tensor:
    pairs = letter_pair_vectors(train.texts + test.texts)
    keys, queries = pairs[: len(train.texts)], pairs[len(train.texts) :]
    votes = slot_votes(queries, keys, train.slots.numpy(), configuration.temperature)
    return torch.from_numpy(votes.argmax(axis=-1))


class _RecurrentSlots(nn.Module):
    def __init__(self, configuration: RecurrenceRow, num_ids: int) -> None:
        super().__init__()
        width = configuration.width
        self.characters = nn.Embedding(num_ids, width)
        self.slots = nn.Parameter(torch.randn(ISO_LENGTH, width))
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.classify = nn.Linear(width, len(ISO_CHARACTERS))
        # Gates come in the order input, forget, cell, output; PyTorch adds two biases.
        forget = slice(width, 2 * width)
        for name, bias in self.lstm.named_parameters():
            if name.startswith("bias"):
                nn.init.constant_(bias[forget], 0.5)

    def forward(self, ids: Tensor) -> Tensor:
        batch, longest = ids.shape
        lengths = (ids != Alphabet.pad_id).sum(dim=1, keepdim=True)
        # The slots follow each text at once: column c is character c of a text of
        # length n if c < n, and slot c - n after that. No padding is ever read.
        column = torch.arange(longest + ISO_LENGTH, device=ids.device)
        slot = (column - lengths).clamp(0, ISO_LENGTH - 1)
        padded = F.pad(ids, (0, ISO_LENGTH), value=Alphabet.pad_id)
        is_character = (column < lengths)[..., None]
        x = torch.where(is_character, self.characters(padded), self.slots[slot])
        states, _ = self.lstm(x)
        at_slots = lengths + torch.arange(ISO_LENGTH, device=ids.device)
        rows = torch.arange(batch, device=ids.device)[:, None]
        return self.classify(states[rows, at_slots])


class _AttendingSlots(nn.Module):
    def __init__(self, configuration: AttentionRow, num_ids: int) -> None:
        super().__init__()
        width = configuration.width
        self.characters = nn.Embedding(num_ids, width)
        self.slots = nn.Parameter(torch.randn(ISO_LENGTH, width))
        self.layers = nn.ModuleList(
            _Layer(configuration) for _ in range(configuration.num_layers)
        )
        self.norm = nn.LayerNorm(width) if configuration.layer_norm else nn.Identity()
        self.classify = nn.Linear(width, len(ISO_CHARACTERS))
        self.positions = configuration.positions
        self.padding_mask = configuration.padding_mask

    def forward(self, ids: Tensor) -> Tensor:
        batch, longest = ids.shape
        x = self.characters(ids)
        if self.positions:
            x = x + _sinusoids(longest, x.shape[-1]).to(x)
        x = torch.cat([self.slots.expand(batch, -1, -1), x], dim=1)
        visible = None
        if self.padding_mask:
            visible = F.pad(ids != Alphabet.pad_id, (ISO_LENGTH, 0), value=True)
            visible = visible[:, None, None, :]
        for layer in self.layers:
            x = layer(x, visible)
        return self.classify(self.norm(x[:, :ISO_LENGTH]))


class _Layer(nn.Module):
    def __init__(self, configuration: AttentionRow) -> None:
        super().__init__()
        width = configuration.width
        norm = nn.LayerNorm if configuration.layer_norm else nn.Identity
        self.residual = configuration.residual
        self.num_heads = configuration.num_heads
        self.attention_norm = norm(width)
        self.project_in = nn.Linear(width, 3 * width, bias=False)
        self.project_out = nn.Linear(width, width, bias=False)
        self.feed_forward: nn.Sequential | None = None
        if configuration.feed_forward:
            self.feed_forward = nn.Sequential(
                norm(width),
                nn.Linear(width, 4 * width),
                nn.ReLU(),
                nn.Linear(4 * width, width),
            )

    def forward(self, x: Tensor, visible: Tensor | None) -> Tensor:
        x = self._skip(x) + self._attend(self.attention_norm(x), visible)
        if self.feed_forward is not None:
            x = self._skip(x) + self.feed_forward(x)
        return x

    def _skip(self, x: Tensor) -> Tensor | float:
        return x if self.residual else 0.0

    def _attend(self, x: Tensor, visible: Tensor | None) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for part in self.project_in(x).chunk(3, dim=-1)
        )
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.project_out(heads.transpose(1, 2).flatten(2))


def _sinusoids(length: int, width: int) -> Tensor:
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = position * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every row with every seed and write the record ``scoreboard``."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="0 to SEEDS - 1")
    parser.add_argument(
        "--tune", metavar="NAME", choices=ROWS, help="try this row's numbers instead"
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.tune:
        for number, result in tune(options.tune).items():
            print(f"{number:.4g}: {_line([result])}", flush=True)
        return 0
    seeds = range(options.seeds)
    values: dict[str, list[float]] = {"steps": [STEPS] * len(seeds)}
    for name in ROWS:
        start = time.process_time()
        results = [row(name, seed) for seed in seeds]
        for measure in Result._fields:
            values[f"{name}.{measure}"] = [getattr(r, measure) for r in results]
        print(
            f"{name}: {_line(results)}, {time.process_time() - start:.0f} CPU-s",
            flush=True,
        )
    command = f"python -m transformer_lib.experiments.scoreboard --seeds {len(seeds)}"
    records.write("scoreboard", command, list(seeds), values)
    return 0


def _line(results: Sequence[Result]) -> str:
    exact = [r.exact_match for r in results]
    characters = [r.character_accuracy for r in results]
    return (
        f"exact match {statistics.median(exact):.1%} ({min(exact):.1%} to "
        f"{max(exact):.1%}), characters {statistics.median(characters):.1%}"
    )


if __name__ == "__main__":
    sys.exit(main())
