"""Attention in PyTorch: the twin of :mod:`transformer_lib.reference.attention`.

:func:`attention` is the equation. Which of two ways computes it is decided in
:func:`fused_is_faster`, and nowhere else in the library.
"""

import math
from typing import Literal, overload

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.nn.masks import causal_mask, check_mask

__all__ = ["SelfAttention", "attention"]


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    return_weights: Literal[False] = False,
    bias: Tensor | None = None,
) -> Tensor: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    *,
    return_weights: Literal[True],
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    return_weights: bool = False,
    bias: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]: ...
def attention(
    q: Float[Tensor, "*batch n_q d_k"],
    k: Float[Tensor, "*batch n_k d_k"],
    v: Float[Tensor, "*batch n_k d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    is_causal: bool = False,
    return_weights: bool = False,
    bias: Float[Tensor, "..."] | None = None,
) -> (
    Float[Tensor, "*batch n_q d_v"]
    | tuple[Float[Tensor, "*batch n_q d_v"], Float[Tensor, "*batch n_q n_k"]]
):
    """softmax(q k^T / sqrt(d_k) + bias) v  (Vaswani et al. 2017, eq. 1).

    Parameters
    ----------
    q, k, v
        Queries, keys and values, shapes ``(..., n_q, d_k)``, ``(..., n_k, d_k)`` and
        ``(..., n_k, d_v)``.
    mask
        Boolean, ``True`` = may attend: ``(n_q, n_k)``, or with as many axes as the
        scores, broadcasting to ``(..., n_q, n_k)``.
    is_causal
        Hide later keys from each query. The last query sees the last key.
    return_weights
        Also return the weights, shape ``(..., n_q, n_k)``.
    bias
        Added to the scores; broadcasts to ``(..., n_q, n_k)``.

    Returns
    -------
    output, or (output, weights)
        The output has shape ``(..., n_q, d_v)``. A query that may attend to nothing
        gets zeros, as output, as weights and as gradient.

    Raises
    ------
    TypeError
        If ``mask`` is not boolean or the precisions differ.
    ValueError
        If the shapes do not fit together.

    Examples
    --------
    >>> q = k = v = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> attention(q, k, v, is_causal=True)
    tensor([[1.0000, 0.0000],
            [0.3302, 0.6698]])
    """
    _check_parts(q, k, v)
    scores_shape = (*q.shape[:-1], k.shape[-2])
    if mask is not None:
        check_mask(mask, scores_shape)
    if bias is not None and not _broadcasts_to(bias.shape, scores_shape):
        raise ValueError(
            f"bias: got shape {tuple(bias.shape)}, wanted one that broadcasts to "
            f"{scores_shape}"
        )
    output, weights = attend(q, k, v, mask, is_causal, return_weights, bias)
    return output if weights is None else (output, weights)


def fused_is_faster(q: Tensor, k: Tensor) -> bool:
    """Choose the fused kernel, or two matrix products with a softmax between them.

    The fused kernel (FlashAttention and its kin) never writes the ``n_q x n_k`` weights
    to memory, which wins nearly everywhere. The exception, measured on CPUs with bf16
    matrix units: in half precision its *backward* takes about four times as long as the
    plain products below some 600 keys. Nothing to attend with or to is left to the
    plain way too, whose sums over nothing are zeros.
    """
    if q.numel() == 0 or k.numel() == 0:
        return False
    short_half_training_on_cpu = (
        q.device.type == "cpu"
        and q.dtype in (torch.bfloat16, torch.float16)
        and q.requires_grad
        and k.shape[-2] < 600
    )
    return not short_half_training_on_cpu


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    return_weights: bool = False,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """Compute :func:`attention` without its checks, for callers that made them.

    ``dropout`` is the share of the weights set to 0; the weights returned are those
    before it.
    """
    n_q, n_k = q.shape[-2], k.shape[-2]
    fused = not return_weights and fused_is_faster(q, k)
    dead_rows_possible = mask is not None or (is_causal and n_q > n_k)
    if n_q == 1 and n_k > 0:
        is_causal = False  # a single query is the last one: it sees every key
    # The kernel's own flag spares the mask, but aligns first query with first key.
    by_flag = is_causal and fused and n_q == n_k and mask is None and bias is None
    if is_causal and not by_flag:
        past = causal_mask(n_q, n_k, q.device)
        mask = past if mask is None else mask & past

    alive = None
    if mask is not None and dead_rows_possible:
        # A query that sees nothing would divide 0 by 0. It is shown everything here,
        # and its result is set to 0 below.
        alive = mask.any(dim=-1, keepdim=True)
        mask = mask | ~alive
    if bias is not None:
        bias = bias.to(q.dtype)
        mask = bias if mask is None else torch.where(mask, bias, -math.inf)

    if fused:
        weights = None
        output = F.scaled_dot_product_attention(q, k, v, mask, dropout, by_flag)
    else:
        output, weights = _plain(q, k, v, mask, dropout)
    if alive is not None:
        output = output.masked_fill(~alive, 0.0)
        weights = None if weights is None else weights.masked_fill(~alive, 0.0)
    return output, weights if return_weights else None


def _plain(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    """Write the equation out. Scaling ``q`` first keeps half precision from overflow."""
    scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-1, -2)  # (..., n_q, n_k)
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -math.inf)
        scores = scores + mask
    weights = torch.softmax(scores, dim=-1)
    return F.dropout(weights, dropout) @ v, weights


