"""Exercises of chapter 3: self-attention."""

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
from transformer_lib.reference.attention import (
    attention,
    attention_backward,
    self_attention,
)
from transformer_lib.reference.lookup import softmax, softmax_backward

EXERCISES = (
    "pencil_attention",
    "attention_scores",
    "attention",
    "self_attention",
    "repaired_attention",
    "attention_backward",
)

Function = Callable[..., Any]

X_TOKENS = np.array([[1.0, 0.0], [0.0, 2.0], [2.0, 1.0]])
"""The three tokens of the course's pencil exercises: the, cat, sat. Shape (3, 2)."""
_W_Q = np.array([[1.0, 1.0], [0.0, 1.0]])
_W_K = np.array([[0.0, 1.0], [1.0, 1.0]])
_W_V = np.array([[1.0, 0.0], [-1.0, 1.0]])
_Q, _K, _V = X_TOKENS @ _W_Q, X_TOKENS @ _W_K, X_TOKENS @ _W_V


# One implementation with all faults, for attention and self_attention


def _mix(
    Q: np.ndarray,
    K: np.ndarray,
    V: np.ndarray,
    width: int,
    scale: str = "root",
    axis: str = "keys",
    roles: str = "right",
    weighting: str = "softmax",
    stable: str = "yes",
    result: str = "output",
    averaged: str = "values",
    visible: str = "all",
) -> Any:
    """Attention with the faults that are asked for; ``width`` is d_model."""
    if roles == "swapped":
        Q, K = K, Q
    S = Q @ K.swapaxes(-1, -2)
    n, d_k = K.shape[-2:]
    divisors = {
        "root": np.sqrt(d_k),
        "none": 1.0,
        "width": float(d_k),
        "root_of_keys": np.sqrt(n),
        "root_of_queries": np.sqrt(Q.shape[-2]),
        "root_of_values": np.sqrt(V.shape[-1]),
        "root_of_model": np.sqrt(width),
        "times": 1.0 / np.sqrt(d_k),
        "after": 1.0,
    }
    S = S / divisors[scale]
    if visible == "causal":
        S = np.where(np.tri(*S.shape[-2:]) > 0.0, S, -np.inf)
    over: int | tuple[int, int] = {"keys": -1, "queries": -2}.get(axis, -1)
    if axis == "all":
        over = (-2, -1)
    highest = S.max(axis=over, keepdims=True)
    e = np.exp(S - highest) if stable == "yes" else np.exp(S)
    A = e / e.sum(axis=over, keepdims=True)
    if weighting == "none":
        A = S
    elif weighting == "plain":
        A = S / S.sum(axis=over, keepdims=True)
    elif weighting == "unnormalised":
        A = e
    elif weighting == "hard":
        A = (S.max(axis=over, keepdims=True) == S).astype(np.float64)
    if scale == "after":
        A = A / np.sqrt(d_k)
    if visible == "others":
        A = np.where(np.eye(*A.shape[-2:]) > 0.0, 0.0, A)
    if result == "weights":
        return A
    if result == "mean":
        return A @ V / n
    if result == "transposed":
        return A.swapaxes(-1, -2) @ V
    return A @ (K if averaged == "keys" else V)


_SCALE_MISTAKES = (
    Mistake(
        "no_scaling",
        "The scores are not divided by the root of d_k.",
        "How far do the scores of random queries and keys spread as d_k grows?",
        settings={"scale": "none"},
    ),
    Mistake(
        "scaled_by_width",
        "The scores are divided by d_k instead of by its root.",
        "A sum of d_k independent products of size 1: is its spread d_k or its root?",
        settings={"scale": "width"},
    ),
    Mistake(
        "scaled_by_keys",
        "The scores are divided by the root of the number of keys; it should be the "
        "root of their width d_k.",
        "How many terms does one score sum up?",
        settings={"scale": "root_of_keys"},
    ),
    Mistake(
        "scaled_by_values",
        "The scores are divided by the root of the width of the values, d_v; it should "
        "be that of the keys, d_k.",
        "How many terms does one score sum up?",
        settings={"scale": "root_of_values"},
    ),
    Mistake(
        "multiplied",
        "The scores are multiplied by the root of d_k instead of divided by it.",
        "Should the scores of wide keys be made smaller or larger?",
        settings={"scale": "times"},
    ),
    Mistake(
        "scaled_after",
        "The weights are divided by the root of d_k, after the softmax, so they no "
        "longer sum to 1.",
        "What does the scaling protect from large numbers: the scores or the weights?",
        settings={"scale": "after"},
    ),
)

_SWAPPED = Mistake(
    "swapped",
    "Queries and keys are exchanged: each key asks and each query answers.",
    "Row i of the scores belongs to which token: the one that asks or one that "
    "answers?",
    settings={"roles": "swapped"},
)

