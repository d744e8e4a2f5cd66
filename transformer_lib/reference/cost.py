"""What a Transformer costs: multiplications, bytes and steps, counted.

And two cheaper ways to let tokens meet, with a state of fixed size: linear attention and
the linear recurrence.

One multiplication with its addition is counted as two floating-point operations
(FLOPs), as processors are rated. A product of an ``a x b`` with a ``b x c`` matrix
takes ``a b c`` of these pairs. Softmax, normalisation and biases are left out: they are
linear in what the products are quadratic in. Causal attention is counted in full, as if
nothing were skipped.
"""

import numpy as np
from jaxtyping import Float

__all__ = [
    "attention_flops",
    "decoder_layer_flops",
    "encoder_layer_flops",
    "feed_forward_flops",
    "least_seconds",
    "linear_attention",
    "linear_attention_flops",
    "linear_recurrence",
    "linear_recurrence_backward",
    "lstm_flops",
    "matmul_flops",
    "multi_head_attention_flops",
    "rnn_flops",
    "score_bytes",
    "transformer_flops",
]


def matmul_flops(a: int, b: int, c: int) -> int:
    """Count the operations of an ``(a, b)`` by ``(b, c)`` matrix product.

    Parameters
    ----------
    a, b, c
        Sizes, 0 or more.

    Returns
    -------
    flops
        ``2 a b c``: a multiplication and an addition for each triple.

    Raises
    ------
    ValueError
        If a size is negative.

    Examples
    --------
    >>> matmul_flops(2, 3, 4)
    48
    """
    _check_sizes(a=a, b=b, c=c)
    return 2 * a * b * c


def attention_flops(n_queries: int, n_keys: int, d_model: int) -> int:
    """Count the core of attention: scores, and weights times values.

    Both products are ``n_queries x n_keys x d_model``, for any number of heads: more
    heads are narrower by as much as they are more.

    Parameters
    ----------
    n_queries, n_keys
        Numbers of tokens that ask and that answer.
    d_model
        Width of all heads together.

    Returns
    -------
    flops
        ``4 n_queries n_keys d_model``.

    Raises
    ------
    ValueError
        If a size is negative.

    Examples
    --------
    >>> attention_flops(10, 10, 8)
    3200
    """
    _check_sizes(n_queries=n_queries, n_keys=n_keys, d_model=d_model)
    scores = matmul_flops(n_queries, d_model, n_keys)
    averages = matmul_flops(n_queries, n_keys, d_model)
    return scores + averages


def multi_head_attention_flops(n_queries: int, n_keys: int, d_model: int) -> int:
    """Count attention with its four projections.

    Queries and output are projected for each query, keys and values for each key.

    Parameters
    ----------
    n_queries, n_keys
        Numbers of tokens that ask and that answer.
    d_model
        Width.

    Returns
    -------
    flops
        ``4 (n_queries + n_keys) d_model^2 + 4 n_queries n_keys d_model``.

    Raises
    ------
    ValueError
        If a size is negative.

    Examples
    --------
    Projections and core cost the same when there are ``2 d_model`` tokens:

    >>> multi_head_attention_flops(16, 16, 8) == 2 * attention_flops(16, 16, 8)
    True
    """
    by_query = 2 * matmul_flops(n_queries, d_model, d_model)
    by_key = 2 * matmul_flops(n_keys, d_model, d_model)
    return by_query + by_key + attention_flops(n_queries, n_keys, d_model)


def feed_forward_flops(n: int, d_model: int, d_ff: int) -> int:
    """Count the two products of the feed-forward network.

    Parameters
    ----------
    n
        Number of tokens.
    d_model, d_ff
        Widths outside and inside.

    Returns
    -------
    flops
        ``4 n d_model d_ff``.

    Raises
    ------
    ValueError
        If a size is negative.

    Examples
    --------
    >>> feed_forward_flops(1, 2, 8)
    64
    """
    return matmul_flops(n, d_model, d_ff) + matmul_flops(n, d_ff, d_model)


