"""Looking up, hard and soft: softmax, temperature, entropy, weighted averages.

Row vectors throughout: a query has shape ``(d,)``, the keys ``(n, d)``, the values
``(n, d_v)``. Leading axes of scores and queries are free, the softmax runs over the
last one, the keys. Derivations stand in chapter 2 of the course.
"""

import numpy as np
from jaxtyping import Bool, Float, Num

__all__ = [
    "entropy",
    "entropy_backward",
    "hard_lookup",
    "kernel_regression",
    "masked_softmax",
    "masked_softmax_backward",
    "soft_lookup",
    "soft_lookup_backward",
    "softmax",
    "softmax_backward",
    "sugeno_inference",
]


def softmax(
    scores: Num[np.ndarray, "*axes"], axis: int = -1
) -> Float[np.ndarray, "*axes"]:
    r"""Turn scores into positive weights that sum to 1 along ``axis``.

    .. math:: a_i = \frac{e^{s_i}}{\sum_j e^{s_j}}
                  = \frac{e^{s_i - m}}{\sum_j e^{s_j - m}}, \qquad m = \max_j s_j

    The second form is the one computed. It has the same value and never overflows,
    because its largest exponent is 0; the maximum is taken per row, so that a row of
    small scores beside a row of large ones keeps its weights.

    Parameters
    ----------
    scores
        Any shape, without unit. ``-inf`` gets the weight 0.
    axis
        The axis along which the weights sum to 1.

    Returns
    -------
    weights
        Same shape as ``scores``.

    Raises
    ------
    ValueError
        If ``axis`` is empty or does not exist, or a score is NaN or ``+inf``, or all
        scores of a row are ``-inf`` (see :func:`masked_softmax`).

    References
    ----------
    Bridle 1990, *Probabilistic Interpretation of Feedforward Classification Network
    Outputs*, introduced the name.

    Examples
    --------
    >>> softmax(np.log([1.0, 2.0, 5.0])).round(3)
    array([0.125, 0.25 , 0.625])
    """
    if scores.ndim == 0 or not -scores.ndim <= axis < scores.ndim:
        raise ValueError(
            f"axis: got {axis}, which scores of shape {scores.shape} do not have"
        )
    if scores.shape[axis] == 0:
        raise ValueError(
            f"scores: got shape {scores.shape}, wanted one score or more on axis {axis}"
        )
    _refuse_nan_and_plus_inf(scores)
    highest = scores.max(axis=axis, keepdims=True)
    if np.isneginf(highest).any():
        raise ValueError(
            "scores: a row holds nothing but -inf, and softmax would divide 0 by 0; "
            "masked_softmax gives such a row the weights 0"
        )
    numerators = np.exp(scores - highest)
    weights: np.ndarray = numerators / numerators.sum(axis=axis, keepdims=True)
    return weights


def softmax_backward(
    d_weights: Float[np.ndarray, "*axes"],
    weights: Float[np.ndarray, "*axes"],
    axis: int = -1,
) -> Float[np.ndarray, "*axes"]:
    r"""Gradient of the loss with respect to the scores of :func:`softmax`.

    The Jacobian of one row is :math:`\partial a_i / \partial s_j = a_i (\delta_{ij} -
    a_j)`. Multiplying it from the left by the incoming gradient :math:`g` needs no
    matrix:

    .. math:: \frac{\partial L}{\partial s_j} = a_j \Big(g_j - \sum_i g_i a_i\Big)

    Each row of the result sums to 0: raising all scores alike changes nothing.

    Parameters
    ----------
    d_weights
        Gradient of the loss with respect to the weights.
    weights
        What :func:`softmax` returned.
    axis
        The axis that the softmax ran along.

    Returns
    -------
    d_scores
        Same shape as ``weights``.

    Raises
    ------
    ValueError
        If the two shapes differ.

    Examples
    --------
    >>> softmax_backward(np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    array([ 0.25, -0.25])
    """
    _same_shape("d_weights", d_weights, "weights", weights)
    mean = (d_weights * weights).sum(axis=axis, keepdims=True)
    d_scores: np.ndarray = weights * (d_weights - mean)
    return d_scores