_SOFTMAX_MISTAKES = (
    Mistake(
        "over_queries",
        "The softmax runs over the queries: each column of the weights sums to 1 "
        "instead of each row.",
        "Who shares out the weight 1: each query among the keys, or each key among the "
        "queries?",
        settings={"axis": "queries"},
    ),
    Mistake(
        "over_all",
        "The softmax runs over all scores at once, so all weights together sum to 1.",
        "How much weight does each single query have to share out?",
        settings={"axis": "all"},
    ),
    Mistake(
        "no_softmax",
        "The scores themselves are used as weights, without a softmax.",
        "What should the weights of one query sum to, and may one be negative?",
        settings={"weighting": "none"},
    ),
    Mistake(
        "no_exp",
        "The scores are divided by their sum without exp.",
        "What is the weight of a key with a negative score?",
        settings={"weighting": "plain"},
    ),
    Mistake(
        "not_divided",
        "The exponentials are not divided by their sum.",
        "What should the weights of one query sum to?",
        settings={"weighting": "unnormalised"},
    ),
    Mistake(
        "hard",
        "The best key gets all the weight: that is a hard lookup.",
        "What should come out when two keys fit equally well?",
        settings={"weighting": "hard"},
    ),
    Mistake(
        "no_maximum",
        "The largest score of each row is not taken away before exp, which overflows.",
        "What is exp(1000), and what did the softmax of chapter 2 do about it?",
        settings={"stable": "no"},
    ),
)

_RESULT_MISTAKES = (
    Mistake(
        "causal",
        "A causal mask is applied: each query sees only the keys up to its own place. "
        "Here every query may see every key.",
        "Which tokens may the first token look at, and which does it look at here?",
        settings={"visible": "causal"},
    ),
    Mistake(
        "not_itself",
        "The diagonal of the weights is set to 0, so no token looks at itself, and the "
        "weights no longer sum to 1.",
        "May a token look at itself?",
        settings={"visible": "others"},
    ),
    Mistake(
        "mean",
        "The weighted values are averaged once more (divided by the number of keys) "
        "instead of added.",
        "The weights sum to 1 already. What does a further division by n do?",
        settings={"result": "mean"},
    ),
    Mistake(
        "weights_returned",
        "The weights are returned instead of the output.",
        "Which vectors do the weights average?",
        settings={"result": "weights"},
    ),
    Mistake(
        "weights_transposed",
        "The weights are transposed before they meet the values.",
        "Which values does row i of the weights average?",
        settings={"result": "transposed"},
    ),
)


def _between(got: Any, V: np.ndarray) -> bool:
    low, high = V.min(axis=-2, keepdims=True), V.max(axis=-2, keepdims=True)
    return bool(((got >= low - 1e-6) & (got <= high + 1e-6)).all())


_AVERAGE = (
    "An average of the values lies between the smallest and the largest of them, "
)
_ALIKE = np.array([[2.0], [2.0]])


# pencil_attention: the token sat by hand


def _sheet(
    query: str = "right",
    keys: str = "right",
    divisor: float = 2.0**0.5,
    weights: str = "softmax",
    averaged: str = "values",
) -> dict[str, np.ndarray]:
    """All blanks for the token sat, with the faults that are asked for."""
    x = X_TOKENS[2]
    q = {
        "right": x @ _W_Q, "column": _W_Q @ x, "W_K": x @ _W_K, "W_V": x @ _W_V,
        "raw": x, "cat": _Q[1],
    }[query]  # fmt: skip
    k = {
        "right": _K, "queries": _Q, "raw": X_TOKENS, "values": _V,
    }[keys]  # fmt: skip
    scores = k @ q
    scaled = scores / divisor
    from_scores = softmax(scores)
    a = {
        "softmax": softmax(scaled), "unscaled": from_scores,
        "shares": scaled / scaled.sum(), "hard": np.array([0.0, 0.0, 1.0]),
        "exponentials": np.exp(scaled), "powers_of_two": softmax(scaled * np.log(2.0)),
    }[weights]  # fmt: skip
    v = {"values": _V, "keys": _K, "raw": X_TOKENS, "queries": _Q}.get(averaged, _V)
    o = a @ v
    if averaged == "mean":
        o = v.mean(axis=0)
    elif averaged == "third":
        o = a @ v / 3.0
    elif averaged == "best":
        o = v[2]
    return {"query": q, "scores": scores, "scaled": scaled, "weights": a, "output": o}


_RIGHT_SHEET = _sheet()