def encoder_layer_flops(n: int, d_model: int, d_ff: int) -> int:
    """Count one encoder layer: self-attention and feed-forward.

    Parameters
    ----------
    n
        Number of source tokens.
    d_model, d_ff
        Widths.

    Returns
    -------
    flops
        Of one sequence, forward.

    Raises
    ------
    ValueError
        If a size is negative.

    Examples
    --------
    >>> encoder_layer_flops(64, 512, 2048)
    411041792
    """
    attend = multi_head_attention_flops(n, n, d_model)
    return attend + feed_forward_flops(n, d_model, d_ff)


def decoder_layer_flops(n_target: int, n_source: int, d_model: int, d_ff: int) -> int:
    """Count one decoder layer: self-attention, cross-attention and feed-forward.

    Parameters
    ----------
    n_target, n_source
        Numbers of target and source tokens.
    d_model, d_ff
        Widths.

    Returns
    -------
    flops
        Of one pair of sequences, forward, all target tokens at once.

    Raises
    ------
    ValueError
        If a size is negative.

    Examples
    --------
    >>> decoder_layer_flops(64, 64, 512, 2048)
    553648128
    """
    self_attention = multi_head_attention_flops(n_target, n_target, d_model)
    cross_attention = multi_head_attention_flops(n_target, n_source, d_model)
    return (
        self_attention + cross_attention + feed_forward_flops(n_target, d_model, d_ff)
    )


def transformer_flops(
    n_source: int,
    n_target: int,
    d_model: int,
    d_ff: int,
    num_encoder_layers: int,
    num_decoder_layers: int,
    vocab_size: int,
    training: bool = False,
) -> int:
    """Count a whole encoder-decoder on one pair of sequences.

    Looking up embeddings costs no multiplication; the last product, from width to
    vocabulary, does. The backward pass computes two products for each one of the
    forward pass (one for the gradient of each factor), so a training step costs three
    times the forward pass.

    Parameters
    ----------
    n_source, n_target
        Numbers of source and target tokens.
    d_model, d_ff
        Widths.
    num_encoder_layers, num_decoder_layers
        Depths.
    vocab_size
        Of the target.
    training
        Count forward and backward.

    Returns
    -------
    flops
        Of one pair of sequences; times the batch size for a batch.

    Raises
    ------
    ValueError
        If a size is negative.

    Examples
    --------
    The base model of 2017 with 8,000 target tokens, 8 pairs of 64 + 64 tokens, trained:

    >>> 8 * transformer_flops(64, 64, 512, 2048, 6, 6, 8000, training=True) / 1e9
    151.49826048
    """
    _check_sizes(
        num_encoder_layers=num_encoder_layers, num_decoder_layers=num_decoder_layers
    )
    encoder = num_encoder_layers * encoder_layer_flops(n_source, d_model, d_ff)
    decoder = num_decoder_layers * decoder_layer_flops(
        n_target, n_source, d_model, d_ff
    )
    forward = encoder + decoder + matmul_flops(n_target, d_model, vocab_size)
    return 3 * forward if training else forward


def rnn_flops(n: int, d_in: int, d_hidden: int) -> int:
    """Count a vanilla recurrent layer over ``n`` tokens.

    Parameters
    ----------
    n
        Number of tokens, and of steps that must follow one another.
    d_in, d_hidden
        Widths of input and state.

    Returns
    -------
    flops
        ``2 n d_hidden (d_in + d_hidden)``.

    Raises
    ------
    ValueError
        If a size is negative.

    Examples
    --------
    >>> rnn_flops(10, 8, 8)
    2560
    """
    return matmul_flops(n, d_in, d_hidden) + matmul_flops(n, d_hidden, d_hidden)


def lstm_flops(n: int, d_in: int, d_hidden: int) -> int:
    """Count an LSTM layer over ``n`` tokens: four times :func:`rnn_flops`.

    Parameters
    ----------
    n
        Number of tokens, and of steps that must follow one another.
    d_in, d_hidden
        Widths of input and state.

    Returns
    -------
    flops
        ``8 n d_hidden (d_in + d_hidden)``.

    Raises
    ------
    ValueError
        If a size is negative.

    Examples
    --------
    As much as self-attention with projections when ``n`` is twice the width:

    >>> lstm_flops(16, 8, 8) == multi_head_attention_flops(16, 16, 8)
    True
    """
    return 4 * rnn_flops(n, d_in, d_hidden)


