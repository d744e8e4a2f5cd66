"""Exercises of chapter 5: the feed-forward network and the residual stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from transformer_lib.exercises.engine import (
    Beyond,
    Exercise,
    Mistake,
    Probe,
    numbers,
)
from transformer_lib.exercises.pencil import Blank, Pencil, Slip
from transformer_lib.reference.feed_forward import feed_forward, feed_forward_backward
from transformer_lib.reference.feed_forward import gelu as exact_gelu
from transformer_lib.reference.lookup import softmax

EXERCISES = (
    "pencil_feed_forward",
    "feed_forward",
    "merged_linear",
    "unit_writes",
    "repaired_block",
    "feed_forward_backward",
)

Function = Callable[..., Any]


def _pick(name: str, options: Mapping[str, Callable[[], Any]]) -> Any:
    """Work out the option of that name, and no other."""
    return options[name]()


X_TOKENS = np.array([[1.0, 0.0], [0.0, 2.0], [2.0, 1.0]])
"""The three tokens of the course's pencil exercises: the, cat, sat. Shape (3, 2)."""
_W_1 = np.array([[2.0, -1.0, 1.0], [-1.0, 1.0, 1.0]])
_B_1 = np.array([0.0, 0.0, -1.0])
_W_2 = np.array([[1.0, 0.0], [-1.0, 2.0], [0.0, -1.0]])
_B_2 = np.array([0.0, 1.0])


# pencil_feed_forward: the token sat by hand


def _sheet(
    token: int = 2,
    before: str = "right",
    bend: str = "relu",
    written: str = "right",
    skip: str = "once",
) -> dict[str, np.ndarray]:
    """All blanks for the token sat, with the faults that are asked for."""
    x = X_TOKENS[token]
    a = x @ _W_1 + {"right": _B_1, "no_bias": 0.0 * _B_1, "minus": -_B_1}[before]
    h = {
        "relu": np.maximum(a, 0.0), "none": a, "absolute": np.abs(a),
        "negative": np.minimum(a, 0.0), "sign": (a > 0.0).astype(float),
        "softmax": softmax(a),
    }[bend]  # fmt: skip
    o = {
        "right": h @ _W_2 + _B_2, "no_bias": h @ _W_2, "unbent": a @ _W_2 + _B_2,
        "bent": np.maximum(h @ _W_2 + _B_2, 0.0),
    }[written]  # fmt: skip
    y = {"once": x + o, "none": o, "twice": 2.0 * x + o, "minus": o - x}[skip]
    return {"before": a, "hidden": h, "written": o, "stream": y}


_RIGHT_SHEET = _sheet()

PENCIL_FEED_FORWARD = Pencil(
    name="pencil_feed_forward",
    statement="Work out the feed-forward network for the token sat: the three numbers "
    "before the bend, the three hidden numbers, the two numbers that are written, and "
    "sat in the stream after it.",
    blanks=(
        Blank(
            "before",
            _RIGHT_SHEET["before"],
            "What is (2, 1) times each column of W_1, and what does b_1 add?",
        ),
        Blank(
            "hidden",
            _RIGHT_SHEET["hidden"],
            "Which of the three numbers are below 0, and what becomes of them?",
        ),
        Blank(
            "written",
            _RIGHT_SHEET["written"],
            "Each hidden number takes its row of W_2. What do the rows add up to, with "
            "b_2?",
        ),
        Blank(
            "stream",
            _RIGHT_SHEET["stream"],
            "What is added to what by the skip connection?",
        ),
    ),
    mistakes=(
        Slip(
            "no_b_1",
            "The bias b_1 is missing.",
            "What is added to x W_1 before the bend?",
            {**_sheet(before="no_bias")},
        ),
        Slip(
            "minus_b_1",
            "The bias b_1 is taken away instead of added.",
            "The third entry of b_1 is negative. Does it make the number smaller or "
            "larger?",
            _sheet(before="minus"),
        ),
        Slip(
            "cat",
            "These are the numbers of cat.",
            "Which row of X is sat?",
            _sheet(token=1),
        ),
        Slip(
            "the",
            "These are the numbers of the.",
            "Which row of X is sat?",
            _sheet(token=0),
        ),
        Slip(
            "not_bent",
            "The negative number is still there: nothing was bent.",
            "What is max(0, -1)?",
            _sheet(bend="none"),
        ),
        Slip(
            "absolute",
            "The absolute values were taken; the bend replaces what is below 0 by 0.",
            "What is max(0, -1)?",
            _sheet(bend="absolute"),
        ),
        Slip(
            "negative_kept",
            "The negative numbers were kept and the positive ones replaced by 0.",
            "What is max(0, 3)?",
            _sheet(bend="negative"),
        ),
        Slip(
            "ones",
            "The hidden numbers say only whether they are above 0; the bend keeps their "
            "size.",
            "What is max(0, 3)?",
            _sheet(bend="sign"),
        ),
        Slip(
            "shared_out",
            "A softmax was taken. The hidden numbers of a feed-forward network do not "
            "share out a weight of 1.",
            "Which function stands between W_1 and W_2?",
            _sheet(bend="softmax"),
        ),
        Slip(
            "no_b_2",
            "The bias b_2 is missing.",
            "What is added to h W_2?",
            _sheet(written="no_bias"),
        ),
        Slip(
            "unbent_written",
            "The numbers before the bend were multiplied by W_2, not the hidden ones.",
            "Which of your two rows goes into W_2?",
            _sheet(written="unbent"),
        ),
        Slip(
            "bent_again",
            "What is written was bent once more. A network must be able to write "
            "negative numbers.",
            "How often does max(0, .) stand in the equation?",
            _sheet(written="bent"),
        ),
        Slip(
            "no_skip",
            "That is what the network writes. The token itself is missing.",
            "What does the skip connection add?",
            _sheet(skip="none"),
        ),
        Slip(
            "two_skips",
            "The token was added twice.",
            "How much of x does x + FFN(x) hold?",
            _sheet(skip="twice"),
        ),
        Slip(
            "taken_away",
            "The token was taken away instead of added.",
            "What is x + FFN(x)?",
            _sheet(skip="minus"),
        ),
    ),
)


