"""Positions: telling a token where it stands.

Attention sees a set of tokens; whatever knows the order must be put in. There are two
families here. The first makes one vector per place and *adds* it to the tokens: the
index, the index divided by the length, sinusoids, a learned table. The second leaves
the tokens alone and acts inside attention, where queries meet keys: rotations of
queries and keys (RoPE) and biases on the scores (relative bias, ALiBi).
"""

import numpy as np
from jaxtyping import Bool, Float, Real

from transformer_lib.reference.attention import attention_backward
from transformer_lib.reference.lookup import masked_softmax, masked_softmax_backward
from transformer_lib.reference.masks import _check_count

__all__ = [
    "alibi",
    "alibi_slopes",
    "biased_attention",
    "biased_attention_backward",
    "index_over_length_positions",
    "index_positions",
    "learned_positions",
    "learned_positions_backward",
    "relative_bias",
    "relative_bias_backward",
    "rope",
    "rope_backward",
    "rope_halved",
    "sinusoidal_positions",
    "sinusoidal_positions_halved",
    "sinusoidal_shift",
]


def index_positions(length: int, d_model: int) -> Float[np.ndarray, "length d_model"]:
    """Give place ``t`` the number ``t`` in every column: the first idea, and a poor one.

    Its size grows without bound, so that far tokens drown in their position.

    Parameters
    ----------
    length
        Number of places, 0 or more.
    d_model
        Width of a token vector, 1 or more.

    Returns
    -------
    positions
        Shape ``(length, d_model)``; row ``t`` holds ``t``.

    Raises
    ------
    TypeError
        If a number is not an integer.
    ValueError
        If ``length`` is negative or ``d_model`` is below 1.

    Examples
    --------
    >>> index_positions(3, 2)
    array([[0., 0.],
           [1., 1.],
           [2., 2.]])
    """
    _check_sizes(length, d_model)
    return np.repeat(np.arange(length, dtype=float)[:, None], d_model, axis=1)


def index_over_length_positions(
    length: int, d_model: int
) -> Float[np.ndarray, "length d_model"]:
    """Give place ``t`` the number ``t / length``: bounded, but not the same twice.

    A word at place 3 gets another number when the sentence grows at its end, and the
    step from one place to the next depends on the length.

    Parameters
    ----------
    length
        Number of places, 0 or more.
    d_model
        Width of a token vector, 1 or more.

    Returns
    -------
    positions
        Shape ``(length, d_model)``, from 0 to below 1.

    Raises
    ------
    TypeError
        If a number is not an integer.
    ValueError
        If ``length`` is negative or ``d_model`` is below 1.

    Examples
    --------
    >>> index_over_length_positions(4, 1)[:, 0]
    array([0.  , 0.25, 0.5 , 0.75])
    """
    return index_positions(length, d_model) / max(length, 1)


