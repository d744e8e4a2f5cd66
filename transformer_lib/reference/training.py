"""What trains a Transformer: the loss over real tokens, the rate, the step, the score.

And what stands before and around it: byte-pair encoding, and batches of a bounded size.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

__all__ = [
    "AdamState",
    "adamw_step",
    "apply_bpe",
    "batches_by_length",
    "clip_by_norm",
    "cross_entropy",
    "cross_entropy_backward",
    "exact_match",
    "inverse_square_root",
    "learn_bpe",
    "log_softmax",
    "smooth_targets",
    "token_mean",
    "warmup_cosine",
]

END_OF_WORD = "</w>"
"""What :func:`learn_bpe` puts behind the last letter of a word."""


def log_softmax(
    logits: Real[np.ndarray, "*batch vocab"],
) -> Float[np.ndarray, "*batch vocab"]:
    r"""Logarithm of the softmax, computed without taking a logarithm of 0.

    .. math:: \ln p_i = z_i - m - \ln \sum_j e^{z_j - m}, \qquad m = \max_j z_j

    Parameters
    ----------
    logits
        Scores of the classes, shape ``(..., vocab)``.

    Returns
    -------
    log_probabilities
        Same shape, in nats, 0 or below.

    Raises
    ------
    ValueError
        If there is no class or a logit is NaN or ``+inf``.

    Examples
    --------
    >>> log_softmax(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    if logits.ndim == 0 or logits.shape[-1] == 0:
        raise ValueError(f"logits: got shape {logits.shape}, wanted (..., vocab)")
    if np.isnan(logits).any() or np.isposinf(logits).any():
        raise ValueError("logits: got NaN or +inf, wanted finite numbers or -inf")
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def smooth_targets(
    targets: Int[np.ndarray, "*batch"], vocab_size: int, label_smoothing: float
) -> Float[np.ndarray, "*batch vocab_size"]:
    r"""The distribution that the model is asked for: mostly the right token.

    .. math:: q_i = (1 - \varepsilon)\,[i = \text{target}] + \varepsilon / V

    The share :math:`\varepsilon` is spread over *all* :math:`V` tokens, the right one
    included (as Szegedy et al. and torch do). Another convention spreads it over the
    :math:`V - 1` wrong ones.

    Parameters
    ----------
    targets
        Right token numbers, any shape, from 0 to ``vocab_size - 1``.
    vocab_size
        Number of classes ``V``.
    label_smoothing
        The share, from 0 to below 1.

    Returns
    -------
    distribution
        Shape ``(..., vocab_size)``; each row sums to 1.

    Raises
    ------
    TypeError
        If ``targets`` are not integers.
    ValueError
        If a target is outside the vocabulary or the share outside [0, 1).

    References
    ----------
    Szegedy et al. 2016, *Rethinking the Inception Architecture for Computer Vision*,
    section 7; Vaswani et al. 2017, section 5.4, with 0.1.

    Examples
    --------
    >>> smooth_targets(np.array([1]), vocab_size=4, label_smoothing=0.1)
    array([[0.025, 0.925, 0.025, 0.025]])
    """
    _check_smoothing(label_smoothing)
    _check_targets(targets, vocab_size)
    one_hot = np.arange(vocab_size) == targets[..., None]
    distribution: np.ndarray = (
        1.0 - label_smoothing
    ) * one_hot + label_smoothing / vocab_size
    return distribution


def cross_entropy(
    logits: Real[np.ndarray, "*batch vocab"],
    targets: Int[np.ndarray, "*batch"],
    label_smoothing: float = 0.0,
    pad_id: int | None = None,
) -> float:
    r"""How surprised the model is by the right tokens: mean over the real ones, in nats.

    .. math:: L = -\frac1N \sum_{t \text{ real}} \sum_i q_{t,i} \ln p_{t,i}

    with :math:`p` the softmax of the logits, :math:`q` the target distribution of
    :func:`smooth_targets` and :math:`N` the number of tokens that are not padding. The
    mean is over tokens, not over sentences.

    Parameters
    ----------
    logits
        Shape ``(..., vocab)``.
    targets
        Right token numbers, shape ``(...)``.
    label_smoothing
        Share :math:`\varepsilon` given to all tokens, from 0 to below 1.
    pad_id
        Targets of this number do not count; ``None`` counts all. It may lie outside
        the vocabulary (-100, say).

    Returns
    -------
    loss
        In nats per real token; 0 if there is none.

    Raises
    ------
    TypeError
        If ``targets`` are not integers.
    ValueError
        If the shapes do not fit, a target that counts is outside the vocabulary, or the
        share is outside [0, 1).

    Examples
    --------
    >>> logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    >>> round(cross_entropy(logits, np.array([0, 2])), 4)  # (ln 2 + ln 1.25) / 2
    0.4581
    """
    real, distribution = _real_distribution(logits, targets, label_smoothing, pad_id)
    surprise = -(distribution * log_softmax(logits)).sum(axis=-1)
    return float(np.where(real, surprise, 0.0).sum() / max(real.sum(), 1))


def cross_entropy_backward(
    logits: Real[np.ndarray, "*batch vocab"],
    targets: Int[np.ndarray, "*batch"],
    label_smoothing: float = 0.0,
    pad_id: int | None = None,
) -> Float[np.ndarray, "*batch vocab"]:
    r"""Gradient of :func:`cross_entropy` with respect to the logits.

    :math:`-\sum_i q_i \ln p_i = -\sum_i q_i z_i + \ln \sum_j e^{z_j}`, since the
    :math:`q_i` sum to 1. The derivative of the last term is the softmax, so

    .. math:: \frac{\partial L}{\partial z_{t,i}} = \frac{p_{t,i} - q_{t,i}}{N}

    what the model says minus what it should say; 0 for padding.

    Parameters
    ----------
    logits, targets, label_smoothing, pad_id
        What :func:`cross_entropy` was given.

    Returns
    -------
    d_logits
        Shape of ``logits``; each row sums to 0.

    Raises
    ------
    TypeError, ValueError
        As :func:`cross_entropy`.

    Examples
    --------
    >>> logits = np.log(np.array([[0.5, 0.25, 0.25]]))
    >>> cross_entropy_backward(logits, np.array([0]))
    array([[-0.5 ,  0.25,  0.25]])
    """
    real, distribution = _real_distribution(logits, targets, label_smoothing, pad_id)
    difference = np.exp(log_softmax(logits)) - distribution
    d_logits: np.ndarray = np.where(real[..., None], difference, 0.0) / max(
        real.sum(), 1
    )
    return d_logits


def token_mean(
    sums: Real[np.ndarray, "micro_batches"], counts: Int[np.ndarray, "micro_batches"]
) -> float:
    r"""Loss of an update that is worked out in several micro-batches.

    .. math:: L = \frac{\sum_b S_b}{\sum_b N_b}
        = \sum_b \frac{N_b}{\sum_c N_c} \cdot \frac{S_b}{N_b}

    with :math:`S_b` the loss summed over the :math:`N_b` real tokens of micro-batch
    :math:`b`. It is the mean over all tokens, as if there were one batch. The mean of
    the micro-batches' means is something else unless all :math:`N_b` are equal: a token
    of a short micro-batch would count more.

    Parameters
    ----------
    sums
        Loss of each micro-batch, summed over its real tokens.
    counts
        Number of real tokens of each, 0 or more.

    Returns
    -------
    loss
        Mean per real token; 0 if there is none.

    Raises
    ------
    TypeError
        If ``counts`` are not integers.
    ValueError
        If the shapes differ or a count is negative.

    Examples
    --------
    >>> token_mean(np.array([6.0, 4.0]), np.array([3, 1]))  # means 2 and 4
    2.5
    """
    if not np.issubdtype(counts.dtype, np.integer):
        raise TypeError(f"counts: got dtype {counts.dtype}, wanted integers")
    if sums.ndim != 1 or counts.shape != sums.shape:
        raise ValueError(
            f"counts: got shape {counts.shape}, wanted one count for each of the sums, "
            f"which have shape {sums.shape}"
        )
    if (counts < 0).any():
        raise ValueError(f"counts: got {counts.min()}, wanted 0 or more")
    return float(sums.sum() / max(counts.sum(), 1))


def inverse_square_root(step: int, d_model: int, warmup: int) -> float:
    r"""Learning rate of the 2017 paper: up in a line, then down with the root of the step.

    .. math:: d_{\text{model}}^{-0.5} \cdot
        \min\bigl(s^{-0.5},\; s \cdot w^{-1.5}\bigr)

    Parameters
    ----------
    step
        Number :math:`s` of the update, counted from 1. At 0 the rate is 0.
    d_model
        Width of the model, 1 or more.
    warmup
        The step :math:`w`, 1 or more, at which both terms are equal and the rate is
        highest. With 1 there is no warm-up.

    Returns
    -------
    rate
        Learning rate, 0 or above.

    Raises
    ------
    ValueError
        If ``step`` is negative, or another number below 1.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, equation 3, with 4,000 steps.

    Examples
    --------
    >>> [inverse_square_root(step, d_model=4, warmup=4) for step in (0, 1, 4, 16)]
    [0.0, 0.0625, 0.25, 0.125]
    """
    _check_least(0, step=step)
    _check_least(1, d_model=d_model, warmup=warmup)
    if step == 0:
        return 0.0
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


def warmup_cosine(step: int, steps: int, warmup: int, final: float = 0.0) -> float:
    r"""Share of the highest rate: up in a line, then down along half a cosine.

    .. math:: \frac{s}{w} \;\text{ up to } w, \qquad
        f + (1 - f)\,\tfrac12\Bigl(1 + \cos \pi \frac{s - w}{S - w}\Bigr)
        \;\text{ from there to } S

    Parameters
    ----------
    step
        Number :math:`s` of the update, counted from 1. After ``steps`` the share stays
        ``final``.
    steps
        Number :math:`S` of all updates.
    warmup
        The step :math:`w` at which the share is 1, from 0 to below ``steps``.
    final
        Share :math:`f` at the last step, from 0 to 1.

    Returns
    -------
    share
        From 0 to 1; the learning rate is the highest rate times this.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    Loshchilov and Hutter 2017, *SGDR*, equation 5, without restarts.

    Examples
    --------
    >>> [round(warmup_cosine(step, steps=8, warmup=2), 3) for step in (1, 2, 5, 8)]
    [0.5, 1.0, 0.5, 0.0]
    """
    _check_least(0, step=step, warmup=warmup)
    if warmup >= steps:
        raise ValueError(f"warmup: got {warmup}, wanted below steps, which is {steps}")
    if not 0.0 <= final <= 1.0:
        raise ValueError(f"final: got {final}, wanted a share from 0 to 1")
    if step < warmup:
        return step / warmup
    done = min((step - warmup) / (steps - warmup), 1.0)
    return float(final + (1.0 - final) * 0.5 * (1.0 + np.cos(np.pi * done)))


class AdamState(NamedTuple):
    """What Adam remembers of earlier steps.

    Parameters
    ----------
    mean
        Running mean of the gradients, shape of the weights.
    square
        Running mean of their squares, same shape.
    step
        Number of steps taken.
    """

    mean: np.ndarray
    square: np.ndarray
    step: int


def adamw_step(
    weights: Float[np.ndarray, "*shape"],
    gradient: Float[np.ndarray, "*shape"],
    state: AdamState | None = None,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.0,
) -> tuple[Float[np.ndarray, "*shape"], AdamState]:
    r"""One step of Adam, with weight decay that does not pass through it.

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1)\, g, \qquad
        v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2

    .. math:: \theta \leftarrow (1 - \eta\lambda)\,\theta - \eta\,
        \frac{\hat m}{\sqrt{\hat v} + \epsilon}, \qquad
        \hat m = \frac{m}{1 - \beta_1^t}, \quad \hat v = \frac{v}{1 - \beta_2^t}

    Both running means begin at 0. Their bias towards 0 is divided out: after one step
    :math:`\hat m = g`. In Adam with a penalty :math:`\lambda\theta` in the gradient, the
    decay would be divided by :math:`\sqrt{\hat v}` as well.

    Parameters
    ----------
    weights, gradient
        Of one shape.
    state
        What the step before returned; ``None`` before the first.
    lr
        Learning rate :math:`\eta`.
    betas
        How much of the old means is kept, each from 0 to below 1. The default, like that
        of ``eps``, is the 2017 paper's; torch's is (0.9, 0.999) with 1e-8.
    eps
        Keeps the divisor above 0.
    weight_decay
        :math:`\lambda`, 0 or more; with 0 it is Adam.

    Returns
    -------
    weights, state
        After the step; the arguments are left as they were.

    Raises
    ------
    ValueError
        If the shapes differ or a number is out of its range.

    References
    ----------
    Kingma and Ba 2015, *Adam*, algorithm 1; Loshchilov and Hutter 2019, *Decoupled Weight
    Decay Regularization*, algorithm 2.

    Examples
    --------
    >>> weights, state = adamw_step(np.array([1.0]), np.array([0.5]), lr=0.1)
    >>> weights, state.step
    (array([0.9]), 1)
    """
    _check_adamw(weights, gradient, state, betas)
    _check_least(0, lr=lr, eps=eps, weight_decay=weight_decay)
    zeros = np.zeros_like(weights)
    mean, square, taken = state or AdamState(zeros, zeros, 0)
    step = taken + 1
    mean = betas[0] * mean + (1.0 - betas[0]) * gradient
    square = betas[1] * square + (1.0 - betas[1]) * gradient**2
    unbiased_mean = mean / (1.0 - betas[0] ** step)
    unbiased_square = square / (1.0 - betas[1] ** step)
    kept = (1.0 - lr * weight_decay) * weights
    moved = lr * unbiased_mean / (np.sqrt(unbiased_square) + eps)
    return kept - moved, AdamState(mean, square, step)


def clip_by_norm(
    gradients: Sequence[np.ndarray], largest: float
) -> tuple[list[np.ndarray], float]:
    r"""Shorten all gradients by one factor, so that together they are not too long.

    .. math:: g \leftarrow g \cdot \min\Bigl(1, \frac{c}{\lVert g \rVert}\Bigr), \qquad
        \lVert g \rVert^2 = \sum_{\text{arrays}} \sum_i g_i^2

    The direction stays, since the norm is that of all arrays joined. As in torch, 1e-6
    is added to the norm in the division.

    Parameters
    ----------
    gradients
        Arrays of any shapes.
    largest
        Largest norm :math:`c`, above 0.

    Returns
    -------
    clipped, norm
        New arrays, and the norm before.

    Raises
    ------
    ValueError
        If ``largest`` is not above 0 or a gradient is not finite.

    References
    ----------
    Pascanu et al. 2013, *On the difficulty of training recurrent neural networks*,
    algorithm 1.

    Examples
    --------
    >>> clipped, norm = clip_by_norm([np.array([3.0]), np.array([4.0])], largest=1.0)
    >>> [gradient.round(3) for gradient in clipped], norm
    ([array([0.6]), array([0.8])], 5.0)
    """
    if not largest > 0.0:
        raise ValueError(f"largest: got {largest}, wanted a norm above 0")
    if not all(np.isfinite(gradient).all() for gradient in gradients):
        raise ValueError("gradients: got NaN or infinity, wanted finite numbers")
    norm = float(np.sqrt(sum(np.square(gradient).sum() for gradient in gradients)))
    factor = min(1.0, largest / (norm + 1e-6))
    return [factor * gradient for gradient in gradients], norm


def exact_match(
    written: Int[np.ndarray, "sentences n_written"],
    wanted: Int[np.ndarray, "sentences n_wanted"],
    eos_id: int,
) -> float:
    """Share of sentences without any mistake, in percent.

    A sentence is what stands up to its first end token, that one included; what stands
    behind it does not count. A written sentence without an end is unfinished, and
    matches only a wanted one without an end.

    Parameters
    ----------
    written, wanted
        Token numbers, one sentence in each row; the rows may be padded differently.
    eos_id
        The end token.

    Returns
    -------
    share
        From 0 to 100.

    Raises
    ------
    ValueError
        If there is no sentence, or not as many in both.

    Examples
    --------
    >>> written = np.array([[5, 6, 2, 9], [5, 7, 2, 0]])
    >>> exact_match(written, np.array([[5, 6, 2], [5, 6, 2]]), eos_id=2)
    50.0
    """
    if written.ndim != 2 or wanted.ndim != 2 or len(written) != len(wanted):
        raise ValueError(
            f"written: got shape {written.shape}, wanted (sentences, tokens) with as "
            f"many sentences as wanted, which has shape {wanted.shape}"
        )
    if not len(written):
        raise ValueError("written: got no sentence, wanted one or more")
    pairs = zip(written, wanted, strict=True)
    right = [
        np.array_equal(_up_to_end(w, eos_id), _up_to_end(t, eos_id)) for w, t in pairs
    ]
    return 100.0 * sum(right) / len(right)


def batches_by_length(
    lengths: Int[np.ndarray, "sentences"], max_tokens: int
) -> list[list[int]]:
    """Put sentences of like lengths together, none of the batches too large.

    A batch is padded to its longest sentence, so its size is its number of sentences
    times that length. Sentences are taken from short to long, and a batch is closed when
    one more would make it larger than ``max_tokens``.

    Parameters
    ----------
    lengths
        Number of tokens of each sentence, 1 or more.
    max_tokens
        Largest size of a batch, padding included.

    Returns
    -------
    batches
        Places in ``lengths``; each once.

    Raises
    ------
    ValueError
        If a length is below 1 or above ``max_tokens``.

    Examples
    --------
    >>> batches_by_length(np.array([5, 2, 9, 3, 4]), max_tokens=10)
    [[1, 3], [4, 0], [2]]
    """
    outside = (lengths < 1) | (lengths > max_tokens)
    if outside.any():
        raise ValueError(
            f"lengths: got {lengths[outside][0]}, wanted from 1 to max_tokens, "
            f"which is {max_tokens}"
        )
    batches: list[list[int]] = []
    for place in np.argsort(lengths, kind="stable"):
        if not batches or (len(batches[-1]) + 1) * lengths[place] > max_tokens:
            batches.append([])
        batches[-1].append(int(place))
    return batches


def learn_bpe(words: Mapping[str, int], merges: int) -> list[tuple[str, str]]:
    """Learn byte-pair encoding: join the most frequent pair of neighbours, repeat.

    Each word begins as its letters and an end mark, ``</w>``.

    Parameters
    ----------
    words
        Each word and how often it occurs.
    merges
        How many pairs to join at most, 0 or more; it ends earlier when no word has two
        pieces left.

    Returns
    -------
    pairs
        In the order in which they were joined. Of equally frequent ones the first in the
        alphabet is taken, so that the order of the words does not matter.

    Raises
    ------
    ValueError
        If ``merges`` or a count is negative.

    References
    ----------
    Sennrich et al. 2016, *Neural Machine Translation of Rare Words with Subword Units*,
    algorithm 1.

    Examples
    --------
    >>> learn_bpe({"low": 5, "lot": 3, "slow": 2}, merges=3)
    [('l', 'o'), ('lo', 'w'), ('low', '</w>')]
    """
    _check_least(0, merges=merges, **{f"words[{w!r}]": n for w, n in words.items()})
    pieces = {word: [*word, END_OF_WORD] for word in words}
    joined: list[tuple[str, str]] = []
    while len(joined) < merges:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in pairwise(pieces[word]):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        joined.append(best)
        pieces = {word: _join(parts, best) for word, parts in pieces.items()}
    return joined


def apply_bpe(word: str, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Cut a word into pieces by joining the learned pairs, in the order of learning.

    Parameters
    ----------
    word
        Any word, seen in training or not.
    pairs
        What :func:`learn_bpe` returned.

    Returns
    -------
    pieces
        Joined together they are the word and the end mark ``</w>``.

    Examples
    --------
    >>> apply_bpe("lower", [("l", "o"), ("lo", "w"), ("low", "</w>")])
    ['low', 'e', 'r', '</w>']
    """
    pieces = [*word, END_OF_WORD]
    for pair in pairs:
        pieces = _join(pieces, pair)
    return pieces


def _join(pieces: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """Join each occurrence of the pair, from left to right."""
    joined: list[str] = []
    for piece in pieces:
        if joined and (joined[-1], piece) == pair:
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


def _up_to_end(sentence: np.ndarray, eos_id: int) -> np.ndarray:
    ends = np.flatnonzero(sentence == eos_id)
    return sentence[: ends[0] + 1] if len(ends) else sentence


def _check_least(least: int, **numbers: int | float) -> None:
    for name, number in numbers.items():
        if not number >= least:
            raise ValueError(f"{name}: got {number}, wanted {least} or more")


def _check_adamw(
    weights: np.ndarray,
    gradient: np.ndarray,
    state: AdamState | None,
    betas: tuple[float, float],
) -> None:
    if gradient.shape != weights.shape:
        raise ValueError(
            f"gradient: got shape {gradient.shape}, wanted that of the weights, "
            f"{weights.shape}"
        )
    if state is not None and not (
        state.mean.shape == state.square.shape == weights.shape
    ):
        raise ValueError(
            f"state: got shapes {state.mean.shape} and {state.square.shape}, wanted "
            f"that of the weights, {weights.shape}"
        )
    for beta in betas:
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"betas: got {beta}, wanted numbers in [0, 1)")


def _real_distribution(
    logits: np.ndarray, targets: np.ndarray, label_smoothing: float, pad_id: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Which targets count, and the wanted distributions."""
    if logits.ndim == 0 or targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"targets: got shape {targets.shape}, wanted {logits.shape[:-1]}, "
            f"as logits have shape {logits.shape}"
        )
    real = np.full(targets.shape, True) if pad_id is None else targets != pad_id
    counted = np.where(real, targets, 0)
    return real, smooth_targets(counted, logits.shape[-1], label_smoothing)


def _check_smoothing(label_smoothing: float) -> None:
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(
            f"label_smoothing: got {label_smoothing}, wanted a number in [0, 1)"
        )


def _check_targets(targets: np.ndarray, vocab_size: int) -> None:
    if not np.issubdtype(targets.dtype, np.integer):
        raise TypeError(
            f"targets: got dtype {targets.dtype}, wanted integers (token numbers)"
        )
    wrong = (targets < 0) | (targets >= vocab_size)
    if wrong.any():
        raise ValueError(
            f"targets: got {targets[wrong].flat[0]}, wanted numbers from 0 to "
            f"{vocab_size - 1} (set pad_id for targets that do not count)"
        )
