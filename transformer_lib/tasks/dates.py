"""Written dates and their ISO form: ``13.07.1914`` -> ``1914-07-13``.

The running example of the course. Every day from 1900 to 2099 (73,049 of them) can be
written in three numeric forms, or in sixteen forms in English, German and Korean, by
the patterns of the Unicode CLDR as Babel applies them. No form shortens the year, so a
text has one date. Data are split **by date**: a date of the test set is in the training
set in no form at all.
"""

import functools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, NamedTuple, SupportsInt

import numpy as np
from babel.core import UnknownLocaleError
from babel.dates import format_date
from jaxtyping import Int

from transformer_lib.nn.checks import check_size
from transformer_lib.tasks.task import CharacterVocabulary, Pair, Task, Vocabulary

__all__ = [
    "FIRST_DATE",
    "ISO_CHARACTERS",
    "ISO_LENGTH",
    "LAST_DATE",
    "NUMERIC_FORMS",
    "WRITTEN_FORMS",
    "Alphabet",
    "DateSplit",
    "DatesTask",
    "Form",
    "all_dates",
    "date_pairs",
    "iso_classes",
    "split_dates",
    "write_date",
]

FIRST_DATE = date(1900, 1, 1)
LAST_DATE = date(2099, 12, 31)

ISO_CHARACTERS = "0123456789-"
"""The characters of an ISO date; an answer slot is classified into one of them."""

ISO_LENGTH = 10
"""Characters in an ISO date: ``1914-07-13``."""


class Form(NamedTuple):
    """A way to write a date: a CLDR pattern, and the language of its words."""

    locale: str
    pattern: str


NUMERIC_FORMS = (
    Form("de", "dd.MM.y"),
    Form("en", "y/MM/dd"),
    Form("en", "yMMdd"),
)
"""``13.07.1914``, ``1914/07/13``, ``19140713``: the three of the scoreboard."""

WRITTEN_FORMS = (
    *NUMERIC_FORMS,
    Form("en", "MMMM d, y"),
    Form("en", "MMM d, y"),
    Form("en", "EEEE, MMMM d, y"),
    Form("en", "d MMMM y"),
    Form("en", "EEE, d MMM y"),
    Form("de", "d. MMMM y"),
    Form("de", "d. MMM y"),
    Form("de", "EEEE, d. MMMM y"),
    Form("de", "EEE, dd.MM.y"),
    Form("ko", "y년 M월 d일"),
    Form("ko", "y년 M월 d일 EEEE"),
    Form("ko", "y. M. d."),
    Form("ko", "y. M. d. (EEE)"),
)
"""Sixteen forms in English, German and Korean; the first three are the numeric ones."""


def all_dates() -> list[date]:
    """Return every day from :data:`FIRST_DATE` to :data:`LAST_DATE`, in order."""
    days = (LAST_DATE - FIRST_DATE).days + 1
    return [FIRST_DATE + timedelta(days=i) for i in range(days)]


def write_date(day: date, form: Form) -> str:
    """Write ``day`` in ``form``.

    Examples
    --------
    >>> [write_date(date(1914, 7, 3), form) for form in NUMERIC_FORMS]
    ['03.07.1914', '1914/07/03', '19140703']
    >>> write_date(date(1914, 7, 3), Form("de", "EEEE, d. MMMM y"))
    'Freitag, 3. Juli 1914'
    """
    return format_date(day, format=form.pattern, locale=form.locale)


class DateSplit(NamedTuple):
    """Three lists of dates without a common member."""

    train: list[date]
    validation: list[date]
    test: list[date]


def split_dates(seed: int, train: int, validation: int, test: int) -> DateSplit:
    """Draw three disjoint sets of dates, in random order.

    Parameters
    ----------
    seed
        Same seed, same split. The test dates do not depend on the size of the
        training set.
    train, validation, test
        How many dates of each, 0 or more, at most 73,049 together.

    Returns
    -------
    DateSplit
        ``train``, ``validation`` and ``test``.

    Raises
    ------
    ValueError
        If a size is negative or the sizes exceed the number of dates.
    """
    _check_sizes(train, validation, test)
    dates = all_dates()
    random.Random(seed).shuffle(dates)
    held_out = test + validation
    return DateSplit(
        train=dates[held_out : held_out + train],
        validation=dates[test:held_out],
        test=dates[:test],
    )