PENCIL_ATTENTION = Pencil(
    name="pencil_attention",
    statement="Work out self-attention for the token sat, with two decimals: its query, "
    "its scores with the keys of the, cat and sat, these scores divided by the root of "
    "d_k = 2, the weights, the output.",
    blanks=(
        Blank(
            "query",
            _RIGHT_SHEET["query"],
            "Which row of X is sat, and which columns of W_Q does that row meet?",
        ),
        Blank(
            "scores",
            _RIGHT_SHEET["scores"],
            "Write the three keys below each other. What is the dot product of the query "
            "with each of them?",
        ),
        Blank(
            "scaled",
            _RIGHT_SHEET["scaled"],
            "How wide is one key, and what is the root of that number?",
        ),
        Blank(
            "weights",
            _RIGHT_SHEET["weights"],
            "Take exp of the three scaled scores and divide each by their sum. Do the "
            "three weights sum to 1?",
        ),
        Blank(
            "output",
            _RIGHT_SHEET["output"],
            "Which three vectors are averaged, and how much weight does each get?",
        ),
    ),
    mistakes=(
        Slip(
            "column_product",
            "That is W_Q x, with x as a column; here x is a row and meets the columns of "
            "W_Q.",
            "What is (2, 1) times the first column of W_Q?",
            _sheet(query="column"),
        ),
        Slip(
            "query_by_W_K",
            "That is the key of sat, x W_K.",
            "Which matrix makes the vector that asks?",
            _sheet(query="W_K"),
        ),
        Slip(
            "query_by_W_V",
            "(1, 1) is the value of sat, x W_V. It is also the query of the.",
            "Which row of X is sat, and which matrix makes the vector that asks?",
            _sheet(query="W_V"),
        ),
        Slip(
            "query_raw",
            "That is sat itself, not its query.",
            "Which matrix makes the vector that asks?",
            _sheet(query="raw"),
        ),
        Slip(
            "query_of_cat",
            "That is the query of cat.",
            "Which row of X is sat?",
            _sheet(query="cat"),
        ),
        Slip(
            "scores_with_queries",
            "The query of sat was multiplied with the queries of the three tokens.",
            "Which vectors answer a query?",
            _sheet(keys="queries"),
        ),
        Slip(
            "scores_with_tokens",
            "The query of sat was multiplied with the tokens themselves, not with their "
            "keys.",
            "Which matrix turns a token into what answers?",
            _sheet(keys="raw"),
        ),
        Slip(
            "scores_with_values",
            "The query of sat was multiplied with the values.",
            "Which vectors answer a query, and which are handed over afterwards?",
            _sheet(keys="values"),
        ),
        Slip(
            "divided_by_width",
            "The scores were divided by d_k = 2 instead of by its root.",
            "What is the root of 2?",
            _sheet(divisor=2.0),
        ),
        Slip(
            "divided_by_root_of_n",
            "The scores were divided by the root of 3, the number of tokens.",
            "How many terms does one score sum up: one per token, or one per column of K?",
            _sheet(divisor=3.0**0.5),
        ),
        Slip(
            "not_divided",
            "The scores were not divided.",
            "What does the step between scores and weights do?",
            _sheet(divisor=1.0),
        ),
        Slip(
            "multiplied",
            "The scores were multiplied by the root of 2 instead of divided by it.",
            "Should the scores become smaller or larger?",
            _sheet(divisor=0.5**0.5),
        ),
        Slip(
            "weights_of_unscaled",
            "These are the weights of the scores before scaling.",
            "Which of the two rows of scores goes into the softmax?",
            _sheet(weights="unscaled"),
        ),
        Slip(
            "shares",
            "The scaled scores were divided by their sum, without exp.",
            "What does the softmax do with each score before it divides?",
            _sheet(weights="shares"),
        ),
        Slip(
            "exponentials",
            "These are the exponentials; they still have to be divided by their sum.",
            "What should the three weights sum to?",
            _sheet(weights="exponentials"),
        ),
        Slip(
            "powers_of_two",
            "Powers of 2 were taken instead of powers of e = 2.718.",
            "What is exp(1)?",
            _sheet(weights="powers_of_two"),
        ),
        Slip(
            "hard",
            "All the weight went to the best key: that is a hard lookup.",
            "How much larger is the best scaled score than the second?",
            _sheet(weights="hard"),
        ),
        Slip(
            "keys_averaged",
            "The keys were averaged instead of the values.",
            "Which vectors are handed over once the weights are known?",
            _sheet(averaged="keys"),
        ),
        Slip(
            "tokens_averaged",
            "The tokens themselves were averaged instead of their values.",
            "Which matrix makes what is handed over?",
            _sheet(averaged="raw"),
        ),
        Slip(
            "plain_mean",
            "The values were averaged with equal weights.",
            "What are the three weights for?",
            _sheet(averaged="mean"),
        ),
        Slip(
            "divided_by_three",
            "The weighted sum was divided by 3 once more.",
            "The weights sum to 1 already. What does a further division do?",
            _sheet(averaged="third"),
        ),
        Slip(
            "best_value",
            "That is the value of sat alone, the key with the largest weight.",
            "How much of the value of cat belongs into the average?",
            _sheet(averaged="best"),
        ),
    ),
)


