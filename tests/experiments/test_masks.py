"""The measurements of chapter 6: each claim, and what would refute it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from importlib import resources

import pytest
import torch
from torch import Tensor, nn

from transformer_lib.experiments import records
from transformer_lib.experiments.masks import (
    END,
    EXTRA_PADS,
    SEPARATOR,
    Dates,
    SlotReader,
    Writer,
    answer_targets,
    bag_ceiling,
    dates_for_seed,
    everything,
    exact_answers,
    place_entropy,
    slots_right,
    train_slots,
    train_writer,
    weight_on_the_next,
    written_answers,
    wrong_by_neighbours,
    wrong_by_padding,
    wrong_by_the_future,
)
from transformer_lib.nn import causal_mask
from transformer_lib.tasks.dates import Alphabet

MARGIN = 0.03  # other processors sum in another order
VOCABULARY = 9


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


# --- the task -------------------------------------------------------------------------


def test_a_line_is_the_written_date_then_the_answer_then_the_end() -> None:
    train, test = dates_for_seed(0, train=50, test=20)
    assert not {iso for _, iso in train.pairs} & {iso for _, iso in test.pairs}
    for (written, iso), line, short in zip(
        test.pairs, test.lines, test.written, strict=True
    ):
        alphabet = Alphabet("#-./0123456789>")
        assert alphabet.decode(line) == f"{written}{SEPARATOR}{iso}{END}"
        assert alphabet.decode(short) == written


def test_targets_are_the_next_characters_of_the_answer_only() -> None:
    _, test = dates_for_seed(0, train=1, test=5)
    targets = answer_targets(test.lines)
    for line, target in zip(test.lines, targets, strict=True):
        counted = target != Alphabet.pad_id
        assert counted.sum() == 11
        assert torch.equal(target[counted], line[1:][counted])
        first = int(counted.nonzero()[0, 0])
        assert line[first] == int(answer_separator())


def test_knowing_only_the_place_costs_the_entropy_of_each_place() -> None:
    pairs = [
        ("", "1900-01-01"),
        ("", "2000-01-01"),
        ("", "1900-01-01"),
        ("", "2000-01-01"),
    ]
    nothing = torch.zeros(4, 1, dtype=torch.long)
    # two places with two equally frequent digits, nine that are certain
    assert place_entropy(Dates(pairs, nothing, nothing)) == pytest.approx(
        2 * math.log(2) / 11
    )
    train, _ = dates_for_seed(0, train=2000, test=1)
    assert 1.0 < place_entropy(train) < 1.2


def answer_separator() -> int:
    return len("#-./0123456789>")


def test_writing_stops_at_the_end_and_uses_what_was_written() -> None:
    """A writer that says the position of its own last character can be followed."""

    class Counter(nn.Module):
        def forward(self, ids: Tensor) -> Tensor:
            # after the separator 5, then one more each time, until 8, then the end (1)
            follower = torch.where(ids == 15, 5, torch.where(ids >= 8, 1, ids + 1))
            return nn.functional.one_hot(follower, 16).float()

    _, test = dates_for_seed(0, train=1, test=4)
    assert written_answers(Counter(), test) == ["0123#"] * 4
    assert exact_answers(Counter(), test) == 0.0


# --- the cheat ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copies() -> dict[str, tuple[Writer, list[float]]]:
    made = {}
    for name, mask_of in (("triangle", causal_mask), ("no mask", everything)):
        model, curve = train_writer(mask_of, seed=0, every=50, exact_every=1000)
        made[name] = model, curve.loss
    return made


def test_the_copy_without_a_mask_has_the_lower_loss_and_writes_no_date(
    copies: dict[str, tuple[Writer, list[float]]],
) -> None:
    (honest, loss), (cheat, lower) = copies["triangle"], copies["no mask"]
    assert all(a < b for a, b in zip(lower[1:], loss[1:], strict=True))
    _, test = dates_for_seed(0)
    some = test.first(200)
    assert exact_answers(honest, some) > 0.85
    assert exact_answers(cheat, some) == 0.0
    assert weight_on_the_next(honest, test) == 0.0
    assert weight_on_the_next(cheat, test) > 0.5


def test_seed_zero_lies_in_the_recorded_range(
    copies: dict[str, tuple[Writer, list[float]]],
) -> None:
    record = records.load("masks_writer")
    _, test = dates_for_seed(0)
    for name, (model, _) in copies.items():
        low, high = records.spread(record, f"exact, {name}")
        assert low - MARGIN <= exact_answers(model, test) <= high + MARGIN


def test_recorded_claims_of_the_cheat() -> None:
    record = records.load("masks_writer")
    assert records.spread(record, "exact, triangle")[0] > 0.85
    assert records.spread(record, "exact, no mask")[1] == 0.0
    for step, seeds in ((50, 10), (100, 8), (250, 8)):
        pairs = zip(
            record["values"][f"loss, no mask, step {step}"],
            record["values"][f"loss, triangle, step {step}"],
            strict=True,
        )
        assert sum(cheat < honest for cheat, honest in pairs) >= seeds
    assert records.median(record, "no mask lower, share from step 50 on") == 1.0
    assert records.spread(record, "weight on the next, triangle")[1] == 0.0
    assert records.spread(record, "weight on the next, no mask")[0] > 0.5
    no_positions = records.spread(record, "exact, triangle and no positions")
    assert no_positions[0] > 2 * bag_ceiling()


def test_one_writer_in_one_batch_of_one_still_cheats() -> None:
    """It is the places that are computed together, not the sentences of a batch."""
    torch.manual_seed(0)
    ids = torch.randint(1, 16, (1, 8))
    assert wrong_by_the_future(Writer(everything), ids, 16) > 1e-3
    assert wrong_by_the_future(Writer(causal_mask), ids, 16) == 0.0


# --- the padding ----------------------------------------------------------------------


def test_without_the_mask_one_more_pad_is_another_text() -> None:
    _, test = dates_for_seed(0)
    some = test.first(300)
    model = train_slots(hide_padding=False, seed=0)

    def right(extra: int = 0, alone: bool = False) -> float:
        return slots_right(model, some, extra, alone).double().mean().item()

    low, high = records.spread(records.load("masks_padding"), "exact, no mask, 0 pads")
    assert low - MARGIN <= right() <= high + MARGIN
    assert right(30) < right() - 0.2
    model.hide_padding = True  # the same weights with the mask put in
    assert torch.equal(
        slots_right(model, some, 30), slots_right(model, some, alone=True)
    )


def test_recorded_claims_of_the_padding() -> None:
    record = records.load("masks_padding")
    for extra in EXTRA_PADS:
        assert records.spread(record, f"exact, mask, {extra} pads") == records.spread(
            record, "exact, mask, alone"
        )
    assert records.median(record, "exact, mask, 0 pads") > 0.98
    assert records.median(record, "exact, no mask, 0 pads") > 0.98
    assert records.median(record, "exact, no mask, 30 pads") < 0.5


def test_the_pad_dial_plays_the_record() -> None:
    file = resources.files("transformer_lib.widgets") / "data" / "pad_dial.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    record = records.load("masks_padding")
    assert data["seeds"] == record["seeds"]
    for model in data["models"]:
        for place, extra in enumerate(data["pads"]):
            measure = f"exact, {model['name']}, {extra} pads"
            low, high = records.spread(record, measure)
            shown = model["median"][place], model["low"][place], model["high"][place]
            assert shown == pytest.approx(
                (records.median(record, measure), low, high), abs=1e-4
            )


# --- the probes, on models with planted leaks -----------------------------------------


class Tokens(nn.Module):
    """Embedding, something among the tokens, scores: what every planted model shares."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 8)
        self.place = nn.Parameter(torch.randn(64, 8))

    def embed(self, ids: Tensor) -> Tensor:
        x: Tensor = self.table(ids) + self.place[: ids.shape[1]]
        return x


