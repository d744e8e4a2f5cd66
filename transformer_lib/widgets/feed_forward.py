"""Bend: a feed-forward network of a few hidden units, and the plane that it colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from transformer_lib.reference.feed_forward import feed_forward
from transformer_lib.widgets.base import (
    HINT,
    Figure,
    Number,
    NumberRow,
    NumberTable,
    StateError,
    Switch,
    Widget,
    fixed,
    table,
)

__all__ = ["CORNERS", "Bend"]

LOW, HIGH = -0.5, 1.5
LARGEST = 9
MOST = 8
NETWORK = (
    (1, 1, 0, 1),
    (1, 1, -1, -1),
    (1, 0, -1, -2),
    (0, 1, -1, -2),
    (-1, 0, 0, 2),
    (0, -1, 0, 2),
    (1, -1, -1, 3),
    (-1, 1, -1, 3),
)
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""The four inputs of the exclusive or."""


class Bend(Widget):
    """What can a few bends draw? A network with two inputs and one hidden layer.

    Unit ``m`` holds ``max(0, a * W_a + b * W_b + bias)`` and adds ``out`` times that to
    the output. There is no bias of the output.

    Parameters
    ----------
    network
        Eight rows ``(W_a, W_b, bias, out)`` of whole numbers, -9 to 9. The first two
        miss the exclusive or by one number; the others are 0 on all four corners.
    units
        How many of the rows are in use, 2 to 8.
    bend
        ``False`` leaves the maximum out, and with it everything but one flat slope.
    point
        The two inputs at which the arithmetic is told, -0.5 to 1.5.
    chosen
        Unit (0 to ``units - 1``) and column (0 to 3) that is told first.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> Bend(units=3)
    Bend(units=3, bend=True, point=[1.0, 1.0])
    """

    name = "feed_forward"
    question = "What can a few bends draw?"
    in_repr = ("units", "bend", "point")
    network = NumberTable(NETWORK, -LARGEST, LARGEST, columns=4, whole=True)
    units = Number(2, 2, MOST, whole=True)
    bend = Switch(True)
    point = NumberRow([1.0, 1.0], LOW, HIGH, count=2)
    row = Number(1, 0, MOST - 1, whole=True)
    column = Number(3, 0, 3, whole=True)

    def __init__(
        self,
        network: Sequence[Sequence[int]] = NETWORK,
        units: int = 2,
        bend: bool = True,
        point: Sequence[Figure] = (1.0, 1.0),
        chosen: tuple[int, int] = (1, 3),
    ) -> None:
        if len(network) != MOST:
            raise StateError(f"network: got {len(network)} rows, wanted {MOST}")
        super().__init__(
            network=network,
            units=units,
            bend=bend,
            point=point,
            row=chosen[0],
            column=chosen[1],
        )
        if self.row >= self.units:
            raise StateError(f"chosen: got unit {self.row}, wanted less than {units}")

    def outputs(self, points: Sequence[Sequence[Figure]] = CORNERS) -> np.ndarray:
        """Compute the output at some points.

        Parameters
        ----------
        points
            Pairs of inputs; the four corners if left out.

        Returns
        -------
        outputs
            Shape ``(len(points),)``.
        """
        used = np.array(self.network[: self.units], dtype=float)
        X = np.array(points, dtype=float)
        W_1, b_1, W_2 = used[:, :2].T, used[:, 2], used[:, 3:]
        if not self.bend:
            return np.asarray((X @ W_1 + b_1) @ W_2)[:, 0]
        return feed_forward(X, W_1, b_1, W_2, np.zeros(1))[:, 0]

    def static_view(self) -> str:
        """Write the units and the four corners as a table."""
        rows = [
            (f"unit {m}", *(fixed(number, 0) for number in unit))
            for m, unit in enumerate(self.network[: self.units], start=1)
        ]
        at = ", ".join(
            f"({a}, {b}) gives {fixed(output, 2)}, wanted {int(a != b)}"
            for (a, b), output in zip(CORNERS, self.outputs(), strict=True)
        )
        units = table(("hidden unit", "times a", "times b", "bias", "writes"), rows)
        return f"{units}\n<p>The exclusive or: {at}. {HINT}</p>"