# attention_scores


def _scores(
    scale: str = "root", roles: str = "right", product: str = "right"
) -> Function:
    def attention_scores(Q: Any, K: Any) -> Any:
        if roles == "swapped":
            Q, K = K, Q
        d_k, n = K.shape[-1], K.shape[-2]
        divisor = {
            "root": np.sqrt(d_k), "none": 1.0, "width": d_k, "root_of_keys": np.sqrt(n),
            "times": 1.0 / np.sqrt(d_k), "root_of_queries": np.sqrt(Q.shape[-2]),
        }[scale]  # fmt: skip
        if product == "distance":
            S = -((Q[..., :, None, :] - K[..., None, :, :]) ** 2).sum(axis=-1)
        elif product == "cosine":
            length = np.linalg.norm(Q, axis=-1)[..., :, None]
            S = Q @ K.swapaxes(-1, -2) / length
            S = S / np.linalg.norm(K, axis=-1)[..., None, :]
        elif product == "columns":
            S = Q.swapaxes(-1, -2) @ K
        elif product == "untransposed":
            S = Q @ K
        elif product == "elementwise":
            S = Q * K
        elif product == "reshaped":
            S = Q @ K.reshape(*K.shape[:-2], d_k, n)
        else:
            S = Q @ K.swapaxes(-1, -2)
        return S / divisor

    return attention_scores


ATTENTION_SCORES = Exercise(
    name="attention_scores",
    arguments=("Q", "K"),
    statement="Return the scaled scores Q K^T / sqrt(d_k), one row per query and one "
    "column per key.",
    ask="What is the dot product of the first query with the first key, and what is "
    "it divided by?",
    reference=_scores(),
    probes=(
        Probe(np.array([[1.0]]), np.array([[2.0]]), about="one query and one key of width 1"),
        Probe(
            np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
            about="one query and three keys",
        ),
        Probe(_Q, _K, about="the three tokens of the chapter"),
        Probe(
            np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0], [7.0, 9.0]]),
            about="two queries and two keys of width 2",
        ),
        Probe(numbers(111, 2, 4), numbers(112, 5, 4), about="2 queries, 5 keys, d_k = 4"),
        Probe(numbers(113, 3, 9), numbers(114, 3, 9), about="3 queries, 3 keys, d_k = 9"),
    ),
    beyond=(
        Beyond(
            Probe(numbers(115, 2, 3, 4), numbers(116, 2, 5, 4)),
            "It works for one sequence. With a batch in front, .T turns all axes round; "
            "K.swapaxes(-1, -2) exchanges the last two only.",
        ),
    ),
    assemble=_scores,
    mistakes=(
        *(m for m in _SCALE_MISTAKES if m.name not in ("scaled_after", "scaled_by_values")),
        Mistake(
            "scaled_by_queries",
            "The scores are divided by the root of the number of queries; it should be "
            "the root of the width of the keys, d_k.",
            "How many terms does one score sum up?",
            settings={"scale": "root_of_queries"},
        ),
        Mistake(
            "swapped",
            "The result is K Q^T: one row per key instead of one row per query.",
            "Row i of the scores belongs to which token: the one that asks or one that "
            "answers?",
            settings={"roles": "swapped"},
        ),
        Mistake(
            "columns",
            "Q^T K compares columns of Q with columns of K; a query is a row.",
            "Which shape should the scores have: one number per query and key?",
            settings={"product": "columns"},
        ),
        Mistake(
            "untransposed",
            "K is not transposed: Q K instead of Q K^T.",
            "Which vectors meet in a dot product: rows of Q with rows or with columns "
            "of K?",
            settings={"product": "untransposed"},
        ),
        Mistake(
            "elementwise",
            "Q and K are multiplied number by number (*) instead of as matrices (@).",
            "How many scores do two queries and two keys have, and what is summed in "
            "each?",
            settings={"product": "elementwise"},
        ),
        Mistake(
            "reshaped",
            "K is reshaped instead of transposed: the numbers keep their order and only "
            "the line breaks move.",
            "Is the first column of the result of reshape the first row of K?",
            settings={"product": "reshaped"},
        ),
        Mistake(
            "cosine",
            "Queries and keys are scaled to length 1 first (cosine similarity).",
            "Does a longer key get a larger score in Q K^T?",
            settings={"product": "cosine"},
        ),
        Mistake(
            "distance",
            "The scores are negative squared distances instead of dot products.",
            "What is the score of a query with itself in Q K^T?",
            settings={"product": "distance"},
        ),
        Mistake(
            "softmaxed",
            "The softmax is applied already: these are weights, not scores.",
            "Can a score be negative?",
            lambda Q, K: softmax(Q @ K.T / np.sqrt(K.shape[-1])),
        ),
    ),
)  # fmt: skip


