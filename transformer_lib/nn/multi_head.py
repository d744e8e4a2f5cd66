"""Multi-head attention: the twin of :mod:`transformer_lib.reference.multi_head`."""

from typing import Literal, NamedTuple, overload

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib.nn.attention import attend
from transformer_lib.nn.checks import check_dropout, check_heads, check_tokens
from transformer_lib.nn.linear import as_array, linear
from transformer_lib.nn.masks import check_mask
from transformer_lib.nn.positions import Alibi, RelativeBias, RotaryPositions
from transformer_lib.reference.multi_head import MultiHeadParameters

__all__ = [
    "KeyValueCache",
    "KeysAndValues",
    "MultiHeadAttention",
    "merge_heads",
    "split_heads",
]


def split_heads(
    x: Float[Tensor, "batch n d_model"], num_heads: int
) -> Float[Tensor, "batch num_heads n d_head"]:
    """Cut the columns into ``num_heads`` blocks and make the heads an axis.

    Parameters
    ----------
    x
        Shape ``(batch, n, d_model)``.
    num_heads
        Must divide ``d_model``.

    Returns
    -------
    heads
        Shape ``(batch, num_heads, n, d_head)``; no number is copied.

    Raises
    ------
    ValueError
        If ``x`` has not three axes or ``num_heads`` does not divide ``d_model``.

    Examples
    --------
    >>> split_heads(torch.arange(4.0).view(1, 1, 4), num_heads=2)
    tensor([[[[0., 1.]],
    <BLANKLINE>
             [[2., 3.]]]])
    """
    if x.ndim != 3:
        raise ValueError(f"x: got shape {tuple(x.shape)}, wanted (batch, n, d_model)")
    batch, n, d_model = x.shape
    d_head = check_heads(d_model, num_heads)
    return x.view(batch, n, num_heads, d_head).transpose(1, 2)


def merge_heads(
    heads: Float[Tensor, "batch num_heads n d_head"],
) -> Float[Tensor, "batch n d_model"]:
    """Put the heads side by side again: the way back from :func:`split_heads`.

    Parameters
    ----------
    heads
        Shape ``(batch, num_heads, n, d_head)``.

    Returns
    -------
    x
        Shape ``(batch, n, num_heads * d_head)``.

    Raises
    ------
    ValueError
        If ``heads`` has not four axes.

    Examples
    --------
    >>> x = torch.randn(2, 5, 8)
    >>> torch.equal(merge_heads(split_heads(x, num_heads=4)), x)
    True
    """
    if heads.ndim != 4:
        raise ValueError(
            f"heads: got shape {tuple(heads.shape)}, "
            "wanted (batch, num_heads, n, d_head)"
        )
    return heads.transpose(1, 2).flatten(2)


class KeysAndValues(NamedTuple):
    """A source already projected and split, for queries that come later."""

    keys: Float[Tensor, "batch num_heads n_k d_head"]
    values: Float[Tensor, "batch num_heads n_k d_head"]