# One implementation with all faults, for feed_forward and repaired_block


def _network(
    X: np.ndarray,
    W_1: np.ndarray,
    b_1: np.ndarray,
    W_2: np.ndarray,
    b_2: np.ndarray,
    bend: str = "between",
    first_bias: str = "right",
    second_bias: str = "right",
    tokens: str = "alone",
) -> np.ndarray:
    """A feed-forward network with the faults that are asked for."""
    if tokens == "mean":
        X = np.broadcast_to(X.mean(axis=-2, keepdims=True), X.shape)
    elif tokens == "centred":
        X = X - X.mean(axis=-2, keepdims=True)
    elif tokens == "sum":
        X = np.cumsum(X, axis=-2)
    if bend == "before":
        X = np.maximum(X, 0.0)
    A = X @ W_1
    if first_bias == "right":
        A = A + b_1
    elif first_bias == "minus":
        A = A - b_1
    H = A
    if bend in ("between", "both"):
        H = np.maximum(A, 0.0)
    elif bend == "absolute":
        H = np.abs(A)
    elif bend == "leaky":
        H = np.where(A > 0.0, A, 0.1 * A)
    elif bend == "step":
        H = (A > 0.0).astype(np.float64)
    elif bend == "sigmoid":
        H = 1.0 / (1.0 + np.exp(-A))
    elif bend == "tanh":
        H = np.tanh(A)
    elif bend == "gelu":
        H = exact_gelu(A)
    elif bend == "softmax":
        H = softmax(A)
    elif bend == "lower":
        H = np.minimum(A, 0.0)
    if first_bias == "after":
        H = H + b_1
    out = H @ W_2 + (0.0 if second_bias == "none" else b_2)
    return np.asarray(np.maximum(out, 0.0) if bend in ("end", "both") else out)


def _feed_forward(turned: str = "no", skip: str = "none", **settings: str) -> Function:
    def feed_forward_with(X: Any, W_1: Any, b_1: Any, W_2: Any, b_2: Any) -> Any:
        if turned == "matrices":
            W_1, W_2 = W_1.T, W_2.T
        out = _network(X, W_1, b_1, W_2, b_2, **settings)
        return X + out if skip == "added" else out

    return feed_forward_with