def sinusoidal_positions(
    length: int, d_model: int, base: float = 10000.0
) -> Float[np.ndarray, "length d_model"]:
    r"""Sines and cosines of wavelengths from :math:`2\pi` to nearly :math:`2\pi\,10000`.

    .. math:: P_{t,2i} = \sin\frac{t}{10000^{2i/d}}, \qquad
              P_{t,2i+1} = \cos\frac{t}{10000^{2i/d}}

    Sine and cosine of one frequency stand side by side (*interleaved*, the order of the
    paper). Each number is between -1 and 1, and for even ``d_model`` every row has the
    same length, :math:`\sqrt{d/2}`. An odd ``d_model`` ends in a sine without cosine.

    Parameters
    ----------
    length
        Number of places, 0 or more.
    d_model
        Width of a token vector, 1 or more.
    base
        The 10000 of the formula, above 0.

    Returns
    -------
    positions
        Shape ``(length, d_model)``.

    Raises
    ------
    TypeError
        If ``length`` or ``d_model`` is not an integer.
    ValueError
        If ``length`` is negative, ``d_model`` is below 1 or ``base`` is not above 0.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.5.

    Examples
    --------
    >>> sinusoidal_positions(2, 4).round(4)
    array([[0.    , 1.    , 0.    , 1.    ],
           [0.8415, 0.5403, 0.01  , 1.    ]])
    """
    _check_sizes(length, d_model)
    angles = np.arange(length)[:, None] * _frequencies(d_model, base)  # (length, d/2)
    positions = np.empty((length, d_model))
    positions[:, 0::2] = np.sin(angles)
    positions[:, 1::2] = np.cos(angles)[:, : d_model // 2]
    return positions


def sinusoidal_positions_halved(
    length: int, d_model: int, base: float = 10000.0
) -> Float[np.ndarray, "length d_model"]:
    """Sinusoids in the other order: all sines first, then all cosines.

    The columns of :func:`sinusoidal_positions` in another order. A trained model cannot
    tell the two apart, since its weights learn either; a checkpoint can.

    Parameters
    ----------
    length, d_model, base
        As in :func:`sinusoidal_positions`.

    Returns
    -------
    positions
        Shape ``(length, d_model)``.

    Raises
    ------
    TypeError, ValueError
        As :func:`sinusoidal_positions`.

    Examples
    --------
    >>> sinusoidal_positions_halved(2, 4).round(4)
    array([[0.    , 0.    , 1.    , 1.    ],
           [0.8415, 0.01  , 0.5403, 1.    ]])
    """
    interleaved = sinusoidal_positions(length, d_model, base)
    return np.concatenate([interleaved[:, 0::2], interleaved[:, 1::2]], axis=1)


def sinusoidal_shift(
    offset: int, d_model: int, base: float = 10000.0
) -> Float[np.ndarray, "d_model d_model"]:
    r"""The rotation that moves every sinusoidal position on by ``offset`` places.

    :math:`p_{t+k} = p_t R_k` for every :math:`t`, with one matrix that depends on
    :math:`k` only. It turns each pair (sine, cosine) by the angle
    :math:`\varphi = k / 10000^{2i/d}`, because

    .. math:: \sin(a + \varphi) = \sin a \cos\varphi + \cos a \sin\varphi, \qquad
              \cos(a + \varphi) = \cos a \cos\varphi - \sin a \sin\varphi .

    Parameters
    ----------
    offset
        By how many places, may be negative.
    d_model
        Even width.
    base
        The 10000 of the formula, above 0.

    Returns
    -------
    rotation
        Shape ``(d_model, d_model)``, orthogonal, block-diagonal.

    Raises
    ------
    TypeError
        If ``offset`` or ``d_model`` is not an integer.
    ValueError
        If ``d_model`` is odd or below 1, or ``base`` is not above 0.

    Examples
    --------
    >>> P = sinusoidal_positions(6, 4)
    >>> bool(np.allclose(P[5], P[2] @ sinusoidal_shift(3, 4)))
    True
    """
    if isinstance(offset, bool) or not isinstance(offset, int | np.integer):
        raise TypeError(f"offset: got {offset!r}, wanted an integer")
    _check_sizes(0, d_model)
    _check_even("d_model", d_model)
    rotation = np.zeros((d_model, d_model))
    for i, angle in enumerate(offset * _frequencies(d_model, base)):
        cos, sin = np.cos(angle), np.sin(angle)
        rotation[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, -sin], [sin, cos]]
    return rotation


def learned_positions(
    table: Float[np.ndarray, "max_len d_model"], length: int
) -> Float[np.ndarray, "length d_model"]:
    """Take the first ``length`` rows of a table that training fills.

    Parameters
    ----------
    table
        Shape ``(max_len, d_model)``, one row per place.
    length
        Number of places, at most ``max_len``: the table knows no more.

    Returns
    -------
    positions
        Shape ``(length, d_model)``.

    Raises
    ------
    TypeError
        If ``length`` is not an integer.
    ValueError
        If ``table`` is not a matrix or ``length`` exceeds its rows.

    References
    ----------
    Gehring et al. 2017, *Convolutional Sequence to Sequence Learning*, section 3.1.

    Examples
    --------
    >>> learned_positions(np.array([[0.5], [0.25], [0.125]]), 2)
    array([[0.5 ],
           [0.25]])
    """
    _check_table(table, length)
    return table[:length].copy()


