"""Exercises of chapter 11: what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from transformer_lib.exercises.engine import (
    Exercise,
    Function,
    Mistake,
    Probe,
    numbers,
)
from transformer_lib.exercises.pencil import Blank, Pencil, Slip
from transformer_lib.reference.cost import (
    encoder_layer_flops,
    linear_attention,
    linear_recurrence,
    linear_recurrence_backward,
)
from transformer_lib.reference.positions import alibi_slopes

EXERCISES = (
    "pencil_cost",
    "layer_flops",
    "utilisation",
    "slopes_of_alibi",
    "repaired_linear_attention",
    "recurrence_backward",
)


# pencil_cost: three tokens of width two

PENCIL_COST = Pencil(
    name="pencil_cost",
    statement="Three tokens of width d = 2 with one head. Count multiplications (each "
    "with its addition): of the four projections together, of the scores, of weights "
    "times values; then of the same two for six tokens; of an RNN with d = 2 on three "
    "tokens; the length at which projections and core cost the same; and the numbers in "
    "the score matrices of six tokens and two heads.",
    blanks=(
        Blank("projections", 48, "Four matrices of two by two meet how many tokens?"),
        Blank("scores", 18, "How many scores are there, and how many products has one?"),
        Blank("averages", 18, "How many numbers has the output, and how many terms each?"),
        Blank("core of six", 144, "What happens to n times n when n doubles?"),
        Blank("RNN", 24, "Two matrices of two by two are used at every token."),
        Blank("meeting length", 4, "Where is 4 n d d equal to 2 n n d?"),
        Blank("numbers kept", 72, "How many matrices are there, and how large is each?"),
    ),
    mistakes=(
        Slip(
            "flops",
            "These are operations: each multiplication and its addition counted apart. "
            "The sheet asks for multiplications.",
            "How often was each product counted?",
            {"projections": 96, "scores": 36, "averages": 36, "core of six": 288,
             "RNN": 48},
        ),
        Slip(
            "no_output_projection",
            "Three projections were counted; the output has one too.",
            "What stands behind the heads of chapter 7?",
            {"projections": 36},
        ),
        Slip(
            "one_projection",
            "One projection was counted; there are four.",
            "Which matrices does a layer of chapter 7 have?",
            {"projections": 12},
        ),
        Slip(
            "score_numbers",
            "These are the numbers in the score matrix; each is a sum of two products.",
            "How wide are query and key?",
            {"scores": 9},
        ),
        Slip(
            "linear_in_tokens",
            "The core was doubled; with twice the tokens there are four times the pairs.",
            "How many pairs do six tokens make?",
            {"core of six": 72},
        ),
        Slip(
            "no_input_matrix",
            "The RNN's input matrix is missing; h and x are both multiplied.",
            "Which two matrices has the cell of chapter 1?",
            {"RNN": 12},
        ),
        Slip(
            "width_forgotten",
            "The RNN was counted with one multiplication per number of the state.",
            "How many numbers of the old state go into one new number?",
            {"RNN": 6},
        ),
        Slip(
            "core_against_rnn",
            "That is the length at which the core alone costs as much as an RNN.",
            "Which two counts should be equal: is the RNN one of them?",
            {"meeting length": 2},
        ),
        Slip(
            "one_head",
            "One head's matrix was counted; there are two heads.",
            "Does each head have scores of its own?",
            {"numbers kept": 36},
        ),
        Slip(
            "heads_squared",
            "The heads were counted twice over.",
            "How many matrices of six by six do two heads make?",
            {"numbers kept": 144},
        ),
    ),
)  # fmt: skip

# layer_flops


def _layer(
    factor: int = 2,
    projections: int = 4,
    core: str = "both",
    network: str = "both",
    tokens: str = "right",
    expand: str = "d_ff",
) -> Function:
    """The operations of an encoder layer with the faults that are asked for."""

    def layer_flops(n: int, d_model: int, d_ff: int) -> Any:
        products = projections * n * d_model * d_model
        pairs = n if tokens == "linear" else n * n
        products += {"both": 2, "scores": 1, "none": 0}[core] * pairs * d_model
        wide = 4 * d_model if expand == "four" else d_ff
        products += {"both": 2, "one": 1, "none": 0}[network] * n * d_model * wide
        return factor * products

    return layer_flops


LAYER_FLOPS = Exercise(
    name="layer_flops",
    arguments=("n", "d_model", "d_ff"),
    statement="Return the floating-point operations of the matrix products of one encoder "
    "layer on n tokens: four projections, scores, weights times values, and the two "
    "products of the feed-forward network. A multiplication and an addition are two.",
    ask="With d_ff = 0 and n = 1, which products are left, and how many operations have "
    "they?",
    reference=encoder_layer_flops,
    probes=(
        Probe(1, 1, 0, about="one token of width 1, no feed-forward network"),
        Probe(3, 2, 0, about="three tokens of width 2, no feed-forward network"),
        Probe(2, 3, 5, about="two tokens of width 3, five inside"),
        Probe(7, 4, 10, about="seven tokens of width 4, ten inside"),
        Probe(64, 512, 2048, about="the base model of 2017 on 64 tokens"),
    ),
    assemble=_layer,
    mistakes=(
        Mistake(
            "multiplications",
            "Multiplications are counted; each has an addition beside it.",
            "How many operations is a times b plus c?",
            settings={"factor": 1},
        ),
        Mistake(
            "trained",
            "The count is three times the forward pass: forward and backward.",
            "Was the backward pass asked for?",
            settings={"factor": 6},
        ),
        Mistake(
            "no_projections",
            "The projections are missing.",
            "Where do queries, keys and values come from?",
            settings={"projections": 0},
        ),
        Mistake(
            "no_output_projection",
            "Three projections are counted; the output is projected too.",
            "What stands behind the heads of chapter 7?",
            settings={"projections": 3},
        ),
        Mistake(
            "scores_only",
            "The scores are counted, but not the weights times the values.",
            "Which two products have a side of n keys?",
            settings={"core": "scores"},
        ),
        Mistake(
            "no_core",
            "Scores and averages are missing: nothing grows with the square of n.",
            "What does the count do when n doubles?",
            settings={"core": "none"},
        ),
        Mistake(
            "linear_core",
            "The core is counted once per token instead of once per pair.",
            "How many scores do n tokens have with one another?",
            settings={"tokens": "linear"},
        ),
        Mistake(
            "one_product_in_network",
            "One product of the feed-forward network is counted; it goes out and back.",
            "Which shapes have the two matrices of chapter 5?",
            settings={"network": "one"},
        ),
        Mistake(
            "no_network",
            "The feed-forward network is missing.",
            "What does d_ff do in your count?",
            settings={"network": "none"},
        ),
        Mistake(
            "four_times_the_width",
            "The network is taken to be four times as wide as the tokens; d_ff says how "
            "wide it is.",
            "What becomes of the count when d_ff is 0?",
            settings={"expand": "four"},
        ),
    ),
)


# utilisation


def _used(
    passes: str = "training",
    batch: str = "all",
    way: str = "right",
    tokens: str = "right",
) -> Function:
    """The share of a machine's speed that a training run uses, with faults."""

    def utilisation(
        flops: float, sequences: int, seconds: float, flops_per_second: float
    ) -> Any:
        work = {"training": 3.0, "forward": 1.0, "twice": 2.0, "four": 4.0}[
            passes
        ] * flops
        if batch == "all":
            work = work * sequences
        elif batch == "divided":
            work = work / sequences
        if way == "inverse":
            return flops_per_second * seconds / work
        if way == "times":
            return work * seconds / flops_per_second
        if way == "no_time":
            return work / flops_per_second
        if way == "rate":
            return work / seconds
        share = work / seconds / flops_per_second
        return 100.0 * share if way == "percent" else share

    return utilisation