# attention


def _attention(**settings: str) -> Function:
    """Attention with the faults that are asked for."""

    def attention_with(Q: Any, K: Any, V: Any) -> Any:
        return _mix(Q, K, V, K.shape[-1], **settings)

    return attention_with


ATTENTION = Exercise(
    name="attention",
    arguments=("Q", "K", "V"),
    statement="Return the output softmax(Q K^T / sqrt(d_k)) V, one row per query.",
    ask="Print scores, weights and output for the input shown. Which is the first "
    "that is not what you expect?",
    reference=lambda Q, K, V: attention(Q, K, V)[0],
    probes=(
        Probe(
            np.zeros((1, 2)), np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]]),
            np.array([[3.0], [6.0], [0.0]]), about="a query of zeros, which fits all keys alike",
        ),
        Probe(
            np.array([[1.0], [0.0]]), np.array([[2.0], [0.0]]), np.array([[4.0], [0.0]]),
            about="keys of width 1, where scaling changes nothing",
        ),
        Probe(_Q, _K, _V, about="the three tokens of the chapter"),
        Probe(
            np.array([[1.0, 0.0, 0.0, 0.0]]), np.array([[5.0, 1.0, 0.0, 0.0]]),
            np.array([[7.0, -1.0]]), about="a single key",
        ),
        Probe(
            np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]]),
            np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]]),
            np.array([[1.0], [10.0], [100.0]]), about="2 queries, 3 keys, d_k = 4, d_v = 1",
        ),
        Probe(
            numbers(121, 2, 4), numbers(122, 5, 4), numbers(123, 5, 3),
            about="2 queries, 5 keys, d_k = 4, d_v = 3",
        ),
        Probe(
            numbers(124, 3, 3), numbers(125, 3, 3), numbers(126, 3, 3),
            about="all sizes 3",
        ),
        Probe(
            np.array([[1000.0, 0.0]]), np.array([[2.0, 0.0], [1.0, 0.0]]),
            np.array([[3.0], [5.0]]), about="scores of 1000",
        ),
    ),
    beyond=(
        Beyond(
            Probe(numbers(127, 2, 3, 4), numbers(128, 2, 5, 4), numbers(129, 2, 5, 3)),
            "It works for one sequence. With a batch in front, .T turns all axes round; "
            "K.swapaxes(-1, -2) exchanges the last two only.",
        ),
    ),
    properties=(
        Property(
            _AVERAGE + "and here a row of the output does not.",
            lambda got, Q, K, V: _between(got, V),
        ),
    ),
    assemble=_attention,
    mistakes=(
        *_SCALE_MISTAKES,
        Mistake(
            "scaled_by_queries",
            "The scores are divided by the root of the number of queries; it should be "
            "the root of the width of the keys, d_k.",
            "How many terms does one score sum up?",
            settings={"scale": "root_of_queries"},
        ),
        _SWAPPED,
        *_SOFTMAX_MISTAKES,
        *_RESULT_MISTAKES,
        Mistake(
            "keys_averaged",
            "The weights average the keys instead of the values.",
            "What is K for, and what is V for?",
            settings={"averaged": "keys"},
        ),
    ),
)  # fmt: skip


# self_attention and its broken twin


def _self_attention(
    keys: str = "projected",
    queries: str = "projected",
    values: str = "projected",
    side: str = "row",
    skip: str = "none",
    **settings: str,
) -> Function:
    """Self-attention with the faults that are asked for."""

    def self_attention_with(X: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
        if side == "transposed":
            W_Q, W_K, W_V = W_Q.T, W_K.T, W_V.T
        by_name = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V}

        def project(how: str, W: Any) -> Any:
            if how == "raw":
                return X
            return X @ by_name.get(how, W)

        Q, K = project(queries, W_Q), project(keys, W_K)
        V = K if values == "K" else project(values, W_V)
        output = _mix(Q, K, V, X.shape[-1], **settings)
        return X + output if skip == "added" else output

    return self_attention_with


