"""Exercises of chapter 10: from scores to a sentence."""

from __future__ import annotations

from collections.abc import Callable
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
from transformer_lib.reference.attention import attention
from transformer_lib.reference.lookup import softmax

EXERCISES = (
    "pencil_decoding",
    "temperature",
    "top_p",
    "length_scores",
    "beam_step",
    "repaired_cache",
)

Function = Callable[..., Any]


# pencil_decoding: three tokens, two steps

# First token: a, b, end. After a and after b: a, b, end.
_FIRST = np.array([0.5, 0.4, 0.1])
_AFTER_A = np.array([0.4, 0.3, 0.3])
_AFTER_B = np.array([0.1, 0.0, 0.9])


def _norm(length: int, alpha: float = 1.0) -> float:
    return float(((5 + length) / 6) ** alpha)


_SHORT, _LONG = np.log(0.1), np.log(0.36)

PENCIL_DECODING = Pencil(
    name="pencil_decoding",
    statement="A model writes a, b or the end. Work out what greedy decoding writes and "
    "how probable it is, the same for a beam of two, a temperature, a cut, and the "
    "scores of two finished sentences with penalty 1.",
    blanks=(
        Blank(
            "greedy",
            0.2,
            "Which token is the likeliest first, and which after it? The two chances "
            "are multiplied.",
            tolerance=0.0051,
        ),
        Blank(
            "beam",
            0.36,
            "Both a and b are kept. Which of their six extensions is the likeliest?",
            tolerance=0.0051,
        ),
        Blank(
            "cooled",
            [0.6, 0.38, 0.02],
            "At temperature 1/2 the logits double, so each chance is squared. What do "
            "the squares of 0.5, 0.4 and 0.1 sum to?",
        ),
        Blank(
            "cut",
            [0.56, 0.44, 0.0],
            "Which tokens are needed until the sum is at least 0.6? What do the kept "
            "ones sum to?",
        ),
        Blank(
            "scores",
            [_SHORT / _norm(1), _LONG / _norm(2)],
            "The end token counts. (5 + 1)/6 is 1, and (5 + 2)/6 is 1.17.",
        ),
    ),
    mistakes=(
        Slip(
            "greedy_added",
            "The two chances were added; both have to happen, so they are multiplied.",
            "How probable are two heads with two coins?",
            {"greedy": 0.9},
        ),
        Slip(
            "greedy_first_only",
            "That is the chance of the first token alone.",
            "What follows a, and how likely is that?",
            {"greedy": 0.5},
        ),
        Slip(
            "greedy_looked_ahead",
            "That is the likeliest sentence; greedy does not get there.",
            "Which token does greedy take first, before it knows what follows?",
            {"greedy": 0.36},
        ),
        Slip(
            "beam_is_greedy",
            "That is greedy's sentence once more.",
            "What is 0.4 times the chance of what can follow b?",
            {"beam": 0.2},
        ),
        Slip(
            "beam_last_only",
            "That is the chance of the last token alone, given the first.",
            "How likely was b in the first place?",
            {"beam": 0.9},
        ),
        Slip(
            "beam_added",
            "The two chances were added instead of multiplied.",
            "Can a chance be larger than 1?",
            {"beam": 1.3},
        ),
        Slip(
            "warmed",
            "That is temperature 2: the roots of the chances.",
            "Dividing a logit by 1/2 does what to it?",
            {"cooled": np.sqrt(_FIRST) / np.sqrt(_FIRST).sum()},
        ),
        Slip(
            "cooled_not_normalised",
            "The squares are right, and do not sum to 1.",
            "What do 0.25, 0.16 and 0.01 sum to?",
            {"cooled": _FIRST**2},
        ),
        Slip(
            "cooled_halved",
            "The chances were multiplied or divided, not the logits; after "
            "normalising, nothing has changed.",
            "A logit is the logarithm of a chance. What is twice a logarithm?",
            {"cooled": _FIRST},
        ),
        Slip(
            "cut_too_early",
            "The token that crosses 0.6 was dropped; it is kept.",
            "Does a alone reach 0.6?",
            {"cut": [1.0, 0.0, 0.0]},
        ),
        Slip(
            "cut_not_normalised",
            "What is kept does not sum to 1.",
            "What must the chances that are kept sum to?",
            {"cut": [0.5, 0.4, 0.0]},
        ),
        Slip(
            "cut_too_late",
            "One token too many was kept.",
            "a and b together have 0.9. Is that at least 0.6?",
            {"cut": _FIRST},
        ),
        Slip(
            "scores_without_end",
            "The end token was not counted.",
            "How many tokens does a sentence have that is nothing but the end?",
            {"scores": [_SHORT / _norm(0), _LONG / _norm(1)]},
        ),
        Slip(
            "scores_multiplied",
            "The log-probabilities were multiplied by the norm; they are divided.",
            "A long sentence has a very negative logarithm. Which brings it nearer to 0?",
            {"scores": [_SHORT * _norm(1), _LONG * _norm(2)]},
        ),
        Slip(
            "scores_of_chances",
            "The chances were divided, not their logarithms.",
            "What is ln 0.1?",
            {"scores": [0.1 / _norm(1), 0.36 / _norm(2)]},
        ),
        Slip(
            "scores_per_token",
            "The logarithms were divided by the number of tokens. That is a norm, too, "
            "and not the one of (10.3).",
            "What is (5 + 2)/6?",
            {"scores": [_SHORT, _LONG / 2]},
        ),
    ),
)


