"""Cost: operations, memory and time of a stack of layers, recurrent beside attention.

The counts are those of :mod:`transformer_lib.reference.cost`; the time is a bound from
below, made of the limits that a device is sold or was measured with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import traitlets

from transformer_lib.reference.cost import (
    least_seconds,
    lstm_flops,
    multi_head_attention_flops,
    rnn_flops,
    score_bytes,
)
from transformer_lib.widgets.base import (
    HINT,
    Figure,
    Number,
    OneOf,
    StateError,
    Widget,
    fixed,
    short,
    table,
)

__all__ = ["DEVICES", "MODELS", "Bill", "Cost", "Device", "in_bytes", "in_time"]

MODELS = ("RNN", "LSTM", "plain attention", "fused attention")


@dataclass(frozen=True)
class Device:
    """Limits of a machine: operations and bytes per second, memory, pause, number size.

    Attributes
    ----------
    flops_per_second, bytes_per_second, memory
        Of matrix products, of memory, and its size in bytes.
    pause
        Seconds between two steps of which one waits for the other.
    bytes_each
        Bytes of one number.
    """

    flops_per_second: float
    bytes_per_second: float
    memory: float
    pause: float
    bytes_each: int


DEVICES = {
    "one processor core": Device(1.5e11, 1.2e10, 2.4e10, 1e-5, 4),
    "A100 (80 GB)": Device(3.12e14, 2.039e12, 8e10, 5e-6, 2),
    "H200 (141 GB)": Device(9.89e14, 4.8e12, 1.41e11, 5e-6, 2),
}
"""The core is the one this course was measured on, in float32; the other two are data
sheets, in bfloat16. Pauses are rounded from runs on the core and assumed for the others."""


@dataclass(frozen=True)
class Bill:
    """What one kind of model costs: operations, bytes kept and moved, steps, seconds."""

    flops: int
    kept: int
    moved: int
    steps: int
    seconds: float


def _with_unit(value: float, step: float, units: tuple[str, ...]) -> str:
    place = 0
    while value >= step and place < len(units) - 1:
        value, place = value / step, place + 1
    return f"{fixed(value, 1 if value < 10 else 0)} {units[place]}"


def in_bytes(value: Figure) -> str:
    """Write bytes with a unit that fits.

    Examples
    --------
    >>> in_bytes(512), in_bytes(1536), in_bytes(32 * 2**20)
    ('512 B', '1.5 KiB', '32 MiB')
    """
    return _with_unit(float(value), 1024.0, ("B", "KiB", "MiB", "GiB", "TiB"))


def in_time(seconds: Figure) -> str:
    """Write seconds with a unit that fits.

    Examples
    --------
    >>> in_time(2.5e-6), in_time(0.012), in_time(90)
    ('2.5 µs', '12 ms', '90 s')
    """
    return _with_unit(1e6 * float(seconds), 1000.0, ("µs", "ms", "s", "ks"))


class Cost(Widget):
    """What does a longer text cost? Recurrent layers and attention side by side.

    Parameters
    ----------
    n
        Tokens, 16 to 131,072, a power of two.
    d_model
        Width, 64 to 8,192, a power of two.
    num_heads
        Heads, 1 to 64, a power of two.
    num_layers
        Layers, 1 to 96.
    device
        One of the names in ``DEVICES``.

    Raises
    ------
    StateError
        A ``ValueError`` that names the argument, what came and what was wanted.

    Examples
    --------
    >>> Cost(n=2048, device="one processor core").bills()["RNN"].steps
    12288
    """

    name = "cost"
    question = "What does a longer text cost?"
    in_repr = ("n", "d_model", "num_heads", "num_layers", "device")
    n = Number(1024, 16, 131072, whole=True)
    d_model = Number(512, 64, 8192, whole=True)
    num_heads = Number(8, 1, 64, whole=True)
    num_layers = Number(6, 1, 96, whole=True)
    device = OneOf("H200 (141 GB)", DEVICES)

    def __init__(
        self,
        n: int = 1024,
        d_model: int = 512,
        num_heads: int = 8,
        num_layers: int = 6,
        device: str = "H200 (141 GB)",
    ) -> None:
        super().__init__(
            n=n,
            d_model=d_model,
            num_heads=num_heads,
            num_layers=num_layers,
            device=device,
        )

    @traitlets.validate("n", "d_model", "num_heads")
    def _check_power(self, proposal: Any) -> int:
        value = int(proposal["value"])
        if value & (value - 1):
            name = proposal["trait"].name
            raise StateError(f"{name}: got {value}, wanted a power of two")
        return value

    def bills(self) -> dict[str, Bill]:
        """Count the forward pass of the stack on one text, for each kind of model.

        Returns
        -------
        bills
            Keys are ``MODELS``. Kept for the backward pass are, per token and layer, the
            state of the RNN; gates, cell and state of the LSTM; queries, keys, values
            and averages of attention, and with plain attention the weights of every
            head. Moved are these, the tokens and the parameters; plain attention also
            writes and reads its scores and reads its weights.
        """
        n, d, on = self.n, self.d_model, DEVICES[self.device]
        b = on.bytes_each
        scores = score_bytes(n, n, self.num_heads, b)
        found = {}
        for model, flops, parameters, per_token, weights, again, steps in (
            ("RNN", rnn_flops(n, d, d), 2, 1, 0, 0, n),
            ("LSTM", lstm_flops(n, d, d), 8, 6, 0, 0, n),
            ("plain attention", multi_head_attention_flops(n, n, d), 4, 4, scores,
             3 * scores, 5),
            ("fused attention", multi_head_attention_flops(n, n, d), 4, 4, 0, 0, 3),
        ):  # fmt: skip
            kept = per_token * n * d * b + weights
            moved = (parameters * d * d + n * d) * b + kept + again
            layers = self.num_layers
            found[model] = Bill(
                layers * flops,
                layers * kept,
                layers * moved,
                layers * steps,
                least_seconds(
                    layers * flops,
                    layers * moved,
                    layers * steps,
                    on.flops_per_second,
                    on.bytes_per_second,
                    on.pause,
                ),
            )
        return found

    def static_view(self) -> str:
        """Write the bills as a table."""
        rows = [
            (
                model,
                short(bill.flops),
                in_bytes(bill.kept),
                f"{bill.steps:,}",
                in_time(bill.seconds),
            )
            for model, bill in self.bills().items()
        ]
        columns = ("model", "operations", "kept", "steps in a row", "at least")
        about = (
            f"{self.num_layers} layers, {self.n:,} tokens of width {self.d_model:,}, "
            f"{self.num_heads} heads, {self.device}"
        )
        return f"{table(columns, rows, about)}\n<p>{HINT}</p>"
