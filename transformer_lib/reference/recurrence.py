"""Recurrent networks in NumPy: one step, a whole sequence, and the gradient by hand.

Row vectors throughout. A step of the plain network is
``h' = tanh(x W_x + h W_h + b)`` with ``x`` of shape ``(d_in,)``, ``h`` of shape
``(d_hidden,)``, ``W_x`` of shape ``(d_in, d_hidden)`` and ``W_h`` of shape
``(d_hidden, d_hidden)``. The gates of an LSTM stand side by side in the columns of its
weights, in the order input, forget, candidate, output (``i, f, g, o``); those of a GRU
in the order reset, update, candidate (``r, z, n``). Both orders are PyTorch's.

The ``..._backward`` functions take the gradient of a scalar loss with respect to what
the forward function returned, and give its gradient with respect to what went in.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

__all__ = [
    "GRUGradients",
    "LSTMGradients",
    "RNNGradients",
    "attention_reach",
    "gradient_product",
    "gru",
    "gru_backward",
    "gru_cell",
    "last_state",
    "lstm",
    "lstm_backward",
    "lstm_cell",
    "lstm_reach",
    "recurrent_factor",
    "rnn",
    "rnn_backward",
    "rnn_cell",
    "scalar_reach",
    "sigmoid",
]

Numbers = float | int | Sequence[float | int] | np.ndarray
"""A number, or several."""


class RNNGradients(NamedTuple):
    """What :func:`rnn_backward` returns, in the order of the arguments of :func:`rnn`."""

    X: np.ndarray
    h0: np.ndarray
    W_x: np.ndarray
    W_h: np.ndarray
    b: np.ndarray


class LSTMGradients(NamedTuple):
    """What :func:`lstm_backward` returns, in the order of the arguments of :func:`lstm`."""

    X: np.ndarray
    h0: np.ndarray
    c0: np.ndarray
    W_x: np.ndarray
    W_h: np.ndarray
    b: np.ndarray


class GRUGradients(NamedTuple):
    """What :func:`gru_backward` returns, in the order of the arguments of :func:`gru`."""

    X: np.ndarray
    h0: np.ndarray
    W_x: np.ndarray
    W_h: np.ndarray
    b_x: np.ndarray
    b_h: np.ndarray


def _numbers(name: str, value: object) -> np.ndarray:
    """``value`` as a float64 array, or an error that names it."""
    raw = np.asarray(value)
    if raw.dtype.kind not in "biuf":
        raise TypeError(f"{name}: got {raw.dtype} values, wanted real numbers")
    return raw.astype(np.float64)


def _array(name: str, value: object, *shape: int | str) -> np.ndarray:
    """``value`` as a float64 array of the wanted shape; a string names a free size."""
    array = _numbers(name, value)
    fits = array.ndim == len(shape) and all(
        isinstance(want, str) or size == want
        for size, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(str(want) for want in shape)
        comma = "," if len(shape) == 1 else ""
        raise ValueError(f"{name}: got shape {array.shape}, wanted ({wanted}{comma})")
    return array


def _weights(
    gates: int, W_x: object, W_h: object, **biases: object
) -> tuple[np.ndarray, ...]:
    """Check that the parameters of one layer with that many gates fit each other."""
    W_h = _array("W_h", W_h, "d_hidden", "gates * d_hidden")
    d = W_h.shape[0]
    W_h = _array("W_h", W_h, d, gates * d)
    W_x = _array("W_x", W_x, "d_in", gates * d)
    return W_x, W_h, *(_array(k, b, gates * d) for k, b in biases.items())


def sigmoid(a: Numbers) -> Float[np.ndarray, "*shape"]:
    """``1 / (1 + exp(-a))``, elementwise, written so that no exponential overflows.

    Parameters
    ----------
    a
        Any shape.

    Returns
    -------
    numpy.ndarray
        Values in [0, 1], same shape.
    """
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * np.asarray(a, dtype=np.float64))))


def rnn_cell(
    x: Float[np.ndarray, " d_in"],
    h: Float[np.ndarray, " d_hidden"],
    W_x: Float[np.ndarray, "d_in d_hidden"],
    W_h: Float[np.ndarray, "d_hidden d_hidden"],
    b: Float[np.ndarray, " d_hidden"],
) -> Float[np.ndarray, " d_hidden"]:
    """One step of the plain recurrent network: ``tanh(x W_x + h W_h + b)``.

    Parameters
    ----------
    x
        The token read at this step, ``(d_in,)``.
    h
        The state before it, ``(d_hidden,)``.
    W_x, W_h, b
        The same at every step: ``(d_in, d_hidden)``, ``(d_hidden, d_hidden)``,
        ``(d_hidden,)``.

    Returns
    -------
    numpy.ndarray
        The state after the token, ``(d_hidden,)``, each entry in [-1, 1].

    Raises
    ------
    ValueError
        If a shape does not fit; the message names the argument.
    TypeError
        If an argument does not hold real numbers.

    Notes
    -----
    Elman, *Finding structure in time*, 1990. The letters are ours.

    Examples
    --------
    >>> import numpy as np
    >>> x, h = np.array([1.0, 0.0]), np.array([0.0, 0.0])
    >>> rnn_cell(x, h, np.eye(2), np.eye(2), np.zeros(2)).round(4)
    array([0.7616, 0.    ])
    """
    W_x, W_h, b = _weights(1, W_x, W_h, b=b)
    x = _array("x", x, W_x.shape[0])
    h = _array("h", h, W_h.shape[0])
    return np.asarray(np.tanh(x @ W_x + h @ W_h + b))


def rnn(
    X: Float[np.ndarray, "n d_in"],
    h0: Float[np.ndarray, " d_hidden"],
    W_x: Float[np.ndarray, "d_in d_hidden"],
    W_h: Float[np.ndarray, "d_hidden d_hidden"],
    b: Float[np.ndarray, " d_hidden"],
) -> Float[np.ndarray, "n d_hidden"]:
    """Run :func:`rnn_cell` over a sequence, one token after the other.

    Parameters
    ----------
    X
        The tokens, ``(n, d_in)``.
    h0
        The state before the first token, ``(d_hidden,)``.
    W_x, W_h, b
        As in :func:`rnn_cell`.

    Returns
    -------
    numpy.ndarray
        The state after each token, ``(n, d_hidden)``; row ``t`` needs row ``t - 1``.

    Raises
    ------
    ValueError
        If a shape does not fit; the message names the argument.
    TypeError
        If an argument does not hold real numbers.
    """
    W_x, W_h, b = _weights(1, W_x, W_h, b=b)
    X = _array("X", X, "n", W_x.shape[0])
    h = _array("h0", h0, W_h.shape[0])
    H = np.empty((len(X), len(h)))
    for t, x in enumerate(X):
        H[t] = h = np.tanh(x @ W_x + h @ W_h + b)
    return H


def rnn_backward(
    d_H: Float[np.ndarray, "n d_hidden"],
    X: Float[np.ndarray, "n d_in"],
    h0: Float[np.ndarray, " d_hidden"],
    H: Float[np.ndarray, "n d_hidden"],
    W_x: Float[np.ndarray, "d_in d_hidden"],
    W_h: Float[np.ndarray, "d_hidden d_hidden"],
) -> RNNGradients:
    """Backpropagation through time for :func:`rnn`.

    Parameters
    ----------
    d_H
        Gradient of the loss with respect to each returned state, ``(n, d_hidden)``.
        A loss that reads the last state only has zeros in all rows but the last.
    X, h0, W_x, W_h
        What went into :func:`rnn`.
    H
        What came out of it, ``(n, d_hidden)``.

    Returns
    -------
    RNNGradients
        Gradients with respect to ``X``, ``h0``, ``W_x``, ``W_h`` and ``b``, each of
        its own shape.

    Raises
    ------
    ValueError
        If a shape does not fit; the message names the argument.
    TypeError
        If an argument does not hold real numbers.

    Notes
    -----
    Write ``a_t = x_t W_x + h_{t-1} W_h + b``, so that ``h_t = tanh(a_t)``, and call
    ``g_t`` the gradient with respect to ``h_t`` and ``D_t`` that with respect to
    ``a_t``. The state ``h_t`` acts on the loss in two ways: directly, which is row
    ``t`` of ``d_H``, and through ``a_{t+1}``. The slope of tanh is ``1 - tanh^2``. So,
    from the last token to the first,

    ``g_t = d_H[t] + D_{t+1} W_h^T``   and   ``D_t = g_t * (1 - h_t^2)``,

    and nothing comes from beyond the end (``D_{n+1} = 0``). Everything else is read
    off ``a_t``: ``dX[t] = D_t W_x^T``, ``dh0 = D_1 W_h^T``, and the shared parameters
    collect one term from each step: ``dW_x = sum_t x_t^T D_t``,
    ``dW_h = sum_t h_{t-1}^T D_t``, ``db = sum_t D_t``. Each sum of outer products is
    one matrix product. Werbos, *Backpropagation through time*, 1990.
    """
    W_x, W_h = _weights(1, W_x, W_h)
    X = _array("X", X, "n", W_x.shape[0])
    n, d = len(X), W_h.shape[0]
    h0 = _array("h0", h0, d)
    H = _array("H", H, n, d)
    d_H = _array("d_H", d_H, n, d)
    before = np.concatenate([h0[None], H])[:n]  # h_{t-1} for each t
    D = np.empty_like(H)
    d_h = np.zeros(d)
    for t in reversed(range(n)):
        D[t] = (d_H[t] + d_h) * (1.0 - H[t] ** 2)
        d_h = D[t] @ W_h.T
    return RNNGradients(
        X=D @ W_x.T, h0=d_h, W_x=X.T @ D, W_h=before.T @ D, b=D.sum(axis=0)
    )


def gradient_product(
    W_h: Float[np.ndarray, "d_hidden d_hidden"], H: Float[np.ndarray, "n d_hidden"]
) -> Float[np.ndarray, "d_hidden d_hidden"]:
    """The derivative of the last state with respect to the state before the first.

    Parameters
    ----------
    W_h
        The recurrent weights, ``(d_hidden, d_hidden)``.
    H
        The states that :func:`rnn` returned, ``(n, d_hidden)``.

    Returns
    -------
    numpy.ndarray
        ``(d_hidden, d_hidden)``; entry ``[i, j]`` is the derivative of ``H[-1, j]``
        with respect to ``h0[i]``. The identity if ``n`` is 0.

    Raises
    ------
    ValueError
        If a shape does not fit; the message names the argument.
    TypeError
        If an argument does not hold real numbers.

    Notes
    -----
    One step contributes ``J_t[i, j] = W_h[i, j] (1 - h_t[j]^2)``: the weight from
    entry ``i`` to entry ``j``, times the slope of tanh at the *new* state. With row
    vectors the chain rule multiplies from left to right, ``J_1 J_2 ... J_n``.
    """
    W_h = _array("W_h", W_h, "d_hidden", "d_hidden")
    W_h = _array("W_h", W_h, W_h.shape[0], W_h.shape[0])
    H = _array("H", H, "n", W_h.shape[0])
    product = np.eye(W_h.shape[0])
    for h in H:
        product = product @ (W_h * (1.0 - h**2))
    return product


def last_state(
    H: Float[np.ndarray, "batch n d"], lengths: Integer[np.ndarray, " batch"]
) -> Float[np.ndarray, "batch d"]:
    """The state at each sequence's own last token, in a batch padded at the end.

    Parameters
    ----------
    H
        States, ``(batch, n, d)``.
    lengths
        How many tokens of each row are real, ``(batch,)``, each from 1 to ``n``.

    Returns
    -------
    numpy.ndarray
        ``(batch, d)``: row ``k`` is ``H[k, lengths[k] - 1]``.

    Raises
    ------
    ValueError
        If ``H`` is not three-dimensional, or a length is outside 1 to ``n``.
    TypeError
        If ``H`` does not hold real numbers or ``lengths`` no integers.
    """
    H = _array("H", H, "batch", "n", "d")
    ends = np.asarray(lengths)
    if not np.issubdtype(ends.dtype, np.integer):
        raise TypeError(f"lengths: got {ends.dtype}, wanted integers")
    if ends.shape != (len(H),):
        raise ValueError(f"lengths: got shape {ends.shape}, wanted ({len(H)},)")
    if ends.size and (ends.min() < 1 or ends.max() > H.shape[1]):
        raise ValueError(
            f"lengths: got {ends.min()} to {ends.max()}, wanted 1 to n={H.shape[1]}"
        )
    return np.asarray(H[np.arange(len(H)), ends - 1])


def lstm_cell(
    x: Float[np.ndarray, " d_in"],
    h: Float[np.ndarray, " d_hidden"],
    c: Float[np.ndarray, " d_hidden"],
    W_x: Float[np.ndarray, "d_in four_d"],
    W_h: Float[np.ndarray, "d_hidden four_d"],
    b: Float[np.ndarray, " four_d"],
) -> tuple[Float[np.ndarray, " d_hidden"], Float[np.ndarray, " d_hidden"]]:
    """One step of the LSTM: a cell that is kept, not recomputed.

    Parameters
    ----------
    x
        The token read at this step, ``(d_in,)``.
    h, c
        The state and the cell before it, each ``(d_hidden,)``.
    W_x, W_h, b
        Shapes ``(d_in, 4 d_hidden)``, ``(d_hidden, 4 d_hidden)``, ``(4 d_hidden,)``;
        the columns hold the input gate, the forget gate, the candidate and the output
        gate, in this order.

    Returns
    -------
    tuple of numpy.ndarray
        The new state and the new cell, each ``(d_hidden,)``.

    Raises
    ------
    ValueError
        If a shape does not fit; the message names the argument.
    TypeError
        If an argument does not hold real numbers.

    Notes
    -----
    ``i, f, o = sigmoid(...)`` and ``g = tanh(...)`` of ``x W_x + h W_h + b``, then
    ``c' = f * c + i * g`` and ``h' = o * tanh(c')``. Hochreiter and Schmidhuber 1997;
    the forget gate is from Gers, Schmidhuber and Cummins 2000. PyTorch writes ``b`` as
    the sum of two vectors of the same shape.
    """
    W_x, W_h, b = _weights(4, W_x, W_h, b=b)
    d = W_h.shape[0]
    x = _array("x", x, W_x.shape[0])
    i, f, g, o = _lstm_gates(x @ W_x + _array("h", h, d) @ W_h + b)
    c_new = f * _array("c", c, d) + i * g
    return o * np.tanh(c_new), c_new


def _lstm_gates(a: np.ndarray) -> tuple[np.ndarray, ...]:
    """Cut ``(..., 4 d)`` pre-activations in four and squash each part."""
    i, f, g, o = np.split(a, 4, axis=-1)
    return sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)


def lstm(
    X: Float[np.ndarray, "n d_in"],
    h0: Float[np.ndarray, " d_hidden"],
    c0: Float[np.ndarray, " d_hidden"],
    W_x: Float[np.ndarray, "d_in four_d"],
    W_h: Float[np.ndarray, "d_hidden four_d"],
    b: Float[np.ndarray, " four_d"],
) -> tuple[Float[np.ndarray, "n d_hidden"], Float[np.ndarray, "n d_hidden"]]:
    """Run :func:`lstm_cell` over a sequence.

    Parameters
    ----------
    X
        The tokens, ``(n, d_in)``.
    h0, c0
        State and cell before the first token, each ``(d_hidden,)``.
    W_x, W_h, b
        As in :func:`lstm_cell`.

    Returns
    -------
    tuple of numpy.ndarray
        The states and the cells after each token, each ``(n, d_hidden)``.

    Raises
    ------
    ValueError
        If a shape does not fit; the message names the argument.
    TypeError
        If an argument does not hold real numbers.
    """
    W_x, W_h, b = _weights(4, W_x, W_h, b=b)
    d = W_h.shape[0]
    X = _array("X", X, "n", W_x.shape[0])
    h, c = _array("h0", h0, d), _array("c0", c0, d)
    H, C = np.empty((len(X), d)), np.empty((len(X), d))
    for t, x in enumerate(X):
        i, f, g, o = _lstm_gates(x @ W_x + h @ W_h + b)
        C[t] = c = f * c + i * g
        H[t] = h = o * np.tanh(c)
    return H, C


def lstm_backward(
    d_H: Float[np.ndarray, "n d_hidden"],
    d_C: Float[np.ndarray, "n d_hidden"],
    X: Float[np.ndarray, "n d_in"],
    h0: Float[np.ndarray, " d_hidden"],
    c0: Float[np.ndarray, " d_hidden"],
    H: Float[np.ndarray, "n d_hidden"],
    C: Float[np.ndarray, "n d_hidden"],
    W_x: Float[np.ndarray, "d_in four_d"],
    W_h: Float[np.ndarray, "d_hidden four_d"],
    b: Float[np.ndarray, " four_d"],
) -> LSTMGradients:
    """Backpropagation through time for :func:`lstm`.

    Parameters
    ----------
    d_H, d_C
        Gradients of the loss with respect to the returned states and cells, each
        ``(n, d_hidden)``. A loss that reads no cell has zeros in ``d_C``.
    X, h0, c0, W_x, W_h, b
        What went into :func:`lstm`.
    H, C
        What came out of it.

    Returns
    -------
    LSTMGradients
        Gradients with respect to ``X``, ``h0``, ``c0``, ``W_x``, ``W_h`` and ``b``.

    Raises
    ------
    ValueError
        If a shape does not fit; the message names the argument.
    TypeError
        If an argument does not hold real numbers.

    Notes
    -----
    Let ``g_h`` and ``g_c`` be the gradients with respect to ``h_t`` and ``c_t``, both
    with what comes back from step ``t + 1`` included. From ``h_t = o * tanh(c_t)``:
    the output gate gets ``g_h * tanh(c_t)``, and the cell gets, on top of ``g_c``,
    ``g_h * o * (1 - tanh(c_t)^2)``. From ``c_t = f * c_{t-1} + i * g``: the gates get
    ``g_c * g`` (input), ``g_c * c_{t-1}`` (forget), ``g_c * i`` (candidate), and the
    older cell gets ``g_c * f``. That last product is the point of the LSTM: along the
    cells the gradient is multiplied by the forget gate and by nothing else, no matrix
    and no tanh. Each gate's gradient times the slope of its squashing (``s (1 - s)``
    for the sigmoids, ``1 - g^2`` for tanh) is the gradient ``D_t`` with respect to the
    pre-activations, and from there on all is as in :func:`rnn_backward`.
    """
    W_x, W_h, b = _weights(4, W_x, W_h, b=b)
    X = _array("X", X, "n", W_x.shape[0])
    n, d = len(X), W_h.shape[0]
    h0, c0 = _array("h0", h0, d), _array("c0", c0, d)
    H, C = _array("H", H, n, d), _array("C", C, n, d)
    d_H, d_C = _array("d_H", d_H, n, d), _array("d_C", d_C, n, d)
    h_before = np.concatenate([h0[None], H])[:n]
    c_before = np.concatenate([c0[None], C])[:n]
    gates = _lstm_gates(X @ W_x + h_before @ W_h + b)
    D = np.empty((n, 4 * d))
    d_h, d_c = np.zeros(d), np.zeros(d)
    for t in reversed(range(n)):
        i, f, g, o = (gate[t] for gate in gates)
        squashed = np.tanh(C[t])
        g_h = d_H[t] + d_h
        g_c = d_C[t] + d_c + g_h * o * (1.0 - squashed**2)
        D[t] = np.concatenate(
            [
                g_c * g * i * (1.0 - i),
                g_c * c_before[t] * f * (1.0 - f),
                g_c * i * (1.0 - g**2),
                g_h * squashed * o * (1.0 - o),
            ]
        )
        d_h, d_c = D[t] @ W_h.T, g_c * f
    return LSTMGradients(
        X=D @ W_x.T,
        h0=d_h,
        c0=d_c,
        W_x=X.T @ D,
        W_h=h_before.T @ D,
        b=D.sum(axis=0),
    )


def gru_cell(
    x: Float[np.ndarray, " d_in"],
    h: Float[np.ndarray, " d_hidden"],
    W_x: Float[np.ndarray, "d_in three_d"],
    W_h: Float[np.ndarray, "d_hidden three_d"],
    b_x: Float[np.ndarray, " three_d"],
    b_h: Float[np.ndarray, " three_d"],
) -> Float[np.ndarray, " d_hidden"]:
    """One step of the gated recurrent unit: keep a part of the state, replace the rest.

    Parameters
    ----------
    x
        The token read at this step, ``(d_in,)``.
    h
        The state before it, ``(d_hidden,)``.
    W_x, W_h
        Shapes ``(d_in, 3 d_hidden)`` and ``(d_hidden, 3 d_hidden)``; the columns hold
        the reset gate, the update gate and the candidate, in this order.
    b_x, b_h
        Two biases, ``(3 d_hidden,)`` each: the reset gate multiplies the second one's
        last part, so they do not add up to one.

    Returns
    -------
    numpy.ndarray
        The new state, ``(d_hidden,)``.

    Raises
    ------
    ValueError
        If a shape does not fit; the message names the argument.
    TypeError
        If an argument does not hold real numbers.

    Notes
    -----
    ``r, z = sigmoid(...)``, ``n = tanh(x W_xn + b_xn + r * (h W_hn + b_hn))`` and
    ``h' = (1 - z) * n + z * h``. Cho et al. 2014 apply ``r`` to ``h`` before the
    product with ``W_hn``; this is the later form, which PyTorch computes.
    """
    W_x, W_h, b_x, b_h = _weights(3, W_x, W_h, b_x=b_x, b_h=b_h)
    x = _array("x", x, W_x.shape[0])
    h = _array("h", h, W_h.shape[0])
    _, z, n, _ = _gru_gates(x @ W_x + b_x, h @ W_h + b_h)
    return np.asarray((1.0 - z) * n + z * h)


def _gru_gates(from_x: np.ndarray, from_h: np.ndarray) -> tuple[np.ndarray, ...]:
    """Reset gate, update gate, candidate, and the state's part of the candidate."""
    x_r, x_z, x_n = np.split(from_x, 3, axis=-1)
    h_r, h_z, h_n = np.split(from_h, 3, axis=-1)
    r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
    return r, z, np.tanh(x_n + r * h_n), h_n


