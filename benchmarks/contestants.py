"""Who runs: our model, and the others as their users write them.

Each contestant has random weights of the same size and answers the same few calls. What
differs is said where it differs. Nobody uses dropout, everybody passes the masks that its
users pass.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.decoding import beam_search, greedy, pack
from transformer_lib.nn import Transformer, TransformerConfig
from transformer_lib.reference import sinusoidal_positions
from transformer_lib.training import adamw

PAD, BOS, EOS, FIRST_WORD = 0, 1, 2, 3


@dataclass(frozen=True)
class Size:
    """Widths, depths and a batch."""

    name: str
    d_model: int
    num_heads: int
    d_ff: int
    layers: int
    vocab: int
    batch: int
    length: int

    def config(self, **changes: Any) -> TransformerConfig:
        sizes: dict[str, Any] = {
            "vocab_size": self.vocab,
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "d_ff": self.d_ff,
            "num_encoder_layers": self.layers,
            "num_decoder_layers": self.layers,
            "dropout": 0.0,
            "max_len": 2048,
        }
        return TransformerConfig(**{**sizes, **changes})


BASE = Size("base", 512, 8, 2048, 6, 8000, batch=8, length=64)
TINY = Size("tiny", 128, 4, 512, 2, 8000, batch=64, length=16)
SIZES = {size.name: size for size in (BASE, TINY)}


class Contestant:
    """One model. Subclasses say how its users call it."""

    name = ""
    module: nn.Module

    def __init__(self, size: Size, device: torch.device, bf16: bool) -> None:
        torch.manual_seed(0)
        self.size, self.device, self.bf16 = size, device, bf16
        self.module = self.build().to(device)
        self.optimizer = self.build_optimizer()

    def build(self) -> nn.Module:
        raise NotImplementedError

    def build_optimizer(self) -> Any:
        """As most users write it."""
        return torch.optim.AdamW(self.module.parameters(), lr=1e-4)

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        """Scores of the token after each target token."""
        raise NotImplementedError

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher forcing: all but the last are read, all but the first are asked for."""
        logits = self.logits(source, target[:, :-1])
        return F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            target[:, 1:].reshape(-1),
            ignore_index=PAD,
        )

    def train_step(self, source: Tensor, target: Tensor) -> None:
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            loss = self.loss(source, target)
        loss.backward()
        self.optimizer.step()

    def forward(self, source: Tensor, target: Tensor) -> None:
        with (
            torch.inference_mode(),
            torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16),
        ):
            self.logits(source, target)

    def prepare_decoding(self) -> None:
        """Once per model: switch to evaluation, cast, lay out weights."""
        self.module.eval()
        if self.bf16:
            self.module.to(torch.bfloat16)

    def greedy(self, source: Tensor, n: int) -> Tensor:
        """Exactly ``n`` tokens per row, none of which ends a row."""
        raise NotImplementedError

    def beam(self, source: Tensor, n: int, places: int) -> Tensor:
        """The best of ``places`` beginnings after ``n`` tokens."""
        raise NotImplementedError


class Ours(Contestant):
    """This library, at its fastest for the precision asked for."""

    name = "ours"

    def build(self) -> nn.Module:
        model = Transformer(self.size.config())
        self.packed: Any = None
        self.never = EOS
        return model

    def build_optimizer(self) -> Any:
        # In bfloat16: weights of half the size, and one full-precision copy to update.
        return adamw(self.module, lr=1e-4, bf16_weights=self.bf16)

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        return self.module(source, target)

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        return self.module.loss(source, target)

    def train_step(self, source: Tensor, target: Tensor) -> None:
        self.optimizer.zero_grad()
        self.loss(source, target).backward()
        self.optimizer.step()

    def prepare_decoding(self) -> None:
        self.module.eval()
        if self.device.type == "cuda":
            self.packed = self.module.to(torch.bfloat16) if self.bf16 else self.module
        else:
            self.packed = pack(self.module, torch.bfloat16 if self.bf16 else None)

    def greedy(self, source: Tensor, n: int) -> Tensor:
        ids = self._greedy(source, n)
        if ids.shape != (source.shape[0], n) or bool((ids[:, :-1] == self.never).any()):
            self.never = _unused(ids, self.size.vocab)  # an end that is never written
            ids = self._greedy(source, n)
        return ids

    def _greedy(self, source: Tensor, n: int) -> Tensor:
        return greedy(self.packed, source, bos_id=BOS, eos_id=self.never, max_len=n)

    def beam(self, source: Tensor, n: int, places: int) -> Tensor:
        return beam_search(
            self.packed,
            source,
            bos_id=BOS,
            eos_id=self.size.vocab - 1,
            max_len=n,
            beam_size=places,
        ).ids[:, 0]


