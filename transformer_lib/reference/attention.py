"""Scaled dot-product attention and self-attention, forward and backward.

Everything is written for row vectors: one row of ``X`` is one token, ``Q = X W_Q``.
Leading axes (a batch, heads) are carried along and never mixed.
"""

import numpy as np
from jaxtyping import Bool, Float, Real

from transformer_lib.reference.lookup import masked_softmax, masked_softmax_backward

__all__ = [
    "attention",
    "attention_backward",
    "self_attention",
    "self_attention_backward",
]


def attention(
    Q: Real[np.ndarray, "*batch n_q d_k"],
    K: Real[np.ndarray, "*batch n_k d_k"],
    V: Real[np.ndarray, "*batch n_k d_v"],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> tuple[
    Float[np.ndarray, "*batch n_q d_v"],
    Float[np.ndarray, "*batch n_q n_k"],
]:
    """softmax(Q K^T / sqrt(d_k)) V  (Vaswani et al. 2017, eq. 1).

    With ``Q``, ``K`` and ``V`` made from one source this is self-attention; with ``K``
    and ``V`` from another source it is cross-attention. The formula is the same.

    Parameters
    ----------
    Q
        Queries, shape ``(..., n_q, d_k)``: one row per token that asks.
    K
        Keys, shape ``(..., n_k, d_k)``: one row per token that answers.
    V
        Values, shape ``(..., n_k, d_v)``: what each answering token hands over.
    mask
        Boolean, broadcasts to ``(..., n_q, n_k)``; ``True`` = this query may attend to
        this key. ``None`` hides nothing.

    Returns
    -------
    output
        Shape ``(..., n_q, d_v)``: each row is the weighted average of the rows of ``V``.
        A query that may attend to nothing gets zeros.
    weights
        Shape ``(..., n_q, n_k)``; each row with a visible key sums to 1.

    Raises
    ------
    TypeError
        If ``mask`` is not boolean.
    ValueError
        If the shapes do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> Q, K = np.array([[2.0, 0.0]]), np.array([[1.0, 0.0], [-1.0, 0.0]])
    >>> output, weights = attention(Q, K, V=np.array([[10.0], [20.0]]))
    >>> weights.round(3)
    array([[0.944, 0.056]])
    >>> output.round(2)
    array([[10.56]])
    """
    _check_shapes(Q, K, V)
    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(K.shape[-1])  # (..., n_q, n_k)
    weights = masked_softmax(scores, mask)
    return weights @ V, weights


def attention_backward(
    d_output: Real[np.ndarray, "*batch n_q d_v"],
    Q: Real[np.ndarray, "*batch n_q d_k"],
    K: Real[np.ndarray, "*batch n_k d_k"],
    V: Real[np.ndarray, "*batch n_k d_v"],
    weights: Float[np.ndarray, "*batch n_q n_k"],
) -> tuple[
    Float[np.ndarray, "*batch n_q d_k"],
    Float[np.ndarray, "*batch n_k d_k"],
    Float[np.ndarray, "*batch n_k d_v"],
]:
    """Gradients of a loss with respect to ``Q``, ``K`` and ``V``.

    Write ``A`` for the weights, ``S = Q K^T / sqrt(d_k)`` for the scores, ``O = A V`` for
    the output and ``dZ`` for the gradient of the loss with respect to ``Z``. Read the
    three steps of the forward pass from the last to the first:

    * ``O = A V`` gives ``dV = A^T dO`` and ``dA = dO V^T``;
    * the softmax of each row gives ``dS = A * (dA - rowsum(dA * A))``;
    * ``S = Q K^T / sqrt(d_k)`` gives ``dQ = dS K / sqrt(d_k)`` and
      ``dK = dS^T Q / sqrt(d_k)``.

    A mask needs no argument of its own: where it hid a key the weight is 0, and the
    factor ``A`` makes ``dS`` 0 there too. A query that saw nothing passes nothing back.

    Parameters
    ----------
    d_output
        Gradient of the loss with respect to the output, shape ``(..., n_q, d_v)``.
    Q, K, V
        The inputs of the forward pass.
    weights
        The weights that the forward pass returned, shape ``(..., n_q, n_k)``.

    Returns
    -------
    dQ, dK, dV
        Shapes of ``Q``, ``K`` and ``V``.

    Raises
    ------
    ValueError
        If the shapes do not fit together.
    """
    _check_shapes(Q, K, V)
    _check_shape("d_output", d_output, (*Q.shape[:-1], V.shape[-1]))
    _check_shape("weights", weights, (*Q.shape[:-1], K.shape[-2]))
    scale = 1 / np.sqrt(K.shape[-1])
    dV = weights.swapaxes(-1, -2) @ d_output  # (..., n_k, d_v)
    d_weights = d_output @ V.swapaxes(-1, -2)  # (..., n_q, n_k)
    d_scores = masked_softmax_backward(d_weights, weights)
    dQ = d_scores @ K * scale  # (..., n_q, d_k)
    dK = d_scores.swapaxes(-1, -2) @ Q * scale  # (..., n_k, d_k)
    return dQ, dK, dV


def self_attention(
    X: Real[np.ndarray, "*batch n d_model"],
    W_Q: Real[np.ndarray, "d_model d_k"],
    W_K: Real[np.ndarray, "d_model d_k"],
    W_V: Real[np.ndarray, "d_model d_v"],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> tuple[
    Float[np.ndarray, "*batch n d_v"],
    Float[np.ndarray, "*batch n n"],
]:
    """Attention whose queries, keys and values are three projections of one source.

    Parameters
    ----------
    X
        The tokens, shape ``(..., n, d_model)``: one row per token.
    W_Q, W_K
        Projections to queries and keys, shape ``(d_model, d_k)``.
    W_V
        Projection to values, shape ``(d_model, d_v)``.
    mask
        Boolean, broadcasts to ``(..., n, n)``; ``True`` = may attend.

    Returns
    -------
    output
        Shape ``(..., n, d_v)``.
    weights
        Shape ``(..., n, n)``: rows ask, columns answer.

    Raises
    ------
    TypeError
        If ``mask`` is not boolean.
    ValueError
        If the shapes do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 2.0], [2.0, 1.0]])  # the, cat, sat
    >>> W_Q, W_K = np.array([[1.0, 1], [0, 1]]), np.array([[0.0, 1], [1, 1]])
    >>> W_V = np.array([[1.0, 0], [-1, 1]])
    >>> output, weights = self_attention(X, W_Q, W_K, W_V)
    >>> weights.round(2)
    array([[0.06, 0.47, 0.47],
           [0.05, 0.19, 0.77],
           [0.  , 0.33, 0.67]])
    """
    _check_projections(X, W_Q, W_K, W_V)
    return attention(X @ W_Q, X @ W_K, X @ W_V, mask)


def self_attention_backward(
    d_output: Real[np.ndarray, "*batch n d_v"],
    X: Real[np.ndarray, "*batch n d_model"],
    W_Q: Real[np.ndarray, "d_model d_k"],
    W_K: Real[np.ndarray, "d_model d_k"],
    W_V: Real[np.ndarray, "d_model d_v"],
    weights: Float[np.ndarray, "*batch n n"],
) -> tuple[
    Float[np.ndarray, "*batch n d_model"],
    Float[np.ndarray, "d_model d_k"],
    Float[np.ndarray, "d_model d_k"],
    Float[np.ndarray, "d_model d_v"],
]:
    """Gradients with respect to the tokens and the three projections.

    ``Q = X W_Q`` gives ``dW_Q = X^T dQ`` (summed over the batch: the projection is
    shared) and a contribution ``dQ W_Q^T`` to ``dX``; keys and values likewise. One
    token was used three times, so its gradient is the sum of three.

    Parameters
    ----------
    d_output
        Gradient of the loss with respect to the output, shape ``(..., n, d_v)``.
    X, W_Q, W_K, W_V
        The inputs of the forward pass.
    weights
        The weights that the forward pass returned, shape ``(..., n, n)``.

    Returns
    -------
    dX, dW_Q, dW_K, dW_V
        Shapes of ``X``, ``W_Q``, ``W_K`` and ``W_V``.

    Raises
    ------
    ValueError
        If the shapes do not fit together.
    """
    _check_projections(X, W_Q, W_K, W_V)
    dQ, dK, dV = attention_backward(d_output, X @ W_Q, X @ W_K, X @ W_V, weights)
    dX = dQ @ W_Q.T + dK @ W_K.T + dV @ W_V.T
    rows = X.reshape(-1, X.shape[-1])  # every token of every sequence, (N, d_model)
    dW_Q = rows.T @ dQ.reshape(-1, dQ.shape[-1])
    dW_K = rows.T @ dK.reshape(-1, dK.shape[-1])
    dW_V = rows.T @ dV.reshape(-1, dV.shape[-1])
    return dX, dW_Q, dW_K, dW_V


def _check_shape(name: str, array: np.ndarray, wanted: tuple[int, ...]) -> None:
    if array.shape != wanted:
        raise ValueError(f"{name}: got shape {array.shape}, wanted {wanted}")


def _check_shapes(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> None:
    for name, array in (("Q", Q), ("K", K), ("V", V)):
        if array.ndim < 2:
            raise ValueError(
                f"{name}: got shape {array.shape}, wanted (..., tokens, width)"
            )
    if K.shape[-1] != Q.shape[-1] or K.shape[-1] == 0:
        raise ValueError(
            f"K: got keys of width {K.shape[-1]}, wanted the width of the queries, "
            f"{Q.shape[-1]}, at least 1: a score is the dot product of the two"
        )
    if V.shape[-2] != K.shape[-2]:
        raise ValueError(
            f"V: got {V.shape[-2]} values, wanted one per key, {K.shape[-2]}"
        )
    for name, array in (("K", K), ("V", V)):
        if array.shape[:-2] != Q.shape[:-2]:
            raise ValueError(
                f"{name}: got leading axes {array.shape[:-2]}, wanted those of Q, "
                f"{Q.shape[:-2]}"
            )


def _check_projections(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> None:
    if X.ndim < 2:
        raise ValueError(f"X: got shape {X.shape}, wanted (..., n, d_model)")
    for name, W in (("W_Q", W_Q), ("W_K", W_K), ("W_V", W_V)):
        if W.ndim != 2 or W.shape[0] != X.shape[-1]:
            raise ValueError(
                f"{name}: got shape {W.shape}, wanted ({X.shape[-1]}, width): "
                f"one row per column of X"
            )
    if W_Q.shape != W_K.shape:
        raise ValueError(
            f"W_K: got shape {W_K.shape}, wanted that of W_Q, {W_Q.shape}: queries and "
            "keys meet in a dot product"
        )
