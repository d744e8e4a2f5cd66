"""The loop: the loss of an update, what stops it, what it leaves behind."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import signal
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from events import Events
from letters import LETTERS, MODEL, LettersTask, letters_run
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transformer_lib.tasks import load_task
from transformer_lib.tasks.batches import Batches
from transformer_lib.training import (
    CheckpointError,
    Run,
    Trainer,
    TrainerView,
    TrainingInterrupted,
    TrainingStopped,
    average_weights,
    loop,
    read_metrics,
)
from transformer_lib.training.averaging import on_schedule
from transformer_lib.training.checkpoint import load, steps_in


def trainer(folder: Path | None = None, **settings: Any) -> Trainer:
    extra = {
        name: settings.pop(name)
        for name in ("resume", "progress", "on_validation")
        if name in settings
    }
    return Trainer(letters_run(**settings), folder, task=LettersTask(), **extra)


def weights(made: Trainer) -> dict[str, Tensor]:
    return {n: t.clone() for n, t in made.model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one | other)


# --- one update -----------------------------------------------------------------------


def gradient_of_an_update(accumulate: int) -> tuple[list[Tensor], list[Tensor]]:
    """Of the loop, and of all the update's pairs joined into one batch; float64."""
    run = Run(
        task="letters",
        model={**MODEL, "dropout": 0.0},
        settings=letters_run(accumulate=accumulate, max_tokens=24, clip=0.0).settings,
    )
    made = Trainer(run, task=LettersTask())
    made.model.double()
    update = next(made.batches)
    made.batches.load_state_dict({**made.batches.state_dict(), "epoch": 0, "batch": 0})
    rows = [
        pad_sequence([row for b in update.batches for row in b[side]], batch_first=True)
        for side in (0, 1)
    ]
    made.model.loss(*rows, label_smoothing=0.1).backward()
    joined = [p.grad.clone() for p in made.model.parameters() if p.grad is not None]
    made.optimizer.step = lambda: None  # type: ignore[method-assign,assignment]
    made._update()
    found = [p.grad for p in made.model.parameters() if p.grad is not None]
    assert len({batch.target_tokens for batch in update.batches}) > 1 or accumulate < 5
    return found, joined


def worst(found: list[Tensor], wanted: list[Tensor]) -> float:
    pairs = zip(found, wanted, strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


@pytest.mark.parametrize("accumulate", [1, 2, 5])
def test_an_updates_gradient_is_that_of_the_joined_batch(accumulate: int) -> None:
    assert worst(*gradient_of_an_update(accumulate)) < 1e-12  # float64


def test_a_mean_of_means_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "loss_weight", lambda tokens, all_tokens, processes: 0.2)
    assert worst(*gradient_of_an_update(5)) > 1e-3


def test_the_norm_is_clipped_and_logged_unclipped() -> None:
    made = trainer(clip=1e-3, log_every=1, steps=3)
    made._update()
    norm = math.sqrt(sum(float((p.grad**2).sum()) for p in made._parameters))
    assert norm == pytest.approx(1e-3, rel=1e-3)
    made._note()
    assert made.history[-1]["gradient_norm"] > 0.1


def test_rates_of_the_schedule_reach_the_optimizer() -> None:
    made = trainer(steps=4, warmup=2, log_every=1, lr=0.01)
    rates = []
    ordinary = made.optimizer.step

    def noting() -> None:
        rates.append(made.optimizer.param_groups[0]["lr"])
        ordinary()

    made.optimizer.step = noting  # type: ignore[method-assign,assignment]
    history = made.train().history
    assert rates == pytest.approx([0.005, 0.01, 0.005, 0.0])
    assert [entry["lr"] for entry in history] == pytest.approx(rates)


def test_logged_losses_are_means_over_the_real_tokens_since_the_last_line() -> None:
    each = trainer(log_every=1, steps=6).train().history
    window = trainer(log_every=3, steps=6).train().history
    assert [entry["step"] for entry in window] == [3, 6]
    tokens = []
    batches = trainer(steps=6).batches
    for _ in range(6):
        tokens.append(next(batches).target_tokens)
    for first, entry in ((0, window[0]), (3, window[1])):
        three = slice(first, first + 3)
        total = sum(
            e["loss"] * n for e, n in zip(each[three], tokens[three], strict=True)
        )
        assert entry["loss"] == pytest.approx(total / sum(tokens[three]), rel=1e-6)


