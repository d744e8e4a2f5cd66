"""The whole Transformer: the twin of :mod:`transformer_lib.reference.encoder_decoder`."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.nn.checks import (
    check_ids,
    check_size,
    check_tokens,
)
from transformer_lib.nn.config import TransformerConfig
from transformer_lib.nn.feed_forward import FeedForward
from transformer_lib.nn.linear import as_array, linear
from transformer_lib.nn.masks import check_mask, padding_mask
from transformer_lib.nn.multi_head import (
    KeysAndValues,
    KeyValueCache,
    MultiHeadAttention,
)
from transformer_lib.nn.normalization import LayerNorm, ResidualSublayer
from transformer_lib.nn.positions import (
    Alibi,
    LearnedPositions,
    RelativeBias,
    RotaryPositions,
    SinusoidalPositions,
)
from transformer_lib.nn.training import linear_cross_entropy
from transformer_lib.reference.cost import transformer_flops
from transformer_lib.reference.encoder_decoder import (
    DecoderLayerParameters,
    EncoderLayerParameters,
    TransformerParameters,
)
from transformer_lib.reference.feed_forward import Activation

__all__ = [
    "AttentionMaps",
    "Decoder",
    "DecoderLayer",
    "DecoderState",
    "Encoder",
    "EncoderLayer",
    "Transformer",
]


class AttentionMaps(NamedTuple):
    """Who looked at whom, from the model's own forward pass, one tensor per layer."""

    encoder: list[Float[Tensor, "batch num_heads n_s n_s"]]
    decoder: list[Float[Tensor, "batch num_heads n_t n_t"]]
    cross: list[Float[Tensor, "batch num_heads n_t n_s"]]


