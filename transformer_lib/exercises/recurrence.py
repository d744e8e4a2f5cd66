"""Exercises of chapter 1: what recurrence makes hard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from transformer_lib.exercises.engine import (
    Exercise,
    Mistake,
    Probe,
    Property,
    Variant,
    numbers,
)
from transformer_lib.exercises.pencil import Blank, Pencil, Slip
from transformer_lib.reference import recurrence as reference

EXERCISES = (
    "rnn_step",
    "unroll",
    "gradient_product",
    "lstm_step",
    "recurrent_factor",
    "last_state",
)

Function = Callable[..., Any]


def _sigmoid(a: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-a)))


# rnn_step: h' = tanh(x W_x + h W_h + b)

_BEND: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "none": lambda a: a,
    "sigmoid": _sigmoid,
    "relu": lambda a: np.maximum(a, 0.0),
}


def _step(
    bend: str = "tanh",
    input_side: str = "row",
    state_side: str = "row",
    bias: str = "inside",
    state: str = "used",
    weights: str = "right",
    skip: str = "none",
) -> Function:
    """One step of the network, with the faults that are asked for."""

    def step(x: Any, h: Any, W_x: Any, W_h: Any, b: Any) -> np.ndarray:
        if weights == "swapped":
            W_x, W_h = W_h, W_x
        from_input = x @ W_x if input_side == "row" else W_x @ x
        from_state = h @ W_h if state_side == "row" else W_h @ h
        if state == "ignored":
            from_state = 0.0 * from_state
        if state == "unweighted":
            from_state = h
        within = b if bias == "inside" else 0.0
        outside = b if bias == "outside" else 0.0
        outside = outside + (h if skip == "added" else 0.0)
        if bend == "each":
            bent = np.tanh(from_input) + np.tanh(from_state + within)
        else:
            bent = _BEND[bend](from_input + from_state + within)
        return np.asarray(bent + outside)

    return step


_BEND_MISTAKES = (
    Mistake(
        "no_tanh",
        "The tanh is missing, so nothing keeps the state between -1 and 1.",
        "What does the state grow to after many steps when nothing bounds it?",
        settings={"bend": "none"},
    ),
    Mistake(
        "sigmoid",
        "The state goes through a sigmoid instead of tanh, so it is never negative.",
        "Which values can tanh give, and which can a sigmoid?",
        settings={"bend": "sigmoid"},
    ),
    Mistake(
        "relu",
        "The state goes through a ReLU instead of tanh.",
        "What happens to a negative sum here, and what does tanh make of it?",
        settings={"bend": "relu"},
    ),
)

_STATE_TRANSPOSED = Mistake(
    "state_transposed",
    "W_h stands on the wrong side (W_h h instead of h W_h), as if it were transposed.",
    "h is a row here. Does its number i meet row i or column i of W_h?",
    settings={"state_side": "column"},
)

_STEP_MISTAKES = (
    *_BEND_MISTAKES,
    _STATE_TRANSPOSED,
    Mistake(
        "input_transposed",
        "W_x stands on the wrong side (W_x x instead of x W_x), as if it were "
        "transposed.",
        "x is a row of d_in numbers, W_x has d_in rows. Which product uses each row of "
        "W_x once per number of x?",
        settings={"input_side": "column"},
    ),
    Mistake(
        "both_transposed",
        "Both products are written for columns (W_x x + W_h h). The vectors here are "
        "rows, and W_x and W_h are stored for x W_x + h W_h.",
        "Which side of the @ does a row vector stand on?",
        settings={"input_side": "column", "state_side": "column"},
    ),
    Mistake(
        "swapped",
        "W_x and W_h are exchanged: the token meets W_h and the state meets W_x.",
        "Which of the two matrices has d_in rows?",
        settings={"weights": "swapped"},
    ),
    Mistake(
        "no_bias",
        "The bias b is not added.",
        "What is the next state when x and h are both zero?",
        settings={"bias": "none"},
    ),
    Mistake(
        "bias_outside",
        "The bias is added after the tanh instead of inside it.",
        "Can the state leave the range -1 to 1 in your version?",
        settings={"bias": "outside"},
    ),
    Mistake(
        "state_ignored",
        "The state h does not enter, so the network forgets everything at each step.",
        "Which term carries what was read before?",
        settings={"state": "ignored"},
    ),
    Mistake(
        "each_term",
        "tanh is applied to each term by itself, and the results are added.",
        "Can your state leave the range -1 to 1, and can tanh of a sum?",
        settings={"bend": "each"},
    ),
    Mistake(
        "state_added",
        "The old state is added to the new one.",
        "Can your state leave the range -1 to 1?",
        settings={"skip": "added"},
    ),
    Mistake(
        "state_unweighted",
        "The state is added as it is, without W_h.",
        "Which matrix decides what is kept of the old state?",
        settings={"state": "unweighted"},
    ),
)


def _two(*rows: tuple[float, ...]) -> np.ndarray:
    return np.array(rows, dtype=np.float64)


_ONE = np.array([[1.0]])

RNN_STEP = Exercise(
    name="rnn_step",
    arguments=("x", "h", "W_x", "W_h", "b"),
    statement="Return the next state tanh(x W_x + h W_h + b), for one token x (d_in,) "
    "and one state h (d_hidden,).",
    ask="Which of the three terms x W_x, h W_h and b is wrong? The inputs on which "
    "you are right tell.",
    reference=lambda x, h, W_x, W_h, b: reference.rnn_cell(x, h, W_x, W_h, b),
    probes=(
        Probe(
            np.zeros(2), np.zeros(3), np.zeros((2, 3)), np.zeros((3, 3)),
            np.array([0.5, 0.0, -2.0]), about="x = 0 and h = 0, so only b acts",
        ),
        Probe(
            np.array([1.0, 0.0]), np.zeros(2), _two((1.0, -2.0), (0.5, 3.0)),
            np.zeros((2, 2)), np.zeros(2), about="h = 0 and b = 0, so only x W_x acts",
        ),
        Probe(
            np.zeros(2), np.array([1.0, 0.0]), np.zeros((2, 2)),
            _two((1.0, -2.0), (0.5, 3.0)), np.zeros(2),
            about="x = 0 and b = 0, so only h W_h acts",
        ),
        Probe(
            np.array([1.0, -1.0]), np.array([0.5, 1.0]), _two((0.1, 0.4), (-0.3, 0.2)),
            _two((0.6, -0.2), (0.1, 0.3)), np.array([0.1, -0.2]),
            about="d_in = d_hidden = 2",
        ),
        Probe(
            numbers(1, 2), numbers(2, 3), numbers(3, 2, 3), numbers(4, 3, 3),
            numbers(5, 3), about="d_in = 2, d_hidden = 3",
        ),
        Probe(
            numbers(6, 4), numbers(7, 1), numbers(8, 4, 1), numbers(9, 1, 1),
            numbers(10, 1), about="d_in = 4, d_hidden = 1",
        ),
    ),
    properties=(
        Property(
            "Every number of a tanh lies between -1 and 1, and here one does not.",
            lambda got, *_: bool(np.abs(got).max() <= 1.0),
        ),
    ),
    assemble=_step,
    mistakes=_STEP_MISTAKES,
)  # fmt: skip


# unroll: the step, over and over


def _unroll(
    start: str = "h0",
    from_state: str = "previous",
    rows: str = "all",
    order: str = "forward",
    **step_settings: str,
) -> Function:
    """Run the step over a sequence, with the faults that are asked for."""
    step = _step(**step_settings)

    def unroll(X: Any, h0: Any, W_x: Any, W_h: Any, b: Any) -> np.ndarray:
        h = np.zeros_like(h0) if start == "zeros" else np.array(h0)
        states = []
        for x in X if order == "forward" else X[::-1]:
            h = step(x, h0 if from_state == "first" else h, W_x, W_h, b)
            states.append(h)
        if rows == "before":
            states = [np.array(h0), *states[:-1]]
        elif rows == "with_h0":
            states = [np.array(h0), *states]
        elif rows == "last":
            return np.asarray(states[-1])
        elif rows == "same_array":
            states = [states[-1]] * len(states)
        elif rows == "first":
            return np.asarray(states[0])
        elif rows == "last_row":
            states = states[-1:]
        elif rows == "reversed":
            states = states[::-1]
        elif rows == "not_last":
            states = states[:-1]
        return np.array(states)

    return unroll


def _skips_first(X: Any, h0: Any, W_x: Any, W_h: Any, b: Any) -> np.ndarray:
    """Take h0 for the state of the first token and start reading at the second."""
    H = [np.array(h0)]
    for x in X[1:]:
        H.append(np.tanh(x @ W_x + H[-1] @ W_h + b))
    return np.array(H)


UNROLL = Exercise(
    name="unroll",
    arguments=("X", "h0", "W_x", "W_h", "b"),
    statement="Return the states after each token, shape (n, d_hidden), for the tokens "
    "X (n, d_in) read from first to last, starting in h0.",
    ask="Work out the two states of two tokens of width 1 by hand. Where does your "
    "loop part from that?",
    reference=lambda X, h0, W_x, W_h, b: reference.rnn(X, h0, W_x, W_h, b),
    probes=(
        Probe(
            np.array([[1.0], [0.0]]), np.array([0.0]), _ONE, _ONE, np.zeros(1),
            about="two tokens of width 1",
        ),
        Probe(
            np.array([[0.5], [-1.0], [2.0]]), np.array([1.0]), _ONE, 0.5 * _ONE,
            np.zeros(1), about="three tokens of width 1 and a state before them",
        ),
        Probe(
            numbers(11, 1, 2), numbers(12, 3), numbers(13, 2, 3), numbers(14, 3, 3),
            numbers(15, 3), about="one token",
        ),
        Probe(
            numbers(16, 4, 2), np.zeros(2), numbers(17, 2, 2), numbers(18, 2, 2),
            numbers(19, 2), about="h0 = 0",
        ),
        Probe(
            numbers(20, 4, 2), numbers(21, 3), numbers(22, 2, 3), numbers(23, 3, 3),
            numbers(24, 3), about="four tokens, d_in = 2, d_hidden = 3",
        ),
    ),
    properties=(
        Property(
            "Every number of a tanh lies between -1 and 1, and here one does not.",
            lambda got, *_: bool(np.abs(got).max() <= 1.0),
        ),
    ),
    assemble=_unroll,
    mistakes=(
        Mistake(
            "always_h0",
            "Every step starts from h0, so no token knows of the tokens before it.",
            "Which state belongs to the second step: h0, or what the first step gave?",
            settings={"from_state": "first"},
        ),
        Mistake(
            "starts_at_zero",
            "The first step starts from zeros instead of h0. (If your loop reads "
            "H[t - 1]: when t is 0, that is the last row, which is still zero.)",
            "Where does h0 enter?",
            settings={"start": "zeros"},
        ),
        Mistake(
            "before",
            "Row t holds the state before token t: h0 comes first and the last state is "
            "missing.",
            "Is the state stored before or after the step?",
            settings={"rows": "before"},
        ),
        Mistake(
            "with_h0",
            "h0 itself is among the rows, so there is one row too many.",
            "How many tokens are there, and how many rows do you return?",
            settings={"rows": "with_h0"},
        ),
        Mistake(
            "last_only",
            "Only the last state is returned.",
            "Where is the state of the first token kept once the second is read?",
            settings={"rows": "last"},
        ),
        Mistake(
            "last_row_only",
            "Only the last state is among the rows: it is stored once, after the loop.",
            "Does the line that stores the state stand inside the loop?",
            settings={"rows": "last_row"},
        ),
        Mistake(
            "first_only",
            "Only the first state is returned: return stands inside the loop, so the "
            "loop ends after one token.",
            "How far is the return indented?",
            settings={"rows": "first"},
        ),
        Mistake(
            "same_array",
            "All rows show the last state: one array is stored n times and overwritten.",
            "Does your loop make a new array in each step, or write into the same one "
            "([:] =, +=, out=)?",
            settings={"rows": "same_array"},
        ),
        Mistake(
            "not_last",
            "The last state is missing: the loop ends one token early.",
            "What does range(n - 1) leave out?",
            settings={"rows": "not_last"},
        ),
        Mistake(
            "first_skipped",
            "The first token is never read: row 0 is h0, and the loop starts at token 1.",
            "Which token turns h0 into the first row?",
            _skips_first,
        ),
        Mistake(
            "backward",
            "The tokens are read from last to first.",
            "Which token should the first step read?",
            settings={"order": "backward"},
        ),
        Mistake(
            "rows_reversed",
            "The states are right, but stored from last to first.",
            "Is each new state put at the end of the list, or at its beginning?",
            settings={"rows": "reversed"},
        ),
        *_BEND_MISTAKES,
        _STATE_TRANSPOSED,
        Mistake(
            "no_bias",
            "The bias b is not added.",
            "What is the next state when x and h are both zero?",
            settings={"bias": "none"},
        ),
    ),
)  # fmt: skip


# gradient_product: dh_T / dh_0 = J_1 J_2 ... J_T


def _jacobians(
    slope: str = "right",
    along: str = "columns",
    steps: str = "all",
    product: str = "forward",
    start: str = "identity",
) -> Function:
    """The product of the Jacobians, with the faults that are asked for."""

    def gradient_product(W_h: Any, H: Any) -> np.ndarray:
        states = list(H)
        if steps == "without_first":
            states = states[1:]
        elif steps == "without_last":
            states = states[:-1]
        elif steps == "from_zero":
            states = [np.zeros_like(H[0]), *states[:-1]]
        elif steps == "wrapped":
            states = [states[-1], *states[:-1]]
        elif steps == "last_only":
            states = [states[-1]] * len(states)
        d = len(W_h)
        P = {"identity": np.eye(d), "ones": np.ones((d, d))}.get(
            start, np.zeros((d, d))
        )
        if product == "sum":
            P = np.zeros((d, d))
        if product == "elementwise":
            P = np.ones((d, d))
        for h in states:
            if slope == "right":
                s = 1.0 - h**2
            elif slope == "not_squared":
                s = 1.0 - h
            elif slope == "tanh_again":
                s = 1.0 - np.tanh(h) ** 2
            elif slope == "sigmoid":
                s = h * (1.0 - h)
            else:
                s = np.ones_like(h)
            W = W_h.T if along == "transposed" else W_h
            J = W_h * s[:, None] if along == "rows" else W * s
            if product == "forward":
                P = P @ J
            elif product == "backward":
                P = J @ P
            elif product == "sum":
                P = P + J
            else:
                P = P * J
        return np.asarray(P)

    return gradient_product


def _probe_states(seed: int, n: int, d: int) -> np.ndarray:
    return np.asarray(np.tanh(numbers(seed, n, d)).round(1))


GRADIENT_PRODUCT = Exercise(
    name="gradient_product",
    arguments=("W_h", "H"),
    statement="Return the matrix of derivatives dh_T/dh_0, entry [i, j] the derivative "
    "of h_T[j] with respect to h_0[i], from W_h and the states h_1 ... h_T, the rows of "
    "H.",
    ask="One step's Jacobian has the entries W_h[i, j] (1 - h_t[j]²). What do you get "
    "for H of a single row?",
    reference=lambda W_h, H: reference.gradient_product(W_h, H),
    probes=(
        Probe(np.array([[0.5]]), np.array([[0.6]]), about="one step of width 1"),
        Probe(
            np.array([[2.0]]), np.array([[0.0], [0.5], [-0.8]]),
            about="three steps of width 1",
        ),
        Probe(
            _two((1.0, 2.0), (0.0, 1.0)), np.zeros((2, 2)),
            about="states of zero, where tanh has slope 1",
        ),
        Probe(np.eye(2), _two((0.5, 0.0), (0.0, -0.6)), about="W_h = identity"),
        Probe(
            _two((1.0, 2.0), (-1.0, 0.5)), _two((0.2, -0.5), (0.8, 0.1)),
            about="two steps of width 2",
        ),
        Probe(numbers(31, 3, 3), _probe_states(32, 1, 3), about="one step of width 3"),
        Probe(numbers(33, 3, 3), _probe_states(34, 4, 3), about="four steps of width 3"),
    ),
    assemble=_jacobians,
    variants=(
        Variant(
            "columns",
            "your matrix is the transpose of the chapter's. Rows stand for the numbers "
            "of h_T and columns for those of h_0, the layout of texts that write "
            "vectors as columns; here it is the other way round.",
            lambda W_h, H: np.asarray(reference.gradient_product(W_h, H).T),
        ),
    ),
    mistakes=(
        Mistake(
            "not_squared",
            "The slope of tanh is taken as 1 - h instead of 1 - h².",
            "What is the slope where h = -1 and tanh is flat, and what do you get there?",
            settings={"slope": "not_squared"},
        ),
        Mistake(
            "no_slope",
            "The slope of tanh is left out: only powers of W_h are multiplied.",
            "How much does tanh pass on where it is flat?",
            settings={"slope": "none"},
        ),
        Mistake(
            "tanh_again",
            "tanh is applied once more before the slope is taken; H already holds tanh's "
            "results.",
            "If h = tanh(a), what is tanh'(a), written with h alone?",
            settings={"slope": "tanh_again"},
        ),
        Mistake(
            "sigmoid_slope",
            "h (1 - h) is the slope of a sigmoid; this network uses tanh.",
            "What is the slope of tanh at 0, where h = 0?",
            settings={"slope": "sigmoid"},
        ),
        Mistake(
            "rows_scaled",
            "The slope scales the rows of W_h instead of its columns.",
            "Entry [i, j] leads from h_{t-1}[i] to h_t[j]. Whose tanh is passed, i's or "
            "j's?",
            settings={"along": "rows"},
        ),
        Mistake(
            "weights_transposed",
            "W_h is transposed before its columns are scaled.",
            "Which entry of W_h leads from h_{t-1}[i] to h_t[j]: [i, j] or [j, i]?",
            settings={"along": "transposed"},
        ),
        Mistake(
            "order_reversed",
            "The Jacobians are multiplied in the order J_T ... J_1.",
            "A small change of h_0 is a row. Which Jacobian does it meet first?",
            settings={"product": "backward"},
        ),
        Mistake(
            "elementwise",
            "The Jacobians are multiplied number by number (*) instead of as matrices "
            "(@).",
            "Over how many paths can h_0[i] reach h_2[j]?",
            settings={"product": "elementwise"},
        ),
        Mistake(
            "summed",
            "The Jacobians are added instead of multiplied.",
            "What does the chain rule do with the derivatives of nested functions?",
            settings={"product": "sum"},
        ),
        Mistake(
            "starts_at_zero",
            "The product starts from a matrix of zeros, so it stays zero.",
            "Which matrix changes nothing when another is multiplied by it?",
            settings={"start": "zeros"},
        ),
        Mistake(
            "starts_at_ones",
            "The product starts from a matrix full of ones.",
            "Which matrix changes nothing when another is multiplied by it?",
            settings={"start": "ones"},
        ),
        Mistake(
            "first_missing",
            "The first step's Jacobian is missing.",
            "How many steps lead from h_0 to h_T, and how many factors do you have?",
            settings={"steps": "without_first"},
        ),
        Mistake(
            "last_missing",
            "The last step's Jacobian is missing.",
            "How many steps lead from h_0 to h_T, and how many factors do you have?",
            settings={"steps": "without_last"},
        ),
        Mistake(
            "old_state",
            "The slope is taken at the state before the step instead of after it (and "
            "at zero in the first step).",
            "tanh gives h_t. Which state tells its slope, h_{t-1} or h_t?",
            settings={"steps": "from_zero"},
        ),
        Mistake(
            "old_state_wrapped",
            "The slope is taken at the state before the step; and in the first step "
            "H[t - 1] is H[-1], the last row.",
            "What does H[t - 1] mean in Python when t is 0?",
            settings={"steps": "wrapped"},
        ),
        Mistake(
            "last_slope_only",
            "Every step uses the slope at the last state.",
            "Is the state the same at every step?",
            settings={"steps": "last_only"},
        ),
    ),
)  # fmt: skip


# lstm_step


def _lstm(
    order: str = "ifgo",
    candidate: str = "tanh",
    gates: str = "sigmoid",
    forget: str = "right",
    entry: str = "gated",
    outcome: str = "right",
    returned: str = "hc",
    bias: str = "right",
) -> Function:
    """One LSTM step, with the faults that are asked for."""

    def lstm_step(x: Any, h: Any, c: Any, W_x: Any, W_h: Any, b: Any) -> Any:
        a = x @ W_x + h @ W_h + (0.0 if bias == "none" else b)
        blocks = a.reshape(-1, 4).T if order == "mixed" else np.split(a, 4, axis=-1)
        letters = "ifgo" if order == "mixed" else order
        parts = dict(zip(letters, blocks, strict=True))
        if bias == "forget_plus_one":
            parts["f"] = parts["f"] + 1.0
        squash = _sigmoid if gates == "sigmoid" else np.tanh
        i, f, o = (squash(parts[key]) for key in "ifo")
        g = parts["g"]
        if candidate != "none":
            g = np.tanh(g) if candidate == "tanh" else _sigmoid(g)
        if forget == "inverted":
            f = 1.0 - f
        elif forget == "coupled":
            i = 1.0 - f
        elif forget == "ignored":
            f = np.ones_like(f)
        elif forget == "erased":
            f = np.zeros_like(f)
        elif forget == "keeps_h":
            c = h
        c_new = f * c + (i * g if entry == "gated" else g)
        if outcome == "no_tanh":
            h_new = o * c_new
        elif outcome == "old_cell":
            h_new = o * np.tanh(c)
        elif outcome == "no_gate":
            h_new = np.tanh(c_new)
        elif outcome == "outside":
            h_new = np.tanh(o * c_new)
        else:
            h_new = o * np.tanh(c_new)
        return (h_new, c_new) if returned == "hc" else (c_new, h_new)

    return lstm_step


def _one_gate(gate: int, value: float, cell: float, about: str) -> Probe:
    """Width 1, all weights zero: only one gate's bias acts, and ``g``'s is 0.5."""
    b = np.array([0.0, 0.0, 0.5, 0.0])
    b[gate] = value
    return Probe(
        np.zeros(1), np.zeros(1), np.array([cell]), np.zeros((1, 4)), np.zeros((1, 4)),
        b, about=about,
    )  # fmt: skip


LSTM_STEP = Exercise(
    name="lstm_step",
    arguments=("x", "h", "c", "W_x", "W_h", "b"),
    statement="Return the next state and cell (h, c). The columns of W_x, W_h and b "
    "hold input gate, forget gate, candidate and output gate, in this order.",
    ask="Print the four gates for the input shown. Which of them is not what you "
    "expect?",
    reference=lambda x, h, c, W_x, W_h, b: reference.lstm_cell(x, h, c, W_x, W_h, b),
    returns=("h", "c"),
    probes=(
        _one_gate(1, 20.0, 2.0, "the forget gate open and all weights zero"),
        _one_gate(1, -20.0, 2.0, "the forget gate shut and all weights zero"),
        _one_gate(0, -20.0, 2.0, "the input gate shut and all weights zero"),
        _one_gate(3, 20.0, 2.0, "the output gate open and all weights zero"),
        _one_gate(2, -1.0, 0.0, "a negative candidate and all weights zero"),
        _one_gate(0, 1.0, -1.5, "a negative cell and all weights zero"),
        Probe(
            np.zeros(1),
            np.zeros(2),
            np.array([1.0, -1.0]),
            np.zeros((1, 8)),
            np.zeros((2, 8)),
            np.array([20.0, -20.0, 20.0, 20.0, 0.5, -0.5, 20.0, 20.0]),
            about="two cells, one with its input gate shut, and all weights zero",
        ),
        Probe(
            numbers(41, 2),
            numbers(42, 3),
            numbers(43, 3),
            numbers(44, 2, 12),
            numbers(45, 3, 12),
            numbers(46, 12),
            about="d_in = 2, d_hidden = 3",
        ),
        Probe(
            numbers(47, 5),
            numbers(48, 2),
            numbers(49, 2),
            numbers(50, 5, 8),
            numbers(51, 2, 8),
            np.zeros(8),
            about="b = 0",
        ),
    ),
    assemble=_lstm,
    mistakes=(
        Mistake(
            "i_f_o_g",
            "The last two blocks of columns are exchanged: candidate and output gate "
            "(i, f, o, g instead of i, f, g, o).",
            "Set only the last quarter of b to 20. Which gate must open?",
            settings={"order": "ifog"},
        ),
        Mistake(
            "f_i_g_o",
            "Input and forget gate are exchanged (f, i, g, o instead of i, f, g, o).",
            "Set only the second quarter of b to 20. Is the old cell kept?",
            settings={"order": "figo"},
        ),
        Mistake(
            "i_g_f_o",
            "The columns are read as i, g, f, o instead of i, f, g, o.",
            "Set only the second quarter of b to 20. Is the old cell kept?",
            settings={"order": "igfo"},
        ),
        Mistake(
            "interleaved",
            "The columns are read in turn (i, f, g, o, i, f, g, o, ...) instead of in "
            "four blocks.",
            "Which columns belong to the input gate when d_hidden is 3?",
            settings={"order": "mixed"},
        ),
        Mistake(
            "candidate_sigmoid",
            "The candidate g goes through a sigmoid instead of tanh, so the cell can "
            "never go down.",
            "What is written into the cell when the candidate's sum is -1?",
            settings={"candidate": "sigmoid"},
        ),
        Mistake(
            "candidate_plain",
            "The tanh of the candidate g is missing.",
            "What bounds the numbers that are written into the cell?",
            settings={"candidate": "none"},
        ),
        Mistake(
            "gates_tanh",
            "The gates go through tanh instead of a sigmoid.",
            "A gate lets through a share between none and all. Which function gives "
            "numbers between 0 and 1?",
            settings={"gates": "tanh"},
        ),
        Mistake(
            "forget_inverted",
            "The forget gate works the wrong way round: the old cell is multiplied by "
            "1 - f.",
            "The gate is called forget, but what does f = 1 do to the old cell?",
            settings={"forget": "inverted"},
        ),
        Mistake(
            "coupled",
            "The input gate is replaced by 1 - f, as in a GRU.",
            "Can an LSTM keep the old cell and write a new value in the same step?",
            settings={"forget": "coupled"},
        ),
        Mistake(
            "forget_ignored",
            "The forget gate is not used: the old cell is always kept in full.",
            "How does the cell ever get rid of something?",
            settings={"forget": "ignored"},
        ),
        Mistake(
            "cell_erased",
            "The old cell does not enter the new one.",
            "Which term carries the cell from one step to the next?",
            settings={"forget": "erased"},
        ),
        Mistake(
            "keeps_h",
            "The forget gate keeps the old state h instead of the old cell c.",
            "Which of the two is the memory, and which is what others see?",
            settings={"forget": "keeps_h"},
        ),
        Mistake(
            "input_ungated",
            "The candidate is added without the input gate.",
            "What should be written when the input gate is shut?",
            settings={"entry": "ungated"},
        ),
        Mistake(
            "no_tanh_of_cell",
            "The tanh of the new cell is missing in h.",
            "The cell may grow without bound. What keeps h between -1 and 1?",
            settings={"outcome": "no_tanh"},
        ),
        Mistake(
            "old_cell_read",
            "h is read from the old cell instead of the new one.",
            "Is the cell updated before or after h is read from it?",
            settings={"outcome": "old_cell"},
        ),
        Mistake(
            "output_ungated",
            "The output gate is missing in h.",
            "What should h be when the output gate is shut?",
            settings={"outcome": "no_gate"},
        ),
        Mistake(
            "gate_inside",
            "The output gate stands inside the tanh: tanh(o c) instead of o tanh(c).",
            "Which is computed first, the tanh or the gate?",
            settings={"outcome": "outside"},
        ),
        Mistake(
            "c_h",
            "The results are returned in the order (c, h).",
            "Which of the two does the next layer read, and which comes first here?",
            settings={"returned": "ch"},
        ),
        Mistake(
            "no_bias",
            "The bias b is not added.",
            "What are the gates when x and h are both zero?",
            settings={"bias": "none"},
        ),
        Mistake(
            "forget_plus_one",
            "1 is added to the forget gate's sum. A forget bias belongs into b, where "
            "it can be set and trained.",
            "Is the forget gate 0.5 when all its inputs are zero?",
            settings={"bias": "forget_plus_one"},
        ),
    ),
)


# recurrent_factor: w ** distance == reach

RECURRENT_FACTOR = Exercise(
    name="recurrent_factor",
    arguments=("reach", "distance"),
    statement="Return the factor w whose distance-th power is reach.",
    ask="Multiply your factor by itself, distance times. Is that the reach?",
    reference=lambda reach, distance: reference.recurrent_factor(reach, distance),
    probes=(
        Probe(0.25, 2, about="reach 0.25 at distance 2"),
        Probe(0.5, 50, about="reach 0.5 at distance 50"),
        Probe(0.125, 3, about="reach 0.125 at distance 3"),
        Probe(1.0, 7, about="reach 1"),
        Probe(8.0, 3, about="reach 8, more than at the start"),
        Probe(0.9, 1, about="distance 1"),
        Probe(0.001, 30, about="reach 0.001 at distance 30"),
    ),
    mistakes=(
        Mistake(
            "divided",
            "The reach is divided by the distance. (reach ** 1 / distance means that "
            "too: ** binds before /.)",
            "Multiply your factor by itself, distance times. Is the reach what is left?",
            lambda reach, distance: reach / distance,
        ),
        Mistake(
            "power",
            "The reach is raised to the distance: that is what is left when the factor "
            "is reach, not the factor that leaves reach.",
            "Which operation undoes a power?",
            lambda reach, distance: reach**distance,
        ),
        Mistake(
            "linear",
            "The loss is spread evenly over the steps, 1 - (1 - reach) / distance, as "
            "if each step took away the same amount.",
            "Does each step take away an amount, or a share of what is left?",
            lambda reach, distance: 1.0 - (1.0 - reach) / distance,
        ),
        Mistake(
            "linear_short",
            "1 - reach / distance spreads the reach over the steps, as if each step "
            "took away the same amount.",
            "Does each step take away an amount, or a share of what is left?",
            lambda reach, distance: 1.0 - reach / distance,
        ),
        Mistake(
            "integer_division",
            "1 // distance is 0 for every distance above 1, so the power is 1.",
            "What is 1 // 50 in Python?",
            lambda reach, distance: reach ** (1 // distance),
        ),
        Mistake(
            "logarithm",
            "log(reach) / distance is the logarithm of the factor, not the factor.",
            "Which function undoes the logarithm?",
            lambda reach, distance: np.log(reach) / distance,
        ),
        Mistake(
            "other_base",
            "log10 and exp do not undo each other.",
            "Which base does exp belong to?",
            lambda reach, distance: np.exp(np.log10(reach) / distance),
        ),
        Mistake(
            "wrong_way_round",
            "Reach and distance are exchanged: distance ** (1 / reach).",
            "Which number is multiplied with itself, and how often?",
            lambda reach, distance: distance ** (1.0 / reach),
        ),
        Mistake(
            "square_root",
            "That is the square root of reach at every distance.",
            "After 50 steps, which root undoes the 50th power?",
            lambda reach, distance: reach**0.5,
        ),
        Mistake(
            "one_step_short",
            "The root has one step too few: distance - 1.",
            "How many factors are multiplied from h_0 to h_T?",
            lambda reach, distance: reach ** (1.0 / max(distance - 1, 1)),
        ),
        Mistake(
            "one_step_long",
            "The root has one step too many: distance + 1.",
            "How many factors are multiplied from h_0 to h_T?",
            lambda reach, distance: reach ** (1.0 / (distance + 1)),
        ),
    ),
    numbers=Pencil(
        name="recurrent_factor",
        statement="Which factor leaves a reach of 0.5 at distance 50?",
        blanks=(
            Blank(
                "factor",
                0.5 ** (1 / 50),
                "Multiply your number by itself 50 times. Is a half left? Three decimals "
                "are needed.",
                tolerance=0.0006,
            ),
        ),
        mistakes=(
            Slip(
                "divided",
                "That is 0.5 / 50.",
                "Does each step take away an amount, or a share of what is left?",
                {"factor": 0.01},
            ),
            Slip(
                "linear",
                "That is 1 - 0.5 / 50, as if each step took away the same amount.",
                "Does each step take away an amount, or a share of what is left?",
                {"factor": 0.99},
            ),
            Slip(
                "logarithm",
                "That is log(0.5) / 50, the logarithm of the factor.",
                "Which function undoes the logarithm?",
                {"factor": np.log(0.5) / 50},
            ),
            Slip(
                "power",
                "That is 0.5 to the power 50: what is left when the factor is 0.5.",
                "Which operation undoes a power?",
                {"factor": 0.0},
            ),
            Slip(
                "square_root",
                "That is the square root of 0.5: the factor for distance 2.",
                "Which root undoes the 50th power?",
                {"factor": 0.5**0.5},
            ),
            Slip(
                "two_decimals",
                "To two decimals the number is too coarse: its 50th power is far from a "
                "half.",
                "How many decimals are needed before the 50th power is 0.5?",
                {"factor": 0.98},
            ),
        ),
    ),
)


# last_state: a padded batch


def _pick(H: Any, lengths: Any, last: Any) -> np.ndarray:
    return np.asarray(H[np.arange(len(H)), last])


def _mean_of_real(H: Any, lengths: Any) -> np.ndarray:
    pairs = zip(H, lengths, strict=True)
    return np.array([h[:length].mean(axis=0) for h, length in pairs])


def _sum_of_real(H: Any, lengths: Any) -> np.ndarray:
    pairs = zip(H, lengths, strict=True)
    return np.array([h[:length].sum(axis=0) for h, length in pairs])


def _largest_of_real(H: Any, lengths: Any) -> np.ndarray:
    pairs = zip(H, lengths, strict=True)
    return np.array([h[:length].max(axis=0) for h, length in pairs])


LAST_STATE = Exercise(
    name="last_state",
    arguments=("H", "lengths"),
    statement="Return the state at each sequence's last real token, shape (batch, d), "
    "from the padded states H (batch, n, d) and the number of real tokens of each.",
    ask="Which index has the last real token of the first sequence shown, and which "
    "does your code use?",
    reference=lambda H, lengths: reference.last_state(H, lengths),
    probes=(
        Probe(
            np.arange(1.0, 7.0).reshape(2, 3, 1), np.array([3, 2]),
            about="two sequences of lengths 3 and 2",
        ),
        Probe(
            np.arange(1.0, 5.0).reshape(2, 2, 1), np.array([2, 1]),
            about="two sequences of lengths 2 and 1",
        ),
        Probe(
            np.arange(1.0, 9.0).reshape(2, 4, 1), np.array([2, 3]),
            about="two sequences of four places, none of them full",
        ),
        Probe(numbers(61, 3, 3, 2), np.array([3, 3, 3]), about="no padding"),
        Probe(numbers(62, 3, 5, 2), np.array([4, 1, 2]), about="three sequences"),
        Probe(numbers(63, 1, 4, 3), np.array([2]), about="one sequence"),
    ),
    planted=("last_place",),
    mistakes=(
        Mistake(
            "last_place",
            "The state at the last place is taken, H[:, -1]: for a short sequence that "
            "is a state after padding.",
            "What stands at the last place of a sequence that is shorter than the batch?",
            lambda H, lengths: H[:, -1],
        ),
        Mistake(
            "one_too_far",
            "The index is one too large: the last of `length` tokens has the index "
            "length - 1.",
            "Which index has the last token of a sequence of length 1?",
            lambda H, lengths: _pick(H, lengths, lengths),
        ),
        Mistake(
            "one_too_early",
            "The index is one too small.",
            "Which index has the last token of a sequence of length 1?",
            lambda H, lengths: _pick(H, lengths, lengths - 2),
        ),
        Mistake(
            "first",
            "The state at the first place is taken.",
            "Which state has read the whole sequence?",
            lambda H, lengths: H[:, 0],
        ),
        Mistake(
            "every_pair",
            "H[:, lengths - 1] takes every length from every sequence: one axis too "
            "many.",
            "Which index array along the batch says that sequence k goes with length k?",
            lambda H, lengths: H[:, lengths - 1],
        ),
        Mistake(
            "longest",
            "All sequences are read at the end of the longest one.",
            "Do all sequences of a batch end at the same place?",
            lambda H, lengths: H[:, lengths.max() - 1],
        ),
        Mistake(
            "shortest",
            "All sequences are read at the end of the shortest one.",
            "Do all sequences of a batch end at the same place?",
            lambda H, lengths: H[:, lengths.min() - 1],
        ),
        Mistake(
            "first_length",
            "All sequences are read at the end of the first one.",
            "Do all sequences of a batch end at the same place?",
            lambda H, lengths: H[:, lengths[0] - 1],
        ),
        Mistake(
            "from_the_end",
            "H[k, -length] counts from the end of the padded sequence.",
            "Which index does -length mean when there are n places?",
            lambda H, lengths: _pick(H, lengths, -lengths),
        ),
        Mistake(
            "axes_exchanged",
            "The first axis of H is the batch, and here it is taken for the time.",
            "Which shape does H have: (batch, n, d) or (n, batch, d)?",
            lambda H, lengths: H[lengths - 1, np.arange(len(lengths))],
        ),
        Mistake(
            "mean",
            "That is the average of the states at the real tokens, not the last one.",
            "Which single state has read the whole sequence?",
            _mean_of_real,
        ),
        Mistake(
            "largest",
            "That is the largest number of each column among the real tokens, not the "
            "last state.",
            "Which single state has read the whole sequence?",
            _largest_of_real,
        ),
        Mistake(
            "summed",
            "That is the sum of the states at the real tokens, not the last one.",
            "Which single state has read the whole sequence?",
            _sum_of_real,
        ),
    ),
)  # fmt: skip
