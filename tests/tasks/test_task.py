"""Every task that has a name keeps the promises of the interface."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from transformer_lib.tasks import TASKS, Batches, load_task
from transformer_lib.tasks.task import (
    CharacterVocabulary,
    EncodedPair,
    Pair,
    Task,
    Vocabulary,
    exact_match,
)

ENGLISH = [
    "A dog runs.",
    "Two cats sleep on a red sofa.",
    "A man  rides a bike.",
    "Rain",
]
GERMAN = ["Ein Hund läuft.", "Zwei Katzen schlafen.", "Ein Mann fährt Rad.", "Regen"]
SPLITS = ("train", "val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captions")
    for i, split in enumerate(SPLITS):
        for language, lines in (("en", ENGLISH), ("de", GERMAN)):
            text = "\n".join(f"{line} {i}" for line in lines) + "\n"
            packed = gzip.compress(text.encode("utf-8"))
            (folder / f"{split}.{language}.gz").write_bytes(packed)
    return folder


@pytest.fixture(params=list(TASKS))
def made(request: pytest.FixtureRequest, captions: Path) -> Task:
    return _made(request.param, captions)


@lru_cache
def _made(name: str, captions: Path) -> Task:
    options: dict[str, dict[str, Any]] = {
        "dates": {"train": 1500, "validation": 200, "test": 300},
        "number_words": {"train": 1500, "validation": 200, "test": 300},
        "multi30k": {"folder": str(captions), "vocab_size": 300},
    }
    return load_task(name, **options[name])


def test_splits_begin_with_training_and_validation(made: Task) -> None:
    assert made.splits[:2] == ("train", "validation")
    assert len(made.splits) >= 3
    for split in made.splits:
        pairs = made.pairs(split)
        assert pairs
        assert all(isinstance(pair, Pair) for pair in pairs)
        assert made.pairs(split) is pairs  # made once


def test_vocabularies_write_back_every_text_of_the_task(made: Task) -> None:
    for split in made.splits:
        for pair in made.pairs(split):
            for vocabulary, text in (
                (made.source_vocabulary, pair.source),
                (made.target_vocabulary, pair.target),
            ):
                assert vocabulary.decode(vocabulary.encode(text)) == text


def test_pairs_are_encoded_between_start_and_end(made: Task) -> None:
    for split in made.splits:
        pairs = made.pairs(split)
        for pair, encoded in zip(pairs, made.encode(pairs), strict=True):
            assert isinstance(encoded, EncodedPair)
            assert encoded.source == made.source_vocabulary.encode(pair.source)
            assert encoded.source == made.encode_source(pair.source)
            start, *inside, end = encoded.target
            assert inside == made.target_vocabulary.encode(pair.target)
            assert (start, end) == (1, 2)
            assert max(map(len, encoded)) <= made.max_len
            assert made.target_vocabulary.decode(encoded.target) == pair.target


def test_no_pairs_are_no_numbers(made: Task) -> None:
    assert made.encode([]) == []


def test_options_make_the_same_task_again(made: Task) -> None:
    options = json.loads(json.dumps(made.options()))
    again = load_task(made.name, **options)
    assert type(again) is type(made)
    assert again.options() == made.options()
    for split in made.splits:
        assert list(again.pairs(split)) == list(made.pairs(split))
    assert again.vocabularies() == made.vocabularies()


def test_vocabularies_come_back_from_a_checkpoint(made: Task) -> None:
    saved = json.loads(json.dumps(made.vocabularies()))
    again = load_task(made.name, **made.options())
    again.set_vocabularies(saved)
    assert again.source_vocabulary == made.source_vocabulary
    assert again.target_vocabulary == made.target_vocabulary
    assert again.shares_vocabulary == made.shares_vocabulary
    assert (saved["target"] is None) == made.shares_vocabulary
    some = made.pairs("test")[:20] if "test" in made.splits else made.pairs("mscoco")
    assert again.encode(some) == made.encode(some)


def test_batches_can_be_made_of_every_split(made: Task) -> None:
    for split in made.splits:
        encoded = made.encode(made.pairs(split))
        batches = Batches(encoded, max_tokens=400, seed=0)
        rows = 0
        while batches.epoch == 0:
            rows += sum(len(batch.source) for batch in next(batches).batches)
        assert rows == len(encoded)


def test_the_targets_themselves_score_a_hundred(made: Task) -> None:
    pairs = made.pairs(made.splits[2])
    right = [pair.target for pair in pairs]
    score = made.score(right, pairs)
    assert score[made.metric] == pytest.approx(100.0)
    wrong = ["", *right[1:]]
    assert 0.0 < float(made.score(wrong, pairs)[made.metric]) < 100.0
    assert made.score([""] * len(pairs), pairs)[made.metric] == 0.0


@pytest.mark.no_shape_hook
def test_what_is_no_split_is_refused(made: Task) -> None:
    with pytest.raises(
        ValueError, match="split: got 'dev', wanted one of train, valid"
    ):
        made.pairs("dev")


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_an_empty_source_is_refused(made: Task, text: str) -> None:
    with pytest.raises(ValueError, match="wanted at least one character"):
        made.encode_source(text)


@pytest.mark.no_shape_hook
def test_a_source_that_is_too_long_is_refused(made: Task) -> None:
    longest = max((pair.source for pair in made.pairs("train")), key=len)
    with pytest.raises(ValueError, match=r"text: got \d+ tokens, wanted at most"):
        made.encode_source(" ".join([longest] * 40))


@pytest.mark.no_shape_hook
def test_as_many_texts_as_pairs_are_scored(made: Task) -> None:
    pairs = made.pairs(made.splits[2])
    with pytest.raises(
        ValueError, match=f"written: got 1 texts for {len(pairs)} pairs"
    ):
        made.score(["x"], pairs)
    with pytest.raises(ValueError, match="written: got 0 texts for 0 pairs"):
        made.score([], [])


def test_white_space_that_was_typed_does_not_matter(made: Task) -> None:
    source = made.pairs("train")[0].source
    typed = " " + source.replace(" ", " \t ") + "\n"
    assert made.encode_source(typed) == made.encode_source(source)


# --- loading --------------------------------------------------------------------------


def test_making_a_task_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Task, split: str) -> list[Pair]:
        raise AssertionError(f"read {split}")

    for task in TASKS.values():
        monkeypatch.setattr(task, "_read", refuse)
        made = load_task(task.name)
        assert made.max_len > 0
        assert task.name in str(made.options()) or made.options()
        assert type(made).__name__ in repr(made)


@pytest.mark.no_shape_hook
def test_unknown_names_and_options_list_the_known_ones() -> None:
    for name in ("date", "", None):
        with pytest.raises(
            ValueError, match=r"wanted one of the tasks dates, number_words, multi30k"
        ):
            load_task(name)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError,
        match="sed: the task dates has no such option, wanted some of seed, forms, train",
    ):
        load_task("dates", sed=3)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("name", ["dates", "number_words"])
@pytest.mark.parametrize("option", ["seed", "train", "validation", "test"])
def test_options_that_are_no_numbers_are_refused(name: str, option: str) -> None:
    with pytest.raises(TypeError, match=f"{option}: got '5', wanted a whole number"):
        load_task(name, **{option: "5"})
    with pytest.raises(ValueError, match=f"{option}: got -1, wanted 0 or more"):
        load_task(name, **{option: -1})


def test_names_are_those_of_the_classes() -> None:
    for name, task in TASKS.items():
        assert task.name == name
        assert task.metric in ("exact_match", "bleu")


# --- the base class with a task of our own --------------------------------------------


class Echo(Task):
    """A letter becomes itself."""

    name = "echo"
    max_len = 3

    def options(self) -> dict[str, Any]:
        return {}

    def _read(self, split: str) -> list[Pair]:
        return [Pair("a", "a"), Pair("b", "b"), Pair("é", "é")]

    def _make_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        both = CharacterVocabulary("abé")
        return both, both


def test_a_shared_vocabulary_stays_shared() -> None:
    task = Echo()
    assert task.source_vocabulary is task.target_vocabulary
    assert task.vocabularies()["target"] is None
    task.set_vocabularies(task.vocabularies())
    assert task.shares_vocabulary


def test_decomposed_letters_are_known() -> None:
    assert Echo().encode_source("e\N{COMBINING ACUTE ACCENT}") == [5]


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    "saved", [{}, {"source": {"kind": "x"}, "target": None}, {"source": None}]
)
def test_foreign_vocabularies_are_refused(saved: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"saved: got the keys|kind: got 'x'"):
        Echo().set_vocabularies(saved)


def score_by_hand(score: Callable[..., float]) -> None:
    pairs = Echo().pairs("test")
    assert score(["a", "b", "é"], pairs) == 100.0
    assert score(["a", "B", "e"], pairs) == pytest.approx(100 / 3)
    assert score(["a ", "ab", "É"], pairs) == 0.0


def test_exact_match_by_hand() -> None:
    score_by_hand(exact_match)


@pytest.mark.parametrize(
    "fault",
    [
        lambda written, pairs: exact_match(written, pairs) / 100,
        lambda written, pairs: exact_match([w.strip() for w in written], pairs),
        lambda written, pairs: exact_match([w[:1] for w in written], pairs),
    ],
    ids=["a share, no percentage", "spaces do not count", "a prefix is enough"],
)
def test_other_scores_are_noticed(fault: Callable[..., float]) -> None:
    with pytest.raises(AssertionError):
        score_by_hand(fault)