def learned_positions_backward(
    d_positions: Float[np.ndarray, "*batch length d_model"], max_len: int
) -> Float[np.ndarray, "max_len d_model"]:
    """Gradient of the loss with respect to the table of :func:`learned_positions`.

    Every sequence of the batch read the same rows, so their gradients add up; rows
    that no sequence reached get 0.

    Parameters
    ----------
    d_positions
        Gradient with respect to the positions, shape ``(..., length, d_model)``. As the
        positions were added to the tokens, it is the gradient of the sum.
    max_len
        Rows of the table.

    Returns
    -------
    d_table
        Shape ``(max_len, d_model)``.

    Raises
    ------
    TypeError
        If ``max_len`` is not an integer.
    ValueError
        If ``d_positions`` has fewer than two axes or is longer than ``max_len``.
    """
    _check_matrix("d_positions", d_positions)
    length, d_model = d_positions.shape[-2:]
    _check_count("max_len", max_len)
    if length > max_len:
        raise ValueError(f"d_positions: got length {length}, wanted at most {max_len}")
    d_table = np.zeros((max_len, d_model))
    d_table[:length] = d_positions.reshape(-1, length, d_model).sum(axis=0)
    return d_table


def rope(
    X: Real[np.ndarray, "*batch n d_head"], start: int = 0, base: float = 10000.0
) -> Float[np.ndarray, "*batch n d_head"]:
    r"""Rotate queries or keys by angles that grow with the place (RoPE).

    The pair :math:`(x_{2i}, x_{2i+1})` of the token at place :math:`t` is a point in a
    plane; it is turned by the angle :math:`t\,\theta_i`,
    :math:`\theta_i = 10000^{-2i/d}`:

    .. math:: x'_{2i} = x_{2i} \cos t\theta_i - x_{2i+1} \sin t\theta_i, \qquad
              x'_{2i+1} = x_{2i} \sin t\theta_i + x_{2i+1} \cos t\theta_i

    A query turned by :math:`s\theta` and a key turned by :math:`t\theta` have the dot
    product of the originals turned by :math:`(s - t)\theta` against each other: the
    scores depend on the distance only. Values are not rotated.

    Parameters
    ----------
    X
        Queries or keys, shape ``(..., n, d_head)``, ``d_head`` even.
    start
        Place of the first row, 0 or more (above 0 when a cache holds earlier keys).
    base
        The 10000 of the formula, above 0.

    Returns
    -------
    rotated
        Same shape as ``X``; every row keeps its length.

    Raises
    ------
    TypeError
        If ``start`` is not an integer.
    ValueError
        If ``d_head`` is odd, ``X`` has fewer than two axes, ``start`` is negative or
        ``base`` is not above 0.

    References
    ----------
    Su et al. 2021, *RoFormer: Enhanced Transformer with Rotary Position Embedding*,
    equation 34 (interleaved pairs, as here).

    Examples
    --------
    >>> rope(np.array([[1.0, 0.0], [1.0, 0.0]])).round(4)
    array([[1.    , 0.    ],
           [0.5403, 0.8415]])
    """
    return _rotate(X, _rope_angles(X, start, base))


def rope_backward(
    d_rotated: Real[np.ndarray, "*batch n d_head"],
    start: int = 0,
    base: float = 10000.0,
) -> Float[np.ndarray, "*batch n d_head"]:
    """Gradient of the loss with respect to the input of :func:`rope`.

    A rotation is a linear map whose transpose is the rotation back, so the gradient is
    turned by the same angles the other way.

    Parameters
    ----------
    d_rotated
        Gradient with respect to the output, shape ``(..., n, d_head)``.
    start, base
        What :func:`rope` was given.

    Returns
    -------
    dX
        Same shape.

    Raises
    ------
    TypeError, ValueError
        As :func:`rope`.
    """
    return _rotate(d_rotated, -_rope_angles(d_rotated, start, base))


