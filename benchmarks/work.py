"""What is measured. Each piece of work gives rows: who, how fast, what ratio."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.contestants import (
    BOS,
    FIRST_WORD,
    PAD,
    SIZES,
    Contestant,
    Ours,
    Size,
    TorchTransformer,
    batch_of,
    present,
)
from benchmarks.measure import Clock, Ratio, Times, interleaved
from transformer_lib.nn import attention
from transformer_lib.tasks import Pair, Task, Vocabulary, WordVocabulary
from transformer_lib.training import Run, Trainer, TrainingSettings

BASELINE = TorchTransformer.name


@dataclass
class Options:
    """What the command line chose."""

    device: torch.device
    rounds: int
    sizes: list[str]
    precisions: list[str]
    new_tokens: int
    quick: bool
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(self.device)


@dataclass
class Row:
    """One contestant at one piece of work."""

    work: str
    who: str
    value: float
    unit: str
    ratio: Ratio | None = None  # over nn.Transformer
    over_best: Ratio | None = None  # over the best other contestant
    utilisation: float | None = None  # share of the best matrix product measured
    seconds: list[float] = field(default_factory=list)


def train(options: Options) -> Iterator[Row]:
    """One training step: forward, loss, backward, AdamW."""
    for size, precision in _settings(options):
        source, target = batch_of(size, options.device)
        everyone = _everyone(size, options, precision)
        calls = {
            c.name: (partial(c.train_step, source, target)) for c in everyone.values()
        }
        times = interleaved(calls, options.rounds, options.clock)
        tokens = size.batch * size.length
        flops = size.batch * _flops(size, training=True)
        peak = peak_flops(options.device, precision)
        yield from _rows(
            f"train {size.name} {precision}",
            *(times, "target tokens/s"),
            per_second=tokens,
            flops=flops,
            peak=peak,
        )


def forward(options: Options) -> Iterator[Row]:
    """The forward pass in evaluation mode."""
    for size, precision in _settings(options):
        source, target = batch_of(size, options.device)
        everyone = _everyone(size, options, precision)
        for contestant in everyone.values():
            contestant.module.eval()
        calls = {
            c.name: partial(c.forward, source, target[:, :-1])
            for c in everyone.values()
        }
        times = interleaved(calls, options.rounds, options.clock)
        yield from _rows(
            f"forward {size.name} {precision}",
            *(times, "target tokens/s"),
            per_second=size.batch * size.length,
            flops=size.batch * _flops(size, training=False),
            peak=peak_flops(options.device, precision),
        )


def decode(options: Options) -> Iterator[Row]:
    """Greedy decoding to a fixed length; bf16: ours in bfloat16 weights, others in both.

    The others are faster in float32 or in bfloat16, depending on the processor; each is
    given both, and the better of the two counts.
    """
    n = options.new_tokens
    for size, precision in _settings(options):
        for batch in (8, 1):
            source = batch_of(size, options.device)[0][:batch]
            everyone = _everyone(size, options, precision)
            if precision == "bf16":
                others = _everyone(size, options, "fp32")
                others.pop(Ours.name)
                everyone |= {f"{name} fp32": c for name, c in others.items()}
            calls = {}
            for name, contestant in everyone.items():
                contestant.prepare_decoding()
                contestant.greedy(source, n)  # caches of layouts, and our unused end
                calls[name] = partial(contestant.greedy, source, n)
            times = _better_of_two(interleaved(calls, options.rounds, options.clock))
            yield from _rows(
                f"greedy {size.name} {precision} batch {batch}",
                *(times, "tokens/s"),
                per_second=batch * n,
            )


def beam(options: Options) -> Iterator[Row]:
    """Beam search with four places, float32."""
    n = options.new_tokens
    for size, precision in _settings(options):
        if precision != "fp32":
            continue
        source = batch_of(size, options.device)[0][:4]
        everyone = _everyone(size, options, precision)
        everyone.pop("x-transformers", None)  # has no batched beam search
        calls = {}
        for name, contestant in everyone.items():
            contestant.prepare_decoding()
            calls[name] = partial(contestant.beam, source, n, places=4)
        times = interleaved(calls, options.rounds, options.clock)
        yield from _rows(
            f"beam 4 {size.name} {precision} batch 4",
            *(times, "tokens/s"),
            per_second=4 * n,
        )


def attention_alone(options: Options) -> Iterator[Row]:
    """Causal attention of 8 heads of 64, forward, against the formula written out."""
    lengths = (128, 512) if options.quick else (128, 256, 512, 1024, 2048, 4096)
    for n in lengths:
        for precision in options.precisions:
            q, k, v = torch.randn(
                3, 1, 8, n, 64, device=options.device, dtype=_dtype(precision)
            )
            hidden = torch.ones(n, n, dtype=torch.bool, device=options.device).triu(1)

            def naive(
                q: Tensor = q, k: Tensor = k, v: Tensor = v, hidden: Tensor = hidden
            ) -> Tensor:
                scores = (q @ k.transpose(-1, -2) / 8.0).masked_fill(hidden, -math.inf)
                return scores.softmax(-1) @ v

            def ours(q: Tensor = q, k: Tensor = k, v: Tensor = v) -> Tensor:
                return attention(q, k, v, is_causal=True)

            with torch.inference_mode():
                error = (naive().float() - ours().float()).abs().max().item()
                if error > (1e-4 if precision == "fp32" else 5e-2):
                    raise ArithmeticError(
                        f"attention, n={n}: results differ by {error}"
                    )
                times = interleaved(
                    {"written out": naive, Ours.name: ours},
                    options.rounds,
                    options.clock,
                )
            for name in times.seconds:
                yield Row(
                    f"attention causal {precision} n={n}",
                    name,
                    1000 * times.median(name),
                    "ms",
                    ratio=times.ratio("written out", name),
                    seconds=times.seconds[name],
                )


def memory(options: Options) -> Iterator[Row]:
    """MiB kept for the backward pass, base, one pair of 1,024 tokens."""
    size = SIZES["base"]
    n = 256 if options.quick else 1024
    generator = torch.Generator().manual_seed(1)
    source, target = torch.randint(
        FIRST_WORD, size.vocab, (2, 1, n + 1), generator=generator
    ).to(options.device)
    for precision in options.precisions:
        kept: dict[str, float] = {}
        for name, contestant in _everyone(size, options, precision).items():
            if isinstance(contestant, Ours) or precision == "fp32":
                kept[name] = saved_bytes(
                    contestant, lambda c=contestant: c.loss(source[:, 1:], target)
                )
                continue
            with torch.autocast(options.device.type, torch.bfloat16):
                kept[name] = saved_bytes(
                    contestant, lambda c=contestant: c.loss(source[:, 1:], target)
                )
        for name, amount in kept.items():
            share = amount / kept[BASELINE]
            yield Row(
                f"kept for backward base {precision} n={n}",
                name,
                amount / 2**20,
                "MiB",
                ratio=Ratio(share, share, share),
            )


def saved_bytes(contestant: Contestant, loss: Callable[[], Tensor]) -> float:
    """Bytes of all distinct tensors that autograd keeps, parameters left out."""
    own = {p.untyped_storage().data_ptr() for p in contestant.module.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = loss()
    del result
    return float(sum(kept.values()))


def buckets(options: Options) -> Iterator[Row]:
    """Cost per real token on sentences of uneven length, in random and sorted batches."""
    size = SIZES["tiny"]
    lengths = sentence_lengths(256 if options.quick else 1024)
    shuffled = [lengths[i : i + size.batch] for i in range(0, len(lengths), size.batch)]
    in_order = np.sort(lengths)
    bucketed = [
        in_order[i : i + size.batch] for i in range(0, len(lengths), size.batch)
    ]
    for precision in options.precisions:
        everyone = _everyone(size, options, precision)
        ours, torchs = everyone[Ours.name], everyone[BASELINE]
        plans = {
            BASELINE: (torchs, shuffled),
            f"{BASELINE}, buckets": (torchs, bucketed),
            Ours.name: (ours, shuffled),
            f"{Ours.name}, buckets": (ours, bucketed),
        }
        calls = {}
        for name, (contestant, plan) in plans.items():
            data = [padded(part, size, options.device) for part in plan]
            calls[name] = lambda c=contestant, d=data: [c.train_step(*b) for b in d]
        times = interleaved(calls, options.rounds, options.clock)
        for name in times.seconds:
            yield Row(
                f"cost per real token tiny {precision}",
                name,
                1e6 * times.median(name) / lengths.sum(),
                "us",
                ratio=times.ratio(BASELINE, name),
                seconds=times.seconds[name],
            )


def loop(options: Options) -> Iterator[Row]:
    """One epoch of our training loop, and one of a plain loop with random batches.

    Ours does all that it does in a real run: it makes batches, smooths labels, clips,
    changes the rate and keeps account. The plain one is given its batches ready.
    """
    if "fp32" not in options.precisions:
        return
    size = SIZES["tiny"]
    lengths = sentence_lengths(256 if options.quick else 1024)
    trainer = Trainer(
        Run(
            task=Captions.name,
            model={"d_ff": size.d_ff, "dropout": 0.0}
            | {"d_model": size.d_model, "num_heads": size.num_heads}
            | {f"num_{side}_layers": size.layers for side in ("encoder", "decoder")},
            settings=TrainingSettings(
                steps=1_000_000,
                max_tokens=size.batch * size.length,
                lr=1e-4,
                validate_every=0,
                device=str(options.device),
                precision="fp32",
            ),
        ),
        task=Captions(lengths, size.vocab),
        progress=False,
    )
    torchs = _everyone(size, options, "fp32")[BASELINE]
    data = [
        padded(lengths[i : i + size.batch], size, options.device)
        for i in range(0, len(lengths), size.batch)
    ]

    def our_epoch() -> None:
        now = trainer.batches.epoch
        while trainer.batches.epoch == now:
            trainer._update()
        trainer._window.take()

    calls = {
        BASELINE: lambda: [torchs.train_step(*batch) for batch in data],
        Ours.name: our_epoch,
    }
    times = interleaved(calls, options.rounds, options.clock)
    for name in times.seconds:
        yield Row(
            "training loop per real token tiny fp32",
            name,
            1e6 * times.median(name) / lengths.sum(),
            "us",
            ratio=times.ratio(BASELINE, name),
            seconds=times.seconds[name],
        )


class Captions(Task):
    """Pairs of random words whose lengths are given."""

    name = "captions"

    def __init__(self, lengths: np.ndarray, vocab: int) -> None:
        super().__init__()
        self.lengths, self.vocab = lengths, vocab

    def options(self) -> dict[str, Any]:
        return {}

    @property
    def max_len(self) -> int:
        return int(self.lengths.max()) + 2

    def _words(self) -> list[str]:
        return [f"w{i}" for i in range(self.vocab - FIRST_WORD)]

    def _make_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        both = WordVocabulary(self._words())
        return both, both

    def _read(self, split: str) -> list[Pair]:
        generator, words = np.random.default_rng(0), np.array(self._words())
        lengths = self.lengths if split == "train" else self.lengths[:1]
        return [
            Pair(*(" ".join(generator.choice(words, n)) for _ in range(2)))
            for n in lengths
        ]


def sentence_lengths(number: int) -> np.ndarray:
    """Lengths like those of Multi30k's captions: log-normal, mean about 14, 4 to 45."""
    rng = np.random.default_rng(0)
    return np.clip(np.rint(rng.lognormal(2.6, 0.33, number)), 4, 45).astype(int)