# temperature


def _temperature(how: str = "divided", total: str = "softmax") -> Function:
    """A softmax with temperature, with the faults that are asked for."""

    def temperature_with(logits: Any, tau: Any) -> Any:
        scaled = {
            "divided": logits / tau,
            "multiplied": logits * tau,
            "ignored": logits,
            "rooted": logits / np.sqrt(tau),
            "squared": logits / tau**2,
            "shifted": logits - tau,
        }[how]
        if total == "raw":
            e = np.exp(scaled)
            return e / e.sum()
        if total == "none":
            return np.exp(scaled - scaled.max())
        if total == "scaled":
            return scaled
        return softmax(scaled)

    return temperature_with


TEMPERATURE = Exercise(
    name="temperature",
    arguments=("logits", "tau"),
    statement="Return the chances of all tokens at temperature tau > 0, from their logits "
    "(vocab,).",
    ask="At a very low temperature, how much should the largest logit get?",
    reference=_temperature(),
    probes=(
        Probe(np.array([1.0, 0.0]), 1.0, about="tau = 1"),
        Probe(np.array([2.0, 0.0, 1.0]), 2.0, about="tau = 2"),
        Probe(np.array([2.0, 0.0, 1.0]), 0.5, about="tau = 1/2"),
        Probe(np.array([3.0, 3.0, 3.0, 3.0]), 0.7, about="four equal logits"),
        Probe(numbers(1001, 5), 0.3, about="five logits"),
        Probe(numbers(1002, 7), 4.0, about="seven logits"),
        Probe(np.array([900.0, 899.0, 0.0]), 0.5, about="large logits"),
    ),
    assemble=_temperature,
    mistakes=(
        Mistake(
            "multiplied",
            "The logits are multiplied by tau; they are divided by it.",
            "A low temperature should make the choice surer. Do small logits make a "
            "sure choice?",
            settings={"how": "multiplied"},
        ),
        Mistake(
            "ignored",
            "tau changes nothing. (Dividing the chances and normalising again has the same "
            "effect: none.)",
            "What should happen to the chances when tau goes to 0?",
            settings={"how": "ignored"},
        ),
        Mistake(
            "rooted",
            "The logits are divided by the root of tau.",
            "What is (2, 0) at tau = 4?",
            settings={"how": "rooted"},
        ),
        Mistake(
            "squared",
            "The logits are divided by tau twice.",
            "In how many of your lines does tau stand?",
            settings={"how": "squared"},
        ),
        Mistake(
            "not_stable",
            "exp overflows for large logits. The result does not change if the largest "
            "logit is first taken away from all.",
            "What is exp(1800) in floating point?",
            settings={"total": "raw"},
        ),
        Mistake(
            "not_normalised",
            "The numbers are not divided by their sum.",
            "What should all chances sum to?",
            settings={"total": "none"},
        ),
        Mistake(
            "no_softmax",
            "These are the scaled logits; the softmax is still to do.",
            "Can a chance be negative?",
            settings={"total": "scaled"},
        ),
    ),
)


