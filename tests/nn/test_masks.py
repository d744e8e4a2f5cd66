"""Masks in PyTorch: equal to the reference, and strict about their axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib import reference
from transformer_lib.nn.masks import causal_mask, check_mask, padding_mask


@settings(max_examples=30, deadline=None)
@given(n_queries=st.integers(0, 6), n_keys=st.integers(0, 6))
def test_causal_mask_equals_the_reference(n_queries: int, n_keys: int) -> None:
    np.testing.assert_array_equal(
        causal_mask(n_queries, n_keys).numpy(), reference.causal_mask(n_queries, n_keys)
    )
    np.testing.assert_array_equal(
        causal_mask(n_queries).numpy(), reference.causal_mask(n_queries)
    )


def test_padding_mask_equals_the_reference() -> None:
    ids = np.array([[4, 0, 7], [0, 0, 0], [1, 2, 3]])
    got = padding_mask(torch.from_numpy(ids), pad_id=0)
    np.testing.assert_array_equal(got.numpy(), reference.padding_mask(ids, 0))
    assert padding_mask(torch.zeros(0, 3, dtype=torch.int32), 0).shape == (0, 1, 1, 3)


def test_masks_are_made_where_they_are_needed() -> None:
    assert causal_mask(3, device="meta").device.type == "meta"


SCORES = (2, 3, 4, 5)  # batch, heads, queries, keys


@pytest.mark.parametrize(
    "shape", [(4, 5), (2, 1, 1, 5), (1, 1, 4, 5), (2, 3, 4, 5), (1, 3, 1, 1)]
)
def test_masks_that_fit_pass(shape: tuple[int, ...]) -> None:
    check_mask(torch.ones(shape, dtype=torch.bool), SCORES)


@pytest.mark.parametrize(
    "shape", [(2, 5), (1, 5), (5,), (2, 4, 5), (1, 4, 5), (2, 3, 4, 4), (3, 1, 4, 5)]
)
def test_masks_whose_axes_would_meet_the_wrong_ones_are_refused(
    shape: tuple[int, ...],
) -> None:
    """Broadcasting alone would take most of these, each meaning something else."""
    with pytest.raises(ValueError, match=r"mask: got shape .* wanted \(4, 5\) or one"):
        check_mask(torch.ones(shape, dtype=torch.bool), SCORES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_masks_of_numbers_are_refused_with_the_conversion(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=r"mask: got torch\..*mask\.bool\(\)"):
        check_mask(torch.ones(4, 5, dtype=dtype), SCORES)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: causal_mask(-1), ValueError, "n_queries: got -1, wanted 0 or more"),
        (lambda: causal_mask(2, -2), ValueError, "n_keys: got -2"),
        (lambda: causal_mask(2.0), TypeError, "n_queries: got 2.0"),
        (
            lambda: padding_mask(torch.ones(2, 3), 0),
            TypeError,
            "ids: got torch.float32",
        ),
        (
            lambda: padding_mask(torch.ones(3, dtype=torch.int64), 0),
            ValueError,
            "ids: got shape (3,), wanted (batch, n)",
        ),
        (
            lambda: padding_mask(torch.ones(2, 3, dtype=torch.int64), -1),
            ValueError,
            "pad_id: got -1",
        ),
        (
            lambda: padding_mask(torch.ones(2, 3, dtype=torch.bool), 0),
            TypeError,
            "ids: got torch.bool",
        ),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