def gru(
    X: Float[np.ndarray, "n d_in"],
    h0: Float[np.ndarray, " d_hidden"],
    W_x: Float[np.ndarray, "d_in three_d"],
    W_h: Float[np.ndarray, "d_hidden three_d"],
    b_x: Float[np.ndarray, " three_d"],
    b_h: Float[np.ndarray, " three_d"],
) -> Float[np.ndarray, "n d_hidden"]:
    """Run :func:`gru_cell` over a sequence.

    Parameters
    ----------
    X
        The tokens, ``(n, d_in)``.
    h0
        The state before the first token, ``(d_hidden,)``.
    W_x, W_h, b_x, b_h
        As in :func:`gru_cell`.

    Returns
    -------
    numpy.ndarray
        The state after each token, ``(n, d_hidden)``.

    Raises
    ------
    ValueError
        If a shape does not fit; the message names the argument.
    TypeError
        If an argument does not hold real numbers.
    """
    W_x, W_h, b_x, b_h = _weights(3, W_x, W_h, b_x=b_x, b_h=b_h)
    X = _array("X", X, "n", W_x.shape[0])
    h = _array("h0", h0, W_h.shape[0])
    H = np.empty((len(X), len(h)))
    for t, x in enumerate(X):
        _, z, n, _ = _gru_gates(x @ W_x + b_x, h @ W_h + b_h)
        H[t] = h = (1.0 - z) * n + z * h
    return H


