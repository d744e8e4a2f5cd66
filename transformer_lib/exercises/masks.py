"""Exercises of chapter 6: masks."""

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
from transformer_lib.reference.lookup import masked_softmax, softmax
from transformer_lib.reference.masks import causal_mask

EXERCISES = (
    "pencil_masks",
    "causal_mask",
    "decoder_mask",
    "masked_softmax",
    "looks_ahead",
    "repaired_loss",
)

Function = Callable[..., Any]


# pencil_masks: the cat sat, with the triangle

_SCORES = np.array([[1.0, 4.0, 4.0], [2.0, 4.0, 6.0], [3.0, 10.0, 11.0]]) / 2.0**0.5
_VALUES = np.array([[1.0, 0.0], [-2.0, 2.0], [1.0, 1.0]])
_PAST = np.tri(3, dtype=bool)


def _sheet(how: str = "right") -> dict[str, np.ndarray]:
    """All blanks: the weights of the and cat, and the outputs of both."""
    wide = np.ones((3, 3), dtype=bool)
    mask = {"transposed": _PAST.T, "strict": np.tri(3, k=-1, dtype=bool)}.get(
        how, _PAST
    )
    if how == "none":
        mask = wide
    A = masked_softmax(_SCORES, mask)
    if how == "multiplied":
        A = softmax(_SCORES * mask)
    elif how == "after":
        A = softmax(_SCORES) * mask
    elif how == "exponentials":
        A = np.exp(_SCORES) * mask
    elif how == "unscaled":
        A = masked_softmax(_SCORES * 2.0**0.5, mask)
    elif how == "shares":
        A = _SCORES * mask / (_SCORES * mask).sum(axis=-1, keepdims=True)
    elif how == "even":
        A = mask / mask.sum(axis=-1, keepdims=True)
    outputs = A @ _VALUES
    return {
        "weights_of_the": A[0],
        "weights_of_cat": A[1],
        "output_of_the": outputs[0],
        "output_of_cat": outputs[1],
    }


_RIGHT = _sheet()

PENCIL_MASKS = Pencil(
    name="pencil_masks",
    statement="With the triangle, work out the weights of the and of cat, and their "
    "outputs, with two decimals.",
    blanks=(
        Blank(
            "weights_of_the",
            _RIGHT["weights_of_the"],
            "Which keys may the first token see, and what do its weights sum to?",
        ),
        Blank(
            "weights_of_cat",
            _RIGHT["weights_of_cat"],
            "Two scores are left, 1.41 and 2.83. What are their exponentials, and what "
            "is the sum of the two?",
        ),
        Blank(
            "output_of_the",
            _RIGHT["output_of_the"],
            "An average of a single value is that value.",
        ),
        Blank(
            "output_of_cat",
            _RIGHT["output_of_cat"],
            "Which two values are averaged, with which two weights?",
        ),
    ),
    mistakes=(
        Slip(
            "no_mask",
            "These are the weights without a mask.",
            "Which columns of the row of the lie right of the diagonal?",
            _sheet("none"),
        ),
        Slip(
            "multiplied",
            "The hidden scores were set to 0 instead of to minus infinity, and e to the "
            "power of 0 is 1.",
            "What has to stand in a score so that its exponential is 0?",
            _sheet("multiplied"),
        ),
        Slip(
            "after",
            "The weights were computed over all three keys and then cut: they no longer "
            "sum to 1.",
            "What should the weights of one query sum to?",
            _sheet("after"),
        ),
        Slip(
            "transposed",
            "The mask is turned round: each token sees itself and those after it.",
            "Which tokens stand left of the?",
            _sheet("transposed"),
        ),
        Slip(
            "without_itself",
            "The diagonal is hidden too: no token sees itself.",
            "Is the token at a place known when the next one is predicted?",
            _sheet("strict"),
        ),
        Slip(
            "exponentials",
            "These are the exponentials; they still have to be divided by their sum.",
            "What should the weights of one query sum to?",
            _sheet("exponentials"),
        ),
        Slip(
            "unscaled",
            "The scores were not divided by the root of 2.",
            "Which of the two tables of scores goes into the softmax?",
            _sheet("unscaled"),
        ),
        Slip(
            "shares",
            "The scores were divided by their sum, without exp.",
            "What does the softmax do with each score before it divides?",
            _sheet("shares"),
        ),
        Slip(
            "even",
            "The visible keys share the weight evenly, whatever their scores.",
            "Does the mask say how much a key is worth, or only whether it counts?",
            _sheet("even"),
        ),
    ),
)


