"""Lookup: a query among keys in the plane, and the value that comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import traitlets

from transformer_lib.reference.lookup import entropy, soft_lookup
from transformer_lib.widgets.base import (
    HINT,
    Figure,
    Number,
    NumberRow,
    NumberTable,
    StateError,
    Texts,
    Widget,
    check_number,
    fixed,
    table,
)

__all__ = ["Lookup"]

NAMES = ("January", "June", "July", "August", "May", "March")
KEYS = (
    (0.5, 0.87),
    (0.94, 0.34),
    (0.94, -0.34),
    (0.0, -1.0),
    (-0.98, -0.17),
    (-0.87, 0.5),
)
VALUES = (1.0, 6.0, 7.0, 8.0, 5.0, 3.0)
EDGE = 1.5  # of the plane, in both directions


class Lookup(Widget):
    """Which value comes back? Soft lookup by dot product, with a temperature.

    Parameters
    ----------
    query
        Two numbers from -1.5 to 1.5.
    temperature
        From 0.01, nearly a hard lookup, to 100, nearly the plain average.
    names, keys, values
        Two to eight keys: what each is called, where it lies (two numbers from -1.5
        to 1.5), and the number it carries (-999 to 999). The default keys are months
        that lie near each other when they are spelt alike, and carry their number.
    chosen
        Which key's arithmetic is told first, 0 to ``len(keys) - 1``.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> Lookup(temperature=0.5)
    Lookup(query=[0.8, 0.05], temperature=0.5)
    """

    name = "lookup"
    question = "Which value comes back?"
    in_repr = ("query", "temperature")
    query = NumberRow([0.8, 0.05], -EDGE, EDGE, count=2)
    temperature = Number(0.2, 0.01, 100.0)
    names = Texts(NAMES)
    places = NumberTable(KEYS, -EDGE, EDGE, columns=2, constant=True, called="keys")
    values = NumberRow(VALUES, -999, 999)
    chosen = Number(1, 0, 7, whole=True)

    def __init__(
        self,
        query: Sequence[Figure] = (0.8, 0.05),
        temperature: Figure = 0.2,
        names: Sequence[str] = NAMES,
        keys: Sequence[Sequence[Figure]] = KEYS,
        values: Sequence[Figure] = VALUES,
        chosen: int = 1,
    ) -> None:
        count = len(keys)
        if not 2 <= count <= 8:
            raise StateError(f"keys: got {count}, wanted 2 to 8")
        for what, given in (("names", names), ("values", values)):
            if len(given) != count:
                raise StateError(
                    f"{what}: got {len(given)}, wanted {count}, one for each key"
                )
        super().__init__(
            query=query,
            temperature=temperature,
            names=names,
            places=keys,
            values=values,
            chosen=chosen,
        )

    @traitlets.validate("chosen")
    def _check_chosen(self, proposal: Any) -> int:
        last = len(self.values) - 1
        return int(check_number("chosen", proposal["value"], 0, last, whole=True))

    def static_view(self) -> str:
        """Write query, scores, weights, values and output as a table."""
        query, keys = np.array(self.query), np.array(self.places)
        values = np.array(self.values)[:, None]
        output, weights = soft_lookup(query, keys, values, self.temperature)
        scores = keys @ query
        rows = [
            (name, fixed(score, 2), fixed(weight, 2), f"{value:g}")
            for name, score, weight, value in zip(
                self.names, scores, weights, self.values, strict=True
            )
        ]
        sentence = (
            f"The query ({fixed(query[0], 2)}, {fixed(query[1], 2)}) at temperature "
            f"{self.temperature:g} gets {fixed(output[0], 2)}, an average with entropy "
            f"{fixed(float(entropy(weights)), 2)}. {HINT}"
        )
        columns = ("key", "score", "weight", "value")
        return f"{table(columns, rows)}\n<p>{sentence}</p>"
