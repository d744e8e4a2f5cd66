"""Depth: what signal and gradient do in a stack that has not been trained.

Nothing is computed in the browser: the widget plays recorded runs. They lie in
``data/normalization.json`` and are written by
``python -m transformer_lib.experiments.normalization widget``.
"""

from __future__ import annotations

from typing import Any

from transformer_lib.widgets.base import (
    HINT,
    Number,
    OneOf,
    Recorded,
    StateError,
    Widget,
    recording,
    short,
    table,
)

__all__ = ["Depth"]

RECORDED = recording("normalization")


class Depth(Widget):
    """What does depth do to signal and gradient? Recorded runs of fresh stacks.

    Parameters
    ----------
    layers
        Depth of the stack: 2, 4, 8, 12, 24 or 48.
    arrangement
        What stands around each sub-layer: ``"plain"``, ``"norm"``, ``"skip"``,
        ``"post-norm"`` or ``"pre-norm"``.
    start
        How the matrices begin: ``"Xavier"``, ``"default"`` or ``"0.02"``.
    layer
        The layer that is read out, 1 to ``layers``.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> Depth(arrangement="pre-norm")
    Depth(layers=24, arrangement='pre-norm', start='Xavier', layer=1)
    """

    name = "normalization"
    question = "What does depth do to signal and gradient?"
    layers = OneOf(24, RECORDED["layers"])
    arrangement = OneOf("skip", RECORDED["arrangements"])
    start_of_weights = OneOf("Xavier", RECORDED["starts"])
    layer = Number(1, 1, 48, whole=True)
    runs = Recorded(RECORDED)

    def __init__(
        self,
        layers: int = 24,
        arrangement: str = "skip",
        start: str = "Xavier",
        layer: int = 1,
    ) -> None:
        super().__init__(
            runs=RECORDED,
            layers=layers,
            arrangement=arrangement,
            start_of_weights=start,
            layer=layer,
        )
        if self.layer > self.layers:
            raise StateError(
                f"layer: got {layer}, wanted 1 to {self.layers}, the number of layers"
            )

    def run(self, arrangement: str | None = None) -> dict[str, list[float]]:
        """The recorded numbers of the chosen stack, or of another arrangement.

        Returns
        -------
        dict
            ``"sizes"``: root mean square of the stream before the first layer and after
            each; ``"gradients"``: norm of the gradient of each layer's weights.
        """
        name = arrangement or self.arrangement
        run: dict[str, list[float]] = self.runs["runs"][
            f"{name}, {self.start_of_weights}, {self.layers}"
        ]
        return run

    def static_view(self) -> str:
        """Write the ends of all arrangements at this depth and start as a table."""
        rows = []
        for arrangement in self.runs["arrangements"]:
            run = self.run(arrangement)
            ends = (run["sizes"][-1], run["gradients"][0], run["gradients"][-1])
            rows.append((arrangement, *map(short, ends)))
        columns = (
            "around each sub-layer",
            f"stream after layer {self.layers}",
            "gradient of layer 1",
            f"gradient of layer {self.layers}",
        )
        caption = f"{self.layers} layers, start: {self.start_of_weights}"
        return f"{table(columns, rows, caption)}\n<p>{HINT}</p>"

    def _shown_in_repr(self) -> dict[str, Any]:
        return {
            "layers": self.layers,
            "arrangement": self.arrangement,
            "start": self.start_of_weights,
            "layer": self.layer,
        }
