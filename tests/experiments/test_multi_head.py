"""The measurements of chapter 7: each claim, and what would refute it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from transformer_lib.experiments import records
from transformer_lib.experiments.hand_wired import SYMBOLS
from transformer_lib.experiments.multi_head import (
    PAIR_LANES,
    LookupCurve,
    Lookups,
    circle,
    pair_accuracy,
    pair_layer,
    pair_stream,
    pair_texts,
    right_without,
    rooms,
    scale_to_single_out,
    train_lookups,
    weights_on_asked,
)
from transformer_lib.reference import multi_head_attention, softmax

Trained = tuple[Lookups, LookupCurve]


# --- several lookups at once ----------------------------------------------------------


@pytest.fixture(scope="module")
def one_head() -> Trained:
    return train_lookups(1, 2, seed=0, every=400)


@pytest.fixture(scope="module")
def two_heads() -> Trained:
    return train_lookups(2, 2, seed=0, every=400)


def test_a_room_answers_with_what_the_people_asked_for_hold() -> None:
    room = rooms(50, 3, torch.Generator().manual_seed(0))
    assert room.names.shape == room.held.shape == (50, 16)
    for names, held, asked, answers in zip(
        room.names, room.held, room.asked, room.answers, strict=True
    ):
        assert len(set(names.tolist())) == 16
        assert len(set(asked.tolist())) == 3
        numbers = dict(zip(names.tolist(), held.tolist(), strict=True))
        assert [numbers[name] for name in asked.tolist()] == answers.tolist()


def test_the_same_seed_fills_the_same_rooms() -> None:
    one, other, third = (
        rooms(4, 2, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(one.held, other.held)
    assert not torch.equal(one.held, third.held)


def test_any_number_of_heads_has_the_same_parameters() -> None:
    counts = {sum(p.numel() for p in Lookups(h, 2).parameters()) for h in (1, 2, 8, 64)}
    assert len(counts) == 1
    assert sum(p.numel() for p in Lookups(1, 2, hidden=256).parameters()) not in counts


def test_one_head_finds_half_and_two_heads_find_both(
    one_head: Trained, two_heads: Trained
) -> None:
    assert 0.4 < one_head[1].each[-1] < 0.6
    assert one_head[1].together[-1] < 0.25
    assert two_heads[1].each[-1] > 0.95
    assert two_heads[1].together[-1] > 0.95


def test_training_does_not_touch_the_global_generator() -> None:
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    train_lookups(1, 1, seed=0, steps=1, every=1)
    assert torch.equal(torch.rand(3), wanted)


def test_with_two_heads_each_loses_its_own_answer(two_heads: Trained) -> None:
    looks, left = weights_on_asked(two_heads[0]), right_without(two_heads[0])
    reads = looks.argmax(axis=1)
    assert sorted(reads.tolist()) == [0, 1]
    for head, name in enumerate(reads):
        assert looks[head, name] > 0.8
        assert left[head, name] < 0.15
        assert left[head, 1 - name] > 0.95


def test_a_head_off_is_a_head_whose_values_are_zero(two_heads: Trained) -> None:
    model = two_heads[0]
    room = rooms(100, 2, torch.Generator().manual_seed(3))
    with torch.no_grad():
        off, _ = model(room, without=1)
        kept = model.W_V.weight.clone()
        model.W_V.weight[32:] = 0.0  # rows 32 to 63 make the values of head 1
        zero, _ = model(room)
        model.W_V.weight.copy_(kept)
    torch.testing.assert_close(off, zero)


def test_a_wrong_split_passes_with_one_question_only() -> None:
    def by_view(x: torch.Tensor, num_heads: int) -> torch.Tensor:
        batch, n, d_model = x.shape
        return x.view(batch, num_heads, n, d_model // num_heads)

    one, two = (
        train_lookups(2, lookups, seed=0, every=400, split=by_view)[1].each[-1]
        for lookups in (1, 2)
    )
    assert one > 0.95
    assert two < 0.95


@pytest.mark.parametrize(
    ("heads", "lookups", "message"),
    [
        (3, 2, "num_heads: got 3, which does not divide 64"),
        (0, 2, "num_heads: got 0"),
        (2, 0, "lookups: got 0, wanted 1 to 16"),
        (2, 17, "lookups: got 17"),
    ],
)
def test_impossible_sizes_are_named(heads: int, lookups: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_lookups(heads, lookups, seed=0)


# --- narrow heads ---------------------------------------------------------------------


@pytest.mark.parametrize("n", [4, 7, 64, 512])
def test_the_scale_gives_the_best_key_its_weight_and_no_less_would(n: int) -> None:
    keys, scale = circle(n), scale_to_single_out(n, 0.9)
    np.testing.assert_allclose(np.linalg.norm(keys, axis=1), 1)
    assert np.linalg.matrix_rank(keys @ keys.T) == 2
    weights = softmax(scale * keys @ keys.T)
    assert (weights.argmax(axis=1) == np.arange(n)).all()
    np.testing.assert_allclose(weights.diagonal(), 0.9, rtol=1e-9)
    assert softmax(0.99 * scale * keys @ keys.T).diagonal().max() < 0.9


def test_the_scale_grows_with_the_square() -> None:
    ratios = [scale_to_single_out(n) / n**2 for n in (64, 128, 512)]
    assert max(ratios) / min(ratios) < 1.01


def test_circles_that_are_none_are_named() -> None:
    with pytest.raises(ValueError, match="n: got 1, wanted 2"):
        circle(1)
    with pytest.raises(ValueError, match="weight: got 1"):
        scale_to_single_out(8, 1.0)
    with pytest.raises(ValueError, match=r"weight: got 0\.1, wanted above 1/8"):
        scale_to_single_out(8, 0.1)


# --- wired by hand --------------------------------------------------------------------


def test_each_head_fills_its_own_lane() -> None:
    text = "^cabac"
    X = pair_stream(text)
    past = np.tril(np.ones((6, 6), dtype=bool))
    written, _ = multi_head_attention(X, X, pair_layer(), 2, past)
    for lane, back in (("left", 1), ("second left", 2)):
        read = written[back:, PAIR_LANES[lane]].argmax(axis=1)
        assert "".join(SYMBOLS[i] for i in read) == text[:-back]
    assert np.abs(written[:, PAIR_LANES["token"]]).max() == 0
    assert np.abs(written[:, PAIR_LANES["position"]]).max() == 0


def test_one_head_with_two_neighbours_writes_half_of_each() -> None:
    X = pair_stream("^cab")
    past = np.tril(np.ones((4, 4), dtype=bool))
    written, _ = multi_head_attention(X, X, pair_layer([[1, 2]]), 2, past)
    lane = written[3, PAIR_LANES["left"]]  # b, after c and a
    assert lane[SYMBOLS.index("a")] == pytest.approx(0.5, abs=1e-4)
    assert lane[SYMBOLS.index("c")] == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_two_heads_answer_every_pair_and_one_head_does_not(seed: int) -> None:
    texts = pair_texts(100, seed)
    right, asked = pair_accuracy(texts, pair_layer())
    assert right == asked > 600
    one, again = pair_accuracy(texts, pair_layer([[1]]), [("token", "left")])
    assert again == asked
    assert one < 0.95 * asked
    mixed, _ = pair_accuracy(
        texts, pair_layer([[1, 2]]), [("token", "left"), ("left", "left")]
    )
    assert mixed < one


def test_in_a_text_every_pair_has_one_follower() -> None:
    for text in pair_texts(50, seed=3):
        assert len(text) == 12
        followers: dict[str, set[str]] = {}
        for i in range(10):
            followers.setdefault(text[i : i + 2], set()).add(text[i + 2])
        assert all(len(found) == 1 for found in followers.values())


def test_wirings_and_texts_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match="steps_back: got 3 heads"):
        pair_layer([[1], [2], [3]])
    with pytest.raises(ValueError, match="steps_back: got 0, wanted 1 to 12"):
        pair_layer([[0]])
    with pytest.raises(ValueError, match="text: got 'z'"):
        pair_stream("^z")
    with pytest.raises(ValueError, match="text: got 0 symbols"):
        pair_stream("")


# --- records --------------------------------------------------------------------------


def test_one_seed_lies_in_the_recorded_range(
    one_head: Trained, two_heads: Trained
) -> None:
    """With some room: another processor sums in another order."""
    record = records.load("multi_head_lookups")
    for heads, (_, curve) in ((1, one_head), (2, two_heads)):
        measure = f"each, questions 2, heads {heads}, step 400"
        low, high = records.spread(record, measure)
        assert low - 0.03 <= curve.each[-1] <= high + 0.03


def test_the_record_holds_what_the_chapter_says_of_heads_and_questions() -> None:
    record = records.load("multi_head_lookups")
    for questions in (1, 2, 4):
        for heads in (1, 2, 4):
            low, high = records.spread(
                record, f"each, questions {questions}, heads {heads}, step 800"
            )
            if heads >= questions:
                middle = f"each, questions {questions}, heads {heads}, step 800"
                assert records.median(record, middle) > 0.99
                assert low > (0.7 if questions == 4 else 0.98)
            else:  # about one answer for each head, the others guessed
                share = heads / questions
                assert share - 0.05 < low
                assert high < share + (1 - share) / 16 + 0.08
    hidden = "questions 2, heads 1, hidden 256, step 800"
    assert records.median(record, f"each, {hidden}") > 0.8
    assert records.spread(record, f"together, {hidden}")[1] < 0.97


def test_the_record_holds_what_the_chapter_says_of_heads_switched_off() -> None:
    record = records.load("multi_head_off")
    assert (
        records.spread(record, "worse answer, head least needed off, heads 2")[1] < 0.2
    )
    assert records.spread(record, "better answer, any head off, heads 2")[0] > 0.95
    assert records.median(record, "worse answer, head least needed off, heads 4") > 0.95
    assert records.median(record, "worse answer, head most needed off, heads 4") < 0.7
    swaps = record["values"]["head 1 reads person 1, heads 2"]
    assert 0 < sum(swaps) < len(swaps)


def test_the_record_holds_what_the_chapter_says_of_narrow_heads() -> None:
    record = records.load("multi_head_rank")
    for heads in (1, 2, 4, 8, 16):
        assert records.median(record, f"heads {heads}, step 400") > 0.99
    assert records.median(record, "heads 32, step 400") > 0.9
    assert records.spread(record, "heads 64, step 400")[1] < 0.8


def test_the_record_holds_what_the_chapter_says_of_the_view() -> None:
    record = records.load("multi_head_view")
    assert records.spread(record, "each, questions 1")[0] > 0.95
    assert records.spread(record, "each, questions 2")[1] < 0.95


def test_one_seed_of_narrow_heads_lies_in_the_recorded_range() -> None:
    low, high = records.spread(records.load("multi_head_rank"), "heads 64, step 400")
    _, curve = train_lookups(64, 1, seed=0, every=400)
    assert low - 0.05 <= curve.each[-1] <= high + 0.05
