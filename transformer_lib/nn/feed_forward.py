"""The feed-forward network: the twin of :mod:`transformer_lib.reference.feed_forward`."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.nn.checks import check_size
from transformer_lib.nn.linear import as_reference, linear
from transformer_lib.reference.encoder_decoder import FeedForwardParameters
from transformer_lib.reference.feed_forward import Activation

__all__ = ["FeedForward"]


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2, the same for every token.

    Parameters
    ----------
    d_model
        Width of a token.
    d_ff
        Width inside, usually ``4 * d_model``.
    activation
        ``"relu"`` (the paper) or ``"gelu"`` (exact, by the error function).
    generator
        Source of the first values; ``None`` is torch's global one.

    Raises
    ------
    TypeError, ValueError
        If a size is not a whole number above 0 or the activation is unknown.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.3, equation 2.

    Examples
    --------
    >>> FeedForward(d_model=8, d_ff=32)(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: Activation = "relu",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_size("d_model", d_model)
        check_size("d_ff", d_ff)
        if activation not in ("relu", "gelu"):
            raise ValueError(f"activation: got {activation!r}, wanted 'relu' or 'gelu'")
        self.activation = activation
        self.W_1 = linear(d_model, d_ff, generator)
        self.W_2 = linear(d_ff, d_model, generator)

    def forward(
        self, x: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        """Widen, bend, narrow.

        Parameters
        ----------
        x
            Tokens, shape ``(..., d_model)``.

        Returns
        -------
        output
            Same shape.

        Raises
        ------
        ValueError
            If the width is not ``d_model``.
        """
        d_model = self.W_2.out_features
        if x.ndim == 0 or x.shape[-1] != d_model:
            raise ValueError(
                f"x: got shape {tuple(x.shape)}, wanted (..., d_model={d_model})"
            )
        bend = F.relu if self.activation == "relu" else F.gelu
        return self.W_2(bend(self.W_1(x)))

    def reference_parameters(self) -> FeedForwardParameters:
        """Give the same weights to the NumPy twin, in float64 and its layout."""
        return FeedForwardParameters(*as_reference(self.W_1), *as_reference(self.W_2))

    def extra_repr(self) -> str:
        """The activation, as ``print(model)`` shows it."""
        return f"activation={self.activation!r}"
