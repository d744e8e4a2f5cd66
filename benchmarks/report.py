"""Print rows, and write them down with the machine they were measured on."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from benchmarks.contestants import SIZES

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "book" / "benchmarks.md"

# What ours is meant to reach: the lower end of the interval, over nn.Transformer and over
# the best of the others. For bytes, the share of nn.Transformer's that it may reach.
GOALS: dict[str, tuple[float | None, float | None]] = {
    "train base fp32": (1.25, 1.15),
    "train base bf16": (1.8, 1.6),
    "train tiny fp32": (1.4, 1.3),
    "train tiny bf16": (2.5, 1.8),
    "greedy base fp32 batch 8": (6.5, 1.7),
    "greedy base fp32 batch 1": (3.3, 1.45),
    "greedy base bf16 batch 8": (7.8, 2.4),
    "greedy base bf16 batch 1": (3.9, 1.6),
    "attention causal fp32 n=2048": (8.0, None),
    "kept for backward base fp32 n=1024": (0.67, None),
    "kept for backward base bf16 n=1024": (0.35, None),
    "cost per real token tiny fp32": (2.7, None),
    "training loop per real token tiny fp32": (2.7, None),
}


def machine(device: torch.device, threads: int) -> dict[str, Any]:
    """Where the numbers were measured."""
    packages = ("torch", "numpy", "transformers", "x-transformers")
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    bf16 = device.type == "cuda" or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return {
        "device": torch.cuda.get_device_name()
        if device.type == "cuda"
        else processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "bfloat16 units": bool(bf16),
        "threads": threads,
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "versions": found,
    }


def processor() -> str:
    """The processor's name, as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def line(row: dict[str, Any]) -> str:
    """One row, for the screen."""
    use = row["utilisation"]
    parts = [
        f"{row['work']:<38}",
        f"{row['who']:<24}",
        f"{row['value']:>11,.1f} {row['unit']:<16}",
        f"{'' if use is None else f'{use:.0%}':>5}",
        f"{ratio(row['ratio']):<24}",
        ratio(row["over_best"]),
    ]
    return " ".join(parts).rstrip()


def ratio(value: list[float] | None) -> str:
    """Median with its interval."""
    if value is None:
        return ""
    median, low, high = value
    return f"{median:.2f}" if low == high else f"{median:.2f} ({low:.2f} to {high:.2f})"


def verdicts(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ours against the goals: the end of the interval that is against us counts."""
    found = []
    for row in rows:
        goal = GOALS.get(row["work"])
        wanted = "ours, buckets" if "cost per" in row["work"] else "ours"
        if goal is None or row["who"] != wanted:
            continue
        less_is_better = row["unit"] == "MiB"
        for against, target, value in (
            ("nn.Transformer", goal[0], row["ratio"]),
            ("the best other", goal[1], row["over_best"]),
        ):
            if target is None or value is None:
                continue
            counts = value[2] if less_is_better else value[1]
            reached = counts <= target if less_is_better else counts >= target
            found.append(
                {
                    "work": row["work"],
                    "against": against,
                    "goal": target,
                    "counts": counts,
                    "reached": reached,
                }
            )
    return found


def write(rows: list[dict[str, Any]], where: dict[str, Any], path: Path) -> None:
    """Write the JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": where, "rows": rows, "goals": verdicts(rows)}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def page(record: dict[str, Any]) -> str:
    """The page of the book, made from the JSON and nothing else."""
    where = record["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in where["versions"].items())
    threads = "thread" if where["threads"] == 1 else "threads"
    rows = record["rows"]
    works = {row["work"]: [r for r in rows if r["work"] == row["work"]] for row in rows}
    text = [
        "# Benchmarks",
        "",
        INTRODUCTION,
        "| work | over nn.Transformer | over the best other |",
        "|---|---:|---:|",
    ]
    for work, those in works.items():
        ours = _ours(those)
        cells = (ratio(ours["ratio"]), ratio(ours["over_best"]) or "-")
        text.append(f"| {work} | {' | '.join(cells)} |")
    text += ["", READING]
    if "note" in record:
        text += [record["note"] + "\n"]
    for kind in dict.fromkeys(_kind(work) for work in works):
        text += _details(kind, {w: r for w, r in works.items() if _kind(w) == kind})
    text += [
        METHOD.format(
            machine=where["device"],
            threads=f"{where['threads']} {threads}",
            instructions=where["instructions"],
            versions=versions,
            base=_size("base"),
            tiny=_size("tiny"),
        )
    ]
    if not where["bfloat16 units"]:
        text += [NO_BFLOAT16]
    return "\n".join(text).rstrip() + "\n"


def _kind(work: str) -> str:
    """What is done, without the size and the precision."""
    return re.split(r" (?:base|tiny|fp32|bf16)\b", work)[0]


def _details(kind: str, works: dict[str, list[dict[str, Any]]]) -> list[str]:
    """One table of everybody's figures for one kind of work."""
    every = [row for rows in works.values() for row in rows]
    use = any(row["utilisation"] is not None for row in every)
    text = [f"## {kind[0].upper()}{kind[1:]}", ""]
    text += [f"| size | who | {every[0]['unit']} |{' use |' if use else ''} ratio |"]
    text += [f"|---|---|---:|{'---:|' if use else ''}---:|"]
    for row in every:
        cells = [row["work"].removeprefix(kind).strip(), row["who"]]
        cells.append(f"{row['value']:,.1f}")
        if use:
            cells.append(f"{row['utilisation']:.0%}")
        text.append(f"| {' | '.join([*cells, ratio(row['ratio'])])} |")
    return [*text, ""]


def _ours(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Our best row of one piece of work: the last of ours (buckets come last)."""
    return [row for row in rows if row["who"].startswith("ours")][-1]


def _size(name: str) -> str:
    size = SIZES[name]
    return (
        f"*{name}*: width {size.d_model}, {size.num_heads} heads, {size.layers} layers on "
        f"either side, a feed-forward width of {size.d_ff:,}, batches of {size.batch} pairs "
        f"of {size.length} tokens, {size.vocab:,} tokens in the vocabulary"
    )


INTRODUCTION = """\
How many times faster are our modules than those that people use, on the same work? One
processor core; the median, and in brackets the interval that holds it with 95 %.
"""

METHOD = """\
## How it was measured

`make bench` first checks everybody's arithmetic: causal, blind to padding, the same tokens
with a cache as without. Then all run in one process, in turns, and a ratio is taken within
a round, so that what slows the machine slows both sides. The interval is a bootstrap over
the rounds.

There are two sizes. {base}; the widths and depths of 2017. {tiny}. Neither has dropout. The
others are used as their users use them: `torch.nn.Transformer` with embeddings and a head
around it, Marian and BART from Hugging Face, and x-transformers.

The machine: {machine}, {threads}, instructions {instructions}. The versions: {versions}.
"""

NO_BFLOAT16 = """\
This processor has no units for bfloat16, so that bfloat16 was not measured: emulated, it
says nothing about a machine that has them.
"""

READING = """\
A ratio above 1 says how many times faster ours is. One row goes the other way: *kept for
backward* is our share of the bytes that nn.Transformer keeps, and less is better. *Cost per
real token* and *training loop* compare ours, with batches of sentences of like length, with
nn.Transformer in batches as they come. *Attention* is compared with its formula written out.
No GPU has been measured yet.

Only what stands in one table can be compared; seconds move with the machine, and so do
ratios between one kind of machine and another. *Use* is the share of the fastest matrix
product measured on this machine: where it is near 100 %, all wait for the same products, and
nobody can be much faster than the others.
"""
