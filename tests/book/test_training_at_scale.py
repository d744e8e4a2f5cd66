"""The page on training at scale: its examples run, and each figure is computed again."""

from __future__ import annotations

import doctest
import inspect
import math
import random
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.run import get_args_parser
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_lib.experiments.cost import saved_bytes
from transformer_lib.experiments.training import PEAKS_OF_CARDS, load_gpu_record
from transformer_lib.nn import Transformer, TransformerConfig
from transformer_lib.reference.cost import least_seconds
from transformer_lib.tasks import load_task
from transformer_lib.tasks.batches import padding_share, sorted_batches
from transformer_lib.training.checkpoint import STATE
from transformer_lib.training.command import _parser
from transformer_lib.training.loop import Trainer
from transformer_lib.training.optimizer import adamw
from transformer_lib.training.presets import preset
from transformer_lib.widgets.cost import DEVICES

PAGE = Path(__file__).resolve().parents[2] / "book" / "training_at_scale.md"
TEXT = PAGE.read_text(encoding="utf-8")
CARDS = {  # memory in bytes, bytes per second: the data sheets that the page links to
    "T4": (16e9, 0.32e12),
    "L4": (24e9, 0.3e12),
    "A100": (80e9, 2.039e12),
    "H200": (141e9, 4.8e12),
}
PAUSE = 5e-6
UTILISATION = (0.2, 0.5)
PAIR = {"dates": (16, 12), "Multi30k": (16, 16), "base": (25, 25)}
BUDGET = 4096 // 16, 25_000 // 25  # pairs in one update: of Multi30k, of the paper


# ---------------------------------------------------------------------------- reading


def tables() -> list[list[dict[str, str]]]:
    """Every table of the page, as rows of name -> cell."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in block.strip().split("\n")
        )
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def table(column: str) -> list[dict[str, str]]:
    """The only table that has such a column."""
    (found,) = (rows for rows in tables() if column in rows[0])
    return found


def said(pattern: str) -> tuple[str, ...]:
    """What the page says at the only place that fits; white space is one space."""
    found = re.findall(pattern, " ".join(TEXT.split()))
    assert len(found) == 1, (pattern, found)
    return found[0] if isinstance(found[0], tuple) else (found[0],)


def short(value: float) -> str:
    """Two digits, as the page writes figures that are estimates."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def commands() -> list[str]:
    """The command lines that the page shows, each in one line."""
    blocks = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").split("\n")
    return [line for line in lines if line.strip() and not line.startswith("#")]


# --------------------------------------------------------------------------- computing


@cache
def model(name: str) -> Transformer:
    if name == "base":
        with torch.device("meta"):  # sizes only
            return Transformer(TransformerConfig.base(vocab_size=37_000))
    if name == "dates":
        run = preset("dates", "tiny")
        return Transformer(run.config(load_task("dates", **run.task_options)))
    sizes = preset("multi30k", "tiny").model
    return Transformer(TransformerConfig(vocab_size=9_700, **sizes))


def ids(name: str, pairs: int, extra: int = 0) -> torch.Tensor:
    length = PAIR[name][1] if extra else PAIR[name][0]
    return torch.randint(3, 14, (pairs, length + extra))


def update_flops(name: str) -> float:
    pairs = BUDGET[name == "base"]
    return float(pairs * model(name).flops(*PAIR[name], training=True))