UTILISATION = Exercise(
    name="utilisation",
    arguments=("flops", "sequences", "seconds", "flops_per_second"),
    statement="A training step on so many sequences took so many seconds, on a machine "
    "that can do flops_per_second. flops are the operations of the forward pass on one "
    "sequence. Return the share of the machine's speed that was used, from 0 to 1.",
    ask="How many operations has the step, forward and backward, and how many could the "
    "machine have done in that time?",
    reference=_used(),
    probes=(
        Probe(1.0, 1, 1.0, 30.0, about="one operation, one sequence, one second"),
        Probe(1.0, 4, 1.0, 100.0, about="four sequences"),
        Probe(2.0, 5, 0.5, 400.0, about="half a second"),
        Probe(6.3e9, 8, 1.4, 1.5e11, about="the base model on one core"),
    ),
    assemble=_used,
    mistakes=(
        Mistake(
            "forward_only",
            "The forward pass alone is counted; a training step costs three of them.",
            "How many products does the backward pass make for each one of the forward "
            "pass?",
            settings={"passes": "forward"},
        ),
        Mistake(
            "backward_as_forward",
            "The backward pass is counted as one forward pass; it costs two.",
            "A product has two factors. How many gradients does it need?",
            settings={"passes": "twice"},
        ),
        Mistake(
            "recomputed",
            "Four passes are counted. That is the work with recomputation; what the model "
            "needs is three, and the fourth is not counted as useful.",
            "Which of the passes would a machine with more memory leave out?",
            settings={"passes": "four"},
        ),
        Mistake(
            "one_sequence",
            "One sequence is counted; the step had several.",
            "Which argument has not been used?",
            settings={"batch": "one"},
        ),
        Mistake(
            "batch_divided",
            "The work is divided by the number of sequences.",
            "Does a larger batch make a step cheaper or dearer?",
            settings={"batch": "divided"},
        ),
        Mistake(
            "upside_down",
            "The fraction is upside down.",
            "Can more than the whole machine be in use?",
            settings={"way": "inverse"},
        ),
        Mistake(
            "seconds_multiplied",
            "The seconds are multiplied in; a slower step would use the machine better.",
            "How many operations could the machine have done in that time?",
            settings={"way": "times"},
        ),
        Mistake(
            "seconds_left_out",
            "The seconds are not used.",
            "If the same step took twice as long, would the share stay?",
            settings={"way": "no_time"},
        ),
        Mistake(
            "rate",
            "That is the rate in operations per second, not yet a share.",
            "What is it a share of?",
            settings={"way": "rate"},
        ),
        Mistake(
            "percent",
            "That is the share in percent; from 0 to 1 was asked.",
            "What is one half in this unit?",
            settings={"way": "percent"},
        ),
    ),
)