# --- a whole run ----------------------------------------------------------------------


def test_it_learns_to_write_letters_backwards() -> None:
    run = letters_run(
        steps=100, warmup=10, max_tokens=400, validate_every=50, label_smoothing=0.0
    )
    result = Trainer(run, task=LettersTask(train=2000, longest=4)).train()
    losses = [e["validation_loss"] for e in result.history if "exact_match" in e]
    assert losses[1] < 0.9 * losses[0] < 0.9 * math.log(len(LETTERS))


def test_three_lines_in_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The dates, a small model, 80 updates: the loss falls; no file, no bar."""
    monkeypatch.chdir(tmp_path)
    task = load_task("dates", train=2000, validation=20, test=20)
    run = Run(
        task="dates",
        model={**MODEL, "d_model": 32, "d_ff": 64, "dropout": 0.0},
        settings=letters_run(steps=60, max_tokens=512, validate_every=30).settings,
    )
    result = Trainer(run, task=task).train()
    first, last = result.history[0], result.history[-1]
    assert last["validation_loss"] < 1.9 < first["loss"]
    assert {"step", "epoch", "lr", "tokens_per_second", "exact_match"} <= set(last)
    assert result.evaluation is not None
    assert len(result.evaluation.written) == 20
    assert result.summary["parameters"] == 0 + sum(
        p.numel() for p in Trainer(run, task=task).model.parameters()
    )
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_the_same_run_gives_the_same_bits_and_another_seed_others() -> None:
    runs = [trainer(steps=4, seed=seed) for seed in (0, 0, 1)]
    results = [made.train() for made in runs]
    assert same(weights(runs[0]), weights(runs[1]))
    assert not same(weights(runs[0]), weights(runs[2]))
    assert results[0].history[0]["loss"] == results[1].history[0]["loss"]
    assert results[0].evaluation == results[1].evaluation


def test_torchs_generator_threads_and_signals_are_left_as_they_were() -> None:
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    other = 1 if threads > 1 else 2
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    seen = []
    trainer(
        steps=4,
        threads=other,
        validate_every=2,
        on_validation=lambda view: seen.append(torch.get_num_threads()),
    ).train()
    assert seen == [other, other]
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert handlers == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]


def test_dropout_draws_anew_in_each_update_and_batch() -> None:
    drawn = set()
    for step in range(1, 30):
        for batch in range(4):
            loop._seed_dropout(torch.device("cpu"), 0, step, batch)
            drawn.add(tuple(torch.rand(2).tolist()))
    assert len(drawn) == 29 * 4


def test_a_callback_sees_each_validation() -> None:
    views: list[TrainerView] = []
    made = trainer(steps=5, validate_every=2, on_validation=views.append)
    result = made.train()
    assert [view.step for view in views] == [2, 4, 5]
    assert views[0].model is made.model
    assert len(views[0].evaluation.written) == 12
    assert views[0].entry == result.history[0]


def test_validation_asks_as_many_pairs_as_wanted_greedily() -> None:
    views: list[TrainerView] = []
    made = trainer(
        steps=2,
        validate_every=2,
        validation_pairs=5,
        beam_size=2,
        on_validation=views.append,
    )
    result = made.train()
    assert len(views[0].evaluation.pairs) == 5
    assert result.evaluation is not None
    assert len(result.evaluation.pairs) == 20


def test_the_end_is_the_end() -> None:
    made = trainer(steps=3)
    first = made.train()
    before = weights(made)
    assert made.train() is first
    assert same(weights(made), before)


@pytest.mark.parametrize("progress", [True, None])
def test_a_bar_is_shown_if_asked_for(
    progress: bool | None, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tqdm")
    trainer(steps=2, progress=progress).train()
    assert bool(capfd.readouterr().err) == bool(progress)


# --- files ----------------------------------------------------------------------------


def test_the_log_is_json_and_ends_in_the_result(tmp_path: Path) -> None:
    result = trainer(tmp_path / "run", steps=5, validate_every=3).train()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert [entry["step"] for entry in found] == [2, 3, 4, 5, 5]
    assert found[:-1] == result.history
    assert found[-1] == result.summary
    assert found[-1]["result"] == "test"
    assert {"exact_match", "loss", "parameters", "device"} <= set(found[-1])
    assert ["exact_match" in entry for entry in found] == [0, 1, 0, 1, 1]


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    trainer(tmp_path, steps=2).train()
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(FileExistsError, match="holds a run already; resume it"):
        trainer(tmp_path, steps=2)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    trainer(tmp_path, steps=7, checkpoint_every=2, keep=2).train()
    assert steps_in(tmp_path / "checkpoints") == [6, 7]
    assert load(tmp_path / "checkpoints" / "step-00000007").state["step"] == 7


def test_without_an_interval_only_the_last_is_written(tmp_path: Path) -> None:
    trainer(tmp_path, steps=5).train()
    assert steps_in(tmp_path / "checkpoints") == [5]


def test_a_finished_run_resumed_gives_its_result_again(tmp_path: Path) -> None:
    made = trainer(tmp_path, steps=5, checkpoint_every=2, average=2)
    first = made.train()
    again = Trainer.resume(tmp_path, task=LettersTask())
    second = again.train()
    assert second.evaluation == first.evaluation
    assert second.history == first.history
    assert same(weights(again), weights(made))
    assert [e["step"] for e in read_metrics(tmp_path / "metrics.jsonl")] == [2, 4, 5, 5]


def test_a_run_without_checkpoint_begins_again(tmp_path: Path) -> None:
    trainer(tmp_path, steps=4)  # killed before it began
    resumed = Trainer.resume(tmp_path, task=LettersTask())
    assert resumed.step == 0
    whole = trainer(steps=4)
    whole.train()
    resumed.train()
    assert same(weights(resumed), weights(whole))


def test_a_run_can_be_prolonged(tmp_path: Path) -> None:
    settings = {"schedule": "inverse_sqrt", "lr": 1e-2}
    trainer(tmp_path, steps=3, **settings).train()
    longer = trainer(tmp_path, steps=6, resume=True, **settings)
    assert longer.step == 3
    longer.train()
    whole = trainer(steps=6, **settings)
    whole.train()
    assert same(weights(longer), weights(whole))


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no run in this folder"):
        Trainer.resume(tmp_path)


# --- checkpoints of others ------------------------------------------------------------


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    trainer(tmp_path / "run", steps=4, checkpoint_every=2).train()
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("task", "model", "settings", "reason"),
    [
        (LettersTask(train=61), {}, {}, "its task has options="),
        (LettersTask(), {"d_ff": 48}, {}, "its config has d_ff=32, this one 48"),
        (
            LettersTask(),
            {"dropout": 0.2},
            {},
            "its config has dropout=0.1, this one 0.2",
        ),
        (
            LettersTask(),
            {},
            {"seed": 1},
            "it is of other batches: .*seed=0, here it is 1",
        ),
        (LettersTask(), {}, {"max_tokens": 80}, "of other batches: .*max_tokens=64"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(
    ended: Path,
    task: LettersTask,
    model: dict[str, Any],
    settings: dict[str, Any],
    reason: str,
) -> None:
    run = Run(
        task="letters",
        model={**MODEL, **model},
        settings=letters_run(steps=4, checkpoint_every=2, **settings).settings,
    )
    with pytest.raises(CheckpointError, match=reason):
        Trainer(run, ended, task=task, resume=True)
    assert steps_in(ended / "checkpoints") == [2, 4]


def test_other_data_of_the_same_name_are_refused(
    ended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = LettersTask._read
    monkeypatch.setattr(
        LettersTask, "_read", lambda self, split: ordinary(self, split)[::-1]
    )
    with pytest.raises(CheckpointError, match=r"of other batches: .* pairs="):
        Trainer.resume(ended, task=LettersTask())


def test_weights_that_do_not_fit_are_refused(
    ended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = loop.Transformer.state_dict

    def renamed(self: Any, *args: Any, **options: Any) -> Any:
        state = ordinary(self, *args, **options)
        state["new.weight"] = state.pop("target_embedding.weight")
        return state

    monkeypatch.setattr(loop.Transformer, "state_dict", renamed)
    with pytest.raises(CheckpointError, match="its weights do not fit: "):
        Trainer.resume(ended, task=LettersTask())


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(ended: Path) -> None:
    whole = trainer(steps=4)
    whole.train()
    (ended / "checkpoints" / "step-00000004" / "model.safetensors").unlink()
    with pytest.warns(
        UserWarning, match=r"passed over: .*model\.safetensors is missing"
    ):
        resumed = Trainer.resume(ended, task=LettersTask())
    assert resumed.step == 2
    assert resumed.refused[0].path.name == "step-00000004"
    resumed.train()
    assert same(weights(resumed), weights(whole))
    load(ended / "checkpoints" / "step-00000004")


def test_without_any_intact_checkpoint_it_does_not_begin_again(ended: Path) -> None:
    for step in (2, 4):
        (ended / "checkpoints" / f"step-{step:08d}" / "state.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"no checkpoint can be used:\n.*no JSON"):
        Trainer.resume(ended, task=LettersTask())


def test_checkpoints_hold_tied_weights_once(tmp_path: Path) -> None:
    trainer(tmp_path, steps=1, warmup=0).train()
    kept = load(tmp_path / "checkpoints" / "step-00000001").tensors
    names = set(trainer(steps=1, warmup=0).model.state_dict())
    assert set(kept["model"]) == names
    assert not any("head" in name for name in names)
    assert len(kept["optimizer"]) == 3 * len(names)


# --- no space -------------------------------------------------------------------------


def test_a_full_disk_ends_the_run_and_leaves_the_older_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(tmp_path, steps=6, checkpoint_every=2)
    writes = []

    def full(number: int, name: str) -> None:
        writes.append(name)
        if writes.count("write model.safetensors") == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        Events(full).install(patch.setattr)
        with pytest.raises(OSError, match="no space left") as caught:
            made.train()
    assert caught.value.errno == errno.ENOSPC
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-00000002"]
    whole = trainer(steps=6)
    whole.train()
    resumed = Trainer.resume(tmp_path, task=LettersTask())
    resumed.train()
    assert same(weights(resumed), weights(whole))


# --- what is no number ----------------------------------------------------------------


def test_nan_stops_at_its_step_and_the_last_checkpoint_stays(tmp_path: Path) -> None:
    def poison(view: TrainerView) -> None:
        if view.step == 4:
            with torch.no_grad():
                view.model.target_embedding.weight[5, 0] = float("nan")

    made = trainer(
        tmp_path,
        steps=20,
        checkpoint_every=3,
        validate_every=4,
        log_every=10,
        on_validation=poison,
    )
    with pytest.raises(
        TrainingStopped,
        match=r"the loss is nan at step 5, .*checkpoint of step 3 is int",
    ) as caught:
        made.train()
    assert (caught.value.step, caught.value.checkpoint) == (5, 3)
    assert steps_in(tmp_path / "checkpoints") == [3]
    kept = load(tmp_path / "checkpoints" / "step-00000003").tensors["model"]
    assert all(bool(tensor.isfinite().all()) for tensor in kept.values())


def test_a_rate_that_is_too_high_stops_without_a_checkpoint() -> None:
    with pytest.raises(TrainingStopped, match="there is no checkpoint before it"):
        trainer(steps=60, lr=1e30, warmup=0, clip=0.0).train()


def test_a_gradient_that_is_no_number_is_named() -> None:
    made = trainer(steps=9, log_every=9)
    made._parameters[0].register_hook(
        lambda gradient: gradient * (math.inf if made.step == 3 else 1.0)
    )
    with pytest.raises(TrainingStopped, match=r"a gradient is (nan|inf) at step 4"):
        made.train()


# --- float16 --------------------------------------------------------------------------


def test_float16_scales_the_loss_and_skips_what_overflows() -> None:
    made = trainer(steps=8, precision="fp16", log_every=1)
    assert made._scaler is not None
    made._scaler.load_state_dict(
        {**made._scaler.state_dict(), "scale": 2.0**40, "_growth_tracker": 0}
    )
    before = weights(made)
    made._update()
    assert made._scaler.get_scale() == 2.0**39
    assert same(weights(made), before)  # skipped
    made._scaler.load_state_dict({**made._scaler.state_dict(), "scale": 2.0**10})
    made._update()
    assert not same(weights(made), before)
    made.train()
    assert all(math.isfinite(e["loss"]) for e in made.history)


def test_float16_is_close_to_float32_when_nothing_overflows() -> None:
    half = trainer(steps=6, precision="fp16").train().history[-1]["loss"]
    full = trainer(steps=6).train().history[-1]["loss"]
    assert half == pytest.approx(full, rel=0.02)


def test_float16_beyond_help_stops() -> None:
    made = trainer(steps=60, precision="fp16", log_every=60)
    assert made._scaler is not None
    made._parameters[0].register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(TrainingStopped, match="no scale of the loss fits into float16"):
        made.train()


def test_the_scale_survives_a_resume(tmp_path: Path) -> None:
    made = trainer(tmp_path, steps=3, precision="fp16")
    assert made._scaler is not None
    made._scaler.load_state_dict({**made._scaler.state_dict(), "scale": 2.0**40})
    made.train()
    resumed = trainer(tmp_path, steps=3, precision="fp16", resume=True)
    assert resumed._scaler is not None
    assert resumed._scaler.get_scale() == made._scaler.get_scale() == 2.0**37


def test_bfloat16_trains_on_a_cpu() -> None:
    half = trainer(steps=6, precision="bf16").train().history[-1]["loss"]
    full = trainer(steps=6).train().history[-1]["loss"]
    assert half == pytest.approx(full, rel=0.05)


# --- averaging, patience --------------------------------------------------------------


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_mean_of_the_last_checkpoints_is_evaluated(
    tmp_path: Path, on_disk: bool
) -> None:
    folder = tmp_path / "run"
    made = trainer(folder if on_disk else None, steps=8, checkpoint_every=2, average=3)
    result = made.train()
    assert result.summary["weights_of_steps"] == [4, 6, 8]
    kept = []
    for steps in (4, 6, 8):
        part = trainer(steps=8)
        for _ in range(steps):
            part._update()
        kept.append(weights(part))
    for name, tensor in weights(made).items():
        mean = sum(w[name].double() for w in kept) / 3
        torch.testing.assert_close(tensor.double(), mean, rtol=1e-6, atol=1e-7)
    assert not same(weights(made), kept[-1])


def test_averages_need_models_of_one_kind() -> None:
    one = {"w": torch.ones(2)}
    for other in ({"v": torch.ones(2)}, {"w": torch.ones(3)}):
        with pytest.raises(ValueError, match="number 1 is not of the same model"):
            average_weights([one, other])
    with pytest.raises(ValueError, match="got no weights"):
        average_weights([])
    half = average_weights([{"w": torch.ones(1, dtype=torch.bfloat16)}])
    assert half["w"].dtype == torch.bfloat16


def test_only_checkpoints_on_schedule_count() -> None:
    assert on_schedule([2, 3, 4, 5], 2, None) == [2, 4]
    assert on_schedule([2, 3, 5], 0, 5) == [5]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Scores that the validations give, whatever the model writes."""
    scores: list[float] = []
    ordinary = loop.evaluate

    def evaluate(model: Any, task: Any, split: str, **options: Any) -> Any:
        found = ordinary(model, task, split, **options)
        if split == "validation":
            found = found._replace(scores={"exact_match": scores.pop(0)})
        return found

    monkeypatch.setattr(loop, "evaluate", evaluate)
    return scores