def gru_backward(
    d_H: Float[np.ndarray, "n d_hidden"],
    X: Float[np.ndarray, "n d_in"],
    h0: Float[np.ndarray, " d_hidden"],
    H: Float[np.ndarray, "n d_hidden"],
    W_x: Float[np.ndarray, "d_in three_d"],
    W_h: Float[np.ndarray, "d_hidden three_d"],
    b_x: Float[np.ndarray, " three_d"],
    b_h: Float[np.ndarray, " three_d"],
) -> GRUGradients:
    """Backpropagation through time for :func:`gru`.

    Parameters
    ----------
    d_H
        Gradient of the loss with respect to each returned state, ``(n, d_hidden)``.
    X, h0, W_x, W_h, b_x, b_h
        What went into :func:`gru`.
    H
        What came out of it.

    Returns
    -------
    GRUGradients
        Gradients with respect to ``X``, ``h0``, ``W_x``, ``W_h``, ``b_x``, ``b_h``.

    Raises
    ------
    ValueError
        If a shape does not fit; the message names the argument.
    TypeError
        If an argument does not hold real numbers.

    Notes
    -----
    Let ``g_h`` be the gradient with respect to ``h_t``, what comes back from step
    ``t + 1`` included. ``h_t = (1 - z) n + z h_{t-1}`` hands ``g_h (h_{t-1} - n)`` to
    the update gate, ``g_h (1 - z)`` to the candidate, and ``g_h z`` straight to the
    older state. Behind the candidate's tanh lies ``x W_xn + b_xn + r u`` with
    ``u = h_{t-1} W_hn + b_hn``: its gradient goes unchanged to the side of ``x``,
    times ``r`` to the side of ``h``, and its product with ``u`` is the reset gate's.
    The two sides therefore differ in the candidate's columns and nowhere else.
    """
    W_x, W_h, b_x, b_h = _weights(3, W_x, W_h, b_x=b_x, b_h=b_h)
    X = _array("X", X, "n", W_x.shape[0])
    n_tokens, d = len(X), W_h.shape[0]
    h0 = _array("h0", h0, d)
    H = _array("H", H, n_tokens, d)
    d_H = _array("d_H", d_H, n_tokens, d)
    before = np.concatenate([h0[None], H])[:n_tokens]
    gates = _gru_gates(X @ W_x + b_x, before @ W_h + b_h)
    D_x, D_h = np.empty((n_tokens, 3 * d)), np.empty((n_tokens, 3 * d))
    d_h = np.zeros(d)
    for t in reversed(range(n_tokens)):
        r, z, n, u = (gate[t] for gate in gates)
        g_h = d_H[t] + d_h
        d_n = g_h * (1.0 - z) * (1.0 - n**2)
        d_r = d_n * u * r * (1.0 - r)
        d_z = g_h * (before[t] - n) * z * (1.0 - z)
        D_x[t] = np.concatenate([d_r, d_z, d_n])
        D_h[t] = np.concatenate([d_r, d_z, d_n * r])
        d_h = D_h[t] @ W_h.T + g_h * z
    return GRUGradients(
        X=D_x @ W_x.T,
        h0=d_h,
        W_x=X.T @ D_x,
        W_h=before.T @ D_h,
        b_x=D_x.sum(axis=0),
        b_h=D_h.sum(axis=0),
    )


