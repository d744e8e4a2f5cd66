"""Chapter 12's exercises: the tiny trainer, a crash played twice, answers as written."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from transformer_lib.exercises import check, registry, training
from transformer_lib.exercises.training import TinyTrainer, rehearse
from transformer_lib.reference import training as reference

State = dict[str, Any]

# Thousands of tiny steps: with the shape hook they take ten times as long.
pytestmark = pytest.mark.no_shape_hook


# The tiny trainer


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("before", [0, 1, 6, 9, 12])
def test_a_copied_trainer_goes_on_to_the_same_bits(before: int, dropout: float) -> None:
    whole = TinyTrainer(dropout).run(before + 8)
    trainer = TinyTrainer(dropout)
    np.testing.assert_array_equal(trainer.run(before), whole[:before])
    state = copy.deepcopy(vars(trainer))
    trainer.run(5)
    new = TinyTrainer(dropout)
    vars(new).update(state)
    np.testing.assert_array_equal(new.run(8), whole[before:])


def test_every_epoch_takes_every_example_once_and_orders_differ() -> None:
    trainer = TinyTrainer()
    orders = []
    for _ in range(4):
        taken = []
        for _ in range(6):
            trainer.step()
            taken.append(int(trainer.order[trainer.place - 1]))
        assert sorted(taken) == list(range(6))
        orders.append(tuple(taken))
    assert len(set(orders)) == 4


def test_a_step_is_adams_at_the_rate_of_2017() -> None:
    trainer = TinyTrainer()
    weights, state = np.zeros(3), None
    for step in range(1, 15):
        trainer.step()
        x = training._INPUTS[trainer.order[trainer.place - 1]]
        label = training._LABELS[trainer.order[trainer.place - 1]]
        rate = reference.inverse_square_root(step, d_model=1, warmup=4)
        weights, state = reference.adamw_step(
            weights, (x @ weights - label) * x, state, lr=0.5 * 2.0 * rate
        )
        np.testing.assert_allclose(trainer.weights, weights, atol=1e-12)


def test_the_tiny_trainer_learns() -> None:
    losses = TinyTrainer().run(120)
    assert losses[-12:].mean() < 0.05 * losses[:12].mean()


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"dropout: got 1.0, wanted a number in"):
        TinyTrainer(1.0)
    with pytest.raises(TypeError, match="restore: got a value of type dict"):
        rehearse(lambda trainer: 0, {})  # type: ignore[arg-type]


def test_the_rehearsal_expects_the_losses_of_a_run_without_a_crash() -> None:
    resume = rehearse(deep, put_copies)
    got = resume(before=7, after=6, dropout=0.4)
    np.testing.assert_array_equal(got, [TinyTrainer(0.4).run(13)[7:]] * 2)


# Answers to resume, as people write them


def deep(trainer: TinyTrainer) -> State:
    return copy.deepcopy(vars(trainer))


def put_copies(trainer: TinyTrainer, state: State) -> None:
    vars(trainer).update(copy.deepcopy(state))


def put(trainer: TinyTrainer, state: State) -> None:
    for name, value in state.items():
        setattr(trainer, name, value)


def by_hand(trainer: TinyTrainer) -> State:
    return {
        "weights": trainer.weights.copy(),
        "mean": trainer.mean.copy(),
        "square": trainer.square.copy(),
        "updates": trainer.updates,
        "order": trainer.order.copy(),
        "place": trainer.place,
        "generator": trainer.generator.bit_generator.state,
    }


def by_hand_back(trainer: TinyTrainer, state: State) -> None:
    for name in ("weights", "mean", "square", "order"):
        getattr(trainer, name)[:] = state[name]
    trainer.updates, trainer.place = state["updates"], state["place"]
    trainer.generator.bit_generator.state = state["generator"]


def without(*names: str) -> Callable[[TinyTrainer], State]:
    """Saves all but these; what is missing stays as in the new trainer."""
    return lambda trainer: {k: v for k, v in deep(trainer).items() if k not in names}


def shared_arrays(trainer: TinyTrainer) -> State:
    own = ("weights", "mean", "square", "order")
    return by_hand(trainer) | {name: getattr(trainer, name) for name in own}


def from_a_state_dict(trainer: TinyTrainer, state: State) -> None:
    """As ``by_hand_back``, with the arrays of the state themselves."""
    for name in ("weights", "mean", "square", "order", "updates", "place"):
        setattr(trainer, name, state[name])
    trainer.generator.bit_generator.state = state["generator"]


@pytest.mark.parametrize(
    ("save", "restore"), [(deep, put_copies), (by_hand, by_hand_back)]
)
def test_a_complete_state_passes(save: Any, restore: Any) -> None:
    assert check("resume", rehearse(save, restore)).passed


@pytest.mark.parametrize(
    ("save", "restore", "mistakes"),
    [
        (without("mean", "square"), put_copies, ("moments_forgotten",)),
        (without("updates"), put_copies, ("updates_forgotten",)),
        (without("generator"), put_copies, ("generator_forgotten",)),
        (without("place"), put_copies, ("place_forgotten",)),
        (without("place", "order"), put_copies, ("epoch_forgotten",)),
        (
            without("generator", "updates"),
            put_copies,
            ("updates_forgotten", "generator_forgotten"),
        ),
        (
            lambda trainer: {"weights": trainer.weights.copy()},
            put_copies,
            ("weights_only",),
        ),
        (
            without("updates", "order", "place", "generator"),
            put_copies,
            ("weights_and_moments_only",),
        ),
        (deep, lambda trainer, state: None, ("nothing_restored",)),
        (shared_arrays, by_hand_back, ("saved_without_copies",)),
        (by_hand, from_a_state_dict, ("restored_without_copies",)),
        (shared_arrays, from_a_state_dict, ("arrays_shared",)),
        (deep, put, ("restored_without_copies", "generator_handed_over")),
        (lambda trainer: dict(vars(trainer)), put, ("all_shared",)),
        (copy.copy, lambda trainer, state: put(trainer, vars(state)), ("all_shared",)),
        (vars, put, ("nothing_copied",)),
        (vars, put_copies, ("state_is_alive",)),
        (
            lambda trainer: dict(vars(trainer)),
            put_copies,
            ("saved_without_copies", "generator_not_copied"),
        ),
    ],
)
def test_what_is_missing_or_shared_is_named(
    save: Any, restore: Any, mistakes: tuple[str, ...]
) -> None:
    assert set(check("resume", rehearse(save, restore)).mistakes) == set(mistakes)


def test_stubs_of_save_and_restore_are_not_attempted() -> None:
    def stub(*arguments: Any) -> Any: ...

    assert check("resume", rehearse(stub, stub)).status == "not attempted"


def test_an_error_in_save_is_told_with_its_line() -> None:
    verdict = check("resume", rehearse(lambda trainer: trainer.moments, put))
    assert verdict.status == "error"
    assert "moments" in str(verdict)


# The references of the library pass, and answers as people write them are named


def _batch_numbers(lengths: Any, max_tokens: Any) -> Any:
    out = np.zeros(len(lengths), dtype=int)
    for number, batch in enumerate(reference.batches_by_length(lengths, max_tokens)):
        out[batch] = number
    return out


def _loss(log_p: Any, targets: Any, eps: Any) -> Any:
    counts = np.array([(t != 0).sum() for t in targets])
    means = [
        reference.cross_entropy(logits, ids, float(eps), pad_id=0)
        for logits, ids in zip(log_p, targets, strict=True)
    ]
    return reference.token_mean(counts * np.array(means), counts)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("schedule", reference.inverse_square_root),
        ("exact_match", reference.exact_match),
        ("buckets", _batch_numbers),
    ],
)
def test_the_library_passes(name: str, answer: Any) -> None:
    verdict = check(name, answer)
    assert verdict.passed
    assert verdict.notes == ()


def test_the_librarys_loss_agrees_where_the_chances_sum_to_one() -> None:
    exercise = registry.find("smoothed_loss")
    for probe in exercise.probes:
        log_p, targets, eps = probe.arguments
        exact = [reference.log_softmax(logits) for logits in log_p]
        assert exercise.reference(exact, targets, eps) == pytest.approx(
            _loss(exact, targets, eps), abs=1e-12
        )


def _paper(step: Any, d_model: Any, warmup: Any) -> Any:
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def test_the_papers_formula_passes_with_a_note_on_step_0() -> None:
    verdict = check("schedule", _paper)
    assert verdict.passed
    assert "LambdaLR asks for step 0 first" in verdict.notes[0]
    shifted = check("schedule", lambda s, d, w: _paper(s + 1, d, w))
    assert shifted.passed
    assert "counts the steps from 0" in str(shifted)


def _not_reset(w: Any, b: Any, updates: Any, lr: Any, clip: Any) -> Any:
    dw, db = np.zeros_like(w), 0.0
    for micro_batches in updates:
        for X, y in micro_batches:
            error = X @ w + b - y
            dw = dw + X.T @ error / len(y) / len(micro_batches)
            db = db + error.mean() / len(micro_batches)
        dw = dw * min(1.0, clip / np.linalg.norm(dw))
        db = db * min(1.0, clip / abs(db))
        w, b = w - lr * dw, b - lr * db
    return w, b


@pytest.mark.parametrize(
    ("name", "answer", "mistakes"),
    [
        ("schedule", lambda s, d, w: d**-0.5 * max(s**-0.5, s * w**-1.5), "max_for_min"),
        (
            "exact_match",
            lambda written, wanted, eos: 100 * np.mean(written == wanted),
            "places_counted",
        ),
        (
            "exact_match",
            lambda written, wanted, eos: 100 * (written == wanted).all(axis=1).mean(),
            "rest_compared",
        ),
        (
            "exact_match",
            lambda written, wanted, eos: 100 * (written == wanted)[wanted != 0].mean(),
            "token_accuracy",
        ),
        (
            "exact_match",
            lambda written, wanted, eos: (
                100
                * ((written == wanted) | (wanted == 0) | (wanted == eos)).all(1).mean()
            ),
            "end_left_out",
        ),
        (
            "exact_match",
            lambda written, wanted, eos: 100 * np.array_equal(written, wanted),
            "rest_compared all_or_nothing",
        ),
        (
            "smoothed_loss",
            lambda log_p, targets, eps: np.mean(
                [
                    -(
                        (1 - eps) * p[np.arange(len(t)), t] + eps * p.mean(axis=1)
                    )[t != 0].mean()
                    for p, t in zip(log_p, targets, strict=True)
                ]
            ),
            "mean_of_means",
        ),
        (
            "repaired_update",
            _not_reset,
            "not_reset mean_of_means clipped_apart",
        ),
    ],
)  # fmt: skip
def test_answers_as_people_write_them_are_named(
    name: str, answer: Any, mistakes: str
) -> None:
    assert set(check(name, answer).mistakes) == set(mistakes.split())


def test_a_mask_over_padding_alone_is_a_right_exact_match() -> None:
    """The end is then compared like any token."""
    verdict = check(
        "exact_match",
        lambda written, wanted, eos: (
            100 * ((written == wanted) | (wanted == 0)).all(axis=1).mean()
        ),
    )
    assert verdict.passed


def test_decoded_text_compared_is_an_accepted_exact_match() -> None:
    def text(row: Any, eos_id: int) -> list[int]:
        ids = list(row)
        ids = ids[: ids.index(eos_id)] if eos_id in ids else ids
        return [i for i in ids if i]

    def compare(written: Any, wanted: Any, eos_id: Any) -> Any:
        pairs = zip(written, wanted, strict=True)
        return 100 * np.mean([text(a, eos_id) == text(b, eos_id) for a, b in pairs])

    verdict = check("exact_match", compare)
    assert verdict.passed
    assert "no end as right" in str(verdict)


def test_the_longest_first_and_a_lost_last_batch() -> None:
    def fill(lengths: Any, max_tokens: Any, order: Any, close: bool) -> Any:
        out, batch, number = np.zeros(len(lengths), dtype=int), [], 0
        for place in order:
            longest = max([lengths[i] for i in batch] + [lengths[place]])
            if batch and (len(batch) + 1) * longest > max_tokens:
                out[batch] = number
                batch, number = [], number + 1
            batch.append(place)
        if close:
            out[batch] = number
        return out

    falling = check("buckets", lambda n, m: fill(n, m, np.argsort(-n), close=True))
    assert falling.passed
    assert "begins with the longest" in str(falling)
    lost = check("buckets", lambda n, m: fill(n, m, np.argsort(n), close=False))
    assert lost.mistakes == ("last_batch_lost",)
