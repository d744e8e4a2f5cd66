"""Multi-head attention: several small lookups side by side instead of one wide one.

The columns of ``X W_Q`` (and of keys and values) are cut into ``num_heads`` blocks of
``d_head = d_model / num_heads``; each block attends on its own; the results are put
next to each other again and mixed by ``W_O``.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Real

from transformer_lib.reference.attention import attention, attention_backward

__all__ = [
    "MultiHeadParameters",
    "merge_heads",
    "multi_head_attention",
    "multi_head_attention_backward",
    "split_heads",
]


class MultiHeadParameters(NamedTuple):
    """The four projections of multi-head attention, each with an optional bias.

    The paper writes no biases; most implementations have them, and its parameter
    counts include them. A bias of ``None`` means there is none, and its gradient is
    ``None`` too.
    """

    W_Q: Float[np.ndarray, "d_model d_model"]
    """Columns ``k d_head`` to ``(k + 1) d_head`` make the queries of head ``k``."""
    W_K: Float[np.ndarray, "d_model d_model"]
    W_V: Float[np.ndarray, "d_model d_model"]
    W_O: Float[np.ndarray, "d_model d_model"]
    """Mixes the heads: its first ``d_head`` rows read head 0, and so on."""
    b_Q: Float[np.ndarray, " d_model"] | None = None
    b_K: Float[np.ndarray, " d_model"] | None = None
    b_V: Float[np.ndarray, " d_model"] | None = None
    b_O: Float[np.ndarray, " d_model"] | None = None


def split_heads(
    X: Real[np.ndarray, "*batch n d_model"], num_heads: int
) -> Real[np.ndarray, "*batch num_heads n d_head"]:
    """Cut the columns into ``num_heads`` blocks and make the heads an axis.

    Two moves, in this order: the last axis becomes (heads, d_head), then the axes of
    tokens and heads change places. Reshaping straight to the final shape would mix
    tokens with heads.

    Parameters
    ----------
    X
        Shape ``(..., n, d_model)``.
    num_heads
        Must divide ``d_model``.

    Returns
    -------
    heads
        Shape ``(..., num_heads, n, d_head)``; ``heads[k]`` is block ``k`` of the columns.

    Raises
    ------
    ValueError
        If ``X`` has fewer than two axes or ``num_heads`` does not divide ``d_model``.

    Examples
    --------
    >>> split_heads(np.array([[1, 2, 3, 4], [5, 6, 7, 8]]), num_heads=2)
    array([[[1, 2],
            [5, 6]],
    <BLANKLINE>
           [[3, 4],
            [7, 8]]])
    """
    _check_heads("X", X, num_heads)
    *batch, n, d_model = X.shape
    blocks = X.reshape(*batch, n, num_heads, d_model // num_heads)
    return blocks.swapaxes(-3, -2)


def merge_heads(
    heads: Real[np.ndarray, "*batch num_heads n d_head"],
) -> Real[np.ndarray, "*batch n d_model"]:
    """Put the heads side by side again: the way back from :func:`split_heads`.

    Parameters
    ----------
    heads
        Shape ``(..., num_heads, n, d_head)``.

    Returns
    -------
    X
        Shape ``(..., n, num_heads * d_head)``.

    Raises
    ------
    ValueError
        If ``heads`` has fewer than three axes.

    Examples
    --------
    >>> X = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    >>> bool((merge_heads(split_heads(X, num_heads=2)) == X).all())
    True
    """
    if heads.ndim < 3:
        raise ValueError(
            f"heads: got shape {heads.shape}, wanted (..., num_heads, n, d_head)"
        )
    *batch, num_heads, n, d_head = heads.shape
    return heads.swapaxes(-3, -2).reshape(*batch, n, num_heads * d_head)


def multi_head_attention(
    X: Real[np.ndarray, "*batch n_q d_model"],
    source: Real[np.ndarray, "*batch n_k d_model"],
    parameters: MultiHeadParameters,
    num_heads: int,
    mask: Bool[np.ndarray, "..."] | None = None,
) -> tuple[
    Float[np.ndarray, "*batch n_q d_model"],
    Float[np.ndarray, "*batch num_heads n_q n_k"],
]:
    r"""Concat(head_1, ..., head_h) W_O  (Vaswani et al. 2017, section 3.2.2).

    .. math:: \mathrm{head}_k = \mathrm{attention}
              (X W_Q^{(k)},\; S W_K^{(k)},\; S W_V^{(k)})

    with :math:`W_Q^{(k)}` the :math:`k`-th block of columns and :math:`S` the source.
    With ``source`` equal to ``X`` it is self-attention, else cross-attention.

    Parameters
    ----------
    X
        The tokens that ask, shape ``(..., n_q, d_model)``.
    source
        The tokens that answer, shape ``(..., n_k, d_model)``.
    parameters
        Projections and biases.
    num_heads
        Must divide ``d_model``.
    mask
        Boolean, ``True`` = may attend: either one matrix ``(n_q, n_k)`` for all, or
        with an axis for heads, broadcasting to ``(..., heads, n_q, n_k)``.

    Returns
    -------
    output
        Shape ``(..., n_q, d_model)``.
    weights
        Shape ``(..., num_heads, n_q, n_k)``; each row with a visible key sums to 1.

    Raises
    ------
    TypeError
        If ``mask`` is not boolean.
    ValueError
        If the shapes do not fit together, ``num_heads`` does not divide ``d_model``, or
        ``mask`` has neither two axes nor those of the scores.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.0, 2.0], [2.0, 1.0]])  # the, cat, sat
    >>> W_Q, W_K = np.array([[1.0, 1], [0, 1]]), np.array([[0.0, 1], [1, 1]])
    >>> W_V = np.array([[1.0, 0], [-1, 1]])
    >>> parameters = MultiHeadParameters(W_Q, W_K, W_V, W_O=np.eye(2))
    >>> output, weights = multi_head_attention(X, X, parameters, num_heads=2)
    >>> weights[0].round(2)
    array([[0.09, 0.67, 0.24],
           [0.33, 0.33, 0.33],
           [0.02, 0.87, 0.12]])
    """
    _check_parameters(X, source, parameters)
    Q, K, V = _project(X, source, parameters, num_heads)
    _check_mask(mask, (*Q.shape[:-1], K.shape[-2]))
    heads, weights = attention(Q, K, V, mask)
    output = _affine(merge_heads(heads), parameters.W_O, parameters.b_O)
    return output, weights


def multi_head_attention_backward(
    d_output: Real[np.ndarray, "*batch n_q d_model"],
    X: Real[np.ndarray, "*batch n_q d_model"],
    source: Real[np.ndarray, "*batch n_k d_model"],
    parameters: MultiHeadParameters,
    num_heads: int,
    weights: Float[np.ndarray, "*batch num_heads n_q n_k"],
) -> tuple[
    Float[np.ndarray, "*batch n_q d_model"],
    Float[np.ndarray, "*batch n_k d_model"],
    MultiHeadParameters,
]:
    """Gradients with respect to both inputs and to the projections.

    Backwards through the four steps:

    * ``output = C W_O + b_O`` with ``C`` the heads side by side: ``dC = dO W_O^T``,
      ``dW_O = C^T dO``, ``db_O`` the sum of the rows of ``dO``;
    * splitting and merging only move numbers, so their gradients move back:
      ``split_heads(dC)`` is the gradient of each head's output;
    * each head is an attention of its own, see
      :func:`~transformer_lib.reference.attention.attention_backward`;
    * ``Q = X W_Q + b_Q``: ``dX = dQ W_Q^T``, ``dW_Q = X^T dQ``; keys and values both
      come from the source, so ``dsource = dK W_K^T + dV W_V^T``.

    In self-attention the gradient of the tokens is ``dX + dsource``.

    Parameters
    ----------
    d_output
        Gradient with respect to the output, shape ``(..., n_q, d_model)``.
    X, source, parameters, num_heads
        What :func:`multi_head_attention` was given.
    weights
        What it returned.

    Returns
    -------
    dX, dsource
        Shapes of ``X`` and ``source``.
    gradients
        One gradient per parameter; ``None`` where there is no bias.

    Raises
    ------
    ValueError
        If the shapes do not fit together.
    """
    _check_parameters(X, source, parameters)
    if d_output.shape != X.shape:
        raise ValueError(f"d_output: got shape {d_output.shape}, wanted {X.shape}")
    Q, K, V = _project(X, source, parameters, num_heads)
    concatenated = merge_heads(weights @ V)
    d_concatenated, dW_O, db_O = _affine_backward(
        d_output, concatenated, parameters.W_O, parameters.b_O
    )
    dQ, dK, dV = attention_backward(
        split_heads(d_concatenated, num_heads), Q, K, V, weights
    )
    dX, dW_Q, db_Q = _affine_backward(
        merge_heads(dQ), X, parameters.W_Q, parameters.b_Q
    )
    d_by_keys, dW_K, db_K = _affine_backward(
        merge_heads(dK), source, parameters.W_K, parameters.b_K
    )
    d_by_values, dW_V, db_V = _affine_backward(
        merge_heads(dV), source, parameters.W_V, parameters.b_V
    )
    gradients = MultiHeadParameters(dW_Q, dW_K, dW_V, dW_O, db_Q, db_K, db_V, db_O)
    return dX, d_by_keys + d_by_values, gradients


def _project(
    X: np.ndarray, source: np.ndarray, parameters: MultiHeadParameters, num_heads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    Q = split_heads(_affine(X, parameters.W_Q, parameters.b_Q), num_heads)
    K = split_heads(_affine(source, parameters.W_K, parameters.b_K), num_heads)
    V = split_heads(_affine(source, parameters.W_V, parameters.b_V), num_heads)
    return Q, K, V


def _affine(X: np.ndarray, W: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    product: np.ndarray = X @ W if b is None else X @ W + b
    return product


def _affine_backward(
    d_output: np.ndarray, X: np.ndarray, W: np.ndarray, b: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Gradients of X, W and b; the last two sum over all tokens of all sequences."""
    rows = X.reshape(-1, X.shape[-1])
    d_rows = d_output.reshape(-1, d_output.shape[-1])
    return d_output @ W.T, rows.T @ d_rows, None if b is None else d_rows.sum(axis=0)


