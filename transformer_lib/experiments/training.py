"""Measurements of chapter 12: what a training run is judged by, and what spoils it.

All of them train the model of the preset ``tiny`` on dates in sixteen written forms, with
:class:`transformer_lib.training.Trainer` wherever it can do what is asked.

``python -m transformer_lib.experiments.training`` makes the records ``training_loops``,
``training_plain``, ``training_leak`` and ``training_resumed`` again; their last words
after the command make only those. ``--jobs 2`` spreads the seeds over two processes.

``--widget`` records the run that the widget *Training* plays, and ``--gpu`` trains the
translator of Multi30k on a GPU and records it as ``training_gpu``. ``--log FOLDER NAME``
keeps the log of a run that the command line made as the record ``NAME``.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch

from transformer_lib.experiments import records
from transformer_lib.nn import Transformer
from transformer_lib.tasks import Batch, EncodedPair, Pair, Task, load_task
from transformer_lib.tasks.dates import WRITTEN_FORMS, DatesTask, write_date
from transformer_lib.training import (
    Run,
    Trainer,
    TrainerView,
    evaluate,
    preset,
    read_metrics,
    translate,
)

__all__ = [
    "FEW",
    "LOOPS",
    "Curve",
    "PowerCut",
    "cut_at",
    "forget_moments",
    "load_cpu_record",
    "load_gpu_record",
    "loop_run",
    "open_the_future",
    "other_forms",
    "padded_batch",
    "peak_flops",
    "plain_loop",
    "resumed_losses",
    "run_record",
    "share_right",
    "train_loop",
    "train_on_few_dates",
    "work_per_token",
]

COMMAND = "python -m transformer_lib.experiments.training"
SEEDS = {"preset": 5, "loops": 3, "plain": 3, "leak": 3, "resumed": 3}
"""Record -> number of seeds, counted from 0."""


# --- loops that end with a low loss ---------------------------------------------------

LOOPS = ("whole loop", "plain loop", "no causal mask", "no positions")
"""What :func:`train_loop` can train."""

PLAIN_RATE = 1e-3


class Curve(NamedTuple):
    """A training, looked at on dates that are not trained on.

    Attributes
    ----------
    steps
        Updates before each look.
    loss
        Mean surprise per character with the right characters shown, in nats, without
        label smoothing.
    right
        Dates written without a mistake, in percent.
    """

    steps: list[int]
    loss: list[float]
    right: list[float]


def loop_run(loop: str, seed: int) -> Run:
    """Give the run of one of :data:`LOOPS`: the preset, or with one thing changed.

    Parameters
    ----------
    loop
        Its name.
    seed
        Of the split, the forms, the first weights and the batches.

    Returns
    -------
    run
        On the CPU, with one thread.

    Raises
    ------
    ValueError
        If there is no such loop.

    Examples
    --------
    >>> loop_run("no positions", seed=3).model["positions"]
    'none'
    """
    if loop not in LOOPS:
        raise ValueError(f"loop: got {loop!r}, wanted one of {', '.join(LOOPS)}")
    run = preset("dates", "tiny").changed(seed=seed, device="cpu", threads=1)
    model = dict(run.model)
    if loop == "no positions":
        model["positions"] = "none"
    return dataclasses.replace(run, task_options={"seed": seed}, model=model)


def open_the_future(model: Transformer) -> None:
    """Take away the decoder's causal mask wherever the right answer is shown.

    Parameters
    ----------
    model
        Changed. What it writes by itself is as before: then there is no future to see.
    """
    model.decoder.forward = functools.partial(  # type: ignore[method-assign]
        model.decoder.forward, is_causal=False
    )


def plain_loop(
    model: Transformer,
    pairs: Sequence[EncodedPair],
    steps: int,
    rows: int,
    seed: int = 0,
    after: Callable[[int], None] | None = None,
) -> None:
    """Train as many a first program does: random batches, one rate, nothing else.

    Parameters
    ----------
    model
        Is trained.
    pairs
        To learn from.
    steps, rows
        Updates, and pairs in each.
    seed
        Of the batches.
    after
        Called after each update, with its number.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=PLAIN_RATE)
    generator = random.Random(seed)
    for step in range(1, steps + 1):
        batch = padded_batch(generator.sample(pairs, rows))
        optimizer.zero_grad()
        torch.autograd.backward(model.loss(batch.source, batch.target))
        optimizer.step()
        if after is not None:
            after(step)