# top_p


def _top_p(
    crossing: str = "kept", total: str = "right", order: str = "sorted"
) -> Function:
    """A cut at a share p, with the faults that are asked for."""

    def top_p_with(chances: Any, p: Any) -> Any:
        chances = np.asarray(chances, dtype=np.float64)
        places = np.arange(len(chances))
        if order in ("sorted", "left_sorted"):
            places = np.argsort(-chances, kind="stable")
        elif order == "rising":
            places = np.argsort(chances, kind="stable")
        ordered = chances[places]
        before = np.cumsum(ordered) - ordered  # what the tokens in front hold
        keep = before < p - 1e-12
        if crossing == "dropped":
            keep = np.cumsum(ordered) <= p + 1e-12
        elif crossing == "one_more":
            keep = np.concatenate([[True], keep[:-1]])
        elif crossing == "threshold":
            keep = ordered >= p
        elif crossing == "first":
            keep = np.arange(len(ordered)) == 0
        kept = np.where(keep, ordered, 0.0)
        if total == "right":
            if kept.sum() == 0.0:
                raise ZeroDivisionError("nothing is kept")
            kept = kept / kept.sum()
        elif total == "softmax":
            kept = softmax(kept)
        elif total == "ones":
            kept = keep / keep.sum()
        if order == "left_sorted":
            return kept
        out = np.zeros_like(chances)
        out[places] = kept
        return out

    return top_p_with


TOP_P = Exercise(
    name="top_p",
    arguments=("chances", "p"),
    statement="Keep the likeliest tokens until they hold at least the share p, give the "
    "others 0, and return the chances (vocab,), each in its place, summing to 1.",
    ask="Which tokens are kept in the input shown, and what do they sum to?",
    reference=_top_p(),
    probes=(
        Probe(np.array([0.4, 0.3, 0.2, 0.1]), 0.5, about="[.4, .3, .2, .1] and p = .5"),
        Probe(np.array([0.9, 0.06, 0.04]), 0.5, about="one sure token"),
        Probe(np.array([0.1, 0.2, 0.3, 0.4]), 0.6, about="the likeliest token last"),
        Probe(np.array([0.25, 0.5, 0.125, 0.125]), 1.0, about="p = 1"),
        Probe(np.array([0.05, 0.35, 0.15, 0.25, 0.2]), 0.7, about="five tokens"),
        Probe(
            np.array([0.02, 0.3, 0.18, 0.06, 0.24, 0.2]), 0.9, about="six tokens"
        ),
    ),
    properties=(
        Property(
            "Chances sum to 1, and these do not.",
            lambda got, chances, p: bool(abs(got.sum() - 1.0) < 1e-6),
        ),
    ),
    beyond=(
        Beyond(
            Probe(np.array([0.3, 0.3, 0.3, 0.1]), 0.5),
            "Three tokens are equally likely here. Cut where the sum is reached, by a "
            "stable order, and not by comparing chances with the last one kept.",
        ),
    ),
    assemble=_top_p,
    mistakes=(
        Mistake(
            "crossing_dropped",
            "The token that crosses p is dropped; it is the last one kept.",
            "With [.4, .3, .2, .1] and p = .5, does .4 alone hold half?",
            settings={"crossing": "dropped"},
        ),
        Mistake(
            "one_too_many",
            "One token too many is kept.",
            "With [.9, .06, .04] and p = .5, is a second token needed?",
            settings={"crossing": "one_more"},
        ),
        Mistake(
            "each_at_least_p",
            "Every single chance is compared with p; it is their sum that must reach p.",
            "Which token of [.4, .3, .2, .1] has a chance of .5?",
            settings={"crossing": "threshold"},
        ),
        Mistake(
            "only_the_likeliest",
            "Only the likeliest token is kept: that is greedy decoding.",
            "How many tokens are needed to hold half in [.4, .3, .2, .1]?",
            settings={"crossing": "first"},
        ),
        Mistake(
            "not_renormalised",
            "What is kept is not divided by its sum.",
            "With which chance would nothing at all be drawn?",
            settings={"total": "none"},
        ),
        Mistake(
            "softmax_again",
            "The kept chances go through a softmax. They are chances already, and exp(0) "
            "is not 0.",
            "What becomes of a chance of 0?",
            settings={"total": "softmax"},
        ),
        Mistake(
            "all_alike",
            "The kept tokens get equal chances.",
            "Which of the kept tokens is the likelier one?",
            settings={"total": "ones"},
        ),
        Mistake(
            "not_sorted",
            "The sum runs over the tokens in the order in which they stand, not from the "
            "likeliest down.",
            "Which token comes first in [.1, .2, .3, .4]?",
            settings={"order": "as_is"},
        ),
        Mistake(
            "sorted_upward",
            "The sum begins with the least likely tokens.",
            "Which end of the order is to be cut off?",
            settings={"order": "rising"},
        ),
        Mistake(
            "left_in_order",
            "The chances are returned in sorted order, no longer in their places.",
            "Which token does the first number belong to?",
            settings={"order": "left_sorted"},
        ),
    ),
)  # fmt: skip


