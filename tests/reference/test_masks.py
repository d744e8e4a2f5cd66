"""Masks in NumPy: who may see whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib.reference.attention import attention
from transformer_lib.reference.masks import causal_mask, padding_mask

counts = st.integers(1, 8)


@settings(max_examples=40, deadline=None)
@given(n_queries=counts, n_keys=counts)
def test_the_last_query_sees_every_key_and_each_earlier_one_sees_one_less(
    n_queries: int, n_keys: int
) -> None:
    mask = causal_mask(n_queries, n_keys)
    assert mask.shape == (n_queries, n_keys)
    assert mask.dtype == np.bool_
    wanted = [max(n_keys - back, 0) for back in range(n_queries)][::-1]
    assert mask.sum(axis=1).tolist() == wanted
    # What is visible is a beginning of the sequence.
    assert (np.diff(mask.astype(int), axis=1) <= 0).all()


def test_a_square_causal_mask_is_the_lower_triangle_with_its_diagonal() -> None:
    np.testing.assert_array_equal(causal_mask(5), np.tril(np.ones((5, 5), bool)))
    np.testing.assert_array_equal(causal_mask(5), causal_mask(5, 5))
    assert causal_mask(0).shape == (0, 0)


def test_the_mask_of_the_last_queries_is_the_end_of_the_whole_mask() -> None:
    np.testing.assert_array_equal(causal_mask(2, 7), causal_mask(7)[-2:])


def test_padding_is_hidden_as_key_from_every_query_and_never_as_query() -> None:
    ids = np.array([[5, 7, 2, 3], [4, 9, 9, 9]])
    mask = padding_mask(ids, pad_id=9)
    assert mask.shape == (2, 1, 1, 4)
    seen = np.broadcast_to(mask, (2, 3, 4, 4))  # heads, queries, keys
    np.testing.assert_array_equal(seen.sum(axis=2)[:, 0], [[4, 4, 4, 4], [4, 0, 0, 0]])
    assert seen.any(axis=-1).all()


def test_masks_combine_by_and() -> None:
    ids = np.array([[3, 0, 4]])
    both = causal_mask(3) & padding_mask(ids, pad_id=0)
    np.testing.assert_array_equal(
        both[0, 0].astype(int), [[1, 0, 0], [1, 0, 0], [1, 0, 1]]
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), place=st.integers(1, 5))
def test_changing_a_later_token_leaves_earlier_outputs_alone(
    seed: int, place: int
) -> None:
    Q, K, V = np.random.default_rng(seed).normal(size=(3, 6, 4))
    K_new, V_new = K.copy(), V.copy()
    K_new[place:] += 1.0
    V_new[place:] -= 1.0
    before, _ = attention(Q, K, V, causal_mask(6))
    after, _ = attention(Q, K_new, V_new, causal_mask(6))
    np.testing.assert_array_equal(before[:place], after[:place])
    assert np.abs(before[place:] - after[place:]).max() > 1e-3


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), extra=st.integers(1, 9))
def test_more_padding_changes_nothing(seed: int, extra: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1, 1, 4, 3))
    ids = rng.integers(1, 9, size=(1, 4))
    filled = np.concatenate([X, rng.normal(size=(1, 1, extra, 3))], axis=2)
    more = np.concatenate([ids, np.zeros((1, extra), int)], axis=1)
    few, _ = attention(X, X, X, padding_mask(ids, 0))
    many, _ = attention(filled, filled, filled, padding_mask(more, 0))
    np.testing.assert_allclose(many[:, :, :4], few, atol=1e-14)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: causal_mask(-1), ValueError, "n_queries: got -1, wanted 0 or more"),
        (lambda: causal_mask(2, -3), ValueError, "n_keys: got -3"),
        (lambda: causal_mask(2.0), TypeError, "n_queries: got 2.0, wanted an integer"),
        (lambda: causal_mask(True), TypeError, "n_queries: got True"),
        (
            lambda: padding_mask(np.array([[1.0]]), 0),
            TypeError,
            "ids: got dtype float64, wanted integers",
        ),
        (lambda: padding_mask(np.array(1), 0), ValueError, "ids: got shape ()"),
        (lambda: padding_mask(np.array([1]), -1), ValueError, "pad_id: got -1"),
        (lambda: padding_mask(np.array([1]), 0.0), TypeError, "pad_id: got 0.0"),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