_BEND_MISTAKES = (
    Mistake(
        "no_bend",
        "Nothing is bent between the two products, so both together are one linear map.",
        "What becomes of a hidden number below 0?",
        settings={"bend": "none"},
    ),
    Mistake(
        "bend_at_end",
        "The bend comes after W_2 instead of between the two products, so the output "
        "can never be negative.",
        "In which order do W_1, the bend and W_2 stand in the equation?",
        settings={"bend": "end"},
    ),
    Mistake(
        "bent_twice",
        "The output is bent as well, so it can never be negative.",
        "How often does max(0, .) stand in the equation?",
        settings={"bend": "both"},
    ),
    Mistake(
        "bend_before",
        "The input is bent before W_1, so the network is blind to negative numbers in a "
        "token, and linear in the rest.",
        "In which order do W_1, the bend and W_2 stand in the equation?",
        settings={"bend": "before"},
    ),
    Mistake(
        "absolute",
        "The absolute value is taken instead of max(0, .).",
        "What becomes of a hidden number of -2?",
        settings={"bend": "absolute"},
    ),
    Mistake(
        "lower_half",
        "min(0, .) is taken instead of max(0, .).",
        "Which hidden numbers should go on, those above 0 or those below?",
        settings={"bend": "lower"},
    ),
    Mistake(
        "step",
        "The hidden units say only whether they are above 0; max(0, .) keeps their size.",
        "What is max(0, 3)?",
        settings={"bend": "step"},
    ),
    Mistake(
        "gelu",
        "The bend is the exact GELU. Many models use it; here the paper's ReLU is asked "
        "for.",
        "What is max(0, -1), and what does your bend make of -1?",
        settings={"bend": "gelu"},
    ),
    Mistake(
        "sigmoid",
        "The bend is a sigmoid instead of max(0, .).",
        "What is max(0, 3)?",
        settings={"bend": "sigmoid"},
    ),
    Mistake(
        "tanh",
        "The bend is tanh instead of max(0, .).",
        "What is max(0, 3)?",
        settings={"bend": "tanh"},
    ),
    Mistake(
        "leaky",
        "A tenth of what is below 0 passes (a leaky ReLU).",
        "What is max(0, -1)?",
        settings={"bend": "leaky"},
    ),
    Mistake(
        "softmax",
        "A softmax runs over the hidden units. They do not share out a weight of 1: "
        "several may be large at once.",
        "Which function stands between W_1 and W_2?",
        settings={"bend": "softmax"},
    ),
)

_BIAS_MISTAKES = (
    Mistake(
        "no_b_1",
        "The bias b_1 is not added, so every unit bends at the same place, the origin.",
        "What comes out for a token of zeros?",
        settings={"first_bias": "none"},
    ),
    Mistake(
        "minus_b_1",
        "The bias b_1 is taken away instead of added.",
        "Does a positive bias make a unit larger or smaller?",
        settings={"first_bias": "minus"},
    ),
    Mistake(
        "b_1_after_bend",
        "The bias b_1 is added after the bend; it should move the place of the bend.",
        "Does b_1 stand inside or outside of max(0, .)?",
        settings={"first_bias": "after"},
    ),
    Mistake(
        "no_b_2",
        "The bias b_2 is not added.",
        "What comes out for a token of zeros, if b_1 is zero as well?",
        settings={"second_bias": "none"},
    ),
)

_TOKEN_MISTAKES = (
    Mistake(
        "mean_token",
        "Every token gets the output of the mean token.",
        "May the output of token 0 change when token 2 does?",
        settings={"tokens": "mean"},
    ),
    Mistake(
        "centred",
        "The mean of the tokens is taken away first, so each token depends on the others.",
        "May the output of token 0 change when token 2 does?",
        settings={"tokens": "centred"},
    ),
    Mistake(
        "running_sum",
        "Each token is replaced by the sum of itself and those before it.",
        "May the output of token 2 change when token 0 does?",
        settings={"tokens": "sum"},
    ),
)

_SMALL = (np.array([[1.0, -1.0], [1.0, 1.0]]), np.array([0.0, -1.0]))

_NETWORK_PROBES = (
    Probe(
        np.array([[3.0]]), np.array([[1.0]]), np.array([0.0]), np.array([[2.0]]),
        np.array([0.0]), about="one unit above 0, no biases",
    ),
    Probe(
        np.array([[-3.0]]), np.array([[1.0]]), np.array([0.0]), np.array([[2.0]]),
        np.array([0.0]), about="one unit below 0",
    ),
    Probe(
        np.array([[-3.0]]), np.array([[-1.0]]), np.array([0.0]), np.array([[-2.0]]),
        np.array([0.0]), about="a negative output",
    ),
    Probe(
        np.zeros((1, 2)), _SMALL[0], np.array([2.0, -1.0]), np.eye(2),
        np.array([0.0, 0.0]), about="a token of zeros and only b_1",
    ),
    Probe(
        np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2), np.zeros((2, 2)),
        np.array([3.0, -4.0]), about="only b_2",
    ),
    Probe(
        np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]),
        np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([0.0, -1.0]),
        np.array([[1.0, 0.0], [-2.0, 0.0]]), np.zeros(2), about="the exclusive or",
    ),
    Probe(X_TOKENS, _W_1, _B_1, _W_2, _B_2, about="the three tokens of the chapter"),
    Probe(
        numbers(201, 3, 3), numbers(202, 3, 3), numbers(203, 3), numbers(204, 3, 3),
        numbers(205, 3), about="all sizes 3",
    ),
    Probe(
        numbers(206, 2, 4), numbers(207, 4, 5), numbers(208, 5), numbers(209, 5, 4),
        numbers(210, 4), about="n = 2, d = 4, d_ff = 5",
    ),
)  # fmt: skip

