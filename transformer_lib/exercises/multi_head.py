"""Exercises of chapter 7: multi-head attention."""

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
from transformer_lib.reference.cost import (
    attention_flops,
    multi_head_attention_flops,
)
from transformer_lib.reference.lookup import softmax
from transformer_lib.reference.multi_head import (
    MultiHeadParameters,
    merge_heads,
    multi_head_attention,
    split_heads,
)

EXERCISES = (
    "pencil_multi_head",
    "split_heads",
    "merge_heads",
    "multi_head_attention",
    "attention_cost",
    "repaired_multi_head",
)

Function = Callable[..., Any]

# The course's three tokens and their queries, keys and values, as in chapter 3.
_X = np.array([[1.0, 0.0], [0.0, 2.0], [2.0, 1.0]])
_W_Q = np.array([[1.0, 1.0], [0.0, 1.0]])
_W_K = np.array([[0.0, 1.0], [1.0, 1.0]])
_W_V = np.array([[1.0, 0.0], [-1.0, 1.0]])
_W_O = np.array([[1.0, 0.0], [2.0, 1.0]])
_Q, _K, _V = _X @ _W_Q, _X @ _W_K, _X @ _W_V


# pencil_multi_head: the token sat with two heads of width 1


def _sheet(
    query: np.ndarray = _Q[2],
    keys: np.ndarray = _K,
    values: np.ndarray = _V,
    divisor: float = 1.0,
    weights: str = "each",
    output: str = "right",
) -> dict[str, np.ndarray]:
    """All blanks for the token sat, with the faults that are asked for."""
    scores = [query[head] * keys[:, head] / divisor for head in (0, 1)]
    a = [softmax(s) for s in scores]
    if weights == "one":  # both heads use the weights of a single wide head
        a = [softmax((scores[0] + scores[1]) / np.sqrt(2.0))] * 2
    elif weights == "exchanged":
        a = a[::-1]
    elif weights == "shares":
        a = [s / s.sum() for s in scores]
    heads = np.array([a[head] @ values[:, head] for head in (0, 1)])
    outputs = {
        "right": heads @ _W_O,
        "column": _W_O @ heads,
        "joined": heads,
        "averaged": np.full(2, heads.mean()),
        "summed": np.full(2, heads.sum()),
        "reversed": heads[::-1] @ _W_O,
    }
    return {
        "query": query,
        "scores_1": scores[0],
        "scores_2": scores[1],
        "weights_1": a[0],
        "weights_2": a[1],
        "heads": heads,
        "output": outputs[output],
    }


_RIGHT_SHEET = _sheet()

