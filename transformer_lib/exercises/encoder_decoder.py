"""Exercises of chapter 9: cross-attention, the shift, the layer, the count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from transformer_lib.exercises.attention import X_TOKENS
from transformer_lib.exercises.engine import (
    Exercise,
    Mistake,
    Probe,
    Property,
    numbers,
)
from transformer_lib.exercises.pencil import Blank, Pencil, Slip
from transformer_lib.reference.lookup import masked_softmax, softmax

EXERCISES = (
    "pencil_cross",
    "cross_attention",
    "shifted",
    "transformer_parameters",
    "repaired_decoder_layer",
    "cross_attention_backward",
)

Function = Callable[..., Any]


# pencil_cross: the token Katze asks the three source tokens


_W_Q = np.array([[1.0, 1.0], [0.0, 1.0]])
_W_K = np.array([[0.0, 1.0], [1.0, 1.0]])
_W_V = np.array([[1.0, 0.0], [-1.0, 1.0]])
_KATZE = np.array([1.0, -1.0])


def _sheet(
    query: np.ndarray | None = None,
    divisor: float = 2**0.5,
    values: str = "right",
    spread: str = "softmax",
) -> dict[str, Any]:
    """All blanks for the token Katze, with the faults that are asked for."""
    q = _KATZE @ _W_Q if query is None else query
    K, V = X_TOKENS @ _W_K, X_TOKENS @ _W_V
    scores = K @ q
    scaled = scores / divisor
    weights = softmax(scaled) if spread == "softmax" else scores / scores.sum()
    carried = {"right": V, "keys": K, "raw": X_TOKENS}[values]
    return {
        "query": q,
        "scores": scores,
        "scaled": scaled,
        "weights": weights,
        "output": weights @ carried,
        "one_weight": 1.0,
        "one_output": V[2],
    }


_RIGHT = _sheet()
_BY_COLUMN = _sheet(_W_Q @ _KATZE)
_BY_W_K = _sheet(_KATZE @ _W_K)
_OF_SAT = _sheet(X_TOKENS[2] @ _W_Q)


def _of(sheet: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: sheet[name] for name in names}


PENCIL_CROSS = Pencil(
    name="pencil_cross",
    statement="Let the target token Katze = (1, -1) ask the source tokens the, cat, sat: "
    "its query, scores, scaled scores, weights, output. Then hide the and cat: the weight "
    "of sat, and the output.",
    blanks=(
        Blank(
            "query",
            _RIGHT["query"],
            "Katze is the row (1, -1). What does it give with each column of W_Q?",
        ),
        Blank(
            "scores",
            _RIGHT["scores"],
            "The keys are those of the, cat and sat. What is the query times each?",
        ),
        Blank("scaled", _RIGHT["scaled"], "How wide is a key? Divide by its root."),
        Blank(
            "weights",
            _RIGHT["weights"],
            "Take e to the scaled scores and divide by their sum.",
        ),
        Blank(
            "output",
            _RIGHT["output"],
            "Weigh the values of the source, (1, 0), (-2, 2), (1, 1), and add.",
        ),
        Blank(
            "one_weight",
            1.0,
            "One key is left. What must the weights of a row sum to?",
        ),
        Blank(
            "one_output",
            _RIGHT["one_output"],
            "The output is the weighted average of one value. Which one?",
        ),
    ),
    mistakes=(
        Slip(
            "query_by_column",
            "W_Q was multiplied from the left, with the token as a column; here a token "
            "is a row.",
            "What is the row (1, -1) times the first column of W_Q?",
            _of(_BY_COLUMN, "query", "scores", "scaled", "weights", "output"),
        ),
        Slip(
            "query_by_W_K",
            "The query was made with W_K.",
            "Which of the three matrices makes queries?",
            _of(_BY_W_K, "query", "scores", "scaled", "weights", "output"),
        ),
        Slip(
            "query_of_the_source",
            "That is the query of sat. In cross-attention the target asks.",
            "Who asks: Katze, or a word of the source?",
            _of(_OF_SAT, "query", "scores", "scaled", "weights", "output"),
        ),
        Slip(
            "not_scaled",
            "The scores were not divided.",
            "By what does the formula divide the scores?",
            _of(_sheet(divisor=1.0), "scaled", "weights", "output"),
        ),
        Slip(
            "scaled_by_width",
            "The scores were divided by 2, the width; it is the root of 2.",
            "What is the root of 2, with three digits?",
            _of(_sheet(divisor=2.0), "scaled", "weights", "output"),
        ),
        Slip(
            "scaled_by_source",
            "The scores were divided by the root of 3, the number of source tokens.",
            "Does the divisor count tokens, or the numbers of a key?",
            _of(_sheet(divisor=3**0.5), "scaled", "weights", "output"),
        ),
        Slip(
            "shares_of_scores",
            "The scores themselves were divided by their sum; the exponential is missing.",
            "What does softmax do to a number before it divides?",
            _of(_sheet(spread="shares"), "weights", "output"),
        ),
        Slip(
            "keys_averaged",
            "The keys were averaged; what is handed over are the values.",
            "What are the rows of V?",
            _of(_sheet(values="keys"), "output"),
        ),
        Slip(
            "tokens_averaged",
            "The source tokens themselves were averaged; what is handed over are their "
            "values.",
            "What are the rows of V?",
            _of(_sheet(values="raw"), "output"),
        ),
        Slip(
            "weight_kept",
            "That is the weight that sat had among three. With the others hidden, the "
            "softmax runs over what is left.",
            "What must the weights of a row sum to?",
            {
                "one_weight": _RIGHT["weights"][2],
                "one_output": _RIGHT["weights"][2] * _RIGHT["one_output"],
            },
        ),
        Slip(
            "one_output_is_the_token",
            "That is the token sat; what is handed over is its value.",
            "What is (2, 1) times W_V?",
            {"one_output": X_TOKENS[2]},
        ),
    ),
)


# cross_attention


def _attend(
    asks: str = "target",
    keys: str = "memory",
    values: str = "memory",
    mask: str = "keys",
    scale: str = "key",
    axis: int = -1,
) -> Function:
    """Cross-attention with the faults that are asked for."""

    def cross_attention_with(
        Y: Any, M: Any, W_Q: Any, W_K: Any, W_V: Any, visible: Any
    ) -> Any:
        Q = (Y if asks == "target" else M) @ W_Q
        K = (M if keys == "memory" else Y) @ W_K
        V = (M if values == "memory" else Y) @ W_V
        S = Q @ K.T / {"key": np.sqrt(K.shape[-1]), "none": 1.0,
                       "width": np.sqrt(Y.shape[-1]),
                       "not_rooted": float(K.shape[-1])}[scale]  # fmt: skip
        if mask == "none":
            A = softmax(S, axis=axis)
        elif mask == "inverted":
            A = masked_softmax(S, ~visible)
        elif mask == "after":
            A = softmax(S, axis=axis) * visible
        elif mask == "multiplied":
            A = softmax(S * visible, axis=axis)
        elif mask == "queries":
            A = softmax(S, axis=axis) * visible[:, None]
        elif mask == "causal":
            A = masked_softmax(S, np.tril(np.ones(S.shape, dtype=bool)) & visible)
        elif axis == 0:
            A = softmax(np.where(visible, S, -1e9), axis=0)
        else:
            A = masked_softmax(S, visible & np.ones(S.shape, dtype=bool))
        return A @ V

    return cross_attention_with


def _cross_attention(Y: Any, M: Any, W_Q: Any, W_K: Any, W_V: Any, visible: Any) -> Any:
    return _attend()(Y, M, W_Q, W_K, W_V, visible)


def _seen(*which: int) -> np.ndarray:
    return np.array(which, dtype=bool)


CROSS_ATTENTION = Exercise(
    name="cross_attention",
    arguments=("Y", "M", "W_Q", "W_K", "W_V", "visible"),
    statement="Return the output of one head of cross-attention: the target Y (n_t, d) "
    "asks, the memory M (n_s, d) answers, and visible (n_s,) is True where a source token "
    "is no padding.",
    ask="How many rows has the output? Which of them may change when a padding token "
    "changes?",
    reference=_cross_attention,
    probes=(
        Probe(
            np.array([[1.0, -1.0], [0.0, 1.0]]), X_TOKENS[:1], _W_Q, _W_K, _W_V,
            _seen(1), about="a single source token, so every weight is 1",
        ),
        Probe(
            np.array([[1.0, -1.0], [0.0, 1.0]]), X_TOKENS, _W_Q, _W_K, _W_V,
            _seen(1, 1, 1), about="the tokens of the chapter, nothing hidden",
        ),
        Probe(
            np.array([[1.0, -1.0], [0.0, 1.0]]), X_TOKENS, _W_Q, _W_K, _W_V,
            _seen(1, 1, 0), about="the last source token is padding",
        ),
        Probe(
            numbers(901, 3, 4), numbers(902, 3, 4), numbers(903, 4, 4), numbers(904, 4, 4),
            numbers(905, 4, 4), _seen(1, 1, 1),
            about="source and target of one length, nothing hidden",
        ),
        Probe(
            numbers(906, 3, 4), numbers(907, 3, 4), numbers(908, 4, 2), numbers(909, 4, 2),
            numbers(910, 4, 3), _seen(1, 1, 0),
            about="source and target of one length, one padding token, d_k = 2",
        ),
        Probe(
            numbers(911, 5, 4), numbers(912, 3, 4), numbers(913, 4, 3), numbers(914, 4, 3),
            numbers(915, 4, 2), _seen(1, 0, 1), about="five target tokens and three of source",
        ),
        Probe(
            numbers(916, 2, 3), numbers(917, 6, 3), numbers(918, 3, 5), numbers(919, 3, 5),
            numbers(920, 3, 2), _seen(1, 1, 1, 1, 0, 0),
            about="two target tokens and six of source",
        ),
    ),
    assemble=_attend,
    mistakes=(
        Mistake(
            "source_asks",
            "The queries are made of the memory; the target should ask.",
            "How many rows should the output have: one per target token, or per source "
            "token?",
            settings={"asks": "memory"},
        ),
        Mistake(
            "keys_of_the_target",
            "The keys are made of the target; the source should answer.",
            "With what is a query compared: the text that is written or the text that is "
            "read?",
            settings={"keys": "target"},
        ),
        Mistake(
            "values_of_the_target",
            "The values are made of the target; the source should hand over.",
            "What does the decoder want to bring home from the source?",
            settings={"values": "target"},
        ),
        Mistake(
            "self_attention",
            "Keys and values are made of the target: that is the decoder's "
            "self-attention, and the source is not used.",
            "Does your output change when M changes?",
            _attend(keys="target", values="target"),
        ),
        Mistake(
            "padding_seen",
            "The padding of the source is not hidden.",
            "May the output change when a padding token changes?",
            settings={"mask": "none"},
        ),
        Mistake(
            "mask_inverted",
            "The mask is turned round: padding is seen, and all else is hidden.",
            "What does True in visible mean?",
            settings={"mask": "inverted"},
        ),
        Mistake(
            "masked_after_softmax",
            "The weights of padding are set to 0 after the softmax, so a row sums to less "
            "than 1.",
            "What should the weights of a row sum to?",
            settings={"mask": "after"},
        ),
        Mistake(
            "scores_multiplied",
            "The scores of padding are multiplied by 0, which leaves them a share.",
            "What is e to the power of 0?",
            settings={"mask": "multiplied"},
        ),
        Mistake(
            "queries_hidden",
            "The mask of the source hides rows, that is, target tokens that ask.",
            "Along which axis of the scores do the source tokens stand?",
            settings={"mask": "queries"},
        ),
        Mistake(
            "causal",
            "The triangle of the decoder's self-attention lies over the source. The whole "
            "source may be seen from every target token.",
            "Is any word of the source later than the word that is being written?",
            settings={"mask": "causal"},
        ),
        Mistake(
            "not_scaled",
            "The scores are not divided by the root of d_k.",
            "What are the scaled scores of Katze on the pencil sheet?",
            settings={"scale": "none"},
        ),
        Mistake(
            "scaled_by_model",
            "The scores are divided by the root of the model's width instead of that of a "
            "key.",
            "How many products does one score add up?",
            settings={"scale": "width"},
        ),
        Mistake(
            "not_rooted",
            "The scores are divided by d_k instead of by its root.",
            "What is the standard deviation of a sum of d_k products?",
            settings={"scale": "not_rooted"},
        ),
        Mistake(
            "over_queries",
            "The softmax runs down the queries instead of along the keys.",
            "Who competes for the attention of one target token?",
            settings={"axis": 0},
        ),
    ),
)  # fmt: skip


# shifted: what the decoder reads and what it is asked for


def _shift(how: str = "right") -> Function:
    """Inputs and labels with the fault that is asked for."""

    def shifted_with(ids: Any, start: Any, end: Any) -> Any:
        read, asked = np.append(start, ids), np.append(ids, end)
        whole = np.append(read, end)
        pairs = {
            "right": (read, asked),
            "copy": (read, read),
            "copy_labels": (asked, asked),
            "whole": (whole, whole),
            "backwards": (asked, read),
            "no_start": (ids, asked[1:]),
            "no_end": (read[:-1], ids),
            "neither": (ids[:-1], ids[1:]),
            "end_is_read": (whole, asked),
            "start_is_asked": (read, whole),
            "two_places": (read[:-1], asked[1:]),
        }
        return pairs[how]

    return shifted_with


SHIFTED = Exercise(
    name="shifted",
    arguments=("ids", "start", "end"),
    statement="Return (inputs, labels) for a target sentence with the token numbers ids: "
    "what the decoder reads, and what it is asked for at each place.",
    ask="Write inputs and labels under each other. What does the decoder see at the first "
    "place, and what should it say there?",
    reference=_shift(),
    returns=("inputs", "labels"),
    probes=(
        Probe(np.array([7]), 1, 2, about="a sentence of one token"),
        Probe(np.array([7, 8, 9]), 1, 2, about="three tokens"),
        Probe(
            np.array([5, 5, 4, 6, 5]), 0, 3, about="five tokens, one of them repeated"
        ),
        Probe(np.array([4, 3, 9, 9]), 11, 12, about="four tokens, other start and end"),
    ),
    properties=(
        Property(
            "inputs and labels have one length, since each place is asked one question, "
            "and here they have not.",
            lambda got, ids, start, end: len(got[0]) == len(got[1]),
        ),
    ),
    mistakes=(
        Mistake(
            "not_shifted",
            "The labels are the inputs: the decoder is asked for the token that it has "
            "before its eyes. Its loss will soon be 0, and it will write the start for ever.",
            "At the first place the decoder reads the start. What should it say?",
            _shift("copy"),
        ),
        Mistake(
            "labels_read",
            "The decoder reads the labels themselves: each place sees its own answer.",
            "At the first place nothing is written yet. What can be read there?",
            _shift("copy_labels"),
        ),
        Mistake(
            "everything_twice",
            "Both are start, sentence and end: nothing is shifted.",
            "Which token is never read, and which is never asked for?",
            _shift("whole"),
        ),
        Mistake(
            "wrong_way",
            "The two have changed places, so the decoder is asked for the token before: "
            "the shift runs the wrong way.",
            "At the place that reads the first word, what comes next?",
            _shift("backwards"),
        ),
        Mistake(
            "start_missing",
            "The start is missing, so nobody learns to say the first token.",
            "What does the decoder read when nothing is written yet?",
            _shift("no_start"),
        ),
        Mistake(
            "end_missing",
            "The end is missing, so nobody learns to stop.",
            "What should be said after the last word?",
            _shift("no_end"),
        ),
        Mistake(
            "start_and_end_missing",
            "Start and end are missing: nobody learns to begin or to stop.",
            "What does the decoder read first, and what should it say last?",
            _shift("neither"),
        ),
        Mistake(
            "end_read",
            "The end is read, too, and nothing is asked behind it.",
            "What should be said after the end?",
            _shift("end_is_read"),
        ),
        Mistake(
            "start_asked",
            "The start is asked for, and nobody has to say it.",
            "Which token stands above the first label?",
            _shift("start_is_asked"),
        ),
        Mistake(
            "two_places",
            "Inputs and labels lie two places apart.",
            "At the place that reads the start, what comes next?",
            _shift("two_places"),
        ),
    ),
)


# transformer_parameters


def _count(
    attention: str = "biases",
    network: str = "biases",
    norms: str = "each",
    table: str = "tied",
    cross: str = "yes",
    last: str = "none",
    layers: str = "own",
) -> Function:
    """Number of parameters with the faults that are asked for."""

    def parameters_with(
        vocab_size: Any, d: Any, d_ff: Any, n_enc: Any, n_dec: Any
    ) -> Any:
        look = {"biases": 4 * (d * d + d), "no_biases": 4 * d * d,
                "three": 3 * (d * d + d)}[attention]  # fmt: skip
        think = {"biases": 2 * d * d_ff + d_ff + d, "no_biases": 2 * d * d_ff,
                 "one": d * d_ff + d_ff, "both_wide": 2 * (d * d_ff + d_ff)}[network]  # fmt: skip
        norm = {"each": 2 * d, "gamma": d, "one": 2 * d, "none": 0}[norms]
        looks = 2 if cross == "yes" else 1
        encoder = look + think + norm * (1 if norms == "one" else 2)
        decoder = looks * look + think + norm * (1 if norms == "one" else 1 + looks)
        if layers == "shared":
            n_enc = n_dec = 1
        elif layers == "alike":
            decoder = encoder
        elif layers == "one_stack":
            n_dec = 0
        tables = {"tied": 1, "untied": 3, "two": 2, "none": 0}[table]
        more = {"none": 0, "norms": 4 * d, "head_bias": vocab_size}[last]
        return vocab_size * d * tables + n_enc * encoder + n_dec * decoder + more

    return parameters_with


TRANSFORMER_PARAMETERS = Exercise(
    name="transformer_parameters",
    arguments=("vocab_size", "d", "d_ff", "n_enc", "n_dec"),
    statement="Return the number of parameters of an encoder-decoder: biases in all "
    "projections and in the network, a norm behind each sub-layer, none at the ends, one "
    "table of tokens for both inputs and the scores, sinusoids.",
    ask="Take your sum apart: how many numbers has one attention, one network, one norm, "
    "and how many of each are there?",
    reference=_count(),
    probes=(
        Probe(5, 2, 3, 0, 0, about="no layers, so only the table is left"),
        Probe(1, 1, 1, 1, 0, about="one encoder layer, and every size 1"),
        Probe(1, 1, 1, 0, 1, about="one decoder layer, and every size 1"),
        Probe(7, 4, 16, 1, 1, about="one layer each, width 4"),
        Probe(100, 8, 32, 2, 3, about="two and three layers, width 8"),
        Probe(37_000, 512, 2_048, 6, 6, about="the base model of 2017"),
        Probe(37_000, 1_024, 4_096, 6, 6, about="the big model of 2017"),
    ),
    assemble=_count,
    mistakes=(
        Mistake(
            "attention_without_biases",
            "The four projections of an attention are counted without their biases.",
            "How many numbers has a linear layer from d to d?",
            settings={"attention": "no_biases"},
        ),
        Mistake(
            "three_projections",
            "An attention is counted with three projections; W_O is the fourth.",
            "What joins the heads?",
            settings={"attention": "three"},
        ),
        Mistake(
            "network_without_biases",
            "The network is counted without its biases.",
            "How long are b_1 and b_2?",
            settings={"network": "no_biases"},
        ),
        Mistake(
            "half_a_network",
            "Only the first of the two matrices of the network is counted.",
            "How does a token get back from d_ff to d numbers?",
            settings={"network": "one"},
        ),
        Mistake(
            "second_bias_wide",
            "The second bias of the network is counted with d_ff numbers; it has d.",
            "How wide is what the network puts out?",
            settings={"network": "both_wide"},
        ),
        Mistake(
            "norms_forgotten",
            "The norms are not counted.",
            "What is learned in a layer normalisation?",
            settings={"norms": "none"},
        ),
        Mistake(
            "gamma_only",
            "Each norm is counted with d numbers; it has gamma and beta.",
            "What is learned in a layer normalisation?",
            settings={"norms": "gamma"},
        ),
        Mistake(
            "one_norm_per_layer",
            "Each layer is counted with one norm; each sub-layer has its own.",
            "How many sub-layers has an encoder layer, and how many a decoder layer?",
            settings={"norms": "one"},
        ),
        Mistake(
            "untied",
            "The table is counted three times: source, target and scores share it here.",
            "In how many places is one array used?",
            settings={"table": "untied"},
        ),
        Mistake(
            "scores_untied",
            "The table is counted twice; the scores, or the other input, use the same one.",
            "In how many places is one array used?",
            settings={"table": "two"},
        ),
        Mistake(
            "table_forgotten",
            "The table of tokens is not counted.",
            "What turns a token's number into a vector?",
            settings={"table": "none"},
        ),
        Mistake(
            "no_cross_attention",
            "The decoder layer is counted with one attention; it has two, and a norm for "
            "each.",
            "Which sub-layers has a decoder layer?",
            settings={"cross": "no"},
        ),
        Mistake(
            "final_norms",
            "Two more norms are counted, at the end of each stack. PyTorch's module has "
            "them, the model of 2017 has not.",
            "How many numbers too many are there, in units of d?",
            settings={"last": "norms"},
        ),
        Mistake(
            "bias_of_the_scores",
            "A bias of the scores is counted, one number per token. The table has none.",
            "How many numbers too many are there?",
            settings={"last": "head_bias"},
        ),
        Mistake(
            "layers_shared",
            "One layer of each kind is counted, whatever their number.",
            "Do two layers of a stack share their matrices?",
            settings={"layers": "shared"},
        ),
        Mistake(
            "one_stack",
            "Only the encoder is counted.",
            "How many stacks are there?",
            settings={"layers": "one_stack"},
        ),
    ),
)


# repaired_decoder_layer


def _plain_norm(X: np.ndarray) -> np.ndarray:
    middle = X.mean(axis=-1, keepdims=True)
    return np.asarray((X - middle) / np.sqrt(X.var(axis=-1, keepdims=True) + 1e-5))


def _decoder(
    causal: str = "yes",
    padding: str = "hidden",
    asks: str = "stream",
    memory: str = "memory",
    skip: str = "stream",
    order: str = "post",
    bend: str = "relu",
) -> Function:
    """A decoder layer, post-norm, with the faults that are asked for."""

    def decoder_layer_with(
        Y: Any, M: Any, W_self: Any, W_cross: Any, W_1: Any, W_2: Any, visible: Any
    ) -> Any:
        def attend(asking: Any, answering: Any, W: Any, mask: Any) -> Any:
            Q, K, V = asking @ W[0], answering @ W[1], answering @ W[2]
            S = Q @ K.T / np.sqrt(K.shape[-1])
            return masked_softmax(S, np.ones(S.shape, dtype=bool) & mask) @ V

        n = len(Y)
        past = {"yes": np.tri(n, dtype=bool), "no": np.ones((n, n), dtype=bool),
                "strict": np.tri(n, k=-1, dtype=bool),
                "future": np.tri(n, dtype=bool).T}[causal]  # fmt: skip
        shown = {"hidden": visible, "seen": np.ones_like(visible),
                 "inverted": ~visible}[padding]  # fmt: skip
        answering = M if memory == "memory" else _plain_norm(M)
        if order == "pre":
            Y = Y + attend(_plain_norm(Y), _plain_norm(Y), W_self, past)
            Y = Y + attend(_plain_norm(Y), answering, W_cross, shown)
            return Y + np.maximum(0.0, _plain_norm(Y) @ W_1) @ W_2
        if order == "cross_first":
            Z = _plain_norm(Y + attend(Y, answering, W_cross, shown))
            X = _plain_norm(Z + attend(Z, Z, W_self, past))
        else:
            Z = _plain_norm(Y + attend(Y, Y, W_self, past))
            asking = Y if asks == "input" else Z
            start = {"stream": Z, "input": Y, "none": 0.0}[skip]
            X = _plain_norm(start + attend(asking, answering, W_cross, shown))
        inside = X @ W_1
        return _plain_norm(
            X + (np.maximum(0.0, inside) if bend == "relu" else inside) @ W_2
        )

    return decoder_layer_with


def _weights(seed: int, d: int, d_ff: int) -> tuple[np.ndarray, ...]:
    return (
        numbers(seed, 3, d, d),
        numbers(seed + 1, 3, d, d),
        numbers(seed + 2, d, d_ff),
        numbers(seed + 3, d_ff, d),
    )


def _silent(d: int, *silent: int) -> tuple[np.ndarray, ...]:
    """Weights of width ``d``: identities and ones, with zeros where asked for."""
    made = [
        np.stack([np.eye(d)] * 3),
        np.stack([np.eye(d)] * 3),
        np.eye(d),
        np.eye(d),
    ]
    return tuple(np.zeros_like(W) if i in silent else W for i, W in enumerate(made))


_THREE = np.array([[1.0, 5.0, 3.0], [0.0, 2.0, 7.0], [4.0, 1.0, 1.0]])
_SOURCE = np.array(
    [[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [9.0, 9.0, -9.0], [5.0, -5.0, 0.0]]
)

REPAIRED_DECODER_LAYER = Exercise(
    name="repaired_decoder_layer",
    arguments=("Y", "M", "W_self", "W_cross", "W_1", "W_2", "visible"),
    statement="Repair the decoder layer: three sub-layers, post-norm without gamma and "
    "beta, one head. W_self and W_cross hold W_Q, W_K, W_V; visible (n_s,) is True where a "
    "source token is no padding.",
    ask="Change the last target token: which rows may change? Change a padding token of "
    "the source: which rows may change?",
    reference=_decoder(),
    probes=(
        Probe(
            _THREE[:1], _SOURCE[:1], *_silent(3), _seen(1),
            about="one target token and one source token, matrices the identity",
        ),
        Probe(
            _THREE[:1], _SOURCE, *_silent(3), _seen(1, 1, 1, 1),
            about="one target token, nothing hidden",
        ),
        Probe(
            _THREE, _SOURCE[:1], *_silent(3), _seen(1),
            about="three target tokens and one source token",
        ),
        Probe(
            _THREE[:1], _SOURCE, *_silent(3), _seen(1, 1, 0, 0),
            about="one target token, two source tokens of padding",
        ),
        Probe(
            numbers(931, 4, 3), numbers(932, 5, 3), *_weights(933, 3, 6),
            _seen(1, 1, 1, 1, 1), about="four tokens and five, nothing hidden",
        ),
        Probe(
            numbers(941, 4, 4), numbers(942, 4, 4), *_weights(943, 4, 7),
            _seen(1, 1, 0, 0), about="four tokens and four, two of padding",
        ),
        Probe(
            numbers(951, 3, 5), numbers(952, 6, 5), *_weights(953, 5, 5),
            _seen(1, 1, 1, 1, 0, 0), about="three tokens and six, two of padding",
        ),
    ),
    assemble=_decoder,
    planted=("future_seen", "padding_seen", "asks_with_its_input"),
    mistakes=(
        Mistake(
            "future_seen",
            "Each target token sees those behind it: the triangle is missing.",
            "When a word is being written, which words are there already?",
            settings={"causal": "no"},
        ),
        Mistake(
            "itself_hidden",
            "A target token does not see itself: the diagonal of the triangle is missing.",
            "May a word look at the word that has been read at its own place?",
            settings={"causal": "strict"},
        ),
        Mistake(
            "past_hidden",
            "The triangle is turned round: each token sees itself and what is behind it.",
            "Rows ask. Which columns may row 0 see?",
            settings={"causal": "future"},
        ),
        Mistake(
            "padding_seen",
            "The padding of the source is not hidden from cross-attention.",
            "May the output change when a padding token changes?",
            settings={"padding": "seen"},
        ),
        Mistake(
            "padding_inverted",
            "The mask of the source is turned round.",
            "What does True in visible mean?",
            settings={"padding": "inverted"},
        ),
        Mistake(
            "asks_with_its_input",
            "Cross-attention asks with what the layer was given, not with what its "
            "self-attention made of it.",
            "Which vector carries what the target so far has told this place?",
            settings={"asks": "input"},
        ),
        Mistake(
            "memory_normalised",
            "The memory is normalised once more.",
            "How often is the last layer's output of the encoder normalised already?",
            settings={"memory": "normalised"},
        ),
        Mistake(
            "skip_from_input",
            "The skip around cross-attention starts at the layer's input, so what the "
            "self-attention found is lost.",
            "What should come out of the second sub-layer when cross-attention gives zero?",
            settings={"skip": "input"},
        ),
        Mistake(
            "no_skip",
            "There is no skip around cross-attention.",
            "What should come out of the second sub-layer when cross-attention gives zero?",
            settings={"skip": "none"},
        ),
        Mistake(
            "pre_norm",
            "That is a pre-norm layer; post-norm was asked for.",
            "What are mean and spread of each row that leaves a post-norm layer?",
            settings={"order": "pre"},
        ),
        Mistake(
            "cross_first",
            "Cross-attention comes before self-attention.",
            "In which order do the three sub-layers stand?",
            settings={"order": "cross_first"},
        ),
        Mistake(
            "no_relu",
            "max(0, ...) is missing in the network.",
            "What are two linear maps in a row?",
            settings={"bend": "none"},
        ),
    ),
)  # fmt: skip


# cross_attention_backward


def _backward(
    keys: str = "right",
    values: str = "right",
    jacobian: str = "right",
    scale: str = "right",
    asks: str = "right",
    order: str = "Y_first",
) -> Function:
    """Gradients of cross-attention with the faults that are asked for."""

    def backward_with(
        d_output: Any, Y: Any, M: Any, W_Q: Any, W_K: Any, W_V: Any
    ) -> Any:
        Q, K, V = Y @ W_Q, M @ W_K, M @ W_V
        root = np.sqrt(K.shape[-1])
        A = softmax(Q @ K.T / root)
        dV, dA = A.T @ d_output, d_output @ V.T
        inner = (dA * A).sum(axis=-1, keepdims=True)
        if jacobian == "no_sum":
            inner = 0.0 * inner
        elif jacobian == "columns":
            inner = (dA * A).sum(axis=0, keepdims=True)
        dS = A * (dA - inner)
        if jacobian == "skipped":
            dS = dA
        root = {"right": root, "none": 1.0, "not_rooted": root**2}[scale]
        dQ, dK = dS @ K / root, dS.T @ Q / root
        dY = dQ @ (W_K if asks == "W_K" else W_Q).T
        dM = 0.0 * M
        if keys != "dropped":
            dM = dM + dK @ (W_Q if keys == "W_Q" else W_K).T
        if values != "dropped":
            dM = dM + dV @ W_V.T
        return (dY, dM) if order == "Y_first" else (dM, dY)

    return backward_with


CROSS_ATTENTION_BACKWARD = Exercise(
    name="cross_attention_backward",
    arguments=("d_output", "Y", "M", "W_Q", "W_K", "W_V"),
    statement="Return the gradients (dY, dM) of one head of cross-attention without a "
    "mask, from the gradient with respect to its output.",
    ask="In how many places is M used, and in how many Y?",
    reference=_backward(),
    returns=("dY", "dM"),
    probes=(
        Probe(
            np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[1.0, -1.0], [0.0, 1.0]]),
            X_TOKENS[:1], _W_Q, _W_K, _W_V,
            about="a single source token, so dY is zero",
        ),
        Probe(
            np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[1.0, -1.0], [0.0, 1.0]]),
            X_TOKENS, _W_Q, _W_K, 0.0 * _W_V, about="W_V = 0",
        ),
        Probe(
            np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[1.0, -1.0], [0.0, 1.0]]),
            X_TOKENS, _W_Q, _W_K, _W_V, about="the tokens of the chapter",
        ),
        Probe(
            numbers(961, 2, 3), numbers(962, 2, 4), numbers(963, 5, 4), numbers(964, 4, 3),
            numbers(965, 4, 3), numbers(966, 4, 3), about="two target tokens and five of source",
        ),
        Probe(
            numbers(967, 4, 2), numbers(968, 4, 3), numbers(969, 3, 3), numbers(970, 3, 5),
            numbers(971, 3, 5), numbers(972, 3, 2), about="four target tokens, three of source",
        ),
    ),
    assemble=_backward,
    mistakes=(
        Mistake(
            "values_only",
            "The path through the keys is missing in dM.",
            "M is projected twice. Which of the two gradients is missing?",
            settings={"keys": "dropped"},
        ),
        Mistake(
            "keys_only",
            "The path through the values is missing in dM.",
            "M is projected twice. Which of the two gradients is missing?",
            settings={"values": "dropped"},
        ),
        Mistake(
            "keys_through_W_Q",
            "dK goes back through W_Q instead of W_K.",
            "Which matrix made the keys?",
            settings={"keys": "W_Q"},
        ),
        Mistake(
            "queries_through_W_K",
            "dQ goes back through W_K instead of W_Q.",
            "Which matrix made the queries?",
            settings={"asks": "W_K"},
        ),
        Mistake(
            "sum_missing",
            "The row's sum is missing in the softmax's gradient.",
            "With a single key its weight is always 1. What must dY be then?",
            settings={"jacobian": "no_sum"},
        ),
        Mistake(
            "sum_over_queries",
            "The sum in the softmax's gradient runs down the queries instead of along the "
            "keys.",
            "Along which axis did the softmax run?",
            settings={"jacobian": "columns"},
        ),
        Mistake(
            "softmax_skipped",
            "The gradient does not pass the softmax: dS is dA.",
            "With a single key its weight is always 1. What must dY be then?",
            settings={"jacobian": "skipped"},
        ),
        Mistake(
            "not_scaled",
            "The root of d_k is missing on the way back.",
            "A constant factor of the forward pass appears on the way back, too. Where?",
            settings={"scale": "none"},
        ),
        Mistake(
            "not_rooted",
            "dQ and dK are divided by d_k instead of by its root.",
            "By what did the forward pass divide?",
            settings={"scale": "not_rooted"},
        ),
        Mistake(
            "M_first",
            "The gradients are returned in the order (dM, dY).",
            "Which order was asked for?",
            settings={"order": "M_first"},
        ),
    ),
)  # fmt: skip
