"""Checks of arguments, shared by the modules: each names argument, got and wanted."""

from typing import Any

import torch
from torch import Tensor

__all__: list[str] = []


def check_size(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number that is at least ``least``, or raise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: got {value!r}, wanted a whole number")
    if value < least:
        raise ValueError(f"{name}: got {value}, wanted {least} or more")
    return value


def check_heads(d_model: Any, num_heads: Any) -> int:
    """Return the width of one head, or raise if the heads do not divide the width."""
    check_size("d_model", d_model)
    check_size("num_heads", num_heads)
    if d_model % num_heads:
        raise ValueError(
            f"d_model={d_model} is not divisible by num_heads={num_heads}; "
            "each head needs d_model/num_heads columns"
        )
    return int(d_model // num_heads)


def check_dropout(name: str, value: float) -> float:
    """Return a share in [0, 1), or raise."""
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name}: got {value}, wanted a number in [0, 1)")
    return value


def check_tokens(name: str, x: Tensor, d_model: int) -> None:
    """Raise unless ``x`` is floating point of shape (batch, n, d_model)."""
    if x.ndim != 3 or x.shape[-1] != d_model:
        raise ValueError(
            f"{name}: got shape {tuple(x.shape)}, wanted (batch, n, d_model={d_model})"
        )
    if not x.is_floating_point():
        raise TypeError(
            f"{name}: got {x.dtype}, wanted floating point vectors; "
            "token numbers go through an embedding first"
        )


def check_ids(name: str, ids: Tensor, vocab_size: int) -> None:
    """Raise unless ``ids`` are (batch, n) integers inside the vocabulary.

    The numbers themselves are looked at on the CPU only: on a GPU that would make the
    CPU wait, and while compiling there are no numbers yet. There the embedding's own
    check answers.
    """
    if ids.ndim != 2:
        raise ValueError(f"{name}: got shape {tuple(ids.shape)}, wanted (batch, n)")
    if ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name}: got {ids.dtype}, wanted int64 or int32 token numbers")
    if ids.device.type != "cpu" or torch.compiler.is_compiling() or ids.numel() == 0:
        return
    least, most = (int(extreme) for extreme in torch.aminmax(ids))
    if least < 0 or most >= vocab_size:
        raise ValueError(
            f"{name}: got token number {least if least < 0 else most}, "
            f"wanted numbers from 0 to {vocab_size - 1}"
        )