_BATCH = (numbers(211, 2, 3, 4), *(numbers(212 + i, *s) for i, s in enumerate(((4, 5), (5,), (5, 4), (4,)))))  # fmt: skip

FEED_FORWARD = Exercise(
    name="feed_forward",
    arguments=("X", "W_1", "b_1", "W_2", "b_2"),
    statement="Return max(0, X W_1 + b_1) W_2 + b_2, one row per token.",
    ask="Print the numbers before the bend, the hidden numbers and the output. Which is "
    "the first that is not what you expect?",
    reference=feed_forward,
    probes=_NETWORK_PROBES,
    beyond=(
        Beyond(
            Probe(*_BATCH),
            "It works for one sequence. With a batch in front, X @ W_1 still does: the "
            "product runs over the last axis.",
        ),
    ),
    assemble=_feed_forward,
    mistakes=(
        *_BEND_MISTAKES,
        *_BIAS_MISTAKES,
        *_TOKEN_MISTAKES,
        Mistake(
            "turned",
            "The matrices are transposed (X W^T instead of X W), as if they were stored "
            "the way torch.nn.Linear stores them.",
            "X has d columns. Which axis of W_1 has that size?",
            settings={"turned": "matrices"},
        ),
        Mistake(
            "token_added",
            "The tokens are added to the output. That is the skip connection, which is "
            "not asked for here.",
            "What should come out when W_2 and b_2 are zero?",
            settings={"skip": "added"},
        ),
    ),
)


# merged_linear: two linear layers without a bend are one


def _merged(weight: str = "right", bias: str = "right") -> Function:
    def merged_with(W_1: Any, b_1: Any, W_2: Any, b_2: Any) -> Any:
        W = _pick(
            weight,
            {
                "right": lambda: W_1 @ W_2,
                "reversed": lambda: W_2 @ W_1,
                "turned": lambda: (W_1 @ W_2).T,
                "elementwise": lambda: W_1 * W_2,
                "sum": lambda: W_1 + W_2,
                "bent": lambda: np.maximum(W_1, 0.0) @ W_2,
                "second": lambda: W_2,
            },
        )
        b = _pick(
            bias,
            {
                "right": lambda: b_1 @ W_2 + b_2,
                "only_second": lambda: b_2 + 0.0,
                "only_first": lambda: b_1 @ W_2,
                "sum": lambda: b_1 + b_2,
                "product": lambda: b_1 * b_2,
                "wrong_matrix": lambda: b_1 + W_1 @ b_2,
                "none": lambda: 0.0 * b_2,
                "bent": lambda: np.maximum(b_1, 0.0) @ W_2 + b_2,
                "minus": lambda: b_2 - b_1 @ W_2,
            },
        )
        return W, b

    return merged_with


