"""The training loop: updates, validation, checkpoints, and taking up where it ended."""

import contextlib
import dataclasses
import json
import math
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib.nn import Transformer
from transformer_lib.tasks import load_task
from transformer_lib.tasks.batches import Batches
from transformer_lib.tasks.task import Task
from transformer_lib.training.averaging import (
    average_weights,
    final_weights,
    on_schedule,
)
from transformer_lib.training.bookkeeping import Best, Window
from transformer_lib.training.checkpoint import (
    Checkpoint,
    CheckpointError,
    Refused,
    clean,
    load,
    newest,
    prune,
    save,
    steps_in,
    write_whole,
)
from transformer_lib.training.device import choose_placement, pick_device
from transformer_lib.training.distributed import World, loss_weight
from transformer_lib.training.evaluation import Evaluation, evaluate
from transformer_lib.training.interruption import StopSignals, TrainingInterrupted
from transformer_lib.training.log import MetricsLog, environment
from transformer_lib.training.optimizer import adamw
from transformer_lib.training.presets import Run
from transformer_lib.training.schedule import learning_rate

__all__ = [
    "Result",
    "Trainer",
    "TrainerView",
    "TrainingStopped",
]

CHECKPOINTS, METRICS, RUN = "checkpoints", "metrics.jsonl", "run.toml"
SMALLEST_SCALE = 2.0**-20
"""A loss scaled down so far and still too large for float16 is beyond help."""


class TrainingStopped(RuntimeError):  # noqa: N818 - it names what happened
    """The loss or a gradient is no number any more.

    Attributes
    ----------
    step
        The first update in which it was not.
    checkpoint
        Step of the last good checkpoint; ``None`` if there is none.
    """

    def __init__(self, what: str, step: int, checkpoint: int | None) -> None:
        self.step, self.checkpoint = step, checkpoint
        left = (
            "there is no checkpoint before it"
            if checkpoint is None
            else f"the checkpoint of step {checkpoint} is intact"
        )
        super().__init__(
            f"{what} at step {step}, so training stopped; {left}. A lower lr, a longer "
            "warmup or a smaller clip may help"
        )


class TrainerView(NamedTuple):
    """What a callback sees after a validation.

    Attributes
    ----------
    step
        Number of updates so far.
    model
        As it is now; left in training mode.
    evaluation
        What it wrote, and how good that was.
    entry
        The line of the log.
    """

    step: int
    model: Transformer
    evaluation: Evaluation
    entry: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Result:
    """How a training ended.

    Attributes
    ----------
    steps
        Number of updates.
    stopped_early
        Whether patience ran out before the last step.
    evaluation
        Of the trained model on the first test split. In processes other than the first
        it is ``None``.
    scores
        Of the evaluation, in percent.
    history
        One entry per line of the log: ``step``, ``epoch``, ``loss`` (smoothed, mean
        since the entry before), ``lr``, ``gradient_norm``, ``tokens_per_second`` (real
        target tokens), ``seconds`` of training so far; where it was validated also
        ``validation_loss`` and the scores.
    summary
        The last line of the log.
    """

    steps: int
    stopped_early: bool
    evaluation: Evaluation | None
    scores: dict[str, Any]
    history: list[dict[str, Any]]
    summary: dict[str, Any]


