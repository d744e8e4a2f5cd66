"""Looking up in NumPy: equations, properties, gradients, and planted faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from transformer_lib.reference.lookup import (
    entropy,
    entropy_backward,
    hard_lookup,
    kernel_regression,
    masked_softmax,
    masked_softmax_backward,
    soft_lookup,
    soft_lookup_backward,
    softmax,
    softmax_backward,
    sugeno_inference,
)

EXACT = 1e-12  # float64, a few dozen additions per number
GRADIENT = 1e-8  # the project's bound for backward passes
STEP = 1e-6  # of central differences; their own error is about 1e-9 here
SCORES = hnp.arrays(
    np.float64, (3, 4), elements=st.floats(-700, 700, allow_nan=False, width=64)
)


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def slopes(function: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    """Central differences of a scalar function."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[index] = STEP
        gradient[index] = (function(x + step) - function(x - step)) / (2 * STEP)
    return gradient


# --- softmax: values ------------------------------------------------------------------


def test_scores_that_are_logarithms_give_their_shares() -> None:
    np.testing.assert_allclose(
        softmax(np.log([[1.0, 2.0, 5.0], [3.0, 3.0, 6.0]])),
        [[0.125, 0.25, 0.625], [0.25, 0.25, 0.5]],
        atol=EXACT,
    )


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_softmax_agrees_with_torch(axis: int) -> None:
    scores = 5 * draw(0, 2, 3, 4)
    wanted = torch.softmax(torch.from_numpy(scores), dim=axis).numpy()
    np.testing.assert_allclose(softmax(scores, axis), wanted, atol=EXACT)


def test_minus_infinity_gets_no_weight() -> None:
    np.testing.assert_array_equal(softmax(np.array([0.0, -np.inf, 0.0])), [0.5, 0, 0.5])


def test_whole_numbers_are_scores_too() -> None:
    np.testing.assert_allclose(softmax(np.array([2, 2])), [0.5, 0.5], atol=EXACT)


def test_single_precision_stays_single() -> None:
    assert softmax(np.zeros(3, dtype=np.float32)).dtype == np.float32


# --- softmax: properties, each with planted faults ------------------------------------

Softmax = Callable[[np.ndarray], np.ndarray]


def rows_are_shares(weigh: Softmax) -> None:
    weights = weigh(3 * draw(1, 3, 4))
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=EXACT)
    assert (weights > 0).all()


def far_apart_rows_do_not_disturb_each_other(weigh: Softmax) -> None:
    rows = np.array([[1000.0, 1001.0, 999.0], [0.0, 1.0, -1.0]])
    e = np.exp([0.0, 1.0, -1.0])
    np.testing.assert_allclose(weigh(rows), [e / e.sum()] * 2, atol=EXACT)


def adding_a_number_to_a_row_changes_nothing(weigh: Softmax) -> None:
    scores = draw(2, 3, 4)
    lifted = scores + np.array([[5.0], [-800.0], [800.0]])
    np.testing.assert_allclose(weigh(lifted), weigh(scores), atol=EXACT)


def one_more_in_score_is_e_times_the_weight(weigh: Softmax) -> None:
    weights = weigh(np.array([[0.0, 1.0, 3.0]]))[0]
    np.testing.assert_allclose(weights[1:] / weights[0], np.exp([1.0, 3.0]), rtol=EXACT)


def columns_may_change_places(weigh: Softmax) -> None:
    scores = draw(3, 3, 4)
    order = [2, 0, 3, 1]
    np.testing.assert_allclose(weigh(scores[:, order]), weigh(scores)[:, order])


def _divided(numerators: np.ndarray, axis: Any = -1) -> np.ndarray:
    return numerators / numerators.sum(axis=axis, keepdims=True)