def _number(name: str, value: object) -> float:
    """One finite real number, or an error that names it."""
    number = float(_array(name, value))
    if not np.isfinite(number):
        raise ValueError(f"{name}: got {number}, wanted a finite number")
    return number


def _at_least(name: str, value: object, least: int) -> np.ndarray:
    """Numbers of any shape, none below ``least``."""
    array = _numbers(name, value)
    if not np.all(array >= least):
        raise ValueError(f"{name}: got {value}, wanted {least} or more")
    return array


def scalar_reach(factor: float | int, distance: Numbers) -> Float[np.ndarray, "*shape"]:
    """How much of a gradient is left after it was multiplied ``distance`` times.

    Parameters
    ----------
    factor
        The number that multiplies it at every step, of either sign.
    distance
        How many steps back, 0 or more; a number or an array.

    Returns
    -------
    numpy.ndarray
        ``|factor| ** distance``, the shape of ``distance``.

    Raises
    ------
    ValueError
        If ``factor`` is not finite or a distance is negative.
    TypeError
        If an argument does not hold real numbers.

    Examples
    --------
    >>> scalar_reach(-0.5, [0, 1, 2]).tolist()
    [1.0, 0.5, 0.25]
    """
    return np.asarray(
        np.abs(_number("factor", factor)) ** _at_least("distance", distance, 0)
    )