def masked_softmax(
    scores: Num[np.ndarray, "*axes"], mask: Bool[np.ndarray, "..."] | None = None
) -> Float[np.ndarray, "*axes"]:
    """Softmax over the keys that each query may see, zeros elsewhere.

    A query that may see no key at all (a *dead row*) gets the weights 0, not NaN: what
    it looks up contributes nothing. What stands behind the mask, even NaN, does not
    matter.

    Parameters
    ----------
    scores
        Shape ``(..., n_queries, n_keys)``; the softmax runs over the last axis.
    mask
        Boolean, ``True`` = this query may attend to this key; must broadcast to the
        shape of ``scores``. ``None`` hides nothing.

    Returns
    -------
    weights
        Same shape as ``scores``. A row with at least one visible key sums to 1.

    Raises
    ------
    TypeError
        If ``mask`` is not boolean.
    ValueError
        If ``mask`` does not broadcast to ``scores``, ``scores`` has no axis, or a
        visible score is NaN or ``+inf``.

    Examples
    --------
    >>> scores = np.array([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]])
    >>> mask = np.array([[True, True, False], [False, False, False]])
    >>> masked_softmax(scores, mask)
    array([[0.5, 0.5, 0. ],
           [0. , 0. , 0. ]])
    """
    if scores.ndim == 0:
        raise ValueError(f"scores: got shape {scores.shape}, wanted (..., n_keys)")
    if mask is not None:
        scores = np.where(_broadcast_mask(mask, scores.shape), scores, -np.inf)
    _refuse_nan_and_plus_inf(scores)
    highest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    numerators = np.exp(scores - np.where(np.isneginf(highest), 0.0, highest))
    total = numerators.sum(axis=-1, keepdims=True)
    weights: np.ndarray = numerators / np.where(total == 0.0, 1.0, total)
    return weights


def masked_softmax_backward(
    d_weights: Float[np.ndarray, "*axes"], weights: Float[np.ndarray, "*axes"]
) -> Float[np.ndarray, "*axes"]:
    """Gradient of the loss with respect to the scores of :func:`masked_softmax`.

    The formula of :func:`softmax_backward`; the weight 0 of a hidden key makes its
    gradient 0, and a dead row's gradients are all 0. Incoming gradients at weight 0 are
    left out first, so that a NaN behind the mask cannot spread (0 times NaN is NaN).

    Parameters
    ----------
    d_weights
        Gradient of the loss with respect to the weights.
    weights
        What :func:`masked_softmax` returned.

    Returns
    -------
    d_scores
        Same shape as ``weights``.

    Raises
    ------
    ValueError
        If the two shapes differ.

    Examples
    --------
    >>> masked_softmax_backward(np.array([1.0, 0.0, 7.0]), np.array([0.5, 0.5, 0.0]))
    array([ 0.25, -0.25, -0.  ])
    """
    _same_shape("d_weights", d_weights, "weights", weights)
    return softmax_backward(np.where(weights > 0.0, d_weights, 0.0), weights)


def entropy(
    weights: Float[np.ndarray, "*axes keys"],
) -> Float[np.ndarray, "*axes"] | np.floating:
    r"""How spread out the weights are, in nats.

    .. math:: H(a) = -\sum_i a_i \ln a_i, \qquad 0 \ln 0 = 0

    It is 0 when one key has all the weight and :math:`\ln n` when all :math:`n` share
    it, so :math:`e^H` reads as the number of keys that are being averaged.

    Parameters
    ----------
    weights
        Shape ``(..., n_keys)``: not negative, each row sums to 1 (or to 0, a dead row,
        whose entropy is 0).

    Returns
    -------
    entropy
        Shape ``(...)``, in nats.

    Raises
    ------
    ValueError
        If a weight is negative or NaN, or a row sums to neither 1 nor 0 (tolerance
        1e-3, wide enough for half precision).

    References
    ----------
    Shannon 1948, *A Mathematical Theory of Communication*, section 6.

    Examples
    --------
    >>> round(float(entropy(np.array([0.5, 0.5, 0.0]))), 4)
    0.6931
    """
    if not (weights >= 0.0).all():
        raise ValueError(f"weights: got {weights.min()} as the least, wanted 0 or more")
    total = weights.sum(axis=-1)
    wrong = (np.abs(total - 1.0) > 1e-3) & (total != 0.0)
    if wrong.any():
        raise ValueError(
            f"weights: a row sums to {total[wrong].flat[0]:.4g}, wanted 1 (or 0)"
        )
    logarithms = np.log(np.where(weights > 0.0, weights, 1.0))
    nats: np.ndarray = -(weights * logarithms).sum(axis=-1)
    return nats + 0.0  # turns -0.0, the entropy of a one-hot row, into 0.0