MERGED_LINEAR = Exercise(
    name="merged_linear",
    arguments=("W_1", "b_1", "W_2", "b_2"),
    statement="Two linear layers stand behind each other with no bend between them. "
    "Return (W, b) of the one layer that does the same: x W + b.",
    ask="Write (x W_1 + b_1) W_2 + b_2 out, and collect what stands on the right of x.",
    reference=_merged(),
    returns=("W", "b"),
    probes=(
        Probe(
            np.array([[2.0]]), np.array([0.0]), np.array([[3.0]]), np.array([0.0]),
            about="width 1 and no biases",
        ),
        Probe(
            np.array([[1.0]]), np.array([5.0]), np.array([[3.0]]), np.array([1.0]),
            about="width 1, biases 5 and 1",
        ),
        Probe(
            np.array([[-1.0]]), np.array([-2.0]), np.array([[3.0]]), np.array([0.5]),
            about="negative numbers in the first layer",
        ),
        Probe(_W_1, _B_1, _W_2, _B_2, about="the matrices of the chapter"),
        Probe(
            numbers(221, 3, 3), numbers(222, 3), numbers(223, 3, 3), numbers(224, 3),
            about="all sizes 3",
        ),
        Probe(
            numbers(225, 2, 4), numbers(226, 4), numbers(227, 4, 5), numbers(228, 5),
            about="from 2 to 4 to 5 numbers",
        ),
    ),
    assemble=_merged,
    mistakes=(
        Mistake(
            "b_2_only",
            "The bias is b_2 alone: b_1 is lost on its way through W_2.",
            "What comes out of the two layers for a token of zeros?",
            settings={"bias": "only_second"},
        ),
        Mistake(
            "b_1_only",
            "The bias is b_1 W_2 alone: b_2 is lost.",
            "What comes out of the two layers for a token of zeros?",
            settings={"bias": "only_first"},
        ),
        Mistake(
            "biases_added",
            "The biases are added as they are; b_1 has to pass through W_2.",
            "What comes out of the two layers for a token of zeros?",
            settings={"bias": "sum"},
        ),
        Mistake(
            "biases_multiplied",
            "The biases are multiplied with each other.",
            "What comes out of the two layers for a token of zeros?",
            settings={"bias": "product"},
        ),
        Mistake(
            "b_2_through_W_1",
            "b_2 passes through W_1, but it is added after both products.",
            "Which of the two biases has a matrix on its right?",
            settings={"bias": "wrong_matrix"},
        ),
        Mistake(
            "no_bias",
            "The bias is zero: both biases are lost.",
            "What comes out of the two layers for a token of zeros?",
            settings={"bias": "none"},
        ),
        Mistake(
            "bias_bent",
            "b_1 is bent. Here is no bend between the layers, and that is the point.",
            "Where does max(0, .) stand in this exercise?",
            settings={"bias": "bent"},
        ),
        Mistake(
            "bias_minus",
            "b_1 W_2 is taken away instead of added.",
            "Write (x W_1 + b_1) W_2 out. Which sign has b_1 W_2?",
            settings={"bias": "minus"},
        ),
        Mistake(
            "reversed",
            "The product is W_2 W_1: with tokens as rows the first matrix stands on the "
            "left.",
            "Which of the two matrices does x meet first?",
            settings={"weight": "reversed"},
        ),
        Mistake(
            "turned",
            "The product is transposed.",
            "How many numbers go in and how many come out? Which axis of W is which?",
            settings={"weight": "turned"},
        ),
        Mistake(
            "elementwise",
            "The matrices are multiplied number by number (*) instead of as matrices (@).",
            "What is x W_1 W_2 for a one-hot x?",
            settings={"weight": "elementwise"},
        ),
        Mistake(
            "added",
            "The matrices are added instead of multiplied.",
            "What does the second layer do to what the first gives?",
            settings={"weight": "sum"},
        ),
        Mistake(
            "weights_bent",
            "W_1 is bent: its negative numbers are gone. A bend acts on what a layer "
            "gives, and here there is none.",
            "Where does max(0, .) stand in this exercise?",
            settings={"weight": "bent"},
        ),
        Mistake(
            "second_only",
            "W is W_2 alone.",
            "Which matrix does x meet first?",
            settings={"weight": "second"},
        ),
    ),
)  # fmt: skip


# unit_writes: a feed-forward network read as a memory


def _writes(
    bend: str = "relu",
    bias: str = "inside",
    values: str = "rows",
    keys: str = "columns",
    result: str = "each",
) -> Function:
    def unit_writes_with(x: Any, W_1: Any, b_1: Any, W_2: Any) -> Any:
        if keys == "rows":
            W_1 = W_1.T
        if values == "columns":
            W_2 = W_2.T
        a = x @ W_1
        if bias == "inside":
            a = a + b_1
        h = _pick(
            bend,
            {
                "relu": lambda: np.maximum(a, 0.0),
                "none": lambda: a,
                "softmax": lambda: softmax(a),
                "absolute": lambda: np.abs(a),
                "step": lambda: (a > 0.0).astype(np.float64),
                "shares": lambda: (
                    np.maximum(a, 0.0) / max(np.maximum(a, 0.0).sum(), 1e-9)
                ),
                "best": lambda: np.where(a == a.max(), np.maximum(a, 0.0), 0.0),
            },
        )
        if bias == "outside":
            h = h + b_1
        each = h[:, None] * W_2
        return _pick(
            result,
            {
                "each": lambda: each,
                "sum": lambda: each.sum(axis=0),
                "hidden": lambda: h,
                "turned": lambda: each.T,
                "sizes": lambda: np.linalg.norm(each, axis=1),
            },
        )

    return unit_writes_with