def padded(
    lengths: np.ndarray, size: Size, device: torch.device
) -> tuple[Tensor, Tensor]:
    """A batch whose rows have these lengths, source and target alike."""
    generator = torch.Generator().manual_seed(int(lengths.sum()))
    n = int(lengths.max())
    ids = torch.randint(
        FIRST_WORD, size.vocab, (2, len(lengths), n + 1), generator=generator
    )
    beyond = torch.arange(n + 1) >= torch.from_numpy(lengths)[:, None]
    source = ids[0, :, :n].masked_fill(beyond[:, :n], PAD)
    target = ids[1].masked_fill(
        torch.arange(n + 1) > torch.from_numpy(lengths)[:, None], PAD
    )
    target[:, 0] = BOS
    return source.to(device), target.to(device)


WORK: dict[str, Callable[[Options], Iterator[Row]]] = {
    "train": train,
    "forward": forward,
    "decode": decode,
    "beam": beam,
    "attention": attention_alone,
    "memory": memory,
    "buckets": buckets,
    "loop": loop,
}


def check(options: Options) -> Iterator[str]:
    """Make sure that everybody computes what a Transformer should, before any timing."""
    for size in (SIZES[name] for name in options.sizes):
        small = Size(
            size.name, size.d_model, size.num_heads, size.d_ff, size.layers, 500, 2, 9
        )
        source, target = batch_of(small, options.device)
        source[0, 6:] = PAD
        changed = target.clone()
        changed[:, 6:] = FIRST_WORD + (changed[:, 6:] + 1) % 400
        longer = torch.cat([source, torch.zeros_like(source[:, :3])], dim=1)
        for name, contestant in _everyone(small, options, "fp32").items():
            contestant.module.eval()
            with torch.inference_mode():
                logits = contestant.logits(source, target)
                causal = (logits - contestant.logits(source, changed))[:, :6]
                padding = logits - contestant.logits(longer, target)
            scale = logits.abs().max().item()
            for what, difference in (("causal", causal), ("padding", padding)):
                off = difference.abs().max().item() / scale
                if not off < 1e-3:
                    raise ArithmeticError(f"{name}, {size.name}: not {what}: {off}")
            contestant.prepare_decoding()
            ids = contestant.greedy(source, 6)
            again = _rerun(contestant, source, 6)
            if ids.shape != (2, 6) or not torch.equal(ids, again):
                raise ArithmeticError(
                    f"{name}, {size.name}: decoding with a cache gives other tokens than "
                    f"running the whole prefix again: {ids.tolist()}, {again.tolist()}"
                )
            number = sum(p.numel() for p in contestant.module.parameters())
            yield f"{name}, {size.name} (500 tokens): right; {number:,} parameters"