class KeyValueCache:
    """The keys and values of all tokens so far, in memory laid out beforehand.

    A decoder that writes one token at a time would compute the keys and values of all
    earlier tokens again at each step; here they are kept. The room for ``max_len``
    tokens is taken once, so that no step copies what earlier steps wrote.

    Parameters
    ----------
    batch, num_heads, max_len, d_head
        Sizes of the room.
    like
        A tensor of the precision and device that the keys will have.

    Examples
    --------
    >>> cache = KeyValueCache(1, 2, max_len=8, d_head=4, like=torch.zeros(0))
    >>> keys, values = cache.append(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4))
    >>> keys.shape, cache.length
    (torch.Size([1, 2, 3, 4]), 3)
    """

    def __init__(
        self, batch: int, num_heads: int, max_len: int, d_head: int, like: Tensor
    ) -> None:
        self._keys = like.new_empty(batch, num_heads, max_len, d_head)
        self._values = like.new_empty(batch, num_heads, max_len, d_head)
        self.length = 0

    def append(
        self,
        keys: Float[Tensor, "batch num_heads n d_head"],
        values: Float[Tensor, "batch num_heads n d_head"],
    ) -> KeysAndValues:
        """Write the new keys and values behind the old ones and give all of them.

        Parameters
        ----------
        keys, values
            Of the new tokens, shape ``(batch, num_heads, n, d_head)``.

        Returns
        -------
        keys, values
            Of all tokens so far: views, valid until the next call.

        Raises
        ------
        ValueError
            If there is no room left or the shape does not fit.
        """
        batch, num_heads, max_len, d_head = self._keys.shape
        n = keys.shape[2]
        if keys.shape != (batch, num_heads, n, d_head):
            raise ValueError(
                f"keys: got shape {tuple(keys.shape)}, "
                f"wanted {(batch, num_heads, 'n', d_head)}"
            )
        end = self.length + n
        if end > max_len:
            raise ValueError(
                f"keys: got token {end}, but the cache has room for max_len={max_len}"
            )
        self._keys[:, :, self.length : end] = keys
        self._values[:, :, self.length : end] = values
        self.length = end
        return KeysAndValues(self._keys[:, :, :end], self._values[:, :, :end])

    def select(self, rows: Int[Tensor, " new_batch"]) -> None:
        """Keep these rows of the batch, in this order; a row may come more than once.

        Parameters
        ----------
        rows
            Numbers of rows, shape ``(new_batch,)``.
        """
        n = self.length
        keys, values = self._keys[rows, :, :n], self._values[rows, :, :n]
        if keys.shape[0] != self._keys.shape[0]:
            room = (keys.shape[0], *self._keys.shape[1:])
            self._keys = self._keys.new_empty(room)
            self._values = self._values.new_empty(room)
        self._keys[:, :, :n] = keys
        self._values[:, :, :n] = values


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_h) W_O: several small lookups side by side.

    Self-attention if it is called with one source, cross-attention with two. Keys and
    values come from the same tokens, so one product makes both: ``W_KV`` is ``W_K`` and
    ``W_V`` side by side.

    Parameters
    ----------
    d_model
        Width of a token.
    num_heads
        Must divide ``d_model``.
    bias
        Whether the projections have biases.
    dropout
        Share of the *weights* set to 0 in training. The paper has none; above 0 it is
        slow on CPUs.
    positions
        For self-attention: ``RotaryPositions(d_head)``, ``Alibi(num_heads)`` or
        ``RelativeBias(num_heads)``.
    generator
        Source of the first values; ``None`` is torch's global one.

    Raises
    ------
    TypeError, ValueError
        If a size is not a whole number above 0, ``num_heads`` does not divide
        ``d_model`` or ``dropout`` is outside [0, 1).

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.2.2.

    Examples
    --------
    >>> attend = MultiHeadAttention(d_model=8, num_heads=2)
    >>> x = torch.randn(3, 5, 8)
    >>> output, weights = attend(x, is_causal=True, return_weights=True)
    >>> output.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 5, 5]))
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        bias: bool = True,
        dropout: float = 0.0,
        positions: RotaryPositions | Alibi | RelativeBias | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.d_head = check_heads(d_model, num_heads)
        self.dropout = check_dropout("dropout", dropout)
        self.positions = positions
        self.W_Q = linear(d_model, d_model, generator, bias)
        self.W_KV = linear(d_model, 2 * d_model, generator, bias)
        self.W_O = linear(d_model, d_model, generator, bias)

    @overload
    def forward(
        self,
        x: Tensor,
        source: Tensor | KeysAndValues | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
        return_weights: Literal[False] = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor: ...
    @overload
    def forward(
        self,
        x: Tensor,
        source: Tensor | KeysAndValues | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        return_weights: Literal[True],
        cache: KeyValueCache | None = None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(
        self,
        x: Tensor,
        source: Tensor | KeysAndValues | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
        return_weights: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]: ...
    def forward(
        self,
        x: Float[Tensor, "batch n_q d_model"],
        source: Float[Tensor, "batch n_s d_model"] | KeysAndValues | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        return_weights: bool = False,
        cache: KeyValueCache | None = None,
    ) -> (
        Float[Tensor, "batch n_q d_model"]
        | tuple[
            Float[Tensor, "batch n_q d_model"],
            Float[Tensor, "batch num_heads n_q n_k"],
        ]
    ):
        """Let every token of ``x`` look at the tokens of the source.

        Parameters
        ----------
        x
            The tokens that ask, shape ``(batch, n_q, d_model)``.
        source
            The tokens that answer: ``None`` means ``x`` itself (self-attention);
            what :meth:`keys_and_values` returned spares projecting them again.
        mask
            Boolean, ``True`` = may attend: ``(n_q, n_k)``, or four axes that broadcast
            to ``(batch, num_heads, n_q, n_k)``.
        is_causal
            Hide later keys from each query; may be combined with ``mask``.
        return_weights
            Also return the weights, before dropout.
        cache
            For self-attention in steps: the new keys and values go into it, and the
            queries see all that it holds.

        Returns
        -------
        output, or (output, weights)
            Shapes ``(batch, n_q, d_model)`` and ``(batch, num_heads, n_q, n_k)``.

        Raises
        ------
        TypeError
            If ``mask`` is not boolean or ``x`` is not floating point.
        ValueError
            If the shapes do not fit together, or ``source`` is given to a module with
            ``positions`` or together with ``cache``.
        """
        check_tokens("x", x, self.d_model)
        if source is not None and (cache is not None or self.positions is not None):
            raise ValueError(
                "source: got one, wanted None, since this call has "
                f"{'a cache' if cache is not None else 'positions'}: both belong to "
                "self-attention, where queries and keys stand in one sequence"
            )
        start = 0 if cache is None else cache.length
        q = split_heads(self.W_Q(x), self.num_heads)
        if isinstance(source, KeysAndValues):
            k, v = source
        else:
            k, v = self.keys_and_values(x if source is None else source)
        if isinstance(self.positions, RotaryPositions):
            q, k = self.positions(q, start), self.positions(k, start)
        if cache is not None:
            k, v = cache.append(k, v)
        n_q, n_k = q.shape[2], k.shape[2]
        bias = None
        if isinstance(self.positions, Alibi | RelativeBias):
            bias = self.positions(n_q, n_k)
        if mask is not None:
            check_mask(mask, (x.shape[0], self.num_heads, n_q, n_k))
        dropout = self.dropout if self.training else 0.0
        heads, weights = attend(q, k, v, mask, is_causal, return_weights, bias, dropout)
        output = self.W_O(merge_heads(heads))
        return output if weights is None else (output, weights)

    def keys_and_values(
        self, source: Float[Tensor, "batch n_s d_model"]
    ) -> KeysAndValues:
        """Project the tokens that answer, once for many queries.

        Parameters
        ----------
        source
            Shape ``(batch, n_s, d_model)``.

        Returns
        -------
        keys, values
            Shape ``(batch, num_heads, n_s, d_head)``.

        Raises
        ------
        TypeError, ValueError
            If ``source`` is not floating point or has another shape.
        """
        check_tokens("source", source, self.d_model)
        keys, values = self.W_KV(source).chunk(2, dim=-1)
        return KeysAndValues(
            split_heads(keys, self.num_heads), split_heads(values, self.num_heads)
        )

    def reference_parameters(self) -> MultiHeadParameters:
        """Give the same weights to the NumPy twin, in float64 and its layout."""
        W_K, W_V = self.W_KV.weight.chunk(2)
        matrices = (self.W_Q.weight, W_K, W_V, self.W_O.weight)
        arrays = [as_array(matrix.T) for matrix in matrices]
        if self.W_Q.bias is None:
            return MultiHeadParameters(*arrays)
        b_K, b_V = self.W_KV.bias.chunk(2)
        biases = (self.W_Q.bias, b_K, b_V, self.W_O.bias)
        return MultiHeadParameters(*arrays, *(as_array(bias) for bias in biases))

    def extra_repr(self) -> str:
        """Sizes, as ``print(model)`` shows them."""
        dropout = f", dropout={self.dropout}" if self.dropout else ""
        return (
            f"d_model={self.d_model}, num_heads={self.num_heads}, "
            f"d_head={self.d_head}{dropout}"
        )
