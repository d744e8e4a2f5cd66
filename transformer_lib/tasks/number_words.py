"""Numbers in English words and in Korean numerals: ``twelve thousand`` -> ``만이천``.

English names a number in groups of three digits, Korean in groups of four: *twenty
million* is two thousand ten-thousands, 이천만. Both are fully regular, so every number
from 1 to 99,999,999 has one text on each side, and each text can be checked.

Sentences are tuples of tokens: words in English, one syllable each in Korean. In a
sentence that was heard badly one word is replaced by :data:`GAP`; then several numbers
fit, and :func:`fitting` lists them.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsInt

import numpy as np
from jaxtyping import Int

from transformer_lib.nn.checks import check_size
from transformer_lib.tasks.task import (
    CharacterVocabulary,
    Pair,
    Task,
    Vocabulary,
    WordVocabulary,
)

__all__ = [
    "ENGLISH",
    "GAP",
    "KOREAN",
    "LARGEST",
    "SOUNDS",
    "NumberSplit",
    "NumberWordsTask",
    "Words",
    "english_value",
    "english_words",
    "fitting",
    "korean_numeral",
    "korean_value",
    "lose_a_word",
    "romanised",
    "split_numbers",
]

LARGEST = 99_999_999
"""The largest number that is written here: both sides stay below 억, 100,000,000."""

MOST_DIGITS = len(str(LARGEST))

GAP = "\N{HORIZONTAL ELLIPSIS}"
"""Stands for a word that was not heard."""

BELOW_TWENTY = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

DIGITS = "일이삼사오육칠팔구"
SMALL_UNITS = {"천": 1000, "백": 100, "십": 10}
MYRIAD = "만"

SOUNDS = {
    **dict(
        zip(
            DIGITS,
            ["il", "i", "sam", "sa", "o", "yuk", "chil", "pal", "gu"],
            strict=True,
        )
    ),
    **{"십": "sip", "백": "baek", "천": "cheon", "만": "man"},
}
"""How each syllable is spelt in Latin letters."""


def english_words(number: int) -> tuple[str, ...]:
    """Say a number in English, without *and* and without hyphens.

    Raises
    ------
    ValueError
        If ``number`` is not from 1 to :data:`LARGEST`.

    Examples
    --------
    >>> " ".join(english_words(12_345_006))
    'twelve million three hundred forty five thousand six'
    """
    _check_number(number)
    words: list[str] = []
    for size, unit in ((1_000_000, "million"), (1_000, "thousand"), (1, "")):
        group = number // size % 1000
        hundreds, rest = divmod(group, 100)
        if hundreds:
            words += [BELOW_TWENTY[hundreds - 1], "hundred"]
        if rest >= 20:
            words.append(TENS[rest // 10 - 2])
            rest %= 10
        if rest:
            words.append(BELOW_TWENTY[rest - 1])
        if group and unit:
            words.append(unit)
    return tuple(words)


def english_value(words: Sequence[str]) -> int | None:
    """Read English number words, or return ``None`` if they are not said as they should be.

    Examples
    --------
    >>> english_value("twelve thousand six".split())
    12006
    >>> english_value("twelve hundred".split()) is None
    True
    """
    total = group = 0
    for word in words:
        if word in BELOW_TWENTY:
            group += BELOW_TWENTY.index(word) + 1
        elif word in TENS:
            group += 10 * (TENS.index(word) + 2)
        elif word == "hundred":
            group *= 100
        elif word in ("thousand", "million"):
            total += group * (1_000 if word == "thousand" else 1_000_000)
            group = 0
        else:
            return None
    total += group
    # There is one right way to say a number: whatever reads as it must be that text.
    good = 1 <= total <= LARGEST and english_words(total) == tuple(words)
    return total if good else None


def lose_a_word(words: Sequence[str], generator: random.Random) -> tuple[str, ...]:
    """Put :data:`GAP` in place of one word, each as likely as the others.

    Examples
    --------
    >>> lose_a_word(("two", "hundred", "six"), random.Random(1))
    ('…', 'hundred', 'six')
    """
    place = generator.randrange(len(words))
    return (*words[:place], GAP, *words[place + 1 :])


def fitting(words: Sequence[str]) -> list[int]:
    """All numbers that a text can mean, if its gaps are filled by one word each.

    Examples
    --------
    >>> fitting(("nine", GAP, "three"))
    [903, 9003, 9000003]
    >>> fitting(("nine", "hundred"))
    [900]
    """
    if GAP not in words:
        value = english_value(words)
        return [] if value is None else [value]
    place = list(words).index(GAP)
    before, after = tuple(words[:place]), tuple(words[place + 1 :])
    spoken = (*BELOW_TWENTY, *TENS, "hundred", "thousand", "million")
    return sorted(n for word in spoken for n in fitting((*before, word, *after)))


def korean_numeral(number: int) -> tuple[str, ...]:
    """Write a number in Korean, one syllable per token; 일 is left out before a unit.

    Raises
    ------
    ValueError
        If ``number`` is not from 1 to :data:`LARGEST`.

    Examples
    --------
    >>> "".join(korean_numeral(12_345_006))
    '천이백삼십사만오천육'
    >>> "".join(korean_numeral(10_010))
    '만십'
    """
    _check_number(number)
    myriads, rest = divmod(number, 10_000)
    syllables: list[str] = []
    if myriads:
        syllables += [*(_below_myriad(myriads) if myriads > 1 else []), MYRIAD]
    return tuple(syllables + _below_myriad(rest))


def korean_value(syllables: Iterable[str]) -> int | None:
    """Read a Korean numeral, or return ``None`` if it is not written as it should be.

    Examples
    --------
    >>> korean_value("천이백삼십사만오천육")
    12345006
    >>> korean_value("백천") is None
    True
    """
    text = tuple(syllables)
    value, group, digit = 0, 0, 0
    for syllable in text:
        if syllable in DIGITS:
            digit = DIGITS.index(syllable) + 1
        elif syllable in SMALL_UNITS:
            group, digit = group + (digit or 1) * SMALL_UNITS[syllable], 0
        elif syllable == MYRIAD:
            value, group, digit = value + ((group + digit) or 1) * 10_000, 0, 0
        else:
            return None
    value += group + digit
    # The right way to write a number is one: whatever reads as it must be that text.
    good = 1 <= value <= LARGEST and korean_numeral(value) == text
    return value if good else None


def romanised(syllables: Iterable[str]) -> str:
    """Spell each syllable in Latin letters, for figures, which have no Hangul.

    Raises
    ------
    ValueError
        If a syllable is not one of a numeral.

    Examples
    --------
    >>> romanised("이천만")
    'i cheon man'
    """
    sounds = []
    for syllable in syllables:
        if syllable not in SOUNDS:
            raise ValueError(f"syllables: {syllable!r} is not one of {''.join(SOUNDS)}")
        sounds.append(SOUNDS[syllable])
    return " ".join(sounds)


class NumberSplit(NamedTuple):
    """Two lists of numbers without a common member."""

    train: list[int]
    test: list[int]


def split_numbers(seed: int, train: int, test: int) -> NumberSplit:
    """Draw numbers of 1 to 8 digits, each length as often as the others, half zeros.

    Parameters
    ----------
    seed
        Same seed, same numbers.
    train
        How many numbers to draw for training, 0 or more; short ones come repeatedly.
    test
        How many different numbers of five digits or more to keep from training.

    Returns
    -------
    NumberSplit
        ``train`` and ``test``.

    Raises
    ------
    ValueError
        If a size is negative, or ``test`` above 100,000.

    Examples
    --------
    >>> split_numbers(seed=0, train=3, test=2).test
    [71978002, 506060]
    """
    if train < 0:
        raise ValueError(f"train: got {train} numbers, wanted 0 or more")
    if not 0 <= test <= 100_000:
        raise ValueError(f"test: got {test} numbers, wanted 0 to 100,000")
    generator = random.Random(seed)
    kept: dict[int, None] = {}  # a set that remembers the order
    while len(kept) < test:
        kept[_draw(generator, least_digits=5)] = None
    drawn: list[int] = []
    while len(drawn) < train:
        number = _draw(generator, least_digits=1)
        if number not in kept:
            drawn.append(number)
    return NumberSplit(drawn, list(kept))


@dataclass(frozen=True)
class Words:
    """Tokens and their ids; 0 is padding, 1 the start, 2 the end of a sentence.

    Parameters
    ----------
    tokens
        The tokens in the order of their ids, which start at 3. No repetition.

    Raises
    ------
    ValueError
        If a token occurs twice.

    Examples
    --------
    >>> ENGLISH.encode([("two", "hundred"), ("six",)])
    array([[ 4, 30],
           [ 8,  0]])
    >>> KOREAN.encode([tuple("이백"), tuple("육")], ends=True)
    array([[ 1,  4, 13,  2],
           [ 1,  8,  2,  0]])
    >>> "".join(KOREAN.decode([4, 13, 2, 0]))
    '이백'
    """

    tokens: tuple[str, ...]

    pad_id = 0
    bos_id = 1
    eos_id = 2

    def __post_init__(self) -> None:
        if len(set(self.tokens)) != len(self.tokens):
            raise ValueError(f"tokens: one occurs twice in {self.tokens!r}")

    def __len__(self) -> int:
        """Count the ids, the three special ones included."""
        return len(self.tokens) + 3

    def encode(
        self, sentences: Sequence[Sequence[str]], ends: bool = False
    ) -> Int[np.ndarray, "sentences longest"]:
        """Return one row of ids per sentence, padded on the right to the longest.

        Parameters
        ----------
        sentences
            Tokens.
        ends
            Put the start token before and the end token behind each sentence.

        Raises
        ------
        ValueError
            If a token is unknown.
        """
        id_of = {token: i for i, token in enumerate(self.tokens, start=3)}
        rows = []
        for sentence in sentences:
            unknown = [token for token in sentence if token not in id_of]
            if unknown:
                raise ValueError(f"sentences: {unknown[0]!r} is not one of the tokens")
            row = [id_of[token] for token in sentence]
            rows.append([self.bos_id, *row, self.eos_id] if ends else row)
        longest = max(map(len, rows), default=0)
        padded = [row + [self.pad_id] * (longest - len(row)) for row in rows]
        return np.array(padded, dtype=np.int64).reshape(len(rows), longest)

    def decode(self, ids: Iterable[SupportsInt]) -> tuple[str, ...]:
        """Return the tokens of one row of ids, up to the end token or padding."""
        found: list[str] = []
        for i in map(int, ids):
            if i in (self.pad_id, self.eos_id):
                break
            if i != self.bos_id:
                found.append(self.tokens[i - 3])
        return tuple(found)


ENGLISH = Words((*BELOW_TWENTY, *TENS, "hundred", "thousand", "million", GAP))
"""The words of :func:`english_words`, and the gap."""

KOREAN = Words((*DIGITS, *reversed(SMALL_UNITS), MYRIAD))
"""The syllables of :func:`korean_numeral`: nine digits, 십, 백, 천, 만."""


class NumberWordsTask(Task):
    """English number words to Korean numerals: words to syllables.

    A number of the validation or test set is in no other set. Both texts are what the
    package num2words writes, without *and*, commas, hyphens and spaces in Korean.

    Parameters
    ----------
    seed
        Decides the numbers.
    train
        Numbers drawn for training; short ones come repeatedly.
    validation, test
        Different numbers of five digits or more.

    Raises
    ------
    TypeError, ValueError
        If a size is negative, or the last two are above 100,000 together.

    Examples
    --------
    >>> task = NumberWordsTask()
    >>> task.pairs("train")[0]
    Pair(source='ninety thousand seven hundred fifty three', target='구만칠백오십삼')
    >>> task.prepare("Twenty-one thousand, five hundred and six")
    'twenty one thousand five hundred six'
    >>> len(task.source_vocabulary), len(task.target_vocabulary), task.max_len
    (33, 16, 17)
    """

    name = "number_words"
    metric = "exact_match"
    max_len = 17  # 구천구백구십구만구천구백구십구 between start and end

    def __init__(
        self,
        *,
        seed: int = 0,
        train: int = 60_000,
        validation: int = 1000,
        test: int = 1000,
    ) -> None:
        super().__init__()
        self.seed = check_size("seed", seed, least=0)
        self.sizes = (
            check_size("train", train, least=0),
            check_size("validation", validation, least=0),
            check_size("test", test, least=0),
        )
        if validation + test > 100_000:
            raise ValueError(
                f"validation + test: got {validation + test} numbers, "
                "wanted at most 100,000"
            )
        self._split: dict[str, list[int]] | None = None

    def options(self) -> dict[str, Any]:
        """Return the arguments that make this task again, ready for JSON."""
        train, validation, test = self.sizes
        return {
            "seed": self.seed,
            "train": train,
            "validation": validation,
            "test": test,
        }

    def prepare(self, text: str) -> str:
        """Take *and*, commas and hyphens out of a text that somebody typed."""
        plain = super().prepare(text).lower().replace("-", " ").replace(",", " ")
        return " ".join(word for word in plain.split() if word != "and")

    def split(self) -> dict[str, list[int]]:
        """Return the numbers of each split."""
        if self._split is None:
            train, validation, test = self.sizes
            drawn = split_numbers(self.seed, train, validation + test)
            self._split = {
                "train": drawn.train,
                "validation": drawn.test[test:],
                "test": drawn.test[:test],
            }
        return self._split

    def _read(self, split: str) -> list[Pair]:
        return [
            Pair(" ".join(english_words(n)), "".join(korean_numeral(n)))
            for n in self.split()[split]
        ]

    def _make_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        spoken = [word for word in ENGLISH.tokens if word != GAP]
        return WordVocabulary(spoken), CharacterVocabulary("".join(KOREAN.tokens))


def _below_myriad(number: int) -> list[str]:
    syllables: list[str] = []
    for unit, size in SMALL_UNITS.items():
        digit = number // size % 10
        if digit > 1:
            syllables.append(DIGITS[digit - 1])
        if digit:
            syllables.append(unit)
    if number % 10:
        syllables.append(DIGITS[number % 10 - 1])
    return syllables


def _draw(generator: random.Random, least_digits: int) -> int:
    """Draw a number with many zeros, as numbers that are said often have."""
    digits = generator.randint(least_digits, MOST_DIGITS)
    number = generator.randint(1, 9)
    for _ in range(digits - 1):
        number = 10 * number + generator.randint(1, 9) * generator.randint(0, 1)
    return number


def _check_number(number: int) -> None:
    if not 1 <= number <= LARGEST:
        raise ValueError(f"number: got {number}, wanted 1 to {LARGEST:,}")