PENCIL_MULTI_HEAD = Pencil(
    name="pencil_multi_head",
    statement="Work out multi-head attention with two heads of width 1 for the token "
    "sat, with two decimals: its query, the scores and weights of each head, what the "
    "heads read, and the output after W_O.",
    blanks=(
        Blank(
            "query",
            _RIGHT_SHEET["query"],
            "Which row of X is sat? The first number of its query belongs to head 1.",
        ),
        Blank(
            "scores_1",
            _RIGHT_SHEET["scores_1"],
            "Head 1 sees the first number of the query and the first number of each "
            "key. What is the root of the width of one head?",
        ),
        Blank(
            "scores_2",
            _RIGHT_SHEET["scores_2"],
            "Head 2 sees the second number of the query and of each key.",
        ),
        Blank(
            "weights_1",
            _RIGHT_SHEET["weights_1"],
            "Take exp of the three scores of head 1 and divide by their sum.",
        ),
        Blank(
            "weights_2",
            _RIGHT_SHEET["weights_2"],
            "Take exp of the three scores of head 2 and divide by their sum.",
        ),
        Blank(
            "heads",
            _RIGHT_SHEET["heads"],
            "Head 1 averages the first numbers of the three values, head 2 the second.",
        ),
        Blank(
            "output",
            _RIGHT_SHEET["output"],
            "The two numbers side by side are a row. Which columns of W_O does it meet?",
        ),
    ),
    mistakes=(
        Slip(
            "query_of_cat",
            "That is the query of cat.",
            "Which row of X is sat?",
            _sheet(query=_Q[1]),
        ),
        Slip(
            "query_is_key",
            "That is the key of sat, x W_K.",
            "Which matrix makes the vector that asks?",
            _sheet(query=_K[2]),
        ),
        Slip(
            "query_raw",
            "That is sat itself, not its query.",
            "Which matrix makes the vector that asks?",
            _sheet(query=_X[2]),
        ),
        Slip(
            "column_product",
            "That is W_Q x, with x as a column; here x is a row and meets the columns of "
            "W_Q.",
            "What is (2, 1) times the first column of W_Q?",
            _sheet(query=_W_Q @ _X[2]),
        ),
        Slip(
            "scaled_by_model",
            "The scores were divided by the root of 2, the width of the model. A head "
            "is 1 wide.",
            "How many products does one score of one head sum up?",
            _sheet(divisor=2.0**0.5),
        ),
        Slip(
            "scores_with_queries",
            "The query was multiplied with queries instead of keys.",
            "Which vectors answer a query?",
            _sheet(keys=_Q),
        ),
        Slip(
            "scores_with_values",
            "The query was multiplied with values instead of keys.",
            "Which vectors answer a query, and which are handed over afterwards?",
            _sheet(keys=_V),
        ),
        Slip(
            "one_head",
            "Both heads use the weights of a single head of width 2.",
            "Which scores does head 1 have to choose by?",
            {
                name: value
                for name, value in _sheet(weights="one").items()
                if not name.startswith("scores")
            },
        ),
        Slip(
            "weights_exchanged",
            "The weights of the two heads are exchanged.",
            "Which head has the scores 0, 4, 2?",
            _sheet(weights="exchanged"),
        ),
        Slip(
            "shares",
            "The scores were divided by their sum, without exp.",
            "What does the softmax do with each score before it divides?",
            _sheet(weights="shares"),
        ),
        Slip(
            "keys_averaged",
            "The keys were averaged instead of the values.",
            "Which vectors are handed over once the weights are known?",
            _sheet(values=_K),
        ),
        Slip(
            "values_exchanged",
            "Head 1 averaged the second numbers of the values, and head 2 the first.",
            "Which column of V belongs to head 1?",
            _sheet(values=_V[:, ::-1]),
        ),
        Slip(
            "not_projected",
            "That is what the heads read, side by side; W_O has not been applied.",
            "What does the last matrix do with the two numbers?",
            _sheet(output="joined"),
        ),
        Slip(
            "W_O_as_column",
            "That is W_O c, with c as a column; here the heads are a row and meet the "
            "columns of W_O.",
            "What is the row of the heads times the first column of W_O?",
            _sheet(output="column"),
        ),
        Slip(
            "heads_averaged",
            "The heads were averaged.",
            "Where do the heads go, side by side or on top of each other?",
            _sheet(output="averaged"),
        ),
        Slip(
            "heads_added",
            "The heads were added without W_O.",
            "With which number does W_O multiply each head for each column?",
            _sheet(output="summed"),
        ),
        Slip(
            "heads_reversed",
            "Head 2 was put in front of head 1.",
            "Which rows of W_O read head 1?",
            _sheet(output="reversed"),
        ),
    ),
)


# split_heads


def _split(way: str, X: np.ndarray, num_heads: int) -> np.ndarray:
    """Cut the columns into heads, in one of several wrong ways."""
    *batch, n, d = X.shape
    d_head = d // num_heads
    blocks = X.reshape(*batch, n, num_heads, d_head)
    if way == "reshaped":
        made: np.ndarray = X.reshape(*batch, num_heads, n, d_head)
    elif way == "unswapped":
        made = blocks
    elif way == "interleaved":
        made = np.moveaxis(X.reshape(*batch, n, d_head, num_heads), -1, -3)
    elif way == "turned":
        made = np.moveaxis(blocks, -3, -1)
    elif way == "first_slice":
        made = np.repeat(X[..., None, :, :d_head], num_heads, axis=-3)
    elif way == "whole":
        made = np.repeat(X[..., None, :, :], num_heads, axis=-3)
    elif way == "reversed":
        made = blocks.swapaxes(-3, -2)[..., ::-1, :, :]
    elif way == "tokens":
        made = X.reshape(*batch, num_heads, -1, d)
    elif way == "transposed_first":
        made = X.swapaxes(-1, -2).reshape(*batch, num_heads, n, d_head)
    elif way == "heads_wide":
        made = X.reshape(*batch, n, d_head, num_heads).swapaxes(-3, -2)
    else:
        made = blocks.swapaxes(-3, -2)
    return made.copy()


