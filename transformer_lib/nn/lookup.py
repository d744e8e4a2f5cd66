"""Soft lookup in PyTorch: the twin of :mod:`transformer_lib.reference.lookup`."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

__all__ = ["SoftLookup", "masked_softmax", "soft_lookup"]


def masked_softmax(
    scores: Float[Tensor, "*axes"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*axes"]:
    """Softmax over the keys that each query may see, zeros elsewhere.

    A query that may see no key at all gets the weights 0 and passes back the gradient
    0, never NaN, in every precision. What stands behind the mask does not matter.

    Parameters
    ----------
    scores
        Shape ``(..., n_queries, n_keys)``, finite where visible; the softmax runs over
        the last axis.
    mask
        Boolean, ``True`` = this query may attend to this key; must broadcast to the
        shape of ``scores``. ``None`` hides nothing.

    Returns
    -------
    weights
        Same shape and precision as ``scores``.

    Raises
    ------
    TypeError
        If ``mask`` is not boolean.
    ValueError
        If ``mask`` does not broadcast to ``scores``, or ``scores`` has no axis.

    Examples
    --------
    >>> scores = torch.tensor([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]])
    >>> mask = torch.tensor([[True, True, False], [False, False, False]])
    >>> masked_softmax(scores, mask)
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    if scores.ndim == 0:
        raise ValueError("scores: got a single number, wanted (..., n_keys)")
    if mask is None:
        return torch.softmax(scores, dim=-1)
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask: got dtype {mask.dtype}, wanted torch.bool with True = may attend; "
            "convert 1/0 with mask.bool()"
        )
    if not _broadcasts_to(mask.shape, scores.shape):
        raise ValueError(
            f"mask: got shape {tuple(mask.shape)}, wanted one that broadcasts to "
            f"{tuple(scores.shape)}"
        )
    # A dead row is filled with 0, not -inf: its softmax then exists, and so does the
    # gradient of it, before the last line sets both to 0.
    alive = mask.any(dim=-1, keepdim=True)
    filling = torch.zeros_like(alive, dtype=scores.dtype).masked_fill(alive, -math.inf)
    weights = torch.softmax(torch.where(mask, scores, filling), dim=-1)
    return weights.masked_fill(~mask, 0.0)


def soft_lookup(
    query: Float[Tensor, "*queries d"],
    keys: Float[Tensor, "n d"],
    values: Float[Tensor, "n d_v"],
    temperature: float = 1.0,
) -> tuple[Float[Tensor, "*queries d_v"], Float[Tensor, "*queries n"]]:
    """Average the values, each weighted by how well its key fits the query.

    Parameters
    ----------
    query
        Shape ``(d,)``, or ``(..., d)`` for many queries.
    keys
        Shape ``(n, d)``.
    values
        Shape ``(n, d_v)``.
    temperature
        Above 0, in units of the scores: low picks, high averages.

    Returns
    -------
    output
        Shape ``(d_v,)``, or ``(..., d_v)``.
    weights
        Shape ``(n,)``, or ``(..., n)``; each row sums to 1.

    Raises
    ------
    ValueError
        If the widths of query and keys differ, the numbers of keys and values differ,
        there are no keys, or ``temperature`` is not above 0.

    Examples
    --------
    >>> output, weights = soft_lookup(
    ...     torch.tensor([math.log(3.0)]), torch.tensor([[1.0], [0.0]]),
    ...     torch.tensor([[8.0], [0.0]]),
    ... )
    >>> output, weights
    (tensor([6.0000]), tensor([0.7500, 0.2500]))
    """
    if keys.ndim != 2 or keys.shape[0] == 0:
        raise ValueError(
            f"keys: got shape {tuple(keys.shape)}, wanted (n, d) with n > 0"
        )
    if query.ndim == 0 or query.shape[-1] != keys.shape[1]:
        raise ValueError(
            f"query: got shape {tuple(query.shape)}, wanted (..., {keys.shape[1]}), "
            "the width of the keys"
        )
    if values.ndim != 2 or values.shape[0] != keys.shape[0]:
        raise ValueError(
            f"values: got shape {tuple(values.shape)}, wanted ({keys.shape[0]}, d_v), "
            "one row per key"
        )
    _check_temperature(temperature)
    weights = torch.softmax(query @ keys.T / temperature, dim=-1)
    return weights @ values, weights


class SoftLookup(nn.Module):
    """A table that is looked up softly and learned: keys and values are parameters.

    ``nn.Embedding`` is the hard counterpart: its keys are the one-hot vectors, fixed,
    and its temperature is 0, so that only the chosen row of values ever learns.

    Parameters
    ----------
    num_entries
        Number of key-value pairs.
    d_key
        Width of a key and of a query.
    d_value
        Width of a value and of the output.
    temperature
        Above 0, in units of the scores.

    Raises
    ------
    ValueError
        If a size is below 1 or ``temperature`` is not above 0.

    Examples
    --------
    >>> table = SoftLookup(num_entries=5, d_key=3, d_value=2)
    >>> table(torch.zeros(7, 3)).shape
    torch.Size([7, 2])
    """

    def __init__(
        self, num_entries: int, d_key: int, d_value: int, temperature: float = 1.0
    ) -> None:
        super().__init__()
        for name, size in (
            ("num_entries", num_entries),
            ("d_key", d_key),
            ("d_value", d_value),
        ):
            if size < 1:
                raise ValueError(f"{name}: got {size}, wanted 1 or more")
        _check_temperature(temperature)
        self.temperature = temperature
        self.keys = nn.Parameter(torch.randn(num_entries, d_key) / math.sqrt(d_key))
        self.values = nn.Parameter(torch.randn(num_entries, d_value))

    def forward(
        self, query: Float[Tensor, "*queries d"]
    ) -> Float[Tensor, "*queries v"]:
        """Return the weighted average of the values for each query."""
        output, _ = soft_lookup(query, self.keys, self.values, self.temperature)
        return output

    def extra_repr(self) -> str:
        """Sizes and temperature, as ``print(model)`` shows them."""
        (num_entries, d_key), d_value = self.keys.shape, self.values.shape[1]
        return (
            f"num_entries={num_entries}, d_key={d_key}, d_value={d_value}, "
            f"temperature={self.temperature}"
        )


def _broadcasts_to(shape: torch.Size, wanted: torch.Size) -> bool:
    return len(shape) <= len(wanted) and all(
        have in (1, want)
        for have, want in zip(reversed(shape), reversed(wanted), strict=False)
    )


def _check_temperature(temperature: float) -> None:
    if not temperature > 0.0:
        raise ValueError(
            f"temperature: got {temperature}, wanted a number above 0; "
            "nn.Embedding and argmax are the limit at 0"
        )
