"""Running parity: after each bit, is the number of ones so far odd?"""

import torch
from jaxtyping import Int
from torch import Tensor

__all__ = ["parity_batch"]


def parity_batch(
    length: int, count: int, generator: torch.Generator
) -> tuple[Int[Tensor, "count length"], Int[Tensor, "count length"]]:
    """Draw rows of random bits and the answer after every bit.

    Parameters
    ----------
    length, count
        Bits in a row, and rows; 0 or more.
    generator
        Source of the random numbers.

    Returns
    -------
    tuple of Tensor
        Bits and parities, each ``(count, length)``. The parity is 1 where the ones up
        to and including this bit are odd in number. One flipped bit turns every
        answer from there on.

    Raises
    ------
    ValueError
        If ``length`` or ``count`` is negative.

    Examples
    --------
    >>> bits, parity = parity_batch(5, 3, torch.Generator().manual_seed(0))
    >>> bool((parity[:, 0] == bits[:, 0]).all())
    True
    """
    for name, value in (("length", length), ("count", count)):
        if value < 0:
            raise ValueError(f"{name}: got {value}, wanted 0 or more")
    bits = torch.randint(2, (count, length), generator=generator)
    return bits, bits.cumsum(1) % 2