UNIT_WRITES = Exercise(
    name="unit_writes",
    arguments=("x", "W_1", "b_1", "W_2"),
    statement="Return what each hidden unit writes for one token x (d,): row m of the "
    "result (d_ff, d_out) is max(0, x k_m + b_m) v_m, with column m of W_1 as its key "
    "and row m of W_2 as its value.",
    ask="What does the first unit hold, and which row of W_2 does it multiply?",
    reference=_writes(),
    probes=(
        Probe(
            np.array([2.0]), np.array([[1.0, -1.0]]), np.zeros(2),
            np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
            about="two units, of which one is above 0",
        ),
        Probe(
            np.array([0.0, 0.0]), np.zeros((2, 3)), np.array([1.0, -2.0, 0.0]),
            np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), about="a token of zeros",
        ),
        Probe(
            np.array([1.0, 0.0]), np.array([[3.0, 1.0], [0.0, 2.0]]), np.array([-1.0, 1.0]),
            np.array([[1.0, -1.0], [2.0, 0.0]]), about="all sizes 2",
        ),
        Probe(X_TOKENS[1], _W_1, _B_1, _W_2, about="cat, with the matrices of the chapter"),
        Probe(
            numbers(231, 3), numbers(232, 3, 3), numbers(233, 3), numbers(234, 3, 3),
            about="all sizes 3",
        ),
        Probe(
            numbers(235, 4), numbers(236, 4, 5), numbers(237, 5), numbers(238, 5, 2),
            about="d = 4, d_ff = 5, d_out = 2",
        ),
    ),
    assemble=_writes,
    mistakes=(
        Mistake(
            "no_bend",
            "Units below 0 write as well: nothing is bent.",
            "What does a unit write that holds max(0, -2)?",
            settings={"bend": "none"},
        ),
        Mistake(
            "softmax",
            "The units share out a weight of 1, as keys do in attention. Here each unit "
            "stands alone.",
            "Which function stands between W_1 and W_2?",
            settings={"bend": "softmax"},
        ),
        Mistake(
            "shares",
            "The hidden numbers are divided by their sum, as if they were weights.",
            "Must the hidden numbers of a token sum to 1?",
            settings={"bend": "shares"},
        ),
        Mistake(
            "best_only",
            "Only the unit that fits best writes.",
            "How many units may be above 0 at once?",
            settings={"bend": "best"},
        ),
        Mistake(
            "absolute",
            "The absolute value is taken instead of max(0, .).",
            "What does a unit write that holds max(0, -2)?",
            settings={"bend": "absolute"},
        ),
        Mistake(
            "step",
            "Each unit above 0 writes its value once; it should write it as often as it "
            "holds.",
            "What is max(0, 3) times a value?",
            settings={"bend": "step"},
        ),
        Mistake(
            "no_bias",
            "The bias b_1 is not added.",
            "What does each unit hold for a token of zeros?",
            settings={"bias": "none"},
        ),
        Mistake(
            "bias_outside",
            "The bias b_1 is added after the bend.",
            "Does b_m stand inside or outside of max(0, .)?",
            settings={"bias": "outside"},
        ),
        Mistake(
            "columns_of_W_2",
            "The values are the columns of W_2; unit m writes row m.",
            "How many numbers does a unit write: d_out, or d_ff?",
            settings={"values": "columns"},
        ),
        Mistake(
            "rows_of_W_1",
            "The keys are the rows of W_1; unit m compares the token with column m.",
            "How many numbers does a key have: d, or d_ff?",
            settings={"keys": "rows"},
        ),
        Mistake(
            "summed",
            "That is what all units write together.",
            "How many rows should the result have?",
            settings={"result": "sum"},
        ),
        Mistake(
            "hidden_returned",
            "These are the hidden numbers; they still have to meet the values.",
            "How many numbers does each unit write?",
            settings={"result": "hidden"},
        ),
        Mistake(
            "turned",
            "The result is transposed: one column per unit instead of one row.",
            "How many rows should the result have?",
            settings={"result": "turned"},
        ),
        Mistake(
            "lengths",
            "That is how loudly each unit writes, not what.",
            "How many numbers does each unit write?",
            settings={"result": "sizes"},
        ),
    ),
)  # fmt: skip


# repaired_block: the network, around it the skip connection


def _block(skip: str = "added", **settings: str) -> Function:
    def block_with(X: Any, W_1: Any, b_1: Any, W_2: Any, b_2: Any) -> Any:
        out = _network(X, W_1, b_1, W_2, b_2, **settings)
        return _pick(
            skip,
            {
                "added": lambda: X + out,
                "none": lambda: out,
                "doubled": lambda: 2.0 * X + out,
                "minus": lambda: out - X,
                "halved": lambda: (X + out) / 2.0,
                "bent": lambda: np.maximum(X + out, 0.0),
                "times": lambda: X * out,
                "first": lambda: X[..., :1, :] + out,
            },
        )

    return block_with


