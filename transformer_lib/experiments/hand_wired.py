"""A model wired by hand: "what followed this token last time?", with no training.

Two heads and nothing but whole numbers. Every token is a vector of 27 columns in three
lanes, [token | position | previous token]. The first head asks *who stands left of me?*
and writes the answer into the lane that starts empty. The second asks *who has me on its
left?* and reads the token it finds: what followed me last time. In a trained model the
same pair of heads is known as an induction circuit (Olsson et al. 2022).

The chapters build it piece by piece; this module holds the whole.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from transformer_lib.reference.attention import attention

__all__ = [
    "LANES",
    "LENGTH",
    "START",
    "SYMBOLS",
    "WIDTH",
    "Head",
    "accuracy",
    "answers",
    "apply_head",
    "every_text",
    "induction_head",
    "past_and_self",
    "previous_token_head",
    "stream",
    "texts",
]

LETTERS = "abcdef"
START = "^"
"""The beginning-of-sequence token."""

SYMBOLS = LETTERS + START
LENGTH = 13
"""The longest text: START and twelve letters."""

LANES = {
    "token": slice(0, 7),
    "position": slice(7, 20),
    "previous": slice(20, 27),
}
"""Name of a lane -> its columns."""

WIDTH = 27
STRENGTH = 50
"""How loudly a head asks. At 50 the best key gets all the weight but a millionth."""


class Head(NamedTuple):
    """The four matrices of one head.

    Attributes
    ----------
    W_Q, W_K
        Shape ``(27, d_k)``.
    W_V
        Shape ``(27, d_v)``.
    W_O
        Shape ``(d_v, 27)``: where the head writes what it has read.
    """

    W_Q: Int[np.ndarray, "27 d_k"]
    W_K: Int[np.ndarray, "27 d_k"]
    W_V: Int[np.ndarray, "27 d_v"]
    W_O: Int[np.ndarray, "d_v 27"]


def _read(lane: str, pattern: np.ndarray) -> np.ndarray:
    """A matrix that looks at one lane and is zero on the others."""
    matrix = np.zeros((WIDTH, pattern.shape[1]), dtype=int)
    matrix[LANES[lane]] = pattern
    return matrix


def _write(lane: str) -> np.ndarray:
    return _read(lane, np.eye(len(SYMBOLS), dtype=int)).T


def previous_token_head(strength: int = STRENGTH) -> Head:
    """Wire the first head: who stands left of me?

    Position ``i`` asks for position ``i - 1``, every position answers with itself, and
    what is handed over is the token. Position 0 has no left neighbour: its query is zero
    and fits every key alike.

    Parameters
    ----------
    strength
        A whole number, 1 or more; the larger, the sharper the head looks.

    Raises
    ------
    ValueError
        If ``strength`` is below 1.
    """
    _check_strength(strength)
    here = np.eye(LENGTH, dtype=int)
    return Head(
        W_Q=_read("position", strength * np.eye(LENGTH, k=-1, dtype=int)),
        W_K=_read("position", here),
        W_V=_read("token", np.eye(len(SYMBOLS), dtype=int)),
        W_O=_write("previous"),
    )


def induction_head(strength: int = STRENGTH) -> Head:
    """Wire the second head: who has me on its left?

    Each token asks with its own name, every token answers with the name of its left
    neighbour, which the first head has put into the lane *previous*. What is handed over
    is the token. ``START`` in that lane does not answer: it is nobody's namesake.

    Parameters
    ----------
    strength
        A whole number, 1 or more.

    Raises
    ------
    ValueError
        If ``strength`` is below 1.
    """
    _check_strength(strength)
    names = np.eye(len(SYMBOLS), dtype=int)
    letters_only = names.copy()
    letters_only[SYMBOLS.index(START)] = 0
    return Head(
        W_Q=_read("token", strength * names),
        W_K=_read("previous", letters_only),
        W_V=_read("token", names),
        W_O=_write("token"),
    )


def stream(text: str) -> Int[np.ndarray, "n 27"]:
    """The tokens as vectors: token and position are filled, previous is empty.

    Parameters
    ----------
    text
        Letters a to f, with ``^`` for the beginning; 1 to 13 symbols.

    Returns
    -------
    X
        Shape ``(n, 27)``, zeros and ones.

    Raises
    ------
    ValueError
        If the text is empty, too long, or holds another symbol.

    Examples
    --------
    >>> X = stream("^ab")
    >>> X.shape, int(X[1].nonzero()[0][0]), int(X[1].nonzero()[0][1])
    ((3, 27), 0, 8)
    """
    if not 1 <= len(text) <= LENGTH:
        raise ValueError(f"text: got {len(text)} symbols, wanted 1 to {LENGTH}")
    for symbol in text:
        if symbol not in SYMBOLS:
            raise ValueError(f"text: got {symbol!r}, wanted symbols of {SYMBOLS!r}")
    X = np.zeros((len(text), WIDTH), dtype=int)
    for i, symbol in enumerate(text):
        X[i, LANES["token"].start + SYMBOLS.index(symbol)] = 1
        X[i, LANES["position"].start + i] = 1
    return X


def apply_head(
    head: Head,
    X: Float[np.ndarray, "n 27"] | Int[np.ndarray, "n 27"],
    mask: Bool[np.ndarray, "n n"] | None = None,
) -> tuple[Float[np.ndarray, "n 27"], Float[np.ndarray, "n n"]]:
    """Let a head read the stream.

    Returns
    -------
    written
        Shape ``(n, 27)``: what the head adds to the stream.
    weights
        Shape ``(n, n)``.
    """
    read, weights = attention(X @ head.W_Q, X @ head.W_K, X @ head.W_V, mask)
    return read @ head.W_O, weights


MaskOf = Callable[[int], Bool[np.ndarray, "n n"]]
"""Number of tokens -> who may see whom."""


def past_and_self(n: int) -> Bool[np.ndarray, "n n"]:
    """Each token sees itself and those before it: the mask of both heads."""
    return np.tri(n, dtype=bool)


def answers(
    text: str,
    first: Head | None = None,
    second: Head | None = None,
    first_mask: MaskOf = past_and_self,
    second_mask: MaskOf = past_and_self,
) -> list[str]:
    """What followed each token last time, according to the two heads.

    Parameters
    ----------
    text
        As for :func:`stream`.
    first, second
        The heads; those of this module if left out.
    first_mask, second_mask
        Who may see whom in each head.

    Returns
    -------
    answers
        One symbol per token. It means something only where the token has occurred
        before.

    Examples
    --------
    >>> answers("^cadca")[-1]
    'd'
    """
    X = stream(text)
    n = len(text)
    written, _ = apply_head(first or previous_token_head(), X, first_mask(n))
    found, _ = apply_head(second or induction_head(), X + written, second_mask(n))
    best = found[:, LANES["token"]].argmax(axis=1)
    return [SYMBOLS[i] for i in best]


def texts(count: int = 100, seed: int = 0) -> list[str]:
    """Random texts of twelve letters in which each letter always has one follower.

    A follower is drawn for each of the six letters, then the text walks from letter to
    follower. So "what followed this token last time?" has one answer, however often the
    token has occurred.
    """
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        follower = rng.integers(len(LETTERS), size=len(LETTERS))
        letter = int(rng.integers(len(LETTERS)))
        walk = [letter]
        while len(walk) < LENGTH - 1:
            walk.append(int(follower[walk[-1]]))
        made.append("".join(LETTERS[i] for i in walk))
    return made


def every_text() -> list[str]:
    """All texts that :func:`texts` may draw, each once, in the order of the letters.

    Returns
    -------
    texts
        9,786 of them: a letter that is new is any that has not occurred, and from the
        first one that has, the text goes round for ever.

    Examples
    --------
    >>> made = every_text()
    >>> len(made), made[0], made[-1]
    (9786, 'aaaaaaaaaaaa', 'ffffffffffff')
    """
    made = []
    for length in range(1, len(LETTERS) + 1):
        for start in itertools.permutations(LETTERS, length):
            for back in range(length):
                walk = itertools.chain(start, itertools.cycle(start[back:]))
                made.append("".join(itertools.islice(walk, LENGTH - 1)))
    return sorted(made)


def accuracy(
    written: Sequence[str],
    start: bool = True,
    first: Head | None = None,
    second: Head | None = None,
) -> tuple[int, int]:
    """Count the right answers where a token has occurred before.

    Parameters
    ----------
    written
        Texts of letters, such as :func:`texts` makes.
    start
        Put ``START`` in front of each text.
    first, second
        The heads; those of this module if left out.

    Returns
    -------
    right, asked
        How many answers are right, and how many there are to give.
    """
    first, second = first or previous_token_head(), second or induction_head()
    right = asked = 0
    for letters in written:
        given = answers(START + letters if start else letters, first, second)
        given = given[1:] if start else given
        for i, letter in enumerate(letters):
            last = letters.rfind(letter, 0, i)
            if last >= 0:
                asked += 1
                right += given[i] == letters[last + 1]
    return right, asked


def _check_strength(strength: int) -> None:
    if strength < 1:
        raise ValueError(f"strength: got {strength}, wanted 1 or more")