SOFTMAX_PROPERTIES: dict[Callable[[Softmax], None], dict[str, Softmax]] = {
    rows_are_shares: {
        "sum over the whole array": lambda s: _divided(np.exp(s - s.max()), None),
        "over the columns": lambda s: _divided(np.exp(s - s.max()), 0),
        "not divided": lambda s: np.exp(s - s.max(axis=-1, keepdims=True)),
        "no exp": lambda s: _divided(s),
    },
    far_apart_rows_do_not_disturb_each_other: {
        "maximum of the whole array": lambda s: _divided(np.exp(s - s.max())),
        "no maximum": lambda s: _divided(np.exp(s)),
        "least instead of largest": lambda s: _divided(
            np.exp(s - s.min(axis=0, keepdims=True))
        ),
    },
    adding_a_number_to_a_row_changes_nothing: {
        "no maximum": lambda s: _divided(np.exp(s)),
        "squares": lambda s: _divided(s**2),
    },
    one_more_in_score_is_e_times_the_weight: {
        "powers of two": lambda s: _divided(2.0**s),
        "sigmoid": lambda s: _divided(1 / (1 + np.exp(-s))),
        "sign": lambda s: _divided(np.exp(-s)),
    },
    columns_may_change_places: {
        "running sum": lambda s: np.exp(s) / np.exp(s).cumsum(axis=-1),
    },
}


@pytest.mark.parametrize("holds", SOFTMAX_PROPERTIES, ids=lambda f: f.__name__)
def test_softmax(holds: Callable[[Softmax], None]) -> None:
    holds(softmax)
    holds(masked_softmax)


@pytest.mark.parametrize(
    ("holds", "fault"),
    [
        pytest.param(holds, fault, id=f"{holds.__name__}: {name}")
        for holds, faults in SOFTMAX_PROPERTIES.items()
        for name, fault in faults.items()
    ],
)
def test_property_of_softmax_rejects(
    holds: Callable[[Softmax], None], fault: Softmax
) -> None:
    with np.errstate(all="ignore"), pytest.raises(AssertionError):
        holds(fault)


@settings(deadline=None, max_examples=60)
@given(scores=SCORES)
def test_any_scores_give_shares_whose_order_is_that_of_the_scores(
    scores: np.ndarray,
) -> None:
    weights = softmax(scores)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=EXACT)
    for row, shares in zip(scores, weights, strict=True):
        assert (np.diff(shares[np.argsort(row, kind="stable")]) >= 0).all()


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("scores", "axis", "message"),
    [
        (np.array([1.0, np.nan]), -1, "scores: got NaN"),
        (np.array([1.0, np.inf]), -1, r"scores: got \+inf"),
        (np.full((2, 2), -np.inf), -1, "nothing but -inf"),
        (np.zeros((2, 0)), -1, r"shape \(2, 0\), wanted one score or more"),
        (np.zeros(3), 1, "axis: got 1"),
        (np.zeros(3), -2, "axis: got -2"),
        (np.array(1.0), -1, "axis: got -1"),
    ],
)
def test_softmax_refuses(scores: np.ndarray, axis: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        softmax(scores, axis)


# --- masked softmax -------------------------------------------------------------------


def test_hidden_keys_get_no_weight_and_the_rest_is_a_softmax_of_its_own() -> None:
    scores, mask = draw(4, 5, 6), np.random.default_rng(5).random((5, 6)) < 0.5
    mask[2] = False
    weights = masked_softmax(scores, mask)
    for row, seen, shares in zip(scores, mask, weights, strict=True):
        assert (shares[~seen] == 0).all()
        if seen.any():
            np.testing.assert_allclose(shares[seen], softmax(row[seen]), atol=EXACT)


@pytest.mark.parametrize("n_keys", [0, 3])
def test_query_that_sees_nothing_gets_zeros(n_keys: int) -> None:
    weights = masked_softmax(np.ones((2, n_keys)), np.zeros((2, n_keys), dtype=bool))
    np.testing.assert_array_equal(weights, np.zeros((2, n_keys)))


def test_row_of_minus_infinities_counts_as_seeing_nothing() -> None:
    weights = masked_softmax(np.array([[-np.inf, -np.inf], [0.0, 0.0]]))
    np.testing.assert_array_equal(weights, [[0.0, 0.0], [0.5, 0.5]])


def test_what_stands_behind_the_mask_does_not_matter() -> None:
    scores, mask = draw(6, 2, 3), np.array([[True, True, False], [False] * 3])
    wanted = masked_softmax(scores, mask)
    for garbage in (np.nan, np.inf, -np.inf, 1e300):
        dirty = np.where(mask, scores, garbage)
        np.testing.assert_array_equal(masked_softmax(dirty, mask), wanted)


def test_mask_broadcasts_over_batch_and_heads() -> None:
    scores, mask = draw(7, 2, 3, 4, 5), np.random.default_rng(8).random((4, 5)) < 0.7
    wanted = masked_softmax(scores, np.broadcast_to(mask, scores.shape))
    np.testing.assert_array_equal(masked_softmax(scores, mask), wanted)


@pytest.mark.no_shape_hook
def test_mask_of_numbers_is_refused_with_the_conversion_to_use() -> None:
    with pytest.raises(TypeError, match=r"mask: got dtype float64.*astype\(bool\)"):
        masked_softmax(np.zeros((2, 3)), np.ones((2, 3)))


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("shape", [(3, 2), (2,), (4, 2, 3)])
def test_mask_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"mask: got shape .* broadcasts to"):
        masked_softmax(np.zeros((2, 3)), np.ones(shape, dtype=bool))