# causal_mask


def _triangle(
    side: str = "lower",
    diagonal: int = 0,
    align: str = "last",
    axes: str = "right",
    sense: str = "may",
    size: str = "right",
) -> Function:
    """The triangle with the faults that are asked for."""

    def causal_mask_with(n_queries: Any, n_keys: Any) -> Any:
        rows, columns = n_queries, n_keys
        if axes == "swapped":
            rows, columns = n_keys, n_queries
        if size == "queries":
            columns = rows
        elif size == "keys":
            rows = columns
        offset = columns - rows if align == "last" else 0
        i, j = np.arange(rows)[:, None] + offset, np.arange(columns)
        mask = j <= i + diagonal if side == "lower" else j >= i - diagonal
        if side == "all":
            mask = np.ones_like(mask)
        return ~mask if sense == "may not" else mask

    return causal_mask_with


CAUSAL_MASK = Exercise(
    name="causal_mask",
    arguments=("n_queries", "n_keys"),
    statement="Return the boolean mask, one row per query and one column per key. The "
    "last query sees the last key, and no query sees a key behind its own place.",
    ask="Which keys does the last query see, and which the first?",
    reference=causal_mask,
    probes=(
        Probe(1, 1, about="one query and one key"),
        Probe(3, 3, about="three queries and three keys"),
        Probe(1, 4, about="one query, the last of four"),
        Probe(2, 5, about="two queries, the last of five"),
        Probe(4, 2, about="more queries than keys, so the first see nothing"),
    ),
    properties=(
        Property(
            "The last query stands at the last key and sees all keys, and here it does "
            "not.",
            lambda got, n_queries, n_keys: bool(np.all(got[-1])),
        ),
    ),
    variants=(
        Variant(
            "numbers",
            "It holds numbers where the library wants booleans; mask.astype(bool) turns "
            "1 and 0 into them.",
            lambda n_queries, n_keys: causal_mask(n_queries, n_keys).astype(float),
        ),
    ),
    assemble=_triangle,
    mistakes=(
        Mistake(
            "upper",
            "The mask is turned round: each query sees its own key and those after it.",
            "Which corner of the matrix holds the pairs in which the key comes later?",
            settings={"side": "upper"},
        ),
        Mistake(
            "without_diagonal",
            "The diagonal is hidden: no query sees the key at its own place, and the "
            "first one sees nothing at all.",
            "Is the token at a place known when its successor is predicted?",
            settings={"diagonal": -1},
        ),
        Mistake(
            "one_ahead",
            "Each query sees one key too many, the one behind its own place. That is "
            "the very token it is to predict.",
            "How many keys may the first of three queries see?",
            settings={"diagonal": 1},
        ),
        Mistake(
            "first_aligned",
            "The first query stands at the first key. With fewer queries than keys the "
            "queries are the last ones of the sequence.",
            "A decoder has read four tokens and asks with the last. Which of them may it "
            "see?",
            settings={"align": "first"},
        ),
        Mistake(
            "axes_swapped",
            "Rows and columns are exchanged: queries ask along the rows.",
            "Which shape has the mask for two queries and five keys?",
            settings={"axes": "swapped"},
        ),
        Mistake(
            "inverted",
            "True and False are exchanged: here True means that the query may look.",
            "Which value stands on the diagonal, where a token meets itself?",
            settings={"sense": "may not"},
        ),
        Mistake(
            "square_of_queries",
            "The mask has as many columns as rows, whatever the number of keys.",
            "Which shape has the mask for two queries and five keys?",
            settings={"size": "queries"},
        ),
        Mistake(
            "square_of_keys",
            "The mask has as many rows as columns, whatever the number of queries.",
            "Which shape has the mask for two queries and five keys?",
            settings={"size": "keys"},
        ),
        Mistake(
            "nothing_hidden",
            "Nothing is hidden: every query sees every key.",
            "Which keys lie in the future of the first query?",
            settings={"side": "all"},
        ),
        Mistake(
            "additive",
            "The mask holds 0 and minus infinity, to be added to the scores. The library "
            "wants True where a query may look and False where it may not.",
            "Which type has a mask that can be joined with `&`?",
            lambda n_queries, n_keys: np.where(
                causal_mask(n_queries, n_keys), 0.0, -np.inf
            ),
        ),
    ),
)


