"""PadDial: more padding, the same dates. Plays runs that were recorded.

The runs lie in ``widgets/data/pad_dial.json``, written by
``python -m transformer_lib.experiments.masks``.
"""

from __future__ import annotations

from transformer_lib.widgets.base import (
    HINT,
    Number,
    NumberTable,
    Texts,
    Widget,
    check_number,
    fixed,
    recording,
    table,
)

__all__ = ["PadDial"]

MOST = 30
SHOWN = (0, 1, 2, 4, 8, 12, 20, 30)
RECORDED = recording("pad_dial")


def _series(name: str) -> list[list[float]]:
    """Median, lowest and highest share of right dates, one row per amount of padding."""
    run = next(run for run in RECORDED["models"] if run["name"] == name)
    columns = (run["median"], run["low"], run["high"])
    return [list(row) for row in zip(*columns, strict=True)]


class PadDial(Widget):
    """What does padding do to a model that can see it? Recorded over ten seeds.

    Parameters
    ----------
    pads
        Columns of padding added behind every date, 0 to 30.

    Attributes
    ----------
    with_mask, without_mask
        31 rows of median, lowest and highest share of right dates.
    written, isos
        Three dates, as written and as they should be answered.
    answers
        What the models of the first seed answer: for each amount of padding three
        answers with the mask, then three without.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> PadDial(pads=12)
    PadDial(pads=12)
    """

    name = "pad_dial"
    question = "Is a date with more padding another date?"
    in_repr = ("pads",)
    pads = Number(0, 0, MOST, whole=True)
    with_mask = NumberTable([[0.0] * 3], 0, 1, 3, constant=True)
    without_mask = NumberTable([[0.0] * 3], 0, 1, 3, constant=True)
    seeds = Number(1, 1, 1000, whole=True, constant=True)
    written = Texts()
    isos = Texts()
    answers = Texts()

    def __init__(self, pads: int = 4) -> None:
        check_number("pads", pads, 0, MOST, whole=True)
        masked, unmasked = (run["answers"] for run in RECORDED["models"])
        super().__init__(
            pads=pads,
            with_mask=_series("mask"),
            without_mask=_series("no mask"),
            seeds=len(RECORDED["seeds"]),
            written=[written for written, _ in RECORDED["dates"]],
            isos=[iso for _, iso in RECORDED["dates"]],
            answers=[
                answer
                for row in zip(masked, unmasked, strict=True)
                for part in row
                for answer in part
            ],
        )

    def static_view(self) -> str:
        """Write some amounts of padding as a table."""

        def share(row: list[float]) -> str:
            middle, low, high = (fixed(100 * x, 1) for x in row)
            return f"{middle} % ({low} to {high})"

        rows = [
            (str(pads), share(self.with_mask[pads]), share(self.without_mask[pads]))
            for pads in SHOWN
        ]
        columns = ("extra padding", "trained with the mask", "trained without it")
        caption = f"Dates read right: median of {self.seeds} seeds, lowest and highest."
        return f"{table(columns, rows, caption)}\n<p>{HINT}</p>"