# slopes_of_alibi


def _slopes(
    base: str = "eight", count: str = "from_one", order: str = "falling", sign: int = 1
) -> Function:
    def slopes_of_alibi(num_heads: int) -> Any:
        k = np.arange(1.0, num_heads + 1.0)
        if count == "from_zero":
            k = k - 1.0
        elif count == "middle":
            k = k - 0.5
        exponent = {
            "eight": 8.0 * k / num_heads,
            "own": k,
            "one": k / num_heads,
            "heads": k * num_heads / 8.0,
            "ten_thousand": k / num_heads * np.log2(10000.0),
        }.get(base)
        slopes = 8.0 * k / num_heads if exponent is None else 2.0**-exponent
        if base == "even":
            slopes = 1.0 - (k - 1.0) / num_heads
        if order == "rising":
            slopes = slopes[::-1]
        return sign * slopes

    return slopes_of_alibi


SLOPES_OF_ALIBI = Exercise(
    name="slopes_of_alibi",
    arguments=("num_heads",),
    statement="Return the slopes of ALiBi for num_heads heads, a power of two: a geometric "
    "sequence from 2^(-8/h) down to 2^(-8).",
    ask="What is the last slope, whatever the number of heads?",
    reference=alibi_slopes,
    probes=(
        Probe(1, about="one head"),
        Probe(2, about="two heads"),
        Probe(4, about="four heads"),
        Probe(8, about="eight heads, where the slopes are halves of one another"),
        Probe(16, about="sixteen heads"),
    ),
    assemble=_slopes,
    mistakes=(
        Mistake(
            "halves",
            "Each slope is half of the one before, for any number of heads. The last one "
            "is then 1/256 for eight heads only.",
            "What is the last slope for four heads?",
            settings={"base": "own"},
        ),
        Mistake(
            "ends_at_one_half",
            "The 8 is missing: the sequence ends at 1/2 instead of at 1/256.",
            "What is 2^(-8)?",
            settings={"base": "one"},
        ),
        Mistake(
            "inverted_exponent",
            "The exponent is k h / 8; it should be 8 k / h.",
            "Do more heads make the slopes closer together or further apart?",
            settings={"base": "heads"},
        ),
        Mistake(
            "sinusoid_base",
            "The sequence ends at 1/10000, as the wavelengths of chapter 4 do.",
            "Which number stands in ALiBi's formula instead of 10000?",
            settings={"base": "ten_thousand"},
        ),
        Mistake(
            "evenly_spaced",
            "The slopes fall by equal steps; they should fall by equal factors.",
            "What makes a sequence geometric?",
            settings={"base": "even"},
        ),
        Mistake(
            "from_zero",
            "The heads are counted from 0: the first slope is 1.",
            "What is the slope of the only head, if there is one?",
            settings={"count": "from_zero"},
        ),
        Mistake(
            "half_a_head",
            "The heads are counted from one half.",
            "What is the slope of the only head, if there is one?",
            settings={"count": "middle"},
        ),
        Mistake(
            "rising",
            "The order is turned round: the steepest slope comes first.",
            "Which head sees farthest, the first or the last?",
            settings={"order": "rising"},
        ),
        Mistake(
            "negative",
            "The slopes are negative. The formula takes slope times distance away from the "
            "score, so the slopes themselves are above 0.",
            "What would minus a negative slope do to a far key?",
            settings={"sign": -1},
        ),
    ),
)