# length_scores


def _length_scores(
    how: str = "divided", length: str = "with_end", norm: str = "2016"
) -> Function:
    """Scores of finished sentences, with the faults that are asked for."""

    def length_scores_with(token_chances: Any, alpha: Any) -> Any:
        scores = []
        for chances in token_chances:
            n = len(chances) - (length == "without_end")
            if length == "first":
                n = len(token_chances[0])
            by = {"2016": ((5 + n) / 6) ** alpha, "length": float(n) ** alpha,
                  "linear": (5 + n) / 6, "times": alpha * (5 + n) / 6,
                  "plain": ((5 + n) ** alpha) / 6}[norm]  # fmt: skip
            logs = np.log(chances)
            total = {
                "mean": logs.mean(), "chances": np.sum(chances),
                "product": np.prod(chances),
            }.get(how, logs.sum())  # fmt: skip
            scores.append(total * by if how == "multiplied" else total / by)
        return np.array(scores)

    return length_scores_with


LENGTH_SCORES = Exercise(
    name="length_scores",
    arguments=("token_chances", "alpha"),
    statement="token_chances is a list with one array per finished sentence: the chance "
    "of each of its tokens, the end included. Return the score (10.3) of each sentence.",
    ask="With alpha = 0, what is the score of a sentence with the chances .5 and .5?",
    reference=_length_scores(),
    probes=(
        Probe([np.array([0.5, 0.5])], 0.0, about="one sentence and alpha = 0"),
        Probe([np.array([0.5])], 1.0, about="one sentence of one token"),
        Probe(
            [np.array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])], 1.0,
            about="seven tokens, so the norm is 2",
        ),
        Probe(
            [np.array([0.9, 0.3]), np.array([0.8, 0.7, 0.6, 0.9])], 0.6,
            about="two sentences and alpha = 0.6",
        ),
        Probe(
            [np.array([0.4, 0.9, 0.2]), np.array([0.7]), np.array([0.6, 0.5])], 2.0,
            about="three sentences and alpha = 2",
        ),
    ),
    assemble=_length_scores,
    mistakes=(
        Mistake(
            "multiplied",
            "The log-probability is multiplied by the norm: long sentences are punished "
            "twice.",
            "Logarithms of chances are negative. What does a larger norm do to a "
            "quotient, and what to a product?",
            settings={"how": "multiplied"},
        ),
        Mistake(
            "chances_added",
            "The chances are added up; their logarithms should be.",
            "Both tokens have to come. Are chances added then, or multiplied?",
            settings={"how": "chances"},
        ),
        Mistake(
            "no_logarithm",
            "The chances are multiplied, and the logarithm is missing.",
            "A product of many chances is tiny. What is used in its place?",
            settings={"how": "product"},
        ),
        Mistake(
            "mean_first",
            "The logarithms are averaged before the norm: the length counts twice.",
            "What is the score with alpha = 0?",
            settings={"how": "mean"},
        ),
        Mistake(
            "end_not_counted",
            "The end token is not counted.",
            "Which norm does a sentence of one token have?",
            settings={"length": "without_end"},
        ),
        Mistake(
            "length_of_the_first",
            "The length of the first sentence serves for all, as if all were padded "
            "alike.",
            "Which of your lines looks at the length of each sentence?",
            settings={"length": "first"},
        ),
        Mistake(
            "plain_length",
            "The norm is the length to the power of alpha, without 5 and 6. That is "
            "used, too, and it is not (10.3).",
            "What is the norm of one token, and of seven, with alpha = 1?",
            settings={"norm": "length"},
        ),
        Mistake(
            "alpha_ignored",
            "alpha is not used.",
            "What should the norm be with alpha = 0?",
            settings={"norm": "linear"},
        ),
        Mistake(
            "alpha_as_factor",
            "alpha multiplies; it is the exponent.",
            "What should the norm be with alpha = 0?",
            settings={"norm": "times"},
        ),
        Mistake(
            "six_outside",
            "Only 5 + n is raised to alpha; the 6 belongs inside the bracket.",
            "What should the norm be with alpha = 0?",
            settings={"norm": "plain"},
        ),
    ),
)  # fmt: skip


