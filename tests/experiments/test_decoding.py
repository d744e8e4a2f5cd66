"""Chapter 10's measurements: the task, the model that is loaded, and the records."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest
import torch
from torch import Tensor

from transformer_lib.decoding import greedy
from transformer_lib.experiments import decoding as task
from transformer_lib.experiments import records
from transformer_lib.experiments.decoding import Heard
from transformer_lib.nn import Transformer
from transformer_lib.tasks.number_words import (
    ENGLISH,
    GAP,
    KOREAN,
    english_value,
    fitting,
    korean_numeral,
    korean_value,
)

pytestmark = pytest.mark.no_shape_hook


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model() -> Transformer:
    return task.trained_model()


# --- the task -------------------------------------------------------------------------


def test_training_pairs_say_the_same_number_and_every_second_one_has_a_gap() -> None:
    (source, target), whole, gaps = task.numbers_for_seed(1, train=400, test=20)
    asked = {english_value(text) for text in whole.texts}
    with_gap = 0
    for words, syllables in zip(source, target, strict=True):
        text = ENGLISH.decode(words.tolist())
        number = korean_value(KOREAN.decode(syllables.tolist()))
        assert number in fitting(text)
        assert number not in asked
        with_gap += GAP in text
    assert 150 < with_gap < 250
    assert all(text.count(GAP) == 1 for text in gaps.texts)
    assert all(len(answers) == 1 for answers in whole.answers)


def test_heard_texts_know_what_fits_them() -> None:
    heard = Heard.of([("nine", GAP, "three"), ("nine",)])
    assert heard.answers == [
        {korean_numeral(n) for n in (903, 9_003, 9_000_003)},
        {("구",)},
    ]
    assert heard.share_right([("구", "천", "삼"), ("구",)]) == 1.0
    assert heard.share_right([("구",), ("구",)]) == 0.5
    assert task.ambiguous(heard).texts == [("nine", GAP, "three")]


# --- the model ------------------------------------------------------------------------


def test_the_loaded_model_has_not_been_left_behind_by_the_code(
    model: Transformer,
) -> None:
    """It opens the chapter with a wrong answer that it finds less likely."""
    heard = Heard.of([["twelve", "million", "one", "hundred", "fifty", "two"]])
    said = greedy(model, heard.source, **task.REQUEST)
    assert "".join(task.read(said)[0]) == "천이백만오백"
    right = torch.from_numpy(KOREAN.encode([korean_numeral(12_000_152)], ends=True))
    both = [
        task.log_probability(model, heard.source, ids).exp().item()
        for ids in (said, right[:, 1:])
    ]
    assert both == pytest.approx([0.159, 0.177], abs=0.002)
    file = task._checkpoint()
    assert file.stat().st_size < 1_000_000


def test_the_probability_of_a_sentence_is_that_of_its_tokens(
    model: Transformer,
) -> None:
    heard = Heard.of([("six",), ("nine", "hundred", "three")])
    rows = KOREAN.encode([("육",), ("구", "백", "삼")], ends=True)[:, 1:]
    together = task.log_probability(model, heard.source, torch.from_numpy(rows))
    for i, text in enumerate(heard.texts):
        alone = torch.from_numpy(ENGLISH.encode([text]))
        written, total = [KOREAN.bos_id], 0.0
        for token in rows[i][rows[i] != KOREAN.pad_id].tolist():
            with torch.no_grad():
                log_p = model(alone, torch.tensor([written]))[0, -1].log_softmax(-1)
            total += log_p[token].item()
            written.append(token)
        assert together[i].item() == pytest.approx(total, abs=1e-4)


def test_training_lowers_the_loss_and_repeats() -> None:
    once, again = (task.train_model(3, steps=12) for _ in range(2))
    for a, b in zip(once.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    (source, target), _, _ = task.numbers_for_seed(3)
    with torch.no_grad():
        losses = [
            m.loss(source[:64], target[:64]).item() for m in (task.new_model(3), once)
        ]
    assert losses[1] < losses[0] - 0.5


# --- the cache ------------------------------------------------------------------------


def test_two_hundred_prompts_give_the_same_tokens_with_and_without_cache(
    model: Transformer,
) -> None:
    assert task.same_with_cache(model, 200, seed=1) == (200, 200)


def test_a_cache_that_forgets_is_noticed(
    model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Transformer.step

    def one_too_far(self: Transformer, ids: Tensor, state: object) -> Tensor:
        state.length = max(1, state.length)  # type: ignore[attr-defined]
        return step(self, ids, state)  # type: ignore[arg-type]

    monkeypatch.setattr(Transformer, "step", one_too_far)
    batched, alone = task.same_with_cache(model, 20, seed=1)
    assert batched < 20
    assert alone < 20


def test_the_gain_of_the_cache_grows_with_the_length() -> None:
    """At 256 tokens at least twice that at 8; a busy machine gets three attempts."""
    for attempt in range(3):
        slow, fast = (task.seconds_to_write([8, 256], c) for c in (False, True))
        short, long = (a / b for a, b in zip(slow, fast, strict=True))
        if long >= 2 * short:
            break
        assert attempt < 2, (short, long)


# --- searching and drawing ------------------------------------------------------------


def test_a_beam_never_loses_probability_on_the_whole(model: Transformer) -> None:
    _, _, gaps = task.numbers_for_seed(0)
    some = Heard.of(gaps.texts[:60])
    found = task.search(model, some, [(4, 0.0)])
    assert set(found) == {"greedy", "beam 4, penalty 0"}
    assert found["greedy"].likelier == found["greedy"].less_likely == 0.0
    beam = found["beam 4, penalty 0"]
    assert beam.likelier > beam.less_likely
    assert all(0.0 <= share <= 1.0 for share in beam)


def test_mistakes_of_model_and_search_are_told_apart(model: Transformer) -> None:
    """The opening example was missed by the search; the other was believed."""
    _, whole, _ = task.numbers_for_seed(0)
    missed = Heard.of([["twelve", "million", "one", "hundred", "fifty", "two"]])
    assert task.blame(model, missed) == (1, 1)
    assert task.blame(model, Heard.of([("six", "million", "eighty", "one")])) == (0, 0)
    wrong, of_search = task.blame(model, whole)
    said = task.read(greedy(model, whole.source, **task.REQUEST))
    assert wrong == round((1 - whole.share_right(said)) * len(whole.texts))
    assert 0 < of_search < wrong


def test_greedy_sampling_finds_one_answer_and_sampling_several(
    model: Transformer,
) -> None:
    heard = Heard.of([(GAP, "hundred"), ("nine", GAP, "three")])
    assert task.sound_out(model, heard, draws=4, temperature=0.0) == (1.0, 1.0)
    right, different = task.sound_out(model, heard, draws=20)
    assert 0.7 < right <= 1.0
    assert 2.0 < different < 9.0


# --- records and widget ---------------------------------------------------------------


def test_the_record_of_seed_0_is_that_of_the_model_that_is_loaded(
    model: Transformer,
) -> None:
    record = records.load("decoding_search")
    _, whole, gaps = task.numbers_for_seed(0)
    for kind, heard in (("whole", whole), ("gap", gaps)):
        right = heard.share_right(
            task.read(greedy(model, heard.source, **task.REQUEST))
        )
        recorded = record["values"][f"{kind}, greedy, right"]
        assert min(recorded) - 0.02 <= right <= max(recorded) + 0.02
        assert right == pytest.approx(recorded[0], abs=0.03)


@pytest.mark.parametrize("name", ["search", "hurried", "sampling", "blame"])
def test_records_hold_ten_seeds(name: str) -> None:
    record = records.load(f"decoding_{name}")
    assert record["seeds"] == list(range(10))
    assert all(len(values) == 10 for values in record["values"].values())


def test_the_trees_of_the_widget_are_those_of_the_model(model: Transformer) -> None:
    file = resources.files("transformer_lib.widgets") / "data" / "decoding.json"
    recorded = json.loads(file.read_text(encoding="utf-8"))
    assert [tree["heard"] for tree in recorded["trees"]] == list(task.WIDGET_TEXTS)
    for tree in recorded["trees"]:
        words = tree["heard"].split()
        assert tree["fits"] == sorted(
            "".join(korean_numeral(n)) for n in fitting(words)
        )
        now = task.tree(model, words)
        assert list(now) == list(tree["next"])
        for text, pairs in now.items():
            assert [token for token, _ in pairs] == [t for t, _ in tree["next"][text]]
            assert np.allclose(
                [p for _, p in pairs], [p for _, p in tree["next"][text]], atol=1e-3
            )