class Attending(Tokens):
    """Two layers of self-attention; each has its mask."""

    def __init__(self, *masks: Callable[[Tensor], Tensor | None]) -> None:
        super().__init__()
        self.masks = masks
        self.heads = nn.ModuleList(nn.Linear(8, 24) for _ in masks)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for head, mask_of in zip(self.heads, self.masks, strict=True):
            q, k, v = head(x).chunk(3, dim=-1)
            mask = mask_of(ids)
            x = x + nn.functional.scaled_dot_product_attention(q, k, v, mask)
        output: Tensor = x
        return output


class Normalised(Tokens):
    """Batch normalisation, in training mode: one mean for all tokens of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.norm(self.embed(ids).transpose(1, 2))
        return x.transpose(1, 2)


class Pooled(Tokens):
    """The largest number of the whole sequence is added to every token."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return x + x.max(dim=1, keepdim=True).values


class BothWays(Tokens):
    """A recurrent network that also reads from the right."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(8, 4, bidirectional=True, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        output: Tensor = self.rnn(self.embed(ids))[0]
        return output


def past(ids: Tensor) -> Tensor:
    return causal_mask(ids.shape[1])


def one_ahead(ids: Tensor) -> Tensor:
    return torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril(1)


def real(ids: Tensor) -> Tensor:
    return (ids != 0)[:, None, :]


def real_past(ids: Tensor) -> Tensor:
    return real(ids) & past(ids)


def nothing_hidden(ids: Tensor) -> None:
    return None


IDS = torch.tensor([[3, 1, 4, 1, 5, 2], [2, 7, 1, 8, 2, 8], [1, 6, 1, 8, 0, 0]])
FULL = IDS[:2]


@pytest.fixture(autouse=True)
def _same_weights() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(
    ("make", "leaks"),
    [
        (lambda: Attending(past, past), False),
        (lambda: Attending(real_past, real_past), False),
        (lambda: Attending(past, nothing_hidden), True),
        (lambda: Attending(nothing_hidden, past), True),
        (lambda: Attending(past, one_ahead), True),
        (lambda: Attending(real), True),
        (Normalised, True),
        (Pooled, True),
        (BothWays, True),
    ],
)
def test_a_look_ahead_is_found(make: Callable[[], nn.Module], leaks: bool) -> None:
    change = wrong_by_the_future(make(), FULL, VOCABULARY)
    assert change > 1e-3 if leaks else change == 0.0


@pytest.mark.parametrize(
    ("make", "leaks"),
    [
        (lambda: Attending(real, real), False),
        (
            lambda: Attending(past, past),
            False,
        ),  # pads behind the text lie in the future
        (lambda: Attending(nothing_hidden, real), True),
        (lambda: Attending(real, nothing_hidden), True),
        (lambda: Attending(real, one_ahead), True),
        (Normalised, True),
        (Pooled, True),
        (BothWays, True),
    ],
)
def test_read_padding_is_found(make: Callable[[], nn.Module], leaks: bool) -> None:
    model = make()
    change = wrong_by_padding(model, IDS)
    assert change > 1e-3 if leaks else change < 1e-5


@pytest.mark.parametrize(
    ("make", "leaks"),
    [
        (lambda: Attending(real_past, real_past), False),
        (lambda: Attending(nothing_hidden), False),
        (BothWays, False),
        (Normalised, True),
    ],
)
def test_a_neighbour_in_the_batch_is_found(
    make: Callable[[], nn.Module], leaks: bool
) -> None:
    change = wrong_by_neighbours(make(), IDS)
    assert change > 1e-3 if leaks else change < 1e-5


def test_attention_across_the_batch_is_found() -> None:
    """The default layout of torch.nn.MultiheadAttention, given batch first."""
    table = nn.Embedding(VOCABULARY, 8)
    attend = nn.MultiheadAttention(8, 1)  # batch_first is False

    def model(ids: Tensor) -> Tensor:
        x = table(ids)
        output: Tensor = attend(x, x, x, need_weights=False)[0]
        return output

    assert wrong_by_neighbours(model, IDS) > 1e-3


def test_a_model_of_slots_is_probed_for_padding_as_a_whole() -> None:
    ids = torch.randint(1, 15, (4, 8))
    assert wrong_by_padding(SlotReader(hide_padding=True), ids) < 1e-5
    assert wrong_by_padding(SlotReader(hide_padding=False), ids) > 1e-3


def test_a_nan_that_comes_and_goes_is_an_infinite_change() -> None:
    def model(ids: Tensor) -> Tensor:
        x = ids[..., None].double()
        return x / (ids[:, -1:, None] != 8)  # dies when the last token is 8

    ids = torch.tensor([[1, 2, 8], [3, 8, 8]])
    assert wrong_by_the_future(lambda z: model(z) * 0 + 1, ids, VOCABULARY) > 1e300


@pytest.mark.no_shape_hook
def test_what_cannot_be_probed_is_named() -> None:
    dropout = nn.Sequential(nn.Embedding(VOCABULARY, 8), nn.Dropout(0.5))
    with pytest.raises(ValueError, match="switch dropout off with model"):
        wrong_by_the_future(dropout, FULL, VOCABULARY)
    assert wrong_by_the_future(dropout.eval(), FULL, VOCABULARY) == 0.0
    with pytest.raises(ValueError, match="wanted one output per token"):
        wrong_by_the_future(lambda z: z.double().sum(1, keepdim=True), FULL, 9)
    with pytest.raises(ValueError, match="ids: got 1 tokens, wanted two or more"):
        wrong_by_the_future(nn.Embedding(9, 2), FULL[:, :1], 9)
    with pytest.raises(ValueError, match="ids: got 1 sequences, wanted two or more"):
        wrong_by_neighbours(nn.Embedding(9, 2), FULL[:1])
    with pytest.raises(ValueError, match="extra: got -1"):
        slots_right(SlotReader(True), dates_for_seed(0, 1, 1)[1], extra=-1)
    with pytest.raises(ValueError, match="steps: got 0"):
        train_slots(True, seed=0, steps=0)


def test_a_seed_gives_the_same_model_and_leaves_torch_alone() -> None:
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    runs = [train_writer(causal_mask, seed, steps=2, every=2)[0] for seed in (0, 0, 1)]
    assert torch.equal(before, torch.random.get_rng_state())
    first, again, other = (run.scores.weight for run in runs)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