_PROJECTION_MISTAKES = (
    Mistake(
        "values_raw",
        "The values are the tokens themselves: X is not multiplied by W_V.",
        "What should come out when W_V is all zeros?",
        settings={"values": "raw"},
    ),
    Mistake(
        "keys_as_values",
        "The weights average the keys instead of the values: W_V is not used.",
        "What should come out when W_V is all zeros?",
        settings={"values": "K"},
    ),
    Mistake(
        "values_by_W_Q",
        "The values are made with W_Q instead of W_V.",
        "Which matrix makes what is handed over?",
        settings={"values": "W_Q"},
    ),
    Mistake(
        "keys_raw",
        "The keys are the tokens themselves: X is not multiplied by W_K.",
        "Which of your lines uses W_K?",
        settings={"keys": "raw"},
    ),
    Mistake(
        "keys_by_W_Q",
        "The keys are made with W_Q instead of W_K, so queries and keys are the same "
        "and each token fits itself too well.",
        "Which of your lines uses W_K?",
        settings={"keys": "W_Q"},
    ),
    Mistake(
        "queries_raw",
        "The queries are the tokens themselves: X is not multiplied by W_Q.",
        "Which of your lines uses W_Q?",
        settings={"queries": "raw"},
    ),
    Mistake(
        "queries_by_W_K",
        "The queries are made with W_K instead of W_Q.",
        "Which of your lines uses W_Q?",
        settings={"queries": "W_K"},
    ),
    Mistake(
        "one_matrix",
        "One matrix, W_Q, makes queries, keys and values.",
        "How does a token ask for something else than what it offers?",
        settings={"keys": "W_Q", "values": "W_Q"},
    ),
    Mistake(
        "nothing_projected",
        "Nothing is projected: the tokens themselves are queries, keys and values.",
        "Which of your lines uses the three matrices?",
        settings={"queries": "raw", "keys": "raw", "values": "raw"},
    ),
    Mistake(
        "tokens_added",
        "The tokens are added to the output (a residual connection). That comes in "
        "chapter 5.",
        "What should come out when W_V is all zeros?",
        settings={"skip": "added"},
    ),
    Mistake(
        "transposed",
        "The projections are transposed (X W^T instead of X W), as if a weight were "
        "stored the way torch.nn.Linear stores it.",
        "X has d_model columns. Which axis of W_Q has that size?",
        settings={"side": "transposed"},
    ),
)

_SCALED_BY_MODEL = Mistake(
    "scaled_by_model",
    "The scores are divided by the root of the width of the tokens, d_model; it should "
    "be that of the keys, d_k.",
    "How many terms does one score sum up?",
    settings={"scale": "root_of_model"},
)

_SWAPPED_SOURCES = Mistake(
    "swapped",
    "Queries and keys are exchanged, or W_Q and W_K are: in self-attention that is the "
    "same function, since it transposes the scores.",
    "Which token does row i of the scores belong to: the one that asks or one that "
    "answers?",
    settings={"roles": "swapped"},
)

_IDENTITY = np.eye(2)

_SELF_PROBES = (
    Probe(
        X_TOKENS, _W_Q, _W_K, np.zeros((2, 2)), about="W_V = 0, so nothing is handed over"
    ),
    Probe(
        np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros((2, 2)), _W_K, _W_V,
        about="W_Q = 0, so every token fits alike",
    ),
    Probe(
        np.array([[1.0, 0.0], [0.0, 2.0]]), _IDENTITY, _IDENTITY, _IDENTITY,
        about="all three matrices the identity",
    ),
    Probe(X_TOKENS, _W_Q, _W_K, _W_V, about="the three tokens of the chapter"),
    Probe(
        np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), np.array([[1.0], [2.0], [0.0]]),
        np.array([[1.0], [0.0], [1.0]]),
        np.array([[1.0, 0.0, 2.0, 0.0], [3.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]),
        about="n = 2, d_model = 3, d_k = 1, d_v = 4",
    ),
    Probe(
        np.array([[1.0, -1.0, 2.0, 0.0]]), numbers(131, 4, 2), numbers(132, 4, 2),
        numbers(133, 4, 3), about="a single token",
    ),
    Probe(
        numbers(134, 3, 3), numbers(135, 3, 3), numbers(136, 3, 3), numbers(137, 3, 3),
        about="all sizes 3",
    ),
    Probe(
        numbers(138, 5, 6), numbers(139, 6, 4), numbers(140, 6, 4), numbers(141, 6, 3),
        about="n = 5, d_model = 6, d_k = 4, d_v = 3",
    ),
    Probe(
        np.array([[40.0, 0.0], [0.0, 40.0]]), _IDENTITY, _IDENTITY,
        np.array([[1.0, 0.0], [0.0, 2.0]]), about="scores above 1000",
    ),
)  # fmt: skip

_SELF_MISTAKES = (
    *_PROJECTION_MISTAKES,
    *_SCALE_MISTAKES,
    _SCALED_BY_MODEL,
    _SWAPPED_SOURCES,
    *_SOFTMAX_MISTAKES,
    *_RESULT_MISTAKES,
)

_SELF_PROPERTIES = (
    Property(
        _AVERAGE + "X W_V, and here a row of the output does not.",
        lambda got, X, W_Q, W_K, W_V: _between(got, X @ W_V),
    ),
)

_SELF_BATCH = Beyond(
    Probe(
        numbers(142, 2, 5, 6),
        numbers(143, 6, 4),
        numbers(144, 6, 4),
        numbers(145, 6, 3),
    ),
    "It works for one sequence. With a batch in front, .T turns all axes round; "
    "K.swapaxes(-1, -2) exchanges the last two only.",
)