REPAIRED_BLOCK = Exercise(
    name="repaired_block",
    arguments=("X", "W_1", "b_1", "W_2", "b_2"),
    statement="Repair the block so that it returns X + FFN(X) for the rows of X (n, d).",
    ask="Set W_2 and b_2 to zero: what should come out? Then set X to zero.",
    reference=_block(),
    probes=(
        Probe(
            np.array([[1.0, -2.0]]), np.zeros((2, 1)), np.zeros(1), np.zeros((1, 2)),
            np.zeros(2), about="all weights zero, so nothing is written",
        ),
        *_NETWORK_PROBES,
    ),
    beyond=(
        Beyond(
            Probe(*_BATCH),
            "It works for one sequence. With a batch in front, X @ W_1 still does: the "
            "product runs over the last axis.",
        ),
    ),
    assemble=_block,
    planted=("bend_at_end", "no_b_1", "two_skips"),
    mistakes=(
        *_BEND_MISTAKES,
        *_BIAS_MISTAKES,
        *_TOKEN_MISTAKES,
        Mistake(
            "no_skip",
            "The tokens are not added: what the network does not write is lost.",
            "What should come out when all weights are zero?",
            settings={"skip": "none"},
        ),
        Mistake(
            "two_skips",
            "The tokens are added twice, so each block doubles the stream.",
            "What should come out when all weights are zero?",
            settings={"skip": "doubled"},
        ),
        Mistake(
            "skip_minus",
            "The tokens are taken away instead of added.",
            "What should come out when all weights are zero?",
            settings={"skip": "minus"},
        ),
        Mistake(
            "halved",
            "The sum is divided by 2, so every block halves what was in the stream.",
            "What should come out when all weights are zero?",
            settings={"skip": "halved"},
        ),
        Mistake(
            "stream_bent",
            "The sum is bent, so the stream can hold no negative number.",
            "What should come out when all weights are zero?",
            settings={"skip": "bent"},
        ),
        Mistake(
            "multiplied",
            "The tokens are multiplied with what is written instead of added.",
            "What should come out when all weights are zero?",
            settings={"skip": "times"},
        ),
        Mistake(
            "first_token_added",
            "The first token is added to every row.",
            "Which token does the skip connection add to row 1?",
            settings={"skip": "first"},
        ),
    ),
)  # fmt: skip


# feed_forward_backward


def _backward(
    gate: str = "right",
    weights: str = "right",
    biases: str = "sum",
    tokens: str = "right",
    order: str = "right",
) -> Function:
    """The gradients of a feed-forward network with the faults that are asked for."""

    def backward_with(d_output: Any, X: Any, W_1: Any, b_1: Any, W_2: Any) -> Any:
        A = X @ W_1 + b_1
        H = A if gate == "linear" else np.maximum(A, 0.0)
        dH = d_output @ W_2.T
        open_ = A > 0.0
        dA = _pick(
            gate,
            {
                "right": lambda: np.where(open_, dH, 0.0),
                "none": lambda: dH,
                "linear": lambda: dH,
                "by_gradient": lambda: np.maximum(dH, 0.0),
                "by_value": lambda: dH * H,
                "closed": lambda: np.where(open_, 0.0, dH),
            },
        )
        dW_2, dW_1 = H.T @ d_output, X.T @ dA
        if weights == "before_bend":
            dW_2 = A.T @ d_output
        elif weights == "ungated":
            dW_1 = X.T @ dH
        elif weights == "mean":
            dW_1, dW_2 = dW_1 / len(X), dW_2 / len(X)
        elif weights == "turned":
            dW_1, dW_2 = dW_1.T, dW_2.T
        db_1, db_2 = dA.sum(axis=0), d_output.sum(axis=0)
        if biases == "mean":
            db_1, db_2 = dA.mean(axis=0), d_output.mean(axis=0)
        elif biases == "columns":
            db_1, db_2 = dA.sum(axis=1), d_output.sum(axis=1)
        elif biases == "rows":
            db_1, db_2 = dA, d_output + 0.0
        elif biases == "ungated":
            db_1 = dH.sum(axis=0)
        dX = dA @ W_1.T
        if tokens == "ungated":
            dX = dH @ W_1.T
        elif tokens == "skip":
            dX = d_output + dX
        elif tokens == "untransposed":
            dX = dA @ W_1
        if order == "second_first":
            return dX, dW_2, db_2, dW_1, db_1
        if order == "weights_first":
            return dW_1, db_1, dW_2, db_2, dX
        return dX, dW_1, db_1, dW_2, db_2

    return backward_with


def _reference_backward(d_output: Any, X: Any, W_1: Any, b_1: Any, W_2: Any) -> Any:
    return feed_forward_backward(
        d_output, X, W_1, b_1, W_2, np.zeros(W_2.shape[1]), "relu"
    )