def _splitting(way: str = "right") -> Function:
    return lambda X, num_heads: _split(way, X, num_heads)


_COUNTED = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])

SPLIT_HEADS = Exercise(
    name="split_heads",
    arguments=("X", "num_heads"),
    statement="Cut the columns of X (n, d_model) into num_heads blocks and return them "
    "as an array of shape (num_heads, n, d_model / num_heads).",
    ask="What are the first two numbers of token 0, and in which head and row of your "
    "result do they stand?",
    reference=split_heads,
    probes=(
        Probe(np.array([[1.0, 2.0]]), 2, about="one token and two heads of width 1"),
        Probe(np.array([[1.0, 2.0], [3.0, 4.0]]), 1, about="a single head"),
        Probe(_COUNTED, 2, about="two tokens of width 4, two heads"),
        Probe(
            np.arange(1.0, 25.0).reshape(4, 6), 2, about="n = 4, d_model = 6, two heads"
        ),
        Probe(numbers(701, 2, 6), 3, about="n = 2, d_model = 6, three heads"),
        Probe(numbers(702, 6, 12), 4, about="n = 6, d_model = 12, four heads"),
    ),
    beyond=(
        Beyond(
            Probe(numbers(703, 2, 3, 4), 2),
            "It works for one sequence. With a batch in front, count the axes from the "
            "back: X.reshape(*X.shape[:-1], num_heads, -1).swapaxes(-3, -2).",
        ),
    ),
    assemble=_splitting,
    mistakes=(
        Mistake(
            "reshaped",
            "The array is reshaped straight to its final shape. That reads the numbers "
            "in the order of the rows, so a head gets whole tokens, cut into pieces.",
            "Is the second number of token 0 in the same head as the first number of "
            "token 1?",
            settings={"way": "reshaped"},
        ),
        Mistake(
            "unswapped",
            "The blocks are right, but the axes are (n, num_heads, d_head): heads and "
            "tokens have not changed places.",
            "Which axis must stand in front so that each head is a matrix of its own?",
            settings={"way": "unswapped"},
        ),
        Mistake(
            "interleaved",
            "Each head gets every h-th column (1, 3, 5 and 2, 4, 6) instead of a block "
            "of neighbouring columns.",
            "In which order do reshape(n, d_head, num_heads) and reshape(n, num_heads, "
            "d_head) deal out the columns?",
            settings={"way": "interleaved"},
        ),
        Mistake(
            "turned",
            "Each head is transposed: its shape is (d_head, n).",
            "Which axis counts the tokens?",
            settings={"way": "turned"},
        ),
        Mistake(
            "first_slice",
            "Every head gets the same columns, the first d_head ones.",
            "Where does the block of head 1 begin?",
            settings={"way": "first_slice"},
        ),
        Mistake(
            "whole",
            "Every head gets all columns.",
            "How wide is one head?",
            settings={"way": "whole"},
        ),
        Mistake(
            "reversed",
            "The heads stand in reversed order.",
            "Which columns belong to head 0?",
            settings={"way": "reversed"},
        ),
        Mistake(
            "tokens",
            "The tokens are shared out among the heads instead of the columns.",
            "How many tokens should each head see?",
            settings={"way": "tokens"},
        ),
        Mistake(
            "transposed_first",
            "X is transposed as a whole and then reshaped, which tears the tokens apart.",
            "Which two axes change places, and when: before or after the reshape?",
            settings={"way": "transposed_first"},
        ),
        Mistake(
            "heads_wide",
            "The axes of heads and of width are exchanged: there are d_head heads of "
            "width num_heads.",
            "Which size must the first axis have?",
            settings={"way": "heads_wide"},
        ),
    ),
)


# merge_heads


