"""The same decoder with its weights laid out for a handful of rows.

One step of decoding multiplies every weight of the decoder with one row per sentence:
the time goes into reading the weights, not into arithmetic, so how they lie in memory
decides. Everything that depends on the processor is in :class:`PackedLinear`.
"""

import copy
import functools
import platform
from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.nn import DecoderState, Transformer

__all__ = ["PackedTransformer", "pack"]


class PackedTransformer(nn.Module):
    """A Transformer for decoding only; made by :func:`pack`."""

    def __init__(self, model: Transformer, dtype: torch.dtype | None) -> None:
        super().__init__()
        self.model = model
        self.decoder = _packed(model.decoder, dtype)
        self.head = PackedLinear(model.head, None, dtype)

    def start(
        self,
        source_ids: Int[Tensor, "batch n_s"],
        max_len: int,
        source_mask: Bool[Tensor, "batch 1 1 n_s"] | None = None,
    ) -> DecoderState:
        """Read the source; see :meth:`transformer_lib.nn.Transformer.start`."""
        return self.model.start(source_ids, max_len, source_mask)

    def step(
        self, ids: Int[Tensor, " batch"], state: DecoderState
    ) -> Float[Tensor, "batch vocab"]:
        """Read one more token per row; see :meth:`transformer_lib.nn.Transformer.step`."""
        return self.head(self.model.advance(ids, state, self.decoder))


def pack(model: Transformer, dtype: torch.dtype | None = None) -> PackedTransformer:
    """Make a copy of the model whose decoder is laid out for decoding.

    It gives the same tokens and takes as much memory again as the decoder. It is a
    snapshot: training the model afterwards does not change it. Worth it on the CPU,
    when more than a few sentences are decoded; on a GPU it changes nothing.

    Parameters
    ----------
    model
        The model; it is left as it is, and still needed (it reads the source).
    dtype
        Precision of the decoder's matrices; ``None`` keeps theirs. With
        ``torch.bfloat16`` half the bytes are read, while everything between the
        matrices stays in full precision: normalisation, attention, cache.

    Returns
    -------
    packed
        Offers the step interface, for every function of this package.

    Raises
    ------
    TypeError
        If ``model`` is not a Transformer of this library.
    ValueError
        If ``dtype`` is not a floating point precision.

    Examples
    --------
    >>> from transformer_lib.decoding import greedy
    >>> from transformer_lib.nn import TransformerConfig
    >>> model = Transformer(TransformerConfig.tiny(vocab_size=20))
    >>> request = {"bos_id": 1, "eos_id": 2, "max_len": 6}
    >>> source = torch.tensor([[5, 6, 7, 0], [8, 9, 3, 4]])
    >>> torch.equal(greedy(pack(model), source, **request), greedy(model, source, **request))
    True
    """
    if not isinstance(model, Transformer):
        raise TypeError(f"model: got {type(model).__name__}, wanted a Transformer")
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"dtype: got {dtype}, wanted a floating point precision")
    return PackedTransformer(model, dtype)


class PackedLinear(nn.Module):
    """``x W + b`` for few rows, without gradients.

    Each layout for the case in which it was the fastest:

    * a single row: the matrix as it is, or turned, ``(d_in, d_out)``, whichever makes
      the longer runs of numbers, so that the product reads it from front to back;
    * several rows: MKL's own layout on Intel's processors, made for one number of rows
      and kept; oneDNN's on others, which is made once and serves any number of rows.
      On an AMD processor the oneDNN layout took 0.7 of the time of MKL's with one
      thread, and half with two;
    * bfloat16 asked for, on a processor with bfloat16 units: oneDNN's layout, half the
      bytes of the others.

    Elsewhere (a GPU, a PyTorch without MKL) it is an ordinary linear layer. Input and
    output keep the precision of ``x``, whatever that of the matrix.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype | None
    ) -> None:
        super().__init__()
        dtype = dtype or weight.dtype
        self.out_features, self.in_features = weight.shape
        self._weight = weight.detach().to(dtype)
        self._bias = None if bias is None else bias.detach().to(dtype)
        self._layouts: dict[int, Tensor] = {}
        on_cpu = weight.device.type == "cpu"
        full, half = dtype == torch.float32, dtype == torch.bfloat16
        intel = _processor_is("GenuineIntel")
        self._half = on_cpu and half and _onednn_has_bf16()
        self._mkl = on_cpu and full and intel and torch._C.has_mkl
        self._onednn = on_cpu and full and not intel and _onednn_is_there()
        self._turn = on_cpu and not self._half and self.out_features >= self.in_features

    def forward(self, x: Float[Tensor, "*rows d_in"]) -> Float[Tensor, "*rows d_out"]:
        """Multiply."""
        rows = x.reshape(-1, x.shape[-1]).to(self._weight.dtype)
        return self._multiply(rows).to(x.dtype).reshape(*x.shape[:-1], -1)

    def _multiply(self, rows: Tensor) -> Tensor:
        n, weight, bias = rows.shape[0], self._weight, self._bias
        if self._half or (self._onednn and n > 1):
            # In full precision, what is made for 16 rows is good for any number above 1.
            key = n if self._half else 16
            layout = self._layout(key, torch.ops.mkldnn._reorder_linear_weight)
            return torch.ops.mkldnn._linear_pointwise(
                rows, layout, bias, "none", [], ""
            )
        if self._mkl and 4 <= n <= 512:
            layout = self._layout(n, torch.ops.mkl._mkl_reorder_linear_weight)
            return torch.ops.mkl._mkl_linear(rows, layout, weight, bias, n)
        if self._turn:
            turned = self._layout(0, lambda matrix, _: matrix.T.contiguous())
            return rows @ turned if bias is None else torch.addmm(bias, rows, turned)
        return F.linear(rows, weight, bias)

    def _layout(self, n: int, make: Callable[[Tensor, int], Tensor]) -> Tensor:
        """The matrix laid out for ``n`` rows, made the first time it is asked for."""
        if n not in self._layouts:
            self._layouts[n] = make(self._weight, n)
        return self._layouts[n]


@functools.cache
def _processor_is(maker: str) -> bool:
    """Whether the processor says that this maker made it."""
    try:
        name = Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        name = platform.processor()
    return maker in name


def _onednn_is_there() -> bool:
    """Whether this PyTorch has oneDNN, for a processor of the x86 family."""
    has_it: bool = torch._C._has_mkldnn
    return has_it and platform.machine().lower() in ("x86_64", "amd64")


def _onednn_has_bf16() -> bool:
    """Whether oneDNN is there and this processor has bfloat16 units."""
    has_it: bool = torch._C._has_mkldnn
    return has_it and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _packed(module: nn.Module, dtype: torch.dtype | None) -> nn.Module:
    """The same module around packed linear layers; everything else is shared."""
    if isinstance(module, nn.Linear):
        return PackedLinear(module.weight, module.bias, dtype)
    twin = copy.copy(module)
    twin._modules = {
        name: None if child is None else _packed(child, dtype)
        for name, child in module._modules.items()
    }
    return twin