def _check_heads(name: str, X: np.ndarray, num_heads: int) -> None:
    if X.ndim < 2:
        raise ValueError(f"{name}: got shape {X.shape}, wanted (..., n, d_model)")
    if num_heads < 1 or X.shape[-1] % num_heads:
        raise ValueError(
            f"num_heads: got {num_heads}, which does not divide d_model="
            f"{X.shape[-1]}; each head needs d_model/num_heads columns"
        )


def _check_mask(mask: np.ndarray | None, scores_shape: tuple[int, ...]) -> None:
    """Refuse a mask whose axes would meet the wrong axes of the scores."""
    if mask is None or mask.shape == scores_shape[-2:]:
        return
    if mask.ndim != len(scores_shape):
        raise ValueError(
            f"mask: got shape {mask.shape}, wanted {scores_shape[-2:]} or "
            f"{len(scores_shape)} axes that broadcast to {scores_shape}: "
            "add the axes of batch, heads and queries, for example mask[:, None]"
        )


def _check_parameters(
    X: np.ndarray, source: np.ndarray, parameters: MultiHeadParameters
) -> None:
    for name, array in (("X", X), ("source", source)):
        if array.ndim < 2:
            raise ValueError(
                f"{name}: got shape {array.shape}, wanted (..., n, d_model)"
            )
    d_model = X.shape[-1]
    if source.shape[-1] != d_model or source.shape[:-2] != X.shape[:-2]:
        raise ValueError(
            f"source: got shape {source.shape}, "
            f"wanted {(*X.shape[:-2], 'n_k', d_model)}, as X has shape {X.shape}"
        )
    for name, array in parameters._asdict().items():
        wanted = (d_model, d_model) if name.startswith("W") else (d_model,)
        if array is not None and array.shape != wanted:
            raise ValueError(f"{name}: got shape {array.shape}, wanted {wanted}")
