"""The feed-forward network: two matrix products with a bend between them.

It works on each token alone: the same two layers for every row of ``X``.
"""

import math
from typing import Literal

import numpy as np
from jaxtyping import Float, Real

__all__ = [
    "Activation",
    "feed_forward",
    "feed_forward_backward",
    "gelu",
    "gelu_backward",
    "gelu_tanh",
    "relu",
    "relu_backward",
]

Activation = Literal["relu", "gelu"]


def relu(X: Real[np.ndarray, "*axes"]) -> Real[np.ndarray, "*axes"]:
    """Keep what is above 0, replace the rest by 0.

    Parameters
    ----------
    X
        Any shape.

    Returns
    -------
    Y
        Same shape.

    Examples
    --------
    >>> relu(np.array([-2.0, 0.0, 3.0]))
    array([0., 0., 3.])
    """
    Y: np.ndarray = np.maximum(X, 0)
    return Y


def relu_backward(
    d_output: Real[np.ndarray, "*axes"], X: Real[np.ndarray, "*axes"]
) -> Float[np.ndarray, "*axes"]:
    """Gradient of the loss with respect to the input of :func:`relu`.

    The slope is 1 above 0 and 0 below. At 0, where there is none, it is taken as 0.

    Parameters
    ----------
    d_output
        Gradient with respect to the output.
    X
        What :func:`relu` was given.

    Returns
    -------
    dX
        Same shape.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> relu_backward(np.array([5.0, 5.0, 5.0]), np.array([-2.0, 0.0, 3.0]))
    array([0., 0., 5.])
    """
    _check_same(d_output, X)
    return np.where(X > 0, d_output, 0.0)