@pytest.mark.no_shape_hook
def test_visible_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="scores: got NaN"):
        masked_softmax(np.array([[np.nan, 0.0]]), np.array([[True, False]]))
    with pytest.raises(ValueError, match="n_keys"):
        masked_softmax(np.array(1.0))


# --- gradients ------------------------------------------------------------------------


def gradient_is_that_of_central_differences(
    backward: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> None:
    for shape in ((5,), (3, 4), (3, 3), (2, 3, 4)):
        scores, upstream = draw(10, *shape), draw(11, *shape)
        wanted = slopes(lambda s, g=upstream: float((softmax(s) * g).sum()), scores)
        got = backward(upstream, softmax(scores))
        np.testing.assert_allclose(got, wanted, atol=GRADIENT)


GRADIENT_FAULTS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "diagonal only": lambda g, a: g * a * (1 - a),
    "sum left out": lambda g, a: g * a,
    "sum over everything": lambda g, a: a * (g - (g * a).sum()),
    "sum over the rows": lambda g, a: a * (g - (g * a).sum(axis=0, keepdims=True)),
    "gradient not weighted": lambda g, a: a * (g - g.sum(axis=-1, keepdims=True)),
    "mean instead of sum": lambda g, a: a * (g - (g * a).mean(axis=-1, keepdims=True)),
    "sign": lambda g, a: -a * (g - (g * a).sum(axis=-1, keepdims=True)),
}


def test_softmax_backward() -> None:
    gradient_is_that_of_central_differences(softmax_backward)
    gradient_is_that_of_central_differences(masked_softmax_backward)


@pytest.mark.parametrize("fault", GRADIENT_FAULTS)
def test_gradient_test_rejects(fault: str) -> None:
    with pytest.raises(AssertionError):
        gradient_is_that_of_central_differences(GRADIENT_FAULTS[fault])


def test_softmax_backward_agrees_with_autograd_along_any_axis() -> None:
    scores, upstream = draw(12, 3, 4), draw(13, 3, 4)
    for axis in (0, 1, -1):
        x = torch.from_numpy(scores).requires_grad_()
        torch.softmax(x, axis).backward(torch.from_numpy(upstream))
        got = softmax_backward(upstream, softmax(scores, axis), axis)
        assert x.grad is not None
        np.testing.assert_allclose(got, x.grad.numpy(), atol=EXACT)


def test_gradient_of_a_row_sums_to_zero() -> None:
    gradient = softmax_backward(draw(14, 4, 5), softmax(draw(15, 4, 5)))
    np.testing.assert_allclose(gradient.sum(axis=-1), 0.0, atol=EXACT)


def test_masked_gradient_is_that_of_the_visible_keys_and_zero_elsewhere() -> None:
    scores, upstream = draw(16, 3, 5), draw(17, 3, 5)
    mask = np.array([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=bool)
    wanted = slopes(lambda s: float((masked_softmax(s, mask) * upstream).sum()), scores)
    upstream[~mask] = np.nan  # what comes from behind the mask must not spread
    got = masked_softmax_backward(upstream, masked_softmax(scores, mask))
    np.testing.assert_allclose(got, wanted, atol=GRADIENT)
    assert (got[~mask] == 0).all()
    assert np.isnan(softmax_backward(upstream, masked_softmax(scores, mask))).any()


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("backward", [softmax_backward, masked_softmax_backward])
def test_gradient_of_another_shape_is_refused(backward: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"d_weights: got shape \(3,\), wanted \(2,\)"):
        backward(np.zeros(3), np.array([0.5, 0.5]))


# --- entropy --------------------------------------------------------------------------


def test_entropy_of_equal_weights_is_the_logarithm_of_their_number() -> None:
    for n in (1, 2, 7, 1000):
        assert abs(float(entropy(np.full(n, 1 / n))) - np.log(n)) < EXACT


def test_entropy_is_zero_for_one_hot_and_dead_rows_and_never_minus_zero() -> None:
    got = np.asarray(entropy(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])))
    np.testing.assert_array_equal(got, [0.0, 0.0])
    assert not np.signbit(got).any()