def rope_halved(
    X: Real[np.ndarray, "*batch n d_head"], start: int = 0, base: float = 10000.0
) -> Float[np.ndarray, "*batch n d_head"]:
    """RoPE with the other pairing: column ``i`` with column ``i + d_head / 2``.

    The convention of GPT-NeoX, Llama and their kin. The scores obey the same law;
    weights trained with one pairing must have columns reordered to serve the other.

    Parameters
    ----------
    X, start, base
        As in :func:`rope`.

    Returns
    -------
    rotated
        Same shape as ``X``.

    Raises
    ------
    TypeError, ValueError
        As :func:`rope`.

    Examples
    --------
    >>> rope_halved(np.array([[1.0, 5.0, 0.0, 0.0]]), start=1).round(4)
    array([[0.5403, 4.9998, 0.8415, 0.05  ]])
    """
    angles = _rope_angles(X, start, base)
    half = X.shape[-1] // 2
    first, second = X[..., :half], X[..., half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate(
        [first * cos - second * sin, first * sin + second * cos], axis=-1
    )


def relative_bias(
    table: Float[np.ndarray, "heads distances"], n_queries: int, n_keys: int
) -> Float[np.ndarray, "heads n_queries n_keys"]:
    """Look up one learned number per head and distance, to be added to the scores.

    Column ``c`` of the table holds the bias for ``key place - query place = c - m``,
    where ``m`` is the largest distance told apart; farther keys share the last column
    of their side. As in :func:`~transformer_lib.reference.masks.causal_mask` the last
    query stands at the last key.

    Parameters
    ----------
    table
        Shape ``(num_heads, 2 m + 1)``.
    n_queries, n_keys
        Numbers of queries and keys.

    Returns
    -------
    bias
        Shape ``(num_heads, n_queries, n_keys)``, in the unit of the scores.

    Raises
    ------
    TypeError
        If a number is not an integer.
    ValueError
        If ``table`` is not a matrix with an odd number of columns, or a number is
        negative.

    References
    ----------
    Shaw et al. 2018, *Self-Attention with Relative Position Representations* (clipped
    distances); Raffel et al. 2020, *Exploring the Limits of Transfer Learning*,
    section 2.1 (one scalar per head added to the scores).

    Examples
    --------
    >>> relative_bias(np.array([[-1.0, 0.0, 1.0]]), 3, 3)[0]
    array([[ 0.,  1.,  1.],
           [-1.,  0.,  1.],
           [-1., -1.,  0.]])
    """
    columns = _distance_columns(table.shape, n_queries, n_keys)
    bias: np.ndarray = table[:, columns]
    return bias


def relative_bias_backward(
    d_bias: Float[np.ndarray, "*batch heads n_queries n_keys"], n_distances: int
) -> Float[np.ndarray, "heads n_distances"]:
    """Gradient of the loss with respect to the table of :func:`relative_bias`.

    Each entry of the table stands at all places of its distance; its gradient is the
    sum over them, and over the batch.

    Parameters
    ----------
    d_bias
        Gradient with respect to the bias, shape ``(..., num_heads, n_queries,
        n_keys)``. As the bias was added to the scores, it is the gradient of those.
    n_distances
        Columns of the table, odd.

    Returns
    -------
    d_table
        Shape ``(num_heads, n_distances)``.

    Raises
    ------
    TypeError
        If ``n_distances`` is not an integer.
    ValueError
        If ``d_bias`` has fewer than three axes or ``n_distances`` is not odd.
    """
    if d_bias.ndim < 3:
        raise ValueError(
            f"d_bias: got shape {d_bias.shape}, wanted (..., heads, n_queries, n_keys)"
        )
    heads, n_queries, n_keys = d_bias.shape[-3:]
    columns = _distance_columns((heads, n_distances), n_queries, n_keys)
    total = d_bias.reshape(-1, heads, n_queries, n_keys).sum(axis=0)
    stands_at = np.eye(n_distances)[columns]  # (n_queries, n_keys, distances), one-hot
    d_table: np.ndarray = np.einsum("hij,ijd->hd", total, stands_at)
    return d_table


def alibi_slopes(num_heads: int) -> Float[np.ndarray, " num_heads"]:
    r"""How strongly each head of ALiBi prefers near keys.

    For a power of two, :math:`m_k = 2^{-8k/h}`, :math:`k = 1 \dots h`: a geometric
    sequence that ends at 1/256. For other numbers of heads the sequence of the next
    lower power of two is completed by every other slope of the next higher one, as the
    authors' code does.

    Parameters
    ----------
    num_heads
        Number of heads, 1 or more.

    Returns
    -------
    slopes
        Shape ``(num_heads,)``, above 0.

    Raises
    ------
    TypeError
        If ``num_heads`` is not an integer.
    ValueError
        If ``num_heads`` is below 1.

    References
    ----------
    Press et al. 2022, *Train Short, Test Long: Attention with Linear Biases Enables
    Input Length Extrapolation*, section 3.

    Examples
    --------
    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    _check_count("num_heads", num_heads)
    if num_heads == 0:
        raise ValueError("num_heads: got 0, wanted 1 or more")
    lower = 2 ** int(np.log2(num_heads))
    slopes = 2.0 ** (-8.0 * np.arange(1, lower + 1) / lower)
    between = 2.0 ** (-8.0 * np.arange(1, 2 * lower + 1, 2) / (2 * lower))
    return np.concatenate([slopes, between[: num_heads - lower]])


def alibi(
    num_heads: int, n_queries: int, n_keys: int
) -> Float[np.ndarray, "num_heads n_queries n_keys"]:
    """Penalise each score by the distance between query and key, per head.

    ``bias = -slope * |query place - key place|``; the last query stands at the last
    key. The paper uses it with a causal mask, where the distance is never negative.

    Parameters
    ----------
    num_heads
        Number of heads, 1 or more.
    n_queries, n_keys
        Numbers of queries and keys.

    Returns
    -------
    bias
        Shape ``(num_heads, n_queries, n_keys)``, 0 or below, in the unit of the scores.

    Raises
    ------
    TypeError
        If a number is not an integer.
    ValueError
        If ``num_heads`` is below 1 or another number is negative.

    References
    ----------
    Press et al. 2022, *Train Short, Test Long*, section 3.

    Examples
    --------
    >>> alibi(1, 2, 3)[0] * 256
    array([[-1.,  0., -1.],
           [-2., -1.,  0.]])
    """
    slopes = alibi_slopes(num_heads)
    distance = np.abs(_signed_distances(n_queries, n_keys)).astype(float)
    bias: np.ndarray = 0.0 - slopes[:, None, None] * distance  # 0.0, not -0.0, at 0
    return bias


def biased_attention(
    Q: Real[np.ndarray, "*batch n_q d_k"],
    K: Real[np.ndarray, "*batch n_k d_k"],
    V: Real[np.ndarray, "*batch n_k d_v"],
    bias: Real[np.ndarray, "..."],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> tuple[
    Float[np.ndarray, "*batch n_q d_v"],
    Float[np.ndarray, "*batch n_q n_k"],
]:
    """softmax(Q K^T / sqrt(d_k) + bias) V: attention with something added to its scores.

    Parameters
    ----------
    Q, K, V, mask
        As in :func:`~transformer_lib.reference.attention.attention`.
    bias
        Broadcasts to ``(..., n_q, n_k)``; added after the division by ``sqrt(d_k)``.

    Returns
    -------
    output
        Shape ``(..., n_q, d_v)``.
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
    >>> Q = K = np.zeros((2, 1))
    >>> output, weights = biased_attention(Q, K, np.eye(2), alibi(1, 2, 2)[0] * 256)
    >>> weights.round(2)
    array([[0.73, 0.27],
           [0.27, 0.73]])
    """
    for name, array in (("Q", Q), ("K", K), ("V", V)):
        _check_matrix(name, array)
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError(
            f"K: got width {K.shape[-1]}, wanted {Q.shape[-1]}, the width of the queries"
        )
    if V.shape[-2] != K.shape[-2]:
        raise ValueError(
            f"V: got {V.shape[-2]} values, wanted {K.shape[-2]}, one per key"
        )
    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(K.shape[-1])
    try:
        scores = scores + np.broadcast_to(bias, scores.shape)
    except ValueError:
        raise ValueError(
            f"bias: got shape {bias.shape}, wanted one that broadcasts to {scores.shape}"
        ) from None
    weights = masked_softmax(scores, mask)
    return weights @ V, weights


def biased_attention_backward(
    d_output: Real[np.ndarray, "*batch n_q d_v"],
    Q: Real[np.ndarray, "*batch n_q d_k"],
    K: Real[np.ndarray, "*batch n_k d_k"],
    V: Real[np.ndarray, "*batch n_k d_v"],
    weights: Float[np.ndarray, "*batch n_q n_k"],
) -> tuple[
    Float[np.ndarray, "*batch n_q d_k"],
    Float[np.ndarray, "*batch n_k d_k"],
    Float[np.ndarray, "*batch n_k d_v"],
    Float[np.ndarray, "*batch n_q n_k"],
]:
    """Gradients with respect to ``Q``, ``K``, ``V`` and the bias.

    The bias is added to the scores, so its gradient *is* that of the scores,
    ``dS = A * (dA - rowsum(dA * A))`` with ``dA = dO V^T``. The other three are those
    of :func:`~transformer_lib.reference.attention.attention_backward`: given the
    weights, they never see the bias.

    Parameters
    ----------
    d_output
        Gradient with respect to the output, shape ``(..., n_q, d_v)``.
    Q, K, V
        The inputs of the forward pass.
    weights
        The weights that the forward pass returned.

    Returns
    -------
    dQ, dK, dV
        Shapes of ``Q``, ``K`` and ``V``.
    d_bias
        Shape of the scores; where the bias was broadcast, sum over those axes.

    Raises
    ------
    ValueError
        If the shapes do not fit together.
    """
    dQ, dK, dV = attention_backward(d_output, Q, K, V, weights)
    d_weights = d_output @ V.swapaxes(-1, -2)
    return dQ, dK, dV, masked_softmax_backward(d_weights, weights)


def _frequencies(d_model: int, base: float) -> np.ndarray:
    """1 / base^(2i/d) for each pair of columns i: radians per place."""
    if not base > 0.0:
        raise ValueError(f"base: got {base}, wanted a number above 0")
    frequencies: np.ndarray = base ** (-np.arange(0, d_model, 2) / d_model)
    return frequencies


def _rope_angles(X: np.ndarray, start: int, base: float) -> np.ndarray:
    """Angle of each place and pair, shape (n, d_head / 2), in radians."""
    _check_matrix("X", X)
    _check_count("start", start)
    n, d_head = X.shape[-2:]
    _check_even("d_head", d_head)
    places = start + np.arange(n)
    angles: np.ndarray = places[:, None] * _frequencies(d_head, base)
    return angles


def _rotate(X: np.ndarray, angles: np.ndarray) -> np.ndarray:
    even, odd = X[..., 0::2], X[..., 1::2]
    rotated = np.empty(X.shape)
    rotated[..., 0::2] = even * np.cos(angles) - odd * np.sin(angles)
    rotated[..., 1::2] = even * np.sin(angles) + odd * np.cos(angles)
    return rotated


def _signed_distances(n_queries: int, n_keys: int) -> np.ndarray:
    """Key place minus query place, the last query standing at the last key."""
    _check_count("n_queries", n_queries)
    _check_count("n_keys", n_keys)
    place_of_query = np.arange(n_queries)[:, None] + (n_keys - n_queries)
    distances: np.ndarray = np.arange(n_keys) - place_of_query
    return distances


def _distance_columns(
    table_shape: tuple[int, ...], n_queries: int, n_keys: int
) -> np.ndarray:
    if len(table_shape) != 2 or table_shape[1] % 2 == 0:
        raise ValueError(
            f"table: got shape {table_shape}, wanted (num_heads, 2 m + 1): "
            "m distances to the left, m to the right, and 0"
        )
    largest = table_shape[1] // 2
    distances = _signed_distances(n_queries, n_keys)
    columns: np.ndarray = distances.clip(-largest, largest) + largest
    return columns


def _check_sizes(length: int, d_model: int) -> None:
    _check_count("length", length)
    _check_count("d_model", d_model)
    if d_model == 0:
        raise ValueError("d_model: got 0, wanted 1 or more")


def _check_even(name: str, width: int) -> None:
    if width % 2:
        raise ValueError(
            f"{name}: got {width}, wanted an even number: columns turn in pairs"
        )


def _check_matrix(name: str, array: np.ndarray) -> None:
    if array.ndim < 2:
        raise ValueError(
            f"{name}: got shape {array.shape}, wanted (..., tokens, width)"
        )


def _check_table(table: np.ndarray, length: int) -> None:
    if table.ndim != 2:
        raise ValueError(f"table: got shape {table.shape}, wanted (max_len, d_model)")
    _check_count("length", length)
    if length > table.shape[0]:
        raise ValueError(
            f"length: got {length}, wanted at most {table.shape[0]}: "
            "the table has no row for later places"
        )