def _merge(way: str, heads: np.ndarray) -> np.ndarray:
    """Put the heads side by side, in one of several wrong ways."""
    *batch, num_heads, n, d_head = heads.shape
    if way == "reshaped":
        made: np.ndarray = heads.reshape(*batch, n, num_heads * d_head)
    elif way == "interleaved":
        made = np.moveaxis(heads, -3, -1).reshape(*batch, n, -1)
    elif way == "reversed":
        made = heads[..., ::-1, :, :].swapaxes(-3, -2).reshape(*batch, n, -1)
    elif way == "summed":
        made = heads.sum(axis=-3)
    elif way == "averaged":
        made = heads.mean(axis=-3)
    elif way == "first":
        made = heads[..., 0, :, :]
    elif way == "stacked":
        made = heads.reshape(*batch, num_heads * n, d_head)
    elif way == "unjoined":
        made = heads.swapaxes(-3, -2)
    elif way == "turned":
        made = heads.swapaxes(-3, -2).reshape(*batch, n, -1).swapaxes(-1, -2)
    elif way == "tokens_inside":
        made = heads.swapaxes(-1, -2).reshape(*batch, n, num_heads * d_head)
    else:
        made = heads.swapaxes(-3, -2).reshape(*batch, n, num_heads * d_head)
    return made.copy()


def _merging(way: str = "right") -> Function:
    return lambda heads: _merge(way, heads)


MERGE_HEADS = Exercise(
    name="merge_heads",
    arguments=("heads",),
    statement="Put the heads (num_heads, n, d_head) side by side and return an array of "
    "shape (n, num_heads * d_head): the way back from split_heads.",
    ask="Which numbers of the heads belong to token 0, and in which row of your result "
    "do they stand?",
    reference=merge_heads,
    probes=(
        Probe(np.array([[[1.0, 2.0]], [[3.0, 4.0]]]), about="one token, two heads"),
        Probe(np.array([[[1.0, 2.0], [3.0, 4.0]]]), about="a single head"),
        Probe(split_heads(_COUNTED, 2), about="two tokens, two heads of width 2"),
        Probe(
            np.arange(1.0, 25.0).reshape(3, 4, 2),
            about="three heads, four tokens, width 2",
        ),
        Probe(numbers(711, 4, 3, 5), about="four heads, three tokens, width 5"),
    ),
    beyond=(
        Beyond(
            Probe(numbers(712, 2, 3, 4, 2)),
            "It works for one sequence. With a batch in front, count the axes from the "
            "back: heads.swapaxes(-3, -2).",
        ),
    ),
    assemble=_merging,
    mistakes=(
        Mistake(
            "reshaped",
            "The array is reshaped without exchanging heads and tokens first, so a row "
            "of the result holds pieces of several tokens of one head.",
            "Which numbers come first in memory: all of head 0, or all of token 0?",
            settings={"way": "reshaped"},
        ),
        Mistake(
            "interleaved",
            "The heads are shuffled like cards: one column of each in turn.",
            "Which columns of the result belong to head 0?",
            settings={"way": "interleaved"},
        ),
        Mistake(
            "reversed",
            "The heads stand in reversed order.",
            "Which columns of the result belong to head 0?",
            settings={"way": "reversed"},
        ),
        Mistake(
            "summed",
            "The heads are added instead of put side by side.",
            "How wide must the result be?",
            settings={"way": "summed"},
        ),
        Mistake(
            "averaged",
            "The heads are averaged instead of put side by side.",
            "How wide must the result be?",
            settings={"way": "averaged"},
        ),
        Mistake(
            "first",
            "Only the first head is returned.",
            "How wide must the result be?",
            settings={"way": "first"},
        ),
        Mistake(
            "stacked",
            "The heads stand below each other instead of side by side.",
            "How many rows must the result have: one per token, or one per token and "
            "head?",
            settings={"way": "stacked"},
        ),
        Mistake(
            "unjoined",
            "Heads and tokens have changed places, but the last two axes are not joined.",
            "How many axes must the result have?",
            settings={"way": "unjoined"},
        ),
        Mistake(
            "turned",
            "The result is transposed: one column per token instead of one row.",
            "Which axis of the result counts the tokens?",
            settings={"way": "turned"},
        ),
        Mistake(
            "tokens_inside",
            "Tokens and width are exchanged before the reshape, instead of heads and "
            "tokens.",
            "Which two axes must change places so that heads and width stand side by "
            "side?",
            settings={"way": "tokens_inside"},
        ),
    ),
)