@pytest.mark.parametrize("on_disk", [False, True])
def test_when_patience_runs_out_the_best_weights_are_evaluated(
    scripted: list[float], tmp_path: Path, on_disk: bool
) -> None:
    scripted += [10.0, 40.0, 40.0, 30.0, 99.0]
    made = trainer(
        tmp_path / "run" if on_disk else None,
        steps=10,
        validate_every=2,
        patience=2,
    )
    result = made.train()
    assert (result.steps, result.stopped_early) == (8, True)
    assert result.summary["weights_of_steps"] == [4]
    part = trainer(steps=10)
    for _ in range(4):
        part._update()
    assert same(weights(made), weights(part))
    if on_disk:
        assert steps_in(tmp_path / "run" / "checkpoints") == [8]
        again = Trainer.resume(tmp_path / "run", task=LettersTask())
        assert again.train().steps == 8
        assert same(weights(again), weights(part))


def test_patience_survives_a_resume(scripted: list[float], tmp_path: Path) -> None:
    scripted += [40.0, 10.0]
    made = trainer(tmp_path, steps=10, validate_every=2, patience=2, checkpoint_every=5)
    while made.step < 5:
        made._update()
        if made._log_due():
            made._note()
        if made._validation_due():
            made._validate()
    made._save()
    scripted += [20.0, 99.0]
    resumed = Trainer.resume(tmp_path, task=LettersTask())
    result = resumed.train()
    assert (result.steps, result.stopped_early) == (6, True)
    assert result.summary["weights_of_steps"] == [2]