@torch.inference_mode()
def _rerun(contestant: Contestant, source: Tensor, n: int) -> Tensor:
    ids = torch.full((source.shape[0], 1), BOS, device=source.device)
    for t in range(n):
        scores = contestant.logits(source, ids)[:, -1]
        if "HF" in contestant.name and t < n:  # its generate never ends before n
            scores[:, 2] = -math.inf
        ids = torch.cat([ids, scores.argmax(-1, keepdim=True)], dim=1)
    return ids[:, 1:]


def peak_flops(device: torch.device, precision: str) -> float:
    """The best matrix product seen on this device, in operations per second."""
    key = (device.type, precision)
    if key not in _peaks:
        clock, best = Clock(device), 0.0
        for n in (1024, 2048) if device.type == "cpu" else (4096, 8192):
            a = torch.randn(n, n, device=device, dtype=_dtype(precision))
            for _ in range(5):
                best = max(best, 2 * n**3 / max(clock.seconds(lambda a=a: a @ a), 1e-9))
        _peaks[key] = best
    return _peaks[key]


_peaks: dict[tuple[str, str], float] = {}


def _settings(options: Options) -> Iterator[tuple[Size, str]]:
    for name in options.sizes:
        for precision in options.precisions:
            yield SIZES[name], precision


def _everyone(size: Size, options: Options, precision: str) -> dict[str, Contestant]:
    return {
        kind.name: kind(size, options.device, precision == "bf16") for kind in present()
    }


