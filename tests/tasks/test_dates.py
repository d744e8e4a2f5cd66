"""Written dates: right, unambiguous, and split so that no date is in two sets."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib.tasks.dates import (
    FIRST_DATE,
    ISO_CHARACTERS,
    LAST_DATE,
    NUMERIC_FORMS,
    WRITTEN_FORMS,
    Alphabet,
    DateSplit,
    DatesTask,
    Form,
    all_dates,
    date_pairs,
    iso_classes,
    split_dates,
    write_date,
)
from transformer_lib.tasks.task import Pair

DAYS = st.dates(FIRST_DATE, LAST_DATE)


def test_there_are_73_049_dates() -> None:
    dates = all_dates()
    assert len(dates) == len(set(dates)) == 73_049
    assert (dates[0], dates[-1]) == (date(1900, 1, 1), date(2099, 12, 31))
    assert date(1900, 2, 28) in dates  # 1900 was no leap year, 2000 was one
    assert date(2000, 2, 29) in dates


def test_forms_are_written_as_readers_of_the_language_write_them() -> None:
    day = date(2041, 3, 7)
    written = [write_date(day, form) for form in WRITTEN_FORMS]
    assert written[:3] == ["07.03.2041", "2041/03/07", "20410307"]
    for expected in (
        "March 7, 2041",
        "Thursday, March 7, 2041",
        "Thu, 7 Mar 2041",
        "7. März 2041",
        "Donnerstag, 7. März 2041",
        "2041년 3월 7일",
        "2041년 3월 7일 목요일",
        "2041. 3. 7.",
    ):
        assert expected in written


def test_sixteen_forms_begin_with_the_numeric_ones_and_none_repeats() -> None:
    assert WRITTEN_FORMS[:3] == NUMERIC_FORMS
    assert len(set(WRITTEN_FORMS)) == len(WRITTEN_FORMS) == 16


def no_text_stands_for_two_dates(forms: tuple[Form, ...]) -> None:
    """Over three years of which one is a leap year, and the same days a century on."""
    dates = [d for d in all_dates() if d.year in (1911, 1912, 1913, 2011, 2012, 2013)]
    meaning: dict[str, date] = {}
    for day in dates:
        for form in forms:
            assert meaning.setdefault(write_date(day, form), day) == day


def test_no_text_stands_for_two_dates() -> None:
    no_text_stands_for_two_dates(WRITTEN_FORMS)


@pytest.mark.parametrize(
    "forms",
    [
        (Form("de", "dd.MM.yy"),),
        (Form("en", "dd/MM/y"), Form("en", "MM/dd/y")),
        (Form("en", "yMd"),),
    ],
    ids=["two digits of the year", "day and month confused", "no leading zeros"],
)
def test_ambiguous_forms_are_noticed(forms: tuple[Form, ...]) -> None:
    with pytest.raises(AssertionError):
        no_text_stands_for_two_dates(forms)


# --- splits ---------------------------------------------------------------------------

Split = Callable[[int], DateSplit]


def no_date_is_in_two_sets(split: Split) -> None:
    parts = [set(part) for part in split(0)]
    assert [len(part) for part in parts] == [500, 50, 60]
    assert len(set().union(*parts)) == 610


def another_seed_gives_another_split(split: Split) -> None:
    assert set(split(0).test) != set(split(1).test)


def same_seed_gives_the_same_split(split: Split) -> None:
    assert split(3) == split(3)


def sets_reach_over_the_whole_range(split: Split) -> None:
    for part in split(0):
        years = [day.year for day in part]
        assert min(years) < 1925
        assert max(years) > 2075


def _pairs_split_by_text(seed: int) -> DateSplit:
    """The fault that splitting by date avoids: the same date in another form."""
    generator = random.Random(seed)
    texts = [(day, form) for day in all_dates()[::80] for form in NUMERIC_FORMS]
    generator.shuffle(texts)
    days = [day for day, _ in texts]
    return DateSplit(days[:500], days[500:550], days[550:610])


def _in_order(seed: int) -> DateSplit:
    days = all_dates()
    return DateSplit(days[seed : 500 + seed], days[600:650], days[700:760])


def _never_the_same(seed: int) -> DateSplit:
    del seed
    return split_dates(random.randrange(10**9), 500, 50, 60)


SPLIT_PROPERTIES: dict[Callable[[Split], None], Split] = {
    no_date_is_in_two_sets: _pairs_split_by_text,
    another_seed_gives_another_split: lambda seed: split_dates(7, 500, 50, 60),
    same_seed_gives_the_same_split: _never_the_same,
    sets_reach_over_the_whole_range: _in_order,
}


@pytest.mark.parametrize("holds", SPLIT_PROPERTIES, ids=lambda f: f.__name__)
def test_split(holds: Callable[[Split], None]) -> None:
    holds(lambda seed: split_dates(seed, train=500, validation=50, test=60))


@pytest.mark.parametrize("holds", SPLIT_PROPERTIES, ids=lambda f: f.__name__)
def test_property_of_splits_rejects_its_fault(holds: Callable[[Split], None]) -> None:
    with pytest.raises(AssertionError):
        holds(SPLIT_PROPERTIES[holds])


def test_test_set_does_not_depend_on_the_size_of_the_training_set() -> None:
    assert split_dates(0, 10, 5, 20).test == split_dates(0, 5000, 5, 20).test


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((-1, 0, 0), "train: got -1 dates"),
        ((0, 0, -2), "test: got -2 dates"),
        ((73_000, 40, 10), "got 73050 dates, wanted at most 73049"),
    ],
)
def test_impossible_sizes_are_refused(
    sizes: tuple[int, int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        split_dates(0, *sizes)


# --- pairs, alphabet, classes ---------------------------------------------------------


def test_pairs_keep_the_order_of_the_dates_and_use_every_form() -> None:
    dates = all_dates()[:300]
    pairs = date_pairs(dates, NUMERIC_FORMS, seed=0)
    assert [iso for _, iso in pairs] == [day.isoformat() for day in dates]
    used = {
        form
        for day, (written, _) in zip(dates, pairs, strict=True)
        for form in NUMERIC_FORMS
        if write_date(day, form) == written
    }
    assert used == set(NUMERIC_FORMS)
    assert pairs == date_pairs(dates, NUMERIC_FORMS, seed=0)
    assert pairs != date_pairs(dates, NUMERIC_FORMS, seed=1)


def test_pairs_need_a_form() -> None:
    with pytest.raises(ValueError, match="forms: got none"):
        date_pairs(all_dates()[:3], [], seed=0)


@settings(deadline=None, max_examples=50)
@given(days=st.lists(DAYS, min_size=1, max_size=5), number=st.integers(0, 15))
def test_decoding_undoes_encoding(days: list[date], number: int) -> None:
    texts = [write_date(day, WRITTEN_FORMS[number]) for day in days]
    alphabet = Alphabet.of(texts)
    ids = alphabet.encode(texts)
    assert ids.shape == (len(texts), max(len(text) for text in texts))
    assert ids.max() < len(alphabet)
    assert [alphabet.decode(row) for row in ids] == texts
    for row, text in zip(ids, texts, strict=True):
        np.testing.assert_array_equal(
            row == Alphabet.pad_id, np.arange(len(row)) >= len(text)
        )


@settings(deadline=None, max_examples=50)
@given(day=DAYS)
def test_classes_of_an_iso_date_read_back_as_the_date(day: date) -> None:
    (classes,) = iso_classes([day.isoformat()])
    assert "".join(ISO_CHARACTERS[c] for c in classes) == day.isoformat()


def test_no_texts_give_empty_arrays() -> None:
    assert Alphabet("ab").encode([]).shape == (0, 0)
    assert iso_classes([]).shape == (0, 10)


@pytest.mark.no_shape_hook
def test_bad_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="texts: 'x' in '1x' is not one of the 2"):
        Alphabet("12").encode(["1x"])
    with pytest.raises(ValueError, match="characters: one occurs twice in '121'"):
        Alphabet("121")
    with pytest.raises(ValueError, match="characters: got none"):
        Alphabet.of([])
    for bad in ("1914-7-03", "1914-07-0३", "14.07.1914", ""):
        with pytest.raises(
            ValueError, match=r"isos: got .*, wanted the form 1914-07-13"
        ):
            iso_classes([bad])


# --- the task -------------------------------------------------------------------------

TASK = DatesTask(train=8_000)


def no_date_is_in_two_splits_in_any_form(task: DatesTask) -> None:
    of_split = [{pair.target for pair in task.pairs(s)} for s in task.splits]
    assert len(set().union(*of_split)) == sum(len(task.pairs(s)) for s in task.splits)
    texts = [{pair.source for pair in task.pairs(s)} for s in task.splits]
    assert len(set().union(*texts)) == sum(map(len, texts))


class SplitByText(DatesTask):
    """The fault that splitting by date avoids."""

    def _read(self, split: str) -> list[Pair]:
        pairs = [
            Pair(*pair)
            for seed in (0, 1)
            for pair in date_pairs(all_dates()[::40], WRITTEN_FORMS, seed)
        ]
        pairs = list(dict.fromkeys(pairs))
        random.Random(0).shuffle(pairs)
        first = {"train": 600, "validation": 300, "test": 0}[split]
        return pairs[first : first + 300]


def test_no_date_is_in_two_splits_in_any_form() -> None:
    no_date_is_in_two_splits_in_any_form(TASK)
    no_date_is_in_two_splits_in_any_form(DatesTask(seed=5, train=300, forms="numeric"))


def test_a_split_by_text_is_noticed() -> None:
    with pytest.raises(AssertionError):
        no_date_is_in_two_splits_in_any_form(SplitByText())


def test_all_dates_are_used_by_default() -> None:
    parts = DatesTask().split()
    assert sorted(day for part in parts for day in part) == all_dates()
    assert list(map(len, parts)) == [71_049, 1_000, 1_000]


def test_every_form_occurs_in_every_split_about_equally_often() -> None:
    for split in TASK.splits:
        days = getattr(TASK.split(), split)[:320]
        counts = dict.fromkeys(WRITTEN_FORMS, 0)
        for day, pair in zip(days, TASK.pairs(split), strict=False):
            matching = [f for f in WRITTEN_FORMS if write_date(day, f) == pair.source]
            for form in matching:  # "May" and "7. Mai" have no shorter form
                counts[form] += 1
            assert matching
        assert min(counts.values()) > 5  # of 20 expected


def test_pairs_of_a_split_do_not_depend_on_the_size_of_the_others() -> None:
    small = DatesTask(train=50)
    assert list(small.pairs("test")) == list(TASK.pairs("test"))
    assert list(small.pairs("validation")) == list(TASK.pairs("validation"))
    assert list(small.pairs("train")) == list(TASK.pairs("train")[:50])


def test_another_seed_is_another_task() -> None:
    assert DatesTask(seed=1, train=0).pairs("test") != TASK.pairs("test")


def test_characters_cover_every_text_and_max_len_is_reached() -> None:
    encoded = TASK.encode(TASK.pairs("train"))
    assert max(len(pair.source) for pair in encoded) == TASK.max_len == 30
    assert {len(pair.target) for pair in encoded} == {12}
    used = {i for pair in encoded for i in pair.source}
    assert used == set(range(3, len(TASK.source_vocabulary)))


@settings(deadline=None, max_examples=300)
@given(day=DAYS, number=st.integers(0, 15))
def test_every_date_in_every_form_has_numbers(day: date, number: int) -> None:
    text = write_date(day, WRITTEN_FORMS[number])
    ids = TASK.encode_source(text)
    assert TASK.source_vocabulary.decode(ids) == text
    assert len(ids) <= TASK.max_len


@pytest.mark.slow
def test_every_seventh_date_in_every_form_has_numbers() -> None:
    for form in WRITTEN_FORMS:
        texts = [write_date(day, form) for day in all_dates()[::7]]
        ids = TASK.source_vocabulary.encode_all(texts)
        assert max(map(len, ids)) <= TASK.max_len


def test_forms_can_be_chosen() -> None:
    numeric = DatesTask(forms="numeric", train=500)
    assert all(
        set(pair.source) <= set("0123456789./") for pair in numeric.pairs("train")
    )
    assert numeric.max_len == 12
    own = DatesTask(forms=[["fr", "d MMMM y"], ("en", "D/y")], train=20, test=5)
    assert own.options()["forms"] == [["fr", "d MMMM y"], ["en", "D/y"]]
    assert own.source_vocabulary.encode("14 février 1914")
    assert own.source_vocabulary.encode("366/2096")
    assert DatesTask(forms=list(WRITTEN_FORMS)).options()["forms"] == "written"


@pytest.mark.no_shape_hook
def test_characters_that_were_never_seen_are_refused() -> None:
    with pytest.raises(
        ValueError, match="text: got '七' in '七月 3, 1914', wanted char"
    ):
        TASK.encode_source("七月 3, 1914")
    with pytest.raises(ValueError, match="text: got 'j' in 'july 3, 1914'"):
        TASK.encode_source("july 3, 1914")


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"forms": "roman"}, "forms: got 'roman', wanted 'written' or 'numeric' or"),
        ({"forms": []}, r"forms: got \[\], wanted"),
        ({"forms": ["en", "de"]}, r"forms: got \['en', 'de'\], wanted"),
        ({"forms": [["en"]]}, r"forms: got \[\['en'\]\], wanted"),
        ({"forms": [["xx", "y"]]}, "locale='xx'.* cannot be written"),
        ({"train": 73_000}, "got 75000 dates, wanted at most 73049"),
        ({"validation": 73_000, "test": 100}, "got 73100 dates, wanted at most 73049"),
    ],
)
def test_impossible_tasks_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DatesTask(**options)