# multi_head_attention


def _attending(
    split: str = "right",
    merge: str = "right",
    scale: str = "head",
    over: str = "keys",
    project: str = "right",
    roles: str = "right",
    values: str = "right",
    visible: str = "all",
) -> Function:
    """Multi-head attention with the faults that are asked for."""

    def attend_with(
        X: Any, W_Q: Any, W_K: Any, W_V: Any, W_O: Any, num_heads: Any
    ) -> Any:
        d_model = X.shape[-1]
        h = 1 if split == "one_head" else num_heads
        d_head = d_model // h
        makers = {"right": W_V, "keys": W_K, "queries": W_Q}
        values_of = X if values == "raw" else X @ makers[values]
        Q, K, V = (_split(split, Z, h) for Z in (X @ W_Q, X @ W_K, values_of))
        if roles == "swapped":
            Q, K = K, Q
        divisors = {
            "head": np.sqrt(d_head), "model": np.sqrt(d_model), "none": 1.0,
            "heads": np.sqrt(h), "width": float(d_head), "tokens": np.sqrt(X.shape[-2]),
        }  # fmt: skip
        S = Q @ K.swapaxes(-1, -2) / divisors[scale]
        if visible == "causal":
            S = np.where(np.tri(*S.shape[-2:]) > 0.0, S, -np.inf)
        if over == "shared":  # one softmax over the sum of all heads' scores
            S = np.broadcast_to(S.sum(axis=-3, keepdims=True), S.shape)
        A = softmax(S, axis={"queries": -2, "heads": -3}.get(over, -1))
        heads = A @ V
        if merge in ("averaged", "summed"):
            joined = _merge(merge, heads)
            return np.concatenate([joined] * h, axis=-1) @ W_O
        joined = _merge(merge, heads)
        if project == "none":
            return joined
        if project == "transposed":
            return joined @ W_O.T
        if project == "twice":
            return joined @ W_O @ W_O
        if project == "skip":
            return X + joined @ W_O
        return joined @ W_O

    return attend_with


_IDENTITY, _ZERO = np.eye(2), np.zeros((2, 2))


def _attends(X: Any, W_Q: Any, W_K: Any, W_V: Any, W_O: Any, num_heads: Any) -> Any:
    parameters = MultiHeadParameters(W_Q, W_K, W_V, W_O)
    return multi_head_attention(X, X, parameters, num_heads)[0]


def _square(seed: int, d: int) -> tuple[np.ndarray, ...]:
    """Make four projections of width ``d``."""
    return tuple(numbers(seed, 4, d, d))


_ATTEND_PROBES = (
    Probe(_X, _W_Q, _W_K, _W_V, _ZERO, 2, about="W_O = 0, so nothing comes out"),
    Probe(_X, _W_Q, _W_K, _ZERO, _IDENTITY, 2, about="W_V = 0, so nothing is handed over"),
    Probe(_X, _W_Q, _W_K, _W_V, _IDENTITY, 1, about="a single head and W_O the identity"),
    Probe(_X, _W_Q, _W_K, _W_V, 2.0 * _IDENTITY, 1, about="a single head and W_O = 2 I"),
    Probe(
        np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]),
        np.zeros((4, 4)), np.eye(4), np.eye(4), np.eye(4), 2,
        about="W_Q = 0, so every head averages all tokens evenly",
    ),
    Probe(_X, _W_Q, _W_K, _W_V, _W_O, 2, about="the pencil page: two heads of width 1"),
    Probe(
        numbers(721, 4, 6), *_square(722, 6), 2,
        about="n = 4, d_model = 6, two heads of width 3",
    ),
    Probe(
        numbers(723, 5, 6), *_square(724, 6), 3,
        about="n = 5, d_model = 6, three heads of width 2",
    ),
)  # fmt: skip

