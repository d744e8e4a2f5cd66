"""Positions in NumPy: values, laws, gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from arrays import difference_quotient, draw, some_mask
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from transformer_lib.reference.attention import attention
from transformer_lib.reference.positions import (
    alibi,
    alibi_slopes,
    biased_attention,
    biased_attention_backward,
    index_over_length_positions,
    index_positions,
    learned_positions,
    learned_positions_backward,
    relative_bias,
    relative_bias_backward,
    rope,
    rope_backward,
    rope_halved,
    sinusoidal_positions,
    sinusoidal_positions_halved,
    sinusoidal_shift,
)

EXACT = 1e-12
GRADIENT = 1e-8


# --- added to the tokens --------------------------------------------------------------


def test_the_index_and_the_index_divided_by_the_length() -> None:
    np.testing.assert_array_equal(index_positions(4, 2)[:, 1], [0, 1, 2, 3])
    assert index_positions(4, 3).shape == (4, 3)
    np.testing.assert_array_equal(
        index_over_length_positions(4, 2)[:, 0], [0, 0.25, 0.5, 0.75]
    )
    assert index_over_length_positions(0, 2).shape == (0, 2)
    # The same place gets another number when the sentence grows: what is wrong with it.
    assert index_over_length_positions(5, 1)[3] != index_over_length_positions(4, 1)[3]


@pytest.mark.parametrize("d_model", [1, 2, 5, 8])
def test_sinusoids_equal_the_formula_written_with_exponentials(d_model: int) -> None:
    place = torch.arange(30, dtype=torch.float64)[:, None]
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    rates = torch.exp(even * (-math.log(10000.0) / d_model))
    wanted = torch.zeros(30, d_model, dtype=torch.float64)
    wanted[:, 0::2] = torch.sin(place * rates)
    wanted[:, 1::2] = torch.cos(place * rates)[:, : d_model // 2]
    np.testing.assert_allclose(
        sinusoidal_positions(30, d_model), wanted.numpy(), atol=EXACT
    )


def test_the_base_of_the_sinusoids_can_be_chosen() -> None:
    np.testing.assert_allclose(
        sinusoidal_positions(3, 4, base=100.0)[2], [*_pair(2.0), *_pair(0.2)]
    )


def _pair(angle: float) -> tuple[float, float]:
    return math.sin(angle), math.cos(angle)


def test_sinusoids_have_one_length_and_stay_within_one() -> None:
    P = sinusoidal_positions(500, 16)
    np.testing.assert_allclose(np.linalg.norm(P, axis=1), math.sqrt(8), atol=EXACT)
    assert np.abs(P).max() <= 1.0


@settings(max_examples=25, deadline=None)
@given(place=st.integers(0, 50), offset=st.integers(-50, 50), pairs=st.integers(1, 6))
def test_a_shift_of_sinusoids_is_one_rotation_for_all_places(
    place: int, offset: int, pairs: int
) -> None:
    offset = max(offset, -place)
    P, R = sinusoidal_positions(101, 2 * pairs), sinusoidal_shift(offset, 2 * pairs)
    np.testing.assert_allclose(P[place] @ R, P[place + offset], atol=EXACT)
    np.testing.assert_allclose(R @ R.T, np.eye(2 * pairs), atol=EXACT)


def test_the_halved_order_is_the_same_columns_in_another_order() -> None:
    interleaved, halved = sinusoidal_positions(9, 7), sinusoidal_positions_halved(9, 7)
    np.testing.assert_array_equal(halved, interleaved[:, [0, 2, 4, 6, 1, 3, 5]])


def test_learned_positions_are_the_first_rows_and_a_copy() -> None:
    table = draw(0, 6, 3)
    taken = learned_positions(table, 4)
    np.testing.assert_array_equal(taken, table[:4])
    taken += 1.0
    np.testing.assert_array_equal(learned_positions(table, 4), table[:4])


def test_gradient_of_learned_positions() -> None:
    table, G = draw(0, 5, 3), draw(1, 2, 4, 3)

    def loss() -> float:
        return float((G * (np.zeros((2, 4, 3)) + learned_positions(table, 4))).sum())

    np.testing.assert_allclose(
        learned_positions_backward(G, 5),
        difference_quotient(loss, table),
        atol=GRADIENT,
    )


# --- rotations ------------------------------------------------------------------------


def test_rope_is_a_product_of_complex_numbers() -> None:
    X = draw(0, 2, 7, 6)
    rates = 10000.0 ** (-np.arange(3) / 3)
    turned = (X[..., 0::2] + 1j * X[..., 1::2]) * np.exp(
        1j * np.arange(7)[:, None] * rates
    )
    got = rope(X)
    np.testing.assert_allclose(got[..., 0::2], turned.real, atol=EXACT)
    np.testing.assert_allclose(got[..., 1::2], turned.imag, atol=EXACT)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    s=st.integers(0, 20),
    t=st.integers(0, 20),
    shift=st.integers(1, 30),
)
def test_scores_after_rope_depend_on_the_distance_only(
    seed: int, s: int, t: int, shift: int
) -> None:
    q, k = np.random.default_rng(seed).normal(size=(2, 1, 6))
    for turn in (rope, rope_halved):
        score = turn(q, start=s) @ turn(k, start=t).T
        moved = turn(q, start=s + shift) @ turn(k, start=t + shift).T
        np.testing.assert_allclose(score, moved, atol=EXACT)
        np.testing.assert_allclose(
            np.linalg.norm(turn(q, start=s)), np.linalg.norm(q), atol=EXACT
        )


def test_rope_turns_the_query_the_way_that_lets_the_distance_count() -> None:
    q = np.array([[1.0, 0.0]])
    near, far = rope(q, start=4) @ rope(q, start=5).T, rope(q) @ rope(q, start=3).T
    np.testing.assert_allclose([near[0, 0], far[0, 0]], [math.cos(1), math.cos(3)])


def test_rope_from_a_start_continues_the_sequence() -> None:
    X = draw(0, 9, 4)
    np.testing.assert_allclose(rope(X)[5:], rope(X[5:], start=5), atol=EXACT)
    np.testing.assert_allclose(
        rope_halved(X)[5:], rope_halved(X[5:], start=5), atol=EXACT
    )


def test_halved_rope_is_rope_with_its_columns_reordered() -> None:
    X, order = draw(0, 5, 6), [0, 2, 4, 1, 3, 5]
    np.testing.assert_allclose(rope_halved(X[:, order]), rope(X)[:, order], atol=EXACT)
    assert np.abs(rope_halved(X) - rope(X)).max() > 0.1


def test_the_base_of_rope_can_be_chosen() -> None:
    X = np.array([[1.0, 0.0, 1.0, 0.0]])
    got = rope(X, start=1, base=4.0)
    np.testing.assert_allclose(
        got[0], [math.cos(1), math.sin(1), math.cos(0.5), math.sin(0.5)]
    )


def test_gradient_of_rope() -> None:
    X, G = draw(0, 2, 3, 4), draw(1, 2, 3, 4)

    def loss() -> float:
        return float((G * rope(X, start=2)).sum())

    np.testing.assert_allclose(
        rope_backward(G, start=2), difference_quotient(loss, X), atol=GRADIENT
    )


# --- biases ---------------------------------------------------------------------------


def test_relative_bias_looks_up_the_clipped_distance() -> None:
    table = draw(0, 3, 5)
    bias = relative_bias(table, 4, 6)
    assert bias.shape == (3, 4, 6)
    for query in range(4):
        for key in range(6):
            distance = min(max(key - (query + 2), -2), 2)
            np.testing.assert_array_equal(bias[:, query, key], table[:, distance + 2])


def test_gradient_of_relative_bias() -> None:
    table, G = draw(0, 2, 5), draw(1, 3, 2, 4, 6)

    def loss() -> float:
        return float((G * relative_bias(table, 4, 6)).sum())

    np.testing.assert_allclose(
        relative_bias_backward(G, 5), difference_quotient(loss, table), atol=GRADIENT
    )


def test_alibi_slopes_are_the_published_ones() -> None:
    np.testing.assert_allclose(alibi_slopes(8), [2.0**-k for k in range(1, 9)])
    np.testing.assert_allclose(alibi_slopes(1), [2.0**-8])
    np.testing.assert_allclose(  # twelve heads: eight, then every other one of sixteen
        alibi_slopes(12),
        [2.0**-k for k in range(1, 9)] + [2.0**-k for k in (0.5, 1.5, 2.5, 3.5)],
    )


def test_alibi_falls_by_the_slope_with_each_place() -> None:
    bias = alibi(2, 3, 4)
    np.testing.assert_allclose(
        bias[0] / alibi_slopes(2)[0],
        [[-1, 0, -1, -2], [-2, -1, 0, -1], [-3, -2, -1, 0]],
    )
    np.testing.assert_allclose(bias[1] / bias[0].clip(None, -1e-9), _ratio(bias))


def _ratio(bias: np.ndarray) -> np.ndarray:
    ratio = alibi_slopes(2)[1] / alibi_slopes(2)[0]
    return np.where(bias[0] == 0.0, 0.0, ratio)


@pytest.mark.parametrize("masked", [False, True])
def test_biased_attention_equals_torch(masked: bool) -> None:
    Q, K, V = draw(0, 2, 3, 4, 5), draw(1, 2, 3, 6, 5), draw(2, 2, 3, 6, 2)
    bias = draw(3, 3, 4, 6)
    mask = some_mask(4, 2, 1, 4, 6, dead=False) if masked else None
    visible = np.where(mask, bias, -np.inf) if masked else bias
    wanted = F.scaled_dot_product_attention(
        *(torch.from_numpy(a) for a in (Q, K, V)), attn_mask=torch.from_numpy(visible)
    )
    output, weights = biased_attention(Q, K, V, bias, mask)
    np.testing.assert_allclose(output, wanted.numpy(), atol=EXACT)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=EXACT)


def test_a_bias_of_zero_changes_nothing_and_a_dead_row_stays_zero() -> None:
    Q, K, V = draw(0, 4, 5), draw(1, 6, 5), draw(2, 6, 2)
    mask = some_mask(3, 4, 6)
    for got, wanted in zip(
        biased_attention(Q, K, V, np.zeros(6), mask),
        attention(Q, K, V, mask),
        strict=True,
    ):
        np.testing.assert_array_equal(got, wanted)
    assert not biased_attention(Q, K, V, np.ones(6), mask)[0][0].any()


def test_gradient_of_biased_attention() -> None:
    Q, K, V = draw(0, 2, 4, 5), draw(1, 2, 6, 5), draw(2, 2, 6, 3)
    bias, mask, G = draw(3, 2, 4, 6), some_mask(4, 2, 4, 6), draw(5, 2, 4, 3)

    def loss() -> float:
        return float((G * biased_attention(Q, K, V, bias, mask)[0]).sum())

    weights = biased_attention(Q, K, V, bias, mask)[1]
    got = biased_attention_backward(G, Q, K, V, weights)
    for gradient, array in zip(got, (Q, K, V, bias), strict=True):
        np.testing.assert_allclose(
            gradient, difference_quotient(loss, array), atol=GRADIENT
        )


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: index_positions(-1, 2), ValueError, "length: got -1"),
        (lambda: index_positions(1, 0), ValueError, "d_model: got 0, wanted 1 or more"),
        (lambda: sinusoidal_positions(3, 2.5), TypeError, "d_model: got 2.5"),
        (lambda: sinusoidal_positions(3, 2, 0.0), ValueError, "base: got 0.0"),
        (lambda: sinusoidal_shift(1, 3), ValueError, "d_model: got 3, wanted an even"),
        (lambda: sinusoidal_shift(1.0, 4), TypeError, "offset: got 1.0"),
        (lambda: learned_positions(draw(0, 3), 1), ValueError, "table: got shape (3,)"),
        (
            lambda: learned_positions(draw(0, 3, 2), 4),
            ValueError,
            "length: got 4, wanted at most 3",
        ),
        (
            lambda: learned_positions_backward(draw(0, 3, 2), 2),
            ValueError,
            "d_positions: got length 3, wanted at most 2",
        ),
        (
            lambda: learned_positions_backward(draw(0, 3), 2),
            ValueError,
            "d_positions: got shape (3,)",
        ),
        (lambda: rope(draw(0, 4)), ValueError, "X: got shape (4,)"),
        (lambda: rope(draw(0, 2, 3)), ValueError, "d_head: got 3, wanted an even"),
        (lambda: rope(draw(0, 2, 4), start=-1), ValueError, "start: got -1"),
        (lambda: rope_halved(draw(0, 2, 4), base=-1.0), ValueError, "base: got -1.0"),
        (
            lambda: relative_bias(draw(0, 2, 4), 2, 2),
            ValueError,
            "table: got shape (2, 4), wanted (num_heads, 2 m + 1)",
        ),
        (lambda: relative_bias(draw(0, 2, 3), -2, 2), ValueError, "n_queries: got -2"),
        (
            lambda: relative_bias_backward(draw(0, 3, 3), 3),
            ValueError,
            "d_bias: got shape (3, 3)",
        ),
        (lambda: alibi_slopes(0), ValueError, "num_heads: got 0, wanted 1 or more"),
        (lambda: alibi(2, 3, -1), ValueError, "n_keys: got -1"),
        (
            lambda: biased_attention(
                draw(0, 2, 3), draw(0, 4, 3), draw(0, 4, 3), draw(0, 3, 3)
            ),
            ValueError,
            "bias: got shape (3, 3), wanted one that broadcasts to (2, 4)",
        ),
        (
            lambda: biased_attention(
                draw(0, 2, 3), draw(0, 4, 2), draw(0, 4, 3), draw(0, 4)
            ),
            ValueError,
            "K: got width 2, wanted 3",
        ),
        (
            lambda: biased_attention(
                draw(0, 2, 3), draw(0, 4, 3), draw(0, 5, 3), draw(0, 4)
            ),
            ValueError,
            "V: got 5 values, wanted 4",
        ),
        (
            lambda: biased_attention(
                draw(0, 3), draw(0, 4, 3), draw(0, 4, 3), draw(0, 4)
            ),
            ValueError,
            "Q: got shape (3,)",
        ),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
