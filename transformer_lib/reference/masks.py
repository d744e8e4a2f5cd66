"""Masks: who may see whom.

A mask is boolean; ``True`` = this query may attend to this key. Rows are queries,
columns are keys. Masks are combined with ``&``: a key is visible if no mask hides it.
Every mask here broadcasts to ``(batch, heads, queries, keys)``.
"""

import numpy as np
from jaxtyping import Bool, Int

__all__ = ["causal_mask", "padding_mask"]


def causal_mask(
    n_queries: int, n_keys: int | None = None
) -> Bool[np.ndarray, "n_queries n_keys"]:
    """Let each query see the keys up to its own place, and none behind it.

    With as many queries as keys this is the lower triangle with its diagonal. With
    fewer queries than keys the queries are the *last* ones of the sequence, as when a
    decoder goes on writing: the last query sees the last key, so query ``i`` sees key
    ``j`` if ``j <= i + (n_keys - n_queries)``. With more queries than keys the first
    queries see nothing.

    Parameters
    ----------
    n_queries
        Number of queries, 0 or more.
    n_keys
        Number of keys; ``None`` means as many as queries.

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

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.2.3.

    Examples
    --------
    >>> causal_mask(3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    >>> causal_mask(2, 4).astype(int)
    array([[1, 1, 1, 0],
           [1, 1, 1, 1]])
    """
    n_keys = n_queries if n_keys is None else n_keys
    _check_count("n_queries", n_queries)
    _check_count("n_keys", n_keys)
    place_of_query = np.arange(n_queries)[:, None] + (n_keys - n_queries)
    place_of_key = np.arange(n_keys)
    mask: np.ndarray = place_of_key <= place_of_query
    return mask


def padding_mask(
    ids: Int[np.ndarray, "*batch n"], pad_id: int
) -> Bool[np.ndarray, "*batch 1 1 n"]:
    """Hide the padding, as keys, from every query of every head.

    Sentences in a batch are filled up to one length with ``pad_id``. The filling is no
    word, so no query may read it. The filling still *asks* (its rows are computed and
    thrown away): a mask that hid it as a query would leave rows that see nothing.

    Parameters
    ----------
    ids
        Token numbers, shape ``(..., n)``.
    pad_id
        The number that fills up, 0 or more.

    Returns
    -------
    mask
        Shape ``(..., 1, 1, n)``: one axis for the heads and one for the queries, so
        that it broadcasts to ``(batch, heads, queries, keys)``.

    Raises
    ------
    TypeError
        If ``ids`` are not integers or ``pad_id`` is not an integer.
    ValueError
        If ``ids`` has no axis or ``pad_id`` is negative.

    Examples
    --------
    >>> ids = np.array([[5, 7, 2], [4, 0, 0]])
    >>> padding_mask(ids, pad_id=0).astype(int)[:, 0, 0]
    array([[1, 1, 1],
           [1, 0, 0]])
    """
    _check_count("pad_id", pad_id)
    if not np.issubdtype(ids.dtype, np.integer):
        raise TypeError(f"ids: got dtype {ids.dtype}, wanted integers (token numbers)")
    if ids.ndim == 0:
        raise ValueError(f"ids: got shape {ids.shape}, wanted (..., n)")
    mask: np.ndarray = ids[..., None, None, :] != pad_id
    return mask


def _check_count(name: str, number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise TypeError(f"{name}: got {number!r}, wanted an integer")
    if number < 0:
        raise ValueError(f"{name}: got {number}, wanted 0 or more")
