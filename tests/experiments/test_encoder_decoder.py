"""Chapter 9's measurements: parts are left out as they say, and the records hold."""

from __future__ import annotations

import math
import statistics

import pytest
import torch

from transformer_lib.experiments import records
from transformer_lib.experiments.encoder_decoder import (
    END,
    FAULTS,
    START,
    VARIANTS,
    alphabet,
    blind_floor,
    dates_for_seed,
    exact_match,
    make_model,
    planted,
    train,
    written,
)
from transformer_lib.nn import Transformer
from transformer_lib.tasks.dates import WRITTEN_FORMS, all_dates, write_date

pytestmark = pytest.mark.no_shape_hook


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


# --- the task -------------------------------------------------------------------------


def test_the_alphabet_writes_every_date_in_every_form() -> None:
    known = set(alphabet().characters)
    for day in all_dates()[::37]:
        for form in WRITTEN_FORMS:
            assert set(write_date(day, form)) <= known


def test_no_date_is_both_seen_and_asked() -> None:
    letters, seen, unseen = dates_for_seed(3, train=2_000, test=200)
    assert not {iso for _, iso in seen.pairs} & {iso for _, iso in unseen.pairs}
    text, iso = unseen.pairs[7]
    assert letters.decode(unseen.source[7]) == text
    assert letters.decode(unseen.target[7]) == START + iso + END


def test_the_floor_of_a_writer_that_cannot_read() -> None:
    assert math.exp(11 * blind_floor()) == pytest.approx(73_049)


# --- parts left out -------------------------------------------------------------------

SOURCE = torch.tensor([[5, 9, 7, 8], [6, 6, 4, 3]])
TARGET = torch.tensor([[1, 4, 5], [1, 7, 8]])


