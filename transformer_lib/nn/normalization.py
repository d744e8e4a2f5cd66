"""Normalisation and residuals: the twin of :mod:`transformer_lib.reference.normalization`."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.nn.checks import check_dropout, check_size
from transformer_lib.nn.linear import as_array
from transformer_lib.reference.encoder_decoder import NormParameters

__all__ = ["LayerNorm", "ResidualSublayer"]


class LayerNorm(nn.Module):
    """Shift each token to mean 0, scale it to variance 1, then apply gamma and beta.

    Parameters
    ----------
    d_model
        Width of a token.
    eps
        Added to the variance under the root, above 0.

    Raises
    ------
    TypeError, ValueError
        If ``d_model`` is not a whole number above 0 or ``eps`` is not above 0.

    References
    ----------
    Ba et al. 2016, *Layer Normalization*, equation 4.

    Examples
    --------
    >>> LayerNorm(3)(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).detach()
    tensor([[-1.2247,  0.0000,  1.2247],
            [-1.2247,  0.0000,  1.2247]])
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        check_size("d_model", d_model)
        if not eps > 0.0:
            raise ValueError(f"eps: got {eps}, wanted a number above 0")
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))

    def forward(
        self, x: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        """Normalise each token over its own numbers.

        Parameters
        ----------
        x
            Tokens, shape ``(..., d_model)``.

        Returns
        -------
        y
            Same shape.

        Raises
        ------
        ValueError
            If the width is not ``d_model``.
        """
        if x.ndim == 0 or x.shape[-1:] != self.gamma.shape:
            raise ValueError(
                f"x: got shape {tuple(x.shape)}, "
                f"wanted (..., d_model={self.gamma.shape[0]})"
            )
        return F.layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.eps)

    def reference_parameters(self) -> NormParameters:
        """Give the same weights to the NumPy twin, in float64."""
        return NormParameters(as_array(self.gamma), as_array(self.beta))

    def extra_repr(self) -> str:
        """Size and eps, as ``print(model)`` shows them."""
        return f"d_model={self.gamma.shape[0]}, eps={self.eps}"


class ResidualSublayer(nn.Module):
    """Put a skip connection and a normalisation around a sub-layer.

    Post-norm, ``norm(x + dropout(sublayer(x)))``, is the paper's order; pre-norm,
    ``x + dropout(sublayer(norm(x)))``, leaves the skip connection untouched from the
    first layer to the last.

    Parameters
    ----------
    d_model
        Width of a token.
    dropout
        Share of the sub-layer's output that is set to 0 in training.
    norm_first
        Pre-norm if ``True``, else post-norm.
    eps
        Of the normalisation.

    Raises
    ------
    TypeError, ValueError
        If ``d_model`` is not a whole number above 0, ``dropout`` is outside [0, 1) or
        ``eps`` is not above 0.

    References
    ----------
    Vaswani et al. 2017, sections 3.1 and 5.4; Xiong et al. 2020, *On Layer
    Normalization in the Transformer Architecture*.

    Examples
    --------
    >>> residual = ResidualSublayer(d_model=2, norm_first=True)
    >>> residual(torch.tensor([[[1.0, 5.0]]]), sublayer=torch.zeros_like).detach()
    tensor([[[1., 5.]]])
    """

    def __init__(
        self,
        d_model: int,
        dropout: float = 0.0,
        norm_first: bool = False,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.norm = LayerNorm(d_model, eps)
        self.dropout = nn.Dropout(check_dropout("dropout", dropout))

    def forward(
        self,
        x: Float[Tensor, "batch n d_model"],
        sublayer: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "batch n d_model"]:
        """Run the sub-layer between skip connection and normalisation.

        Parameters
        ----------
        x
            Tokens, shape ``(batch, n, d_model)``.
        sublayer
            Takes tokens and gives tokens of the same shape.

        Returns
        -------
        y
            Same shape.

        Raises
        ------
        ValueError
            If the sub-layer changes the shape.
        """
        output = self.dropout(sublayer(self.norm(x) if self.norm_first else x))
        if output.shape != x.shape:
            raise ValueError(
                f"sublayer: its output has shape {tuple(output.shape)}, wanted "
                f"{tuple(x.shape)}: it is added to its input"
            )
        return x + output if self.norm_first else self.norm(x + output)

    def extra_repr(self) -> str:
        """The order, as ``print(model)`` shows it."""
        return f"norm_first={self.norm_first}"