class SelfAttention(nn.Module):
    """One head: three projections of one source, then attention among its tokens.

    The three matrices are kept apart, as in the equation. Chapter 7's
    ``MultiHeadAttention`` fuses them into one product and has many heads.

    Parameters
    ----------
    d_model
        Width of a token.
    d_head
        Width of queries, keys and values; ``d_model`` if left out.

    Raises
    ------
    ValueError
        If a width is below 1.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.2.1.

    Examples
    --------
    >>> head = SelfAttention(d_model=8, d_head=4)
    >>> tokens = torch.randn(2, 5, 8)
    >>> output, weights = head(tokens, return_weights=True)
    >>> output.shape, weights.shape
    (torch.Size([2, 5, 4]), torch.Size([2, 5, 5]))
    """

    def __init__(self, d_model: int, d_head: int | None = None) -> None:
        super().__init__()
        d_head = d_model if d_head is None else d_head
        for name, width in (("d_model", d_model), ("d_head", d_head)):
            if width < 1:
                raise ValueError(f"{name}: got {width}, wanted 1 or more")
        self.d_model = d_model
        self.query = nn.Linear(d_model, d_head, bias=False)
        self.key = nn.Linear(d_model, d_head, bias=False)
        self.value = nn.Linear(d_model, d_head, bias=False)

    def forward(
        self,
        x: Float[Tensor, "*batch n d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "*batch n d_head"]
        | tuple[Float[Tensor, "*batch n d_head"], Float[Tensor, "*batch n n"]]
    ):
        """Let every token look at the tokens of its own sequence.

        Parameters
        ----------
        x
            The tokens, shape ``(..., n, d_model)``.
        mask
            Boolean, broadcasts to ``(..., n, n)``; ``True`` = may attend.
        is_causal
            Hide later tokens from each token.
        return_weights
            Also return the weights, shape ``(..., n, n)``.

        Returns
        -------
        output, or (output, weights)
            The output has shape ``(..., n, d_head)``.

        Raises
        ------
        TypeError
            If ``mask`` is not boolean.
        ValueError
            If ``x`` is not ``(..., n, d_model)`` or ``mask`` does not broadcast.
        """
        if x.ndim < 2 or x.shape[-1] != self.d_model:
            raise ValueError(
                f"x: got shape {tuple(x.shape)}, wanted (..., n, {self.d_model})"
            )
        q, k, v = self.query(x), self.key(x), self.value(x)
        return attention(q, k, v, mask, is_causal, return_weights)


def _check_parts(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim < 2 or x.shape[:-2] != q.shape[:-2]:
            raise ValueError(
                f"{name}: got shape {tuple(x.shape)}, wanted (..., tokens, width) with "
                f"the leading axes of q, {tuple(q.shape[:-2])}"
            )
        if x.dtype != q.dtype or not x.is_floating_point():
            raise TypeError(
                f"{name}: got {x.dtype}, wanted floating point as all three, q has "
                f"{q.dtype}"
            )
    if k.shape[-1] != q.shape[-1] or q.shape[-1] == 0:
        raise ValueError(
            f"k: got width {k.shape[-1]}, wanted that of the queries, {q.shape[-1]}, "
            "above 0"
        )
    if v.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"v: got {v.shape[-2]} values, wanted {k.shape[-2]}, one per key"
        )


def _broadcasts_to(shape: torch.Size, wanted: tuple[int, ...]) -> bool:
    return len(shape) <= len(wanted) and all(
        have in (1, want)
        for have, want in zip(reversed(shape), reversed(wanted), strict=False)
    )
