"""The measurements of chapter 3: each claim, and what would refute it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from transformer_lib.experiments import records
from transformer_lib.experiments.attention import (
    READERS,
    SCALES,
    OneLook,
    TwoLayers,
    TwoLooks,
    jacobian_norm,
    points_at_referent,
    random_scores,
    right_answers,
    right_with_stale_words,
    train_animal,
    train_recall,
    weight_on_itself,
    weights_of_it,
)
from transformer_lib.reference.lookup import softmax
from transformer_lib.tasks.animal_street import ANIMAL, LAST, PLACE, grammar

SENTENCES = grammar()


# --- q = k = v = x --------------------------------------------------------------------


def test_without_projections_a_wide_token_looks_at_itself() -> None:
    narrow, _ = weight_on_itself(8)
    wide, first = weight_on_itself(64)
    assert narrow == pytest.approx(0.52, abs=0.02)
    assert wide == pytest.approx(0.99, abs=0.005)
    assert first == 1.0


def test_weight_on_itself_is_small_where_projections_differ() -> None:
    """The refutation: the same measure with two random projections."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10, 64))
    W_Q, W_K = rng.normal(size=(2, 64, 64)) / 8
    scores = (X @ W_Q) @ (X @ W_K).swapaxes(-1, -2) / 8
    own = np.diagonal(softmax(scores), axis1=-2, axis2=-1).mean()
    assert own == pytest.approx(0.1, abs=0.02)


# --- the animal and the street --------------------------------------------------------


@pytest.fixture(scope="module")
def trained() -> dict[str, torch.nn.Module]:
    return {
        name: train_animal(READERS[name], seed=0, every=400)[0]
        for name in ("one look", "two looks")
    }


def test_one_look_cannot_turn_whatever_its_weights() -> None:
    """The ratio of two keys' weights does not depend on a third word."""
    torch.manual_seed(0)
    weights = weights_of_it(OneLook(), SENTENCES.tokens)
    ratio = (weights[:, ANIMAL] / weights[:, PLACE]).reshape(81, 4, 12)
    np.testing.assert_allclose(ratio.max(-1), ratio.min(-1), rtol=1e-5)
    assert points_at_referent(OneLook(), SENTENCES) == 0.5
    other = weights_of_it(TwoLooks(), SENTENCES.tokens)
    ratio = (other[:, ANIMAL] / other[:, PLACE]).reshape(81, 4, 12)
    assert (ratio.max(-1) / ratio.min(-1)).max() > 1.0001


def test_one_look_stays_below_its_ceiling(trained: dict[str, torch.nn.Module]) -> None:
    right = right_answers(trained["one look"], SENTENCES)
    assert 0.5 < right <= 5 / 6


def test_two_looks_turn_and_answer_unseen_pairs(
    trained: dict[str, torch.nn.Module],
) -> None:
    model = trained["two looks"]
    assert right_answers(model, SENTENCES) > 0.95
    assert right_answers(model, SENTENCES, held_out=False) > 0.95
    assert points_at_referent(model, SENTENCES) > 0.9


def test_pointing_is_judged_by_the_noun_that_is_meant() -> None:
    class Pointer(torch.nn.Module):
        """Weights by rule: the noun that is meant, or always the other one."""

        def __init__(self, right: bool) -> None:
            super().__init__()
            self.right = right

        def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            animals = set(SENTENCES.tokens[SENTENCES.referents == ANIMAL][:, LAST])
            meant = torch.tensor([int(t) in animals for t in tokens[:, LAST]])
            at_animal = meant if self.right else ~meant
            weights = torch.zeros(tokens.shape)
            weights[:, ANIMAL], weights[:, PLACE] = (
                at_animal.float(),
                (~at_animal).float(),
            )
            return torch.zeros(len(tokens), 3), weights

    assert points_at_referent(Pointer(right=True), SENTENCES) == 1.0
    assert points_at_referent(Pointer(right=False), SENTENCES) == 0.0


def test_two_layers_read_the_answer_from_the_last_word() -> None:
    """What the last word has read in layer 1 is needed; what the nouns have read is not."""
    model, _ = train_animal(TwoLayers, seed=0, every=400)
    assert isinstance(model, TwoLayers)
    assert right_with_stale_words(model, SENTENCES, []) == right_answers(
        model, SENTENCES
    )
    assert right_with_stale_words(model, SENTENCES, [LAST]) < 5 / 6
    assert right_with_stale_words(model, SENTENCES, [ANIMAL, PLACE]) > 0.95


