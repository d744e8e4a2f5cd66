"""Exercises of chapter 8: normalisation, the two orders, and depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from transformer_lib.exercises.attention import X_TOKENS
from transformer_lib.exercises.engine import (
    Beyond,
    Exercise,
    Mistake,
    Probe,
    Property,
    numbers,
)
from transformer_lib.exercises.pencil import Blank, Pencil, Slip
from transformer_lib.reference.normalization import (
    layer_norm,
    layer_norm_backward,
    residual_pre,
)

EXERCISES = (
    "pencil_normalization",
    "layer_norm",
    "pre_norm",
    "bag_plateau",
    "repaired_layer",
    "layer_norm_backward",
)

Function = Callable[..., Any]
_EPS = 1e-5


# One normalisation with all faults, for everything that follows


def _norm(
    X: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    eps: float = _EPS,
    spread: str = "right",
    axis: str = "features",
    scale: str = "right",
    shift: str = "right",
    centre: str = "mean",
) -> np.ndarray:
    """Layer normalisation with the faults that are asked for."""
    over = {"features": -1, "tokens": -2, "all": None}[axis]
    middle = X.mean(axis=over, keepdims=True)
    variance = ((X - middle) ** 2).mean(axis=over, keepdims=True)
    if centre == "none":
        middle = 0.0 * middle
    if centre == "rms":
        variance, middle = (X**2).mean(axis=over, keepdims=True), 0.0 * middle
    count = X.size if over is None else X.shape[over]
    if spread == "unbiased":
        variance = variance * count / max(count - 1, 1)
    s = np.sqrt(variance + eps)
    if spread == "variance":
        s = variance + eps
    elif spread == "eps_outside":
        s = np.sqrt(variance) + eps
    elif spread == "no_eps":
        s = np.sqrt(variance)
    elif spread == "absolute":
        s = np.abs(X - middle).mean(axis=over, keepdims=True) + eps
    elif spread == "length":
        s = np.sqrt(variance * count + eps)
    elif spread == "none":
        s = np.ones_like(variance)
    normalised = (X - middle) / s
    if scale == "column":
        gamma = gamma[:, None]
    if shift == "first":
        return np.asarray(gamma * (normalised + beta))
    scaled = normalised if scale == "dropped" else gamma * normalised
    return np.asarray(scaled if shift == "dropped" else scaled + beta)


_NORM_MISTAKES = (
    Mistake(
        "unbiased",
        "The variance divides by d - 1; layer normalisation divides by d.",
        "What is the mean of the squared deviations of (1, 2, 3)?",
        settings={"spread": "unbiased"},
    ),
    Mistake(
        "not_rooted",
        "It divides by the variance instead of by its root.",
        "If all numbers of a token double, what happens to the variance, and what "
        "should happen to the output?",
        settings={"spread": "variance"},
    ),
    Mistake(
        "eps_outside",
        "eps is added to the standard deviation, outside the root; it belongs to the "
        "variance, under the root.",
        "The root of 1e-5 is about 0.003. How large is eps outside, for a token whose "
        "numbers hardly differ?",
        settings={"spread": "eps_outside"},
    ),
    Mistake(
        "over_tokens",
        "Mean and variance run down the tokens, one pair for each column.",
        "Which numbers may decide about token 1: its own, or those of the other tokens?",
        settings={"axis": "tokens"},
    ),
    Mistake(
        "over_all",
        "Mean and variance are taken over the whole array at once.",
        "If another token changes, may this one change?",
        settings={"axis": "all"},
    ),
    Mistake(
        "gamma_dropped",
        "gamma is not used.",
        "What should come out when gamma is (1, 2, 3)?",
        settings={"scale": "dropped"},
    ),
    Mistake(
        "beta_dropped",
        "beta is not used.",
        "What should come out when gamma is all zeros?",
        settings={"shift": "dropped"},
    ),
)


# pencil_normalization: the token sat by hand


_W = np.array([[0.0, 1.0], [2.0, 0.0]])
_ONES, _ZEROS = np.ones(2), np.zeros(2)


def _plain(x: np.ndarray) -> np.ndarray:
    """One token of two numbers, normalised exactly."""
    s = x.std()
    return np.zeros_like(x) if s < 1e-12 else (x - x.mean()) / s


def _sheet(
    std: float = 0.5,
    layer: str = "right",
    batch: str = "right",
    side: str = "row",
    pre: str = "right",
    post: str = "right",
) -> dict[str, Any]:
    """All blanks for the token sat, with the faults that are asked for."""
    x = X_TOKENS[2]
    matrix = _W if side == "row" else _W.T
    N = {
        "right": _plain(x), "unbiased": (x - 1.5) / 0.5**0.5, "variance": (x - 1.5) / 0.25,
        "not_centred": x / 0.5, "only_centred": x - 1.5,
    }[layer]  # fmt: skip
    columns, middle = X_TOKENS.std(axis=0), X_TOKENS.mean(axis=0)
    B = {
        "right": (x - middle) / columns,
        "unbiased": (x - middle) / X_TOKENS.std(axis=0, ddof=1),
        "variance": (x - middle) / columns**2, "not_centred": x / columns,
        "layer": _plain(x),
    }[batch]  # fmt: skip
    N_true = _plain(x)
    before = {
        "right": x + N_true @ matrix, "no_norm": x + x @ matrix,
        "no_skip": N_true @ matrix, "normalised_skip": N_true + N_true @ matrix,
        "post": _plain(x + x @ matrix), "output": x + _plain(x @ matrix),
    }[pre]  # fmt: skip
    after = {
        "right": _plain(x + x @ matrix), "no_norm": x + x @ matrix,
        "no_skip": _plain(x @ matrix), "pre": x + N_true @ matrix,
        "both": x + _plain(x + x @ matrix),
    }[post]  # fmt: skip
    return {
        "mean": 1.5, "std": std, "layer": N, "batch": B, "pre": before, "post": after,
    }  # fmt: skip


_RIGHT_SHEET = _sheet()

PENCIL_NORMALIZATION = Pencil(
    name="pencil_normalization",
    statement="Work out for the token sat: mean and standard deviation, its layer "
    "normalisation, its batch normalisation among the three tokens, then pre-norm and "
    "post-norm around F(x) = x W. gamma is 1, beta and eps are 0.",
    blanks=(
        Blank("mean", _RIGHT_SHEET["mean"], "What is the mean of 2 and 1?"),
        Blank(
            "std",
            _RIGHT_SHEET["std"],
            "How far is each of the two numbers from their mean? Square, average over "
            "two, take the root.",
        ),
        Blank(
            "layer",
            _RIGHT_SHEET["layer"],
            "Take the mean away from both numbers, then divide by the standard "
            "deviation.",
        ),
        Blank(
            "batch",
            _RIGHT_SHEET["batch"],
            "The first column of the three tokens is 1, 0, 2. What are its mean and its "
            "standard deviation, and where is sat among them?",
        ),
        Blank(
            "pre",
            _RIGHT_SHEET["pre"],
            "Pre-norm is x + F(N(x)). What is N(x), and what is that row times W?",
        ),
        Blank(
            "post",
            _RIGHT_SHEET["post"],
            "Post-norm is N(x + F(x)). What is x + x W, before it is normalised?",
        ),
    ),
    mistakes=(
        Slip(
            "std_unbiased",
            "The squares were divided by d - 1 = 1 instead of by d = 2.",
            "Layer normalisation takes the mean of the squares. How many are there?",
            {"std": 0.5**0.5},
        ),
        Slip(
            "std_not_rooted",
            "That is the variance; the standard deviation is its root.",
            "What is the root of 0.25?",
            {"std": 0.25},
        ),
        Slip(
            "std_range",
            "That is the difference of the two numbers, not how far each is from their mean.",
            "What is 2 - 1.5?",
            {"std": 1.0},
        ),
        Slip(
            "layer_unbiased",
            "The variance was divided by d - 1 instead of by d.",
            "How many squares does the mean run over?",
            {"layer": _sheet(layer="unbiased")["layer"]},
        ),
        Slip(
            "layer_by_variance",
            "The deviations were divided by the variance, 0.25, instead of by its root.",
            "What is the root of 0.25?",
            {"layer": _sheet(layer="variance")["layer"]},
        ),
        Slip(
            "layer_not_centred",
            "The mean was not taken away.",
            "What should the two normalised numbers sum to?",
            {"layer": _sheet(layer="not_centred")["layer"]},
        ),
        Slip(
            "layer_only_centred",
            "The mean was taken away, and the division is still to do.",
            "What should the variance of the two normalised numbers be?",
            {"layer": _sheet(layer="only_centred")["layer"]},
        ),
        Slip(
            "batch_unbiased",
            "That is 2 - 1 and 1 - 1: either nothing was divided, or the sum of the squares "
            "was divided by 2 instead of by 3, which gives 1 here.",
            "The mean of the squares runs over three tokens. What is its root?",
            {"batch": _sheet(batch="unbiased")["batch"]},
        ),
        Slip(
            "batch_by_variance",
            "The deviations were divided by the variance, 2/3, instead of by its root.",
            "What is the root of 2/3?",
            {"batch": _sheet(batch="variance")["batch"]},
        ),
        Slip(
            "batch_not_centred",
            "The mean of the column was not taken away.",
            "What is the mean of 1, 0, 2?",
            {"batch": _sheet(batch="not_centred")["batch"]},
        ),
        Slip(
            "batch_is_layer",
            "That is the layer normalisation again: along the row of sat.",
            "Batch normalisation runs down a column. Which three numbers stand in the "
            "first one?",
            {"batch": _sheet(batch="layer")["batch"]},
        ),
        Slip(
            "pre_by_column",
            "W was multiplied from the left, with the token as a column; here a token "
            "is a row.",
            "What is the row (1, -1) times the first column of W?",
            {
                "pre": _sheet(side="column")["pre"],
                "post": _sheet(side="column")["post"],
            },
        ),
        Slip(
            "pre_no_norm",
            "F got x itself, not the normalised token.",
            "What goes into F in x + F(N(x))?",
            {"pre": _sheet(pre="no_norm")["pre"]},
        ),
        Slip(
            "pre_no_skip",
            "x was not added.",
            "What remains of x + F(N(x)) when F gives zero?",
            {"pre": _sheet(pre="no_skip")["pre"]},
        ),
        Slip(
            "pre_normalised_skip",
            "The normalised token was added; pre-norm adds x itself.",
            "Which x stands in front of the plus in x + F(N(x))?",
            {"pre": _sheet(pre="normalised_skip")["pre"]},
        ),
        Slip(
            "pre_is_post",
            "That is post-norm: the sum was normalised.",
            "Where is the norm in x + F(N(x)): in front of F or behind the plus?",
            {"pre": _sheet(pre="post")["pre"]},
        ),
        Slip(
            "pre_output_normalised",
            "The output of F was normalised instead of its input.",
            "Which is inside which in F(N(x))?",
            {"pre": _sheet(pre="output")["pre"]},
        ),
        Slip(
            "post_no_norm",
            "That is x + F(x); it is still to be normalised.",
            "What are the mean and the standard deviation of these two numbers?",
            {"post": _sheet(post="no_norm")["post"]},
        ),
        Slip(
            "post_no_skip",
            "x was not added before the sum was normalised.",
            "What are the two terms of the sum in N(x + F(x))?",
            {"post": _sheet(post="no_skip")["post"]},
        ),
        Slip(
            "post_is_pre",
            "That is pre-norm again.",
            "What is the last thing that happens in N(x + F(x))?",
            {"post": _sheet(post="pre")["post"]},
        ),
        Slip(
            "post_added_again",
            "x was added once more, after the norm.",
            "How many plus signs are in N(x + F(x))?",
            {"post": _sheet(post="both")["post"]},
        ),
    ),
)


# layer_norm


def _layer_norm(**settings: str) -> Function:
    """Layer normalisation with the faults that are asked for."""

    def layer_norm_with(X: Any, gamma: Any, beta: Any, eps: Any) -> Any:
        return _norm(X, gamma, beta, eps, **settings)

    return layer_norm_with


_SPREADS = np.array(
    [[1.0, -1.0, 1.0, -1.0], [1e-4, -1e-4, 1e-4, -1e-4], [100.0, -100.0, 100.0, -100.0]]
)

LAYER_NORM = Exercise(
    name="layer_norm",
    arguments=("X", "gamma", "beta", "eps"),
    statement="Return the layer normalisation of the rows of X (n, d), with gamma and "
    "beta of shape (d,) and eps under the root.",
    ask="For the first row of the input shown: what is its mean, what its standard "
    "deviation, and what comes out before gamma and beta?",
    reference=layer_norm,
    probes=(
        Probe(
            np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.ones(3), np.zeros(3), 0.0,
            about="the two rows of the chapter",
        ),
        Probe(
            np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([1.0, 2.0, 3.0]),
            np.zeros(3), 0.0, about="gamma = (1, 2, 3)",
        ),
        Probe(
            np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.zeros(3),
            np.array([7.0, 8.0, 9.0]), 0.0, about="gamma = 0, so only beta is left",
        ),
        Probe(
            _SPREADS, np.ones(4), np.zeros(4), 1e-5,
            about="rows that spread by 1, by 0.0001 and by 100",
        ),
        Probe(
            np.array([[2.0, 2.0, 2.0], [0.0, 0.0, 3.0]]), np.array([1.0, 2.0, 1.0]),
            np.array([0.5, 0.0, 0.0]), 1e-5, about="a row of equal numbers",
        ),
        Probe(
            numbers(801, 3, 3), numbers(802, 3), numbers(803, 3), 1e-5,
            about="three tokens of width 3",
        ),
        Probe(
            numbers(804, 5, 4), numbers(805, 4), numbers(806, 4), 1e-5,
            about="five tokens of width 4",
        ),
        Probe(
            numbers(807, 2, 5) + 50.0, numbers(808, 5), numbers(809, 5), 1e-3,
            about="a mean of about 50 and a large eps",
        ),
    ),
    beyond=(
        Beyond(
            Probe(numbers(811, 2, 5, 4), numbers(812, 4), numbers(813, 4), 1e-5),
            "It works for one sequence. With a batch in front, axis=1 runs over the "
            "tokens; axis=-1 is always the width of a token.",
        ),
    ),
    assemble=_layer_norm,
    mistakes=(
        *_NORM_MISTAKES,
        Mistake(
            "no_eps",
            "eps is not used, so a row of equal numbers divides 0 by 0.",
            "What is the variance of (2, 2, 2)?",
            settings={"spread": "no_eps"},
        ),
        Mistake(
            "absolute",
            "It divides by the mean distance from the mean instead of by the root of "
            "the mean square.",
            "What is the root of the mean of (1, 0, 1)?",
            settings={"spread": "absolute"},
        ),
        Mistake(
            "length",
            "The squares are summed instead of averaged, so every token gets length 1.",
            "What should the variance of a normalised token be, whatever its width?",
            settings={"spread": "length"},
        ),
        Mistake(
            "not_divided",
            "The mean is taken away, and nothing is divided.",
            "What should the variance of a normalised token be?",
            settings={"spread": "none"},
        ),
        Mistake(
            "not_centred",
            "The mean is used for the variance, and is not taken away from the token.",
            "What should the numbers of a normalised token sum to?",
            settings={"centre": "none"},
        ),
        Mistake(
            "rms",
            "The token is divided by the root of its mean square, without taking the "
            "mean away: that is RMSNorm, which came later and does without the mean.",
            "What should the numbers of a normalised token sum to?",
            settings={"centre": "rms"},
        ),
        Mistake(
            "gamma_per_token",
            "gamma is laid out as a column (n, 1), one factor per token; it has one "
            "factor per column of X.",
            "How many numbers has gamma: as many as there are tokens, or as a token has?",
            settings={"scale": "column"},
        ),
        Mistake(
            "beta_first",
            "beta is added before gamma multiplies.",
            "What should come out when gamma is all zeros?",
            settings={"shift": "first"},
        ),
    ),
)  # fmt: skip


# pre_norm


def _sublayer(order: str = "pre", side: str = "row", norms: str = "right") -> Function:
    """A sub-layer with skip and norm, with the faults that are asked for."""

    def pre_norm_with(X: Any, W: Any, gamma: Any, beta: Any) -> Any:
        if side == "column":
            W = W.T

        def norm(Z: np.ndarray) -> np.ndarray:
            if norms == "no_gamma":
                return _norm(Z, gamma, beta, scale="dropped")
            if norms == "tokens":
                return _norm(Z, gamma, beta, axis="tokens")
            if norms == "plain":
                return _norm(Z, np.ones_like(gamma), np.zeros_like(beta))
            return _norm(Z, gamma, beta)

        if order == "post":
            return norm(X + X @ W)
        if order == "no_norm":
            return X + X @ W
        if order == "no_skip":
            return norm(X) @ W
        if order == "normalised_skip":
            return norm(X) + norm(X) @ W
        if order == "both_sides":
            return norm(X + norm(X) @ W)
        if order == "output":
            return X + norm(X @ W)
        if order == "doubled":
            return X + X + norm(X) @ W
        if order == "skip_of_sum":
            return X + norm(X + X @ W)
        return X + norm(X) @ W

    return pre_norm_with


PRE_NORM = Exercise(
    name="pre_norm",
    arguments=("X", "W", "gamma", "beta"),
    statement="Return X + F(LayerNorm(X)) for the sub-layer F(Y) = Y W.",
    ask="What comes out when W is all zeros? And what goes into the sub-layer?",
    reference=lambda X, W, gamma, beta: residual_pre(X, lambda Y: Y @ W, gamma, beta),
    probes=(
        Probe(
            np.array([[1.0, 5.0], [2.0, 4.0]]), np.zeros((2, 2)), _ONES, _ZEROS,
            about="W = 0, so the sub-layer gives nothing",
        ),
        Probe(
            np.array([[1.0, 5.0, 3.0]]), np.eye(3), np.ones(3), np.zeros(3),
            about="W the identity",
        ),
        Probe(
            np.array([[1.0, 5.0, 3.0], [0.0, 2.0, 1.0]]), np.eye(3),
            np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.0]),
            about="gamma = (1, 2, 3)",
        ),
        Probe(X_TOKENS, _W, _ONES, _ZEROS, about="the three tokens of the chapter"),
        Probe(
            numbers(821, 4, 3), numbers(822, 3, 3), numbers(823, 3), numbers(824, 3),
            about="four tokens of width 3",
        ),
        Probe(
            numbers(825, 3, 5), numbers(826, 5, 5), numbers(827, 5), numbers(828, 5),
            about="three tokens of width 5",
        ),
    ),
    assemble=_sublayer,
    mistakes=(
        Mistake(
            "post_norm",
            "That is post-norm, LayerNorm(X + F(X)): the norm stands behind the sum.",
            "When the sub-layer gives zero, should X come out as it was?",
            settings={"order": "post"},
        ),
        Mistake(
            "normalised_skip",
            "The skip starts from the normalised tokens: LayerNorm(X) + F(LayerNorm(X)).",
            "When the sub-layer gives zero, should X come out as it was?",
            settings={"order": "normalised_skip"},
        ),
        Mistake(
            "both_sides",
            "There are two norms, one before the sub-layer and one behind the sum.",
            "When the sub-layer gives zero, should X come out as it was?",
            settings={"order": "both_sides"},
        ),
        Mistake(
            "output_normalised",
            "The output of the sub-layer is normalised instead of its input.",
            "How large may what the sub-layer adds be: is it meant to be free?",
            settings={"order": "output"},
        ),
        Mistake(
            "no_norm",
            "Nothing is normalised.",
            "What goes into the sub-layer?",
            settings={"order": "no_norm"},
        ),
        Mistake(
            "no_skip",
            "X is not added.",
            "When the sub-layer gives zero, what should come out?",
            settings={"order": "no_skip"},
        ),
        Mistake(
            "doubled",
            "X is added twice.",
            "When the sub-layer gives zero, what should come out?",
            settings={"order": "doubled"},
        ),
        Mistake(
            "skip_around_norm",
            "X is added to LayerNorm(X + F(X)): a skip around post-norm.",
            "How many plus signs are in X + F(LayerNorm(X))?",
            settings={"order": "skip_of_sum"},
        ),
        Mistake(
            "transposed",
            "The product is Y W^T instead of Y W.",
            "A token is a row. Which columns does it meet?",
            settings={"side": "column"},
        ),
        Mistake(
            "gamma_dropped",
            "gamma is not used.",
            "What does gamma = (1, 2, 3) do to the three columns?",
            settings={"norms": "no_gamma"},
        ),
        Mistake(
            "over_tokens",
            "The norm runs down the tokens instead of along each one.",
            "If another token changes, may this one change?",
            settings={"norms": "tokens"},
        ),
        Mistake(
            "parameters_dropped",
            "Neither gamma nor beta is used.",
            "Which of your lines use gamma and beta?",
            settings={"norms": "plain"},
        ),
    ),
)  # fmt: skip


# bag_plateau


def _counts(words: np.ndarray) -> np.ndarray:
    """How often each letter stands in each row; shape (rows, letters)."""
    letters = np.unique(words)
    return np.stack([(words == letter).sum(axis=1) for letter in letters], axis=1)


def _bag_plateau(words: Any) -> float:
    return float(_counts(np.asarray(words)).max(axis=1).mean() / np.shape(words)[1])


BAG_PLATEAU = Exercise(
    name="bag_plateau",
    arguments=("words",),
    statement="Return the share of places, 0 to 1, that a model can get right if it "
    "knows how often each letter stands in a row of words (count, length), and not where.",
    ask="For the first row of the input shown: which letter should the model answer at "
    "every place, and at how many places is it right?",
    reference=_bag_plateau,
    probes=(
        Probe(np.array([[3, 3, 3, 3]]), about="one row of equal letters"),
        Probe(np.array([[0, 1, 2, 3]]), about="one row of different letters"),
        Probe(np.array([[5, 5, 1, 2]]), about="one letter twice"),
        Probe(
            np.array([[0, 0, 0, 1, 2], [2, 2, 3, 3, 3], [0, 1, 2, 3, 4]]),
            about="three rows of five letters",
        ),
        Probe(
            np.array([[7, 7], [7, 1], [2, 3], [4, 5]]), about="four rows of two letters"
        ),
        Probe(
            np.random.default_rng(83).integers(8, size=(50, 6)),
            about="fifty random rows of six letters",
        ),
    ),
    mistakes=(
        Mistake(
            "one_letter_for_all",
            "One letter answers for all rows: the most frequent of the whole array.",
            "Does the model know which letters stand in each row?",
            lambda words: float(
                np.unique(words, return_counts=True)[1].max() / words.size
            ),
        ),
        Mistake(
            "different_letters",
            "The different letters of a row are counted, not the most frequent one.",
            "A row (3, 3, 3, 3) has one letter. At how many places is the model right?",
            lambda words: float(
                (_counts(words) > 0).sum(axis=1).mean() / words.shape[1]
            ),
        ),
        Mistake(
            "one_in_different",
            "The model guesses evenly among the different letters of a row.",
            "In (5, 5, 1, 2) one letter is the better bet. Which?",
            lambda words: float((1 / (_counts(words) > 0).sum(axis=1)).mean()),
        ),
        Mistake(
            "drawn_from_the_row",
            "The model draws each answer from the letters of the row at random.",
            "It does best if it always gives the same answer. Which?",
            lambda words: float(
                ((_counts(words) / words.shape[1]) ** 2).sum(axis=1).mean()
            ),
        ),
        Mistake(
            "not_divided",
            "The number of right places is returned, not their share.",
            "How many places does a row have?",
            lambda words: float(_counts(words).max(axis=1).mean()),
        ),
        Mistake(
            "best_row",
            "The best row is returned instead of the mean over the rows.",
            "What does the model score on the other rows?",
            lambda words: float(_counts(words).max() / words.shape[1]),
        ),
        Mistake(
            "one_in_length",
            "Only one place in each row is counted as right.",
            "In (5, 5, 1, 2) the model answers 5 everywhere. At how many places is it "
            "right?",
            lambda words: 1.0 / words.shape[1],
        ),
        Mistake(
            "columns",
            "The letters are counted down the columns, over the rows.",
            "What does the model know: the letters of a row, or of a place?",
            lambda words: float(_counts(words.T).max(axis=1).mean() / words.shape[0]),
        ),
        Mistake(
            "letter_value",
            "max returns the largest letter, not how often the most frequent one occurs.",
            "Letters are names here. Does it matter that 7 is larger than 1?",
            lambda words: float(np.mean([(row == row.max()).mean() for row in words])),
        ),
    ),
)


# repaired_layer: two sub-layers, pre-norm


def _layer(
    axis: str = "features",
    skip: str = "stream",
    own: str = "two",
    second: str = "normalised",
    bend: str = "relu",
) -> Function:
    """A pre-norm layer of two sub-layers, with the faults that are asked for."""

    def layer_with(
        X: Any, W_1: Any, W_2: Any, gamma_1: Any, beta_1: Any, gamma_2: Any, beta_2: Any
    ) -> Any:
        def norm(Z: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
            if axis == "unbiased":
                return _norm(Z, gamma, beta, spread="unbiased")
            return _norm(Z, gamma, beta, axis=axis)

        def think(Z: np.ndarray) -> np.ndarray:
            return np.maximum(0.0, Z @ W_2) if bend == "relu" else np.asarray(Z @ W_2)

        if own == "shared":
            gamma_2, beta_2 = gamma_1, beta_1
        elif own == "shared_second":
            gamma_1, beta_1 = gamma_2, beta_2
        elif own == "gamma":
            gamma_2 = gamma_1
        elif own == "beta":
            beta_2 = beta_1
        if skip == "post":
            X = norm(X + X @ W_1, gamma_1, beta_1)
            return norm(X + think(X), gamma_2, beta_2)
        read = norm(X, gamma_1, beta_1)
        X = (read if skip in ("normalised", "first_only") else X) + read @ W_1
        read = X if second == "raw" else norm(X, gamma_2, beta_2)
        return (read if skip in ("normalised", "second_only") else X) + think(read)

    return layer_with


REPAIRED_LAYER = Exercise(
    name="repaired_layer",
    arguments=("X", "W_1", "W_2", "gamma_1", "beta_1", "gamma_2", "beta_2"),
    statement="Repair the pre-norm layer with the sub-layers F(Y) = Y W_1 and "
    "G(Y) = max(0, Y W_2), each with a norm of its own.",
    ask="What comes out when both matrices are zero? Does one token change when another "
    "does? Which of your lines use gamma_2 and beta_2?",
    reference=_layer(),
    probes=(
        Probe(
            np.array([[1.0, 5.0], [2.0, 4.0]]), np.zeros((2, 2)), np.zeros((2, 2)),
            _ONES, _ZEROS, _ONES, _ZEROS, about="W_1 = W_2 = 0, so nothing is added",
        ),
        Probe(
            np.array([[1.0, 5.0, 3.0]]), np.eye(3), np.zeros((3, 3)), np.ones(3),
            np.zeros(3), np.ones(3), np.zeros(3), about="W_2 = 0 and a single token",
        ),
        Probe(
            np.array([[1.0, 5.0, 3.0]]), np.zeros((3, 3)), np.eye(3), np.ones(3),
            np.zeros(3), np.ones(3), np.zeros(3), about="W_1 = 0 and a single token",
        ),
        Probe(
            np.array([[1.0, 5.0, 3.0]]), np.zeros((3, 3)), np.eye(3),
            np.array([1.0, 2.0, 3.0]), np.zeros(3), np.array([3.0, 1.0, 1.0]),
            np.array([0.0, 4.0, 4.0]), about="a single token and four different vectors",
        ),
        Probe(
            np.array([[1.0, 5.0, 3.0], [40.0, 20.0, 30.0]]), np.eye(3), np.zeros((3, 3)),
            np.ones(3), np.zeros(3), np.ones(3), np.zeros(3),
            about="a small token and a large one",
        ),
        Probe(
            numbers(831, 4, 3), numbers(832, 3, 3), numbers(833, 3, 3), numbers(834, 3),
            numbers(835, 3), numbers(836, 3), numbers(837, 3),
            about="four tokens of width 3",
        ),
        Probe(
            numbers(838, 3, 5), numbers(839, 5, 5), numbers(840, 5, 5), numbers(841, 5),
            numbers(842, 5), numbers(843, 5), numbers(844, 5),
            about="three tokens of width 5",
        ),
    ),
    assemble=_layer,
    planted=("over_all", "normalised_skip", "shared"),
    mistakes=(
        Mistake(
            "over_all",
            "Mean and variance are taken over the whole array at once, so a large token "
            "makes the others small.",
            "If another token changes, may this one change?",
            settings={"axis": "all"},
        ),
        Mistake(
            "over_tokens",
            "The norm runs down the tokens instead of along each one.",
            "If another token changes, may this one change?",
            settings={"axis": "tokens"},
        ),
        Mistake(
            "unbiased",
            "The variance divides by d - 1; layer normalisation divides by d.",
            "What is the mean of the squared deviations of (1, 2, 3)?",
            settings={"axis": "unbiased"},
        ),
        Mistake(
            "normalised_skip",
            "The skip starts from the normalised tokens, so the stream itself is "
            "normalised in every sub-layer. That is post-norm, one step later.",
            "When both sub-layers give zero, should X come out as it was?",
            settings={"skip": "normalised"},
        ),
        Mistake(
            "first_skip_normalised",
            "In the first sub-layer the skip starts from the normalised tokens.",
            "When both sub-layers give zero, should X come out as it was?",
            settings={"skip": "first_only"},
        ),
        Mistake(
            "second_skip_normalised",
            "In the second sub-layer the skip starts from the normalised tokens.",
            "When both sub-layers give zero, should X come out as it was?",
            settings={"skip": "second_only"},
        ),
        Mistake(
            "post_norm",
            "Both norms stand behind their sums: that is a post-norm layer.",
            "When both sub-layers give zero, should X come out as it was?",
            settings={"skip": "post"},
        ),
        Mistake(
            "shared",
            "gamma_1 and beta_1 serve both norms.",
            "Which of your lines use gamma_2 and beta_2?",
            settings={"own": "shared"},
        ),
        Mistake(
            "shared_second",
            "gamma_2 and beta_2 serve both norms.",
            "Which of your lines use gamma_1 and beta_1?",
            settings={"own": "shared_second"},
        ),
        Mistake(
            "shared_gamma",
            "The second norm uses gamma_1.",
            "Which of your lines use gamma_2?",
            settings={"own": "gamma"},
        ),
        Mistake(
            "shared_beta",
            "The second norm uses beta_1.",
            "Which of your lines use beta_2?",
            settings={"own": "beta"},
        ),
        Mistake(
            "second_not_normalised",
            "The second sub-layer reads the stream without a norm.",
            "Which of your lines use gamma_2 and beta_2?",
            settings={"second": "raw"},
        ),
        Mistake(
            "no_relu",
            "max(0, ...) is missing in the second sub-layer.",
            "May the second sub-layer add a negative number?",
            settings={"bend": "none"},
        ),
    ),
)  # fmt: skip


# layer_norm_backward


def _backward(
    path: str = "right", gamma_from: str = "normalised", over: str = "sum",
    spread: str = "right", order: str = "X_first",
) -> Function:  # fmt: skip
    """The gradients of layer normalisation with the faults that are asked for."""

    def layer_norm_backward_with(d_output: Any, X: Any, gamma: Any) -> Any:
        centred = X - X.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        if spread == "unbiased":
            variance = variance * X.shape[-1] / (X.shape[-1] - 1)
        s = np.sqrt(variance + _EPS)
        x_hat = centred / s
        g = d_output if path == "no_gamma" else d_output * gamma
        mean = g.mean(axis=-1, keepdims=True)
        along = (g * x_hat).mean(axis=-1, keepdims=True)
        if path == "sums":
            mean, along = (z * X.shape[-1] for z in (mean, along))
        elif path == "over_tokens":
            mean = g.mean(axis=0, keepdims=True)
            along = (g * x_hat).mean(axis=0, keepdims=True)
        keeps_mean = path not in ("constants", "only_along")
        keeps_along = path not in ("constants", "only_mean")
        dX = (g - mean * keeps_mean - x_hat * along * keeps_along) / s
        if path == "squared":
            dX = dX / s
        elif path == "not_divided":
            dX = dX * s
        elif path == "raw_along":
            dX = (g - mean - X * (g * X).mean(axis=-1, keepdims=True)) / s
        factor = {"normalised": x_hat, "X": X, "centred": centred}[gamma_from]
        dgamma, dbeta = d_output * factor, d_output
        if over == "mean":
            dgamma, dbeta = dgamma.mean(axis=0), dbeta.mean(axis=0)
        elif over == "features":
            dgamma, dbeta = dgamma.sum(axis=-1), dbeta.sum(axis=-1)
        elif over == "with_gamma":
            dgamma, dbeta = (g * factor).sum(axis=0), dbeta.sum(axis=0)
        else:
            dgamma, dbeta = dgamma.sum(axis=0), dbeta.sum(axis=0)
        if order == "beta_first":
            return dX, dbeta, dgamma
        return (dX, dgamma, dbeta) if order == "X_first" else (dgamma, dbeta, dX)

    return layer_norm_backward_with


LAYER_NORM_BACKWARD = Exercise(
    name="layer_norm_backward",
    arguments=("d_output", "X", "gamma"),
    statement="Return the gradients (dX, dgamma, dbeta) of layer normalisation with "
    "eps = 1e-5, from the gradient with respect to its output.",
    ask="Which of the three gradients is right already? For dX: what must the numbers "
    "of one row sum to, since shifting a token changes nothing?",
    reference=layer_norm_backward,
    returns=("dX", "dgamma", "dbeta"),
    probes=(
        Probe(
            np.array([[1.0, 0.0, 0.0]]), np.array([[1.0, 2.0, 3.0]]), np.ones(3),
            about="a single token and gamma = 1",
        ),
        Probe(
            np.array([[1.0, 1.0, 1.0]]), np.array([[1.0, 2.0, 4.0]]), np.ones(3),
            about="a gradient of equal numbers, where dX is zero",
        ),
        Probe(
            np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]),
            np.array([[1.0, 2.0, 4.0], [30.0, 10.0, 50.0]]), np.array([1.0, 2.0, 3.0]),
            about="two tokens and gamma = (1, 2, 3)",
        ),
        Probe(
            numbers(851, 3, 3), numbers(852, 3, 3), numbers(853, 3),
            about="three tokens of width 3",
        ),
        Probe(
            numbers(854, 4, 5), numbers(855, 4, 5), numbers(856, 5),
            about="four tokens of width 5",
        ),
    ),
    properties=(
        Property(
            "Adding the same number to all of a token changes nothing, so each row of "
            "dX sums to 0, and here one does not.",
            lambda got, d_output, X, gamma: bool(
                np.abs(got[0].sum(axis=-1)).max() < 1e-6 * (1 + np.abs(got[0]).max())
            ),
        ),
    ),
    assemble=_backward,
    mistakes=(
        Mistake(
            "constants",
            "Mean and standard deviation are treated as constants: only g / s passes.",
            "If the first number of a token rises, does the normalised second number "
            "stay?",
            settings={"path": "constants"},
        ),
        Mistake(
            "no_spread_path",
            "The path through the standard deviation is missing.",
            "If a token is stretched, its output stays. Which part of g may then not "
            "pass?",
            settings={"path": "only_mean"},
        ),
        Mistake(
            "no_mean_path",
            "The path through the mean is missing.",
            "If a token is shifted, its output stays. Which part of g may then not pass?",
            settings={"path": "only_along"},
        ),
        Mistake(
            "sums",
            "Sums are taken where means belong.",
            "The derivative of a mean of d numbers with respect to one of them is what?",
            settings={"path": "sums"},
        ),
        Mistake(
            "over_tokens",
            "The means run over the tokens instead of along each token.",
            "Along which axis did the forward pass take its mean?",
            settings={"path": "over_tokens"},
        ),
        Mistake(
            "no_gamma",
            "gamma is missing on the way back to X.",
            "The output is gamma times the normalised token. What is its derivative?",
            settings={"path": "no_gamma"},
        ),
        Mistake(
            "variance_not_rooted",
            "dX is divided by the variance instead of by its root.",
            "The forward pass divides by s. How often does s appear on the way back?",
            settings={"path": "squared"},
        ),
        Mistake(
            "not_divided",
            "dX is not divided by the standard deviation.",
            "If a token is ten times as large, by how much does a small change of it "
            "move the output?",
            settings={"path": "not_divided"},
        ),
        Mistake(
            "raw_in_spread_path",
            "The token itself stands where the normalised token belongs in dX.",
            "In which direction does stretching a token move it, once it is normalised?",
            settings={"path": "raw_along"},
        ),
        Mistake(
            "dgamma_from_X",
            "dgamma is made with X instead of the normalised token.",
            "What does gamma multiply in the forward pass?",
            settings={"gamma_from": "X"},
        ),
        Mistake(
            "dgamma_from_centred",
            "dgamma is made with X minus its mean; it is not divided by the standard "
            "deviation.",
            "What does gamma multiply in the forward pass?",
            settings={"gamma_from": "centred"},
        ),
        Mistake(
            "averaged",
            "dgamma and dbeta are averaged over the tokens instead of summed.",
            "gamma is used once for each token. How do gradients of several uses meet?",
            settings={"over": "mean"},
        ),
        Mistake(
            "summed_along_token",
            "dgamma and dbeta are summed along each token instead of over the tokens.",
            "Which shape has gamma, and which has your dgamma?",
            settings={"over": "features"},
        ),
        Mistake(
            "gamma_in_dgamma",
            "dgamma holds gamma once more.",
            "The output is gamma times the normalised token plus beta. What is its "
            "derivative with respect to gamma?",
            settings={"over": "with_gamma"},
        ),
        Mistake(
            "unbiased",
            "The variance divides by d - 1 instead of by d.",
            "Is this the standard deviation that the forward pass divided by?",
            settings={"spread": "unbiased"},
        ),
        Mistake(
            "beta_first",
            "The gradients are returned in the order (dX, dbeta, dgamma).",
            "Which order was asked for?",
            settings={"order": "beta_first"},
        ),
        Mistake(
            "X_last",
            "The gradients are returned in the order (dgamma, dbeta, dX).",
            "Which order was asked for?",
            settings={"order": "X_last"},
        ),
    ),
)  # fmt: skip
