"""What decides the shape of a Transformer."""

from dataclasses import dataclass
from typing import Any, Literal

from transformer_lib.nn.checks import check_dropout, check_heads, check_size
from transformer_lib.reference.feed_forward import Activation

__all__ = ["TransformerConfig"]

Positions = Literal["sinusoidal", "learned", "rope", "alibi", "relative", "none"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Everything that decides the shape of a Transformer.

    See :class:`~transformer_lib.nn.encoder_decoder.Transformer`.

    Give ``vocab_size`` for one vocabulary and one embedding table on both sides, or
    ``src_vocab_size`` and ``tgt_vocab_size`` for two.

    Parameters
    ----------
    vocab_size, src_vocab_size, tgt_vocab_size
        Numbers of tokens: the first alone, or the other two.
    d_model, num_heads, d_ff
        Widths: of a token, number of heads (divides ``d_model``), inside the
        feed-forward network.
    num_encoder_layers, num_decoder_layers
        Depths, 0 or more.
    max_len
        Longest sequence, source or target, in tokens.
    dropout
        Share set to 0 after each sub-layer and on the embedded tokens, in training.
    attention_dropout
        Share of attention weights set to 0; the paper has none, and it is slow on CPUs.
    norm_first
        Pre-norm if ``True``, else post-norm (the paper's order).
    final_norm
        A normalisation behind each stack; ``None`` means as ``norm_first``, since
        pre-norm needs it and the paper's model has none.
    activation
        ``"relu"`` or ``"gelu"``.
    positions
        ``"sinusoidal"``, ``"learned"``, ``"rope"``, ``"alibi"``, ``"relative"``,
        ``"none"``. The last four leave the tokens as they are; RoPE, ALiBi and the
        relative bias act in self-attention.
    max_distance
        Of the relative bias.
    tie_embeddings
        Use the target's embedding as the last matrix too.
    pad_id
        Token that fills up sentences, inside every vocabulary.
    eps
        Of the normalisations.

    Raises
    ------
    TypeError, ValueError
        If a value cannot be handled; the message names it.

    Examples
    --------
    >>> TransformerConfig.base(vocab_size=37_000).d_model
    512
    >>> TransformerConfig(vocab_size=100, d_model=10, num_heads=4)
    Traceback (most recent call last):
    ...
    ValueError: d_model=10 is not divisible by num_heads=4; each head needs d_model/num_heads columns
    """

    vocab_size: int | None = None
    src_vocab_size: int | None = None
    tgt_vocab_size: int | None = None
    d_model: int = 512
    num_heads: int = 8
    d_ff: int = 2048
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    max_len: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm_first: bool = False
    final_norm: bool | None = None
    activation: Activation = "relu"
    positions: Positions = "sinusoidal"
    max_distance: int = 16
    tie_embeddings: bool = True
    pad_id: int = 0
    eps: float = 1e-5

    def __post_init__(self) -> None:
        d_head = check_heads(self.d_model, self.num_heads)
        for name in ("d_ff", "max_len", "max_distance"):
            check_size(name, getattr(self, name))
        for name in ("num_encoder_layers", "num_decoder_layers", "pad_id"):
            check_size(name, getattr(self, name), least=0)
        for name in ("dropout", "attention_dropout"):
            check_dropout(name, getattr(self, name))
        if self.activation not in ("relu", "gelu"):
            raise ValueError(
                f"activation: got {self.activation!r}, wanted 'relu' or 'gelu'"
            )
        known = ("sinusoidal", "learned", "rope", "alibi", "relative", "none")
        if self.positions not in known:
            raise ValueError(
                f"positions: got {self.positions!r}, wanted one of {known}"
            )
        if self.positions == "rope" and d_head % 2:
            raise ValueError(
                f"num_heads: got {self.num_heads}, so that each head has {d_head} "
                "columns, wanted an even number for positions='rope'"
            )
        if not self.eps > 0.0:
            raise ValueError(f"eps: got {self.eps}, wanted a number above 0")
        self._check_vocabularies()

    def _check_vocabularies(self) -> None:
        both = (self.src_vocab_size, self.tgt_vocab_size)
        one = self.vocab_size is not None and both == (None, None)
        two = self.vocab_size is None and None not in both
        if not one and not two:
            raise ValueError(
                f"vocab_size={self.vocab_size}, src_vocab_size={both[0]}, "
                f"tgt_vocab_size={both[1]}: wanted the first alone, or the other two"
            )
        for name in ("vocab_size", "src_vocab_size", "tgt_vocab_size"):
            size = getattr(self, name)
            if size is not None and self.pad_id >= check_size(name, size):
                raise ValueError(
                    f"pad_id: got {self.pad_id}, wanted a number below {name}={size}"
                )

    @property
    def source_vocabulary(self) -> int:
        """Number of source tokens."""
        return self.vocab_size or self.src_vocab_size or 0

    @property
    def target_vocabulary(self) -> int:
        """Number of target tokens."""
        return self.vocab_size or self.tgt_vocab_size or 0

    @property
    def has_final_norm(self) -> bool:
        """Whether each stack ends in a normalisation."""
        return self.norm_first if self.final_norm is None else self.final_norm

    @classmethod
    def base(cls, **changes: Any) -> "TransformerConfig":
        """The base model of 2017: 63,082,496 parameters with 37,000 shared tokens.

        Examples
        --------
        >>> TransformerConfig.base(vocab_size=37_000, dropout=0.3).dropout
        0.3
        """
        return cls(**changes)

    @classmethod
    def big(cls, **changes: Any) -> "TransformerConfig":
        """The big model of 2017: 214,245,376 parameters with 37,000 shared tokens.

        Examples
        --------
        >>> TransformerConfig.big(vocab_size=37_000).num_heads
        16
        """
        sizes = {"d_model": 1024, "num_heads": 16, "d_ff": 4096, "dropout": 0.3}
        return cls(**{**sizes, **changes})

    @classmethod
    def tiny(cls, **changes: Any) -> "TransformerConfig":
        """A model for one processor core: width 128, 4 heads, 2 and 2 layers.

        Examples
        --------
        >>> TransformerConfig.tiny(vocab_size=100).d_ff
        512
        """
        sizes = {
            "d_model": 128,
            "num_heads": 4,
            "d_ff": 512,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
        }
        return cls(**{**sizes, **changes})