# decoder_mask: triangle and padding together


def _decoder_mask(
    join: str = "and",
    hides: str = "keys",
    triangle: str = "lower",
    padding: str = "right",
    pad: str = "given",
    diagonal: int = 0,
) -> Function:
    """The mask of a decoder with the faults that are asked for."""

    def decoder_mask_with(ids: Any, pad_id: Any) -> Any:
        n = ids.shape[-1]
        past = np.tri(n, k=diagonal, dtype=bool)
        if triangle == "upper":
            past = past.T
        real = ids != (0 if pad == "zero" else pad_id)
        if padding == "inverted":
            real = ~real
        elif padding == "first_shown":
            real = np.pad(real[:, :-1], ((0, 0), (1, 0)), constant_values=True)
        as_keys, as_queries = real[:, None, :], real[:, :, None]
        seen = {
            "keys": as_keys,
            "queries": as_queries & np.ones_like(as_keys),
            "both": as_keys & as_queries,
        }[hides]
        if join == "or":
            return seen | past
        if join == "padding":
            return seen & np.ones_like(past)
        if join == "triangle":
            return np.ones_like(seen) & past
        return seen & past

    return decoder_mask_with


DECODER_MASK = Exercise(
    name="decoder_mask",
    arguments=("ids", "pad_id"),
    statement="From token numbers of shape (batch, n), return the mask of shape (batch, "
    "n, n): a query may see a key that is not padding and does not come later.",
    ask="Take one sentence. Which keys may its last query see, and which its first?",
    reference=_decoder_mask(),
    probes=(
        Probe(np.array([[5, 3, 4]]), 0, about="one sentence without padding"),
        Probe(np.array([[5, 3, 0]]), 0, about="one sentence with padding behind it"),
        Probe(np.array([[9, 5, 3]]), 9, about="padding in front, numbered 9"),
        Probe(np.array([[7, 0, 2]]), 9, about="a word with the number 0"),
        Probe(
            np.array([[5, 3, 4, 8], [2, 0, 0, 0]]), 0, about="two sentences of four places"
        ),
        Probe(
            np.array([[1, 1, 4, 8, 2], [1, 6, 7, 2, 3], [4, 1, 1, 1, 1]]),
            1,
            about="three sentences, padded on either side with 1",
        ),
    ),
    assemble=_decoder_mask,
    mistakes=(
        Mistake(
            "or_for_and",
            "The two masks are joined with `|`: a key is seen if either mask allows it.",
            "A word comes later. The padding mask allows it. May the query see it?",
            settings={"join": "or"},
        ),
        Mistake(
            "padding_only",
            "Only the padding is hidden; later words are seen.",
            "Which keys lie in the future of the first query?",
            settings={"join": "padding"},
        ),
        Mistake(
            "triangle_only",
            "Only the future is hidden. Padding in front of a sentence lies in the past "
            "and is seen.",
            "With padding in front, what does the last word see?",
            settings={"join": "triangle"},
        ),
        Mistake(
            "pads_as_queries",
            "Padding is hidden as a query (its row is empty) and not as a key (its "
            "column is still read).",
            "Who must not be *read*: which axis of the mask counts the keys?",
            settings={"hides": "queries"},
        ),
        Mistake(
            "pads_as_both",
            "Padding is hidden as a key and as a query. The second leaves rows that see "
            "nothing, where a plain softmax divides 0 by 0.",
            "Does it hurt if padding asks, when nobody reads the answer?",
            settings={"hides": "both"},
        ),
        Mistake(
            "padding_inverted",
            "The padding mask is inverted: only padding is seen.",
            "Does your comparison say *is padding* or *is a word*?",
            settings={"padding": "inverted"},
        ),
        Mistake(
            "upper",
            "The triangle is turned round: each query sees the later words.",
            "Which corner of the matrix holds the pairs in which the key comes later?",
            settings={"triangle": "upper"},
        ),
        Mistake(
            "without_diagonal",
            "The diagonal is hidden: no word sees itself.",
            "Is the word at a place known when its successor is predicted?",
            settings={"diagonal": -1},
        ),
        Mistake(
            "one_ahead",
            "Each query sees one key too many, the one behind its own place.",
            "How many keys may the first query see?",
            settings={"diagonal": 1},
        ),
        Mistake(
            "pad_is_zero",
            "The padding is taken to be number 0; pad_id says which number it is.",
            "Which of the two arguments have you not used?",
            settings={"pad": "zero"},
        ),
        Mistake(
            "shifted",
            "The padding mask is shifted by one place: the first pad behind a word is "
            "seen.",
            "Which key does column 2 of the mask stand for?",
            settings={"padding": "first_shown"},
        ),
    ),
)  # fmt: skip