class Operations(TorchDispatchMode):
    """Counts what is computed: neither views of memory nor empty memory."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func._schema.name
        is_view = any(
            part.alias_info is not None and not part.alias_info.is_write
            for part in func._schema.returns
        )
        if not is_view and "empty" not in name and "_unsafe_view" not in name:
            self.count += 1
        return func(*args, **(kwargs or {}))


@cache
def operations_of_an_update() -> int:
    tiny = model("Multi30k").train()
    optimizer = adamw(tiny)
    count = 0
    for _ in range(2):  # the first update also makes Adam's moments
        optimizer.zero_grad(set_to_none=True)
        with Operations() as counted:
            tiny.loss(ids("Multi30k", 4), ids("Multi30k", 4, 1), 0.1).backward()
            nn.utils.clip_grad_norm_(tiny.parameters(), 1.0, foreach=True)
            optimizer.step()
        count = counted.count
    return count


def bytes_per_pair_of_tokens(name: str, few: int, many: int) -> float:
    """What autograd keeps for one source token and one target token more."""
    trained = model(name)
    if name == "base":
        trained = Transformer(trained.config)
    trained.train()
    kept = [
        saved_bytes(
            lambda pairs=pairs: trained.loss(
                ids(name, pairs), ids(name, pairs, 1), 0.1
            ),
            *trained.parameters(),
        )
        for pairs in (few, many)
    ]
    return (kept[1] - kept[0]) / ((many - few) * PAIR[name][1])


# ------------------------------------------------------------------------------ checks


def test_the_examples_of_the_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    parser = doctest.DocTestParser()
    test = parser.get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) >= 8
    assert doctest.DocTestRunner().run(test).failed == 0


def test_the_page_says_whether_a_run_on_a_gpu_is_recorded() -> None:
    """With the first record this page wants its figures beside the estimates."""
    none = "**No run on a GPU has been recorded for this course yet.**"
    assert (none in TEXT) == (load_gpu_record() is None)


def test_random_batches_of_dates_are_a_third_padding() -> None:
    dates = load_task("dates", train=20_000)
    pairs = dates.encode(dates.pairs("train"))
    random.Random(0).shuffle(pairs)
    some = [pairs[i : i + 64] for i in range(0, 12_800, 64)]
    rows = (sorted_batches(part, max_tokens=64 * 30) for part in some)
    batches = [batch for part in rows for _, batch in part]
    assert len(batches) == len(some)  # each is one batch of 64
    (share,) = said(r"64 dates drawn at random it is (\d+) %")
    assert share == f"{100 * padding_share(batches):.0f}"


def test_the_formats() -> None:
    rows = table("largest number")
    assert [row["format"] for row in rows] == ["`float32`", "`bfloat16`", "`float16`"]
    for row in rows:
        kind = torch.finfo(getattr(torch, row["format"].strip("`")))
        fraction = -round(math.log2(kind.eps))
        assert row["bits behind the point"] == str(fraction)
        assert row["bits of the exponent"] == str(kind.bits - 1 - fraction)
        assert float(row["smallest normal number"]) == pytest.approx(
            kind.tiny, rel=0.05
        )
        largest = float(row["largest number"].replace(",", ""))
        assert largest == pytest.approx(kind.max, rel=0.01)
    (small,) = said(r"Gradients are often smaller than ([\d.e-]+)")
    assert small == rows[2]["smallest normal number"]
    (least,) = said(r"smaller than 1/(\d+) of a weight")
    assert int(least) == 2 ** (1 + int(rows[1]["bits behind the point"]))


def test_checkpoints_are_three_numbers_per_parameter() -> None:
    sizes = said(r"Chapter 12's model takes (\d+) MB .*? 2017 takes (\d+) MB")
    wanted = [12 * model(name).num_parameters() / 1e6 for name in ("dates", "base")]
    assert [float(size) for size in sizes] == [round(size) for size in wanted]
    names = [row["file"].strip("`") for row in table("what it holds")]
    assert names[-1] == STATE
    source = inspect.getsource(Trainer)
    for name in names[:-1]:
        assert f'"{name.removesuffix(".safetensors")}"' in source


def test_work() -> None:
    rows = table("operations per target token")
    assert [row["model"] for row in rows] == list(PAIR)
    for row in rows:
        name = row["model"]
        parameters = model(name).num_parameters()
        assert row["parameters"] == f"{parameters:,}"
        assert row["tokens (source, target)"] == "{}, {}".format(*PAIR[name])
        flops = model(name).flops(*PAIR[name], training=True) / PAIR[name][1]
        assert row["operations per target token"] == f"{flops / 1e6:.1f} million"
        assert row["per parameter"] == f"{flops / parameters:.1f}"


def test_limits_are_those_of_the_library() -> None:
    rows = table("TFLOP/s")
    assert [row["card"] for row in rows] == list(CARDS)
    for row in rows:
        peak = float(row["TFLOP/s"]) * 1e12
        memory = float(row["memory"].removesuffix(" GB")) * 1e9
        speed = float(row["GB/s"].replace(",", "")) * 1e9
        assert peak == PEAKS_OF_CARDS[row["card"]]
        for name, device in DEVICES.items():  # of the widget of chapter 11
            if name.startswith(row["card"]):
                limits = (
                    device.flops_per_second,
                    device.memory,
                    device.bytes_per_second,
                )
                assert (peak, memory, speed) == limits
                assert device.pause == PAUSE
    (pause,) = said(r"We assume (\d+) microseconds")
    assert float(f"{pause}e-6") == PAUSE
    low, high = said(r"We assume (\d+) % to (\d+) % for a model that fills")
    assert (float(low) / 100, float(high) / 100) == UTILISATION


def test_estimates() -> None:
    count = operations_of_an_update()
    (said_count,) = said(r"update of the Multi30k model is (\d+) operations")
    assert abs(int(said_count) - count) <= 10  # another PyTorch may need a few more
    count = int(said_count)
    updates = preset("multi30k", "tiny").settings.steps
    (waiting,) = said(r"Then 8,000 updates take (\d+) seconds")
    assert updates == 8_000
    assert waiting == short(updates * count * PAUSE)
    rows = table("base: 100,000 updates")
    assert [row["card"] for row in rows] == list(CARDS)
    for row in rows:
        peak = PEAKS_OF_CARDS[row["card"]]
        flops = updates * update_flops("Multi30k")
        least = least_seconds(flops, 0, updates * count, peak, 1, PAUSE)
        assert row["Multi30k: arithmetic"] == f"{short(flops / peak)} s"
        assert row["with pauses"] == f"at least {short(least)} s"
        share = 100 * flops / peak / least
        assert row["fills the card to at most"] == f"{short(share)} %"
        hours = 100_000 * update_flops("base") / peak / 3600
        quick, slow = (short(hours / share) for share in reversed(UTILISATION))
        assert row["base: 100,000 updates"] == f"{quick} to {slow} h"


def test_what_a_network_costs() -> None:
    gradients = 4 * model("base").num_parameters()
    (size,) = said(r"for the base model 2 · (\d+) MB")
    assert size == f"{gradients / 1e6:.0f}"
    network, computing = said(
        r"10 gigabits per second it takes ([\d.]+) seconds, .*? 30 % of its speed ([\d.]+)"
    )
    assert network == f"{2 * gradients / (10e9 / 8):.2f}"
    assert computing == f"{update_flops('base') / (0.3 * PEAKS_OF_CARDS['A100']):.2f}"


def test_memory_of_the_parameters() -> None:
    rows = table("bytes per parameter")[:3]
    assert sum(int(row["bytes per parameter"]) for row in rows) == 16
    for row in rows:
        for name in ("Multi30k", "base"):
            size = int(row["bytes per parameter"]) * model(name).num_parameters()
            assert row[name] == f"{size / 1e6:.0f} MB"


@pytest.mark.parametrize(
    ("name", "pairs"),
    [("Multi30k", (16, 32)), pytest.param("base", (2, 6), marks=pytest.mark.slow)],
)
def test_memory_of_the_backward_pass(name: str, pairs: tuple[int, int]) -> None:
    each = bytes_per_pair_of_tokens(name, *pairs)
    row = table("bytes per parameter")[3]
    stated = float(row[name].removesuffix(" KB per pair of tokens")) * 1e3
    assert stated == pytest.approx(each, rel=0.02)
    count, pattern = {
        "Multi30k": (4_096, r"4,096 pairs .*? needs ([\d.]+) GB in all"),
        "base": (25_000, r"25,000 pairs of the base model needs ([\d.]+) GB"),
    }[name]
    whole = count * each + 16 * model(name).num_parameters()
    (gigabytes,) = said(pattern)
    assert float(gigabytes) == pytest.approx(whole / 1e9, rel=0.03)
    if name == "base":
        with torch.autocast("cpu", torch.bfloat16):
            halved = bytes_per_pair_of_tokens(name, *pairs)
        (stated_half,) = said(r"under autocast .*? base model (\d+) KB")
        assert float(stated_half) * 1e3 == pytest.approx(halved, rel=0.03)


# ---------------------------------------------------------------------------- commands


def test_torchrun_knows_the_options_and_the_package_the_rest() -> None:
    found = commands()
    assert len(found) == 4
    for line in found:
        program, *words = shlex.split(line)
        assert program == "torchrun"
        options = get_args_parser().parse_args(words)
        assert options.module
        assert options.training_script == "transformer_lib.training"
        asked = options.training_script_args
        command = "train" if asked[0].startswith("-") else asked.pop(0)
        given = _parser(command).parse_args(asked)
        if command == "train":
            assert preset(given.task, given.preset)
            assert given.out is not None
        else:
            assert given.run is not None
    two = [get_args_parser().parse_args(shlex.split(line)[1:]) for line in found[1:3]]
    assert [options.node_rank for options in two] == [0, 1]
    assert two[0].master_addr == two[1].master_addr
    assert two[0].master_port == two[1].master_port
    assert two[0].training_script_args == two[1].training_script_args
