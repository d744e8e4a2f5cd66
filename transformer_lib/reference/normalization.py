"""Normalisation and the residual path.

``layer_norm`` looks at one token at a time; ``batch_norm`` is here for the comparison.
``residual_pre`` and ``residual_post`` are the two orders in which a sub-layer, its skip
connection and its normalisation are put together.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Real

__all__ = [
    "batch_norm",
    "batch_norm_backward",
    "batch_norm_evaluation",
    "layer_norm",
    "layer_norm_backward",
    "residual_post",
    "residual_post_backward",
    "residual_pre",
    "residual_pre_backward",
]

Gradients = TypeVar("Gradients")
Sublayer = Callable[[np.ndarray], np.ndarray]
"""Takes and gives tokens."""
SublayerBackward = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, Gradients]]
"""Takes the gradient of a sub-layer's output, and the sub-layer's input; gives the
gradient of that input, and those of the sub-layer's own parameters."""


def layer_norm(
    X: Real[np.ndarray, "*batch d"],
    gamma: Real[np.ndarray, " d"],
    beta: Real[np.ndarray, " d"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "*batch d"]:
    r"""Shift each token to mean 0, scale it to variance 1, then apply gamma and beta.

    .. math:: \mu = \frac1d \sum_j x_j, \qquad
              \sigma^2 = \frac1d \sum_j (x_j - \mu)^2, \qquad
              y_j = \gamma_j \frac{x_j - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta_j

    Mean and variance run over the ``d`` numbers of *one* token; no other token, and no
    other sentence, has any say. The variance divides by ``d``, not ``d - 1``.

    Parameters
    ----------
    X
        Tokens, shape ``(..., d)``.
    gamma, beta
        Scale and shift per column, shape ``(d,)``.
    eps
        Added to the variance under the root, 0 or more: a token of equal numbers would
        divide by 0.

    Returns
    -------
    Y
        Same shape as ``X``.

    Raises
    ------
    ValueError
        If ``gamma`` or ``beta`` is not of shape ``(d,)``, ``X`` has no axis or no
        columns, or ``eps`` is negative.

    References
    ----------
    Ba et al. 2016, *Layer Normalization*, equation 4.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> layer_norm(X, np.ones(3), np.zeros(3)).round(4)
    array([[-1.2247,  0.    ,  1.2247],
           [-1.2247,  0.    ,  1.2247]])
    """
    _check_norm(X, gamma, beta, eps)
    normalised, _ = _normalise(X, axes=(-1,), eps=eps)
    Y: np.ndarray = gamma * normalised + beta
    return Y


def layer_norm_backward(
    d_output: Real[np.ndarray, "*batch d"],
    X: Real[np.ndarray, "*batch d"],
    gamma: Real[np.ndarray, " d"],
    eps: float = 1e-5,
) -> tuple[
    Float[np.ndarray, "*batch d"], Float[np.ndarray, " d"], Float[np.ndarray, " d"]
]:
    r"""Gradients of the loss with respect to ``X``, ``gamma`` and ``beta``.

    With :math:`\hat x = (x - \mu)/s`, :math:`s = \sqrt{\sigma^2 + \varepsilon}` and the
    incoming gradient :math:`g`, first :math:`\hat g = g\,\gamma`. Changing :math:`x_j`
    moves :math:`\hat x_j` itself, and every entry through the mean and through
    :math:`s`:

    .. math:: \frac{\partial \hat x_i}{\partial x_j} = \frac1s
              \Big(\delta_{ij} - \frac1d - \frac{\hat x_i \hat x_j}{d}\Big)
              \quad\Rightarrow\quad
              \frac{\partial L}{\partial x} = \frac1s \Big(\hat g
              - \mathrm{mean}(\hat g) - \hat x\,\mathrm{mean}(\hat g\,\hat x)\Big)

    So what comes out is :math:`\hat g` without its mean and (up to :math:`\varepsilon`)
    without its share along :math:`\hat x`: shifting or stretching a token would not
    have changed the output. ``gamma`` and ``beta`` serve every token, their gradients
    are sums over tokens of :math:`g\,\hat x` and of :math:`g`.

    Parameters
    ----------
    d_output
        Gradient with respect to the output, shape ``(..., d)``.
    X, gamma, eps
        What :func:`layer_norm` was given.

    Returns
    -------
    dX, dgamma, dbeta
        Shapes of ``X``, ``gamma`` and ``beta``.

    Raises
    ------
    ValueError
        As :func:`layer_norm`, or if ``d_output`` has not the shape of ``X``.
    """
    _check_norm(X, gamma, gamma, eps)
    return _normalise_backward(d_output, X, gamma, axes=(-1,), eps=eps)


def batch_norm(
    X: Real[np.ndarray, "*batch d"],
    gamma: Real[np.ndarray, " d"],
    beta: Real[np.ndarray, " d"],
    eps: float = 1e-5,
) -> tuple[
    Float[np.ndarray, "*batch d"], Float[np.ndarray, " d"], Float[np.ndarray, " d"]
]:
    """Normalise each column over all tokens of all sentences (training mode).

    The formula of :func:`layer_norm` with mean and variance over the other axes. So a
    token's output depends on the tokens behind it, on the other sentences of the batch
    and on the padding.

    Parameters
    ----------
    X
        Tokens, shape ``(..., d)``, at least one.
    gamma, beta
        Scale and shift per column, shape ``(d,)``.
    eps
        Added to the variance under the root, 0 or more.

    Returns
    -------
    Y
        Same shape as ``X``.
    mean, variance
        Shape ``(d,)``, of this batch (biased); training keeps a running average of
        them for :func:`batch_norm_evaluation`.

    Raises
    ------
    ValueError
        If ``gamma`` or ``beta`` is not of shape ``(d,)``, there is no token, or ``eps``
        is negative.

    References
    ----------
    Ioffe and Szegedy 2015, *Batch Normalization*, algorithm 1.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> batch_norm(X, np.ones(3), np.zeros(3))[0].round(4)
    array([[-1., -1., -1.],
           [ 1.,  1.,  1.]])
    """
    _check_norm(X, gamma, beta, eps)
    if X.size == 0:
        raise ValueError(f"X: got shape {X.shape}, wanted at least one token")
    axes = _token_axes(X)
    normalised, _ = _normalise(X, axes=axes, eps=eps)
    return gamma * normalised + beta, X.mean(axis=axes), X.var(axis=axes)


def batch_norm_backward(
    d_output: Real[np.ndarray, "*batch d"],
    X: Real[np.ndarray, "*batch d"],
    gamma: Real[np.ndarray, " d"],
    eps: float = 1e-5,
) -> tuple[
    Float[np.ndarray, "*batch d"], Float[np.ndarray, " d"], Float[np.ndarray, " d"]
]:
    """Gradients with respect to ``X``, ``gamma`` and ``beta`` in training mode.

    The derivation of :func:`layer_norm_backward` with the means taken over the tokens:
    every token receives gradient from every other.

    Parameters
    ----------
    d_output
        Gradient with respect to the output, shape ``(..., d)``.
    X, gamma, eps
        What :func:`batch_norm` was given.

    Returns
    -------
    dX, dgamma, dbeta
        Shapes of ``X``, ``gamma`` and ``beta``.

    Raises
    ------
    ValueError
        As :func:`batch_norm`, or if ``d_output`` has not the shape of ``X``.
    """
    _check_norm(X, gamma, gamma, eps)
    return _normalise_backward(d_output, X, gamma, axes=_token_axes(X), eps=eps)


def batch_norm_evaluation(
    X: Real[np.ndarray, "*batch d"],
    gamma: Real[np.ndarray, " d"],
    beta: Real[np.ndarray, " d"],
    mean: Real[np.ndarray, " d"],
    variance: Real[np.ndarray, " d"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "*batch d"]:
    """Normalise with stored statistics (evaluation mode): another function.

    Nothing leaks between tokens here, since the statistics are constants; but what was
    trained is :func:`batch_norm`.

    Parameters
    ----------
    X, gamma, beta, eps
        As in :func:`batch_norm`.
    mean, variance
        Stored statistics, shape ``(d,)``, the variance 0 or more.

    Returns
    -------
    Y
        Same shape as ``X``.

    Raises
    ------
    ValueError
        If a vector is not of shape ``(d,)``, a variance or ``eps`` is negative.

    Examples
    --------
    >>> X, one, nought = np.array([[4.0]]), np.ones(1), np.zeros(1)
    >>> batch_norm_evaluation(X, one, nought, np.array([2.0]), np.array([4.0]), eps=0.0)
    array([[1.]])
    """
    _check_norm(X, gamma, beta, eps)
    for name, vector in (("mean", mean), ("variance", variance)):
        if vector.shape != X.shape[-1:]:
            raise ValueError(f"{name}: got shape {vector.shape}, wanted {X.shape[-1:]}")
    if (variance < 0.0).any():
        raise ValueError(f"variance: got {variance.min()}, wanted 0 or more")
    Y: np.ndarray = gamma * (X - mean) / np.sqrt(variance + eps) + beta
    return Y


def residual_pre(
    X: Real[np.ndarray, "*batch d"],
    sublayer: Sublayer,
    gamma: Real[np.ndarray, " d"],
    beta: Real[np.ndarray, " d"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "*batch d"]:
    """X + sublayer(LayerNorm(X)): normalise what goes *into* the sub-layer (pre-norm).

    The skip connection runs from the first layer to the last untouched.

    Parameters
    ----------
    X
        Tokens, shape ``(..., d)``.
    sublayer
        Attention or feed-forward: takes and gives ``(..., d)``.
    gamma, beta, eps
        Of :func:`layer_norm`.

    Returns
    -------
    Y
        Same shape as ``X``.

    Raises
    ------
    ValueError
        As :func:`layer_norm`, or if the sub-layer changes the shape.

    References
    ----------
    Xiong et al. 2020, *On Layer Normalization in the Transformer Architecture*.

    Examples
    --------
    A sub-layer that adds nothing leaves the token as it was:

    >>> residual_pre(np.array([[1.0, 5.0]]), np.zeros_like, np.ones(2), np.zeros(2))
    array([[1., 5.]])
    """
    normalised = layer_norm(X, gamma, beta, eps)
    Y: np.ndarray = X + _same_shape(sublayer(normalised), X)
    return Y


def residual_pre_backward(
    d_output: Real[np.ndarray, "*batch d"],
    X: Real[np.ndarray, "*batch d"],
    sublayer: Sublayer,
    sublayer_backward: SublayerBackward[Gradients],
    gamma: Real[np.ndarray, " d"],
    beta: Real[np.ndarray, " d"],
    eps: float = 1e-5,
) -> tuple[
    Float[np.ndarray, "*batch d"],
    Gradients,
    Float[np.ndarray, " d"],
    Float[np.ndarray, " d"],
]:
    """Gradients through :func:`residual_pre`.

    ``Y = X + F(N(X))``, so ``dX = dY + N'(F'(dY))``: the gradient reaches ``X`` twice,
    once untouched along the skip connection and once through the sub-layer.

    Parameters
    ----------
    d_output
        Gradient with respect to ``Y``.
    X, sublayer, gamma, beta, eps
        What :func:`residual_pre` was given.
    sublayer_backward
        Takes the gradient of the sub-layer's output and the sub-layer's input, gives
        the gradient of that input and those of the sub-layer's own parameters.

    Returns
    -------
    dX
        Shape of ``X``.
    gradients
        What ``sublayer_backward`` returned for its parameters.
    dgamma, dbeta
        Shape ``(d,)``.

    Raises
    ------
    ValueError
        As :func:`layer_norm_backward`.
    """
    normalised = layer_norm(X, gamma, beta, eps)
    _same_shape(sublayer(normalised), X)
    d_normalised, gradients = sublayer_backward(d_output, normalised)
    d_through, dgamma, dbeta = layer_norm_backward(d_normalised, X, gamma, eps)
    return d_output + d_through, gradients, dgamma, dbeta


def residual_post(
    X: Real[np.ndarray, "*batch d"],
    sublayer: Sublayer,
    gamma: Real[np.ndarray, " d"],
    beta: Real[np.ndarray, " d"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "*batch d"]:
    """LayerNorm(X + sublayer(X)): normalise the *sum* (post-norm, the paper's order).

    Parameters
    ----------
    X
        Tokens, shape ``(..., d)``.
    sublayer
        Attention or feed-forward: takes and gives ``(..., d)``.
    gamma, beta, eps
        Of :func:`layer_norm`.

    Returns
    -------
    Y
        Same shape as ``X``.

    Raises
    ------
    ValueError
        As :func:`layer_norm`, or if the sub-layer changes the shape.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.1.

    Examples
    --------
    A sub-layer that adds nothing still leaves a normalised token:

    >>> Y = residual_post(np.array([[1.0, 5.0]]), np.zeros_like, np.ones(2), np.zeros(2))
    >>> Y.round(3)
    array([[-1.,  1.]])
    """
    return layer_norm(X + _same_shape(sublayer(X), X), gamma, beta, eps)


def residual_post_backward(
    d_output: Real[np.ndarray, "*batch d"],
    X: Real[np.ndarray, "*batch d"],
    sublayer: Sublayer,
    sublayer_backward: SublayerBackward[Gradients],
    gamma: Real[np.ndarray, " d"],
    beta: Real[np.ndarray, " d"],
    eps: float = 1e-5,
) -> tuple[
    Float[np.ndarray, "*batch d"],
    Gradients,
    Float[np.ndarray, " d"],
    Float[np.ndarray, " d"],
]:
    """Gradients through :func:`residual_post`.

    ``Y = N(X + F(X))``: with ``dS = N'(dY)`` the gradient of the sum,
    ``dX = dS + F'(dS)``. Every gradient passes the normalisation first.

    Parameters
    ----------
    d_output
        Gradient with respect to ``Y``.
    X, sublayer, gamma, beta, eps
        What :func:`residual_post` was given.
    sublayer_backward
        As in :func:`residual_pre_backward`.

    Returns
    -------
    dX
        Shape of ``X``.
    gradients
        What ``sublayer_backward`` returned for its parameters.
    dgamma, dbeta
        Shape ``(d,)``.

    Raises
    ------
    ValueError
        As :func:`layer_norm_backward`.
    """
    total = X + _same_shape(sublayer(X), X)
    _check_norm(total, gamma, beta, eps)
    d_total, dgamma, dbeta = layer_norm_backward(d_output, total, gamma, eps)
    d_through, gradients = sublayer_backward(d_total, X)
    return d_total + d_through, gradients, dgamma, dbeta


def _normalise(
    X: np.ndarray, axes: tuple[int, ...], eps: float
) -> tuple[np.ndarray, np.ndarray]:
    """(X - mean) / s over the axes, and s = sqrt(variance + eps)."""
    centred = X - X.mean(axis=axes, keepdims=True)
    scale = np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + eps)
    return centred / scale, scale


def _normalise_backward(
    d_output: np.ndarray,
    X: np.ndarray,
    gamma: np.ndarray,
    axes: tuple[int, ...],
    eps: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if d_output.shape != X.shape:
        raise ValueError(f"d_output: got shape {d_output.shape}, wanted {X.shape}")
    normalised, scale = _normalise(X, axes, eps)
    d_normalised = d_output * gamma
    mean = d_normalised.mean(axis=axes, keepdims=True)
    along = (d_normalised * normalised).mean(axis=axes, keepdims=True)
    dX = (d_normalised - mean - normalised * along) / scale
    tokens = _token_axes(X)
    dgamma = (d_output * normalised).sum(axis=tokens)
    dbeta = d_output.sum(axis=tokens)
    return dX, dgamma, dbeta


def _token_axes(X: np.ndarray) -> tuple[int, ...]:
    """All axes but the last."""
    return tuple(range(X.ndim - 1))


def _same_shape(output: np.ndarray, X: np.ndarray) -> np.ndarray:
    if output.shape != X.shape:
        raise ValueError(
            f"sublayer: its output has shape {output.shape}, wanted {X.shape}: "
            "it is added to its input"
        )
    return output


def _check_norm(X: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    if X.ndim == 0 or X.shape[-1] == 0:
        raise ValueError(f"X: got shape {X.shape}, wanted (..., d) with d > 0")
    for name, vector in (("gamma", gamma), ("beta", beta)):
        if vector.shape != X.shape[-1:]:
            raise ValueError(f"{name}: got shape {vector.shape}, wanted {X.shape[-1:]}")
    if not eps >= 0.0:
        raise ValueError(f"eps: got {eps}, wanted 0 or more")
