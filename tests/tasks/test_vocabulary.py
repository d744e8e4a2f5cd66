"""Texts to numbers and back: exactly, whatever somebody types, and after JSON too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib.tasks import vocabulary as vocabulary_module
from transformer_lib.tasks.vocabulary import (
    CharacterVocabulary,
    SubwordVocabulary,
    Vocabulary,
    WordVocabulary,
    vocabulary_from_dict,
)

CORPUS = [
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "Two young, White males are outside near many bushes.",
    "Mehrere Männer mit Schutzhelmen bedienen ein Antriebsradsystem.",
    "Several men in hard hats are operating a giant pulley system.",
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
    "A little girl climbing into a wooden playhouse.",
    "2014년 3월 7일",
] * 3

SUBWORDS = SubwordVocabulary.train(CORPUS, 400)
CHARACTERS = CharacterVocabulary.of(CORPUS)
WORDS = WordVocabulary(sorted({word for text in CORPUS for word in text.split()}))
ALL = [CHARACTERS, WORDS, SUBWORDS]
KINDS = ["characters", "words", "subwords"]

every_kind = pytest.mark.parametrize("vocabulary", ALL, ids=KINDS)


def plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


@every_kind
def test_decoding_undoes_encoding_on_the_texts_it_was_made_of(
    vocabulary: Vocabulary,
) -> None:
    for text in CORPUS:
        ids = vocabulary.encode(text)
        assert min(ids) > vocabulary.eos_id
        assert max(ids) < len(vocabulary)
        assert vocabulary.decode(ids) == text
    assert vocabulary.encode_all(CORPUS) == [vocabulary.encode(t) for t in CORPUS]


@every_kind
def test_special_numbers_are_padding_start_and_end(vocabulary: Vocabulary) -> None:
    assert (vocabulary.pad_id, vocabulary.bos_id, vocabulary.eos_id) == (0, 1, 2)
    assert vocabulary.unk_id is None
    ids = vocabulary.encode(CORPUS[3])
    assert vocabulary.decode([1, *ids, 2, 0, 0]) == CORPUS[3]
    assert vocabulary.decode([0, 1, *ids, 2, *ids]) == CORPUS[3]


@every_kind
def test_no_text_has_no_numbers(vocabulary: Vocabulary) -> None:
    assert vocabulary.encode("") == []
    assert vocabulary.decode([]) == vocabulary.decode([1, 2]) == ""
    assert vocabulary.encode_all([]) == []


@every_kind
@pytest.mark.parametrize("make", [list, np.array, torch.tensor, iter])
def test_numbers_come_as_list_array_tensor_or_iterator(
    vocabulary: Vocabulary, make: object
) -> None:
    ids = vocabulary.encode(CORPUS[0])
    assert vocabulary.decode(make(ids)) == CORPUS[0]  # type: ignore[operator]


@every_kind
def test_a_vocabulary_comes_back_from_json(vocabulary: Vocabulary) -> None:
    again = vocabulary_from_dict(json.loads(json.dumps(vocabulary.to_dict())))
    assert again == vocabulary
    assert hash(again) == hash(vocabulary)
    assert type(again) is type(vocabulary)
    assert len(again) == len(vocabulary)
    for text in CORPUS:
        assert again.encode(text) == vocabulary.encode(text)


def test_vocabularies_that_differ_are_not_equal() -> None:
    assert len(set(ALL)) == 3
    assert CharacterVocabulary("ab") != CharacterVocabulary("ba")
    assert SubwordVocabulary.train(CORPUS, 300) != SUBWORDS
    assert CHARACTERS != "characters"


@pytest.mark.parametrize("vocabulary", [CHARACTERS, SUBWORDS], ids=["char", "sub"])
def test_a_decomposed_text_has_the_numbers_of_the_composed_one(
    vocabulary: Vocabulary,
) -> None:
    for text in ("2014년 3월 7일", "weiße Männer"):
        apart = unicodedata.normalize("NFD", text)
        assert apart != text
        assert vocabulary.encode(apart) == vocabulary.encode(text)


def test_decomposed_words_are_known() -> None:
    words = WordVocabulary(["Männer"])
    assert words.encode(unicodedata.normalize("NFD", "Männer")) == [3]


@settings(deadline=None, max_examples=150)
@given(st.text() | st.text("aAäß. '<>/s\u0130한\u1100\u1161🌳e\u0301\xa0\n"))
def test_subwords_write_back_whatever_is_typed(text: str) -> None:
    ids = SUBWORDS.encode(text)
    assert SUBWORDS.decode([1, *ids, 2]) == plain(text)
    assert all(SUBWORDS.eos_id < i < len(SUBWORDS) for i in ids)


@pytest.mark.parametrize("text", ["</s>", "<s> a <pad>", "a</s>b", " </s> "])
def test_who_types_a_special_token_means_its_letters(text: str) -> None:
    ids = SUBWORDS.encode(text)
    assert min(ids) > SUBWORDS.eos_id
    assert SUBWORDS.decode(ids) == text.strip()


@settings(deadline=None)
@given(st.text("abc12", min_size=1, max_size=20))
def test_unknown_characters_are_refused_by_name(text: str) -> None:
    letters = CharacterVocabulary("abc")
    if set(text) <= set("abc"):
        assert letters.decode(letters.encode(text)) == text
    else:
        first = next(c for c in text if c in "12")
        with pytest.raises(ValueError, match=f"text: got '{first}' in "):
            letters.encode(text)


def test_unknown_words_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="text: got 'three' in 'two three', wanted"):
        WordVocabulary(["one", "two"]).encode("two three")


@every_kind
@pytest.mark.parametrize("bad", [-1, 10_000])
def test_numbers_outside_are_refused(vocabulary: Vocabulary, bad: int) -> None:
    with pytest.raises(ValueError, match=rf"ids: got {bad}, wanted 0 to"):
        vocabulary.decode([5, bad])


# --- learning subwords ----------------------------------------------------------------


def test_joins_by_hand() -> None:
    """In 1xab 2xab 3yab the pair (a b) comes three times, then (x ab) twice."""
    pieces = {
        size: SubwordVocabulary.train(["1xab 2xab 3yab"], 259 + size).pieces("5xab yab")
        for size in range(3)
    }
    assert pieces == {
        0: [" ", "5", "x", "a", "b", " ", "y", "a", "b"],
        1: [" ", "5", "x", "ab", " ", "y", "ab"],
        2: [" ", "5", "xab", " ", "y", "ab"],
    }


def test_frequent_words_are_whole_and_rare_ones_in_pieces() -> None:
    learned = SubwordVocabulary.train(["die katze sitzt"] * 50 + ["der hund"], 280)
    assert learned.pieces("die katze") == [" die", " katze"]
    assert len(learned.pieces("hund")) > 2
    assert "".join(learned.pieces("der hund")) == " der hund"


def test_a_join_never_crosses_a_space() -> None:
    learned = SubwordVocabulary.train(["in der nähe"] * 50, 400)
    assert learned.pieces("in der nähe") == [" in", " der", " nähe"]


def test_punctuation_is_apart_unless_it_was_split_before() -> None:
    texts = ["the dog &apos;s bed is well-made ."] * 50
    apart = SubwordVocabulary.train(texts, 400).pieces("dog &apos;s well-made .")
    together = SubwordVocabulary.train(texts, 400, split_punctuation=False)
    assert apart == [" dog", " &", "apos", ";", "s", " well", "-", "made", " ."]
    assert together.pieces("dog &apos;s .") == [" dog", " &apos;s", " ."]


def test_length_is_as_asked_or_what_the_texts_give() -> None:
    assert len(SUBWORDS) == 400
    assert len(SubwordVocabulary.train(["ab ab"], 1000)) == 259 + 2  # ' a', ' ab'
    assert len(SubwordVocabulary.train(CORPUS, 259)) == 259


def test_the_same_texts_give_the_same_vocabulary_in_any_number_of_threads() -> None:
    program = (
        "import sys, json, importlib.util as u;"  # without torch: ten times as fast
        f"s = u.spec_from_file_location('vocabulary', {vocabulary_module.__file__!r});"
        "m = u.module_from_spec(s); s.loader.exec_module(m);"
        "texts = json.load(sys.stdin);"
        "print(m.SubwordVocabulary.train(texts, 400).to_dict()['tokenizer'], end='')"
    )
    made = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(CORPUS),
        env={**os.environ, "RAYON_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    assert made.stdout == SUBWORDS.to_dict()["tokenizer"]


def test_more_words_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer_lib.tasks.vocabulary._MOST_REMEMBERED", 3)
    fresh = vocabulary_from_dict(SUBWORDS.to_dict())
    for text in CORPUS:
        assert fresh.encode(text) == SUBWORDS.encode(text)


# --- bad input ------------------------------------------------------------------------


@pytest.mark.no_shape_hook
def test_impossible_vocabularies_are_refused() -> None:
    with pytest.raises(ValueError, match="characters: 'a' occurs twice"):
        CharacterVocabulary("aba")
    with pytest.raises(ValueError, match="characters: got none"):
        CharacterVocabulary("")
    with pytest.raises(ValueError, match="words: 'one' occurs twice"):
        WordVocabulary(["one", "two", "one"])
    with pytest.raises(ValueError, match="words: got none"):
        WordVocabulary([])
    for word in ("", "a b", " a"):
        with pytest.raises(ValueError, match=f"words: got '{word}', wanted words with"):
            WordVocabulary(["one", word])
    with pytest.raises(ValueError, match="vocab_size: got 258, wanted 259 or more"):
        SubwordVocabulary.train(CORPUS, 258)
    with pytest.raises(ValueError, match="tokenizer: not a tokenizer's JSON"):
        SubwordVocabulary("{}")
    foreign = json.loads(SUBWORDS.to_dict()["tokenizer"])
    foreign["added_tokens"][0]["content"] = "<unk>"
    foreign["model"]["vocab"]["<unk>"] = foreign["model"]["vocab"].pop("<pad>")
    with pytest.raises(ValueError, match="tokenizer: got the first tokens"):
        SubwordVocabulary(json.dumps(foreign))


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ({}, "kind: got None, wanted one of characters, words, subwords"),
        ({"kind": "letters"}, "kind: got 'letters'"),
        ({"kind": "words"}, r"a vocabulary of words: got the keys \[\]"),
        ({"kind": "words", "words": ["a"], "x": 1}, r"got the keys \['words', 'x'\]"),
        ({"kind": "words", "words": ["a", "a"]}, "occurs twice"),
    ],
)
def test_what_is_no_saved_vocabulary_is_refused(
    saved: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        vocabulary_from_dict(saved)


def test_without_tokenizers_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for attempt in (
        lambda: SubwordVocabulary.train(CORPUS, 300),
        lambda: vocabulary_from_dict(SUBWORDS.to_dict()),
    ):
        with pytest.raises(
            ModuleNotFoundError, match=r"pip install 'transformer-lib\[training\]'"
        ):
            attempt()
    assert CHARACTERS.encode("Zwei")  # the others do without