# repaired_linear_attention


def _linear(
    feature: str = "elu",
    visible: str = "past",
    divide: str = "sum",
    order: str = "write_first",
) -> Function:
    """Linear attention with the faults that are asked for."""

    def repaired_linear_attention(Q: Any, K: Any, V: Any) -> Any:
        Q, K, V = (np.asarray(x, dtype=float) for x in (Q, K, V))

        def phi(x: Any) -> Any:
            if feature == "raw":
                return x
            if feature == "relu":
                return np.maximum(x, 0.0)
            if feature == "exp":
                return np.exp(x)
            return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))

        q, k = phi(Q), phi(K)
        weights = q @ k.T
        n = len(Q)
        if visible == "past":
            seen = np.tri(n, dtype=bool)
        elif visible == "before":
            seen = np.tri(n, k=-1, dtype=bool)
        else:
            seen = np.ones((n, n), dtype=bool)
        if order == "forgets":
            weights = weights * np.tri(n) - weights * np.tri(n, k=-1)
        weights = np.where(seen, weights, 0.0)
        if divide == "sum":
            with np.errstate(divide="ignore", invalid="ignore"):
                weights = weights / weights.sum(axis=1, keepdims=True)
        elif divide == "count":
            weights = weights / np.maximum(seen.sum(axis=1, keepdims=True), 1)
        elif divide == "all_keys":
            weights = weights / (q @ k.sum(axis=0))[:, None]
        elif divide == "root":
            weights = weights / np.sqrt(Q.shape[1])
        return weights @ V

    return repaired_linear_attention


REPAIRED_LINEAR_ATTENTION = Exercise(
    name="repaired_linear_attention",
    arguments=("Q", "K", "V"),
    statement="Return the output of causal linear attention with the features elu + 1: "
    "each token reads the state after its own key and value were added, and divides by "
    "the sum of its weights.",
    ask="If all values are equal, every average gives that value. Does yours, for each row?",
    reference=lambda Q, K, V: linear_attention(Q, K, V)[0],
    probes=(
        Probe(
            np.array([[1.0, 2.0]]), np.array([[0.5, 1.0]]), np.array([[3.0, 4.0, 5.0]]),
            about="a single token, which can only read itself",
        ),
        Probe(
            np.array([[1.0], [1.0], [1.0]]),
            np.array([[0.5], [1.0], [2.0]]),
            np.array([[4.0], [4.0], [4.0]]),
            about="equal values, which every average keeps",
        ),
        Probe(
            np.array([[1.0, 0.5], [2.0, 1.0]]),
            np.array([[1.0, 2.0], [0.5, 3.0]]),
            np.array([[1.0, 0.0, 2.0], [0.0, 5.0, 1.0]]),
            about="two tokens, all numbers of queries and keys above 0",
        ),
        Probe(numbers(301, 4, 3), numbers(302, 4, 3), numbers(303, 4, 2),
              about="four tokens of either sign"),
        Probe(numbers(304, 6, 2), numbers(305, 6, 2), numbers(306, 6, 5),
              about="six tokens of width 2, values of width 5"),
    ),
    assemble=_linear,
    planted=("no_features", "all_keys_divide", "before_itself"),
    mistakes=(
        Mistake(
            "no_features",
            "Queries and keys are used as they are. Their products can be negative or sum "
            "to 0, and then the division is no average.",
            "What does the softmax's exp guarantee that a plain product does not?",
            settings={"feature": "raw"},
        ),
        Mistake(
            "relu_features",
            "The features are max(0, x). A key with no positive number is then never seen.",
            "What is the weight of a key that is negative throughout?",
            settings={"feature": "relu"},
        ),
        Mistake(
            "exp_features",
            "The features are exp(x); here they are elu(x) + 1, which is x + 1 above 0.",
            "What is the feature of 2?",
            settings={"feature": "exp"},
        ),
        Mistake(
            "sees_the_future",
            "Every token reads the state after the last token, and so sees the future.",
            "What had been added to the state when the first token read it?",
            settings={"visible": "all"},
        ),
        Mistake(
            "before_itself",
            "The state is read before the token's own key and value are added. The first "
            "token then reads nothing.",
            "May a token attend to itself in a causal mask?",
            settings={"visible": "before"},
        ),
        Mistake(
            "not_divided",
            "Nothing is divided: the output grows with every token.",
            "To what do the weights of a row sum?",
            settings={"divide": "none"},
        ),
        Mistake(
            "divided_by_count",
            "The sum is divided by the number of tokens seen, not by the sum of the weights.",
            "If all values are 4, what comes out?",
            settings={"divide": "count"},
        ),
        Mistake(
            "all_keys_divide",
            "The sum in the denominator runs over all keys, later ones too.",
            "Which keys are in z when token t reads it?",
            settings={"divide": "all_keys"},
        ),
        Mistake(
            "divided_by_root",
            "The weights are divided by the root of d_k, as scores are before a softmax.",
            "Is there a softmax here?",
            settings={"divide": "root"},
        ),
        Mistake(
            "last_pair_only",
            "The state is overwritten: only the newest key and value are in it.",
            "Is the new pair added to the state, or does it take its place?",
            settings={"order": "forgets"},
        ),
    ),
)  # fmt: skip