_ATTEND_MISTAKES = (
    Mistake(
        "split_reshaped",
        "The columns are reshaped straight to (num_heads, n, d_head): a head gets whole "
        "tokens in pieces instead of its columns of every token.",
        "With two heads and four tokens, which tokens does head 0 see?",
        settings={"split": "reshaped"},
    ),
    Mistake(
        "merge_reshaped",
        "The heads are reshaped to (n, d_model) without exchanging heads and tokens "
        "first, so the rows mix tokens.",
        "Which numbers come first in memory: all of head 0, or all of token 0?",
        settings={"merge": "reshaped"},
    ),
    Mistake(
        "first_slice",
        "Every head works on the same columns, the first d_head ones.",
        "Where does the block of head 1 begin?",
        settings={"split": "first_slice"},
    ),
    Mistake(
        "interleaved",
        "Each head gets every h-th column instead of a block of neighbouring columns.",
        "Which columns of X W_Q make the queries of head 0?",
        settings={"split": "interleaved"},
    ),
    Mistake(
        "one_head",
        "num_heads is not used: all columns form a single head.",
        "Where does your code use num_heads?",
        settings={"split": "one_head"},
    ),
    Mistake(
        "scaled_by_model",
        "The scores are divided by the root of d_model; it should be the root of the "
        "width of one head.",
        "How many products does one score of one head sum up?",
        settings={"scale": "model"},
    ),
    Mistake(
        "scaled_by_heads",
        "The scores are divided by the root of the number of heads; it should be the "
        "root of the width of one head.",
        "How many products does one score of one head sum up?",
        settings={"scale": "heads"},
    ),
    Mistake(
        "scaled_by_width",
        "The scores are divided by the width of a head instead of by its root.",
        "A sum of d_k independent products of size 1: is its spread d_k or its root?",
        settings={"scale": "width"},
    ),
    Mistake(
        "scaled_by_tokens",
        "The scores are divided by the root of the number of tokens.",
        "How many products does one score of one head sum up?",
        settings={"scale": "tokens"},
    ),
    Mistake(
        "no_scaling",
        "The scores are not divided by the root of the width of a head.",
        "What does chapter 3 divide the scores by, and how wide is a key here?",
        settings={"scale": "none"},
    ),
    Mistake(
        "over_queries",
        "The softmax runs over the queries: each column of the weights sums to 1.",
        "Who shares out the weight 1?",
        settings={"over": "queries"},
    ),
    Mistake(
        "over_heads",
        "The softmax runs over the heads, which then compete for the weight.",
        "What should the weights of one query in one head sum to?",
        settings={"over": "heads"},
    ),
    Mistake(
        "shared_weights",
        "The scores of all heads are added before the softmax, so all heads look at the "
        "same place.",
        "What did we want several heads for?",
        settings={"over": "shared"},
    ),
    Mistake(
        "no_output_projection",
        "W_O is not used.",
        "What should come out when W_O is zero?",
        settings={"project": "none"},
    ),
    Mistake(
        "output_transposed",
        "The heads are multiplied by W_O transposed.",
        "The joined heads are rows. Which axis of W_O do they meet?",
        settings={"project": "transposed"},
    ),
    Mistake(
        "output_twice",
        "W_O is applied twice.",
        "What should come out when W_O is twice the identity?",
        settings={"project": "twice"},
    ),
    Mistake(
        "tokens_added",
        "The tokens are added to the output: that is the residual connection, which "
        "stands around this layer and not in it.",
        "What should come out when W_O is zero?",
        settings={"project": "skip"},
    ),
    Mistake(
        "averaged",
        "The heads are averaged, and the average stands in place of each.",
        "Where do the heads go: side by side, or on top of each other?",
        settings={"merge": "averaged"},
    ),
    Mistake(
        "summed",
        "The heads are added, and the sum stands in place of each.",
        "Where do the heads go: side by side, or on top of each other?",
        settings={"merge": "summed"},
    ),
    Mistake(
        "reversed",
        "The heads are joined in reversed order.",
        "Which rows of W_O read head 0?",
        settings={"merge": "reversed"},
    ),
    Mistake(
        "swapped",
        "Queries and keys are exchanged, or W_Q and W_K are.",
        "Which token does row i of the scores belong to: the one that asks or one that "
        "answers?",
        settings={"roles": "swapped"},
    ),
    Mistake(
        "values_raw",
        "The values are the tokens themselves: X is not multiplied by W_V.",
        "What should come out when W_V is all zeros?",
        settings={"values": "raw"},
    ),
    Mistake(
        "keys_as_values",
        "The keys are averaged instead of the values: W_V is not used.",
        "What should come out when W_V is all zeros?",
        settings={"values": "keys"},
    ),
    Mistake(
        "causal",
        "A causal mask is applied; here every query may see every key.",
        "Which tokens may the first token look at, and which does it look at here?",
        settings={"visible": "causal"},
    ),
)


