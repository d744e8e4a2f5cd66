"""Several processes train what one trains, and none of them waits for the dead."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
import ranks
import torch
from safetensors.torch import load_file
from torch import nn

from transformer_lib.training import read_metrics
from transformer_lib.training.command import main
from transformer_lib.training.distributed import PartnerLost, World, loss_weight

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
TORCHRUN += ["--nproc-per-node", "2"]


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
    }


# --------------------------------------------------------------- one process, no torchrun


def test_one_process_alone_does_what_is_left_to_do() -> None:
    world = World.from_environment({})
    module = nn.Linear(2, 2)
    with world.join(world.device("cpu")) as same:
        assert same is world
        assert world.wrap(module) is module
        with world.accumulating(module, more=True), world.watch("nothing"):
            module(torch.ones(1, 2)).sum().backward()
        assert module.weight.grad is not None
        with world.first_one_first():
            world.wait()
        assert world.share([1, 2, 3]) == [1, 2, 3]
        assert world.sum([1.0, 2.5]) == [1.0, 2.5]
        assert [world.any(True), world.any(False)] == [True, False]
        assert world.same({"a": (1,)}) == {"a": (1,)}
        assert [t.tolist() for t in world.collect(torch.arange(2))] == [[0, 1]]
        assert world.same_tensors({"w": module.weight})["w"].requires_grad is False


def test_errors_of_one_process_pass_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="gloo") as caught, World().watch("x"):
        raise RuntimeError("gloo: connection closed by peer")
    assert not isinstance(caught.value, PartnerLost)


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed"), True),
        (RuntimeError("Timed out waiting 60000ms for recv operation"), True),
        (torch.distributed.DistBackendError("remote process exited"), True),
        (torch.distributed.DistBackendError("NCCL communicator was aborted"), True),
        (RuntimeError("Read error [127.0.0.1]: Connection reset by peer"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (torch.cuda.OutOfMemoryError("CUDA out of memory (NCCL buffers)"), False),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_lost_partner_is_told_from_other_errors(
    error: RuntimeError, lost: bool
) -> None:
    world = World(rank=1, size=2, local_rank=1)
    with pytest.raises(type(error) if not lost else PartnerLost), world.watch("x"):
        raise error
    with pytest.raises(ValueError, match="own"), world.watch("x"):
        raise ValueError("own")


def test_batches_are_dealt_out_like_cards_and_only_evenly() -> None:
    hands = [World(rank=rank, size=3).share(list("abcdef")) for rank in range(3)]
    assert hands == [["a", "d"], ["b", "e"], ["c", "f"]]
    with pytest.raises(ValueError, match="batches: got 4, wanted a multiple of 3"):
        World(rank=1, size=3).share([1, 2, 3, 4])


def test_weights_of_uneven_batches_give_the_mean_over_all_tokens() -> None:
    """Planted beside it: the mean of the means, which is another number."""
    sums, counts = [30.0, 5.0, 8.0, 1.0], [15, 5, 2, 1]
    means = [total / count for total, count in zip(sums, counts, strict=True)]
    for processes in (1, 2, 4):
        weights = [loss_weight(count, sum(counts), processes) for count in counts]
        loss = sum(w * m for w, m in zip(weights, means, strict=True)) / processes
        assert loss == pytest.approx(sum(sums) / sum(counts))
    assert sum(means) / 4 != pytest.approx(sum(sums) / sum(counts))
    assert loss_weight(0, 5) == 0.0


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"WORLD_SIZE": "2"}, "RANK: got nothing, but WORLD_SIZE=2"),
        ({"WORLD_SIZE": "two", "RANK": "0"}, "WORLD_SIZE: got 'two'"),
        ({"WORLD_SIZE": "2", "RANK": "-1", "LOCAL_RANK": "0"}, "RANK: got '-1'"),
        ({"WORLD_SIZE": "2", "RANK": "2", "LOCAL_RANK": "0"}, "got rank 2"),
        ({"WORLD_SIZE": "0", "RANK": "0", "LOCAL_RANK": "0"}, "of 0 processes"),
    ],
)
def test_what_torchrun_cannot_have_set_is_named(
    variables: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=r"wanted|torchrun") as caught:
        World.from_environment(variables)
    assert words in str(caught.value)


@pytest.mark.no_shape_hook
def test_bad_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert World.from_environment({"WORLD_SIZE": "1", "RANK": "x"}).size == 1
    with pytest.raises(ValueError, match="timeout: got 0"):
        World(timeout=0)
    for count in ((5, 4, 1), (0, 0, 1), (1, 1, 0), (-1, 2, 1)):
        with pytest.raises(ValueError, match="tokens: got"):
            loss_weight(*count)
    two = World(rank=1, size=2, local_rank=1)
    with pytest.raises(ValueError, match="'mps' for 2 processes"):
        two.device("mps")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match=r"process 2 of this machine, which has 1 GPU"):
        two.device("cuda")
    assert World(rank=0, size=2).device("cuda") == torch.device("cuda", 0)
    with pytest.raises(ValueError, match="tensors: got None"):
        World().same_tensors(None)


# --------------------------------------------------------------------- two, with torchrun


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("facts")
    program = [str(SUPPORT / "ranks.py"), "facts", str(folder)]
    done = subprocess.run(
        [*TORCHRUN, *program],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads((folder / f"rank-{r}.json").read_text()) for r in (0, 1)]
    for part in found:
        part["order"] = (folder / "order.txt").read_text().split()
        part["stderr"] = done.stderr
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "most"), [("float64", 1e-12), ("float32", 1e-6)])
def test_gradients_of_two_processes_are_those_of_one(
    facts: list[dict[str, Any]], dtype: str, most: float
) -> None:
    """Against one process that accumulates, and one that has the joined batch.

    Planted beside it: averaging the batches' means, which weighs tokens unevenly.
    """
    kind = getattr(torch, dtype)
    alone = ranks.gradients(World(), kind)

    joined = ranks.model(seed=0, dtype=kind)
    widest = [
        max(x.shape[1] for x in side) for side in zip(*ranks.batches(), strict=True)
    ]
    source, target = (
        torch.cat([nn.functional.pad(x, (0, n - x.shape[1])) for x in side])
        for side, n in zip(zip(*ranks.batches(), strict=True), widest, strict=True)
    )
    joined.loss(source, target, label_smoothing=0.1).backward()

    uneven = ranks.model(seed=0, dtype=kind)
    for source, target in ranks.batches():
        (uneven.loss(source, target, label_smoothing=0.1) / 4).backward()

    distance = 0.0
    for name, parameter in joined.named_parameters():
        assert parameter.grad is not None
        whole = parameter.grad.reshape(-1)
        for found in (facts[0][dtype], facts[1][dtype], alone):
            gap = (torch.tensor(found[name], dtype=kind) - whole).abs().max()
            assert float(gap) < most, name
        other = dict(uneven.named_parameters())[name].grad
        assert other is not None
        distance = max(distance, float((other.reshape(-1) - whole).abs().max()))
    assert distance > 1e-3


@pytest.mark.slow
def test_small_exchanges_give_every_process_the_same(
    facts: list[dict[str, Any]],
) -> None:
    for rank, found in enumerate(facts):
        assert found["sum"] == [2.0, 10.0]
        assert found["any"] == [True, False]
        assert found["same"] == {"rank": 0, "ü": [1, None]}
        assert found["nothing"] is None
        assert found["tensors"] == {
            "numbers": [[0.0], [1.0], [2.0], [3.0], [4.0]],
            "half": [[1.5]],
            "flag": True,
            "none": [],
        }
        assert found["dtypes"] == [
            "torch.float32",
            "torch.bfloat16",
            "torch.bool",
            "torch.float32",
        ]
        assert found["collected"] == [[0], [1]]
        assert found["main"] is (rank == 0)
        assert found["share"] == [[0, 2, 4], [1, 3, 5]][rank]
        assert found["order"] == ["0", "1"]
        assert "Warning" not in found["stderr"]


# --------------------------------------------------------- the command, with torchrun

SMALL = """
--task dates --set task.train=300 --set task.validation=20 --set task.test=20
--set d_model=16 --set num_heads=2 --set d_ff=32 --set num_encoder_layers=1
--set num_decoder_layers=1 --set dropout=0.1 --set max_tokens=256 --set warmup=2
--set log_every=1 --set validate_every=3 --set checkpoint_every=2 --device cpu
"""
LAST = Path("checkpoints", "step-00000006", "model.safetensors")

Done = subprocess.CompletedProcess[str]


def torchrun(*program: str, **variables: str) -> Done:
    """Run it to its end, in a process group that is gone afterwards."""
    process = subprocess.Popen(
        [*TORCHRUN, *program],
        cwd=ROOT,
        env={**environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=240)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return Done(program, process.returncode, out, err)


def watched(folder: Path, *arguments: str, **variables: str) -> Done:
    """The command, with a note of what each process writes."""
    words = [*arguments, "--out", str(folder / "out")]
    return torchrun(str(SUPPORT / "watched.py"), str(folder), *words, **variables)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """Six updates of two processes."""
    folder = tmp_path_factory.mktemp("both")
    done = watched(folder, *SMALL.split(), "--set", "steps=6")
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.mark.slow
def test_only_the_first_process_writes_and_speaks(both: tuple[Path, Done]) -> None:
    folder, done = both
    first, second = (
        (folder / f"changes-{rank}").read_text().splitlines() for rank in (0, 1)
    )
    assert second == []
    assert len(first) > 20
    assert len(done.stdout.splitlines()) == 1
    assert json.loads(done.stdout)["step"] == 6
    told = done.stderr.splitlines()
    assert len([line for line in told if line.startswith("step 3:")]) == 1
    assert "2 processes" in done.stderr


@pytest.mark.slow
def test_two_processes_train_what_one_does_that_accumulates(
    both: tuple[Path, Done], tmp_path: Path
) -> None:
    """With dropout: it falls on the same places. Planted beside it: another seed."""
    alone = [*SMALL.split(), "--set", "steps=6", "--set", "accumulate=2"]
    other = [*alone, "--set", "training.seed=1"]
    assert main([*alone, "--out", str(tmp_path / "alone")]) == 0
    assert main([*other, "--out", str(tmp_path / "other")]) == 0
    folders = (both[0] / "out", tmp_path / "alone", tmp_path / "other")
    two, one, planted = (load_file(folder / LAST) for folder in folders)
    gap, far = 0.0, 0.0
    for name, weights in two.items():
        gap = max(gap, float((weights - one[name]).abs().max()))
        far = max(far, float((weights - planted[name]).abs().max()))
    print(f"largest difference of a weight: {gap:.1e}, of another seed: {far:.1e}")
    assert gap < 1e-4 < far
    lines = [read_metrics(folder / "metrics.jsonl") for folder in folders[:2]]
    for a, b in zip(*lines, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-4)
        assert a.get("epoch") == b.get("epoch")
    assert (lines[0][-1]["processes"], lines[1][-1]["processes"]) == (2, 1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL on Windows")
def test_a_killed_process_ends_the_run_and_resume_gives_the_same_weights(
    both: tuple[Path, Done], tmp_path: Path
) -> None:
    done = watched(tmp_path, *SMALL.split(), "--set", "steps=6", FAULT="die")
    assert done.returncode != 0
    assert time.time() - (tmp_path / "gone").stat().st_mtime < 60.0
    assert "[process 0] error: process 0 of 2 lost another one" in done.stderr
    assert "SIGKILL" in done.stderr
    out = tmp_path / "out"
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-00000002"]
    again = torchrun("-m", "transformer_lib.training", "resume", str(out))
    assert again.returncode == 0, again.stderr
    assert (out / LAST).read_bytes() == (both[0] / "out" / LAST).read_bytes()


@pytest.mark.slow
def test_an_error_in_one_process_ends_the_run_and_is_shown(tmp_path: Path) -> None:
    done = watched(tmp_path, *SMALL.split(), "--set", "steps=6", FAULT="raise")
    assert done.returncode != 0
    assert time.time() - (tmp_path / "gone").stat().st_mtime < 60.0
    assert "ZeroDivisionError: planted" in done.stderr
    cause = done.stderr[done.stderr.index("Root Cause") :]
    assert re.search(r"rank +: 1 ", cause)
    assert re.search(r"exitcode +: 1 ", cause)


# ------------------------------------------------------- one is gone: nobody helps the other


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Any]:
    """Start two processes without torchrun; end what is left of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["transformer_lib.training.distributed"])
    started: list[ForkServerProcess] = []

    def start(what: str, timeout: float, size: int = 2) -> list[ForkServerProcess]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for rank in range(2):
            process = context.Process(
                target=ranks.child,
                args=(what, rank, size, port, tmp_path, timeout),
            )
            process.start()
            started.append(process)
        return started

    yield start
    for process in started:
        if process.is_alive():
            process.kill()
        process.join(10)
        assert not process.is_alive()


