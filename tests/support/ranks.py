"""What each process runs in the tests of several processes.

``facts`` writes what it found to ``rank-R.json``; ``die``, ``raise`` and
``freeze`` train until one process is gone, to see what becomes of the other.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from transformer_lib.nn import Transformer, TransformerConfig
from transformer_lib.training.distributed import PartnerLost, World, loss_weight

CONFIG = TransformerConfig.tiny(
    vocab_size=23, d_model=16, num_heads=2, d_ff=32, max_len=12, dropout=0.0
)
LENGTHS = ([9, 5, 3], [4, 2, 2], [8, 8, 1], [3, 6, 5])  # of four batches, uneven


class Loss(nn.Module):
    """What is wrapped: it gives the loss, not the logits."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.model.loss(source, target, label_smoothing=0.1)


def model(seed: int, dtype: torch.dtype = torch.float32) -> Transformer:
    made = Transformer(CONFIG, torch.Generator().manual_seed(seed))
    return made.to(dtype)


def batches() -> list[tuple[Tensor, Tensor]]:
    """Four padded batches of three sentences."""
    generator = torch.Generator().manual_seed(7)
    made = []
    for lengths in LENGTHS:
        widest = max(lengths)
        rows = torch.randint(3, 23, (3, 2, widest + 2), generator=generator)
        for row, length in zip(rows, lengths, strict=True):
            row[:, length + 1] = 2
            row[:, length + 2 :] = 0
        rows[:, 1, 0] = 1
        made.append((rows[:, 0, 1:].clone(), rows[:, 1].clone()))
    return made


def tokens(target: Tensor) -> int:
    return int((target[:, 1:] != 0).sum())


def accumulate(world: World, module: nn.Module) -> None:
    """One update's backward passes: four batches, this process's share of them."""
    all_tokens = sum(tokens(target) for _, target in batches())
    own = world.share(batches())
    for number, (source, target) in enumerate(own, 1):
        weight = loss_weight(tokens(target), all_tokens, world.size)
        with (
            world.watch("averaging gradients"),
            world.accumulating(module, number < len(own)),
        ):
            (module(source, target) * weight).backward()


def gradients(world: World, dtype: torch.dtype) -> dict[str, list[float]]:
    """Of one update, from weights that only process 0 has at first."""
    made = model(seed=world.rank, dtype=dtype)
    accumulate(world, world.wrap(Loss(made)))
    return {
        name: parameter.grad.reshape(-1).tolist()
        for name, parameter in made.named_parameters()
        if parameter.grad is not None
    }


def facts(world: World, folder: Path) -> None:
    kinds = {
        "numbers": torch.arange(5.0).reshape(1, 5).T,
        "half": torch.tensor([[1.5]], dtype=torch.bfloat16),
        "flag": torch.tensor(True),
        "none": torch.empty(0, 3),
    }
    order = folder / "order.txt"
    with world.first_one_first(), order.open("a", encoding="utf-8") as file:
        time.sleep(0.2 if world.is_main else 0.0)
        file.write(f"{world.rank}\n")
    same = world.same_tensors(kinds if world.is_main else None)
    found = {
        "float64": gradients(world, torch.float64),
        "float32": gradients(world, torch.float32),
        "sum": world.sum([1.0, 10.0 * world.rank]),
        "any": [world.any(world.rank == 1), world.any(False)],
        "same": world.same({"rank": world.rank, "ü": [1, None]}),
        "nothing": world.same(None),
        "tensors": {name: tensor.tolist() for name, tensor in same.items()},
        "dtypes": [str(tensor.dtype) for tensor in same.values()],
        "collected": [t.tolist() for t in world.collect(torch.tensor([world.rank]))],
        "main": world.is_main,
        "share": world.share(list(range(6))),
    }
    (folder / f"rank-{world.rank}.json").write_text(json.dumps(found))


def train_until_the_end(world: World, folder: Path, what: str) -> None:
    made = model(seed=0)
    module = world.wrap(Loss(made))
    for step in range(1_000_000):
        if step == 5 and world.rank == 1:
            (folder / "gone").touch()
            if what == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "raise":
                raise ValueError("a fault in one process")
            if what == "freeze":
                os.kill(os.getpid(), signal.SIGSTOP)
        accumulate(world, module)


def run(what: str, folder: Path, timeout: float = 60.0) -> None:
    """One process, from joining to the end."""
    world = World.from_environment(timeout=timeout)
    (folder / f"pid-{world.rank}").write_text(str(os.getpid()))
    with world.join(world.device("cpu")):
        if what == "facts":
            facts(world, folder)
        else:
            train_until_the_end(world, folder, what)


def child(
    what: str, rank: int, size: int, port: int, folder: Path, timeout: float
) -> None:
    """As multiprocessing starts it: without torchrun, nobody ends the survivors."""
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    torch.set_num_threads(1)
    try:
        run(what, folder, timeout)
    except PartnerLost as error:
        (folder / f"lost-{rank}").write_text(str(error), encoding="utf-8")
        os._exit(8)


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))
