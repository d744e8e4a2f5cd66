"""Positions in PyTorch: the twin of :mod:`transformer_lib.reference.positions`.

``SinusoidalPositions`` and ``LearnedPositions`` are added to the tokens.
``RotaryPositions`` turns queries and keys, ``Alibi`` and ``RelativeBias`` give numbers
to add to the scores; these three are handed to
:class:`~transformer_lib.nn.multi_head.MultiHeadAttention`.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib.nn.checks import check_size, check_tokens
from transformer_lib.reference.positions import (
    alibi_slopes,
    sinusoidal_positions,
)

__all__ = [
    "Alibi",
    "LearnedPositions",
    "RelativeBias",
    "RotaryPositions",
    "SinusoidalPositions",
]


class _Table(nn.Module):
    """A constant table, rounded once from float64 whenever the precision changes.

    A plain buffer would be rounded again and again by ``.half().float()`` and stay at
    float32's digits after ``.double()``. This one is filled anew after each move, and
    never below float32: positions lose their meaning in eight bits. It is no part of
    the ``state_dict``.
    """

    table: Tensor

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        empty = torch.empty(rows, columns, dtype=torch.get_default_dtype())
        self.register_buffer("table", empty, persistent=False)

    def _values(self) -> Tensor:
        """Compute the table in float64 on the CPU."""
        raise NotImplementedError

    def _fill(self) -> None:
        dtype = torch.promote_types(self.table.dtype, torch.float32)
        if not self.table.is_meta:
            self.table = self._values().to(device=self.table.device, dtype=dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "_Table":
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._fill()
        return self


def _check_places(start: int, n: int, max_len: int) -> None:
    if start < 0:
        raise ValueError(f"start: got {start}, wanted 0 or more")
    if start + n > max_len:
        raise ValueError(
            f"x: got {n} tokens from place {start} on, wanted places below "
            f"max_len={max_len}"
        )


class SinusoidalPositions(_Table):
    """Add sines and cosines of many wavelengths to the tokens.

    Parameters
    ----------
    d_model
        Width of a token, odd or even.
    max_len
        Number of places in the table.

    Raises
    ------
    TypeError, ValueError
        If a size is not a whole number above 0.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.5.

    Examples
    --------
    >>> positions = SinusoidalPositions(d_model=4, max_len=10)
    >>> positions(torch.zeros(1, 2, 4))
    tensor([[[0.0000, 1.0000, 0.0000, 1.0000],
             [0.8415, 0.5403, 0.0100, 0.9999]]])
    """

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__(check_size("max_len", max_len), check_size("d_model", d_model))
        self._fill()

    def _values(self) -> Tensor:
        return torch.from_numpy(sinusoidal_positions(*self.table.shape))

    def forward(
        self, x: Float[Tensor, "batch n d_model"], start: int = 0
    ) -> Float[Tensor, "batch n d_model"]:
        """Add the positions ``start``, ``start + 1``, ... to the tokens.

        Parameters
        ----------
        x
            Tokens, shape ``(batch, n, d_model)``.
        start
            Place of the first token (above 0 when earlier tokens are in a cache).

        Returns
        -------
        x
            Same shape and precision.

        Raises
        ------
        ValueError
            If a place lies beyond ``max_len``.
        """
        max_len, d_model = self.table.shape
        check_tokens("x", x, d_model)
        n = x.shape[1]
        _check_places(start, n, max_len)
        return (x + self.table[start : start + n]).to(x.dtype)

    def extra_repr(self) -> str:
        """Sizes, as ``print(model)`` shows them."""
        max_len, d_model = self.table.shape
        return f"d_model={d_model}, max_len={max_len}"


class LearnedPositions(nn.Module):
    """Add one learned vector per place to the tokens.

    Parameters
    ----------
    d_model
        Width of a token.
    max_len
        Number of places; later ones do not exist for this module.
    std
        Standard deviation of the first values.
    generator
        Source of the first values; ``None`` is torch's global one.

    Raises
    ------
    TypeError, ValueError
        If a size is not a whole number above 0.

    References
    ----------
    Gehring et al. 2017, *Convolutional Sequence to Sequence Learning*, section 3.1.

    Examples
    --------
    >>> LearnedPositions(d_model=4, max_len=10)(torch.zeros(1, 2, 4)).shape
    torch.Size([1, 2, 4])
    """

    def __init__(
        self,
        d_model: int,
        max_len: int = 512,
        std: float = 0.02,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_size("d_model", d_model)
        check_size("max_len", max_len)
        self.table = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.table, std=std, generator=generator)

    def forward(
        self, x: Float[Tensor, "batch n d_model"], start: int = 0
    ) -> Float[Tensor, "batch n d_model"]:
        """Add the positions ``start``, ``start + 1``, ... to the tokens.

        Parameters
        ----------
        x
            Tokens, shape ``(batch, n, d_model)``.
        start
            Place of the first token.

        Returns
        -------
        x
            Same shape.

        Raises
        ------
        ValueError
            If a place lies beyond ``max_len``.
        """
        max_len, d_model = self.table.shape
        check_tokens("x", x, d_model)
        n = x.shape[1]
        _check_places(start, n, max_len)
        return x + self.table[start : start + n]

    def extra_repr(self) -> str:
        """Sizes, as ``print(model)`` shows them."""
        max_len, d_model = self.table.shape
        return f"d_model={d_model}, max_len={max_len}"


class RotaryPositions(_Table):
    """Turn queries and keys by angles that grow with the place (RoPE).

    Neighbouring columns make a pair, as in
    :func:`~transformer_lib.reference.positions.rope`.

    Parameters
    ----------
    d_head
        Width of one head, even.
    max_len
        Number of places in the table of angles.

    Raises
    ------
    TypeError, ValueError
        If a size is not a whole number above 0 or ``d_head`` is odd.

    References
    ----------
    Su et al. 2021, *RoFormer*, equation 34.

    Examples
    --------
    >>> rope = RotaryPositions(d_head=2)
    >>> rope(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    tensor([[1.0000, 0.0000],
            [0.5403, 0.8415]])
    """

    def __init__(self, d_head: int, max_len: int = 5000) -> None:
        if check_size("d_head", d_head) % 2:
            raise ValueError(
                f"d_head: got {d_head}, wanted an even number: columns turn in pairs"
            )
        super().__init__(check_size("max_len", max_len), d_head)
        self._fill()

    def _values(self) -> Tensor:
        # Sine and cosine of place times frequency, side by side: the sinusoidal table.
        return torch.from_numpy(sinusoidal_positions(*self.table.shape))

    def forward(
        self, x: Float[Tensor, "*batch n d_head"], start: int = 0
    ) -> Float[Tensor, "*batch n d_head"]:
        """Turn queries or keys.

        Parameters
        ----------
        x
            Shape ``(..., n, d_head)``.
        start
            Place of the first row.

        Returns
        -------
        rotated
            Same shape and precision.

        Raises
        ------
        ValueError
            If a place lies beyond ``max_len`` or the width is not ``d_head``.
        """
        n, d_head = x.shape[-2:]
        if d_head != self.table.shape[1]:
            raise ValueError(
                f"x: got width {d_head}, wanted d_head={self.table.shape[1]}"
            )
        _check_places(start, n, self.table.shape[0])
        table = self.table[start : start + n]
        sin, cos = table[:, 0::2], table[:, 1::2]
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
        return pairs.flatten(-2).to(x.dtype)

    def extra_repr(self) -> str:
        """Sizes, as ``print(model)`` shows them."""
        max_len, d_head = self.table.shape
        return f"d_head={d_head}, max_len={max_len}"


def _distances(n_queries: int, n_keys: int, device: torch.device) -> Tensor:
    """Key place minus query place, the last query standing at the last key."""
    query = torch.arange(n_keys - n_queries, n_keys, device=device)
    return torch.arange(n_keys, device=device) - query[:, None]


class Alibi(_Table):
    """Penalise each score by the distance between query and key, per head (ALiBi).

    Parameters
    ----------
    num_heads
        Number of heads, each with its own slope.

    Raises
    ------
    TypeError, ValueError
        If ``num_heads`` is not a whole number above 0.

    References
    ----------
    Press et al. 2022, *Train Short, Test Long*, section 3.

    Examples
    --------
    >>> Alibi(num_heads=1)(2, 3)[0] * 256
    tensor([[-1., -0., -1.],
            [-2., -1., -0.]])
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__(check_size("num_heads", num_heads), 1)
        self._fill()

    def _values(self) -> Tensor:
        return torch.from_numpy(alibi_slopes(self.table.shape[0]))[:, None]

    def forward(
        self, n_queries: int, n_keys: int
    ) -> Float[Tensor, "num_heads n_queries n_keys"]:
        """Give the numbers to add to the scores.

        Parameters
        ----------
        n_queries, n_keys
            The last query stands at the last key.

        Returns
        -------
        bias
            Shape ``(num_heads, n_queries, n_keys)``, 0 or below.
        """
        distance = _distances(n_queries, n_keys, self.table.device).abs()
        return -self.table[:, :, None] * distance

    def extra_repr(self) -> str:
        """Number of heads, as ``print(model)`` shows it."""
        return f"num_heads={self.table.shape[0]}"


class RelativeBias(nn.Module):
    """Add one learned number per head and distance to the scores.

    Parameters
    ----------
    num_heads
        Number of heads.
    max_distance
        Distances beyond it share its number, on each side.

    Raises
    ------
    TypeError, ValueError
        If a size is not a whole number above 0.

    References
    ----------
    Shaw et al. 2018, *Self-Attention with Relative Position Representations*; Raffel
    et al. 2020, *Exploring the Limits of Transfer Learning*, section 2.1.

    Examples
    --------
    All zeros at first, so that training begins without a preference:

    >>> RelativeBias(num_heads=2, max_distance=4)(3, 5).abs().max()
    tensor(0., grad_fn=<MaxBackward1>)
    """

    def __init__(self, num_heads: int, max_distance: int = 16) -> None:
        super().__init__()
        check_size("num_heads", num_heads)
        self.max_distance = check_size("max_distance", max_distance)
        self.table = nn.Parameter(torch.zeros(num_heads, 2 * max_distance + 1))

    def forward(
        self, n_queries: int, n_keys: int
    ) -> Float[Tensor, "num_heads n_queries n_keys"]:
        """Give the numbers to add to the scores.

        Parameters
        ----------
        n_queries, n_keys
            The last query stands at the last key.

        Returns
        -------
        bias
            Shape ``(num_heads, n_queries, n_keys)``.
        """
        largest = self.max_distance
        distance = _distances(n_queries, n_keys, self.table.device)
        return self.table[:, distance.clamp(-largest, largest) + largest]

    def extra_repr(self) -> str:
        """Sizes, as ``print(model)`` shows them."""
        return f"num_heads={self.table.shape[0]}, max_distance={self.max_distance}"