def ends(process: ForkServerProcess, seconds: float) -> int:
    process.join(seconds)
    assert process.exitcode is not None, f"still runs after {seconds} s"
    return process.exitcode


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL on Windows")
@pytest.mark.parametrize("what", ["die", "raise", "freeze"])
def test_who_survives_ends_with_a_message(
    pair: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Killed or failed: noticed at once, long before the timeout; frozen: after it."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    survivor, gone = pair(what, timeout=4.0 if what == "freeze" else 300.0)
    assert ends(survivor, 120) == 8
    times = [(tmp_path / name).stat().st_mtime for name in ("gone", "lost-0")]
    assert times[1] - times[0] < 30.0
    message = (tmp_path / "lost-0").read_text(encoding="utf-8")
    assert "process 0 of 2 lost another one (averaging gradients)" in message
    if what == "freeze":
        os.kill(gone.pid, signal.SIGKILL)
    assert ends(gone, 60) == (1 if what == "raise" else -signal.SIGKILL)


@pytest.mark.slow
def test_who_waits_for_one_that_never_comes_ends_too(
    pair: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    for rank, process in enumerate(pair("facts", timeout=3.0, size=3)):
        assert ends(process, 120) == 8
        message = (tmp_path / f"lost-{rank}").read_text(encoding="utf-8")
        assert f"process {rank} of 3 lost another one (start)" in message
