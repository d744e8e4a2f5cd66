"""Linear layers: how they begin, and how their weights go to the NumPy twin."""

import math

import numpy as np
import torch
from torch import Tensor, nn

__all__: list[str] = []


def linear(
    d_in: int, d_out: int, generator: torch.Generator | None, bias: bool = True
) -> nn.Linear:
    """Make ``nn.Linear`` with its usual first values, drawn from ``generator`` if given.

    Weights and biases are uniform within ``1 / sqrt(d_in)``.
    """
    layer = nn.Linear(d_in, d_out, bias=bias)
    if generator is not None:
        bound = 1.0 / math.sqrt(d_in)
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return layer


def as_array(tensor: Tensor) -> np.ndarray:
    """Copy to NumPy, float64."""
    array: np.ndarray = tensor.detach().to(device="cpu", dtype=torch.float64).numpy()
    return array.copy()


def as_reference(layer: nn.Linear) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias for ``x W + b``: ``nn.Linear`` keeps its matrix turned."""
    return as_array(layer.weight.T), as_array(layer.bias)