# masked_softmax


def _masked(
    how: str = "minus_infinity",
    dead: str = "zero",
    sense: str = "may",
    axis: int = -1,
    stable: str = "yes",
) -> Function:
    """The softmax of masked scores with the faults that are asked for."""

    def masked_softmax_with(scores: Any, mask: Any) -> Any:
        seen = np.broadcast_to(~mask if sense == "may not" else mask, scores.shape)
        hidden = {
            "minus_infinity": -np.inf, "times_zero": None, "small": -1e-9,
            "plus": 1e9, "minus_ten": -10.0,
        }.get(how, -np.inf)  # fmt: skip
        if how in ("after", "renormalised"):
            S = scores
        elif hidden is None:
            S = scores * seen
        elif how == "small":
            S = scores + np.where(seen, 0.0, hidden)
        else:
            S = np.where(seen, scores, hidden)
        highest = S.max(axis=axis, keepdims=True)
        if how not in ("times_zero", "after", "renormalised", "small", "plus") and (
            dead == "zero"
        ):
            highest = np.where(np.isfinite(highest), highest, 0.0)
        e = np.exp(S - highest) if stable == "yes" else np.exp(S)
        total = e.sum(axis=axis, keepdims=True)
        if how == "after":
            return e / total * seen
        if how == "renormalised":
            A = e / total * seen
            return A / A.sum(axis=axis, keepdims=True)
        if how == "minus_infinity" and dead == "zero":
            return e / np.where(total == 0.0, 1.0, total)
        if how == "minus_infinity" and dead == "uniform":
            n = scores.shape[axis]
            return np.where(total > 0.0, e / np.where(total > 0.0, total, 1.0), 1.0 / n)
        return e / total

    return masked_softmax_with


def _uniform(scores: Any, mask: Any) -> Any:
    """The large finite number in place of infinity: a dead row becomes uniform."""
    return softmax(np.where(mask, scores, -1e9))


