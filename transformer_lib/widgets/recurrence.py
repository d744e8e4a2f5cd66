"""Reach: how much of a gradient arrives from far away, in three kinds of model.

The curves are those of scalar models: one number of state, gates and slopes fixed, so
that the gradient of the last state with respect to an input ``distance`` steps earlier
is a power of one factor. The formulas are :func:`~transformer_lib.reference.scalar_reach`,
:func:`~transformer_lib.reference.lstm_reach` and
:func:`~transformer_lib.reference.attention_reach`; chapter 1 derives them and measures
the matrix case.
"""

from __future__ import annotations

import math

from transformer_lib.reference.recurrence import (
    attention_reach,
    lstm_reach,
    scalar_reach,
    sigmoid,
)
from transformer_lib.widgets.base import (
    HINT,
    Figure,
    Number,
    StateError,
    Widget,
    short,
    table,
)

__all__ = ["Reach", "half_distance"]

SHOWN_DISTANCES = (1, 2, 4, 8, 16, 32, 64)


def half_distance(factor: Figure) -> float:
    """Steps after which ``factor ** steps`` has halved, or doubled if above 1.

    Parameters
    ----------
    factor
        Per step, above 0.

    Returns
    -------
    steps
        Always positive; ``inf`` at factor 1, where nothing changes.

    Raises
    ------
    ValueError
        If ``factor`` is not above 0 and finite.

    Examples
    --------
    >>> half_distance(0.5), half_distance(2.0), half_distance(1.0)
    (1.0, 1.0, inf)
    """
    if not (math.isfinite(factor) and factor > 0):
        raise ValueError(f"factor: got {factor}, wanted a finite number above 0")
    return math.inf if factor == 1.0 else math.log(2.0) / abs(math.log(factor))


class Reach(Widget):
    """How far back does a gradient reach? RNN, LSTM and attention against distance.

    Parameters
    ----------
    recurrent
        Factor per step of the scalar RNN, 0.5 to 1.2. Above 1 it explodes.
    forget_bias
        Bias of the LSTM's forget gate, -2 to 6; its sigmoid is the factor per step.
    length
        Tokens in the sequence, 5 to 100.
    distance
        The distance that is read out, 0 to ``length - 1``.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> Reach(recurrent=0.9)
    Reach(recurrent=0.9, forget_bias=2.0, length=80, distance=40)
    """

    name = "recurrence"
    question = "How far back does a gradient reach?"
    in_repr = ("recurrent", "forget_bias", "length", "distance")
    recurrent = Number(0.8, 0.5, 1.2)
    forget_bias = Number(2.0, -2.0, 6.0)
    length = Number(80, 5, 100, whole=True)
    distance = Number(40, 0, 99, whole=True)

    def __init__(
        self,
        recurrent: Figure = 0.8,
        forget_bias: Figure = 2.0,
        length: int = 80,
        distance: int | None = None,
    ) -> None:
        if distance is None:
            distance = length // 2 if isinstance(length, int) else 0
        super().__init__(
            recurrent=recurrent,
            forget_bias=forget_bias,
            length=length,
            distance=distance,
        )
        if self.distance >= self.length:
            raise StateError(
                f"distance: got {distance}, wanted less than length={length}"
            )

    def static_view(self) -> str:
        """Write the three reaches at a few distances as a table."""
        factor = float(sigmoid(self.forget_bias))
        rows = [
            (
                str(t),
                short(float(scalar_reach(self.recurrent, t))),
                short(float(lstm_reach(self.forget_bias, t))),
                short(float(attention_reach(self.length))),
            )
            for t in SHOWN_DISTANCES
            if t < self.length
        ]
        columns = (
            "distance",
            f"RNN, {self.recurrent:.2f} per step",
            f"LSTM, {factor:.3f} per step",
            f"attention, 1/{self.length}",
        )
        return f"{table(columns, rows)}\n<p>{HINT}</p>"