def test_entropy_agrees_with_torch() -> None:
    weights = softmax(3 * draw(20, 4, 5))
    wanted = torch.distributions.Categorical(probs=torch.from_numpy(weights)).entropy()
    np.testing.assert_allclose(entropy(weights), wanted.numpy(), atol=EXACT)


@settings(deadline=None, max_examples=60)
@given(scores=SCORES, temperature=st.floats(1.0, 50.0))
def test_heating_never_lowers_the_entropy(
    scores: np.ndarray, temperature: float
) -> None:
    cold, hot = entropy(softmax(scores)), entropy(softmax(scores / temperature))
    assert (np.asarray(hot) >= np.asarray(cold) - 1e-9).all()
    assert (np.asarray(hot) <= np.log(scores.shape[-1]) + 1e-9).all()


def test_entropy_backward_through_softmax_is_that_of_central_differences() -> None:
    scores, upstream = draw(21, 3, 4), draw(22, 3)
    wanted = slopes(lambda s: float((entropy(softmax(s)) * upstream).sum()), scores)
    weights = softmax(scores)
    got = softmax_backward(entropy_backward(upstream, weights), weights)
    np.testing.assert_allclose(got, wanted, atol=GRADIENT)


def test_entropy_has_a_finite_gradient_at_weight_zero() -> None:
    scores, upstream = draw(23, 2, 3), draw(24, 2)
    mask = np.array([[True, False, True], [False, False, False]])

    def loss(s: np.ndarray) -> float:
        return float((entropy(masked_softmax(s, mask)) * upstream).sum())

    weights = masked_softmax(scores, mask)
    got = masked_softmax_backward(entropy_backward(upstream, weights), weights)
    np.testing.assert_allclose(got, slopes(loss, scores), atol=GRADIENT)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.array([1.5, -0.5]), "weights: got -0.5 as the least"),
        (np.array([np.nan, 0.5]), "weights: got nan"),
        (np.array([0.5, 0.4]), "weights: a row sums to 0.9, wanted 1"),
        (np.array([[0.5, 0.5], [2.0, 1.0]]), "weights: a row sums to 3"),
    ],
)
def test_entropy_refuses(weights: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        entropy(weights)


@pytest.mark.no_shape_hook
def test_entropy_backward_refuses_a_gradient_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="d_entropy: got shape"):
        entropy_backward(np.ones(2), np.full((3, 4), 0.25))


# --- lookups --------------------------------------------------------------------------


def test_one_hot_lookup_is_a_row_of_the_table() -> None:
    table = draw(30, 6, 3)
    for i, query in enumerate(np.eye(6)):
        np.testing.assert_array_equal(hard_lookup(query, np.eye(6), table), table[i])
        np.testing.assert_array_equal(query @ table, table[i])


def test_hard_lookup_takes_the_highest_score_and_of_equals_the_first() -> None:
    keys = np.array([[1.0, 0.0], [2.0, 2.0], [2.0, 2.0], [-9.0, 0.0]])
    values = np.array([[10], [20], [30], [40]])
    assert hard_lookup(np.array([1.0, 1.0]), keys, values) == 20
    got = hard_lookup(np.array([[1.0, 0.0], [-1.0, 0.0]]), keys, values)
    np.testing.assert_array_equal(got, [[20], [40]])


def test_cold_soft_lookup_is_the_hard_one() -> None:
    query, keys, values = draw(31, 7, 3), draw(32, 5, 3), draw(33, 5, 2)
    output, weights = soft_lookup(query, keys, values, temperature=1e-4)
    np.testing.assert_allclose(output, hard_lookup(query, keys, values), atol=EXACT)
    np.testing.assert_allclose(np.asarray(entropy(weights)), 0.0, atol=EXACT)


def test_hot_soft_lookup_is_the_mean_of_all_values() -> None:
    query, keys, values = draw(34, 3), draw(35, 5, 3), draw(36, 5, 2)
    for temperature, error in ((1e9, 1e-8), (np.inf, EXACT)):
        output, _ = soft_lookup(query, keys, values, temperature)
        np.testing.assert_allclose(output, values.mean(axis=0), atol=error)