def entropy_backward(
    d_entropy: Float[np.ndarray, "*axes"] | np.floating,
    weights: Float[np.ndarray, "*axes keys"],
) -> Float[np.ndarray, "*axes keys"]:
    r"""Gradient of the loss with respect to the weights of :func:`entropy`.

    .. math:: \frac{\partial H}{\partial a_i} = -(\ln a_i + 1)

    At weight 0 the derivative is infinite; the result holds 0 there. That is the right
    value for what follows: :func:`softmax_backward` multiplies it by the weight, and
    :math:`a \ln a` goes to 0 with :math:`a`.

    Parameters
    ----------
    d_entropy
        Gradient of the loss with respect to the entropy, shape ``(...)``.
    weights
        Shape ``(..., n_keys)``.

    Returns
    -------
    d_weights
        Same shape as ``weights``.

    Raises
    ------
    ValueError
        If ``d_entropy`` has not one number per row of ``weights``.

    Examples
    --------
    >>> entropy_backward(np.array(1.0), np.array([0.5, 0.5, 0.0])).round(4)
    array([-0.3069, -0.3069,  0.    ])
    """
    upstream = np.asarray(d_entropy)
    if upstream.shape != weights.shape[:-1]:
        raise ValueError(
            f"d_entropy: got shape {upstream.shape}, wanted {weights.shape[:-1]}, "
            "one number per row of weights"
        )
    logarithms = np.log(np.where(weights > 0.0, weights, 1.0))
    slopes: np.ndarray = np.where(weights > 0.0, -(logarithms + 1.0), 0.0)
    d_weights: np.ndarray = upstream[..., None] * slopes
    return d_weights


def hard_lookup(
    query: Num[np.ndarray, "*queries d"],
    keys: Num[np.ndarray, "n d"],
    values: Num[np.ndarray, "n d_v"],
) -> Num[np.ndarray, "*queries d_v"]:
    """Return the value whose key scores highest with the query.

    The score is the dot product. With one-hot keys and a one-hot query this is the
    ordinary table lookup. Of several highest scores the first wins.

    Parameters
    ----------
    query
        Shape ``(d,)``, or ``(..., d)`` for many queries.
    keys
        Shape ``(n, d)``.
    values
        Shape ``(n, d_v)``.

    Returns
    -------
    value
        Shape ``(d_v,)``, or ``(..., d_v)``.

    Raises
    ------
    ValueError
        If the widths of query and keys differ, the numbers of keys and values differ,
        there are no keys, or a score is NaN.

    Examples
    --------
    >>> table = np.array([[3.0, 1.0], [4.0, 1.0], [5.0, 9.0]])
    >>> hard_lookup(np.array([0.0, 1.0, 0.0]), np.eye(3), table)
    array([4., 1.])
    """
    _check_lookup(query, keys, values)
    scores = query @ keys.T
    if np.isnan(scores).any():
        raise ValueError("query, keys: a score is NaN, so no key scores highest")
    value: np.ndarray = values[scores.argmax(axis=-1)]
    return value


def soft_lookup(
    query: Num[np.ndarray, "*queries d"],
    keys: Num[np.ndarray, "n d"],
    values: Num[np.ndarray, "n d_v"],
    temperature: float = 1.0,
) -> tuple[Float[np.ndarray, "*queries d_v"], Float[np.ndarray, "*queries n"]]:
    r"""Average the values, each weighted by how well its key fits the query.

    .. math:: o = \sum_i a_i v_i, \qquad
              a = \mathrm{softmax}\big(q k_1^\top / \tau, \dots, q k_n^\top / \tau\big)

    Parameters
    ----------
    query
        Shape ``(d,)``, or ``(..., d)`` for many queries.
    keys
        Shape ``(n, d)``.
    values
        Shape ``(n, d_v)``.
    temperature
        Above 0, in units of the scores. Low is nearly :func:`hard_lookup` (tied keys
        share), high is nearly the plain average of all values.

    Returns
    -------
    output
        Shape ``(d_v,)``, or ``(..., d_v)``.
    weights
        Shape ``(n,)``, or ``(..., n)``; each row sums to 1.

    Raises
    ------
    ValueError
        If the widths of query and keys differ, the numbers of keys and values differ,
        there are no keys, ``temperature`` is not above 0, or a score is NaN or
        infinite.

    Examples
    --------
    >>> output, weights = soft_lookup(
    ...     np.array([np.log(3.0)]), np.array([[1.0], [0.0]]), np.array([[8.0], [0.0]])
    ... )
    >>> output.round(4), weights.round(4)
    (array([6.]), array([0.75, 0.25]))
    """
    _check_lookup(query, keys, values)
    _check_temperature(temperature)
    weights = softmax(query @ keys.T / temperature)
    return weights @ values, weights