MASKED_SOFTMAX = Exercise(
    name="masked_softmax",
    arguments=("scores", "mask"),
    statement="Return the weights of scores (n_q, n_k) with a boolean mask that "
    "broadcasts to them: 0 where it is False, and rows that sum to 1, but zeros in a row "
    "that sees nothing.",
    ask="What is the weight of a hidden key, and what do the others of its row sum to?",
    reference=masked_softmax,
    probes=(
        Probe(
            np.zeros((1, 2)),
            np.array([[True, True]]),
            about="two equal scores, none hidden",
        ),
        Probe(
            np.array([[2.0, 1.0, 3.0]]),
            np.array([[True, True, False]]),
            about="the best of three keys hidden",
        ),
        Probe(
            np.array([[-2.0, -1.0]]),
            np.array([[True, False]]),
            about="negative scores, one key left",
        ),
        Probe(
            np.array([[1.0, 2.0], [0.0, 1.0]]),
            np.array([[True, True], [False, False]]),
            about="a second row that sees nothing",
        ),
        Probe(numbers(611, 3, 3), np.tri(3, dtype=bool), about="a triangle of three"),
        Probe(
            numbers(612, 4, 5),
            np.array([[True, False, True, True, False]]),
            about="one row of mask for four queries",
        ),
        Probe(
            np.array([[1000.0, -1000.0, 0.0], [-1000.0, 1000.0, 999.0]]),
            np.array([[False, True, True], [True, False, True]]),
            about="scores of 1000, the largest hidden",
        ),
    ),
    assemble=_masked,
    mistakes=(
        Mistake(
            "times_zero",
            "The hidden scores are multiplied by 0. A score of 0 is a score like any "
            "other, and its exponential is 1.",
            "What is exp(0), and what should the weight of a hidden key be?",
            settings={"how": "times_zero"},
        ),
        Mistake(
            "after_the_softmax",
            "The hidden weights are set to 0 after the softmax, so the rest of the row "
            "no longer sums to 1.",
            "Where has the weight of the hidden keys gone?",
            settings={"how": "after"},
        ),
        Mistake(
            "renormalised",
            "The weights are cut after the softmax and divided by what is left. On paper "
            "that is right; when a hidden score is far above the others, nothing is left "
            "to divide.",
            "The hidden score is 1000 and the visible ones are 0. What does the first "
            "softmax leave for them?",
            settings={"how": "renormalised"},
        ),
        Mistake(
            "inverted",
            "True and False are exchanged: here True means that the query may look.",
            "With nothing hidden, are all of your weights above 0?",
            settings={"sense": "may not"},
        ),
        Mistake(
            "small_number",
            "A tiny number is added, -1e-9, where a huge one was meant, -1e9: nothing is "
            "hidden.",
            "What is exp(-1e-9)?",
            settings={"how": "small"},
        ),
        Mistake(
            "wrong_sign",
            "The hidden scores become huge instead of hugely negative: the hidden keys "
            "take all the weight.",
            "What is exp of a very large number?",
            settings={"how": "plus"},
        ),
        Mistake(
            "not_low_enough",
            "The hidden scores become -10, which only makes the keys unlikely.",
            "What does a hidden key weigh when the visible scores are -1000?",
            settings={"how": "minus_ten"},
        ),
        Mistake(
            "dead_row_nan",
            "A row that sees nothing becomes nan: 0 divided by 0, after minus infinity "
            "minus minus infinity.",
            "What is the largest score of a row in which all are minus infinity?",
            settings={"dead": "nan"},
        ),
        Mistake(
            "dead_row_uniform",
            "A row that sees nothing gives every key the same weight, so it sees "
            "everything. A large finite number in place of infinity does that.",
            "Which keys should a query read that may read none?",
            settings={"dead": "uniform"},
        ),
        Mistake(
            "over_queries",
            "The softmax runs over the queries: each column sums to 1 instead of each "
            "row.",
            "Who shares out the weight 1: each query among the keys, or each key among "
            "the queries?",
            settings={"axis": -2},
        ),
        Mistake(
            "no_maximum",
            "The largest score of each row is not taken away before exp, which overflows.",
            "What is exp(1000), and what did the softmax of chapter 2 do about it?",
            settings={"stable": "no"},
        ),
    ),
)


# looks_ahead: a probe for any model


class _Model:
    """A small function of tokens (n, d) that shows itself by name."""

    def __init__(self, says: str, function: Function) -> None:
        self.says, self.function = says, function

    def __call__(self, X: Any) -> Any:
        return self.function(np.asarray(X, dtype=np.float64))

    def __repr__(self) -> str:
        return self.says

    def __deepcopy__(self, memo: Any) -> _Model:
        return self