def _one_head_averages(
    got: Any, X: Any, W_Q: Any, W_K: Any, W_V: Any, W_O: Any, num_heads: Any
) -> bool:
    """Without scores, every token gets the same output."""
    if np.any(W_Q):
        return True
    return bool(np.allclose(got, got[..., :1, :], atol=1e-6))


_ATTEND_PROPERTIES = (
    Property(
        "With W_Q = 0 all keys fit alike, so all tokens should get the same output, and "
        "here they do not.",
        _one_head_averages,
    ),
)

_ATTEND_BEYOND = (
    Beyond(
        Probe(numbers(725, 2, 3, 4), *_square(726, 4), 2),
        "It works for one sequence. With a batch in front, count the axes from the back: "
        "swapaxes(-3, -2) exchanges heads and tokens.",
    ),
)

_ATTEND_ASK = (
    "Print the shapes of queries, scores, weights and heads for the input shown. Which "
    "is the first that is not what you expect?"
)

MULTI_HEAD_ATTENTION = Exercise(
    name="multi_head_attention",
    arguments=("X", "W_Q", "W_K", "W_V", "W_O", "num_heads"),
    statement="Return the output of multi-head self-attention over the rows of X "
    "(n, d_model): project, split, attend in each head, merge, multiply by W_O.",
    ask=_ATTEND_ASK,
    reference=_attends,
    probes=_ATTEND_PROBES,
    properties=_ATTEND_PROPERTIES,
    beyond=_ATTEND_BEYOND,
    assemble=_attending,
    mistakes=_ATTEND_MISTAKES,
)

REPAIRED_MULTI_HEAD = Exercise(
    name="repaired_multi_head",
    arguments=("X", "W_Q", "W_K", "W_V", "W_O", "num_heads"),
    statement="Repair the function so that it returns the output of multi-head "
    "self-attention over the rows of X (n, d_model).",
    ask=_ATTEND_ASK,
    reference=_attends,
    probes=_ATTEND_PROBES,
    properties=_ATTEND_PROPERTIES,
    beyond=_ATTEND_BEYOND,
    assemble=_attending,
    planted=(
        "split_reshaped",
        "merge_reshaped",
        "scaled_by_model",
        "no_output_projection",
    ),
    mistakes=_ATTEND_MISTAKES,
)


# attention_cost


def _cost(
    projections: str = "right",
    core: str = "right",
    scores: str = "right",
    unit: int = 1,
    width: str = "model",
    order: str = "right",
) -> Function:
    """Count as asked, with the faults that are asked for."""

    def cost_with(n: Any, d_model: Any, num_heads: Any) -> Any:
        d = d_model // num_heads if width == "head" else d_model
        p = {
            "right": 4 * n * d * d, "three": 3 * n * d * d, "one": n * d * d,
            "none": 0, "by_heads": 4 * n * d * d * num_heads, "shared": 4 * n * d * d // num_heads,
            "no_tokens": 4 * d * d,
        }[projections]  # fmt: skip
        c = {
            "right": 2 * n * n * d, "scores_only": n * n * d,
            "by_heads": 2 * n * n * d * num_heads, "one_head": 2 * n * n * d // num_heads,
            "linear": 2 * n * d, "squared_width": 2 * n * d * d,
        }[core]  # fmt: skip
        s = {
            "right": num_heads * n * n, "no_heads": n * n, "bytes": 4 * num_heads * n * n,
            "linear": num_heads * n, "width": n * n * d, "shared": n * n // num_heads,
        }[scores]  # fmt: skip
        counted = (unit * p, unit * c, s)
        return (
            (counted[1], counted[0], counted[2]) if order == "core_first" else counted
        )

    return cost_with