def _dtype(precision: str) -> torch.dtype:
    return torch.bfloat16 if precision == "bf16" else torch.float32


def _flops(size: Size, training: bool) -> int:
    from transformer_lib.reference import transformer_flops

    return transformer_flops(
        size.length,
        size.length,
        size.d_model,
        size.d_ff,
        size.layers,
        size.layers,
        size.vocab,
        training,
    )


def _better_of_two(times: Times) -> Times:
    """Of a contestant that ran in two precisions, keep the faster one."""
    kept: dict[str, list[float]] = {}
    for name in times.seconds:
        plain = name.removesuffix(" fp32")
        if plain not in kept or times.median(name) < float(np.median(kept[plain])):
            kept[plain] = times.seconds[name]
    return Times(kept)


def _rows(
    work: str,
    times: Times,
    unit: str,
    per_second: float,
    flops: float | None = None,
    peak: float | None = None,
) -> Iterator[Row]:
    others = [name for name in times.seconds if name != Ours.name]
    best = times.fastest(others)
    for name in times.seconds:
        utilisation = None
        if flops is not None and peak is not None:
            utilisation = flops / times.median(name) / peak
        yield Row(
            work,
            name,
            per_second / times.median(name),
            unit,
            ratio=times.ratio(BASELINE, name),
            over_best=times.ratio(best, name) if name == Ours.name else None,
            utilisation=utilisation,
            seconds=times.seconds[name],
        )


def as_record(row: Row) -> dict[str, Any]:
    """A row as JSON holds it."""

    def ratio(value: Ratio | None) -> list[float] | None:
        if value is None:
            return None
        return [round(x, 4) for x in (value.median, value.low, value.high)]

    return {
        "work": row.work,
        "who": row.who,
        "value": round(row.value, 4),
        "unit": row.unit,
        "ratio": ratio(row.ratio),
        "over_best": ratio(row.over_best),
        "utilisation": None if row.utilisation is None else round(row.utilisation, 4),
        "seconds": [round(s, 6) for s in row.seconds],
    }