def soft_lookup_backward(
    d_output: Float[np.ndarray, "*queries d_v"],
    query: Num[np.ndarray, "*queries d"],
    keys: Num[np.ndarray, "n d"],
    values: Num[np.ndarray, "n d_v"],
    weights: Float[np.ndarray, "*queries n"],
    temperature: float = 1.0,
) -> tuple[
    Float[np.ndarray, "*queries d"],
    Float[np.ndarray, "n d"],
    Float[np.ndarray, "n d_v"],
]:
    r"""Gradients of the loss with respect to query, keys and values.

    With :math:`g` the incoming gradient, :math:`S = Q K^\top / \tau` and :math:`O = A V`:

    .. math:: dV = A^\top g, \quad dA = g V^\top, \quad
              dS = \text{softmax\_backward}(dA, A), \quad
              dQ = dS\,K / \tau, \quad dK = dS^\top Q / \tau

    Parameters
    ----------
    d_output
        Gradient of the loss with respect to the output, shape ``(..., d_v)``.
    query, keys, values, temperature
        What :func:`soft_lookup` was given.
    weights
        What it returned.

    Returns
    -------
    d_query, d_keys, d_values
        Same shapes as ``query``, ``keys`` and ``values``.

    Raises
    ------
    ValueError
        If the shapes do not belong together or ``temperature`` is not above 0.
    """
    _check_lookup(query, keys, values)
    _check_temperature(temperature)
    for name, array, width in (
        ("d_output", d_output, values.shape[1]),
        ("weights", weights, keys.shape[0]),
    ):
        if array.shape != (*query.shape[:-1], width):
            raise ValueError(
                f"{name}: got shape {array.shape}, wanted {(*query.shape[:-1], width)}"
            )
    d_scores = softmax_backward(d_output @ values.T, weights) / temperature
    d_query = d_scores @ keys
    # Keys and values serve all queries, so their gradients sum over them.
    d_keys = _rows(d_scores).T @ _rows(query)
    d_values = _rows(weights).T @ _rows(d_output)
    return d_query, d_keys, d_values


