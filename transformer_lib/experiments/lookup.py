"""What a lookup can answer: misspelt months, and dates that no stored key holds.

``python -m transformer_lib.experiments.lookup`` writes the records ``lookup_months``
and ``lookup_dates``. Nothing here is trained.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from transformer_lib.experiments import records
from transformer_lib.reference.lookup import softmax
from transformer_lib.tasks.dates import (
    ISO_CHARACTERS,
    NUMERIC_FORMS,
    all_dates,
    date_pairs,
    iso_classes,
    split_dates,
)
from transformer_lib.tasks.months import MONTHS, letter_pair_vectors, misspelt

__all__ = [
    "DateTable",
    "MonthAnswers",
    "date_answers",
    "date_table",
    "month_answers",
    "month_scores",
    "slot_votes",
]

TEMPERATURE = 1 / 20
"""For the dates; chosen on validation dates, see ``scoreboard --tune lookup``."""

STORED_DATES = 30_000
ASKED_DATES = 1_000
UNSEEN_YEARS = 20


def month_scores(words: Sequence[str]) -> Float[np.ndarray, "words 12"]:
    """Score each word against the twelve month names: shared letter pairs, 0 to 1.

    Scores that are equal on paper are equal here too (they are rounded to 9 decimals),
    so that a tie is a tie on every machine.
    """
    vectors = letter_pair_vectors([*MONTHS, *words])
    scores: np.ndarray = (vectors[12:] @ vectors[:12].T).round(9)
    return scores


class MonthAnswers(NamedTuple):
    """How many misspellings were answered in which way."""

    words: int
    dictionary: int
    """The misspelling is itself a key: the typist was lucky."""
    right: int
    """Soft lookup: the right month alone has the largest weight."""
    tied: int
    """Soft lookup: several months share the largest weight, the right one among them."""
    wrong: int
    """Soft lookup: all the rest."""


def month_answers(seed: int, per_month: int = 50) -> MonthAnswers:
    """Ask a dictionary and a soft lookup for misspelt months.

    Parameters
    ----------
    seed
        Decides the misspellings.
    per_month
        Misspellings of each month.

    Returns
    -------
    MonthAnswers
        Counts. The temperature does not enter: it changes the weights, not their order.
    """
    pairs = misspelt(per_month, seed)
    words = [word for word, _ in pairs]
    months = np.array([month for _, month in pairs])
    scores = month_scores(words)
    best = scores == scores.max(axis=1, keepdims=True)
    hit = best[np.arange(len(words)), months]
    alone = best.sum(axis=1) == 1
    return MonthAnswers(
        words=len(words),
        dictionary=sum(
            word == MONTHS[month] for word, month in zip(words, months, strict=True)
        ),
        right=int((hit & alone).sum()),
        tied=int((hit & ~alone).sum()),
        wrong=int((~hit).sum()),
    )


class DateTable(NamedTuple):
    """Stored dates and asked ones, as vectors of letter pairs of equal length."""

    stored: list[tuple[str, str]]
    """(written, iso)"""
    asked: list[tuple[str, str]]
    """(written, iso); no stored date has the same ISO form"""
    keys: Float[np.ndarray, "stored pairs"]
    values: Int[np.ndarray, "stored 10"]
    """The characters of the stored ISO forms, as classes."""
    queries: Float[np.ndarray, "asked pairs"]


def date_table(
    seed: int,
    stored: int = STORED_DATES,
    asked: int = ASKED_DATES,
    unseen_years: int = 0,
) -> DateTable:
    """Write ``stored`` dates into a table and draw ``asked`` others.

    Parameters
    ----------
    seed
        Decides dates and forms.
    stored, asked
        How many dates of each, 1 or more.
    unseen_years
        0: the dates asked are drawn from all others. Above 0: so many of the 200 years
        are left out of the table, and only their dates are asked.

    Returns
    -------
    DateTable

    Raises
    ------
    ValueError
        If a size is out of range or there are not enough dates.
    """
    for name, size, least in (
        ("stored", stored, 1),
        ("asked", asked, 1),
        ("unseen_years", unseen_years, 0),
    ):
        if size < least:
            raise ValueError(f"{name}: got {size}, wanted {least} or more")
    if unseen_years:
        dates_stored, dates_asked = _by_year(seed, stored, asked, unseen_years)
    else:
        split = split_dates(seed, train=stored, validation=0, test=asked)
        dates_stored, dates_asked = split.train, split.test
    pairs_stored = date_pairs(dates_stored, NUMERIC_FORMS, seed)
    pairs_asked = date_pairs(dates_asked, NUMERIC_FORMS, seed + 1)
    vectors = letter_pair_vectors([text for text, _ in pairs_stored + pairs_asked])
    return DateTable(
        stored=pairs_stored,
        asked=pairs_asked,
        keys=vectors[:stored],
        values=iso_classes([iso for _, iso in pairs_stored]),
        queries=vectors[stored:],
    )


def _by_year(
    seed: int, stored: int, asked: int, unseen_years: int
) -> tuple[list[date], list[date]]:
    dates = all_dates()
    years = sorted({day.year for day in dates})
    generator = random.Random(seed)
    unseen = set(generator.sample(years, min(unseen_years, len(years))))
    seen = [day for day in dates if day.year not in unseen]
    rest = [day for day in dates if day.year in unseen]
    if len(seen) < stored or len(rest) < asked:
        raise ValueError(
            f"stored, asked: got {stored} and {asked}, wanted at most {len(seen)} and "
            f"{len(rest)} with {unseen_years} unseen years"
        )
    return generator.sample(seen, stored), generator.sample(rest, asked)


def slot_votes(
    queries: Float[np.ndarray, "asked pairs"],
    keys: Float[np.ndarray, "stored pairs"],
    values: Int[np.ndarray, "stored slots"],
    temperature: float = TEMPERATURE,
) -> Float[np.ndarray, "asked slots 11"]:
    """Look dates up softly; each stored date votes for its characters, slot by slot.

    Parameters
    ----------
    queries, keys
        Vectors of the written dates.
    values
        Classes of the characters of the stored ISO forms.
    temperature
        Of the softmax over the stored dates.

    Returns
    -------
    votes
        For each asked date, answer slot and character of ``ISO_CHARACTERS`` the summed
        weight; each slot sums to 1.
    """
    one_hot = np.eye(len(ISO_CHARACTERS))[values]
    votes = [
        softmax(portion @ keys.T / temperature) @ one_hot.reshape(len(keys), -1)
        for portion in _portions(queries)
    ]
    return np.concatenate(votes).reshape(len(queries), *one_hot.shape[1:])


def _portions(queries: np.ndarray) -> list[np.ndarray]:
    """A hundred queries or fewer at a time: a score for every key takes memory."""
    return np.array_split(queries, -(-len(queries) // 100))


def date_answers(
    table: DateTable, temperature: float = TEMPERATURE
) -> dict[str, float]:
    """Share of the asked dates that are answered with all ten characters right.

    Returns
    -------
    dict
        ``hard``: the ISO form of the key that scores highest. ``soft``: in each slot
        the character with the most votes.
    """
    wanted = iso_classes([iso for _, iso in table.asked])
    best = [(q @ table.keys.T).argmax(axis=1) for q in _portions(table.queries)]
    hard = table.values[np.concatenate(best)]
    votes = slot_votes(table.queries, table.keys, table.values, temperature)
    soft = votes.argmax(axis=-1)
    return {
        "hard": float((hard == wanted).all(axis=1).mean()),
        "soft": float((soft == wanted).all(axis=1).mean()),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the records ``lookup_months`` and ``lookup_dates``."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="0 to SEEDS - 1")
    seeds = range(parser.parse_args(arguments).seeds)
    command = f"python -m transformer_lib.experiments.lookup --seeds {len(seeds)}"
    months = [month_answers(seed) for seed in seeds]
    records.write(
        "lookup_months",
        command,
        list(seeds),
        {name: [getattr(m, name) for m in months] for name in MonthAnswers._fields},
    )
    dates: dict[str, list[float]] = {}
    for what, years in (("unseen_dates", 0), ("unseen_years", UNSEEN_YEARS)):
        for seed in seeds:
            answers = date_answers(date_table(seed, unseen_years=years))
            for how, share in answers.items():
                dates.setdefault(f"{what}.{how}", []).append(share)
    records.write("lookup_dates", command, list(seeds), dates)
    return 0


if __name__ == "__main__":
    sys.exit(main())