SELF_ATTENTION = Exercise(
    name="self_attention",
    arguments=("X", "W_Q", "W_K", "W_V"),
    statement="Return the output of self-attention over the rows of X (n, d_model): "
    "queries X W_Q, keys X W_K, values X W_V, then attention.",
    ask="Print queries, keys, values and weights for the input shown. Which is the "
    "first that is not what you expect?",
    reference=lambda X, W_Q, W_K, W_V: self_attention(X, W_Q, W_K, W_V)[0],
    probes=_SELF_PROBES,
    beyond=(_SELF_BATCH,),
    properties=_SELF_PROPERTIES,
    assemble=_self_attention,
    mistakes=_SELF_MISTAKES,
)

REPAIRED_ATTENTION = Exercise(
    name="repaired_attention",
    arguments=("X", "W_Q", "W_K", "W_V"),
    statement="Repair the function so that it returns the output of self-attention over "
    "the rows of X (n, d_model).",
    ask="Print queries, keys, values and weights for the input shown. Which is the "
    "first that is not what you expect?",
    reference=lambda X, W_Q, W_K, W_V: self_attention(X, W_Q, W_K, W_V)[0],
    probes=_SELF_PROBES,
    beyond=(_SELF_BATCH,),
    properties=_SELF_PROPERTIES,
    assemble=_self_attention,
    planted=("keys_by_W_Q", "values_raw", "scaled_by_model", "over_queries"),
    mistakes=_SELF_MISTAKES,
)


# attention_backward


def _backward(
    scale: str = "right",
    inner: str = "right",
    values: str = "right",
    keys: str = "right",
    order: str = "qkv",
    forward: str = "scaled",
) -> Function:
    """The gradients of attention with the faults that are asked for."""

    def attention_backward_with(d_output: Any, Q: Any, K: Any, V: Any) -> Any:
        root = np.sqrt(K.shape[-1])
        S = Q @ K.T / (root if forward == "scaled" else 1.0)
        A = softmax(S, axis=0 if forward == "queries" else -1)
        dA = d_output @ V.T
        if inner == "diagonal":
            dS = dA * A * (1.0 - A)
        elif inner == "skipped":
            dS = dA
        elif inner == "no_mean":
            dS = dA * A
        elif inner == "queries":
            dS = softmax_backward(dA, A, axis=0)
        elif inner == "all":
            dS = A * (dA - (dA * A).sum())
        elif inner == "no_keepdims":
            dS = A * (dA - (dA * A).sum(axis=-1))
        elif inner == "averaged":
            dS = A * (dA - (dA * A).mean(axis=-1, keepdims=True))
        else:
            dS = softmax_backward(dA, A)
        factor = {"right": 1.0 / root, "none": 1.0, "twice": 1.0 / root**2}
        by = factor.get(scale, 1.0 / root)
        dV = A.T @ d_output
        if values == "untransposed":
            dV = A @ d_output
        elif values == "scores":
            dV = S.T @ d_output
        dQ, dK = dS @ K * by, dS.T @ Q * by
        if scale == "queries_only":
            dK = dS.T @ Q
        elif scale == "keys_only":
            dQ = dS @ K
        if keys == "untransposed":
            dK = dS @ Q * by
        elif keys == "turned":
            dK = Q.T @ dS * by
        elif keys == "keys":
            dK = dS.T @ K * by
        if order == "vkq":
            return dV, dK, dQ
        return (dK, dQ, dV) if order == "kqv" else (dQ, dK, dV)

    return attention_backward_with