# beam_step


def _beam_step(
    total: str = "logs", competition: str = "all", order: str = "best",
    names: str = "right", returned: str = "right",
) -> Function:  # fmt: skip
    """One step of beam search, with the faults that are asked for."""

    def beam_step_with(totals: Any, log_p: Any, size: Any) -> Any:
        beams, vocab = log_p.shape
        extended = {
            "logs": lambda: totals[:, None] + log_p,
            "chances": lambda: np.exp(totals)[:, None] + np.exp(log_p),
            "forgotten": lambda: log_p + 0.0,
            "multiplied": lambda: totals[:, None] * log_p,
            "mean": lambda: (totals[:, None] + log_p) / 2,
        }[total]()
        flat = extended.ravel()
        if competition == "own":
            token = extended.argmax(axis=1)
            parent = np.arange(beams)
            best = (parent * vocab + token)[np.argsort(-extended.max(axis=1))][:size]
        elif competition == "first":
            best = np.argsort(-extended[0], kind="stable")[:size]
        else:
            sign = 1.0 if order in ("worst", "rising") else -1.0
            best = np.argsort(sign * flat, kind="stable")[:size]
            if order == "rising":
                best = np.argsort(-flat, kind="stable")[:size][::-1]
        parent, token = best // vocab, best % vocab
        if names == "swapped":
            parent, token = token, parent
        elif names == "by_beams":
            parent, token = best // beams, best % beams
        kept = flat[best]
        if returned == "step":
            kept = log_p[best // vocab, best % vocab]
        elif returned == "chances":
            kept = np.exp(kept)
        return parent, token, kept

    return beam_step_with


BEAM_STEP = Exercise(
    name="beam_step",
    arguments=("totals", "log_p", "size"),
    statement="totals (beams,) holds the log-probability of each beginning, log_p (beams, "
    "vocab) that of each next token. Return (parent, token, total) of the size best "
    "extensions, best first.",
    ask="Write down all extensions of the input shown. Which are the best, and whose "
    "are they?",
    reference=_beam_step(),
    returns=("parent", "token", "total"),
    probes=(
        Probe(
            np.array([0.0]), np.log([[0.5, 0.3, 0.2]]), 2, about="a single beginning"
        ),
        Probe(
            np.array([-0.1, -3.0]), np.log([[0.5, 0.3, 0.2], [0.8, 0.1, 0.1]]), 2,
            about="both best ones from the same beginning",
        ),
        Probe(
            np.log([0.5, 0.4]), np.log([[0.4, 0.35, 0.25], [0.05, 0.9, 0.05]]), 2,
            about="the second beginning overtaking",
        ),
        Probe(
            np.log([0.3, 0.25, 0.2]),
            np.log([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.15, 0.05],
                    [0.05, 0.05, 0.1, 0.8]]),
            3, about="three beginnings and four tokens",
        ),
        Probe(
            np.log([0.02, 0.6]),
            np.log([[0.15, 0.25, 0.35, 0.2, 0.05], [0.3, 0.28, 0.2, 0.12, 0.1]]),
            4, about="two beginnings, five tokens, four places",
        ),
    ),
    assemble=_beam_step,
    mistakes=(
        Mistake(
            "chances_added",
            "Chances are added: exp(total) + exp(log_p). Logarithms are added.",
            "The chance of two things in a row is a product. What is its logarithm?",
            settings={"total": "chances"},
        ),
        Mistake(
            "past_forgotten",
            "Only the last token counts; the totals of the beginnings are not used.",
            "Is a sure step from an unlikely beginning a good sentence?",
            settings={"total": "forgotten"},
        ),
        Mistake(
            "logs_multiplied",
            "The logarithms are multiplied; they are added.",
            "What is the logarithm of a product?",
            settings={"total": "multiplied"},
        ),
        Mistake(
            "each_its_own",
            "Each beginning keeps its own best extension; all extensions compete for all "
            "places.",
            "May two of the best extensions come from the same beginning?",
            settings={"competition": "own"},
        ),
        Mistake(
            "first_beginning_only",
            "Only the first beginning is extended.",
            "Whose extensions are in your list?",
            settings={"competition": "first"},
        ),
        Mistake(
            "worst_kept",
            "The least likely extensions are kept.",
            "np.argsort sorts upward. Which end do you need?",
            settings={"order": "worst"},
        ),
        Mistake(
            "worst_first",
            "The right extensions are kept, in rising order; the best comes first.",
            "np.argsort sorts upward. Which way round do you take its end?",
            settings={"order": "rising"},
        ),
        Mistake(
            "names_swapped",
            "parent and token have changed places.",
            "Which of the two can be as large as the vocabulary?",
            settings={"names": "swapped"},
        ),
        Mistake(
            "divided_by_beams",
            "The place in the flattened array is divided by the number of beginnings; a "
            "row of it holds as many numbers as there are tokens.",
            "At which place does the second row of log_p begin?",
            settings={"names": "by_beams"},
        ),
        Mistake(
            "total_of_the_step",
            "total is the log-probability of the last token, not of the whole.",
            "What will the next step add to?",
            settings={"returned": "step"},
        ),
        Mistake(
            "total_as_chance",
            "total is a chance; the next step needs its logarithm.",
            "Can a log-probability be above 0?",
            settings={"returned": "chances"},
        ),
    ),
)  # fmt: skip


