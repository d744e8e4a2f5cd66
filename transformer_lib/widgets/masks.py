"""MaskBuilder: who may see whom, cell by cell, and where the rule is broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import traitlets

from transformer_lib.reference.lookup import masked_softmax, softmax
from transformer_lib.reference.masks import causal_mask
from transformer_lib.widgets.base import (
    HINT,
    Number,
    NumberTable,
    OneOf,
    StateError,
    StateTrait,
    Switch,
    Texts,
    Widget,
    check_number,
    fixed,
    table,
)

__all__ = ["MaskBuilder"]

TOKENS = ("the", "cat", "sat", "on", "my", "mat")
LENGTH = len(TOKENS)
SCORES = (
    (1, 2, 0, -1, 1, 0),
    (2, 1, 3, 0, 1, -1),
    (0, 3, 1, 2, -1, 1),
    (-1, 0, 2, 1, 0, 3),
    (1, 0, -1, 1, 2, 3),
    (0, 1, 2, 0, 3, 1),
)
HOW = ("−∞ before the softmax", "score times 0", "0 after the softmax")
"""Ways to hide a key; only the first is right."""


class _Cell(StateTrait):
    """A row and a column."""

    def check(self, value: Any) -> list[int]:
        """Return the two numbers."""
        cell = list(value) if isinstance(value, list | tuple) else []
        if len(cell) != 2:
            raise StateError(f"{self.name}: got {value!r}, wanted a row and a column")
        return [
            int(check_number(f"{self.name} {what}", x, 0, LENGTH - 1, whole=True))
            for what, x in zip(("row", "column"), cell, strict=True)
        ]


class MaskBuilder(Widget):
    """Who may see whom? A mask of six tokens, its weights, and its leaks.

    A rule (triangle, padding) says which cells are open. A click opens or closes one
    cell against the rule. A *leak* is a cell that the rule hides and that has a weight
    all the same.

    Parameters
    ----------
    causal
        The rule hides later tokens.
    length
        Real tokens, 1 to 6; the others are padding, which the rule hides as keys.
    how
        How a hidden key is hidden: one of ``"−∞ before the softmax"``, ``"score times
        0"``, ``"0 after the softmax"``.
    flips
        Six rows of six: 1 where the reader has opened or closed a cell.
    chosen
        Row and column whose arithmetic is told first, 0 to 5.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> MaskBuilder(length=4)
    MaskBuilder(causal=True, length=4, how='−∞ before the softmax')
    """

    name = "masks"
    question = "Who may see whom?"
    in_repr = ("causal", "length", "how")
    tokens = Texts(TOKENS)
    scores = NumberTable(SCORES, -9, 9, LENGTH, whole=True, constant=True)
    causal = Switch(True)
    length = Number(LENGTH, 1, LENGTH, whole=True)
    how = OneOf(HOW[0], HOW)
    flips = NumberTable([[0] * LENGTH] * LENGTH, 0, 1, LENGTH, whole=True)
    chosen = _Cell([2, 1])

    def __init__(
        self,
        causal: bool = True,
        length: int = LENGTH,
        how: str = HOW[0],
        flips: Sequence[Sequence[int]] = ((0,) * LENGTH,) * LENGTH,
        chosen: tuple[int, int] = (2, 1),
    ) -> None:
        if len(flips) != LENGTH:
            raise StateError(f"flips: got {len(flips)} rows, wanted {LENGTH}")
        super().__init__(
            tokens=list(TOKENS),
            scores=SCORES,
            causal=causal,
            length=length,
            how=how,
            flips=flips,
            chosen=list(chosen),
        )

    @traitlets.validate("flips")
    def _check_flips(self, proposal: Any) -> Any:
        if len(proposal["value"]) != LENGTH:
            raise StateError(
                f"flips: got {len(proposal['value'])} rows, wanted {LENGTH}"
            )
        return proposal["value"]

    def results(self) -> dict[str, np.ndarray]:
        """Compute rule, mask, weights and leaks from the current state.

        Returns
        -------
        results
            All of shape ``(6, 6)``: ``rule`` and ``mask`` (``True`` = may attend),
            ``weights``, ``leaks`` (hidden by the rule, and weighed all the same), and
            ``reach``, who has anything of whom after two layers.
        """
        real = np.arange(LENGTH) < self.length
        rule = np.broadcast_to(real, (LENGTH, LENGTH))
        if self.causal:
            rule = rule & causal_mask(LENGTH)
        mask = rule ^ np.array(self.flips, dtype=bool)
        scores = np.array(self.scores, dtype=float)
        if self.how == HOW[0]:
            weights = masked_softmax(scores, mask)
        elif self.how == HOW[1]:
            weights = softmax(scores * mask)
        else:
            weights = softmax(scores) * mask
        seen = weights > 0.0
        kept = seen | np.eye(LENGTH, dtype=bool)  # the residual stream keeps a token
        return {
            "rule": np.array(rule),
            "mask": mask,
            "weights": weights,
            "leaks": seen & ~rule,
            "reach": (kept.astype(int) @ kept.astype(int)) > 0,
        }

    def static_view(self) -> str:
        """Write the weights as a table; a dot stands for a hidden key."""
        found = self.results()
        names = [t if i < self.length else "pad" for i, t in enumerate(self.tokens)]
        rows = [
            (
                name,
                *(
                    fixed(weight, 2) if seen else "·"
                    for weight, seen in zip(weights, mask, strict=True)
                ),
            )
            for name, weights, mask in zip(
                names, found["weights"], found["mask"], strict=True
            )
        ]
        return f"{table(('asks', *names), rows)}\n<p>{HINT}</p>"
