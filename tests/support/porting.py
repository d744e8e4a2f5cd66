"""torch.nn's modules with the weights of a reference block, to compare with.

This is the one place where our conventions meet torch's: matrices are turned, and the
masks of ``torch.nn.MultiheadAttention`` say ``True`` where ours say ``False``.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor, nn

from transformer_lib.reference.encoder_decoder import (
    DecoderLayerParameters,
    EncoderLayerParameters,
    FeedForwardParameters,
    NormParameters,
    TransformerParameters,
)
from transformer_lib.reference.multi_head import MultiHeadParameters


def tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def torch_attention(
    parameters: MultiHeadParameters, num_heads: int
) -> nn.MultiheadAttention:
    d_model = parameters.W_Q.shape[0]
    has_bias = parameters.b_Q is not None
    module = nn.MultiheadAttention(
        d_model, num_heads, bias=has_bias, batch_first=True, dtype=torch.float64
    )
    _fill_attention(module, parameters)
    return module


def torch_encoder_layer(
    parameters: EncoderLayerParameters,
    num_heads: int,
    norm_first: bool,
    activation: str = "relu",
) -> nn.TransformerEncoderLayer:
    d_model, d_ff = parameters.feed_forward.W_1.shape
    module = nn.TransformerEncoderLayer(
        d_model,
        num_heads,
        d_ff,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm_first,
        dtype=torch.float64,
    )
    _fill_encoder_layer(module, parameters)
    return module


def torch_decoder_layer(
    parameters: DecoderLayerParameters,
    num_heads: int,
    norm_first: bool,
    activation: str = "relu",
) -> nn.TransformerDecoderLayer:
    d_model, d_ff = parameters.feed_forward.W_1.shape
    module = nn.TransformerDecoderLayer(
        d_model,
        num_heads,
        d_ff,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm_first,
        dtype=torch.float64,
    )
    _fill_decoder_layer(module, parameters)
    return module


def torch_transformer(
    parameters: TransformerParameters,
    num_heads: int,
    norm_first: bool,
    activation: str = "relu",
) -> nn.Transformer:
    """``nn.Transformer`` has no embeddings and no head, and always final norms."""
    d_model, d_ff = parameters.encoder[0].feed_forward.W_1.shape
    with warnings.catch_warnings():  # about a fast path that it does not take
        warnings.filterwarnings("ignore", message="enable_nested_tensor is True")
        module = nn.Transformer(
            d_model,
            num_heads,
            len(parameters.encoder),
            len(parameters.decoder),
            d_ff,
            dropout=0.0,
            activation=activation,
            batch_first=True,
            norm_first=norm_first,
            dtype=torch.float64,
        )
    for layer, of_layer in zip(module.encoder.layers, parameters.encoder, strict=True):
        _fill_encoder_layer(layer, of_layer)
    for layer, of_layer in zip(module.decoder.layers, parameters.decoder, strict=True):
        _fill_decoder_layer(layer, of_layer)
    _fill_norm(module.encoder.norm, parameters.encoder_norm)
    _fill_norm(module.decoder.norm, parameters.decoder_norm)
    return module


def attention_gradients(module: nn.MultiheadAttention) -> list[np.ndarray]:
    """In the order and layout of ``MultiHeadParameters``."""
    matrices = [*module.in_proj_weight.grad.chunk(3), module.out_proj.weight.grad]
    arrays = [matrix.T.numpy() for matrix in matrices]
    if module.in_proj_bias is not None:
        biases = [*module.in_proj_bias.grad.chunk(3), module.out_proj.bias.grad]
        arrays += [bias.numpy() for bias in biases]
    return arrays


def norm_gradients(module: nn.LayerNorm) -> list[np.ndarray]:
    return [module.weight.grad.numpy(), module.bias.grad.numpy()]


def encoder_layer_gradients(module: nn.TransformerEncoderLayer) -> list[np.ndarray]:
    """In the order and layout of ``EncoderLayerParameters``."""
    return [
        *attention_gradients(module.self_attn),
        *norm_gradients(module.norm1),
        *_feed_forward_gradients(module),
        *norm_gradients(module.norm2),
    ]


def decoder_layer_gradients(module: nn.TransformerDecoderLayer) -> list[np.ndarray]:
    """In the order and layout of ``DecoderLayerParameters``."""
    return [
        *attention_gradients(module.self_attn),
        *norm_gradients(module.norm1),
        *attention_gradients(module.multihead_attn),
        *norm_gradients(module.norm2),
        *_feed_forward_gradients(module),
        *norm_gradients(module.norm3),
    ]


@torch.no_grad()
def _fill_attention(
    module: nn.MultiheadAttention, parameters: MultiHeadParameters
) -> None:
    matrices = (parameters.W_Q, parameters.W_K, parameters.W_V)
    module.in_proj_weight.copy_(torch.cat([tensor(W.T) for W in matrices]))
    module.out_proj.weight.copy_(tensor(parameters.W_O.T))
    if parameters.b_Q is not None:
        biases = (parameters.b_Q, parameters.b_K, parameters.b_V)
        module.in_proj_bias.copy_(torch.cat([tensor(b) for b in biases]))
        module.out_proj.bias.copy_(tensor(parameters.b_O))


@torch.no_grad()
def _fill_norm(module: nn.LayerNorm, parameters: NormParameters) -> None:
    module.weight.copy_(tensor(parameters.gamma))
    module.bias.copy_(tensor(parameters.beta))


@torch.no_grad()
def _fill_feed_forward(module: nn.Module, parameters: FeedForwardParameters) -> None:
    module.linear1.weight.copy_(tensor(parameters.W_1.T))
    module.linear1.bias.copy_(tensor(parameters.b_1))
    module.linear2.weight.copy_(tensor(parameters.W_2.T))
    module.linear2.bias.copy_(tensor(parameters.b_2))


def _fill_encoder_layer(
    module: nn.TransformerEncoderLayer, parameters: EncoderLayerParameters
) -> None:
    _fill_attention(module.self_attn, parameters.self_attention)
    _fill_norm(module.norm1, parameters.norm_1)
    _fill_feed_forward(module, parameters.feed_forward)
    _fill_norm(module.norm2, parameters.norm_2)


def _fill_decoder_layer(
    module: nn.TransformerDecoderLayer, parameters: DecoderLayerParameters
) -> None:
    _fill_attention(module.self_attn, parameters.self_attention)
    _fill_norm(module.norm1, parameters.norm_1)
    _fill_attention(module.multihead_attn, parameters.cross_attention)
    _fill_norm(module.norm2, parameters.norm_2)
    _fill_feed_forward(module, parameters.feed_forward)
    _fill_norm(module.norm3, parameters.norm_3)


def _feed_forward_gradients(module: nn.Module) -> list[np.ndarray]:
    return [
        module.linear1.weight.grad.T.numpy(),
        module.linear1.bias.grad.numpy(),
        module.linear2.weight.grad.T.numpy(),
        module.linear2.bias.grad.numpy(),
    ]