ATTENTION_BACKWARD = Exercise(
    name="attention_backward",
    arguments=("d_output", "Q", "K", "V"),
    statement="Return the gradients (dQ, dK, dV) from the gradient with respect to the "
    "output and the three inputs of attention.",
    ask="Which of the three gradients is right already? Follow the chain back from "
    "the output: values, weights, scores, then queries and keys.",
    reference=lambda d_output, Q, K, V: attention_backward(
        d_output, Q, K, V, attention(Q, K, V)[1]
    ),
    returns=("dQ", "dK", "dV"),
    probes=(
        Probe(
            np.array([[1.0]]), np.array([[0.0]]), np.array([[1.0], [-1.0]]),
            np.array([[2.0], [0.0]]), about="one query of zero and two keys of width 1",
        ),
        Probe(
            np.array([[1.0]]), np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]]),
            np.array([[2.0]]), about="a single key, where dQ and dK are zero",
        ),
        Probe(
            np.array([[1.0], [2.0]]), np.zeros((2, 4)), np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]),
            np.array([[1.0], [0.0], [5.0]]), about="queries of zero, so all weights are equal",
        ),
        Probe(np.eye(3)[:, :2], _Q, _K, _V, about="the three tokens of the chapter"),
        Probe(
            numbers(151, 3, 3), numbers(152, 3, 3), numbers(153, 3, 3), numbers(154, 3, 3),
            about="all sizes 3",
        ),
        Probe(
            numbers(155, 2, 3), numbers(156, 2, 4), numbers(157, 5, 4), numbers(158, 5, 3),
            about="2 queries, 5 keys, d_k = 4, d_v = 3",
        ),
    ),
    assemble=_backward,
    mistakes=(
        Mistake(
            "no_scaling",
            "The factor 1 / sqrt(d_k) is missing in dQ and dK.",
            "The scores are Q K^T / sqrt(d_k). What is their derivative with respect "
            "to Q?",
            settings={"scale": "none"},
        ),
        Mistake(
            "scaled_twice",
            "The factor 1 / sqrt(d_k) stands twice in dQ and dK.",
            "How often does sqrt(d_k) divide on the way from Q to the scores?",
            settings={"scale": "twice"},
        ),
        Mistake(
            "only_dQ_scaled",
            "The factor 1 / sqrt(d_k) is missing in dK.",
            "Are Q and K divided by sqrt(d_k) differently?",
            settings={"scale": "queries_only"},
        ),
        Mistake(
            "only_dK_scaled",
            "The factor 1 / sqrt(d_k) is missing in dQ.",
            "Are Q and K divided by sqrt(d_k) differently?",
            settings={"scale": "keys_only"},
        ),
        Mistake(
            "diagonal",
            "Only the diagonal of the softmax's Jacobian is used: a (1 - a).",
            "What happens to weight 2 of a row when score 1 rises?",
            settings={"inner": "diagonal"},
        ),
        Mistake(
            "no_mean",
            "In the gradient of the softmax the weighted mean is not taken away.",
            "What is dQ when there is a single key, whose weight is always 1?",
            settings={"inner": "no_mean"},
        ),
        Mistake(
            "softmax_skipped",
            "The gradient passes the softmax unchanged.",
            "What is dQ when there is a single key, whose weight is always 1?",
            settings={"inner": "skipped"},
        ),
        Mistake(
            "softmax_columns",
            "The gradient of the softmax is taken down the columns, over the queries.",
            "Along which axis did the softmax run?",
            settings={"inner": "queries"},
        ),
        Mistake(
            "softmax_all",
            "In the gradient of the softmax one sum is taken over all rows.",
            "Does a score of one query change the weights of another?",
            settings={"inner": "all"},
        ),
        Mistake(
            "softmax_averaged",
            "In the gradient of the softmax the weighted gradient is averaged (mean) "
            "instead of summed.",
            "The weights of a row sum to 1 already. What does a further division do?",
            settings={"inner": "averaged"},
        ),
        Mistake(
            "no_keepdims",
            "In the gradient of the softmax keepdims=True is missing in the sum.",
            "Which shape must the sums have so that row i loses sum i?",
            settings={"inner": "no_keepdims"},
        ),
        Mistake(
            "dK_turned",
            "dK is transposed: Q^T dS has one column per key instead of one row.",
            "Which shape has K, and which has your dK?",
            settings={"keys": "turned"},
        ),
        Mistake(
            "dV_untransposed",
            "In dV the weights are not transposed.",
            "dV has one row per key. Which axis of the weights counts the keys?",
            settings={"values": "untransposed"},
        ),
        Mistake(
            "dV_from_scores",
            "dV is made with the scores instead of the weights.",
            "The output is A V. What is its derivative with respect to V?",
            settings={"values": "scores"},
        ),
        Mistake(
            "dK_untransposed",
            "In dK the gradient of the scores is not transposed.",
            "dK has one row per key. Which axis of the scores counts the keys?",
            settings={"keys": "untransposed"},
        ),
        Mistake(
            "dK_from_keys",
            "dK is made with K instead of Q.",
            "A score is q · k. What is its derivative with respect to k?",
            settings={"keys": "keys"},
        ),
        Mistake(
            "k_q_v",
            "The gradients are returned in the order (dK, dQ, dV).",
            "Which order do the arguments have?",
            settings={"order": "kqv"},
        ),
        Mistake(
            "v_k_q",
            "The gradients are returned in the order (dV, dK, dQ).",
            "Which order do the arguments have?",
            settings={"order": "vkq"},
        ),
        Mistake(
            "forward_unscaled",
            "The weights are computed again without dividing by sqrt(d_k).",
            "Are these the weights that the forward pass used?",
            settings={"forward": "unscaled"},
        ),
        Mistake(
            "forward_columns",
            "The weights are computed again with a softmax over the queries.",
            "Are these the weights that the forward pass used?",
            settings={"forward": "queries"},
        ),
    ),
)  # fmt: skip
