"""Evaluation: the loss per real token, texts in their order, decoding that ends."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from letters import LettersTask, letters_run

from transformer_lib.decoding import greedy
from transformer_lib.nn import Transformer
from transformer_lib.training import Trainer, evaluate, evaluation, translate


@pytest.fixture
def task() -> LettersTask:
    return LettersTask()


@pytest.fixture
def model(task: LettersTask) -> Transformer:
    generator = torch.Generator().manual_seed(0)
    return Transformer(letters_run().config(task), generator)


@pytest.fixture(scope="module")
def trained() -> Transformer:
    trainer = Trainer(
        letters_run(steps=60, warmup=10, max_tokens=256, seed=1),
        task=LettersTask(train=400),
    )
    trainer.train()
    return trainer.model


def alone(model: Transformer, task: LettersTask, split: str) -> tuple[float, list[str]]:
    """Loss and texts of one pair at a time, with a plain loop."""
    total, tokens, written = 0.0, 0, []
    model.eval()
    for source, target in task.encode(task.pairs(split)):
        ids, labels = torch.tensor([source]), torch.tensor([target])
        with torch.no_grad():
            log_p = model(ids, labels[:, :-1])[0].log_softmax(-1)
        for row, label in zip(log_p, target[1:], strict=True):
            total, tokens = total - float(row[label]), tokens + 1
        best = greedy(model, ids, bos_id=1, eos_id=2, max_len=task.max_len)
        written.append(task.target_vocabulary.decode(best[0]))
    return total / tokens, written


@pytest.mark.parametrize("max_tokens", [16, 40, 8192])
def test_loss_and_texts_are_those_of_one_pair_at_a_time(
    trained: Transformer, task: LettersTask, max_tokens: int
) -> None:
    loss, written = alone(trained, task, "test")
    found = evaluate(trained, task, "test", max_tokens=max_tokens)
    assert found.loss == pytest.approx(loss, rel=1e-5)  # float32, another order
    assert found.written == written
    assert found.pairs == list(task.pairs("test"))
    assert found.scores == task.score(written, found.pairs)
    assert found.split == "test"


def test_the_mean_is_over_tokens_not_over_batches(
    model: Transformer, task: LettersTask
) -> None:
    """Batches of one token budget have unlike numbers of real tokens."""
    sizes = [
        evaluate(model, task, "test", max_tokens=size).loss for size in (8, 24, 4096)
    ]
    assert sizes == pytest.approx([sizes[0]] * 3, rel=1e-5)


def test_beam_search_of_size_1_is_greedy_and_larger_ones_are_used(
    trained: Transformer, task: LettersTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    ordinary = evaluation.beam_search

    def noting(*args: Any, **options: Any) -> Any:
        asked.append(options)
        return ordinary(*args, **options)

    monkeypatch.setattr(evaluation, "beam_search", noting)
    first = evaluate(trained, task, "test")
    assert not asked
    found = evaluate(trained, task, "test", beam_size=3, length_penalty=0.2)
    assert {(o["beam_size"], o["length_penalty"]) for o in asked} == {(3, 0.2)}
    assert found.loss == pytest.approx(first.loss)
    assert len(found.written) == len(first.written)


def test_a_model_that_never_ends_is_stopped(
    model: Transformer, task: LettersTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = []
    ordinary = evaluation.greedy

    def noting(*args: Any, **options: Any) -> Any:
        longest.append(options["max_len"])
        return ordinary(*args, **options)

    monkeypatch.setattr(evaluation, "greedy", noting)
    with torch.no_grad():  # the end never is the likeliest
        model.target_embedding.weight[2] = 0.0
        model.target_embedding.weight[3:] += 1.0
    found = evaluate(model, task, "validation")
    assert max(longest) <= task.max_len
    assert max(map(len, found.written)) <= task.max_len


def test_the_model_is_left_as_it_was(model: Transformer, task: LettersTask) -> None:
    model.train()
    model.encoder.eval()
    before = {name: module.training for name, module in model.named_modules()}
    state = torch.random.get_rng_state()
    first = evaluate(model, task, "validation")
    assert evaluate(model, task, "validation") == first  # dropout was off
    assert {n: m.training for n, m in model.named_modules()} == before
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(p.grad is None for p in model.parameters())


def test_only_the_first_pairs_are_asked(model: Transformer, task: LettersTask) -> None:
    found = evaluate(model, task, "validation", limit=5)
    assert found.pairs == list(task.pairs("validation")[:5])
    assert len(found.written) == 5


def test_errors_are_all_that_is_not_exact(
    trained: Transformer, task: LettersTask
) -> None:
    found = evaluate(trained, task, "test")
    wrong = found.errors()
    assert len(wrong) == round(20 * (1 - float(found.scores["exact_match"]) / 100))
    assert all(pair.target != text for pair, text in wrong)


def test_it_can_be_left_between_batches(model: Transformer, task: LettersTask) -> None:
    calls = []

    def leave() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        evaluate(model, task, "test", max_tokens=16, between=leave)


def test_translation_is_what_evaluation_writes(
    trained: Transformer, task: LettersTask
) -> None:
    found = evaluate(trained, task, "test")
    texts = [pair.source for pair in found.pairs]
    assert translate(trained, task, texts) == found.written
    by_beam = evaluate(trained, task, "test", beam_size=2)
    assert translate(trained, task, texts, beam_size=2) == by_beam.written
    assert translate(trained, task, []) == []


@pytest.mark.no_shape_hook
def test_bad_input_is_named(model: Transformer, task: LettersTask) -> None:
    for wrong, message in (
        ({"beam_size": 0}, "beam_size: got 0"),
        ({"limit": 0}, "limit: got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate(model, task, "test", **wrong)
    with pytest.raises(ValueError, match="split: got 'tset'"):
        evaluate(model, task, "tset")
    with pytest.raises(ValueError, match="text: got ''"):
        translate(model, task, [""])
    with pytest.raises(ValueError, match="'ä'"):
        translate(model, task, ["bä"])