def _running_mean(X: np.ndarray, ahead: int = 0) -> np.ndarray:
    n = len(X)
    seen = np.tri(n, k=ahead)
    mean: np.ndarray = seen @ X / seen.sum(axis=1, keepdims=True)
    return mean


_HONEST = _Model("a running mean", _running_mean)
_ONE_AHEAD = _Model(
    "a running mean that reads one ahead", lambda X: _running_mean(X, 1)
)
_ALL = _Model(
    "the mean of all", lambda X: np.repeat(X.mean(0, keepdims=True), len(X), 0)
)
_ITSELF = _Model("each token doubled", lambda X: 2.0 * X)
_LAST = _Model(
    "the first token reads the last",
    lambda X: np.concatenate([X[:1] + X[-1:], X[1:]]),
)
_NEIGHBOUR = _Model(
    "only the last but one reads ahead",
    lambda X: np.concatenate([X[:-2], X[-2:-1] + X[-1:], X[-1:]]),
)
_SIGN = _Model(
    "a running mean, and whether anything later is negative",
    lambda X: (
        _running_mean(X)
        + np.array([[float((X[i + 1 :] < 0.0).any())] for i in range(len(X))])
    ),
)


def _probe_with(
    changes: str = "later",
    compares: str = "before",
    place: str = "all",
    size: str = "new",
) -> Function:
    """The probe with the faults that are asked for."""

    def looks_ahead_with(model: Any, X: Any, Y: Any) -> Any:
        before = model(X)
        n = len(X)
        worst = 0.0
        places = {"all": range(n - 1), "first": range(1), "last": range(n - 2, n - 1)}
        for i in places[place]:
            changed = X.copy()
            if changes == "later":
                changed[i + 1 :] = Y[i + 1 :]
            elif changes == "itself":
                changed[i:] = Y[i:]
            elif changes == "next":
                changed[i + 1] = Y[i + 1]
            elif changes == "earlier":
                changed[: i + 1] = Y[: i + 1]
            after = model(changed)
            kept = slice(0, i + 1)
            if compares == "everything":
                kept = slice(0, n)
            elif compares == "later":
                kept = slice(i + 1, n)
            elif compares == "own":
                kept = slice(i, i + 1)
            gap = after[kept] - before[kept]
            if size == "signed":
                worst = max(worst, float(gap.max(initial=0.0)))
            elif size == "sum":
                worst = max(worst, abs(float(gap.sum())))
            elif size == "mean":
                worst = max(worst, float(np.abs(gap).mean()))
            else:
                worst = max(worst, float(np.abs(gap).max(initial=0.0)))
        return worst

    return looks_ahead_with


_X4 = np.array([[1.0], [2.0], [4.0], [3.0]])
_Y4 = np.array([[6.0], [-5.0], [1.0], [-4.0]])
_X5, _Y5 = numbers(621, 5, 2), numbers(622, 5, 2)