class Trainer:
    """Train a model as a :class:`~transformer_lib.training.presets.Run` says.

    The same run gives the same weights, bit by bit, on the same machine with as many
    threads, on the CPU; also if it was killed and resumed on the way. What dropout
    draws in a batch depends on the seed, the number of the update and that of the batch
    alone, so nothing of it has to be remembered, and two processes draw what one would
    that accumulates two batches.

    Parameters
    ----------
    run
        Task, model, settings.
    folder
        Where checkpoints and the log go: ``checkpoints``, ``metrics.jsonl`` and
        ``run.toml``. ``None`` writes no file.
    task
        The run's task, if it is at hand already.
    resume
        Go on from the newest usable checkpoint in ``folder``; from the start if there
        is none.
    progress
        Show a progress bar; ``None`` shows it if the standard error is a terminal.
    on_validation
        Called after each validation.
    world
        The processes that train together, joined; ``None`` is this one alone.

    Attributes
    ----------
    model
        Being trained; after :meth:`train`, with the weights that were evaluated.
    step
        Number of updates done.
    history
        See :class:`Result`.
    refused
        Checkpoints that were passed over in resuming.

    Raises
    ------
    CheckpointError
        If ``folder`` holds checkpoints and none can be used.
    FileExistsError
        If ``folder`` holds a run and ``resume`` is not set.
    OSError
        If ``folder`` cannot be written.
    ValueError
        If task, model or device cannot be used.

    Examples
    --------
    >>> from transformer_lib.training.presets import preset
    >>> run = preset("dates", "tiny").changed(
    ...     steps=2, warmup=1, validate_every=0, device="cpu"
    ... )
    >>> trainer = Trainer(run, task=load_task("dates", train=200, test=8))
    >>> trainer.train().steps
    2
    """

    def __init__(
        self,
        run: Run,
        folder: Path | None = None,
        *,
        task: Task | None = None,
        resume: bool = False,
        progress: bool | None = None,
        on_validation: Callable[[TrainerView], object] | None = None,
        world: World | None = None,
    ) -> None:
        self.run, self.settings = run, run.settings
        self.folder = folder
        self.progress, self.on_validation = progress, on_validation
        self.world = World() if world is None else world
        self.task = load_task(run.task, **run.task_options) if task is None else task
        if self.task.name != run.task:
            raise ValueError(f"task: got {self.task.name!r}, wanted {run.task!r}")
        self.placement = choose_placement(
            self.settings, self.world.device(pick_device(self.settings.device))
        )
        self.config = run.config(self.task)
        self.evaluation_split = self._choose_split()
        self.batches = Batches(
            self.task.encode(self.task.pairs("train")),
            max_tokens=self.settings.max_tokens,
            seed=self.settings.seed,
            batches_per_update=self.settings.accumulate * self.world.size,
            pad_id=self.config.pad_id,
            pool=self.task.pool,
        )
        generator = torch.Generator().manual_seed(self.settings.seed)
        with torch.random.fork_rng([]):  # torch's layers draw first values of their own
            self.model = Transformer(self.config, generator)
        self.model.to(self.placement.device)
        self._parameters = list(self.model.parameters())
        self.optimizer = adamw(
            self.model,
            lr=self.settings.lr,
            betas=self.settings.betas,
            weight_decay=self.settings.weight_decay,
        )
        self._scaler = (
            torch.amp.GradScaler(self.placement.device.type)
            if self.placement.scales_loss
            else None
        )

        self.step = 0
        self.history: list[dict[str, Any]] = []
        self.refused: list[Refused] = []
        self.seconds = 0.0
        self.tokens = 0
        self._window = Window()
        self._validated_at = self._saved_at = 0
        self._best = Best()
        self._snapshots: deque[tuple[int, dict[str, Tensor]]] = deque(
            maxlen=self.settings.average
        )
        self._signals = StopSignals()
        self._log: MetricsLog | None = None
        self._result: Result | None = None
        self._open(resume)

        loss: nn.Module = _Loss(self.model, self.settings.label_smoothing)
        if self.placement.compiled:
            loss = torch.compile(loss, dynamic=True)  # type: ignore[assignment]
        self._loss = self.world.wrap(
            loss, 0 in (self.config.num_encoder_layers, self.config.num_decoder_layers)
        )

    @classmethod
    def resume(cls, folder: Path, **arguments: Any) -> "Trainer":
        """Take up the run of a folder, with the settings that it had.

        Parameters
        ----------
        folder
            Of an earlier run.
        arguments
            Of the class, but for ``run``, ``folder`` and ``resume``.

        Returns
        -------
        trainer
            At the newest usable checkpoint, or at the start if none was written yet.

        Raises
        ------
        CheckpointError
            If no checkpoint can be used, or the folder holds no run.
        """
        return cls(read_run(folder), folder, resume=True, **arguments)

    # --- the loop ---------------------------------------------------------------------

    def train(self) -> Result:
        """Train to the end, and evaluate.

        After :class:`TrainingInterrupted` it may be called again: it goes on. After the
        end it gives the same result again.

        Returns
        -------
        result
            How good the model is, and how it became so.

        Raises
        ------
        TrainingInterrupted
            After SIGINT or SIGTERM, when the step is done and a checkpoint written.
        TrainingStopped
            If the loss or a gradient is no number any more.
        OSError
            If a checkpoint or the log cannot be written.
        PartnerLost
            If another process of the run died.
        """
        if self._result is not None:
            return self._result
        device = self.placement.device
        threads = torch.get_num_threads()
        generators = [device] if device.type == "cuda" else []
        try:
            if self.settings.threads is not None:
                torch.set_num_threads(self.settings.threads)
            with (
                torch.random.fork_rng(generators),
                StopSignals() as self._signals,
                _bar(self) as bar,
            ):
                self._loop(bar)
                self._result = self._finish()
                return self._result
        finally:
            torch.set_num_threads(threads)

    def _loop(self, bar: Any) -> None:
        self.model.train()
        self._window.start_clock()
        while True:
            if self.world.any(self._signals.heard is not None):
                self._leave()
            if self._validation_due():
                self._validate()
            if self._checkpoint_due():
                self._save()
            if self._done():
                return
            self._update()
            if bar is not None:
                bar.update(1)
            if self._log_due():
                self._note()

    def _update(self) -> None:
        """One step of the optimiser."""
        step, settings, world = self.step + 1, self.settings, self.world
        update = next(self.batches)
        own = world.share(update.batches)
        self.optimizer.zero_grad(set_to_none=True)
        parts = []
        for number, batch in enumerate(own):
            _seed_dropout(
                self.placement.device,
                settings.seed,
                step,
                world.rank + number * world.size,
            )
            weight = loss_weight(batch.target_tokens, update.target_tokens, world.size)
            source, target = self._move(batch.source), self._move(batch.target)
            more = number + 1 < len(own)
            with world.watch("an update"), world.accumulating(self._loss, more):
                with self._autocast():
                    part = self._loss(source, target)
                part = part * weight
                (part if self._scaler is None else self._scaler.scale(part)).backward()
            parts.append(part.detach())

        rate = learning_rate(settings, step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self._scaler is not None:
            self._scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(
            self._parameters, settings.clip or math.inf, foreach=True
        )
        if self._scaler is None:
            self.optimizer.step()
        else:
            self._scaler.step(self.optimizer)
            self._scaler.update()
        self._window.add(sum(parts[1:], parts[0]), norm, update.target_tokens)
        self.step = step

    def _move(self, ids: Tensor) -> Tensor:
        device = self.placement.device
        if device.type == "cuda":
            return ids.pin_memory().to(device, non_blocking=True)
        return ids.to(device)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        device, dtype = self.placement.device, self.placement.autocast
        return (
            contextlib.nullcontext()
            if dtype is None
            else torch.autocast(device.type, dtype)
        )

    # --- what is due ------------------------------------------------------------------

    def _done(self) -> bool:
        return self.step >= self.settings.steps or self._best.patience_ran_out

    def _every(self, count: int) -> bool:
        return count > 0 and (
            self.step % count == 0 or self.step >= self.settings.steps
        )

    def _validation_due(self) -> bool:
        fresh = self._validated_at != self.step
        return fresh and self._every(self.settings.validate_every)

    def _log_due(self) -> bool:
        return self._every(self.settings.log_every) or self._validation_due()

    def _checkpoint_due(self) -> bool:
        if self._saved_at == self.step:
            return False
        every = self.settings.checkpoint_every
        return self._done() or (every > 0 and self.step % every == 0)

    # --- reading losses, validating ---------------------------------------------------

    def _read_window(self) -> None:
        """Wait for the losses since the last reading, and check them."""
        window = self._window
        losses, norms = window.take()
        if self.world.size > 1:  # each rank has its part, times the number of ranks
            losses = [x / self.world.size for x in self.world.sum(losses)]
        good = [
            math.isfinite(a) and math.isfinite(b)
            for a, b in zip(losses, norms, strict=True)
        ]
        first = self.step - len(losses) + 1
        if self._scaler is None:
            if not all(good):
                worst = good.index(False)
                what = "the loss" if not math.isfinite(losses[worst]) else "a gradient"
                value = losses[worst] if what == "the loss" else norms[worst]
                self._stop(f"{what} is {value}", first + worst)
        elif losses and self._scaler.get_scale() < SMALLEST_SCALE:
            self._stop("no scale of the loss fits into float16", first)
        window.count(losses, norms, good)

    def _stop(self, what: str, step: int) -> NoReturn:
        kept = [] if self.folder is None else steps_in(self.folder / CHECKPOINTS)
        raise TrainingStopped(what, step, kept[-1] if kept else None)

    def _note(self) -> None:
        """Read the losses and add a line to the history."""
        self._read_window()
        window = self._window
        self.seconds += window.seconds
        self.tokens += window.tokens
        entry = {
            "step": self.step,
            "epoch": self.batches.epoch,
            "loss": window.mean_loss,
            "lr": learning_rate(self.settings, self.step),
            "gradient_norm": window.last_norm,
            "tokens_per_second": window.tokens / max(window.seconds, 1e-9),
            "seconds": self.seconds,
        }
        self._window = Window()
        self.history.append(entry)
        if not self._validation_due():
            self._write(entry)

    def _validate(self) -> None:
        news: dict[str, Any] | None = None
        evaluation = None
        if self.world.is_main:
            with contextlib.suppress(_StopAskedError):
                evaluation = evaluate(
                    self.model,
                    self.task,
                    "validation",
                    limit=self.settings.validation_pairs,
                    max_tokens=4 * self.settings.max_tokens,
                    between=self._heed_signal,
                )
                loss = evaluation.loss if math.isfinite(evaluation.loss) else None
                news = {"validation_loss": loss, **evaluation.scores}
        news = self.world.same(news)
        if news is None:
            self._leave()
        entry = self.history[-1]
        entry.update(news)
        self._validated_at = self.step
        score = float(news[self.task.metric])
        if self.settings.patience and self._best.note(
            score, self.step, self.settings.patience
        ):
            self._best.weights = _copied(self.model)
        self._write(entry)
        if self.on_validation is not None and evaluation is not None:
            self.on_validation(TrainerView(self.step, self.model, evaluation, entry))
        self._window.start_clock()

    def _heed_signal(self) -> None:
        if self._signals.heard is not None:
            raise _StopAskedError

    def _leave(self) -> NoReturn:
        """Keep what is done, and go."""
        if self.folder is None:
            self._read_window()
        elif self.step and self._saved_at != self.step:
            self._save()
        raise self._interrupted()

    def _interrupted(self) -> TrainingInterrupted:
        number = self._signals.heard or signal.SIGTERM  # another process heard it
        where = (
            "call train() again to go on"
            if self.folder is None
            else f"what was done is in {self.folder}, resume it to go on"
        )
        return TrainingInterrupted(number, self.step, where)

    # --- the end ----------------------------------------------------------------------

    def _finish(self) -> Result:
        """Evaluate the weights that the settings ask for."""
        averaged = self._load_final_weights()
        evaluation, scores = None, None
        if self.world.is_main:
            with contextlib.suppress(_StopAskedError):
                evaluation = evaluate(
                    self.model,
                    self.task,
                    self.evaluation_split,
                    beam_size=self.settings.beam_size,
                    length_penalty=self.settings.length_penalty,
                    max_tokens=4 * self.settings.max_tokens,
                    between=self._heed_signal,
                )
                scores = {"loss": evaluation.loss, **evaluation.scores}
        scores = self.world.same(scores)
        if scores is None:
            raise self._interrupted()
        summary = {
            "step": self.step,
            "result": self.evaluation_split,
            **scores,
            "task": self.run.task,
            "parameters": self.model.num_parameters(),
            "weights_of_steps": averaged,
            "stopped_early": self._best.patience_ran_out,
            "seconds": self.seconds,
            "tokens_per_second": self.tokens / max(self.seconds, 1e-9),
            "processes": self.world.size,
            "placement": self.placement.describe(),
            **environment(self.placement.device),
        }
        self._write(summary)
        self.model.eval()
        return Result(
            self.step,
            self._best.patience_ran_out,
            evaluation,
            {key: value for key, value in scores.items() if key != "loss"},
            self.history,
            summary,
        )

    def _load_final_weights(self) -> list[int]:
        """Mean of the last checkpoints, or the best one's; return their steps."""
        settings = self.settings
        if settings.patience and self._best.weights:
            self.model.load_state_dict(self._best.weights)
            return [self._best.step]
        if settings.average == 1 or not self.world.is_main:
            return [self.step]
        if self.folder is None:
            steps = [step for step, _ in self._snapshots]
            weights = average_weights(weights for _, weights in self._snapshots)
        else:
            folder = self.folder / CHECKPOINTS
            last = load(folder / f"step-{self.step:08d}")
            weights, steps = final_weights(folder, last, settings)
        self.model.load_state_dict(weights)
        return steps

    # --- checkpoints ------------------------------------------------------------------

    def _save(self) -> None:
        """Write a checkpoint, or remember the weights if there is no folder."""
        self._read_window()
        bad = [n for n, p in self.model.named_parameters() if not p.isfinite().all()]
        if bad:
            self._stop(f"{bad[0]} is not finite", self.step)
        self._saved_at = -1 if self._validation_due() else self.step
        if self.folder is None:
            if self.settings.average > 1:
                self._snapshots.append((self.step, _copied(self.model)))
        elif self.world.is_main:
            folder = self.folder / CHECKPOINTS
            tensors = {
                "model": self.model.state_dict(),
                "optimizer": self._optimizer_tensors(),
            }
            if self._best.weights:
                tensors["best"] = self._best.weights
            save(folder, self.step, tensors, self._state())
            self._prune(folder)
        self._window.start_clock()

    def _prune(self, folder: Path) -> None:
        """Keep the newest, and the last of those on schedule: only these are averaged."""
        there = [step for step in steps_in(folder) if step <= self.step]
        end = self.step if self._done() else None
        wanted = on_schedule(there, self.settings.checkpoint_every, end)
        kept = {*wanted[-self.settings.keep :], self.step}
        prune(folder, [step for step in there if step not in kept])

    def _state(self) -> dict[str, Any]:
        return {
            "run": self.run.to_dict(),
            "task": {"name": self.task.name, "options": self.task.options()},
            "config": dataclasses.asdict(self.config),
            "vocabularies": self.task.vocabularies(),
            "batches": self.batches.state_dict(),
            "history": self.history,
            "window": self._window.to_dict(),
            "seconds": self.seconds,
            "tokens": self.tokens,
            "validated_at": self._validated_at,
            "best": self._best.to_dict(),
            "scaler": None if self._scaler is None else self._scaler.state_dict(),
            "processes": self.world.size,
            "environment": environment(self.placement.device),
        }

    def _optimizer_tensors(self) -> dict[str, Tensor]:
        state = self.optimizer.state
        return {
            f"{name}.{key}": value
            for name, parameter in self.model.named_parameters()
            for key, value in state[parameter].items()
        }

    def _open(self, resume: bool) -> None:
        """Prepare the folder and load what there is to resume."""
        if self.folder is None:
            if resume:
                raise ValueError("resume: got True without a folder")
            return
        found = None
        if self.world.is_main:
            found = self._find(self.folder, resume)
            write_whole(self.folder / RUN, self.run.to_toml().encode())
            self._log = MetricsLog(self.folder / METRICS)
        state = self.world.same(None if found is None else found.state)
        if state is not None:
            self._restore(state, {} if found is None else found.tensors)
            if self.world.is_main:
                self._prune(self.folder / CHECKPOINTS)
        if self._log is not None:
            pending = self.step > 0 and self._validation_due()
            self._log.begin(self.history[:-1] if pending else self.history)

    def _find(self, folder: Path, resume: bool) -> Checkpoint | None:
        checkpoints = folder / CHECKPOINTS
        if not resume and (steps_in(checkpoints) or (folder / METRICS).exists()):
            raise FileExistsError(
                f"folder: {folder} holds a run already; resume it, or choose another"
            )
        checkpoints.mkdir(parents=True, exist_ok=True)
        clean(checkpoints)
        clean(folder)
        found, self.refused = newest(checkpoints, self._check_usable)
        if found is None and self.refused:
            raise CheckpointError(
                "no checkpoint can be used:\n"
                + "\n".join(reason for _, reason in self.refused)
            )
        for _, reason in self.refused:
            warnings.warn(f"checkpoint passed over: {reason}", stacklevel=4)
        return found

    def _check_usable(self, checkpoint: Checkpoint) -> None:
        """Raise unless a checkpoint is of this task, this model and these data."""
        state, path = checkpoint.state, checkpoint.path
        mine = {
            "task": {"name": self.task.name, "options": self.task.options()},
            "config": dataclasses.asdict(self.config),
            "vocabularies": self.task.vocabularies(),
        }
        for name, wanted in json.loads(json.dumps(mine)).items():
            for key, value in wanted.items():
                if state[name].get(key) != value:
                    there = state[name].get(key)
                    raise CheckpointError(
                        f"{path}: it is of another run: its {name} has "
                        f"{key}={_short(there)}, this one {_short(value)}"
                    )
        own = {key: tuple(t.shape) for key, t in self.model.state_dict().items()}
        kept = {key: tuple(t.shape) for key, t in checkpoint.tensors["model"].items()}
        if own != kept:
            key = sorted(own.items() ^ kept.items())[0][0]
            raise CheckpointError(
                f"{path}: its weights do not fit: {key} is {kept.get(key, 'missing')}, "
                f"wanted {own.get(key, 'none')}"
            )
        place = self.batches.state_dict()
        try:
            self.batches.load_state_dict(state["batches"])
        except ValueError as error:
            raise CheckpointError(f"{path}: it is of other batches: {error}") from None
        self.batches.load_state_dict(place)

    def _restore(
        self, state: Mapping[str, Any], tensors: Mapping[str, dict[str, Tensor]]
    ) -> None:
        if self.world.is_main:
            self.model.load_state_dict(tensors["model"])
        kept = self.world.same_tensors(tensors.get("optimizer"))
        moments: dict[int, dict[str, Tensor]] = {}
        for number, (name, _) in enumerate(self.model.named_parameters()):
            moments[number] = {
                key: kept[f"{name}.{key}"] for key in ("step", "exp_avg", "exp_avg_sq")
            }
        self.optimizer.load_state_dict(
            {**self.optimizer.state_dict(), "state": moments}
        )
        self.batches.load_state_dict(state["batches"])
        if self._scaler is not None and state["scaler"] is not None:
            self._scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.history = list(state["history"])
        self.seconds, self.tokens = state["seconds"], state["tokens"]
        self._window = Window(**state["window"])
        self._validated_at = state["validated_at"]
        self._best = Best(**state["best"], weights=tensors.get("best", {}))
        self._saved_at = -1 if self._validation_due() else self.step

    def _write(self, entry: Mapping[str, Any]) -> None:
        if self._log is not None:
            self._log.write(entry)

    def _choose_split(self) -> str:
        """The first test split, or the validation's if there is none with pairs."""
        splits = [*self.task.splits[2:], self.task.splits[1]]
        if self.settings.validate_every and not self.task.pairs("validation"):
            raise ValueError(
                f"validate_every: got {self.settings.validate_every}, but the task has "
                "no pairs to validate on"
            )
        for split in splits:
            if self.task.pairs(split):
                return split
        raise ValueError(f"task: no pairs to evaluate on in {', '.join(splits)}")


def read_run(folder: Path) -> Run:
    """Read what a folder's run is: from its newest intact checkpoint, or its settings.

    Raises
    ------
    CheckpointError
        If the folder holds no run.
    """
    found, _ = newest(folder / CHECKPOINTS)
    if found is not None:
        return Run.from_dict(found.state["run"])
    try:
        return Run.from_file(folder / RUN)
    except FileNotFoundError:
        raise CheckpointError(f"{folder}: there is no run in this folder") from None


# --- parts ----------------------------------------------------------------------------


class _StopAskedError(Exception):
    """Leaves an evaluation."""


class _Loss(nn.Module):
    """What is compiled and wrapped: a module whose forward pass is the loss."""

    def __init__(self, model: Transformer, label_smoothing: float) -> None:
        super().__init__()
        self.model, self.label_smoothing = model, label_smoothing

    def forward(
        self, source: Int[Tensor, "batch n_s"], target: Int[Tensor, "batch n_t"]
    ) -> Float[Tensor, ""]:
        loss: Tensor = self.model.loss(source, target, self.label_smoothing)
        return loss


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {
        name: tensor.detach().cpu().clone()
        for name, tensor in model.state_dict().items()
    }


def _seed_dropout(device: torch.device, seed: int, step: int, batch: int) -> None:
    """Let torch's generator begin at a place that only these three numbers decide."""
    mask = 2**64 - 1
    x = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + batch + 1) & mask
    x = ((x ^ (x >> 31)) * 0x94D049BB133111EB) & mask
    x ^= x >> 29
    if device.type == "cuda":
        index = (
            device.index if device.index is not None else torch.cuda.current_device()
        )
        torch.cuda.default_generators[index].manual_seed(x >> 1)
    elif device.type == "cpu":
        torch.default_generator.manual_seed(x >> 32)
    else:
        torch.manual_seed(x >> 32)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


class _NoBar:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _bar(trainer: Trainer) -> Any:
    """A progress bar, if one is wanted and tqdm is there."""
    wanted = trainer.progress
    if wanted is None:
        wanted = sys.stderr.isatty()
    if not wanted or not trainer.world.is_main:
        return _NoBar()
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        return _NoBar()
    return tqdm(total=trainer.settings.steps, initial=trainer.step, unit="step")