def score_bytes(
    n_queries: int, n_keys: int, num_heads: int, bytes_per_number: int = 4
) -> int:
    """Count the bytes of all score matrices of one sequence, if they are kept.

    Here the number of heads does matter: each head has its own matrix. Fused kernels
    never write them to memory.

    Parameters
    ----------
    n_queries, n_keys
        Numbers of tokens that ask and that answer.
    num_heads
        Number of heads.
    bytes_per_number
        4 for float32, 2 for bfloat16 and float16.

    Returns
    -------
    bytes
        ``num_heads n_queries n_keys bytes_per_number``.

    Raises
    ------
    ValueError
        If a size is negative.

    Examples
    --------
    >>> score_bytes(1024, 1024, num_heads=8) / 2**20  # MiB
    32.0
    """
    _check_sizes(
        n_queries=n_queries,
        n_keys=n_keys,
        num_heads=num_heads,
        bytes_per_number=bytes_per_number,
    )
    return num_heads * n_queries * n_keys * bytes_per_number


def linear_attention_flops(n: int, d_model: int, num_heads: int) -> int:
    """Count the core of linear attention: into the states, and out of them.

    Each head adds ``phi(k)^T v`` to its ``(d_head, d_head)`` state and reads it with
    ``phi(q)``: two products of ``d_head x d_head`` for each token.

    Parameters
    ----------
    n
        Number of tokens.
    d_model
        Width of all heads together.
    num_heads
        Must divide ``d_model``.

    Returns
    -------
    flops
        ``4 n d_model d_head``.

    Raises
    ------
    ValueError
        If a size is negative or ``num_heads`` does not divide ``d_model``.

    Examples
    --------
    As much as the core of attention when there are ``d_head`` tokens:

    >>> linear_attention_flops(16, 64, num_heads=4) == attention_flops(16, 16, 64)
    True
    """
    _check_sizes(n=n, d_model=d_model)
    if num_heads < 1 or d_model % num_heads:
        raise ValueError(
            f"num_heads: got {num_heads}, wanted a number that divides "
            f"d_model={d_model}"
        )
    d_head = d_model // num_heads
    return num_heads * 2 * matmul_flops(n, d_head, d_head)


def least_seconds(
    flops: float | int,
    bytes_moved: float | int,
    steps: int,
    flops_per_second: float | int,
    bytes_per_second: float | int,
    pause: float | int,
) -> float:
    """Give the time below which no machine with these limits can stay.

    Arithmetic and transport run side by side, so the slower of the two counts. Steps
    that wait for one another each add a pause.

    Parameters
    ----------
    flops, bytes_moved, steps
        The work: operations, bytes to and from memory, steps one after the other.
    flops_per_second, bytes_per_second
        The machine's limits, above 0.
    pause
        Seconds between one step and the next, 0 or more.

    Returns
    -------
    seconds
        ``max(flops / flops_per_second, bytes_moved / bytes_per_second) + steps pause``.

    Raises
    ------
    ValueError
        If a number is negative or a limit is not above 0.

    References
    ----------
    Williams, Waterman and Patterson 2009, *Roofline: An Insightful Visual Performance
    Model for Multicore Architectures*.

    Examples
    --------
    >>> least_seconds(6e9, 1e9, 0, 3e9, 1e9, pause=0.0)
    2.0
    """
    for name, value in (
        ("flops", flops),
        ("bytes_moved", bytes_moved),
        ("steps", steps),
        ("pause", pause),
    ):
        if value < 0:
            raise ValueError(f"{name}: got {value}, wanted 0 or more")
    for name, value in (
        ("flops_per_second", flops_per_second),
        ("bytes_per_second", bytes_per_second),
    ):
        if not value > 0:
            raise ValueError(f"{name}: got {value}, wanted a number above 0")
    slower = max(flops / flops_per_second, bytes_moved / bytes_per_second)
    return float(slower + steps * pause)