def lstm_reach(
    forget_bias: float | int, distance: Numbers
) -> Float[np.ndarray, "*shape"]:
    """:func:`scalar_reach` along the cells of an LSTM whose forget gate sees its bias only.

    Parameters
    ----------
    forget_bias
        Bias of the forget gate; the gate is then ``sigmoid(forget_bias)`` at each step.
    distance
        How many steps back, 0 or more; a number or an array.

    Returns
    -------
    numpy.ndarray
        ``sigmoid(forget_bias) ** distance``, the shape of ``distance``.

    Raises
    ------
    ValueError
        If ``forget_bias`` is not finite or a distance is negative.
    TypeError
        If an argument does not hold real numbers.
    """
    bias = _number("forget_bias", forget_bias)
    return scalar_reach(float(sigmoid(bias)), distance)


def attention_reach(length: Numbers) -> Float[np.ndarray, "*shape"]:
    """Share of each token when attention weighs ``length`` tokens equally.

    The distance does not occur in it: that is the point.

    Parameters
    ----------
    length
        Number of tokens looked at, 1 or more; a number or an array.

    Returns
    -------
    numpy.ndarray
        ``1 / length``, the shape of ``length``.

    Raises
    ------
    ValueError
        If a length is below 1.
    TypeError
        If ``length`` does not hold real numbers.
    """
    return np.asarray(1.0 / _at_least("length", length, 1))


def recurrent_factor(reach: float | int, distance: float | int) -> float:
    """The positive factor whose ``distance``-th power is ``reach``.

    Parameters
    ----------
    reach
        What should be left, above 0.
    distance
        After how many steps, 1 or more.

    Returns
    -------
    float
        ``reach ** (1 / distance)``.

    Raises
    ------
    ValueError
        If ``reach`` is not positive and finite, or ``distance`` is below 1.
    TypeError
        If an argument is not a real number.

    Examples
    --------
    >>> round(recurrent_factor(0.5, 50), 4)
    0.9862
    """
    left = _number("reach", reach)
    if left <= 0:
        raise ValueError(f"reach: got {left}, wanted a number above 0")
    steps = _number("distance", distance)
    if steps < 1:
        raise ValueError(f"distance: got {distance}, wanted 1 or more")
    return float(left ** (1.0 / steps))
