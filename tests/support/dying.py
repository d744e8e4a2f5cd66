"""Train, die at a given moment, resume, and say what came out: ``dying.py FOLDER``.

Run by tests/training/test_resume.py in a process of its own, which imports everything
once and then trains in forks. It prints one JSON object: what happened in each trial.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from events import Events
from letters import LettersTask, letters_run

from transformer_lib.tasks.batches import Batches
from transformer_lib.training import (
    Trainer,
    TrainingInterrupted,
    averaging,
    loop,
    read_metrics,
)

STEPS = 10
RUN = letters_run(
    steps=STEPS,
    checkpoint_every=3,
    keep=3,
    average=3,
    validate_every=5,
    log_every=2,
    threads=1,
)
TIMED = ("seconds", "tokens_per_second")
INTERRUPTED = 77

Plan = Callable[[], None]


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def plain() -> None:
    """Nothing happens."""


def at_event(number: int) -> Plan:
    """Die at one touch of the disk."""

    def plan() -> None:
        events = Events(lambda n, _: kill() if n == number else None)
        events.install(setattr)

    return plan


def at_step(number: int, act: Callable[[], None]) -> Plan:
    """Do something when one update has begun."""

    def plan() -> None:
        ordinary, seen = Batches.__next__, [0]

        def counted(batches: Batches) -> Any:
            seen[0] += 1
            if seen[0] == number:
                act()
            return ordinary(batches)

        Batches.__next__ = counted  # type: ignore[method-assign]

    return plan


def in_validation(act: Callable[[], None]) -> Plan:
    """Do something while the model is evaluated."""

    def plan() -> None:
        ordinary = loop.evaluate

        def disturbed(*args: Any, **options: Any) -> Any:
            if "between" in options:
                act()
            return ordinary(*args, **options)

        loop.evaluate = disturbed

    return plan


def send(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


# --- faults that the comparison must see ----------------------------------------------


def forget_moments() -> None:
    ordinary = torch.optim.AdamW.load_state_dict
    torch.optim.AdamW.load_state_dict = (  # type: ignore[method-assign]
        lambda self, state: ordinary(self, {**state, "state": {}})
    )


def forget_place() -> None:
    Batches.load_state_dict = lambda self, state: None  # type: ignore[method-assign]


def forget_dropout() -> None:
    loop._seed_dropout = lambda *_: None


def forget_average() -> None:
    averaging.on_schedule = lambda steps, every, last: list(steps)
    loop.on_schedule = averaging.on_schedule


# --- trials ---------------------------------------------------------------------------


def in_fork(work: Callable[[], None], die_after: float | None = None) -> int:
    """Run in a fork; return its exit status, negative for a signal.

    ``die_after`` counts seconds of its own processor time, so that others' load does
    not decide where it dies; nobody catches SIGPROF.
    """
    pid = os.fork()
    if not pid:
        code = 1
        try:
            if die_after is not None:
                signal.setitimer(signal.ITIMER_PROF, die_after)
            work()
            code = 0
        except TrainingInterrupted:
            code = INTERRUPTED
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def train(folder: Path, plan: Plan) -> None:
    plan()
    begun = time.process_time()
    trainer = Trainer(RUN, folder, task=LettersTask(), resume=folder.exists())
    trainer.train()
    weights = {n: t.tolist() for n, t in trainer.model.state_dict().items()}
    facts = {
        "seconds": time.process_time() - begun,
        "evaluated": digest(json.dumps(weights).encode()),
    }
    (folder / "facts.json").write_text(json.dumps(facts))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def outcome(folder: Path) -> dict[str, Any]:
    """What a finished run left, without what depends on the clock."""
    last = folder / "checkpoints" / f"step-{STEPS:08d}"
    metrics = [
        {key: value for key, value in entry.items() if key not in TIMED}
        for entry in read_metrics(folder / "metrics.jsonl")
    ]
    facts = json.loads((folder / "facts.json").read_text())
    return {
        "seconds": facts["seconds"],
        "weights": digest((last / "model.safetensors").read_bytes()),
        "optimizer": digest((last / "optimizer.safetensors").read_bytes()),
        "evaluated": facts["evaluated"],
        "metrics": metrics,
        "folders": sorted(path.name for path in (folder / "checkpoints").iterdir()),
        "files": sorted(path.name for path in folder.iterdir()),
    }


def trial(
    name: str,
    plan: Plan,
    die_after: float | None = None,
    then: Plan = plain,
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=ROOT) as scratch:
        folder = Path(scratch) / "run"
        first = in_fork(lambda: train(folder, plan), die_after)
        left = folder / "checkpoints"
        found = sorted(p.name for p in left.iterdir()) if left.exists() else []
        second = in_fork(lambda: train(folder, then)) if first else 0
        return {
            "name": name,
            "first": first,
            "left": found,
            "second": second,
            "outcome": None if second else outcome(folder),
        }


def trial_at_moment(name: str, die_after: float) -> dict[str, Any]:
    """Die after so much processor time; sooner, if the run was over by then."""
    while (found := trial(name, plain, die_after))["first"] == 0:
        die_after *= 0.7  # this run was quicker than the one that was timed
    return found


def warm_up() -> None:
    """What is imported and made ready in the first run is there for all forks."""
    with tempfile.TemporaryDirectory(dir=ROOT) as scratch:
        Trainer(RUN, Path(scratch) / "run", task=LettersTask()).train()


def event_names() -> list[str]:
    """All touches of the disk in an ordinary run."""
    with tempfile.TemporaryDirectory(dir=ROOT) as scratch:
        listing = Path(scratch) / "names.json"

        def work() -> None:
            events = Events(lambda *_: None)
            events.install(setattr)
            Trainer(RUN, Path(scratch) / "run", task=LettersTask()).train()
            names = list(events.names)
            listing.write_text(json.dumps(names))

        in_fork(work)
        names: list[str] = json.loads(listing.read_text())
        return names


def main() -> None:
    # A shell lets what it starts in the background ignore Ctrl-C; here it is wanted.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warm_up()
    names = event_names()
    trials = [trial("whole", plain)]
    whole = trials[0]["outcome"]["seconds"]
    trials += [
        trial(f"{number}: {name}", at_event(number))
        for number, name in enumerate(names)
    ]
    trials += [trial(f"between steps, {n}", at_step(n, kill)) for n in (2, 5, 8)]
    moments = random.Random(0)
    trials += [
        trial_at_moment(f"moment {n}", moments.uniform(0.05, 0.95) * whole)
        for n in range(5)
    ]
    for number in (signal.SIGTERM, signal.SIGINT):
        asked = send(number)
        trials.append(trial(f"{number.name} in step 5", at_step(5, asked)))
        trials.append(trial(f"{number.name} in step 6", at_step(6, asked)))
        trials.append(trial(f"{number.name} in validation", in_validation(asked)))
    trials += [
        trial("moments forgotten", at_step(5, kill), then=forget_moments),
        trial("place forgotten", at_step(5, kill), then=forget_place),
        trial("dropout forgotten", at_step(5, kill), then=forget_dropout),
        trial("average of any", at_step(8, send(signal.SIGTERM)), then=forget_average),
    ]
    print(json.dumps({"events": names, "trials": trials}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    ROOT = parser.parse_args().folder
    torch.set_num_threads(1)
    main()