# repaired_cache: causal self-attention, one token at a time


def _cached(
    own: str = "seen", keys: str = "kept", values: str = "projected",
    scale: str = "width", first: str = "kept",
) -> Function:  # fmt: skip
    """Self-attention with a cache of keys and values, with the faults asked for."""

    def cached_with(X: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
        K = np.zeros((0, W_K.shape[1]))
        V = np.zeros((0, W_V.shape[1]))
        outputs = []
        for t, x in enumerate(X):
            q, k, v = x @ W_Q, x @ W_K, x @ W_V
            if keys == "query":
                k = q
            if values == "unprojected":
                v = x
            elif values == "key":
                v = k
            past_K, past_V = K, V
            K, V = np.vstack([K, k]), np.vstack([V, v])
            if keys == "overwritten":
                K = np.repeat(k[None], t + 1, axis=0)
            elif keys == "front":
                K = np.vstack([k, past_K])
            elif keys == "twice" and t:
                K = np.vstack([K, k])
                V = np.vstack([V, v])
            if first == "dropped" and t:
                K, V = K[-2:], V[-2:]
            seen_K, seen_V = (past_K, past_V) if own == "hidden" else (K, V)
            if len(seen_K) == 0:
                outputs.append(np.zeros(W_V.shape[1]))
                continue
            by = {"width": K.shape[1], "length": len(seen_K), "model": X.shape[1],
                  "none": 1}[scale]  # fmt: skip
            scores = seen_K @ q / np.sqrt(by)
            outputs.append(softmax(scores) @ seen_V)
        return np.stack(outputs)

    return cached_with


def _causal(X: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
    mask = np.tril(np.ones((len(X), len(X)), dtype=bool))
    return attention(X @ W_Q, X @ W_K, X @ W_V, mask)[0]


REPAIRED_CACHE = Exercise(
    name="repaired_cache",
    arguments=("X", "W_Q", "W_K", "W_V"),
    statement="Repair the self-attention that reads the rows of X one by one and keeps "
    "keys and values: it must return what masked self-attention returns for all rows at "
    "once.",
    ask="Compare row 0 with attention over one token, row 1 with attention over two. Which "
    "row is the first to differ?",
    reference=_causal,
    probes=(
        Probe(
            np.array([[1.0, 2.0]]), np.eye(2), np.eye(2), np.array([[1.0], [3.0]]),
            about="a single token",
        ),
        Probe(
            np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros((2, 2)), np.zeros((2, 2)),
            np.eye(2), about="zero queries, so that row 1 is a mean",
        ),
        Probe(
            np.array([[1.0, 0.0], [0.0, 2.0], [2.0, 1.0]]),
            np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 1.0]]),
            np.array([[1.0, 0.0], [-1.0, 1.0]]), about="the, cat, sat",
        ),
        Probe(
            numbers(1011, 4, 3), numbers(1012, 3, 2), numbers(1013, 3, 2),
            numbers(1014, 3, 2), about="four tokens, d = 3, d_k = d_v = 2",
        ),
        Probe(
            numbers(1015, 5, 4), numbers(1016, 4, 4), numbers(1017, 4, 4),
            numbers(1018, 4, 4), about="five tokens, d = 4 throughout",
        ),
    ),
    assemble=_cached,
    planted=("own_key_missing", "scaled_by_length", "values_are_keys"),
    mistakes=(
        Mistake(
            "own_key_missing",
            "A token attends before its own key is in the cache, so it does not see "
            "itself, and the first sees nothing.",
            "How many keys should row 0 see?",
            settings={"own": "hidden"},
        ),
        Mistake(
            "scaled_by_length",
            "The scores are divided by the root of the number of cached keys; it is the "
            "width of a key that belongs under the root.",
            "Which axis of the cache is the width?",
            settings={"scale": "length"},
        ),
        Mistake(
            "not_scaled",
            "The scores are not divided by the root of d_k.",
            "Which of your lines has a square root?",
            settings={"scale": "none"},
        ),
        Mistake(
            "scaled_by_d_model",
            "The root is that of the width of a token, not of a key.",
            "In the input shown, how wide is a key?",
            settings={"scale": "model"},
        ),
        Mistake(
            "values_are_keys",
            "The value cache is filled with keys.",
            "Which matrix makes the values?",
            settings={"values": "key"},
        ),
        Mistake(
            "values_unprojected",
            "The value cache is filled with the tokens themselves.",
            "Which matrix makes the values?",
            settings={"values": "unprojected"},
        ),
        Mistake(
            "keys_from_queries",
            "The key cache is filled with queries.",
            "Which matrix makes the keys?",
            settings={"keys": "query"},
        ),
        Mistake(
            "keys_overwritten",
            "All cached keys are replaced by the newest.",
            "What should the first row of the key cache be after the last step?",
            settings={"keys": "overwritten"},
        ),
        Mistake(
            "keys_in_front",
            "New keys are put in front and new values behind, so they no longer belong "
            "together.",
            "Which value does the first key of the cache belong to?",
            settings={"keys": "front"},
        ),
        Mistake(
            "appended_twice",
            "From the second token on each key and value is appended twice, so the first "
            "token counts half.",
            "How many rows should the cache have after three tokens?",
            settings={"keys": "twice"},
        ),
        Mistake(
            "only_the_last_two",
            "Only the last two tokens stay in the cache.",
            "How many keys should row 3 see?",
            settings={"first": "dropped"},
        ),
    ),
)  # fmt: skip