@pytest.mark.parametrize("temperature", [1.0, 1e-3, 1e-9])
def test_equal_keys_share_at_every_temperature(temperature: float) -> None:
    keys = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    _, weights = soft_lookup(np.array([1.0, 0.0]), keys, np.eye(3), temperature)
    assert weights[0] == weights[1]


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), temperature=st.floats(1e-3, 1e3))
def test_output_lies_between_the_values(seed: int, temperature: float) -> None:
    query, keys, values = draw(seed, 4, 3), draw(seed + 1, 5, 3), draw(seed + 2, 5, 2)
    output, weights = soft_lookup(query, keys, values, temperature)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=EXACT)
    assert (output >= values.min(axis=0) - EXACT).all()
    assert (output <= values.max(axis=0) + EXACT).all()


@pytest.mark.parametrize("leading", [(), (4,), (2, 4)])
def test_soft_lookup_agrees_with_torch(leading: tuple[int, ...]) -> None:
    query, keys, values = draw(37, *leading, 3), draw(38, 5, 3), draw(39, 5, 2)
    output, _ = soft_lookup(query, keys, values, temperature=0.7)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        torch.from_numpy(query.reshape(1, -1, 3)),
        torch.from_numpy(keys)[None],
        torch.from_numpy(values)[None],
        scale=1 / 0.7,
    )
    np.testing.assert_allclose(output.reshape(-1, 2), wanted[0].numpy(), atol=EXACT)


def soft_gradients_are_those_of_central_differences(
    backward: Callable[..., tuple[np.ndarray, ...]],
) -> None:
    for leading in ((), (4,), (2, 4)):
        given = (draw(40, *leading, 3), draw(41, 5, 3), draw(42, 5, 2))
        upstream = draw(43, *leading, 2)
        _, weights = soft_lookup(*given, temperature=0.6)
        got = backward(upstream, *given, weights, 0.6)
        for i, gradient in enumerate(got):

            def loss(
                x: np.ndarray, i: int = i, g: Any = given, u: Any = upstream
            ) -> Any:
                parts = [x if j == i else part for j, part in enumerate(g)]
                return float((soft_lookup(*parts, temperature=0.6)[0] * u).sum())

            np.testing.assert_allclose(gradient, slopes(loss, given[i]), atol=GRADIENT)


def _wrong_gradients(fault: str) -> Callable[..., tuple[np.ndarray, ...]]:
    def backward(
        g: np.ndarray,
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        a: np.ndarray,
        t: float,
    ) -> tuple[np.ndarray, ...]:
        d_query, d_keys, d_values = soft_lookup_backward(g, q, k, v, a, t)
        if fault == "temperature forgotten":
            return d_query * t, d_keys * t, d_values
        if fault == "temperature in the values":
            return d_query, d_keys, d_values / t
        if fault == "only one query reaches keys and values":
            rows = [x.reshape(-1, x.shape[-1])[-1] for x in (g, q, a)]
            return d_query, *soft_lookup_backward(rows[0], rows[1], k, v, rows[2], t)[
                1:
            ]
        return d_query, np.zeros_like(d_keys), d_values

    return backward


def test_soft_lookup_backward() -> None:
    soft_gradients_are_those_of_central_differences(soft_lookup_backward)


@pytest.mark.parametrize(
    "fault",
    [
        "temperature forgotten",
        "temperature in the values",
        "only one query reaches keys and values",
        "keys left out",
    ],
)
def test_soft_gradient_test_rejects(fault: str) -> None:
    with pytest.raises(AssertionError):
        soft_gradients_are_those_of_central_differences(_wrong_gradients(fault))