# --- signals --------------------------------------------------------------------------


def interrupting(
    monkeypatch: pytest.MonkeyPatch, step: int, *numbers: signal.Signals
) -> None:
    """Send signals when an update has begun."""
    ordinary = Batches.__next__
    begun = [0]

    def counted(self: Batches) -> Any:
        begun[0] += 1
        if begun[0] == step:
            for number in numbers:
                os.kill(os.getpid(), number)
        return ordinary(self)

    monkeypatch.setattr(Batches, "__next__", counted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_notebook_keeps_the_work(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    whole = trainer(steps=6, average=2, checkpoint_every=2)
    whole.train()
    interrupting(monkeypatch, 3, number)
    made = trainer(steps=6, average=2, checkpoint_every=2)
    with pytest.raises(TrainingInterrupted, match=r"after step 3; call train\(\)") as e:
        made.train()
    assert (e.value.signal_number, e.value.step, made.step) == (number, 3, 3)
    result = made.train()
    assert result.steps == 6
    assert same(weights(made), weights(whole))


def test_a_second_signal_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting(monkeypatch, 3, signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        trainer(steps=6).train()


def test_a_signal_that_was_to_be_ignored_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        interrupting(monkeypatch, 2, signal.SIGTERM)
        assert trainer(steps=3).train().steps == 3
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_in_the_last_evaluation_is_heeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = loop.evaluate

    def disturbed(*args: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return ordinary(*args, **options)

    made = trainer(tmp_path, steps=3, checkpoint_every=1, average=2)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "evaluate", disturbed)
        with pytest.raises(TrainingInterrupted, match="resume it to go on"):
            made.train()
    assert (
        made.train().evaluation
        == Trainer.resume(tmp_path, task=LettersTask()).train().evaluation
    )


def test_in_another_thread_it_trains_without_signals() -> None:
    results = []
    thread = threading.Thread(target=lambda: results.append(trainer(steps=2).train()))
    thread.start()
    thread.join()
    assert results[0].steps == 2


# --- what cannot be -------------------------------------------------------------------


@pytest.mark.no_shape_hook
def test_what_cannot_be_trained_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="resume: got True without a folder"):
        trainer(resume=True)
    with pytest.raises(ValueError, match="task: got 'letters', wanted 'dates'"):
        Trainer(Run(task="dates", settings=letters_run().settings), task=LettersTask())
    with pytest.raises(ValueError, match="task: no pairs to evaluate on in test, val"):
        Trainer(
            Run(task="dates", model=MODEL, settings=letters_run().settings),
            task=load_task("dates", train=9, validation=0, test=0),
        )
    with pytest.raises(ValueError, match="validate_every: got 5, but the task has no"):
        Trainer(
            Run(
                task="dates",
                model=MODEL,
                settings=letters_run(validate_every=5).settings,
            ),
            task=load_task("dates", train=9, validation=0, test=9),
        )
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device: got 'cuda', but torch sees 0"):
            trainer(device="cuda")
    with pytest.raises(ValueError, match=r"has 10 tokens|max_tokens"):
        trainer(max_tokens=4)


def test_no_warning_comes_up_in_an_ordinary_run(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer(tmp_path, steps=4, validate_every=2, checkpoint_every=2).train()
        shutil.rmtree(tmp_path / "checkpoints" / "step-00000004")
        Trainer.resume(tmp_path, task=LettersTask()).train()