LOOKS_AHEAD = Exercise(
    name="looks_ahead",
    arguments=("model", "X", "Y"),
    statement="A model turns tokens X (n, d) into one row per token. For each place i "
    "but the last, exchange all tokens behind i for those of Y, and compare the rows up "
    "to and including i. Return the largest absolute change that you find.",
    ask="Which rows must stay as they are when only tokens behind place i are exchanged?",
    reference=_probe_with(),
    probes=(
        Probe(_ITSELF, _X4, _Y4, about="a model in which no token sees another"),
        Probe(_HONEST, _X4, _Y4, about="a model that looks back only"),
        Probe(_ALL, _X4, _Y4, about="a model that sees everything"),
        Probe(_ONE_AHEAD, _X4, _Y4, about="a model that reads one token ahead"),
        Probe(_LAST, _X4, _Y4, about="a model whose first token reads the last"),
        Probe(_NEIGHBOUR, _X4, _Y4, about="a model whose last token but one reads ahead"),
        Probe(_SIGN, _X4, _Y4, about="a model that looks ahead for negative numbers"),
        Probe(_ALL, _X5, _Y5, about="five tokens of width 2, everything seen"),
        Probe(_HONEST, _X5, _Y5, about="five tokens of width 2, looking back only"),
        Probe(_ONE_AHEAD, _X5, _Y5, about="five tokens of width 2, one ahead"),
    ),
    properties=(
        Property(
            "A largest absolute change is never negative, and this one is.",
            lambda got, model, X, Y: float(np.min(got)) >= 0.0,
        ),
    ),
    assemble=_probe_with,
    mistakes=(
        Mistake(
            "changes_itself",
            "The token at place i is exchanged too, and its own row may follow it: every "
            "honest model is accused.",
            "May the output at place i depend on the token at place i?",
            settings={"changes": "itself"},
        ),
        Mistake(
            "changes_the_next_only",
            "Only the next token is exchanged. A model that reads something further off "
            "is not caught at this place.",
            "The first token reads the last. At which i does your probe notice, and by "
            "how much?",
            settings={"changes": "next"},
        ),
        Mistake(
            "changes_the_past",
            "The earlier tokens are exchanged instead of the later ones.",
            "Which tokens lie in the future of place i?",
            settings={"changes": "earlier"},
        ),
        Mistake(
            "compares_everything",
            "All rows are compared, also those of the tokens that were exchanged.",
            "Which rows are allowed to change?",
            settings={"compares": "everything"},
        ),
        Mistake(
            "compares_the_later_rows",
            "The rows behind place i are compared; these may change.",
            "Which rows must stay as they are?",
            settings={"compares": "later"},
        ),
        Mistake(
            "first_place_only",
            "Only the future of the first token is exchanged. A leak between two later "
            "tokens is missed.",
            "The last token but one reads the last. Which rows does your probe compare?",
            settings={"place": "first"},
        ),
        Mistake(
            "last_place_only",
            "Only the last token is exchanged.",
            "How far ahead may a leak reach, and how many places do you try?",
            settings={"place": "last"},
        ),
        Mistake(
            "no_absolute_value",
            "The changes are not made positive, so a fall is not noticed.",
            "A row sinks from 5 to 1. What does your maximum say?",
            settings={"size": "signed"},
        ),
        Mistake(
            "changes_added_up",
            "The changes are added up before their size is taken: a rise and a fall "
            "cancel.",
            "One number rises by 2 and another falls by 2. What does your sum say?",
            settings={"size": "sum"},
        ),
        Mistake(
            "changes_averaged",
            "The changes are averaged; asked for is the largest.",
            "One leak among a thousand honest numbers: what is left of it in a mean?",
            settings={"size": "mean"},
        ),
    ),
)  # fmt: skip


# repaired_loss: next-token loss of a padded batch


def _loss(
    shift: str = "right", pads: str = "left_out", mean: str = "tokens", axis: int = -1
) -> Function:
    """The loss of a batch with the faults that are asked for."""

    def loss_with(logits: Any, ids: Any, pad_id: Any) -> Any:
        if shift == "right":
            scores, targets = logits[:, :-1], ids[:, 1:]
        elif shift == "none":
            scores, targets = logits, ids
        elif shift == "two":
            scores, targets = logits[:, :-2], ids[:, 2:]
        else:
            scores, targets = logits[:, 1:], ids[:, :-1]
        highest = scores.max(axis=axis, keepdims=True)
        log_p = scores - highest
        log_p = log_p - np.log(np.exp(log_p).sum(axis=axis, keepdims=True))
        surprise = -np.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0]
        real = (targets != pad_id) | (pads == "counted")
        if pads == "as_zero":
            return (surprise * real).mean()
        if mean == "sum":
            return (surprise * real).sum()
        if mean == "sentences":
            return ((surprise * real).sum(axis=1) / real.sum(axis=1)).mean()
        if mean == "per_sentence":
            return (surprise * real).sum() / len(ids)
        return (surprise * real).sum() / real.sum()

    return loss_with