def kernel_regression(
    x: Num[np.ndarray, " m"],
    x_known: Num[np.ndarray, " n"],
    y_known: Num[np.ndarray, " n"],
    width: float,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m n"]]:
    r"""Predict at ``x`` by averaging known answers, near ones weighing more.

    .. math:: \hat y(x) = \sum_i \frac{\kappa(x - x_i)}{\sum_j \kappa(x - x_j)} y_i,
              \qquad \kappa(u) = e^{-u^2 / 2 w^2}

    It is a soft lookup: query :math:`x`, keys :math:`x_i`, values :math:`y_i`, and the
    score is minus half the squared distance, at temperature :math:`w^2`.

    Parameters
    ----------
    x
        Where to predict, shape ``(m,)``.
    x_known, y_known
        The known places and answers, shape ``(n,)``, ``n`` at least 1.
    width
        Standard deviation :math:`w` of the Gaussian kernel, above 0, in units of ``x``.

    Returns
    -------
    y
        Predictions, shape ``(m,)``.
    weights
        Shape ``(m, n)``; each row sums to 1.

    Raises
    ------
    ValueError
        If the arrays do not have these shapes or ``width`` is not above 0.

    References
    ----------
    Nadaraya 1964, *On Estimating Regression*; Watson 1964, *Smooth Regression
    Analysis*.

    Examples
    --------
    >>> y, weights = kernel_regression(
    ...     np.array([0.5]), np.array([0.0, 1.0]), np.array([10.0, 20.0]), width=0.1
    ... )
    >>> y
    array([15.])
    """
    _check_known("x_known", x_known, "y_known", y_known)
    if x.ndim != 1:
        raise ValueError(f"x: got shape {x.shape}, wanted (m,)")
    if not width > 0.0:
        raise ValueError(f"width: got {width}, wanted a number above 0")
    scores = -((x[:, None] - x_known) ** 2) / 2.0
    weights = softmax(scores / width**2)
    return weights @ y_known, weights


def sugeno_inference(
    x: Num[np.ndarray, " m"],
    centres: Num[np.ndarray, " n"],
    width: float,
    consequents: Num[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m n"]]:
    r"""Zero-order Sugeno inference: rules "if x is near c, then y is z", all at once.

    .. math:: \mu_i = e^{-(x - c_i)^2 / 2 w^2}, \qquad
              y = \frac{\sum_i \mu_i z_i}{\sum_i \mu_i}

    The memberships :math:`\mu_i` lie between 0 and 1 and need not sum to 1; the output
    is the one that :func:`kernel_regression` gives for the same numbers. Here the
    division comes last and literally, as the fuzzy literature writes it.

    Parameters
    ----------
    x
        Inputs, shape ``(m,)``.
    centres
        Where each rule's membership is 1, shape ``(n,)``.
    width
        Standard deviation of the memberships, above 0, in units of ``x``.
    consequents
        What each rule concludes, shape ``(n,)``.

    Returns
    -------
    y
        Shape ``(m,)``.
    memberships
        Shape ``(m, n)``, before the division.

    Raises
    ------
    ValueError
        If the arrays do not have these shapes, ``width`` is not above 0, or an input
        is so far from every rule that all memberships are 0.

    References
    ----------
    Takagi and Sugeno 1985, *Fuzzy Identification of Systems and Its Applications to
    Modeling and Control*.

    Examples
    --------
    >>> y, memberships = sugeno_inference(
    ...     np.array([0.5]), np.array([0.0, 1.0]), 0.5, np.array([10.0, 20.0])
    ... )
    >>> y, memberships.sum().round(3)
    (array([15.]), np.float64(1.213))
    """
    _check_known("centres", centres, "consequents", consequents)
    if x.ndim != 1:
        raise ValueError(f"x: got shape {x.shape}, wanted (m,)")
    if not width > 0.0:
        raise ValueError(f"width: got {width}, wanted a number above 0")
    memberships = np.exp(-((x[:, None] - centres) ** 2) / (2.0 * width**2))
    total = memberships.sum(axis=-1)
    if not (total > 0.0).all():
        raise ValueError(
            f"x: no rule fires at {x[~(total > 0.0)][0]}, every membership is 0 there"
        )
    return memberships @ consequents / total, memberships


def _rows(array: np.ndarray) -> np.ndarray:
    """View all leading axes as one: shape (queries, width)."""
    return array.reshape(-1, array.shape[-1])


def _refuse_nan_and_plus_inf(scores: np.ndarray) -> None:
    if np.isnan(scores).any() or np.isposinf(scores).any():
        found = "NaN" if np.isnan(scores).any() else "+inf"
        raise ValueError(f"scores: got {found}, wanted finite numbers or -inf")


def _same_shape(name: str, array: np.ndarray, other: str, wanted: np.ndarray) -> None:
    if array.shape != wanted.shape:
        raise ValueError(
            f"{name}: got shape {array.shape}, wanted {wanted.shape}, that of {other}"
        )


def _broadcast_mask(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if mask.dtype != np.bool_:
        raise TypeError(
            f"mask: got dtype {mask.dtype}, wanted bool with True = may attend; "
            "convert 1/0 with mask.astype(bool)"
        )
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise ValueError(
            f"mask: got shape {mask.shape}, wanted one that broadcasts to {shape}"
        ) from None


def _check_lookup(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> None:
    if keys.ndim != 2 or keys.shape[0] == 0:
        raise ValueError(f"keys: got shape {keys.shape}, wanted (n, d) with n > 0")
    if query.ndim == 0 or query.shape[-1] != keys.shape[1]:
        raise ValueError(
            f"query: got shape {query.shape}, wanted (..., {keys.shape[1]}), "
            "the width of the keys"
        )
    if values.ndim != 2 or values.shape[0] != keys.shape[0]:
        raise ValueError(
            f"values: got shape {values.shape}, wanted ({keys.shape[0]}, d_v), "
            "one row per key"
        )


def _check_temperature(temperature: float) -> None:
    if not temperature > 0.0:
        raise ValueError(
            f"temperature: got {temperature}, wanted a number above 0; "
            "hard_lookup is the limit at 0"
        )


def _check_known(
    name_x: str, known_x: np.ndarray, name_y: str, known_y: np.ndarray
) -> None:
    if known_x.ndim != 1 or known_x.size == 0:
        raise ValueError(f"{name_x}: got shape {known_x.shape}, wanted (n,) with n > 0")
    if known_y.shape != known_x.shape:
        raise ValueError(
            f"{name_y}: got shape {known_y.shape}, wanted {known_x.shape}, "
            f"that of {name_x}"
        )
