"""Exercises of chapter 2: looking up, hard and soft."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from transformer_lib.exercises.engine import (
    Beyond,
    Exercise,
    Mistake,
    Probe,
    Property,
    numbers,
)
from transformer_lib.exercises.pencil import Blank, Pencil, Slip
from transformer_lib.reference import lookup as reference

EXERCISES = (
    "hard_lookup",
    "softmax",
    "soft_lookup",
    "entropy",
    "pencil_lookup",
    "repaired_months",
    "softmax_backward",
)

Function = Callable[..., Any]


def _rows_sum_to_one(got: Any, *_: Any) -> bool:
    return bool(np.allclose(got.sum(axis=-1), 1.0))


_SUM_TO_ONE = Property(
    "Each row of weights should sum to 1, and here some do not.", _rows_sum_to_one
)


def _exp(scores: Any) -> np.ndarray:
    """``exp`` after taking the largest of each row from it."""
    return np.asarray(np.exp(scores - scores.max(axis=-1, keepdims=True)))


# hard_lookup

_BOXES = np.array([[3.0, 1.0], [4.0, 1.0], [5.0, 9.0]])


def _exact(query: Any, keys: Any, values: Any) -> np.ndarray:
    """Look for a key that equals the query, like a dict."""
    for key, value in zip(keys, values, strict=True):
        if (key == query).all():
            return np.asarray(value)
    return np.zeros(values.shape[1])


def _by_distance(query: Any, keys: Any, values: Any) -> np.ndarray:
    return np.asarray(values[((keys - query) ** 2).sum(axis=1).argmin()])


def _by_angle(query: Any, keys: Any, values: Any) -> np.ndarray:
    lengths = np.linalg.norm(keys, axis=1)
    return np.asarray(values[(keys @ query / lengths).argmax()])


def _above_zero(query: Any, keys: Any, values: Any) -> np.ndarray:
    best, found = 0.0, 0
    for i, key in enumerate(keys):
        if key @ query > best:
            best, found = key @ query, i
    return np.asarray(values[found])


HARD_LOOKUP = Exercise(
    name="hard_lookup",
    arguments=("query", "keys", "values"),
    statement="Return the row of values (n, d_v) whose key, a row of keys (n, d), has "
    "the largest dot product with the query (d,).",
    ask="Write down the dot product of the query with each key. Which is the largest, "
    "and which row of values belongs to it?",
    reference=lambda query, keys, values: reference.hard_lookup(query, keys, values),
    probes=(
        Probe(
            np.array([0.0, 1.0, 0.0]), np.eye(3), _BOXES,
            about="a one-hot query and one-hot keys",
        ),
        Probe(
            np.array([0.4, 1.0, 0.0]), np.eye(3), _BOXES,
            about="a query that equals no key",
        ),
        Probe(
            np.array([1.0, 0.0]), np.array([[1.0, 0.0], [3.0, 4.0]]),
            np.array([[5.0], [7.0]]), about="keys of different length",
        ),
        Probe(
            np.array([1.0, 0.0]), np.array([[0.5, 0.0], [-2.0, 1.0], [0.2, 3.0]]),
            np.array([[5.0], [7.0], [9.0]]), about="a large negative score",
        ),
        Probe(
            np.array([-1.0, -1.0]), np.array([[2.0, 2.0], [1.0, 2.0]]),
            np.array([[5.0], [7.0]]), about="negative scores only",
        ),
        Probe(numbers(71, 3), numbers(72, 5, 3), numbers(73, 5, 4), about="five keys"),
        Probe(numbers(74, 4), numbers(75, 4, 4), numbers(76, 4, 2), about="four keys"),
    ),
    beyond=(
        Beyond(
            Probe(numbers(77, 2, 3), numbers(78, 5, 3), numbers(79, 5, 4)),
            "It works for one query; for a whole array of queries, (..., d), use "
            "query @ keys.T and argmax(axis=-1).",
        ),
    ),
    mistakes=(
        Mistake(
            "key_returned",
            "The best key itself is returned, not the value that belongs to it.",
            "What does the query compare itself with, and what is read out?",
            lambda q, k, v: k[(k @ q).argmax()],
        ),
        Mistake(
            "index_returned",
            "The number of the best key is returned, not its value.",
            "The index says which row. Which array is it a row of?",
            lambda q, k, v: (k @ q).argmax(),
        ),
        Mistake(
            "one_hot_returned",
            "The one-hot weights are returned, not what they select.",
            "Which product of a one-hot row with the values picks one of them?",
            lambda q, k, v: np.eye(len(k))[(k @ q).argmax()],
        ),
        Mistake(
            "smallest",
            "The key with the smallest score is taken.",
            "Is a dot product large or small for vectors that agree?",
            lambda q, k, v: v[(k @ q).argmin()],
        ),
        Mistake(
            "absolute",
            "The key with the largest absolute score is taken; a key that points away "
            "from the query has a large negative score.",
            "What does a score of -5 say about query and key?",
            lambda q, k, v: v[np.abs(k @ q).argmax()],
        ),
        Mistake(
            "by_distance",
            "The nearest key is taken, by distance. The exercise asks for the largest "
            "dot product; the two agree only for keys of equal length.",
            "Which of the keys (1, 0) and (3, 4) has the larger dot product with (1, 0), "
            "and which is nearer?",
            _by_distance,
        ),
        Mistake(
            "by_angle",
            "Scores are divided by the length of the key (cosine similarity). The "
            "exercise asks for the dot product itself.",
            "Does a longer key in the same direction have a larger dot product?",
            _by_angle,
        ),
        Mistake(
            "not_hard",
            "Each value is weighted by its score and all are added: no key is chosen.",
            "How many values may have a say in a hard lookup?",
            lambda q, k, v: (k @ q) @ v,
        ),
        Mistake(
            "soft",
            "All values are averaged with softmax weights: that is a soft lookup.",
            "How many values may have a say in a hard lookup?",
            lambda q, k, v: reference.soft_lookup(q, k, v)[0],
        ),
        Mistake(
            "exact",
            "Only a key that equals the query is found, as in a dict.",
            "What should happen when the query equals no key?",
            _exact,
        ),
        Mistake(
            "wrong_axis",
            "The products of query and keys are summed over the keys instead of over "
            "the d numbers of each key.",
            "How many scores should there be: one per key, or one per number of a key?",
            lambda q, k, v: v[(k * q).sum(axis=0).argmax()],
        ),
        Mistake(
            "above_zero",
            "Only scores above 0 are considered: when all are negative, the first key "
            "wins.",
            "From which number does your search for the largest score start?",
            _above_zero,
        ),
        Mistake(
            "number_by_number",
            "argmax is taken over the single products query * keys, before they are "
            "summed to scores.",
            "How many scores should there be: one per key, or one per number of a key?",
            lambda q, k, v: v[(q * k).argmax()],
        ),
        Mistake(
            "values_searched",
            "The largest value is taken instead of the one with the largest score.",
            "Which array decides, and which one is read?",
            lambda q, k, v: v[v.sum(axis=1).argmax()],
        ),
    ),
)  # fmt: skip


# softmax


def _softmax(
    shift: str = "row",
    total: str = "row",
    kept: str = "both",
    base: str = "e",
    sign: float = 1.0,
) -> Function:
    """A softmax with the faults that are asked for."""

    def over(s: Any, rows: str, how: Any, keep: bool = True) -> Any:
        if rows == "all":
            return how(s)
        if rows == "columns":
            return how(s, axis=0, keepdims=True)
        if rows == "second":
            return how(s, axis=1, keepdims=True)
        return how(s, axis=-1, keepdims=keep)

    def softmax(scores: Any) -> Any:
        s = sign * scores
        if shift == "least":
            s = s - s.min(axis=-1, keepdims=True)
        elif shift == "divided":
            s = s / s.max(axis=-1, keepdims=True)
        elif shift == "clipped":
            s = np.clip(s, -100.0, 100.0)
        elif shift != "none":
            s = s - over(s, shift, np.max, kept not in ("sum", "none"))
        e = np.exp(s) if base == "e" else np.power(2.0, s)
        if total == "missing":
            return e
        if total == "mean":
            return e / e.mean(axis=-1, keepdims=True)
        if total == "length":
            return e / np.linalg.norm(e, axis=-1, keepdims=True)
        return e / over(e, total, np.sum, kept not in ("maximum", "none"))

    return softmax


def _plain(scores: Any) -> Any:
    return scores / scores.sum(axis=-1, keepdims=True)


SOFTMAX = Exercise(
    name="softmax",
    arguments=("scores",),
    statement="Return weights of the same shape: positive, each row summing to 1, "
    "without overflow for large scores. A row is the last axis.",
    ask="Work out exp of each score and their sum by hand for the input shown. At "
    "which step does your code differ?",
    reference=lambda scores: reference.softmax(scores),
    probes=(
        Probe(np.array([0.0, 1.0, 2.0]), about="one row"),
        Probe(np.array([[0.0, 1.0], [2.0, 5.0]]), about="a square array"),
        Probe(np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 3.0]]), about="two rows of three"),
        Probe(np.array([-1000.0, -1001.0]), about="scores of -1000"),
        Probe(np.array([1000.0, 1001.0]), about="scores of 1000"),
        Probe(np.array([0.0, 1000.0]), about="scores 1000 apart"),
        Probe(
            np.array([[1000.0, 1001.0], [0.0, 1.0]]),
            about="a row of large scores beside a row of small ones",
        ),
        Probe(numbers(81, 3, 4), about="random scores"),
        Probe(numbers(82, 2, 3, 4), about="three axes"),
    ),
    properties=(_SUM_TO_ONE,),
    assemble=_softmax,
    mistakes=(
        Mistake(
            "no_maximum",
            "The largest score is not taken from its row first, so exp overflows and "
            "inf / inf is nan in a row of large scores.",
            "What is exp(1000)? Which number can be taken from every score of a row "
            "without changing the weights?",
            settings={"shift": "none"},
        ),
        Mistake(
            "maximum_of_all",
            "The maximum is taken over the whole array. Beside a row of large scores, a "
            "row of small ones becomes 0 / 0, which is nan.",
            "How large is the largest exponent in the row of small scores after that?",
            settings={"shift": "all"},
        ),
        Mistake(
            "least_taken",
            "The smallest score of the row is taken away instead of the largest.",
            "What is the largest exponent then, for scores 1000 apart?",
            settings={"shift": "least"},
        ),
        Mistake(
            "largest_divides",
            "The scores are divided by the largest of their row instead of reduced by "
            "it; that changes the weights.",
            "What happens to the difference of two scores when both are divided?",
            settings={"shift": "divided"},
        ),
        Mistake(
            "clipped",
            "Large scores are cut off (np.clip), so that all beyond the limit look "
            "alike.",
            "Which number can be taken from every score of a row without changing the "
            "weights?",
            settings={"shift": "clipped"},
        ),
        Mistake(
            "columns",
            "The softmax runs down the columns (axis 0), so each column sums to 1 "
            "instead of each row.",
            "Which numbers compete with each other: those of a row or of a column?",
            settings={"shift": "columns", "total": "columns"},
        ),
        Mistake(
            "columns_summed",
            "The sum runs down each column (axis 0) instead of along each row.",
            "Which numbers should sum to 1: those of a row or of a column?",
            settings={"total": "columns"},
        ),
        Mistake(
            "whole_array",
            "The sum runs over the whole array, so all weights together sum to 1 "
            "instead of those of each row.",
            "How many sums does an array of two rows need?",
            settings={"total": "all"},
        ),
        Mistake(
            "second_axis",
            "axis=1 is the last axis only when there are two; the softmax should run "
            "over the last one, whatever their number.",
            "Which number names the last axis of any array?",
            settings={"shift": "second", "total": "second"},
        ),
        Mistake(
            "no_keepdims",
            "keepdims=True is missing in the maximum and in the sum: their results "
            "stretch along the wrong axis (or do not fit at all).",
            "Which shape must the sums have so that row i is divided by sum i?",
            settings={"kept": "none"},
        ),
        Mistake(
            "no_keepdims_in_sum",
            "keepdims=True is missing in the sum: it stretches along the wrong axis (or "
            "does not fit at all).",
            "Which shape must the sums have so that row i is divided by sum i?",
            settings={"kept": "maximum"},
        ),
        Mistake(
            "no_keepdims_in_maximum",
            "keepdims=True is missing in the maximum: it stretches along the wrong axis "
            "(or does not fit at all).",
            "Which shape must the maxima have so that row i loses maximum i?",
            settings={"kept": "sum"},
        ),
        Mistake(
            "not_divided",
            "The exponentials are not divided by their sum.",
            "What should the weights of a row sum to?",
            settings={"total": "missing"},
        ),
        Mistake(
            "divided_by_mean",
            "The exponentials are divided by their mean instead of by their sum.",
            "What should the weights of a row sum to?",
            settings={"total": "mean"},
        ),
        Mistake(
            "divided_by_length",
            "The exponentials are divided by the root of the sum of their squares, as "
            "one scales a vector to length 1.",
            "What should the weights of a row sum to?",
            settings={"total": "length"},
        ),
        Mistake(
            "log_sum_exp",
            "exp(scores - log of the sum of exp) is the softmax, but the inner exp "
            "still over- or underflows.",
            "What is exp(-1000), and what is the logarithm of that?",
            lambda s: np.exp(s - np.log(np.exp(s).sum(axis=-1, keepdims=True))),
        ),
        Mistake(
            "powers_of_two",
            "Powers of 2 are taken instead of exp.",
            "How many times larger is the weight of a score that is larger by 1?",
            settings={"base": "2"},
        ),
        Mistake(
            "sign",
            "The scores enter with a minus sign, so the largest score gets the smallest "
            "weight.",
            "Which score should get the largest weight?",
            settings={"sign": -1.0},
        ),
        Mistake(
            "no_exp",
            "The scores are divided by their sum without exp; scores may be negative or "
            "sum to zero.",
            "What makes every weight positive, whatever the score?",
            _plain,
        ),
        Mistake(
            "sigmoid",
            "Each score goes through a sigmoid by itself: nothing is shared out.",
            "Does the weight of one key fall when the score of another rises?",
            lambda s: 0.5 * (1.0 + np.tanh(0.5 * s)),
        ),
        Mistake(
            "logarithm",
            "That is the logarithm of the weights.",
            "Are weights positive or negative?",
            lambda s: np.log(reference.softmax(s)),
        ),
        Mistake(
            "hard",
            "The largest score gets all the weight: that is a hard choice.",
            "What should two equal scores get?",
            lambda s: (s == s.max(axis=-1, keepdims=True)).astype(np.float64),
        ),
    ),
)  # fmt: skip


# soft_lookup


def _soft(
    temperature: str = "divides",
    score: str = "dot",
    weighting: str = "softmax",
    averaged: str = "values",
    stable: str = "yes",
) -> Function:
    """A soft lookup of one query, with the faults that are asked for."""

    def soft_lookup(query: Any, keys: Any, values: Any, T: Any) -> Any:
        scores = keys @ query
        if score == "distance":
            scores = -((keys - query) ** 2).sum(axis=1)
        elif score == "scaled":
            scores = scores / np.sqrt(len(query))
        elif score == "cosine":
            scores = scores / np.linalg.norm(keys, axis=1) / np.linalg.norm(query)
        elif score == "unit_query":
            scores = scores / np.linalg.norm(query)
        power = {"divides": -1, "multiplies": 1, "squared": -2}.get(temperature, 0)
        scores = scores * float(T) ** power
        shifted = scores - scores.max() if stable == "yes" else scores
        if weighting == "softmax":
            w = np.exp(shifted) / np.exp(shifted).sum()
        elif weighting == "unnormalised":
            w = np.exp(shifted)
        elif weighting == "plain":
            w = scores / scores.sum()
        else:
            w = (np.arange(len(keys)) == scores.argmax()).astype(np.float64)
        if temperature == "after":
            w = w / T
        if averaged == "weights":
            return w
        if averaged == "each":
            return w[:, None] * values
        if averaged == "mean":
            return (w[:, None] * values).mean(axis=0)
        return w @ (values if averaged == "values" else keys)

    return soft_lookup


_LN3 = float(np.log(3.0).round(4))

SOFT_LOOKUP = Exercise(
    name="soft_lookup",
    arguments=("query", "keys", "values", "temperature"),
    statement="Return the average of the values (n, d_v), weighted by the softmax of "
    "the dot products of the query (d,) with the keys (n, d), divided by the "
    "temperature.",
    ask="Print the weights for the input shown. Are they right, and do they sum to 1?",
    reference=lambda query, keys, values, temperature: reference.soft_lookup(
        query, keys, values, temperature
    )[0],
    probes=(
        Probe(
            np.array([0.0, 0.0]), np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]]),
            np.array([[3.0], [6.0], [0.0]]), 1.0,
            about="a query of zeros, which fits all keys alike",
        ),
        Probe(
            np.array([1.0]), np.array([[_LN3], [0.0]]), np.array([[8.0], [0.0]]), 1.0,
            about="two keys at temperature 1",
        ),
        Probe(
            np.array([1.0]), np.array([[_LN3], [0.0]]), np.array([[8.0], [0.0]]), 0.5,
            about="two keys at temperature 0.5",
        ),
        Probe(
            np.array([1.0, 1.0]), np.array([[1.0, 0.0], [2.0, 2.0], [0.0, -1.0]]),
            np.array([[1.0], [2.0], [4.0]]), 2.0, about="three keys at temperature 2",
        ),
        Probe(
            np.array([1.0, 0.0]), np.array([[1000.0, 0.0], [1001.0, 0.0]]),
            np.array([[1.0], [2.0]]), 1.0, about="scores of 1000",
        ),
        Probe(
            numbers(91, 3), numbers(92, 5, 3), numbers(93, 5, 2), 0.7,
            about="five keys of width 3",
        ),
        Probe(
            numbers(94, 4), numbers(95, 4, 4), numbers(96, 4, 4), 3.0,
            about="four keys of width 4",
        ),
    ),
    beyond=(
        Beyond(
            Probe(numbers(97, 2, 3), numbers(98, 5, 3), numbers(99, 5, 4), 1.0),
            "It works for one query; for a whole array of queries, (..., d), use "
            "query @ keys.T and the softmax over the last axis.",
        ),
    ),
    assemble=_soft,
    mistakes=(
        Mistake(
            "multiplied",
            "The scores are multiplied by the temperature instead of divided by it, so "
            "a high temperature makes the lookup harder.",
            "Should the weights become more even or less even as it gets hotter?",
            settings={"temperature": "multiplies"},
        ),
        Mistake(
            "ignored",
            "The temperature is not used.",
            "Which line should change when the temperature goes from 1 to 2?",
            settings={"temperature": "ignored"},
        ),
        Mistake(
            "after",
            "The weights are divided by the temperature after the softmax, so they no "
            "longer sum to 1.",
            "Which of the two does the temperature change: the scores or the weights?",
            settings={"temperature": "after"},
        ),
        Mistake(
            "squared",
            "The temperature is squared: the scores are divided by it twice.",
            "How often is the temperature divided by on the way to the weights?",
            settings={"temperature": "squared"},
        ),
        Mistake(
            "keys_averaged",
            "The weights average the keys instead of the values.",
            "What does the query compare itself with, and what is read out?",
            settings={"averaged": "keys"},
        ),
        Mistake(
            "weights_returned",
            "The weights are returned, not the average that they give.",
            "Which product of the weights with the values is their average?",
            settings={"averaged": "weights"},
        ),
        Mistake(
            "not_added",
            "Each value is multiplied by its weight, but the products are not added.",
            "How many vectors should come out of a lookup of one query?",
            settings={"averaged": "each"},
        ),
        Mistake(
            "mean",
            "The weighted values are averaged once more (mean) instead of added.",
            "The weights sum to 1 already. What does a further division by n do?",
            settings={"averaged": "mean"},
        ),
        Mistake(
            "no_exp",
            "The scores are divided by their sum without exp.",
            "What is the weight of a key with a negative score?",
            settings={"weighting": "plain"},
        ),
        Mistake(
            "not_divided",
            "The exponentials are not divided by their sum, so their weights do not sum "
            "to 1.",
            "What is the output when all values are the same?",
            settings={"weighting": "unnormalised"},
        ),
        Mistake(
            "hard",
            "The best key gets all the weight: that is a hard lookup.",
            "What should come out when two keys fit equally well?",
            settings={"weighting": "hard"},
        ),
        Mistake(
            "distance",
            "The scores are negative squared distances. That is a soft lookup too, but "
            "the exercise asks for dot products.",
            "What is the dot product of a query with a key that is twice as long?",
            settings={"score": "distance"},
        ),
        Mistake(
            "scaled",
            "The scores are divided by the root of the width as well; that comes in "
            "chapter 3, here the temperature does it.",
            "What are the weights at temperature 1?",
            settings={"score": "scaled"},
        ),
        Mistake(
            "cosine",
            "Query and keys are scaled to length 1 first (cosine similarity). The "
            "exercise asks for the dot product itself.",
            "Does a longer key get a larger score?",
            settings={"score": "cosine"},
        ),
        Mistake(
            "unit_query",
            "The query is scaled to length 1 first. The exercise asks for the dot "
            "product itself.",
            "Does a longer query make the lookup harder?",
            settings={"score": "unit_query"},
        ),
        Mistake(
            "no_maximum",
            "The largest score is not taken away first, so exp overflows.",
            "What is exp(1000), and does your softmax exercise guard against it?",
            settings={"stable": "no"},
        ),
        Mistake(
            "wrong_axis",
            "The products of query and keys are summed over the keys instead of over "
            "the d numbers of each key.",
            "How many scores should there be: one per key, or one per number of a key?",
            lambda q, k, v, T: reference.softmax((k * q).sum(axis=0) / T) @ v,
        ),
    ),
)  # fmt: skip


# entropy


def _entropy(
    logarithm: str = "e", zero: str = "guarded", sign: float = 1.0, how: str = "sum"
) -> Function:
    """An entropy with the faults that are asked for."""

    def entropy(weights: Any) -> Any:
        p = weights
        safe = np.where(p > 0.0, p, 1.0) if zero == "guarded" else p
        log = {"e": np.log, "2": np.log2, "10": np.log10, "1p": np.log1p}[logarithm]
        terms = -sign * p * log(safe)
        return terms.sum(axis=-1) if how == "sum" else terms.mean(axis=-1)

    return entropy


def _yes_or_no(p: Any) -> Any:
    rest = 1.0 - p
    terms = p * np.log(np.where(p > 0.0, p, 1.0))
    return -(terms + rest * np.log(np.where(rest > 0.0, rest, 1.0))).sum(axis=-1)


ENTROPY = Exercise(
    name="entropy",
    arguments=("weights",),
    statement="Return the entropy of the weights (n,), in nats, where 0 log 0 counts "
    "as 0.",
    ask="Write down -a ln a for each weight shown. What do they sum to?",
    reference=lambda weights: reference.entropy(weights),
    probes=(
        Probe(np.array([0.5, 0.5]), about="two equal weights"),
        Probe(np.array([0.25, 0.75]), about="two unequal weights"),
        Probe(np.array([0.25, 0.25, 0.25, 0.25]), about="four equal weights"),
        Probe(np.array([0.7, 0.2, 0.1]), about="three weights"),
        Probe(np.array([1.0, 0.0]), about="all the weight on one key"),
        Probe(np.array([0.5, 0.5, 0.0]), about="a weight of zero"),
        Probe(np.array([0.97, 0.02, 0.01]), about="weights near zero"),
        Probe(np.array([1.0]), about="a single key"),
    ),
    beyond=(
        Beyond(
            Probe(np.array([[0.5, 0.5], [0.25, 0.75]])),
            "It works for one row of weights; for several, sum over axis=-1.",
        ),
    ),
    assemble=_entropy,
    mistakes=(
        Mistake(
            "bits",
            "The logarithm has base 2, which gives bits; the exercise asks for nats.",
            "What is the entropy of two equal weights in nats: 1 or ln 2?",
            settings={"logarithm": "2"},
        ),
        Mistake(
            "base_10",
            "The logarithm has base 10; nats need the natural one.",
            "What is the entropy of two equal weights in nats?",
            settings={"logarithm": "10"},
        ),
        Mistake(
            "log_of_more",
            "Something is added to the weights inside the logarithm that is large "
            "enough to show (0.001 or more).",
            "How large may it be so that log(0) is avoided and nothing else changes?",
            lambda p: -(p * np.log(p + 1e-3)).sum(axis=-1),
        ),
        Mistake(
            "binary",
            "(1 - a) log(1 - a) is added for each weight: that is the entropy of n "
            "yes-or-no questions.",
            "How many terms has the entropy of n weights?",
            _yes_or_no,
        ),
        Mistake(
            "log1p",
            "np.log1p(p) is log(1 + p). It avoids log(0), but it is another function.",
            "What is the logarithm of a weight of 1, and what is log1p of it?",
            settings={"logarithm": "1p"},
        ),
        Mistake(
            "nan_at_zero",
            "A weight of 0 gives 0 · log 0 = 0 · (-inf), which is nan.",
            "What should a key without weight add to the sum, and how can log(0) be "
            "avoided?",
            settings={"zero": "open"},
        ),
        Mistake(
            "sign",
            "The minus sign is missing.",
            "Is the logarithm of a number below 1 positive or negative?",
            settings={"sign": -1.0},
        ),
        Mistake(
            "mean",
            "The terms are averaged instead of added.",
            "Should the entropy of n equal weights grow or shrink with n?",
            settings={"how": "mean"},
        ),
        Mistake(
            "unweighted",
            "The logarithms are not weighted by the weights.",
            "How much should a key that is hardly looked at count?",
            lambda p: -np.log(np.where(p > 0.0, p, 1.0)).sum(axis=-1),
        ),
        Mistake(
            "perplexity",
            "That is exp of the entropy, the number of keys that are being averaged.",
            "What is the entropy when one key has all the weight?",
            lambda p: np.exp(reference.entropy(p)),
        ),
        Mistake(
            "share_of_most",
            "The entropy is divided by log n, its largest value.",
            "What is the entropy of four equal weights: 1 or ln 4?",
            lambda p: reference.entropy(p) / np.log(max(p.shape[-1], 2)),
        ),
        Mistake(
            "gini",
            "1 minus the sum of squares is another measure of spread (Gini's).",
            "Where is the logarithm?",
            lambda p: 1.0 - (p**2).sum(axis=-1),
        ),
        Mistake(
            "largest_only",
            "Only the largest weight enters.",
            "Do 0.5, 0.5 and 0.5, 0.3, 0.2 spread equally?",
            lambda p: -np.log(p.max(axis=-1)),
        ),
        Mistake(
            "terms",
            "The terms are returned one by one, not their sum.",
            "How many numbers is the entropy of one row?",
            lambda p: -p * np.log(np.where(p > 0.0, p, 1.0)),
        ),
    ),
)


# pencil_lookup: three tokens, one query

_P_QUERY = np.array([1.0, 1.0])
_P_KEYS = np.array([[1.0, 0.0], [0.0, 2.0], [2.0, 1.0]])  # the, cat, sat
_P_VALUES = np.array([[1.0, 0.0], [-2.0, 2.0], [1.0, 1.0]])
_P_TEMPERATURE = 2.0


def _lookup_sheet(
    scores: str = "dot",
    temperature: str = "divides",
    weights: str = "softmax",
    averaged: str = "values",
    entropy: str = "nats",
) -> dict[str, np.ndarray]:
    """All blanks of the sheet, with the faults that are asked for."""
    s = _P_KEYS @ _P_QUERY
    if scores == "values":
        s = _P_VALUES @ _P_QUERY
    elif scores == "distances":
        s = np.linalg.norm(_P_KEYS - _P_QUERY, axis=1)
    power = {"divides": -1.0, "multiplies": 1.0, "ignored": 0.0}[temperature]
    divided = s * _P_TEMPERATURE**power
    a = {
        "softmax": reference.softmax(divided), "undivided": reference.softmax(s),
        "shares": divided / divided.sum(), "exponentials": np.exp(divided),
        "hard": np.array([0.0, 0.0, 1.0]),
        "powers_of_two": reference.softmax(divided * np.log(2.0)),
    }[weights]  # fmt: skip
    o = a @ (_P_KEYS if averaged == "keys" else _P_VALUES)
    if averaged == "mean":
        o = _P_VALUES.mean(axis=0)
    elif averaged == "third":
        o = o / 3.0
    elif averaged == "best":
        o = _P_VALUES[2]
    p = reference.softmax(divided) if weights == "exponentials" else a
    nats = np.asarray(reference.entropy(p))
    h = {
        "nats": nats, "bits": nats / np.log(2.0), "negative": -nats,
        "mean": nats / 3.0, "keys": np.exp(nats), "most": np.asarray(np.log(3.0)),
    }[entropy]  # fmt: skip
    return {"scores": s, "divided": divided, "weights": a, "output": o, "entropy": h}


_RIGHT_SHEET = _lookup_sheet()

PENCIL_LOOKUP = Pencil(
    name="pencil_lookup",
    statement="The query (1, 1) meets the keys the = (1, 0), cat = (0, 2), sat = (2, 1) "
    "with the values (1, 0), (-2, 2), (1, 1), at temperature 2. Work out with two "
    "decimals: scores, scores divided by the temperature, weights, output, and the "
    "entropy of the weights in nats.",
    blanks=(
        Blank(
            "scores",
            _RIGHT_SHEET["scores"],
            "What is the dot product of the query with each key?",
        ),
        Blank(
            "divided",
            _RIGHT_SHEET["divided"],
            "What does a temperature of 2 do with each score?",
        ),
        Blank(
            "weights",
            _RIGHT_SHEET["weights"],
            "Take exp of the three divided scores and divide each by their sum. Do the "
            "three weights sum to 1?",
        ),
        Blank(
            "output",
            _RIGHT_SHEET["output"],
            "Which three vectors are averaged, and how much weight does each get?",
        ),
        Blank(
            "entropy",
            _RIGHT_SHEET["entropy"],
            "What is -a ln a for each weight, and what do the three sum to?",
            tolerance=0.015,
        ),
    ),
    mistakes=(
        Slip(
            "scores_with_values",
            "The query was multiplied with the values instead of the keys.",
            "What does the query compare itself with, and what is read out?",
            _lookup_sheet(scores="values"),
        ),
        Slip(
            "distances",
            "These are the distances from query to key, not the dot products.",
            "What is 1 · 2 + 1 · 1?",
            _lookup_sheet(scores="distances"),
        ),
        Slip(
            "multiplied",
            "The scores were multiplied by the temperature instead of divided by it.",
            "Should the weights become more even or less even as it gets hotter?",
            _lookup_sheet(temperature="multiplies"),
        ),
        Slip(
            "not_divided",
            "The scores were not divided by the temperature.",
            "What does a temperature of 2 do with each score?",
            _lookup_sheet(temperature="ignored"),
        ),
        Slip(
            "weights_of_undivided",
            "These are the weights at temperature 1: the scores before the division went "
            "into the softmax.",
            "Which of the two rows of scores goes into the softmax?",
            _lookup_sheet(weights="undivided"),
        ),
        Slip(
            "shares",
            "The divided scores were divided by their sum, without exp.",
            "What does the softmax do with each score before it divides?",
            _lookup_sheet(weights="shares"),
        ),
        Slip(
            "exponentials",
            "These are the exponentials; they still have to be divided by their sum.",
            "What should the three weights sum to?",
            _lookup_sheet(weights="exponentials"),
        ),
        Slip(
            "powers_of_two",
            "Powers of 2 were taken instead of powers of e = 2.718.",
            "What is exp(1)?",
            _lookup_sheet(weights="powers_of_two"),
        ),
        Slip(
            "hard",
            "All the weight went to the best key: that is a hard lookup.",
            "How much larger is the best score than the second?",
            _lookup_sheet(weights="hard"),
        ),
        Slip(
            "keys_averaged",
            "The keys were averaged instead of the values.",
            "What does the query compare itself with, and what is read out?",
            _lookup_sheet(averaged="keys"),
        ),
        Slip(
            "plain_mean",
            "The values were averaged with equal weights.",
            "What are the three weights for?",
            _lookup_sheet(averaged="mean"),
        ),
        Slip(
            "divided_by_three",
            "The weighted sum was divided by 3 once more.",
            "The weights sum to 1 already. What does a further division do?",
            _lookup_sheet(averaged="third"),
        ),
        Slip(
            "best_value",
            "That is the value of the best key alone.",
            "How much of the other two values belongs into the average?",
            _lookup_sheet(averaged="best"),
        ),
        Slip(
            "bits",
            "That is the entropy in bits, with logarithms of base 2.",
            "What is ln 2?",
            _lookup_sheet(entropy="bits"),
        ),
        Slip(
            "negative",
            "The minus sign is missing.",
            "Is the logarithm of a number below 1 positive or negative?",
            _lookup_sheet(entropy="negative"),
        ),
        Slip(
            "entropy_mean",
            "The three terms were averaged instead of added.",
            "Is there a division by 3 in the entropy?",
            _lookup_sheet(entropy="mean"),
        ),
        Slip(
            "number_of_keys",
            "That is exp of the entropy: the number of keys that are being averaged.",
            "What is its logarithm?",
            _lookup_sheet(entropy="keys"),
        ),
        Slip(
            "entropy_of_equal",
            "That is ln 3, the entropy of three equal weights.",
            "Are the three weights equal?",
            _lookup_sheet(entropy="most"),
        ),
    ),
)


# repaired_months (debug it)


MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
"""As in ``transformer_lib.tasks.months``, which imports torch by its package."""


def months_weights(
    word: str, months: Sequence[str], inverse_temperature: float = 8.0
) -> np.ndarray:
    """Weights of a soft lookup of ``word`` among the names of months.

    Keys and query are letter-pair counts, scaled to length 1; the scores are their dot
    products times ``inverse_temperature``, the weights their softmax.

    Parameters
    ----------
    word
        What was written, perhaps misspelt.
    months
        The names.
    inverse_temperature
        1 / temperature; high means hard.

    Returns
    -------
    numpy.ndarray
        One weight per name, summing to 1.

    Examples
    --------
    >>> weights = months_weights("marhc", MONTHS)
    >>> MONTHS[weights.argmax()]
    'march'
    """
    weights: np.ndarray = _months()(word, months, inverse_temperature)
    return weights


def _pairs(word: str, marks: str = "both") -> Counter[str]:
    text = ("^" if marks in ("both", "start") else "") + word
    text += "$" if marks in ("both", "end") else ""
    return Counter(text[i : i + 2] for i in range(len(text) - 1))


def _months(
    marks: str = "both",
    case: str = "lower",
    length: str = "one",
    temperature: str = "multiplies",
    weighting: str = "softmax",
    features: str = "pairs",
    alphabet: str = "all",
) -> Function:
    """The lookup of months, with the faults that are asked for."""

    def repaired_months(word: Any, months: Any, inverse_temperature: Any = 8.0) -> Any:
        def count(text: str) -> Counter[str]:
            if features == "letters":
                return Counter(text)
            pairs = _pairs(text, marks)
            return Counter(set(pairs)) if features == "set" else pairs

        asked = word if case in ("kept", "word_kept") else word.lower()
        kept = case in ("kept", "names_kept")
        names = [name if kept else name.lower() for name in months]
        counted = [count(text) for text in (asked, *names)]
        pairs = sorted(set().union(*counted[alphabet == "names" :]))
        rows = np.array([[float(c[p]) for p in pairs] for c in counted])
        if length == "one":
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        elif length == "sum":
            rows = rows / rows.sum(axis=1, keepdims=True)
        elif length == "keys_only":
            rows[1:] = rows[1:] / np.linalg.norm(rows[1:], axis=1, keepdims=True)
        elif length == "query_only":
            rows[0] = rows[0] / np.linalg.norm(rows[0])
        scores = rows[1:] @ rows[0]
        if temperature == "multiplies":
            scores = scores * inverse_temperature
        elif temperature == "divides":
            scores = scores / inverse_temperature
        if weighting == "plain":
            return scores / scores.sum()
        if weighting == "scores":
            return scores
        if weighting == "hard":
            return (np.arange(len(scores)) == scores.argmax()).astype(np.float64)
        e = np.exp(scores - scores.max())
        return e if weighting == "unnormalised" else e / e.sum()

    return repaired_months


REPAIRED_MONTHS = Exercise(
    name="repaired_months",
    arguments=("word", "months", "inverse_temperature"),
    statement="Return the weights of a soft lookup of the word among the names of "
    "months: letter-pair counts of ^word$ in lower case, scaled to length 1, dot "
    "products times the inverse temperature, softmax.",
    ask="Print the letter pairs of the word shown, then their vector, then the "
    "scores. Which is the first that is not what you expect?",
    reference=months_weights,
    probes=(
        Probe("may", ["may", "june"], 1.0, about="two names in lower case"),
        Probe("mai", ["march", "may", "june"], 8.0, about="a misspelt name"),
        Probe("MAY", ["may", "june"], 8.0, about="a word in capitals"),
        Probe("may", ["May", "June", "July"], 8.0, about="names with capitals"),
        Probe("am", ["ma", "amy"], 8.0, about="the same letters in another order"),
        Probe("nana", ["banana", "nan"], 4.0, about="a pair of letters that repeats"),
        Probe("marhc", list(MONTHS), 8.0, about="marhc among the twelve months"),
        Probe("Septembr", list(MONTHS), 30.0, about="Septembr, nearly hard"),
        Probe("juny", list(MONTHS), 1.0, about="juny at inverse temperature 1"),
    ),
    properties=(_SUM_TO_ONE,),
    assemble=_months,
    planted=("not_scaled", "capitals_in_names", "divided"),
    mistakes=(
        Mistake(
            "not_scaled",
            "The counts are not scaled to length 1, so long names get larger scores "
            "than short ones.",
            "What is the score of a word with itself, for a long word and a short one?",
            settings={"length": "none"},
        ),
        Mistake(
            "keys_scaled",
            "Only the names are scaled to length 1, not the word that is looked up.",
            "What is the score of a word with itself, for a long word and a short one?",
            settings={"length": "keys_only"},
        ),
        Mistake(
            "word_scaled",
            "Only the word is scaled to length 1, not the names.",
            "What is the score of a word with itself, for a long word and a short one?",
            settings={"length": "query_only"},
        ),
        Mistake(
            "divided_by_sum",
            "The counts are divided by their sum instead of by their length (the root "
            "of the sum of squares).",
            "What is the dot product of such a vector with itself?",
            settings={"length": "sum"},
        ),
        Mistake(
            "capitals",
            "Capitals and small letters count as different letters.",
            "How many letter pairs do MAY and may share?",
            settings={"case": "kept"},
        ),
        Mistake(
            "capitals_in_names",
            "The word is put into lower case, but the names of the months are not.",
            "Which pair does May begin with, and which does may?",
            settings={"case": "names_kept"},
        ),
        Mistake(
            "capitals_in_word",
            "The names are put into lower case, but the word is not.",
            "How many letter pairs do MAY and may share?",
            settings={"case": "word_kept"},
        ),
        Mistake(
            "divided",
            "The scores are divided by the inverse temperature instead of multiplied "
            "by it.",
            "Should an inverse temperature of 30 make the lookup hard or soft?",
            settings={"temperature": "divides"},
        ),
        Mistake(
            "temperature_ignored",
            "The inverse temperature is not used.",
            "Which line should change when it goes from 1 to 30?",
            settings={"temperature": "ignored"},
        ),
        Mistake(
            "no_marks",
            "The beginning and the end of the word are not marked with ^ and $.",
            "Which pair tells that May begins with an M?",
            settings={"marks": "none"},
        ),
        Mistake(
            "no_end_mark",
            "The end of the word is not marked with $.",
            "Which pair tells that May ends with a y?",
            settings={"marks": "start"},
        ),
        Mistake(
            "no_start_mark",
            "The beginning of the word is not marked with ^.",
            "Which pair tells that May begins with an M?",
            settings={"marks": "end"},
        ),
        Mistake(
            "pairs_of_names",
            "Only pairs that occur in one of the names are counted, so a misspelt word "
            "is scaled as if its other pairs were not there.",
            "Which pairs of the word have no column, and what are they worth for its "
            "length?",
            settings={"alphabet": "names"},
        ),
        Mistake(
            "letters",
            "Single letters are counted instead of pairs.",
            "Can single letters tell am from ma?",
            settings={"features": "letters"},
        ),
        Mistake(
            "set_of_pairs",
            "A pair that occurs twice is counted once.",
            "How often does the pair an occur in banana?",
            settings={"features": "set"},
        ),
        Mistake(
            "no_exp",
            "The scores are divided by their sum without exp: a plain share instead of "
            "a softmax.",
            "How does the inverse temperature change a plain share?",
            settings={"weighting": "plain"},
        ),
        Mistake(
            "no_softmax",
            "The scores are returned as they are, without a softmax.",
            "What should the weights sum to?",
            settings={"weighting": "scores"},
        ),
        Mistake(
            "not_divided",
            "The exponentials are not divided by their sum.",
            "What should the weights sum to?",
            settings={"weighting": "unnormalised"},
        ),
        Mistake(
            "hard",
            "The best name gets all the weight.",
            "What should two names get that fit equally well?",
            settings={"weighting": "hard"},
        ),
    ),
)


# softmax_backward


def _backward(
    inner: str = "weighted",
    axis: str = "last",
    outer: str = "weights",
    sign: float = 1.0,
) -> Function:
    """The gradient of softmax with the faults that are asked for."""

    def softmax_backward(d_weights: Any, weights: Any) -> Any:
        g, a = d_weights, weights
        terms = {
            "weighted": g * a, "unweighted": g, "weights": a, "none": 0.0 * a,
            "diagonal": g * a,
        }[inner]  # fmt: skip
        if inner == "diagonal":
            return a * (1.0 - a) * g
        if axis == "last":
            total = terms.sum(axis=-1, keepdims=True)
        elif axis == "first":
            total = terms.sum(axis=0, keepdims=True)
        elif axis == "mean":
            total = terms.mean(axis=-1, keepdims=True)
        elif axis == "dropped":
            total = terms.sum(axis=-1)
        else:
            total = terms.sum()
        inside = sign * (g - total)
        if outer == "weights":
            return a * inside
        return g * inside if outer == "gradient" else inside

    return softmax_backward


def _weights_of(seed: int, *shape: int) -> np.ndarray:
    return reference.softmax(numbers(seed, *shape)).round(4)


SOFTMAX_BACKWARD = Exercise(
    name="softmax_backward",
    arguments=("d_weights", "weights"),
    statement="Return the gradient with respect to the scores, from the gradient with "
    "respect to the weights and the weights themselves. Rows are the last axis.",
    ask="Write down the Jacobian a_i (1 if i = j else 0) - a_i a_j for the weights "
    "shown. What is d_weights times it?",
    reference=lambda d_weights, weights: reference.softmax_backward(d_weights, weights),
    probes=(
        Probe(
            np.array([1.0, 0.0]), np.array([0.5, 0.5]),
            about="two equal weights and a gradient at the first",
        ),
        Probe(
            np.array([3.0, 3.0, 3.0]), np.array([0.5, 0.25, 0.25]),
            about="the same gradient everywhere, which must give zeros",
        ),
        Probe(
            np.array([1.0, -2.0, 0.0]), np.array([0.0, 1.0, 0.0]),
            about="all the weight on one key, which must give zeros",
        ),
        Probe(np.array([2.0, -1.0, 0.5]), np.array([0.2, 0.3, 0.5]), about="one row"),
        Probe(numbers(101, 3, 3), _weights_of(102, 3, 3), about="three rows of three"),
        Probe(numbers(103, 2, 4), _weights_of(104, 2, 4), about="two rows of four"),
        Probe(numbers(105, 2, 3, 4), _weights_of(106, 2, 3, 4), about="three axes"),
    ),
    properties=(
        Property(
            "Raising all scores of a row alike changes no weight, so each row of this "
            "gradient must sum to 0, and here some do not.",
            lambda got, d, a: bool(np.allclose(got.sum(axis=-1), 0.0, atol=1e-3)),
        ),
    ),
    assemble=_backward,
    mistakes=(
        Mistake(
            "diagonal",
            "Only the diagonal of the Jacobian is used, a (1 - a), as for a sigmoid. "
            "Raising one score also lowers the other weights.",
            "What happens to weight 2 when score 1 rises?",
            settings={"inner": "diagonal"},
        ),
        Mistake(
            "one_row",
            "The Jacobian diag(a) - a a^T is built for one row of weights; with several "
            "rows this does not work.",
            "How can a (g - sum of g a) be written so that it works along the last axis?",
            lambda d, a: (np.diag(a) - np.outer(a, a)) @ d,
        ),
        Mistake(
            "dot",
            "np.dot (or @) sums g a for one row; with several rows it is a product of "
            "matrices.",
            "How can g a be summed along the last axis only?",
            lambda d, a: a * (d - np.dot(a, d)),
        ),
        Mistake(
            "no_mean",
            "The weighted mean of the gradient is not taken away.",
            "What must the gradient be when d_weights is the same everywhere?",
            settings={"inner": "none"},
        ),
        Mistake(
            "unweighted",
            "The plain sum of d_weights is taken away instead of the sum weighted by "
            "the weights.",
            "What must the gradient be when d_weights is the same everywhere?",
            settings={"inner": "unweighted"},
        ),
        Mistake(
            "sum_of_weights",
            "The sum of the weights, which is 1, is taken away instead of the weighted "
            "sum of d_weights.",
            "What must the gradient be when d_weights is the same everywhere?",
            settings={"inner": "weights"},
        ),
        Mistake(
            "all_rows",
            "The sum runs over all rows together instead of along each row.",
            "Does the gradient of one row depend on another row?",
            settings={"axis": "all"},
        ),
        Mistake(
            "columns",
            "The sum runs down the columns instead of along each row.",
            "Along which axis did the softmax run?",
            settings={"axis": "first"},
        ),
        Mistake(
            "averaged",
            "The weighted gradient is averaged (mean) instead of summed.",
            "The weights sum to 1 already. What does a further division by n do?",
            settings={"axis": "mean"},
        ),
        Mistake(
            "no_keepdims",
            "keepdims=True is missing in the sum: it stretches along the wrong axis (or "
            "does not fit at all).",
            "Which shape must the sums have so that row i loses sum i?",
            settings={"axis": "dropped"},
        ),
        Mistake(
            "no_weights",
            "The bracket is not multiplied by the weights.",
            "Can a score whose weight is 0 change anything?",
            settings={"outer": "none"},
        ),
        Mistake(
            "gradient_outside",
            "The bracket is multiplied by d_weights instead of by the weights.",
            "Can a score whose weight is 0 change anything?",
            settings={"outer": "gradient"},
        ),
        Mistake(
            "sign",
            "The sign is the wrong way round.",
            "Does raising a score raise or lower its own weight?",
            settings={"sign": -1.0},
        ),
    ),
)  # fmt: skip
