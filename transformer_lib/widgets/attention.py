"""AttentionCalculator: three tokens, three small projections, every number told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import traitlets

from transformer_lib.reference.lookup import softmax
from transformer_lib.widgets.base import (
    HINT,
    Figure,
    Number,
    NumberTable,
    StateError,
    StateTrait,
    Switch,
    Texts,
    Widget,
    check_number,
    fixed,
    table,
)

__all__ = ["AttentionCalculator"]

Rows = Sequence[Sequence[int]]
LARGEST = 9
TOKENS = ("the", "cat", "sat")
MATRICES = ("X", "W_Q", "W_K", "W_V", "Q", "K", "V", "scores", "weights", "O")


class Cell(StateTrait):
    """The name of a matrix, then a row and a column of it."""

    def check(self, value: Any) -> list[Any]:
        """Return the three as a list; the widget checks that the cell exists."""
        cell = list(value) if isinstance(value, list | tuple) else []
        if len(cell) != 3 or cell[0] not in MATRICES:
            raise StateError(
                f"{self.name}: got {value!r}, wanted one of {', '.join(MATRICES)}, "
                "then row and column"
            )
        return cell


class AttentionCalculator(Widget):
    """Who does each token look at? Self-attention with small whole numbers.

    Parameters
    ----------
    tokens
        Two to four short words.
    X
        One row of two whole numbers per token, -9 to 9.
    W_Q, W_K, W_V
        Projections, two rows of two whole numbers each, -9 to 9.
    scaled
        Divide the scores by the square root of 2, the width of a key.
    temperature
        Divides the scores once more, 0.1 to 10.
    chosen
        Which cell's arithmetic is told first: matrix (one of ``X, W_Q, W_K, W_V, Q, K,
        V, scores, weights, O``), row, column.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> AttentionCalculator(scaled=False)
    AttentionCalculator(X=[[1, 0], [0, 2], [2, 1]], scaled=False, temperature=1.0)
    """

    name = "attention"
    question = "Who does each token look at?"
    in_repr = ("X", "scaled", "temperature")
    tokens = Texts(TOKENS)
    X = NumberTable([[1, 0], [0, 2], [2, 1]], -LARGEST, LARGEST, 2, whole=True)
    W_Q = NumberTable([[1, 1], [0, 1]], -LARGEST, LARGEST, 2, whole=True)
    W_K = NumberTable([[0, 1], [1, 1]], -LARGEST, LARGEST, 2, whole=True)
    W_V = NumberTable([[1, 0], [-1, 1]], -LARGEST, LARGEST, 2, whole=True)
    scaled = Switch(True)
    temperature = Number(1.0, 0.1, 10.0)
    chosen = Cell(["weights", 2, 1])

    def __init__(
        self,
        tokens: Sequence[str] = TOKENS,
        X: Rows = ((1, 0), (0, 2), (2, 1)),
        W_Q: Rows = ((1, 1), (0, 1)),
        W_K: Rows = ((0, 1), (1, 1)),
        W_V: Rows = ((1, 0), (-1, 1)),
        scaled: bool = True,
        temperature: Figure = 1.0,
        chosen: tuple[str, int, int] | None = None,
    ) -> None:
        if not 2 <= len(tokens) <= 4:
            raise StateError(f"tokens: got {len(tokens)}, wanted 2 to 4 words")
        for what, given, wanted in (
            ("X", X, len(tokens)), ("W_Q", W_Q, 2), ("W_K", W_K, 2), ("W_V", W_V, 2),
        ):  # fmt: skip
            if len(given) != wanted:
                raise StateError(f"{what}: got {len(given)} rows, wanted {wanted}")
        super().__init__(
            tokens=tokens,
            X=X,
            W_Q=W_Q,
            W_K=W_K,
            W_V=W_V,
            scaled=scaled,
            temperature=temperature,
            chosen=list(chosen or ("weights", len(tokens) - 1, 1)),
        )

    @traitlets.validate("chosen")
    def _check_chosen(self, proposal: Any) -> list[Any]:
        matrix, row, column = proposal["value"]
        rows = 2 if matrix.startswith("W_") else len(self.tokens)
        columns = len(self.tokens) if matrix in ("scores", "weights") else 2
        return [
            matrix,
            check_number("chosen row", row, 0, rows - 1, whole=True),
            check_number("chosen column", column, 0, columns - 1, whole=True),
        ]

    def results(self) -> dict[str, np.ndarray]:
        """Compute every matrix from the current numbers.

        Returns
        -------
        results
            ``Q``, ``K``, ``V`` and ``O`` of shape ``(n, 2)``; ``scores`` (divided by
            the square root of 2 if ``scaled``) and ``weights`` of shape ``(n, n)``.
        """
        X = np.array(self.X, dtype=float)
        Q, K, V = (X @ np.array(W, dtype=float) for W in (self.W_Q, self.W_K, self.W_V))
        scores = Q @ K.T / (np.sqrt(2.0) if self.scaled else 1.0)
        weights = softmax(scores / self.temperature)
        return {
            "Q": Q, "K": K, "V": V, "scores": scores, "weights": weights,
            "O": weights @ V,
        }  # fmt: skip

    def static_view(self) -> str:
        """Write queries, keys, values, weights and outputs as a table."""
        found = self.results()

        def pair(row: np.ndarray, digits: int) -> str:
            return "(" + ", ".join(fixed(x, digits) for x in row) + ")"

        rows = [
            (
                token,
                *(pair(found[letter][i], 0) for letter in "QKV"),
                *(fixed(weight, 2) for weight in found["weights"][i]),
                pair(found["O"][i], 2),
            )
            for i, token in enumerate(self.tokens)
        ]
        looks = (f"looks at {token}" for token in self.tokens)
        columns = ("token", "Q asks", "K offers", "V carries", *looks, "O gets")
        return f"{table(columns, rows)}\n<p>{HINT}</p>"