class TorchTransformer(Contestant):
    """``torch.nn.Transformer`` with embeddings, positions and a tied head around it."""

    name = "nn.Transformer"

    def build(self) -> nn.Module:
        size = self.size
        body = nn.Transformer(
            size.d_model,
            size.num_heads,
            size.layers,
            size.layers,
            size.d_ff,
            dropout=0.0,
            batch_first=True,
        )
        table = nn.Embedding(size.vocab, size.d_model)
        nn.init.normal_(table.weight, std=size.d_model**-0.5)
        positions = torch.from_numpy(sinusoidal_positions(2048, size.d_model)).float()
        module = nn.ModuleDict({"body": body, "table": table})
        module.register_buffer("positions", positions)
        return module

    def embed(self, ids: Tensor) -> Tensor:
        x = self.module["table"](ids) * math.sqrt(self.size.d_model)
        return x + self.module.positions[: ids.shape[1]]

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        n = target.shape[1]
        future = torch.ones(n, n, dtype=torch.bool, device=self.device).triu(1)
        padding = source == PAD
        return self.module["body"](
            self.embed(source),
            self.embed(target),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_key_padding_mask=target == PAD,
        )

    def score(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.module["table"].weight)

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        return self.score(self.hidden(source, target))

    def greedy(self, source: Tensor, n: int) -> Tensor:
        # It has no cache: the source is read once, the target so far at every step.
        with torch.inference_mode():
            padding = source == PAD
            memory = self.module["body"].encoder(
                self.embed(source), src_key_padding_mask=padding
            )
            ids = torch.full((source.shape[0], 1), BOS, device=self.device)
            for _ in range(n):
                ids = torch.cat([ids, self._next(ids, memory, padding)], dim=1)
        return ids[:, 1:]

    def _next(self, ids: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        return self._last(ids, memory, padding).argmax(-1, keepdim=True)

    def _last(self, ids: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        n = ids.shape[1]
        future = torch.ones(n, n, dtype=torch.bool, device=self.device).triu(1)
        hidden = self.module["body"].decoder(
            self.embed(ids),
            memory,
            tgt_mask=future,
            tgt_is_causal=True,
            memory_key_padding_mask=padding,
        )
        return self.score(hidden[:, -1])

    def beam(self, source: Tensor, n: int, places: int) -> Tensor:
        return beam_search(
            _Prefix(self),
            source,
            bos_id=BOS,
            eos_id=self.size.vocab - 1,
            max_len=n,
            beam_size=places,
        ).ids[:, 0]


class _Prefix:
    """The step interface for ``nn.Transformer``: the source once, the prefix each time."""

    def __init__(self, contestant: TorchTransformer) -> None:
        self.contestant = contestant

    def start(self, source_ids: Tensor, max_len: int) -> Any:
        self.padding = source_ids == PAD
        self.memory = self.contestant.module["body"].encoder(
            self.contestant.embed(source_ids), src_key_padding_mask=self.padding
        )
        self.ids = source_ids.new_empty(source_ids.shape[0], 0)
        return self

    def select(self, rows: Tensor) -> None:
        self.memory, self.padding = self.memory[rows], self.padding[rows]
        self.ids = self.ids[rows]

    def step(self, ids: Tensor, state: Any) -> Tensor:
        self.ids = torch.cat([self.ids, ids[:, None]], dim=1)
        return self.contestant._last(self.ids, self.memory, self.padding)


class HuggingFace(Contestant):
    """Marian of Hugging Face transformers: the 2017 model, with its fused attention."""

    name = "HF Marian"

    def build(self) -> nn.Module:
        from transformers import MarianConfig, MarianMTModel

        return MarianMTModel(MarianConfig(**self.settings(), scale_embedding=True))

    def settings(self) -> dict[str, Any]:
        size = self.size
        return {
            "vocab_size": size.vocab,
            "d_model": size.d_model,
            "encoder_layers": size.layers,
            "decoder_layers": size.layers,
            "encoder_attention_heads": size.num_heads,
            "decoder_attention_heads": size.num_heads,
            "encoder_ffn_dim": size.d_ff,
            "decoder_ffn_dim": size.d_ff,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
            "max_position_embeddings": 2048,
            "activation_function": "relu",
            "pad_token_id": PAD,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "decoder_start_token_id": BOS,
            "forced_eos_token_id": None,
            "attn_implementation": "sdpa",
        }

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        return self.module(
            input_ids=source,
            attention_mask=source != PAD,
            decoder_input_ids=target,
            use_cache=False,
        ).logits

    def greedy(self, source: Tensor, n: int) -> Tensor:
        return self._generate(source, n, 1)

    def beam(self, source: Tensor, n: int, places: int) -> Tensor:
        return self._generate(source, n, places)

    def _generate(self, source: Tensor, n: int, places: int) -> Tensor:
        with torch.inference_mode():
            ids = self.module.generate(
                input_ids=source,
                attention_mask=(source != PAD).long(),
                max_new_tokens=n,
                min_new_tokens=n,
                num_beams=places,
                do_sample=False,
            )
        return ids[:, 1:]


class Bart(HuggingFace):
    """BART of Hugging Face transformers: learned positions."""

    name = "HF BART"

    def build(self) -> nn.Module:
        from transformers import BartConfig, BartForConditionalGeneration

        return BartForConditionalGeneration(BartConfig(**self.settings()))


class XTransformers(Contestant):
    """x-transformers: pre-norm, untied head, fused attention."""

    name = "x-transformers"

    def build(self) -> nn.Module:
        from x_transformers import XTransformer

        size = self.size
        common = {
            "num_tokens": size.vocab,
            "depth": size.layers,
            "heads": size.num_heads,
            "max_seq_len": 2048,
            "attn_dim_head": size.d_model // size.num_heads,
            "attn_flash": True,
        }
        return XTransformer(
            dim=size.d_model,
            tie_token_emb=True,
            pad_value=PAD,
            ignore_index=PAD,
            **{f"enc_{name}": value for name, value in common.items()},
            **{f"dec_{name}": value for name, value in common.items()},
        )

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        mask = source != PAD
        memory = self.module.encoder(source, mask=mask, return_embeddings=True)
        return self.module.decoder.net(target, context=memory, context_mask=mask)

    def greedy(self, source: Tensor, n: int) -> Tensor:
        start = torch.full((source.shape[0], 1), BOS, device=self.device)
        with torch.inference_mode():
            return self.module.generate(
                source, start, n, mask=source != PAD, temperature=0.0, cache_kv=True
            )


PEERS: list[type[Contestant]] = [TorchTransformer, HuggingFace, Bart, XTransformers]
PACKAGES = {
    HuggingFace: "transformers",
    Bart: "transformers",
    XTransformers: "x_transformers",
}


def present() -> list[type[Contestant]]:
    """Ours, torch's, and whichever of the others is installed."""
    found = [
        peer
        for peer in PEERS
        if peer not in PACKAGES or importlib.util.find_spec(PACKAGES[peer]) is not None
    ]
    return [Ours, *found]


def missing() -> list[str]:
    """Names of the contestants that are not installed."""
    return [peer.name for peer in PEERS if peer not in present()]


def batch_of(size: Size, device: torch.device, seed: int = 1) -> tuple[Tensor, Tensor]:
    """A dense batch: every sentence has the full length, one token more for the shift."""
    generator = torch.Generator().manual_seed(seed)
    shape = (size.batch, size.length)
    source = torch.randint(FIRST_WORD, size.vocab, shape, generator=generator)
    target = torch.randint(
        FIRST_WORD, size.vocab, (size.batch, size.length + 1), generator=generator
    )
    target[:, 0] = BOS
    return source.to(device), target.to(device)


def _unused(ids: Tensor, vocab: int) -> int:
    used = set(ids.unique().tolist())
    return next(i for i in range(vocab - 1, 0, -1) if i not in used)
