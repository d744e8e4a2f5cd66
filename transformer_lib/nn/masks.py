"""Masks in PyTorch: the twin of :mod:`transformer_lib.reference.masks`.

A mask is boolean; ``True`` = this query may attend to this key. That is also what
``scaled_dot_product_attention`` means by a boolean mask; the masks of
``torch.nn.MultiheadAttention`` mean the opposite.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transformer_lib.nn.checks import check_size

__all__ = ["causal_mask", "padding_mask"]


def causal_mask(
    n_queries: int, n_keys: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "n_queries n_keys"]:
    """Let each query see the keys up to its own place, and none behind it.

    The last query stands at the last key, so with fewer queries than keys the queries
    are the last ones of the sequence.

    Parameters
    ----------
    n_queries
        Number of queries, 0 or more.
    n_keys
        Number of keys; ``None`` means as many as queries.
    device
        Where to make it.

    Returns
    -------
    mask
        Shape ``(n_queries, n_keys)``, ``True`` = may attend.

    Raises
    ------
    TypeError
        If a number is not an integer.
    ValueError
        If a number is negative.

    Examples
    --------
    >>> causal_mask(2, 4).int()
    tensor([[1, 1, 1, 0],
            [1, 1, 1, 1]], dtype=torch.int32)
    """
    n_keys = n_queries if n_keys is None else n_keys
    if not torch.compiler.is_compiling():  # sizes are symbols then
        check_size("n_queries", n_queries, least=0)
        check_size("n_keys", n_keys, least=0)
    everything = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return everything.tril(n_keys - n_queries)


def padding_mask(
    ids: Int[Tensor, "batch n"], pad_id: int
) -> Bool[Tensor, "batch 1 1 n"]:
    """Hide the padding, as keys, from every query of every head.

    Parameters
    ----------
    ids
        Token numbers, shape ``(batch, n)``.
    pad_id
        The number that fills up, 0 or more.

    Returns
    -------
    mask
        Shape ``(batch, 1, 1, n)``, ``True`` = may attend.

    Raises
    ------
    TypeError
        If ``ids`` are not integers or ``pad_id`` is not an integer.
    ValueError
        If ``ids`` is not ``(batch, n)`` or ``pad_id`` is negative.

    Examples
    --------
    >>> padding_mask(torch.tensor([[5, 7, 2], [4, 0, 0]]), pad_id=0)[:, 0, 0].int()
    tensor([[1, 1, 1],
            [1, 0, 0]], dtype=torch.int32)
    """
    check_size("pad_id", pad_id, least=0)
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise TypeError(f"ids: got {ids.dtype}, wanted integers (token numbers)")
    if ids.ndim != 2:
        raise ValueError(f"ids: got shape {tuple(ids.shape)}, wanted (batch, n)")
    return (ids != pad_id)[:, None, None, :]


def check_mask(mask: Tensor, scores_shape: tuple[int, ...]) -> None:
    """Refuse a mask that is not boolean or whose axes would meet the wrong axes.

    A mask has either the two axes ``(n_queries, n_keys)``, in full, or as many axes as
    the scores. Broadcasting alone would let a ``(batch, n_keys)`` mask pass for
    ``(n_queries, n_keys)``, and ``(batch, n_queries, n_keys)`` for one per head.
    """
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask: got {mask.dtype}, wanted torch.bool with True = may attend; "
            "convert 1/0 with mask.bool(), and 0/-inf with mask == 0"
        )
    if mask.ndim == 2 and tuple(mask.shape) == scores_shape[-2:]:
        return
    fits = mask.ndim == len(scores_shape) and all(
        have in (1, want) for have, want in zip(mask.shape, scores_shape, strict=True)
    )
    if not fits:
        raise ValueError(
            f"mask: got shape {tuple(mask.shape)}, wanted {scores_shape[-2:]} or one "
            f"with {len(scores_shape)} axes that broadcasts to {scores_shape}; a "
            "(batch, n_keys) padding mask needs two more axes: mask[:, None, None, :]"
        )