def linear_attention(
    Q: Float[np.ndarray, "n d_k"],
    K: Float[np.ndarray, "n d_k"],
    V: Float[np.ndarray, "n d_v"],
) -> tuple[Float[np.ndarray, "n d_v"], Float[np.ndarray, "d_k d_v"]]:
    """Causal linear attention: a weighted average that is read out of a state.

    With ``phi(x) = elu(x) + 1`` (``x + 1`` above 0, ``exp(x)`` below), query ``i``
    weighs key ``j <= i`` by ``phi(q_i) phi(k_j)^T``. The sums over ``j`` do not depend
    on the query, so they are carried along: ``S += phi(k)^T v`` and ``z += phi(k)``.

    Parameters
    ----------
    Q, K, V
        One row per token.

    Returns
    -------
    output, state
        ``phi(q) S / (phi(q) z^T)`` for each token, and ``S`` after the last.

    Raises
    ------
    ValueError
        If the shapes do not fit together.

    References
    ----------
    Katharopoulos et al. 2020, *Transformers are RNNs*, equations 7, 12 and 18 to 20.

    Examples
    --------
    >>> linear_attention(np.zeros((2, 1)), np.zeros((2, 1)), np.array([[1.0], [3.0]]))[0]
    array([[1.],
           [2.]])
    """
    if not (len(Q) == len(K) == len(V)) or Q.shape[1:] != K.shape[1:]:
        raise ValueError(
            f"Q, K, V: got shapes {Q.shape}, {K.shape} and {V.shape}, wanted (n, d_k) "
            "twice and (n, d_v)"
        )
    output = np.empty((len(Q), V.shape[1]))
    S, z = np.zeros((K.shape[1], V.shape[1])), np.zeros(K.shape[1])
    for t, (q, k, v) in enumerate(zip(_positive(Q), _positive(K), V, strict=True)):
        S = S + np.outer(k, v)
        z = z + k
        output[t] = q @ S / (q @ z)
    return output, S


def _positive(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def linear_recurrence(
    a: Float[np.ndarray, "n d"], b: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d"]:
    """Run ``h_t = a_t h_(t-1) + b_t``, column by column, from a state of 0.

    Parameters
    ----------
    a, b
        What the state is multiplied by, and what is added, at each token.

    Returns
    -------
    h
        All states.

    Raises
    ------
    ValueError
        If the shapes differ.

    References
    ----------
    Gu and Dao 2023, *Mamba*, equation 2a, with a diagonal matrix.

    Examples
    --------
    >>> linear_recurrence(np.full((3, 1), 0.5), np.ones((3, 1))).ravel()
    array([1.  , 1.5 , 1.75])
    """
    _check_alike("b", b, a)
    states = np.empty(a.shape)
    h = np.zeros(a.shape[1:])
    for t in range(len(a)):
        h = a[t] * h + b[t]
        states[t] = h
    return states


def linear_recurrence_backward(
    d_states: Float[np.ndarray, "n d"],
    a: Float[np.ndarray, "n d"],
    states: Float[np.ndarray, "n d"],
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
    """Give the gradients of :func:`linear_recurrence`: the same kind of run, backwards.

    Parameters
    ----------
    d_states
        Gradient of the loss with respect to each state, from outside.
    a
        As in the forward run.
    states
        What it returned.

    Returns
    -------
    d_a, d_b
        ``d_b_t = d_states_t + a_(t+1) d_b_(t+1)`` and ``d_a_t = d_b_t h_(t-1)``.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> a, ones = np.full((3, 1), 0.5), np.ones((3, 1))
    >>> linear_recurrence_backward(ones, a, linear_recurrence(a, ones))[1].ravel()
    array([1.75, 1.5 , 1.  ])
    """
    _check_alike("a", a, d_states)
    _check_alike("states", states, d_states)
    d_b = np.empty(a.shape)
    carried = np.zeros(a.shape[1:])
    for t in reversed(range(len(a))):
        carried = d_states[t] + carried
        d_b[t] = carried
        carried = a[t] * carried
    before = np.concatenate([np.zeros((1, *a.shape[1:])), states[:-1]])[: len(a)]
    return d_b * before, d_b


def _check_alike(name: str, given: np.ndarray, other: np.ndarray) -> None:
    if given.shape != other.shape:
        raise ValueError(f"{name}: got shape {given.shape}, wanted {other.shape}")


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 0:
            raise ValueError(f"{name}: got {size}, wanted 0 or more")