LOOKUPS = [hard_lookup, soft_lookup]


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("look_up", LOOKUPS)
@pytest.mark.parametrize(
    ("query", "keys", "values", "message"),
    [
        (np.zeros(3), np.zeros((4, 2)), np.zeros((4, 1)), r"query: got shape \(3,\)"),
        (np.array(1.0), np.zeros((4, 2)), np.zeros((4, 1)), r"query: got shape \(\)"),
        (
            np.zeros(2),
            np.zeros((4, 2)),
            np.zeros((3, 1)),
            r"values: got shape \(3, 1\)",
        ),
        (np.zeros(2), np.zeros((4, 2)), np.zeros(4), r"values: got shape \(4,\)"),
        (np.zeros(2), np.zeros((0, 2)), np.zeros((0, 1)), r"keys: got shape \(0, 2\)"),
        (np.zeros(2), np.zeros(2), np.zeros((2, 1)), r"keys: got shape \(2,\)"),
        (np.full(2, np.nan), np.ones((4, 2)), np.zeros((4, 1)), "NaN"),
    ],
)
def test_lookups_refuse(
    look_up: Callable[..., Any], query: Any, keys: Any, values: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        look_up(query, keys, values)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan])
def test_temperature_must_be_above_zero(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"temperature: got .* above 0"):
        soft_lookup(np.ones(2), np.ones((3, 2)), np.ones((3, 1)), temperature)
    with pytest.raises(ValueError, match="temperature"):
        soft_lookup_backward(
            np.ones(1), np.ones(2), np.ones((3, 2)), np.ones((3, 1)),
            np.full(3, 1 / 3), temperature,
        )  # fmt: skip


@pytest.mark.no_shape_hook
def test_backward_refuses_shapes_that_do_not_belong_together() -> None:
    given = (np.ones(2), np.ones((3, 2)), np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"d_output: got shape \(2,\), wanted \(1,\)"):
        soft_lookup_backward(np.ones(2), *given, np.full(3, 1 / 3))
    with pytest.raises(ValueError, match=r"weights: got shape \(2,\), wanted \(3,\)"):
        soft_lookup_backward(np.ones(1), *given, np.full(2, 1 / 2))


# --- kernel regression and fuzzy inference --------------------------------------------


def test_kernel_regression_is_a_soft_lookup_when_keys_have_equal_length() -> None:
    # -|q - k|^2 / 2 = q.k - |q|^2 / 2 - |k|^2 / 2, and the softmax drops what all keys share.
    angles, width = draw(50, 6), 0.5
    keys = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    query, values = draw(51, 2), draw(52, 6, 1)
    distances = ((query - keys) ** 2).sum(axis=1)
    by_distance = softmax(-distances / (2 * width**2)) @ values
    output, _ = soft_lookup(query, keys, values, temperature=width**2)
    np.testing.assert_allclose(output, by_distance, atol=EXACT)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), width=st.floats(0.5, 10.0))
def test_kernel_regression_and_sugeno_inference_are_one_formula(
    seed: int, width: float
) -> None:
    x, centres, y = draw(seed, 7), draw(seed + 1, 5), draw(seed + 2, 5)
    regression, weights = kernel_regression(x, centres, y, width)
    inference, memberships = sugeno_inference(x, centres, width, y)
    np.testing.assert_allclose(regression, inference, atol=1e-9)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=EXACT)
    assert ((memberships >= 0) & (memberships <= 1)).all()


def test_width_is_a_standard_deviation() -> None:
    _, memberships = sugeno_inference(
        np.array([2.0]), np.array([0.0]), 2.0, np.array([1.0])
    )
    assert abs(memberships[0, 0] - np.exp(-0.5)) < EXACT


def test_far_from_every_centre_regression_takes_the_nearest_and_inference_refuses() -> (
    None
):
    x, centres, y = np.array([100.0]), np.array([0.0, 1.0]), np.array([5.0, 7.0])
    assert kernel_regression(x, centres, y, width=0.5)[0] == 7.0
    with pytest.raises(ValueError, match="x: no rule fires at 100"):
        sugeno_inference(x, centres, 0.5, y)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("x", "known", "y", "width", "message"),
    [
        (np.zeros((2, 1)), np.zeros(3), np.zeros(3), 1.0, "x: got shape"),
        (np.zeros(2), np.zeros(0), np.zeros(0), 1.0, r"got shape \(0,\)"),
        (
            np.zeros(2),
            np.zeros(3),
            np.zeros(4),
            1.0,
            r"got shape \(4,\), wanted \(3,\)",
        ),
        (np.zeros(2), np.zeros(3), np.zeros(3), 0.0, "width: got 0.0"),
    ],
)
def test_kernel_functions_refuse(
    x: Any, known: Any, y: Any, width: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kernel_regression(x, known, y, width)
    with pytest.raises(ValueError, match=message):
        sugeno_inference(x, known, width, y)