def moved(variant: str, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """How far the logits move, for each place, when the inputs become these."""
    model = make_model(variant, 20).double().eval()
    with torch.no_grad():
        change = model(source, target) - model(SOURCE, TARGET)
    return change.abs().amax(dim=(0, 2))


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_without_the_look_does_the_source_not_matter(variant: str) -> None:
    change = moved(variant, SOURCE + 1, TARGET)
    assert (change.max() > 1e-6) == (variant != "no look at the source")


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_without_the_look_does_the_answer_so_far_not_matter(variant: str) -> None:
    other = TARGET.clone()
    other[:, 1] += 1
    change = moved(variant, SOURCE, other)
    assert change[0] < 1e-12  # nobody sees the future
    assert (change[1] > 1e-6) == (variant != "no skip")
    deaf = ("no look at the answer so far", "no skip")
    assert (change[2] > 1e-6) == (variant not in deaf)


def test_without_skip_the_rows_of_the_memory_are_alike() -> None:
    spread = {}
    for variant in ("everything", "no skip"):
        with torch.no_grad():
            memory = make_model(variant, 20).double().encode(SOURCE)
        spread[variant] = float(memory.std(dim=1).mean() / memory.std())
    assert spread["no skip"] < 0.01 < 0.5 < spread["everything"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_without_positions_does_the_order_not_matter(variant: str) -> None:
    change = moved(variant, SOURCE[:, [2, 0, 3, 1]], TARGET)
    blind = ("no positions", "no look at the source")
    assert (change.max() > 1e-9) == (variant not in blind)


def test_parameters_of_the_variants() -> None:
    size = {name: make_model(name, 20).num_parameters() for name in VARIANTS}
    whole, d = size["everything"], 48
    assert whole - size["no feed-forward"] == 4 * (8 * d * d + 5 * d)
    assert whole - size["no norm"] == (4 + 6 + 2) * 2 * d
    for name in ("no look at the source", "no look at the answer so far"):
        assert whole - size[name] == 2 * 4 * (d * d + d)
    for name in ("no positions", "one head", "no skip"):
        assert size[name] == whole


def test_without_skip_a_silent_sublayer_gives_nothing() -> None:
    x = torch.randn(1, 3, 48, generator=torch.Generator().manual_seed(0))
    for name, kept in (("everything", True), ("no skip", False)):
        layer = make_model(name, 20).encoder.layers[0]
        assert bool((layer.residual_1(x, torch.zeros_like) == x).all()) == kept


# --- faults of wiring -----------------------------------------------------------------


def heard(model: Transformer) -> tuple[bool, bool]:
    """Does the first source place hear the last; does the first target place hear it?"""
    other = SOURCE.clone()
    other[:, -1] += 1
    with torch.no_grad():
        memory, changed = model.encode(SOURCE), model.encode(other)
        in_source = float((memory - changed)[:, 0].abs().max()) > 1e-6
        mixed = torch.cat([memory[:, :-1], changed[:, -1:]], dim=1)
        one, two = (model.decode(TARGET, m)[:, 0] for m in (memory, mixed))
    return in_source, float((one - two).abs().max()) > 1e-6


@pytest.mark.parametrize("fault", ["none", *FAULTS])
def test_a_triangle_hides_the_last_source_token_from_the_first_place(
    fault: str,
) -> None:
    model = make_model("everything", 20).double().eval()
    if fault != "none":
        model = planted(model, fault)
    in_encoder = fault in ("triangle in the encoder", "triangle in both")
    in_cross = fault in ("triangle in cross-attention", "triangle in both")
    if fault == "layer beside layer":  # its decoder does not read what it is handed
        in_cross = True
    assert heard(model) == (not in_encoder, not in_cross)


def test_layer_beside_layer_reads_the_encoder_s_first_layer_first() -> None:
    model = make_model("everything", 20).double().eval()
    wrong = planted(model, "layer beside layer")
    read: list[torch.Tensor] = []
    for one in (model, wrong):
        layer = one.decoder.layers[0]
        layer.residual_2.register_forward_hook(lambda *given: read.append(given[-1]))
        with torch.no_grad():
            one(SOURCE, TARGET)
            for weight in one.encoder.layers[1].parameters():
                weight.add_(1)
            one(SOURCE, TARGET)
    assert not torch.allclose(read[0], read[1])
    assert torch.equal(read[2], read[3])


@pytest.mark.parametrize("fault", ["none", *FAULTS])
def test_one_norm_behind_the_sum_changes_what_a_silent_sublayer_was_given(
    fault: str,
) -> None:
    model = make_model("everything", 20)
    if fault != "none":
        model = planted(model, fault)
    x = torch.randn(1, 3, 48, generator=torch.Generator().manual_seed(0))
    silent = all(
        bool((part(x, torch.zeros_like) == x).all())
        for name, part in model.named_modules()
        if name.rpartition(".")[2].startswith("residual")
    )
    assert silent == (fault != "one norm behind the sum")


def test_only_the_norms_behind_the_stacks_can_be_missed_in_the_parameters() -> None:
    whole = make_model("everything", 20).num_parameters()
    for fault in FAULTS:
        missing = whole - make_model(fault, 20).num_parameters()
        assert missing == (192 if fault == "no norm behind the stacks" else 0)


def test_a_fault_is_planted_in_a_copy() -> None:
    model = make_model("everything", 20).double().eval()
    with torch.no_grad():
        before = model(SOURCE, TARGET)
        for fault in FAULTS:
            other = planted(model, fault)(SOURCE, TARGET)
            assert float((other - before).abs().max()) > 1e-6, fault
        assert torch.equal(model(SOURCE, TARGET), before)
    with pytest.raises(ValueError, match="fault: got 'rust', wanted one of triangle"):
        planted(model, "rust")


# --- training and reading -------------------------------------------------------------


def test_shown_the_truth_and_alone_it_gets_the_same_dates_right() -> None:
    letters, _, unseen = dates_for_seed(0)
    model, curve = train("everything", seed=0, steps=200, every=200)
    few = unseen._replace(source=unseen.source[:100], target=unseen.target[:100])
    alone = written(model, few.source, letters)
    right = [
        iso + END == text for (_, iso), text in zip(unseen.pairs, alone, strict=False)
    ]
    assert exact_match(model, few) == pytest.approx(sum(right) / 100)
    assert len(curve.losses) == 200
    assert curve.losses[-1] < curve.losses[0] / 3


def test_a_forgotten_shift_learns_to_repeat_the_start() -> None:
    letters, _, unseen = dates_for_seed(0)
    model, curve = train(
        "everything", 0, steps=60, targets=lambda t: (t[:, :-1], t[:, :-1])
    )
    assert curve.losses[-1] < 0.02
    assert set(written(model, unseen.source[:5], letters)) == {START * 11}


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="variant: got 'no roof', wanted one of every"):
        make_model("no roof", 20)
    with pytest.raises(ValueError, match="steps: got 0, wanted 1 or more"):
        train("everything", steps=0)


# --- the records ----------------------------------------------------------------------


def at_the_end(record: str, variant: str) -> list[float]:
    values: dict[str, list[float]] = records.load(record)["values"]
    return values[f"right, {variant}, step 400"]


def test_what_the_chapter_says_of_the_parts() -> None:
    ten = {
        name: at_the_end("encoder_decoder_leave_one_out", name)
        for name in ("everything", "no positions", "no feed-forward", "one head")
    }
    assert all(len(numbers) == 10 for numbers in ten.values())
    assert 4 * max(ten["no positions"]) < min(ten["everything"])
    for part, heads, network in zip(
        ten["everything"], ten["one head"], ten["no feed-forward"], strict=True
    ):
        assert network < part < heads
    assert sum(ten["no feed-forward"]) < 0.5 * sum(ten["everything"])
    three = {
        name: at_the_end("encoder_decoder_more", name)
        for name in (
            "no skip",
            "no norm",
            "no look at the answer so far",
            "no look at the source",
        )
    }
    assert max(three["no skip"]) < 0.02
    assert max(three["no look at the source"]) < 0.02
    assert min(three["no norm"]) > max(ten["everything"])
    spared = sum(three["no look at the answer so far"]) / 3
    assert spared > sum(ten["everything"]) / 10


def test_what_the_chapter_says_of_the_faults() -> None:
    whole = at_the_end("encoder_decoder_leave_one_out", "everything")
    right = {name: at_the_end("encoder_decoder_faults", name) for name in FAULTS}
    assert all(len(numbers) == 10 for numbers in right.values())
    assert max(right["triangle in both"]) < 0.5 * min(whole)
    assert min(right["triangle in the encoder"]) > max(whole)
    for name, numbers in right.items():
        if name != "triangle in both":
            assert min(whole) <= statistics.median(numbers), name


def test_a_shift_the_wrong_way_is_learned_and_worth_nothing() -> None:
    letters, _, unseen = dates_for_seed(0)
    model, curve = train(
        "everything", 0, steps=200, every=200, targets=lambda t: (t[:, 1:], t[:, :-1])
    )
    assert curve.losses[-1] < 0.05
    assert curve.right[-1] == 0
    line = torch.from_numpy(letters.encode(["1914-07-13"]))
    with torch.no_grad():
        best = model(unseen.source[:1], line)[0].argmax(dim=-1)
    assert letters.decode(best) == START + "1914-07-1"


def test_one_seed_of_a_fault_lies_near_its_record() -> None:
    record = records.load("encoder_decoder_faults")
    low, high = records.spread(record, "right, triangle in both, step 400")
    _, curve = train("triangle in both", seed=0, every=400)
    assert low - 0.05 < curve.right[-1] < high + 0.05


def test_one_seed_stays_at_the_floor_without_a_look_at_the_source() -> None:
    record = records.load("encoder_decoder_more")
    low, high = records.spread(record, "loss, no look at the source")
    assert blind_floor() - 0.02 < low <= high < blind_floor() + 0.03
    _, curve = train("no look at the source", seed=5, steps=400, every=400)
    assert low - 0.02 < sum(curve.losses[-50:]) / 50 < high + 0.02
    assert curve.right[-1] < 0.02