class EncoderLayer(nn.Module):
    """Attend to all tokens, then think about each one alone.

    Parameters
    ----------
    d_model, num_heads, d_ff
        Widths; ``num_heads`` divides ``d_model``.
    dropout
        Share set to 0 after each sub-layer, in training.
    norm_first
        Pre-norm if ``True``, else post-norm.
    activation
        ``"relu"`` or ``"gelu"``.
    attention_dropout
        Share of attention weights set to 0, in training.
    positions
        For self-attention; see :class:`~transformer_lib.nn.multi_head.MultiHeadAttention`.
    eps
        Of the normalisations.
    generator
        Source of the first values; ``None`` is torch's global one.

    Raises
    ------
    TypeError, ValueError
        As the blocks that it is made of.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.1.

    Examples
    --------
    >>> layer = EncoderLayer(d_model=8, num_heads=2, d_ff=32)
    >>> layer(torch.randn(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        norm_first: bool = False,
        activation: Activation = "relu",
        attention_dropout: float = 0.0,
        positions: RotaryPositions | Alibi | RelativeBias | None = None,
        eps: float = 1e-5,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(
            d_model,
            num_heads,
            dropout=attention_dropout,
            positions=positions,
            generator=generator,
        )
        self.feed_forward = FeedForward(d_model, d_ff, activation, generator)
        self.residual_1 = ResidualSublayer(d_model, dropout, norm_first, eps)
        self.residual_2 = ResidualSublayer(d_model, dropout, norm_first, eps)

    def forward(
        self,
        x: Float[Tensor, "batch n d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
        maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "batch n d_model"]:
        """Run the two sub-layers.

        Parameters
        ----------
        x
            Tokens, shape ``(batch, n, d_model)``.
        mask
            Boolean, ``True`` = may attend; broadcasts to ``(batch, heads, n, n)``.
        is_causal
            Hide later tokens from each token.
        cache
            Of earlier tokens.
        maps
            A list to which the attention weights are appended.

        Returns
        -------
        y
            Same shape as ``x``.

        Raises
        ------
        TypeError, ValueError
            As :class:`~transformer_lib.nn.multi_head.MultiHeadAttention`.
        """
        look = self.self_attention
        x = self.residual_1(
            x, lambda y: _note(maps, look, y, None, mask, is_causal, cache)
        )
        return self.residual_2(x, self.feed_forward)

    def reference_parameters(self) -> EncoderLayerParameters:
        """Give the same weights to the NumPy twin, in float64 and its layout."""
        return EncoderLayerParameters(
            self.self_attention.reference_parameters(),
            self.residual_1.norm.reference_parameters(),
            self.feed_forward.reference_parameters(),
            self.residual_2.norm.reference_parameters(),
        )


class DecoderLayer(nn.Module):
    """Attend to the target so far, then to the source, then think about each token.

    Parameters
    ----------
    d_model, num_heads, d_ff, dropout, norm_first, activation, attention_dropout, positions, eps, generator
        As in :class:`EncoderLayer`; ``positions`` act in the self-attention only.

    Raises
    ------
    TypeError, ValueError
        As the blocks that it is made of.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 3.1.

    Examples
    --------
    >>> layer = DecoderLayer(d_model=8, num_heads=2, d_ff=32)
    >>> layer(torch.randn(3, 5, 8), memory=torch.randn(3, 7, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        norm_first: bool = False,
        activation: Activation = "relu",
        attention_dropout: float = 0.0,
        positions: RotaryPositions | Alibi | RelativeBias | None = None,
        eps: float = 1e-5,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(
            d_model,
            num_heads,
            dropout=attention_dropout,
            positions=positions,
            generator=generator,
        )
        self.cross_attention = MultiHeadAttention(
            d_model, num_heads, dropout=attention_dropout, generator=generator
        )
        self.feed_forward = FeedForward(d_model, d_ff, activation, generator)
        self.residual_1 = ResidualSublayer(d_model, dropout, norm_first, eps)
        self.residual_2 = ResidualSublayer(d_model, dropout, norm_first, eps)
        self.residual_3 = ResidualSublayer(d_model, dropout, norm_first, eps)

    def forward(
        self,
        x: Float[Tensor, "batch n_t d_model"],
        memory: Float[Tensor, "batch n_s d_model"] | KeysAndValues,
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = True,
        cache: KeyValueCache | None = None,
        maps: list[Tensor] | None = None,
        cross_maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "batch n_t d_model"]:
        """Run the three sub-layers.

        Parameters
        ----------
        x
            Target tokens, shape ``(batch, n_t, d_model)``.
        memory
            Output of the *last* encoder layer, shape ``(batch, n_s, d_model)``, or its
            keys and values, projected by this layer's cross-attention beforehand.
        mask
            Boolean, for the targets among themselves, on top of ``is_causal``.
        memory_mask
            Boolean, which source tokens may be seen.
        is_causal
            Hide later targets from each target.
        cache
            Of earlier targets.
        maps, cross_maps
            Lists to which the attention weights are appended.

        Returns
        -------
        y
            Same shape as ``x``.

        Raises
        ------
        TypeError, ValueError
            As :class:`~transformer_lib.nn.multi_head.MultiHeadAttention`.
        """
        look, consult = self.self_attention, self.cross_attention
        x = self.residual_1(
            x, lambda y: _note(maps, look, y, None, mask, is_causal, cache)
        )
        x = self.residual_2(
            x, lambda y: _note(cross_maps, consult, y, memory, memory_mask)
        )
        return self.residual_3(x, self.feed_forward)

    def reference_parameters(self) -> DecoderLayerParameters:
        """Give the same weights to the NumPy twin, in float64 and its layout."""
        return DecoderLayerParameters(
            self.self_attention.reference_parameters(),
            self.residual_1.norm.reference_parameters(),
            self.cross_attention.reference_parameters(),
            self.residual_2.norm.reference_parameters(),
            self.feed_forward.reference_parameters(),
            self.residual_3.norm.reference_parameters(),
        )


class Encoder(nn.Module):
    """A stack of encoder layers.

    Parameters
    ----------
    config
        Widths, depth and the rest.
    generator
        Source of the first values; ``None`` is torch's global one.

    Examples
    --------
    >>> encoder = Encoder(TransformerConfig.tiny(vocab_size=100))
    >>> encoder(torch.randn(3, 5, 128)).shape
    torch.Size([3, 5, 128])
    """

    def __init__(
        self, config: TransformerConfig, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        shared = _shared_positions(config)
        self.layers = nn.ModuleList(
            EncoderLayer(**_layer_arguments(config, shared, generator))
            for _ in range(config.num_encoder_layers)
        )
        final = config.has_final_norm
        self.norm = LayerNorm(config.d_model, config.eps) if final else None

    def forward(
        self,
        x: Float[Tensor, "batch n d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        caches: list[KeyValueCache] | None = None,
        maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "batch n d_model"]:
        """Run one layer after the other.

        Parameters
        ----------
        x
            Embedded tokens, shape ``(batch, n, d_model)``.
        mask, is_causal
            As in :class:`EncoderLayer`. With ``is_causal`` the stack is a decoder
            without source, as in language models.
        caches
            One per layer, of earlier tokens.
        maps
            A list to which each layer's attention weights are appended.

        Returns
        -------
        memory
            Same shape as ``x``.

        Raises
        ------
        TypeError, ValueError
            As :class:`EncoderLayer`.
        """
        for i, layer in enumerate(self.layers):
            cache = None if caches is None else caches[i]
            x = layer(x, mask, is_causal, cache, maps)
        return x if self.norm is None else self.norm(x)


class Decoder(nn.Module):
    """A stack of decoder layers, each consulting the same memory.

    Parameters
    ----------
    config
        Widths, depth and the rest.
    generator
        Source of the first values; ``None`` is torch's global one.

    Examples
    --------
    >>> decoder = Decoder(TransformerConfig.tiny(vocab_size=100))
    >>> decoder(torch.randn(3, 5, 128), memory=torch.randn(3, 7, 128)).shape
    torch.Size([3, 5, 128])
    """

    def __init__(
        self, config: TransformerConfig, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        shared = _shared_positions(config)
        self.layers = nn.ModuleList(
            DecoderLayer(**_layer_arguments(config, shared, generator))
            for _ in range(config.num_decoder_layers)
        )
        final = config.has_final_norm
        self.norm = LayerNorm(config.d_model, config.eps) if final else None

    def forward(
        self,
        x: Float[Tensor, "batch n_t d_model"],
        memory: Float[Tensor, "batch n_s d_model"] | list[KeysAndValues],
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = True,
        caches: list[KeyValueCache] | None = None,
        maps: list[Tensor] | None = None,
        cross_maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "batch n_t d_model"]:
        """Run one layer after the other.

        Parameters
        ----------
        x
            Embedded target tokens, shape ``(batch, n_t, d_model)``.
        memory
            Output of the encoder, shape ``(batch, n_s, d_model)``, or one pair of keys
            and values per layer (see :meth:`keys_and_values`).
        mask, memory_mask, is_causal
            As in :class:`DecoderLayer`.
        caches
            One per layer, of earlier targets.
        maps, cross_maps
            Lists to which each layer's attention weights are appended.

        Returns
        -------
        y
            Same shape as ``x``.

        Raises
        ------
        TypeError, ValueError
            As :class:`DecoderLayer`.
        """
        for i, layer in enumerate(self.layers):
            cache = None if caches is None else caches[i]
            source = memory[i] if isinstance(memory, list) else memory
            x = layer(x, source, mask, memory_mask, is_causal, cache, maps, cross_maps)
        return x if self.norm is None else self.norm(x)

    def keys_and_values(
        self, memory: Float[Tensor, "batch n_s d_model"]
    ) -> list[KeysAndValues]:
        """Project the memory once for every layer, before decoding in steps.

        Parameters
        ----------
        memory
            Output of the encoder, shape ``(batch, n_s, d_model)``.

        Returns
        -------
        keys_and_values
            One pair per layer, laid out for many short queries.
        """
        layers = cast("Iterable[DecoderLayer]", self.layers)
        pairs = (layer.cross_attention.keys_and_values(memory) for layer in layers)
        return [KeysAndValues(k.contiguous(), v.contiguous()) for k, v in pairs]


class DecoderState:
    """What a decoder remembers between steps: caches, and the source projected once.

    Made by :meth:`Transformer.start`, changed in place by :meth:`Transformer.step`.

    Attributes
    ----------
    length
        Number of target tokens read so far.
    """

    def __init__(
        self,
        caches: list[KeyValueCache],
        memory: list[KeysAndValues],
        memory_mask: Tensor | None,
        batch: int,
        device: torch.device,
    ) -> None:
        self.caches, self.memory, self.memory_mask = caches, memory, memory_mask
        self.length = 0
        self._source_of_row = torch.arange(batch, device=device)

    @property
    def batch(self) -> int:
        """Number of rows being decoded."""
        return self._source_of_row.shape[0]

    def select(self, rows: Int[Tensor, " new_batch"]) -> None:
        """Keep these rows, in this order; a row may come more than once.

        Beam search calls it to follow the best beams, and to make several rows of one.
        While each row stays with its own source sentence, the projected source is left
        where it is.

        Parameters
        ----------
        rows
            Numbers of rows, shape ``(new_batch,)``.
        """
        for cache in self.caches:
            cache.select(rows)
        sources = self._source_of_row[rows]
        if not torch.equal(sources, self._source_of_row):
            self.memory = [KeysAndValues(k[rows], v[rows]) for k, v in self.memory]
            if self.memory_mask is not None:
                self.memory_mask = self.memory_mask[rows]
            self._source_of_row = sources


class Transformer(nn.Module):
    """The encoder-decoder of 2017, and its later variants by configuration.

    Parameters
    ----------
    config
        See :class:`TransformerConfig`.
    generator
        Source of the first values; ``None`` is torch's global one.

    Examples
    --------
    >>> model = Transformer(TransformerConfig.tiny(vocab_size=100))
    >>> source, target = torch.tensor([[5, 6, 7, 0]]), torch.tensor([[1, 8, 9]])
    >>> model(source, target).shape
    torch.Size([1, 3, 100])
    """

    def __init__(
        self, config: TransformerConfig, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.config = config
        d_model = config.d_model
        self.target_embedding = nn.Embedding(config.target_vocabulary, d_model)
        self.own_source_embedding = (
            nn.Embedding(config.source_vocabulary, d_model)
            if config.vocab_size is None
            else None
        )
        for table in (self.target_embedding, self.own_source_embedding):
            if table is not None:  # times sqrt(d_model), each number has variance 1
                nn.init.normal_(
                    table.weight, std=1.0 / math.sqrt(d_model), generator=generator
                )
        self.positions: SinusoidalPositions | LearnedPositions | None = None
        self.target_positions: LearnedPositions | None = None
        if config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(d_model, config.max_len)
        elif config.positions == "learned":
            self.positions = LearnedPositions(
                d_model, config.max_len, generator=generator
            )
            self.target_positions = LearnedPositions(
                d_model, config.max_len, generator=generator
            )
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Encoder(config, generator)
        self.decoder = Decoder(config, generator)
        self.own_head = (
            None
            if config.tie_embeddings
            else linear(d_model, config.target_vocabulary, generator, bias=False)
        )

    @property
    def source_embedding(self) -> nn.Embedding:
        """The table of source tokens: the target's, if the vocabulary is shared."""
        own = self.own_source_embedding
        return self.target_embedding if own is None else own

    @property
    def head(self) -> Float[Tensor, "vocab d_model"]:
        """The last matrix, one row per target token: the target's table, if tied."""
        own = self.own_head
        return self.target_embedding.weight if own is None else own.weight

    def forward(
        self,
        source_ids: Int[Tensor, "batch n_s"],
        target_ids: Int[Tensor, "batch n_t"],
        source_mask: Bool[Tensor, "batch 1 1 n_s"] | None = None,
    ) -> Float[Tensor, "batch n_t vocab"]:
        """Score every token as the next one after each target token.

        Parameters
        ----------
        source_ids
            Token numbers, shape ``(batch, n_s)``.
        target_ids
            Token numbers as the decoder reads them, beginning with the start token,
            shape ``(batch, n_t)``. Padding at their end needs no mask: no token before
            it can see it, and the loss skips it.
        source_mask
            Which source tokens may be seen, shape ``(batch, 1, 1, n_s)``; ``None``
            means all but ``pad_id``.

        Returns
        -------
        logits
            Shape ``(batch, n_t, vocab)``: row ``t`` scores the token after target ``t``.

        Raises
        ------
        TypeError
            If ids are not integers or the mask is not boolean.
        ValueError
            If a shape does not fit, a length exceeds ``max_len``, or an id is outside
            the vocabulary (looked at on the CPU only).
        """
        source_mask = self.source_mask(source_ids, source_mask)
        memory = self.encode(source_ids, source_mask)
        return F.linear(self.decode(target_ids, memory, source_mask), self.head)

    def encode(
        self,
        source_ids: Int[Tensor, "batch n_s"],
        source_mask: Bool[Tensor, "batch 1 1 n_s"] | None = None,
        maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "batch n_s d_model"]:
        """Read the source.

        Parameters
        ----------
        source_ids
            Token numbers, shape ``(batch, n_s)``.
        source_mask
            Which of them may be seen; ``None`` hides none (see :meth:`source_mask`).
        maps
            A list to which each layer's attention weights are appended.

        Returns
        -------
        memory
            Shape ``(batch, n_s, d_model)``.

        Raises
        ------
        TypeError, ValueError
            As :meth:`forward`.
        """
        x = self._embed("source_ids", source_ids, self.source_embedding, self.positions)
        return self.encoder(x, source_mask, maps=maps)

    def decode(
        self,
        target_ids: Int[Tensor, "batch n_t"],
        memory: Float[Tensor, "batch n_s d_model"],
        source_mask: Bool[Tensor, "batch 1 1 n_s"] | None = None,
        maps: list[Tensor] | None = None,
        cross_maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "batch n_t d_model"]:
        """Read the target so far, consulting the source; all places at once.

        Parameters
        ----------
        target_ids
            Token numbers, shape ``(batch, n_t)``.
        memory
            What :meth:`encode` gave.
        source_mask
            Which source tokens may be seen; ``None`` hides none.
        maps, cross_maps
            Lists to which each layer's attention weights are appended.

        Returns
        -------
        hidden
            Shape ``(batch, n_t, d_model)``; times :attr:`head` turned, the logits.

        Raises
        ------
        TypeError, ValueError
            As :meth:`forward`.
        """
        check_tokens("memory", memory, self.config.d_model)
        positions = self.target_positions or self.positions
        x = self._embed("target_ids", target_ids, self.target_embedding, positions)
        return self.decoder(
            x, memory, None, source_mask, maps=maps, cross_maps=cross_maps
        )

    def loss(
        self,
        source_ids: Int[Tensor, "batch n_s"],
        target_ids: Int[Tensor, "batch n_t"],
        label_smoothing: float = 0.0,
        source_mask: Bool[Tensor, "batch 1 1 n_s"] | None = None,
    ) -> Float[Tensor, ""]:
        """Mean surprise over the real target tokens, with teacher forcing.

        The decoder reads all targets but the last and is asked for all but the first:
        the shift happens here.

        Parameters
        ----------
        source_ids
            Token numbers, shape ``(batch, n_s)``.
        target_ids
            Start token, sentence, end token, padding; shape ``(batch, n_t)``, ``n_t``
            at least 2.
        label_smoothing
            Share spread over the vocabulary.
        source_mask
            As in :meth:`forward`.

        Returns
        -------
        loss
            In nats per token.

        Raises
        ------
        TypeError, ValueError
            As :meth:`forward`.
        """
        if target_ids.ndim != 2 or target_ids.shape[1] < 2:
            raise ValueError(
                f"target_ids: got shape {tuple(target_ids.shape)}, wanted (batch, n_t) "
                "with n_t at least 2: a token to read and one to predict"
            )
        inputs, labels = target_ids[:, :-1], target_ids[:, 1:]
        source_mask = self.source_mask(source_ids, source_mask)
        memory = self.encode(source_ids, source_mask)
        hidden = self.decode(inputs, memory, source_mask)
        return linear_cross_entropy(
            hidden, self.head, labels, label_smoothing, self.config.pad_id
        )

    @torch.no_grad()
    def attention_maps(
        self,
        source_ids: Int[Tensor, "batch n_s"],
        target_ids: Int[Tensor, "batch n_t"],
        source_mask: Bool[Tensor, "batch 1 1 n_s"] | None = None,
    ) -> AttentionMaps:
        """Run the model as :meth:`forward` does and give the weights of all heads.

        Parameters
        ----------
        source_ids, target_ids, source_mask
            As in :meth:`forward`.

        Returns
        -------
        maps
            One tensor per layer, first to last.

        Raises
        ------
        TypeError, ValueError
            As :meth:`forward`.
        """
        maps = AttentionMaps([], [], [])
        source_mask = self.source_mask(source_ids, source_mask)
        memory = self.encode(source_ids, source_mask, maps.encoder)
        self.decode(target_ids, memory, source_mask, maps.decoder, maps.cross)
        return maps

    def start(
        self,
        source_ids: Int[Tensor, "batch n_s"],
        max_len: int,
        source_mask: Bool[Tensor, "batch 1 1 n_s"] | None = None,
    ) -> DecoderState:
        """Read the source and prepare to write: first half of the step interface.

        Parameters
        ----------
        source_ids
            Token numbers, shape ``(batch, n_s)``.
        max_len
            How many target tokens will be read at most, the start token included.
        source_mask
            As in :meth:`forward`.

        Returns
        -------
        state
            For :meth:`step`.

        Raises
        ------
        TypeError, ValueError
            As :meth:`forward`, or if ``max_len`` exceeds the model's.
        """
        config = self.config
        if check_size("max_len", max_len) > config.max_len:
            raise ValueError(
                f"max_len: got {max_len}, wanted at most the model's {config.max_len}"
            )
        source_mask = self.source_mask(source_ids, source_mask)
        memory = self.encode(source_ids, source_mask)
        batch, d_head = source_ids.shape[0], config.d_model // config.num_heads
        pairs = self.decoder.keys_and_values(memory)
        like = pairs[0].keys if pairs else memory
        caches = [
            KeyValueCache(batch, config.num_heads, max_len, d_head, like)
            for _ in self.decoder.layers
        ]
        return DecoderState(caches, pairs, source_mask, batch, source_ids.device)

    def step(
        self, ids: Int[Tensor, " batch"], state: DecoderState
    ) -> Float[Tensor, "batch vocab"]:
        """Read one more target token per row: second half of the step interface.

        Parameters
        ----------
        ids
            The token that each row read or wrote last, shape ``(batch,)``.
        state
            From :meth:`start`; it remembers the token.

        Returns
        -------
        logits
            Scores of the next token, shape ``(batch, vocab)``.

        Raises
        ------
        ValueError
            If the number of rows is not the state's, or there is no room left.
        """
        return F.linear(self.advance(ids, state, self.decoder), self.head)

    def advance(
        self, ids: Int[Tensor, " batch"], state: DecoderState, decoder: nn.Module
    ) -> Float[Tensor, "batch d_model"]:
        """Read one more target token per row with a given decoder: :meth:`step`'s core.

        Parameters
        ----------
        ids, state
            As in :meth:`step`.
        decoder
            This model's own, or one that computes the same in another way (see
            :func:`transformer_lib.decoding.pack`).

        Returns
        -------
        hidden
            What the head scores, shape ``(batch, d_model)``.

        Raises
        ------
        ValueError
            As :meth:`step`.
        """
        if ids.shape != (state.batch,):
            raise ValueError(
                f"ids: got shape {tuple(ids.shape)}, wanted ({state.batch},)"
            )
        positions = self.target_positions or self.positions
        x = self._embed(
            "ids", ids[:, None], self.target_embedding, positions, state.length
        )
        hidden: Tensor = decoder(
            x, state.memory, None, state.memory_mask, caches=state.caches
        )
        state.length += 1
        return hidden[:, 0]

    def source_mask(
        self, source_ids: Int[Tensor, "batch n_s"], mask: Tensor | None = None
    ) -> Bool[Tensor, "batch 1 1 n_s"] | None:
        """Tell which source tokens may be seen.

        Parameters
        ----------
        source_ids
            Token numbers, shape ``(batch, n_s)``.
        mask
            Checked and given back, if there is one.

        Returns
        -------
        mask
            Shape ``(batch, 1, 1, n_s)``: all tokens but ``pad_id``. ``None`` if nothing
            is hidden, which spares attention the work; this is looked up on the CPU
            only, since a GPU would have to be waited for.

        Raises
        ------
        TypeError, ValueError
            If ``mask`` is not boolean or has another shape.
        """
        if mask is not None:
            if source_ids.ndim == 2:
                check_mask(mask, (source_ids.shape[0], 1, 1, source_ids.shape[1]))
            return mask
        mask = padding_mask(source_ids, self.config.pad_id)
        may_look = mask.device.type == "cpu" and not torch.compiler.is_compiling()
        return None if may_look and bool(mask.all()) else mask

    def num_parameters(self) -> int:
        """Count the learned numbers, each shared one once.

        Examples
        --------
        >>> Transformer(TransformerConfig.tiny(vocab_size=100)).num_parameters()
        938496
        """
        return sum(parameter.numel() for parameter in self.parameters())

    def flops(
        self, n_source: int, n_target: int, batch: int = 1, training: bool = False
    ) -> int:
        """Count the floating-point operations of one batch.

        Parameters
        ----------
        n_source, n_target, batch
            Size of the batch.
        training
            Count forward and backward, else forward only.

        Returns
        -------
        flops
            See :func:`~transformer_lib.reference.cost.transformer_flops`.

        Raises
        ------
        ValueError
            If a size is negative.
        """
        config = self.config
        return batch * transformer_flops(
            n_source,
            n_target,
            config.d_model,
            config.d_ff,
            config.num_encoder_layers,
            config.num_decoder_layers,
            config.target_vocabulary,
            training,
        )

    def reference_parameters(self) -> TransformerParameters:
        """Give the same weights to the NumPy twin, in float64 and its layout."""
        encoder_layers = cast("Iterable[EncoderLayer]", self.encoder.layers)
        decoder_layers = cast("Iterable[DecoderLayer]", self.decoder.layers)
        last = self.encoder.norm, self.decoder.norm
        norms = [None if norm is None else norm.reference_parameters() for norm in last]
        return TransformerParameters(
            as_array(self.source_embedding.weight),
            as_array(self.target_embedding.weight),
            tuple(layer.reference_parameters() for layer in encoder_layers),
            tuple(layer.reference_parameters() for layer in decoder_layers),
            encoder_norm=norms[0],
            decoder_norm=norms[1],
            head=None if self.own_head is None else as_array(self.own_head.weight.T),
        )

    def extra_repr(self) -> str:
        """Configuration and size, as ``print(model)`` shows them."""
        default = {
            field.name: field.default for field in dataclasses.fields(self.config)
        }
        changed = ", ".join(
            f"{name}={value!r}"
            for name, value in dataclasses.asdict(self.config).items()
            if value != default[name]
        )
        return f"{changed}; {self.num_parameters():,} parameters"

    def _embed(
        self,
        name: str,
        ids: Tensor,
        table: nn.Embedding,
        positions: SinusoidalPositions | LearnedPositions | None,
        start: int = 0,
    ) -> Tensor:
        """Rows of the table times sqrt(d_model), plus positions, then dropout."""
        check_ids(name, ids, table.num_embeddings)
        if start + ids.shape[1] > self.config.max_len:
            raise ValueError(
                f"{name}: got {start + ids.shape[1]} tokens, wanted at most "
                f"max_len={self.config.max_len}"
            )
        x = table(ids) * math.sqrt(self.config.d_model)
        return self.dropout(x if positions is None else positions(x, start))


def _note(
    maps: list[Tensor] | None,
    attention: MultiHeadAttention,
    x: Tensor,
    source: Tensor | KeysAndValues | None,
    mask: Tensor | None,
    is_causal: bool = False,
    cache: KeyValueCache | None = None,
) -> Tensor:
    """Attend; append the weights to ``maps`` if there is such a list."""
    if maps is None:
        return attention(x, source, mask, is_causal, cache=cache)
    output, weights = attention(
        x, source, mask, is_causal, return_weights=True, cache=cache
    )
    maps.append(weights)
    return output


def _shared_positions(config: TransformerConfig) -> RotaryPositions | Alibi | None:
    """What all layers of a stack may share, since nothing in it is learned."""
    if config.positions == "rope":
        return RotaryPositions(config.d_model // config.num_heads, config.max_len)
    return Alibi(config.num_heads) if config.positions == "alibi" else None


def _layer_arguments(
    config: TransformerConfig,
    shared: RotaryPositions | Alibi | None,
    generator: torch.Generator | None,
) -> dict[str, Any]:
    positions: RotaryPositions | Alibi | RelativeBias | None = shared
    if config.positions == "relative":
        positions = RelativeBias(config.num_heads, config.max_distance)
    return {
        "d_model": config.d_model,
        "num_heads": config.num_heads,
        "d_ff": config.d_ff,
        "dropout": config.dropout,
        "norm_first": config.norm_first,
        "activation": config.activation,
        "attention_dropout": config.attention_dropout,
        "positions": positions,
        "eps": config.eps,
        "generator": generator,
    }