def date_pairs(
    dates: Iterable[date], forms: Sequence[Form], seed: int
) -> list[tuple[str, str]]:
    """Write each date once, in a form drawn at random, beside its ISO form.

    Parameters
    ----------
    dates
        The dates, in the order of the pairs.
    forms
        The forms to draw from, all alike.
    seed
        Same seed, same forms.

    Returns
    -------
    list of (written, iso)

    Raises
    ------
    ValueError
        If ``forms`` is empty.

    Examples
    --------
    >>> date_pairs([date(1914, 7, 3)], [Form("en", "MMMM d, y")], seed=0)
    [('July 3, 1914', '1914-07-03')]
    """
    if not forms:
        raise ValueError("forms: got none, wanted at least one")
    generator = random.Random(seed)
    return [
        (write_date(day, generator.choice(forms)), day.isoformat()) for day in dates
    ]


@dataclass(frozen=True)
class Alphabet:
    """Characters and their ids; id 0 is padding.

    Parameters
    ----------
    characters
        The characters in the order of their ids, which start at 1. No repetition.

    Raises
    ------
    ValueError
        If a character occurs twice or there is none.

    Examples
    --------
    >>> alphabet = Alphabet.of(["12.7", "3"])
    >>> alphabet.characters
    '.1237'
    >>> alphabet.encode(["12.7", "3"])
    array([[2, 3, 1, 5],
           [4, 0, 0, 0]])
    >>> alphabet.decode([2, 3, 1, 5, 0])
    '12.7'
    """

    characters: str

    pad_id = 0

    def __post_init__(self) -> None:
        if not self.characters:
            raise ValueError("characters: got none, wanted at least one")
        if len(set(self.characters)) != len(self.characters):
            raise ValueError(f"characters: one occurs twice in {self.characters!r}")

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Alphabet":
        """Make the alphabet of all characters in ``texts``, sorted."""
        return cls("".join(sorted(set().union(*texts))))

    def __len__(self) -> int:
        """Count the ids, padding included."""
        return len(self.characters) + 1

    def encode(self, texts: Sequence[str]) -> Int[np.ndarray, "texts longest"]:
        """Return one row of ids per text, padded on the right to the longest.

        Raises
        ------
        ValueError
            If a text holds a character that is not in the alphabet.
        """
        id_of = {character: i for i, character in enumerate(self.characters, start=1)}
        longest = max((len(text) for text in texts), default=0)
        ids = np.full((len(texts), longest), self.pad_id, dtype=np.int64)
        for row, text in zip(ids, texts, strict=True):
            for column, character in enumerate(text):
                if character not in id_of:
                    raise ValueError(
                        f"texts: {character!r} in {text!r} is not one of the "
                        f"{len(self.characters)} characters of this alphabet"
                    )
                row[column] = id_of[character]
        return ids

    def decode(self, ids: Iterable[SupportsInt]) -> str:
        """Return the text of one row of ids, without the padding."""
        numbers = (int(i) for i in ids)
        return "".join(self.characters[i - 1] for i in numbers if i != self.pad_id)


def iso_classes(isos: Sequence[str]) -> Int[np.ndarray, "texts 10"]:
    """Turn ISO dates into classes, one per answer slot: indices of ISO_CHARACTERS.

    Raises
    ------
    ValueError
        If a text is not ten characters of :data:`ISO_CHARACTERS`.

    Examples
    --------
    >>> iso_classes(["1914-07-03"])
    array([[ 1,  9,  1,  4, 10,  0,  7, 10,  0,  3]])
    """
    for iso in isos:
        if len(iso) != ISO_LENGTH or not set(iso) <= set(ISO_CHARACTERS):
            raise ValueError(f"isos: got {iso!r}, wanted the form 1914-07-13")
    classes = [[ISO_CHARACTERS.index(c) for c in iso] for iso in isos]
    return np.array(classes, dtype=np.int64).reshape(len(isos), ISO_LENGTH)


_NAMED_FORMS = {"written": WRITTEN_FORMS, "numeric": NUMERIC_FORMS}