ATTENTION_COST = Exercise(
    name="attention_cost",
    arguments=("n", "d_model", "num_heads"),
    statement="Return three whole numbers for one layer of multi-head self-attention "
    "over n tokens: multiplications in the four projections, multiplications in the "
    "scores and the weighted averages of all heads together, and the number of scores.",
    ask="Write down the shapes of the two factors of each product. How many "
    "multiplications does an (a, b) by (b, c) product take?",
    returns=("projections", "core", "scores"),
    reference=lambda n, d_model, num_heads: (
        (multi_head_attention_flops(n, n, d_model) - attention_flops(n, n, d_model))
        // 2,
        attention_flops(n, n, d_model) // 2,
        num_heads * n * n,
    ),
    probes=(
        Probe(1, 2, 1, about="one token, width 2, one head"),
        Probe(3, 2, 1, about="three tokens, width 2, one head"),
        Probe(3, 2, 2, about="three tokens, width 2, two heads"),
        Probe(10, 12, 4, about="ten tokens, width 12, four heads"),
        Probe(1024, 512, 8, about="1,024 tokens, width 512, eight heads"),
    ),
    assemble=_cost,
    mistakes=(
        Mistake(
            "flops",
            "Additions are counted too: the multiplications are doubled.",
            "How many multiplications does a dot product of two rows of width 2 take?",
            settings={"unit": 2},
        ),
        Mistake(
            "no_output_projection",
            "W_O is not counted: three projections instead of four.",
            "Which four matrices does the layer have?",
            settings={"projections": "three"},
        ),
        Mistake(
            "one_projection",
            "Only one of the four projections is counted.",
            "Which four matrices does the layer have?",
            settings={"projections": "one"},
        ),
        Mistake(
            "projections_by_heads",
            "The projections are counted once for each head at full width.",
            "How many columns of W_Q does one head use?",
            settings={"projections": "by_heads"},
        ),
        Mistake(
            "projections_shared",
            "The projections of a single head are counted instead of those of all heads.",
            "How many columns do the heads have together?",
            settings={"projections": "shared"},
        ),
        Mistake(
            "projections_once",
            "The projections are counted for one token: those are the parameters.",
            "How many tokens are projected?",
            settings={"projections": "no_tokens"},
        ),
        Mistake(
            "scores_only",
            "Of the two products after the projections only one is counted.",
            "What happens to the values once the weights are known?",
            settings={"core": "scores_only"},
        ),
        Mistake(
            "core_by_heads",
            "The core is multiplied by the number of heads. There are h times as many "
            "heads, and each is h times narrower.",
            "How wide is one head?",
            settings={"core": "by_heads"},
        ),
        Mistake(
            "core_of_one_head",
            "The core of a single head is counted instead of all heads.",
            "How many heads are there?",
            settings={"core": "one_head"},
        ),
        Mistake(
            "core_linear",
            "The core grows with n; each of the n queries meets each of the n keys.",
            "How many scores does one head compute?",
            settings={"core": "linear"},
        ),
        Mistake(
            "core_square_in_width",
            "The core is counted with the square of the width instead of the square of "
            "the number of tokens.",
            "How many scores does one head compute, and how many products is each?",
            settings={"core": "squared_width"},
        ),
        Mistake(
            "scores_without_heads",
            "The scores of one head are counted instead of all heads.",
            "Does each head have scores of its own?",
            settings={"scores": "no_heads"},
        ),
        Mistake(
            "scores_in_bytes",
            "The bytes of the scores in float32 are given instead of their number.",
            "How many numbers are they?",
            settings={"scores": "bytes"},
        ),
        Mistake(
            "scores_linear",
            "The scores are counted once per query; there is one for each pair of query "
            "and key.",
            "How many keys does one query meet?",
            settings={"scores": "linear"},
        ),
        Mistake(
            "scores_by_width",
            "The number of scores is multiplied by the width: that is the number of "
            "multiplications behind them.",
            "How many numbers are left of a dot product?",
            settings={"scores": "width"},
        ),
        Mistake(
            "core_first",
            "The first two numbers are exchanged.",
            "Which of the two does not depend on the square of n?",
            settings={"order": "core_first"},
        ),
    ),
)