def test_training_never_sees_a_held_out_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[int, int]] = set()

    class Spy(TwoLooks):
        def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            if self.training and torch.is_grad_enabled():
                seen.update(map(tuple, tokens[:, [ANIMAL, PLACE]].tolist()))
            return super().forward(tokens)

    train_animal(Spy, seed=0, steps=60, every=60)
    held = {
        (int(row[ANIMAL]), int(row[PLACE]))
        for row in SENTENCES.tokens[SENTENCES.held_out]
    }
    assert len(seen) == 81 - 18
    assert not seen & held


def test_a_seed_gives_the_same_model_and_leaves_torch_alone() -> None:
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    runs = [train_animal(TwoLooks, seed=s, steps=5, every=5)[0] for s in (0, 0, 1)]
    assert torch.equal(before, torch.random.get_rng_state())
    first, again, other = (run.embedding.weight for run in runs)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", list(READERS))
def test_seed_zero_lies_in_the_recorded_range(
    name: str, trained: dict[str, torch.nn.Module]
) -> None:
    record = records.load("attention_animal")
    low, high = records.spread(record, f"right, {name}")
    model = trained.get(name) or train_animal(READERS[name], seed=0, every=400)[0]
    margin = 0.03  # other processors sum in another order
    assert low - margin <= right_answers(model, SENTENCES) <= high + margin


def test_recorded_claims_of_the_chapter() -> None:
    record = records.load("attention_animal")
    assert records.spread(record, "right, one look")[1] < 0.75
    assert records.spread(record, "points, one look") == (0.5, 0.5)
    assert records.spread(record, "right, two looks")[0] == 1.0
    assert records.spread(record, "points, two looks")[0] > 0.99
    assert records.spread(record, "right, two layers")[0] == 1.0
    assert records.spread(record, "points, two layers")[1] < 0.6
    assert records.spread(record, "right, last word stale")[1] < 5 / 6
    assert records.spread(record, "right, nouns stale")[0] > 0.95
    start = records.load("attention_start")
    assert records.median(start, "points, start 0.2") > 0.99
    assert records.median(start, "points, start 1.0") < 0.9
    assert records.median(start, "right, start 1.0") < 1.0


# --- the scale ------------------------------------------------------------------------


@pytest.mark.parametrize("d_k", [4, 64, 256])
def test_scores_of_unit_entries_have_the_width_as_variance(d_k: int) -> None:
    scores = random_scores(d_k)
    assert scores.std() == pytest.approx(np.sqrt(d_k), rel=0.03)
    assert (scores / np.sqrt(d_k)).std() == pytest.approx(1, rel=0.03)


def test_jacobian_norm_is_that_of_the_matrix() -> None:
    weights = softmax(np.random.default_rng(0).normal(size=(5, 7)))
    for row, norm in zip(weights, jacobian_norm(weights), strict=True):
        matrix = np.diag(row) - np.outer(row, row)
        assert norm == pytest.approx(np.linalg.norm(matrix), abs=1e-12)
    assert jacobian_norm(np.array([[0.0, 1.0, 0.0]]))[0] == 0
    assert jacobian_norm(np.array([[0.5, 0.5, 0.0]]))[0] == 0.5


def test_unscaled_jacobians_vanish_at_large_width_only() -> None:
    def vanishing(d_k: int, divisor: float) -> float:
        return float(
            (jacobian_norm(softmax(random_scores(d_k) / divisor)) < 0.01).mean()
        )

    assert vanishing(8, 1) < 0.02
    assert vanishing(512, 1) > 0.5
    assert vanishing(512, SCALES["root"](512)) == 0


def test_recall_trains_with_the_root_and_lags_without() -> None:
    scaled = train_recall(256, SCALES["root"](256), seed=0, steps=60, every=60)
    unscaled = train_recall(256, SCALES["nothing"](256), seed=0, steps=60, every=60)
    assert scaled.right[-1] > 0.9
    assert unscaled.right[-1] < 0.5
    assert scaled.right[0] < 0.2  # before training


def test_recorded_claims_of_the_scale() -> None:
    record = records.load("attention_recall")
    for d_k in (16, 64, 256):
        at_50 = {s: records.median(record, f"{s}, d_k {d_k}, step 50") for s in SCALES}
        assert at_50["root"] > at_50["width"] > at_50["nothing"]
        assert records.median(record, f"root, d_k {d_k}, step 150") == 1.0
    lags = [
        records.median(record, f"nothing, d_k {d_k}, step 150") for d_k in (16, 64, 256)
    ]
    assert lags == sorted(lags, reverse=True)


@pytest.mark.no_shape_hook
def test_wrong_sizes_are_named() -> None:
    with pytest.raises(ValueError, match="d_k: got 0, wanted 1 or more"):
        train_recall(0, 1.0, seed=0)
    with pytest.raises(ValueError, match="divisor: got 0"):
        train_recall(4, 0.0, seed=0)
