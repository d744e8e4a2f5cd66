"""Training: scrub through a recorded run and watch answers and attention form.

Nothing is computed in the browser: the widget plays one recorded run of the chapter's
task. It lies in ``data/training.json`` and is written by
``python -m transformer_lib.experiments.training --widget``.
"""

from __future__ import annotations

from transformer_lib.widgets.base import (
    HINT,
    Number,
    Recorded,
    Widget,
    fixed,
    recording,
    table,
)

__all__ = ["Training", "decode_map"]

END, NOTHING = ".", "_"
"""Stand for the end, and for padding and start, in what was written."""

ROWS = 11
"""Tokens that are shown: the ten of a date and the end."""


def decode_map(text: str, code: str) -> list[int]:
    """Read the weights of a map, in percent, as the experiments wrote them.

    Parameters
    ----------
    text
        One character for a weight, or for several zeros.
    code
        The characters: of the weights 0 to 100, then of 2, 3, ... zeros.

    Examples
    --------
    >>> weights = "".join(chr(0x100 + i) for i in range(101))
    >>> decode_map(weights[7] + "b" + weights[93], code=weights + "abc")
    [7, 0, 0, 0, 93]
    """
    percents: list[int] = []
    for place in map(code.index, text):
        percents += [place] if place <= 100 else [0] * (place - 99)
    return percents


RECORDED = recording("training")


class Training(Widget):
    """When does it learn where to look? A recorded run of the dates task.

    Parameters
    ----------
    snapshot
        Which of the recorded moments, 0 (untrained) to 22.
    example
        Which of the written dates, from 0 on.
    layer
        Of the decoder, 1 or 2.
    head
        Of its cross-attention, 1 to 4; 0 is the mean of all heads.
    place
        Of the answer: which token's look is read out, 0 to 10.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> Training(snapshot=0).written()  # untrained
    '___________'
    """

    name = "training"
    question = "When does it learn where to look?"
    in_repr = ("snapshot", "example", "layer", "head", "place")
    snapshot = Number(0, 0, len(RECORDED["steps"]) - 1, whole=True)
    example = Number(0, 0, len(RECORDED["examples"]) - 1, whole=True)
    layer = Number(2, 1, RECORDED["layers"], whole=True)
    head = Number(0, 0, RECORDED["heads"], whole=True)
    place = Number(5, 0, ROWS - 1, whole=True)
    run = Recorded(RECORDED)

    def __init__(
        self,
        snapshot: int = 8,
        example: int = 0,
        layer: int = 2,
        head: int = 0,
        place: int = 2,
    ) -> None:
        super().__init__(
            run=RECORDED,
            snapshot=snapshot,
            example=example,
            layer=layer,
            head=head,
            place=place,
        )

    def written(self, snapshot: int | None = None) -> str:
        """What the model wrote at that moment, or at another one.

        Returns
        -------
        text
            One character per token, up to eleven: :data:`END` for the end,
            :data:`NOTHING` for a token that is no character.
        """
        at = self.snapshot if snapshot is None else snapshot
        text: str = self.run["examples"][self.example]["written"][at]
        return text

    def measured(self, name: str, snapshot: int | None = None) -> float:
        """A point of a curve: ``"loss"``, or ``"exact_match"`` in percent."""
        at = self.snapshot if snapshot is None else snapshot
        curve = self.run["curve"]
        number: float = curve[name][curve["steps"].index(self.run["steps"][at])]
        return number

    def weights(self) -> list[list[float]]:
        """Cross-attention of the chosen head, in percent.

        Returns
        -------
        rows
            One per token that was written, one column per character of the source.
        """
        example = self.run["examples"][self.example]
        heads, width = int(self.run["heads"]), len(example["source"])
        first = (int(self.layer) - 1) * heads
        chosen = range(heads) if self.head == 0 else (int(self.head) - 1,)
        texts = [example["maps"][self.snapshot][first + h] for h in chosen]
        maps = [decode_map(text, self.run["code"]) for text in texts]
        mean = [sum(column) / len(maps) for column in zip(*maps, strict=True)]
        return [mean[i : i + width] for i in range(0, len(mean), width)]

    def static_view(self) -> str:
        """Write some moments of the run as a table."""
        example, last = self.run["examples"][self.example], len(self.run["steps"]) - 1
        rows = []
        for at in (round(i * last / 6) for i in range(7)):
            said = self.written(at).replace(NOTHING, "")
            loss, right = (self.measured(name, at) for name in ("loss", "exact_match"))
            rows.append(
                (
                    str(self.run["steps"][at]),
                    fixed(loss, 3),
                    f"{fixed(right, 1)} %",
                    said.removesuffix(END) if said.endswith(END) else f"{said}…",
                )
            )
        columns = ("step", "loss", "dates right", "what it writes")
        caption = f"{example['source']} is {example['target']}"
        return f"{table(columns, rows, caption)}\n<p>{HINT}</p>"