REPAIRED_LOSS = Exercise(
    name="repaired_loss",
    arguments=("logits", "ids", "pad_id"),
    statement="Repair the function so that it returns the mean surprise, in nats, of "
    "predicting each next token of ids (batch, n) from logits (batch, n, vocab). Padding "
    "is no token to be predicted.",
    ask="For the input shown, which logits are compared with which tokens, and how many "
    "predictions count?",
    reference=_loss(),
    probes=(
        Probe(
            np.array([[[0.0, 5.0, 0.0], [0.0, 0.0, 5.0]]]),
            np.array([[2, 1]]),
            0,
            about="one sentence of two tokens, well predicted",
        ),
        Probe(
            np.zeros((1, 4, 3)),
            np.array([[1, 2, 1, 2]]),
            0,
            about="all scores 0, so ln 3",
        ),
        Probe(
            np.array([[[0.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 0.0]]]),
            np.array([[1, 2, 0]]),
            0,
            about="one sentence with one pad",
        ),
        Probe(
            numbers(631, 2, 4, 5),
            np.array([[3, 1, 4, 2], [2, 4, 0, 0]]),
            0,
            about="two sentences of four and two tokens",
        ),
        Probe(
            numbers(632, 3, 5, 6),
            np.array([[1, 2, 3, 5, 5], [4, 2, 0, 1, 5], [2, 3, 5, 5, 5]]),
            5,
            about="three sentences, padding numbered 5",
        ),
        Probe(
            1000.0 * np.eye(4)[np.array([[1, 2, 3]])],
            np.array([[1, 2, 3]]),
            0,
            about="scores of 1000 for the token itself",
        ),
    ),
    properties=(
        Property(
            "A surprise is never negative, and this one is.",
            lambda got, logits, ids, pad_id: float(np.min(got)) >= 0.0,
        ),
    ),
    assemble=_loss,
    planted=("no_shift", "pads_counted", "mean_of_means"),
    mistakes=(
        Mistake(
            "no_shift",
            "Nothing is shifted: each place is asked for the token that it has read. The "
            "loss goes to 0 and the model learns to copy.",
            "Place 0 has read token 0. Which token is it to predict?",
            settings={"shift": "none"},
        ),
        Mistake(
            "shifted_back",
            "The shift goes the wrong way: each place is asked for the token before it.",
            "Place 1 has read tokens 0 and 1. Which token is it to predict?",
            settings={"shift": "back"},
        ),
        Mistake(
            "shifted_twice",
            "The shift is two places: each place is asked for the token after the next.",
            "Were ids and logits shifted already, by the caller or in the line above?",
            settings={"shift": "two"},
        ),
        Mistake(
            "pads_counted",
            "Padding counts as a token to be predicted. It is easy to predict, so the "
            "loss looks better than it is.",
            "Which targets equal pad_id, and what becomes of their surprise?",
            settings={"pads": "counted"},
        ),
        Mistake(
            "pads_as_zero",
            "Padding adds no surprise, but the sum is still divided by all places.",
            "By how many predictions do you divide?",
            settings={"pads": "as_zero"},
        ),
        Mistake(
            "mean_of_means",
            "First each sentence is averaged, then the sentences: a token of a short "
            "sentence counts more than one of a long sentence.",
            "Does a token weigh the same in both sentences?",
            settings={"mean": "sentences"},
        ),
        Mistake(
            "summed",
            "The surprises are added up and not divided.",
            "What happens to your loss when the batch is twice as large?",
            settings={"mean": "sum"},
        ),
        Mistake(
            "divided_by_sentences",
            "The sum is divided by the number of sentences, not of tokens.",
            "What happens to your loss when the sentences are twice as long?",
            settings={"mean": "per_sentence"},
        ),
        Mistake(
            "softmax_over_places",
            "The softmax runs over the places instead of over the vocabulary.",
            "Between what does a place have to choose?",
            settings={"axis": -2},
        ),
    ),
)