def gelu(X: Real[np.ndarray, "*axes"]) -> Float[np.ndarray, "*axes"]:
    r"""Weigh each number by the chance that a standard normal variable lies below it.

    .. math:: \mathrm{gelu}(x) = x\,\Phi(x) = \frac{x}{2}
              \Big(1 + \mathrm{erf}\frac{x}{\sqrt 2}\Big)

    Parameters
    ----------
    X
        Any shape.

    Returns
    -------
    Y
        Same shape.

    References
    ----------
    Hendrycks and Gimpel 2016, *Gaussian Error Linear Units (GELUs)*, section 2.

    Examples
    --------
    >>> gelu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    Y: np.ndarray = X * _normal_cdf(X)
    return Y


def gelu_backward(
    d_output: Real[np.ndarray, "*axes"], X: Real[np.ndarray, "*axes"]
) -> Float[np.ndarray, "*axes"]:
    r"""Gradient of the loss with respect to the input of :func:`gelu`.

    The product rule gives :math:`\Phi(x) + x\,\varphi(x)`, with the normal density
    :math:`\varphi(x) = e^{-x^2/2} / \sqrt{2\pi}` as the derivative of :math:`\Phi`.

    Parameters
    ----------
    d_output
        Gradient with respect to the output.
    X
        What :func:`gelu` was given.

    Returns
    -------
    dX
        Same shape.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> gelu_backward(np.array([1.0, 1.0]), np.array([0.0, 1.0])).round(4)
    array([0.5   , 1.0833])
    """
    _check_same(d_output, X)
    density = np.exp(-np.square(X) / 2.0) / math.sqrt(2.0 * math.pi)
    dX: np.ndarray = d_output * (_normal_cdf(X) + X * density)
    return dX


def gelu_tanh(X: Real[np.ndarray, "*axes"]) -> Float[np.ndarray, "*axes"]:
    r"""The approximation of :func:`gelu` by tanh, at most 5e-4 away from it.

    .. math:: \frac{x}{2}\Big(1 + \tanh\big(\sqrt{2/\pi}\,(x + 0.044715\,x^3)\big)\Big)

    GPT-2 and BERT's first code use it. It is here for comparison.

    Parameters
    ----------
    X
        Any shape.

    Returns
    -------
    Y
        Same shape.

    References
    ----------
    Hendrycks and Gimpel 2016, *Gaussian Error Linear Units (GELUs)*, section 2.

    Examples
    --------
    >>> gelu_tanh(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1588,  0.    ,  0.8412])
    """
    inner = math.sqrt(2.0 / math.pi) * (X + 0.044715 * np.power(X, 3))
    Y: np.ndarray = 0.5 * X * (1.0 + np.tanh(inner))
    return Y


def feed_forward(
    X: Real[np.ndarray, "*batch d_model"],
    W_1: Real[np.ndarray, "d_model d_ff"],
    b_1: Real[np.ndarray, " d_ff"],
    W_2: Real[np.ndarray, "d_ff d_out"],
    b_2: Real[np.ndarray, " d_out"],
    activation: Activation = "relu",
) -> Float[np.ndarray, "*batch d_out"]:
    """max(0, X W_1 + b_1) W_2 + b_2  (Vaswani et al. 2017, eq. 2).

    Parameters
    ----------
    X
        Tokens, shape ``(..., d_model)``. Each row is treated alone.
    W_1, b_1
        Widen: shapes ``(d_model, d_ff)`` and ``(d_ff,)``.
    W_2, b_2
        Back: shapes ``(d_ff, d_out)`` and ``(d_out,)``; in a Transformer ``d_out`` is
        ``d_model``.
    activation
        ``"relu"`` (the paper) or ``"gelu"``.

    Returns
    -------
    output
        Shape ``(..., d_out)``.

    Raises
    ------
    ValueError
        If the shapes do not fit together or the activation is unknown.

    Examples
    --------
    Two hidden units compute the exclusive or, which no single layer can:

    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> W_1, b_1 = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([0.0, -1.0])
    >>> feed_forward(X, W_1, b_1, np.array([[1.0], [-2.0]]), np.array([0.0]))[:, 0]
    array([0., 1., 1., 0.])
    """
    _check_layers(X, W_1, b_1, W_2, b_2)
    bend = relu if _check_activation(activation) == "relu" else gelu
    hidden = bend(X @ W_1 + b_1)
    output: np.ndarray = hidden @ W_2 + b_2
    return output


def feed_forward_backward(
    d_output: Real[np.ndarray, "*batch d_out"],
    X: Real[np.ndarray, "*batch d_model"],
    W_1: Real[np.ndarray, "d_model d_ff"],
    b_1: Real[np.ndarray, " d_ff"],
    W_2: Real[np.ndarray, "d_ff d_out"],
    b_2: Real[np.ndarray, " d_out"],
    activation: Activation = "relu",
) -> tuple[
    Float[np.ndarray, "*batch d_model"],
    Float[np.ndarray, "d_model d_ff"],
    Float[np.ndarray, " d_ff"],
    Float[np.ndarray, "d_ff d_out"],
    Float[np.ndarray, " d_out"],
]:
    """Gradients of the loss with respect to everything that went in.

    Write ``A = X W_1 + b_1``, ``H = bend(A)``, ``O = H W_2 + b_2`` and read backwards:

    * ``O = H W_2 + b_2`` gives ``dW_2 = H^T dO``, ``db_2 = sum of the rows of dO``, and
      ``dH = dO W_2^T``;
    * the bend gives ``dA = dH * bend'(A)``, entry by entry;
    * ``A = X W_1 + b_1`` gives ``dW_1 = X^T dA``, ``db_1 = sum of the rows of dA``, and
      ``dX = dA W_1^T``.

    The weights serve every token, so their gradients add up over all rows.

    Parameters
    ----------
    d_output
        Gradient with respect to the output, shape ``(..., d_out)``.
    X, W_1, b_1, W_2, b_2, activation
        What :func:`feed_forward` was given.

    Returns
    -------
    dX, dW_1, db_1, dW_2, db_2
        Shapes of the inputs.

    Raises
    ------
    ValueError
        If the shapes do not fit together or the activation is unknown.
    """
    _check_layers(X, W_1, b_1, W_2, b_2)
    if d_output.shape != (*X.shape[:-1], W_2.shape[1]):
        raise ValueError(
            f"d_output: got shape {d_output.shape}, "
            f"wanted {(*X.shape[:-1], W_2.shape[1])}"
        )
    is_relu = _check_activation(activation) == "relu"
    bend, bend_backward = (relu, relu_backward) if is_relu else (gelu, gelu_backward)
    rows = X.reshape(-1, X.shape[-1])  # (tokens, d_model)
    d_rows = d_output.reshape(-1, d_output.shape[-1])  # (tokens, d_out)
    before = rows @ W_1 + b_1
    dW_2 = bend(before).T @ d_rows
    db_2 = d_rows.sum(axis=0)
    d_before = bend_backward(d_rows @ W_2.T, before)
    dW_1 = rows.T @ d_before
    db_1 = d_before.sum(axis=0)
    dX = (d_before @ W_1.T).reshape(X.shape)
    return dX, dW_1, db_1, dW_2, db_2


def _normal_cdf(X: np.ndarray) -> np.ndarray:
    """Chance that a standard normal variable is below x, entry by entry."""
    erf = np.frompyfunc(math.erf, 1, 1)
    cdf: np.ndarray = 0.5 * (
        1.0 + np.asarray(erf(np.asarray(X, dtype=float) / math.sqrt(2.0)), dtype=float)
    )
    return cdf


def _check_same(d_output: np.ndarray, X: np.ndarray) -> None:
    if d_output.shape != X.shape:
        raise ValueError(f"d_output: got shape {d_output.shape}, wanted {X.shape}")


def _check_activation(activation: str) -> str:
    if activation not in ("relu", "gelu"):
        raise ValueError(f"activation: got {activation!r}, wanted 'relu' or 'gelu'")
    return activation


def _check_layers(
    X: np.ndarray, W_1: np.ndarray, b_1: np.ndarray, W_2: np.ndarray, b_2: np.ndarray
) -> None:
    if X.ndim == 0:
        raise ValueError(f"X: got shape {X.shape}, wanted (..., d_model)")
    if W_1.ndim != 2 or W_1.shape[0] != X.shape[-1]:
        raise ValueError(
            f"W_1: got shape {W_1.shape}, wanted ({X.shape[-1]}, d_ff), "
            "as many rows as a token has numbers"
        )
    if W_2.ndim != 2 or W_2.shape[0] != W_1.shape[1]:
        raise ValueError(f"W_2: got shape {W_2.shape}, wanted ({W_1.shape[1]}, d_out)")
    for name, bias, matrix in (("b_1", b_1, W_1), ("b_2", b_2, W_2)):
        if bias.shape != matrix.shape[1:]:
            raise ValueError(
                f"{name}: got shape {bias.shape}, wanted {matrix.shape[1:]}"
            )
