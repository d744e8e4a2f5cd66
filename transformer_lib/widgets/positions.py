"""Positions: how far apart are two places, and can a dot product tell?

Four ways to give a place a vector, and the dot product of any two places. Where it
depends on the distance alone, all pairs with the same distance lie on one curve. The
vectors are those of :mod:`transformer_lib.reference.positions`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import traitlets

from transformer_lib.reference.positions import (
    index_over_length_positions,
    index_positions,
    rope,
    sinusoidal_positions,
)
from transformer_lib.widgets.base import (
    HINT,
    MINUS,
    Figure,
    Number,
    OneOf,
    StateError,
    Widget,
    fixed,
    table,
)

__all__ = ["SCHEMES", "Positions"]

SCHEMES = ("sinusoids", "index", "index / length", "RoPE")
SHOWN_OFFSETS = (0, 1, 2, 4, 8, 16)


class Positions(Widget):
    """How far apart are two places? Vectors of places, and their dot products.

    Parameters
    ----------
    scheme
        ``"sinusoids"``, ``"index"``, ``"index / length"`` or ``"RoPE"``. For RoPE the
        vector (1, 0, 1, 0, ...) is turned by its place.
    base
        The 10000 of the formula, 10 to 100,000. The indices do not use it.
    width
        Columns of a vector, even, 2 to 32.
    length
        Places, 4 to 40.
    asks, answers
        The two places, below ``length``.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> Positions(scheme="index", length=12, asks=5, answers=3)
    Positions(scheme='index', base=10000.0, width=32, length=12, asks=5, answers=3)
    """

    name = "positions"
    question = "How far apart are two places?"
    in_repr = ("scheme", "base", "width", "length", "asks", "answers")
    scheme = OneOf("sinusoids", SCHEMES)
    base = Number(10000.0, 10.0, 100000.0)
    width = Number(32, 2, 32, whole=True)
    length = Number(32, 4, 40, whole=True)
    asks = Number(20, 0, 39, whole=True)
    answers = Number(17, 0, 39, whole=True)

    def __init__(
        self,
        scheme: str = "sinusoids",
        base: Figure = 10000.0,
        width: int = 32,
        length: int = 32,
        asks: int = 20,
        answers: int = 17,
    ) -> None:
        super().__init__(
            scheme=scheme,
            base=base,
            width=width,
            length=length,
            asks=asks,
            answers=answers,
        )
        for what in ("asks", "answers"):
            if getattr(self, what) >= self.length:
                raise StateError(
                    f"{what}: got {getattr(self, what)}, wanted less than "
                    f"length={self.length}"
                )

    @traitlets.validate("width")
    def _check_width(self, proposal: Any) -> int:
        width = int(proposal["value"])
        if width % 2:
            raise StateError(f"width: got {width}, wanted an even number")
        return width

    def vectors(self) -> np.ndarray:
        """Give every place its vector.

        Returns
        -------
        vectors
            Shape ``(length, width)``.
        """
        if self.scheme == "index":
            return index_positions(self.length, self.width)
        if self.scheme == "index / length":
            return index_over_length_positions(self.length, self.width)
        if self.scheme == "RoPE":
            still = np.tile([1.0, 0.0], (self.length, self.width // 2))
            return rope(still, base=self.base)
        return sinusoidal_positions(self.length, self.width, self.base)

    def static_view(self) -> str:
        """Write the dot products of pairs at a few distances as a table."""
        P = self.vectors()
        products = P @ P.T
        digits = 0 if self.scheme == "index" else 2
        rows = []
        for distance in SHOWN_OFFSETS:
            if distance >= self.length:
                continue
            pairs = np.diagonal(products, -distance)
            rows.append(
                (
                    "0" if distance == 0 else f"{MINUS}{distance}",
                    fixed(pairs.min(), digits),
                    fixed(pairs.max(), digits),
                )
            )
        columns = ("offset", "smallest dot product", "largest")
        about = f"{self.scheme}, {self.length} places, width {self.width}"
        return f"{table(columns, rows, about)}\n<p>{HINT}</p>"