class DatesTask(Task):
    """Written dates to ISO dates, character by character.

    A date is in one split only, in whatever form; each date of a split occurs once, in
    a form drawn at random.

    Parameters
    ----------
    seed
        Decides the split and the forms.
    forms
        ``"written"``, the sixteen of :data:`WRITTEN_FORMS`, ``"numeric"``, the three of
        :data:`NUMERIC_FORMS`, or a list of (locale, CLDR pattern).
    train, validation, test
        Dates in each split; ``train=None`` takes all that are left.

    Raises
    ------
    TypeError, ValueError
        If the sizes do not fit, or ``forms`` names no form.

    Examples
    --------
    >>> task = DatesTask()
    >>> task.pairs("test")[0]
    Pair(source='10. Mai 1965', target='1965-05-10')
    >>> {split: len(task.pairs(split)) for split in task.splits}
    {'train': 71049, 'validation': 1000, 'test': 1000}
    >>> len(task.source_vocabulary), len(task.target_vocabulary), task.max_len
    (61, 14, 30)
    """

    name = "dates"
    metric = "exact_match"
    pool = 8  # texts of one length are of one or two forms: larger pools mix them too little

    def __init__(
        self,
        *,
        seed: int = 0,
        forms: str | Sequence[Sequence[str]] = "written",
        train: int | None = None,
        validation: int = 1000,
        test: int = 1000,
    ) -> None:
        super().__init__()
        self.seed = check_size("seed", seed, least=0)
        self.forms = _forms(forms)
        check_size("validation", validation, least=0)
        check_size("test", test, least=0)
        if train is None:
            _check_sizes(0, validation, test)
            train = (LAST_DATE - FIRST_DATE).days + 1 - validation - test
        check_size("train", train, least=0)
        _check_sizes(train, validation, test)
        self.sizes = (train, validation, test)
        self._split: DateSplit | None = None

    def options(self) -> dict[str, Any]:
        """Return the arguments that make this task again, ready for JSON."""
        names = [name for name, forms in _NAMED_FORMS.items() if forms == self.forms]
        train, validation, test = self.sizes
        return {
            "seed": self.seed,
            "forms": names[0] if names else [list(form) for form in self.forms],
            "train": train,
            "validation": validation,
            "test": test,
        }

    @property
    def max_len(self) -> int:
        """Longest source or target in tokens, start and end included."""
        return max(_longest(self.forms), ISO_LENGTH + 2)

    def split(self) -> DateSplit:
        """Return the dates of each split."""
        if self._split is None:
            self._split = split_dates(self.seed, *self.sizes)
        return self._split

    def _read(self, split: str) -> list[Pair]:
        # A seed of its own for each split: its forms do not depend on the others' sizes.
        seed = 1_000_003 * (self.seed + 1) + self.splits.index(split)
        dates = getattr(self.split(), split)
        return [Pair(*pair) for pair in date_pairs(dates, self.forms, seed)]

    def _make_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        source = CharacterVocabulary.of(_every_kind_of_text(self.forms))
        return source, CharacterVocabulary(ISO_CHARACTERS)


@functools.lru_cache(maxsize=8)
def _every_kind_of_text(forms: tuple[Form, ...]) -> tuple[str, ...]:
    """Write dates in which every character of a form occurs, and its longest text.

    That is each month with each weekday and a day of two digits, each day, each year.
    """
    months = [date(1901, month, day) for month in range(1, 13) for day in range(22, 29)]
    days = [date(1904, 1, 1) + timedelta(days=i) for i in range(366)]
    years = [date(y, 1, 1) for y in range(FIRST_DATE.year, LAST_DATE.year + 1)]
    dates = [*months, *days, *years]
    return tuple(write_date(day, form) for form in forms for day in dates)


@functools.lru_cache(maxsize=8)
def _longest(forms: tuple[Form, ...]) -> int:
    return max(map(len, _every_kind_of_text(forms)))


def _forms(forms: str | Sequence[Sequence[str]]) -> tuple[Form, ...]:
    known = f"wanted {' or '.join(map(repr, _NAMED_FORMS))} or (locale, pattern) pairs"
    if isinstance(forms, str):
        if forms not in _NAMED_FORMS:
            raise ValueError(f"forms: got {forms!r}, {known}")
        return _NAMED_FORMS[forms]
    if not forms or any(isinstance(form, str) or len(form) != 2 for form in forms):
        raise ValueError(f"forms: got {forms!r}, {known}")
    made = tuple(Form(*form) for form in forms)
    try:
        for form in made:
            write_date(FIRST_DATE, form)
    except (ValueError, UnknownLocaleError, AttributeError, KeyError) as problem:
        raise ValueError(f"forms: {form} cannot be written ({problem})") from None
    return made


def _check_sizes(train: int, validation: int, test: int) -> None:
    for name, size in (("train", train), ("validation", validation), ("test", test)):
        if size < 0:
            raise ValueError(f"{name}: got {size} dates, wanted 0 or more")
    every = (LAST_DATE - FIRST_DATE).days + 1
    if train + validation + test > every:
        raise ValueError(
            f"train + validation + test: got {train + validation + test} dates, "
            f"wanted at most {every}"
        )
