"""English number words and Korean numerals: known values, round trips, splits."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from transformer_lib.tasks.number_words import (
    ENGLISH,
    GAP,
    KOREAN,
    LARGEST,
    NumberWordsTask,
    Words,
    english_value,
    english_words,
    fitting,
    korean_numeral,
    korean_value,
    lose_a_word,
    romanised,
    split_numbers,
)

NUMBERS = st.integers(1, LARGEST) | st.integers(1, 8).flatmap(
    lambda digits: st.integers(10 ** (digits - 1), 10**digits - 1)
)

KNOWN = {
    1: ("one", "일"),
    10: ("ten", "십"),
    11: ("eleven", "십일"),
    20: ("twenty", "이십"),
    100: ("one hundred", "백"),
    110: ("one hundred ten", "백십"),
    1_000: ("one thousand", "천"),
    10_000: ("ten thousand", "만"),
    11_111: ("eleven thousand one hundred eleven", "만천백십일"),
    100_000: ("one hundred thousand", "십만"),
    1_000_000: ("one million", "백만"),
    6_000_081: ("six million eighty one", "육백만팔십일"),
    20_000_000: ("twenty million", "이천만"),
    99_999_999: (
        "ninety nine million nine hundred ninety nine thousand nine hundred ninety nine",
        "구천구백구십구만구천구백구십구",
    ),
}


@pytest.mark.parametrize("number", KNOWN)
def test_known_numbers(number: int) -> None:
    english, korean = KNOWN[number]
    assert " ".join(english_words(number)) == english
    assert "".join(korean_numeral(number)) == korean
    assert english_value(english.split()) == korean_value(korean) == number


@given(NUMBERS)
def test_english_is_that_of_num2words(number: int) -> None:
    theirs = num2words(number).replace("-", " ").replace(",", "").replace(" and ", " ")
    assert " ".join(english_words(number)) == theirs


@given(NUMBERS)
def test_korean_is_that_of_num2words(number: int) -> None:
    theirs = num2words(number, lang="ko").replace(" ", "")
    assert "".join(korean_numeral(number)) == theirs


@given(NUMBERS)
def test_both_texts_can_be_read_back(number: int) -> None:
    assert english_value(english_words(number)) == number
    assert korean_value(korean_numeral(number)) == number


@pytest.mark.parametrize(
    "text", ["", "백천", "일백", "일일", "만만", "십십", "영", "억"]
)
def test_what_is_no_numeral_has_no_value(text: str) -> None:
    assert korean_value(text) is None


@pytest.mark.parametrize(
    "text", ["", "hundred", "twelve hundred", "twenty eleven", "one and two", "zero"]
)
def test_what_is_no_number_word_has_no_value(text: str) -> None:
    assert english_value(text.split()) is None


@pytest.mark.parametrize("number", [0, -1, LARGEST + 1])
@pytest.mark.parametrize("write", [english_words, korean_numeral])
def test_numbers_out_of_range_are_refused(write: object, number: int) -> None:
    with pytest.raises(ValueError, match=f"number: got {number}, wanted 1 to"):
        write(number)  # type: ignore[operator]


@given(NUMBERS, st.integers(0, 2**32))
def test_a_number_fits_its_own_text_with_a_word_lost(number: int, seed: int) -> None:
    text = lose_a_word(english_words(number), random.Random(seed))
    assert text.count(GAP) == 1
    found = fitting(text)
    assert number in found
    assert found == sorted(set(found))
    place = text.index(GAP)
    for other in found:
        said = english_words(other)
        assert (*said[:place], GAP, *said[place + 1 :]) == text


def test_one_gap_can_hide_a_digit_or_a_size() -> None:
    assert fitting(("nine", GAP, "three")) == [903, 9_003, 9_000_003]
    assert fitting((GAP, "hundred")) == [100 * n for n in range(1, 10)]
    assert len(fitting((GAP, "thousand"))) == 27
    assert fitting(("hundred",)) == []


def test_a_split_repeats_and_keeps_the_test_numbers_apart() -> None:
    split = split_numbers(3, 2_000, 100)
    assert split == split_numbers(3, 2_000, 100)
    assert split != split_numbers(4, 2_000, 100)
    assert split.test == split_numbers(3, 10, 100).test
    assert not set(split.train) & set(split.test)
    assert len(set(split.test)) == 100
    assert min(split.test) >= 10_000
    lengths = [len(str(n)) for n in split.train]
    assert all(150 < lengths.count(digits) < 350 for digits in range(1, 9))


def test_sizes_of_a_split_are_checked() -> None:
    with pytest.raises(ValueError, match="train: got -1"):
        split_numbers(0, -1, 0)
    with pytest.raises(ValueError, match="test: got 100001"):
        split_numbers(0, 0, 100_001)


@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_ids_are_read_back(numbers: list[int]) -> None:
    numerals = [korean_numeral(n) for n in numbers]
    for ends in (False, True):
        ids = KOREAN.encode(numerals, ends=ends)
        assert [KOREAN.decode(row) for row in ids] == numerals
    assert (ids[:, 0] == KOREAN.bos_id).all()
    assert ((ids == KOREAN.eos_id).sum(axis=1) == 1).all()


def test_every_number_has_its_words_in_the_vocabularies() -> None:
    assert len(ENGLISH) == 3 + 27 + 3 + 1
    assert len(KOREAN) == 3 + 9 + 4
    ENGLISH.encode([english_words(n) for n in range(1, 2_000, 7)])
    with pytest.raises(ValueError, match="'zero' is not one of the tokens"):
        ENGLISH.encode([("zero",)])
    with pytest.raises(ValueError, match="one occurs twice"):
        Words(("a", "a"))


def test_latin_letters_for_every_syllable() -> None:
    assert romanised("구천팔백칠십육만오사삼이일") == (
        "gu cheon pal baek chil sip yuk man o sa sam i il"
    )
    with pytest.raises(ValueError, match="'억' is not one of"):
        romanised("억")


# --- the task -------------------------------------------------------------------------

TASK = NumberWordsTask(train=4_000)


def no_number_is_in_two_splits(task: NumberWordsTask) -> None:
    for side in ("source", "target"):
        train, *held = (
            {getattr(pair, side) for pair in task.pairs(s)} for s in task.splits
        )
        assert not train & set().union(*held)
        assert len(set().union(*held)) == sum(
            len(task.pairs(s)) for s in task.splits[1:]
        )


class DrawsAgain(NumberWordsTask):
    """Each split is drawn for itself, so that short numbers are in several."""

    def split(self) -> dict[str, list[int]]:
        draw = random.Random(0)
        return {split: draw.sample(range(1, 9000), 900) for split in self.splits}


def test_no_number_is_in_two_splits() -> None:
    no_number_is_in_two_splits(TASK)


def test_numbers_drawn_for_each_split_are_noticed() -> None:
    with pytest.raises(AssertionError):
        no_number_is_in_two_splits(DrawsAgain())


def test_both_sides_of_a_pair_are_the_same_number_to_num2words() -> None:
    for pair in TASK.pairs("test")[:300]:
        number = korean_value(pair.target)
        assert number is not None
        theirs = num2words(number).replace("-", " ").replace(",", "")
        assert TASK.prepare(theirs) == pair.source
        assert num2words(number, lang="ko").replace(" ", "") == pair.target


def test_sets_have_the_sizes_asked_for_and_do_not_depend_on_training() -> None:
    assert [len(TASK.pairs(s)) for s in TASK.splits] == [4_000, 1_000, 1_000]
    other = NumberWordsTask(train=10)
    assert list(other.pairs("test")) == list(TASK.pairs("test"))
    assert list(other.pairs("validation")) == list(TASK.pairs("validation"))
    assert NumberWordsTask(seed=1, train=0).pairs("test") != TASK.pairs("test")


def test_the_longest_texts_fit_and_reach_max_len() -> None:
    longest = korean_numeral(99_999_999)
    assert len(TASK.target_vocabulary.encode("".join(longest))) + 2 == TASK.max_len
    said = " ".join(english_words(77_777_777))
    assert len(TASK.encode_source(said)) < TASK.max_len


@given(NUMBERS)
def test_every_number_has_its_ids(number: int) -> None:
    english, korean = " ".join(english_words(number)), "".join(korean_numeral(number))
    source, target = TASK.source_vocabulary, TASK.target_vocabulary
    assert source.decode(TASK.encode_source(english)) == english
    assert target.decode(target.encode(korean)) == korean


@pytest.mark.parametrize(
    "typed",
    [
        "Twenty-one thousand, five hundred and six",
        "twenty one THOUSAND five hundred six",
    ],
)
def test_what_is_typed_is_brought_to_the_form_of_the_task(typed: str) -> None:
    assert TASK.prepare(typed) == " ".join(english_words(21_506))


@pytest.mark.no_shape_hook
def test_words_that_are_no_number_words_are_refused() -> None:
    with pytest.raises(
        ValueError, match="text: got 'billion' in 'one billion', wanted"
    ):
        TASK.encode_source("one billion")
    with pytest.raises(ValueError, match="wanted at least one character"):
        TASK.encode_source("and")
    with pytest.raises(ValueError, match="got 100001 numbers, wanted at most 100,000"):
        NumberWordsTask(validation=1, test=100_000)