def padded_batch(pairs: Sequence[EncodedPair]) -> Batch:
    """Fill sources and targets up to the longest, with 0.

    Examples
    --------
    >>> padded_batch([EncodedPair([5, 6], [1, 2]), EncodedPair([7], [1, 2])]).source
    tensor([[5, 6],
            [7, 0]])
    """
    pad = functools.partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    source, target = zip(*pairs, strict=True)
    labels = sum(map(len, target)) - len(target)
    return Batch(
        pad(list(map(torch.tensor, source))),
        pad(list(map(torch.tensor, target))),
        labels,
    )


def train_loop(
    loop: str, seed: int, steps: int | None = None, task: Task | None = None
) -> tuple[Trainer, Curve]:
    """Train one of :data:`LOOPS`.

    All take as many updates, and see about as many pairs in each.

    Parameters
    ----------
    loop
        Its name.
    seed
        See :func:`loop_run`.
    steps
        Updates; ``None`` is the preset's number.
    task
        The dates, if they are at hand already.

    Returns
    -------
    trainer
        Its model is trained, and in evaluation mode.
    curve
        Looks at the validation dates.

    Raises
    ------
    ValueError
        If there is no such loop.
    """
    run = loop_run(loop, seed)
    if steps is not None:
        every = max(1, steps // 8)
        run = run.changed(steps=steps, warmup=steps // 10, validate_every=every)
    curve = Curve([], [], [])

    def look(step: int, loss: float, right: float) -> None:
        curve.steps.append(step)
        curve.loss.append(loss)
        curve.right.append(right)

    def heard(view: TrainerView) -> None:
        found = view.evaluation
        look(view.step, found.loss, float(found.scores["exact_match"]))

    trainer = Trainer(run, task=task, on_validation=heard, progress=False)
    if loop == "no causal mask":
        open_the_future(trainer.model)
    if loop != "plain loop":
        trainer.train()
        return trainer, curve

    def after(step: int) -> None:
        if step % run.settings.validate_every == 0 or step == run.settings.steps:
            limit = run.settings.validation_pairs
            found = evaluate(trainer.model, trainer.task, "validation", limit=limit)
            look(step, found.loss, float(found.scores["exact_match"]))

    pairs = trainer.task.encode(trainer.task.pairs("train"))
    rows = max(1, len(pairs) // trainer.batches.updates_per_epoch)
    plain_loop(trainer.model.train(), pairs, run.settings.steps, rows, seed, after)
    trainer.model.eval()
    return trainer, curve


def _loop(loop: str, seed: int) -> dict[str, float]:
    values: dict[str, float] = {}
    begun = time.process_time()
    trainer, curve = train_loop(loop, seed)
    found = evaluate(trainer.model, trainer.task, "test")
    values[f"{loop}, seconds"] = time.process_time() - begun
    values[f"{loop}, right"] = float(found.scores["exact_match"])
    values[f"{loop}, loss"] = found.loss
    for step, loss, right in zip(*curve, strict=True):
        values[f"{loop}, loss, step {step}"] = loss
        values[f"{loop}, right, step {step}"] = right
    if loop == "whole loop":
        others = other_forms(trainer.task.pairs("train")[:1000], seed)
        right = share_right(trainer.model, trainer.task, others)
        values[f"{loop}, other form"] = right
        values["steps"] = float(trainer.step)
    return values


def _loops(seed: int) -> dict[str, float]:
    values: dict[str, float] = {}
    for loop in LOOPS:
        if loop != "plain loop":
            values.update(_loop(loop, seed))
    return values


def _preset(seed: int) -> dict[str, float]:
    """The command's run alone: what ``--task dates --preset tiny`` reaches."""
    values, prefix = _loop("whole loop", seed), "whole loop, "
    kept = ("right", "loss", "seconds")
    return {name: values[prefix + name] for name in kept} | {"steps": values["steps"]}


def _plain(seed: int) -> dict[str, float]:
    return _loop("plain loop", seed)


# --- a test that was read before ------------------------------------------------------

FEW = (250,)
"""Numbers of dates to learn from."""

FEW_STEPS = 400


def train_on_few_dates(dates: int, seed: int) -> tuple[float, float, float]:
    """Train on few dates, each in one form, and ask for them in another form.

    Parameters
    ----------
    dates
        How many.
    seed
        See :func:`loop_run`.

    Returns
    -------
    seen, other_form, new
        Right, in percent: of the texts that were trained on, of the same dates in
        another form, and of dates that were not trained on in any.
    """
    run = loop_run("whole loop", seed).changed(
        steps=FEW_STEPS, warmup=FEW_STEPS // 10, validate_every=0
    )
    task = DatesTask(seed=seed, train=dates)
    trainer = Trainer(run, task=task)
    new = trainer.train().scores["exact_match"]
    seen = list(task.pairs("train"))[:1000]
    others = other_forms(seen, seed)
    return (
        share_right(trainer.model, task, seen),
        share_right(trainer.model, task, others),
        float(new),
    )


def other_forms(pairs: Sequence[Pair], seed: int) -> list[Pair]:
    """Write the same dates in another form each.

    Parameters
    ----------
    pairs
        Of the task *dates*; their targets are ISO dates.
    seed
        Of the choice of forms.

    Returns
    -------
    pairs
        In the same order, with the same targets and other sources.
    """
    generator = random.Random(seed)
    others = []
    for source, iso in pairs:
        day = date.fromisoformat(iso)
        texts = {write_date(day, form) for form in WRITTEN_FORMS} - {source}
        others.append(Pair(generator.choice(sorted(texts)), iso))
    return others


def share_right(model: Transformer, task: Task, pairs: Sequence[Pair]) -> float:
    """Let the model write the targets, and count those without a mistake, in percent."""
    written = translate(model, task, [pair.source for pair in pairs])
    return float(task.score(written, pairs)["exact_match"])


def _leak(seed: int) -> dict[str, float]:
    values: dict[str, float] = {}
    for dates in FEW:
        found = train_on_few_dates(dates, seed)
        names = ("seen text", "seen date, other form", "new date")
        for name, right in zip(names, found, strict=True):
            values[f"{dates} dates, {name}"] = right
    return values


# --- going on without what Adam knew --------------------------------------------------

STOPPED_AT, LOOK = 300, 60
"""The update after which a run is stopped, and how many are looked at beside it."""


class PowerCut(Exception):  # noqa: N818 - it is no error of the program
    """Ends a training without any farewell, as a power cut does."""


def cut_at(step: int) -> Callable[[TrainerView], None]:
    """Make an ``on_validation`` that ends the run in the validation of that update.

    Nothing is saved any more: what is left is the last checkpoint before it.

    Parameters
    ----------
    step
        Number of the update.

    Returns
    -------
    callback
        Raises :class:`PowerCut`.
    """

    def callback(view: TrainerView) -> None:
        if view.step >= step:
            raise PowerCut(f"the power is gone after update {view.step}")

    return callback


def forget_moments(trainer: Trainer) -> None:
    """Throw away the optimiser's running means, as if only weights had been saved."""
    trainer.optimizer.state.clear()


def resumed_losses(
    seed: int, stop: int = STOPPED_AT, look: int = LOOK, task: Task | None = None
) -> dict[str, list[float]]:
    """Stop a run, resume it twice, and note the loss of every update.

    Parameters
    ----------
    seed
        See :func:`loop_run`.
    stop
        The update whose checkpoint is resumed, a multiple of ``look``.
    look
        How many updates are looked at, before the stop and after it.
    task
        The dates, if they are at hand already.

    Returns
    -------
    losses
        ``look`` numbers each: ``"before"`` the stop, and after it in the run that was
        ``"never stopped"``, in the one that was ``"resumed"``, and in the one that was
        resumed ``"without moments"``.
    """
    run = loop_run("whole loop", seed).changed(
        log_every=1, validate_every=look, validation_pairs=1, checkpoint_every=stop
    )
    task = load_task("dates", seed=seed) if task is None else task
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "first"
        losses = _losses_up_to(Trainer(run, first, task=task), stop + look)
        found = {"before": losses[-2 * look : -look], "never stopped": losses[-look:]}
        for name in ("resumed", "without moments"):
            copy = shutil.copytree(first, Path(folder) / name)
            trainer = Trainer.resume(copy, task=task)
            if name == "without moments":
                forget_moments(trainer)
            found[name] = _losses_up_to(trainer, stop + look)[-look:]
    return found


def _losses_up_to(trainer: Trainer, step: int) -> list[float]:
    trainer.on_validation = cut_at(step)
    with contextlib.suppress(PowerCut):
        trainer.train()
    return [float(entry["loss"]) for entry in trainer.history]


def _resumed(seed: int) -> dict[str, float]:
    return {
        f"{name}, update {number}": loss
        for name, losses in resumed_losses(seed).items()
        for number, loss in enumerate(losses, 1)
    }


# --- records of long runs -------------------------------------------------------------

PEAKS_OF_CARDS = {
    "T4": 65e12,
    "V100": 125e12,
    "A10": 125e12,
    "L4": 121e12,
    "L40S": 362e12,
    "A100": 312e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "H200": 989e12,
    "B200": 2250e12,
    "RTX 3090": 71e12,
    "RTX 4090": 165e12,
}
"""Operations per second in bf16 or fp16, dense, as the makers of the cards state them."""


def peak_flops(device: str) -> float | None:
    """Look up what a GPU's maker promises, in operations per second.

    Parameters
    ----------
    device
        Its name as CUDA tells it.

    Returns
    -------
    peak
        ``None`` if the card is not in the list.

    Examples
    --------
    >>> peak_flops("NVIDIA H100 80GB HBM3") == 989e12
    True
    >>> peak_flops("NVIDIA A100-SXM4-40GB") == 312e12
    True
    >>> peak_flops("cpu (x86_64, 2 cores)") is None
    True
    """
    words = device.replace("-", " ").split()
    for name in sorted(PEAKS_OF_CARDS, key=len, reverse=True):
        parts = name.split()
        if all(part in words for part in parts):
            return PEAKS_OF_CARDS[name]
    return None


def work_per_token(model: Transformer, pairs: Sequence[EncodedPair]) -> float:
    """Count what training needs for one real target token, in operations.

    Forward and backward, without padding: what a pair would take alone.

    Parameters
    ----------
    model
        Its sizes count.
    pairs
        To average over.

    Returns
    -------
    flops
        Of the products of matrices.
    """
    work = tokens = 0
    for source, target in pairs:
        labels = len(target) - 1
        work += model.flops(len(source), labels, training=True)
        tokens += labels
    return work / tokens


def run_record(
    folder: Path, peak: float | None = None, scores: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Put together what a finished run says of itself.

    Parameters
    ----------
    folder
        Of the run, with ``metrics.jsonl`` and ``run.toml``.
    peak
        Operations per second that the device can do; ``None`` looks its name up.
    scores
        Of further test splits: name -> what :meth:`Task.score` gives.

    Returns
    -------
    record
        A record as the others, with ``run`` (its settings), ``lines`` (of the log),
        ``result`` (the log's last line), ``scores`` and ``utilisation``, from 0 to 1, of
        each line; ``None`` if the device's peak is not known.

    Raises
    ------
    ValueError
        If the run has not ended.
    """
    *lines, result = read_metrics(folder / "metrics.jsonl")
    if "result" not in result:
        raise ValueError(f"folder: the run in {folder} has not ended")
    run = Run.from_file(folder / "run.toml")
    trainer = Trainer(run.changed(device="cpu", compile="off"))
    work = work_per_token(
        trainer.model, trainer.task.encode(trainer.task.pairs("train"))
    )
    peak = peak_flops(result["device"]) if peak is None else peak
    for line in lines:
        rate = line["tokens_per_second"]
        line["utilisation"] = None if peak is None else work * rate / peak
    metric = trainer.task.metric
    return {
        "command": COMMAND,
        "versions": {k: v.split("+")[0] for k, v in result["versions"].items()},
        "seeds": [run.settings.seed],
        "values": {
            metric: [result[metric]],
            "seconds": [result["seconds"]],
            "tokens per second": [result["tokens_per_second"]],
        },
        "run": run.to_dict(),
        "flops per token": work,
        "peak flops": peak,
        "lines": lines,
        "result": result,
        "scores": dict(scores or {}),
    }


def load_gpu_record() -> dict[str, Any] | None:
    """Read the recorded run on a GPU; ``None`` if nobody has recorded one yet.

    ``python -m transformer_lib.experiments.training --gpu`` records one.

    Returns
    -------
    record
        See :func:`run_record`.
    """
    return _load_run("training_gpu")


def load_cpu_record() -> dict[str, Any] | None:
    """Read the recorded run of Multi30k on a CPU; ``None`` if there is none.

    Returns
    -------
    record
        See :func:`run_record`.
    """
    return _load_run("multi30k_cpu")


def _file(name: str) -> Path:
    return Path(str(resources.files(records))) / f"{name}.json"


def _load_run(name: str) -> dict[str, Any] | None:
    return records.load(name) if _file(name).is_file() else None


def _keep(name: str, command: str, folder: Path, scores: Mapping[str, Any]) -> None:
    record = {**run_record(folder, scores=scores), "command": command}
    text = json.dumps(record, indent=1, ensure_ascii=False)
    _file(name).write_text(text + "\n", encoding="utf-8")
    print(f"{_file(name)}: written")


def _record_on_gpu(folder: Path, task_name: str, preset_name: str) -> int:
    """Train on the GPU, score every test split, and write ``training_gpu``."""
    if not torch.cuda.is_available():
        print(
            "--gpu: torch finds no CUDA device here, so nothing was trained. "
            "`python -c 'import torch; print(torch.cuda.is_available())'` should say "
            "True first.",
            file=sys.stderr,
        )
        return 2
    run = preset(task_name, preset_name).changed(device="cuda")
    trainer = Trainer(run, folder, resume=folder.exists())
    trainer.train()
    settings = run.settings
    scores = {
        split: evaluate(
            trainer.model,
            trainer.task,
            split,
            beam_size=settings.beam_size,
            length_penalty=settings.length_penalty,
        ).scores
        for split in trainer.task.splits[2:]
    }
    command = f"{COMMAND} --gpu --task {task_name} --preset {preset_name}"
    _keep("training_gpu", command, folder, scores)
    return 0


# --- records over the seeds -----------------------------------------------------------

_MEASURES: dict[str, Callable[[int], dict[str, float]]] = {
    "preset": _preset,
    "loops": _loops,
    "plain": _plain,
    "leak": _leak,
    "resumed": _resumed,
}


def measure(name: str, seed: int) -> dict[str, float]:
    """Measure one record for one seed, with one thread.

    Parameters
    ----------
    name
        A key of :data:`SEEDS`.
    seed
        See :func:`loop_run`.

    Returns
    -------
    values
        Measure -> number.
    """
    torch.set_num_threads(1)
    return _MEASURES[name](seed)


def _write_record(name: str, jobs: int) -> None:
    one, seeds = functools.partial(measure, name), range(SEEDS[name])
    if jobs == 1:
        found = [one(seed) for seed in seeds]
    else:
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            found = pool.map(one, seeds, chunksize=1)
    values = {key: [each[key] for each in found] for key in found[0]}
    print(records.write(f"training_{name}", f"{COMMAND} {name}", seeds, values))


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the records of chapter 12 again, all or those that are named."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *_MEASURES], metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1, help="processes for the seeds")
    parser.add_argument(
        "--widget", action="store_true", help="record the run of the widget Training"
    )
    parser.add_argument(
        "--gpu", action="store_true", help="train on the GPU and record that"
    )
    parser.add_argument("--task", default="multi30k", help="of --gpu")
    parser.add_argument("--preset", default="tiny", help="of --gpu")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/gpu"), help="of --gpu: its folder"
    )
    parser.add_argument(
        "--log", nargs=2, metavar=("FOLDER", "NAME"),
        help="keep the log of a finished run as the record NAME",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.gpu:
        return _record_on_gpu(options.out, options.task, options.preset)
    if options.log:
        folder, name = options.log
        _keep(name, f"{COMMAND} --log {folder} {name}", Path(folder), {})
        return 0
    if options.widget:
        from transformer_lib.experiments import _training_widget

        _training_widget.write_widget_record()
        return 0
    for name in options.names or _MEASURES:
        _write_record(name, options.jobs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