FEED_FORWARD_BACKWARD = Exercise(
    name="feed_forward_backward",
    arguments=("d_output", "X", "W_1", "b_1", "W_2"),
    statement="Return the gradients (dX, dW_1, db_1, dW_2, db_2) of "
    "max(0, X W_1 + b_1) W_2 + b_2 from the gradient with respect to the output.",
    ask="Which of the five gradients is right already? Go back step by step: W_2, the "
    "bend, W_1.",
    reference=_reference_backward,
    returns=("dX", "dW_1", "db_1", "dW_2", "db_2"),
    probes=(
        Probe(
            np.array([[1.0]]), np.array([[2.0]]), np.array([[1.0]]), np.array([0.0]),
            np.array([[3.0]]), about="one unit above 0",
        ),
        Probe(
            np.array([[1.0]]), np.array([[2.0]]), np.array([[-1.0]]), np.array([0.0]),
            np.array([[3.0]]), about="one unit below 0",
        ),
        Probe(
            np.array([[1.0], [2.0]]), np.array([[2.0], [1.0]]), np.array([[1.0]]),
            np.array([1.0]), np.array([[-3.0]]), about="two tokens, a negative weight",
        ),
        Probe(
            np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 2.0]]), X_TOKENS, _W_1, _B_1, _W_2,
            about="the three tokens of the chapter",
        ),
        Probe(
            numbers(241, 3, 3), numbers(242, 3, 3), numbers(243, 3, 3), numbers(244, 3),
            numbers(245, 3, 3), about="all sizes 3",
        ),
        Probe(
            numbers(246, 2, 3), numbers(247, 2, 4), numbers(248, 4, 5), numbers(249, 5),
            numbers(250, 5, 3), about="n = 2, d = 4, d_ff = 5, d_out = 3",
        ),
    ),
    assemble=_backward,
    mistakes=(
        Mistake(
            "no_gate",
            "The gradient passes the bend as if every unit were above 0.",
            "What is the slope of max(0, x) at x = -1?",
            settings={"gate": "none"},
        ),
        Mistake(
            "no_bend_at_all",
            "Neither forward nor backward is anything bent.",
            "What is the slope of max(0, x) at x = -1?",
            settings={"gate": "linear"},
        ),
        Mistake(
            "gated_by_gradient",
            "The gradient itself is bent: max(0, dH). What decides is whether the unit "
            "was above 0 on the way forward.",
            "May a gradient be negative where the unit is above 0?",
            settings={"gate": "by_gradient"},
        ),
        Mistake(
            "multiplied_by_hidden",
            "The gradient is multiplied by the hidden number; the slope of the bend is 1 "
            "above 0, whatever its size.",
            "What is the slope of max(0, x) at x = 3?",
            settings={"gate": "by_value"},
        ),
        Mistake(
            "gate_inverted",
            "The gradient passes where the unit is below 0 and stops where it is above.",
            "What is the slope of max(0, x) at x = 3?",
            settings={"gate": "closed"},
        ),
        Mistake(
            "W_2_from_before_bend",
            "dW_2 is made of the numbers before the bend; W_2 met the hidden ones.",
            "What did W_2 multiply on the way forward?",
            settings={"weights": "before_bend"},
        ),
        Mistake(
            "W_1_ungated",
            "dW_1 forgets the bend; the others remember it.",
            "Which gradient arrives at W_1: the one behind or the one before the bend?",
            settings={"weights": "ungated"},
        ),
        Mistake(
            "weights_averaged",
            "The gradients of the matrices are averaged over the tokens; they add up.",
            "The same matrix served every token. What becomes of its gradients?",
            settings={"weights": "mean"},
        ),
        Mistake(
            "weights_turned",
            "The gradients of the matrices are transposed.",
            "Which shape must the gradient of W_1 have?",
            settings={"weights": "turned"},
        ),
        Mistake(
            "biases_averaged",
            "The gradients of the biases are averaged over the tokens; they add up.",
            "The same bias served every token. What becomes of its gradients?",
            settings={"biases": "mean"},
        ),
        Mistake(
            "biases_over_columns",
            "The gradients of the biases are summed over the wrong axis.",
            "How many numbers does b_1 have, one per token or one per unit?",
            settings={"biases": "columns"},
        ),
        Mistake(
            "biases_not_summed",
            "The gradients of the biases are left apart, one row per token.",
            "Which shape must the gradient of b_1 have?",
            settings={"biases": "rows"},
        ),
        Mistake(
            "b_1_ungated",
            "db_1 forgets the bend; the others remember it.",
            "Does b_1 stand before or behind the bend?",
            settings={"biases": "ungated"},
        ),
        Mistake(
            "X_ungated",
            "dX forgets the bend; the others remember it.",
            "Which gradient arrives at X: the one behind or the one before the bend?",
            settings={"tokens": "ungated"},
        ),
        Mistake(
            "skip_added",
            "The gradient of a skip connection is added to dX; here there is none.",
            "What should dX be when all units are below 0?",
            settings={"tokens": "skip"},
        ),
        Mistake(
            "W_1_untransposed",
            "dX is dA W_1 instead of dA W_1^T.",
            "Which shape must dX have?",
            settings={"tokens": "untransposed"},
        ),
        Mistake(
            "second_layer_first",
            "The gradients of W_2 and b_2 come before those of W_1 and b_1.",
            "In which order are the results asked for?",
            settings={"order": "second_first"},
        ),
        Mistake(
            "dX_last",
            "dX comes last instead of first.",
            "In which order are the results asked for?",
            settings={"order": "weights_first"},
        ),
    ),
)  # fmt: skip