# recurrence_backward


def _reverse(
    factor: str = "next",
    before: str = "previous",
    direction: str = "backwards",
    outside: str = "added",
) -> Function:
    """The gradients of a linear recurrence, with the faults that are asked for."""

    def recurrence_backward(d_states: Any, a: Any, b: Any) -> Any:
        states = linear_recurrence(a, b)
        n = len(a)
        d_b = np.empty(a.shape)
        carried = np.zeros(a.shape[1:])
        steps = range(n) if direction == "forwards" else reversed(range(n))
        for t in steps:
            if outside == "last" and t != n - 1:
                total = carried
            else:
                total = d_states[t] + carried
            d_b[t] = total
            step = {
                "next": a[t],
                "own": a[t - 1] if t else a[t],
                "one": 1.0 + 0.0 * a[t],
            }
            carried = step[factor] * total if factor != "none" else 0.0 * total
        earlier = np.concatenate([np.zeros((1, *a.shape[1:])), states[:-1]])
        if before == "own":
            earlier = states
        elif before == "input":
            earlier = b
        return d_b * earlier, d_b

    return recurrence_backward


RECURRENCE_BACKWARD = Exercise(
    name="recurrence_backward",
    arguments=("d_states", "a", "b"),
    statement="From the gradient with respect to all states of h_t = a_t h_(t-1) + b_t, "
    "with a state of 0 before the first token, return the gradients (d_a, d_b).",
    ask="The last state depends on b_0 through which factors?",
    reference=lambda d_states, a, b: linear_recurrence_backward(
        d_states, a, linear_recurrence(a, b)
    ),
    returns=("d_a", "d_b"),
    probes=(
        Probe(
            np.array([[1.0]]), np.array([[0.5]]), np.array([[2.0]]),
            about="a single step, where a meets the state 0",
        ),
        Probe(
            np.array([[0.0], [0.0], [1.0]]),
            np.array([[0.5], [2.0], [3.0]]),
            np.array([[1.0], [0.0], [0.0]]),
            about="a gradient at the last state only",
        ),
        Probe(
            np.array([[1.0], [0.0], [0.0]]),
            np.array([[0.5], [2.0], [3.0]]),
            np.array([[1.0], [4.0], [5.0]]),
            about="a gradient at the first state only",
        ),
        Probe(numbers(311, 5, 2), numbers(312, 5, 2), numbers(313, 5, 2),
              about="five steps of width 2"),
    ),
    assemble=_reverse,
    mistakes=(
        Mistake(
            "own_factor",
            "The gradient is carried back through the factor of the step before; from "
            "state t to state t - 1 it passes a_t.",
            "Which factor stands between h_1 and h_2?",
            settings={"factor": "own"},
        ),
        Mistake(
            "no_factor",
            "The gradient is carried back unchanged.",
            "If a_t is 0, does h_t depend on anything earlier?",
            settings={"factor": "one"},
        ),
        Mistake(
            "not_carried",
            "Each state's gradient stays where it is; later states depend on b_t as well.",
            "Does the last state change when b_0 changes?",
            settings={"factor": "none"},
        ),
        Mistake(
            "own_state",
            "a_t is credited with the state after it; it multiplied the state before.",
            "What was the state when a_0 was used?",
            settings={"before": "own"},
        ),
        Mistake(
            "input_for_state",
            "a_t is credited with the input b_t; it multiplied the state before.",
            "Which number stands beside a_t in the formula?",
            settings={"before": "input"},
        ),
        Mistake(
            "forwards",
            "The gradient is carried from left to right.",
            "Does an early state depend on a late input?",
            settings={"direction": "forwards"},
        ),
        Mistake(
            "last_state_only",
            "Only the gradient of the last state is used; every state may have one.",
            "What becomes of d_states[0]?",
            settings={"outside": "last"},
        ),
    ),
)  # fmt: skip
