"""Chapter 12's measurements: loops, leaks, resumed runs, and records of long runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from transformer_lib.experiments import records
from transformer_lib.experiments import training as lab
from transformer_lib.nn import Transformer, TransformerConfig
from transformer_lib.tasks import EncodedPair, Pair, load_task
from transformer_lib.training import Trainer, preset

pytestmark = pytest.mark.no_shape_hook


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


def dates(**sizes: int) -> Any:
    return load_task("dates", **{"train": 600, "validation": 8, "test": 8, **sizes})


# --- loops ----------------------------------------------------------------------------


@pytest.mark.parametrize("loop", lab.LOOPS)
def test_every_loop_takes_as_many_updates_and_is_looked_at(loop: str) -> None:
    trainer, curve = lab.train_loop(loop, seed=1, steps=8, task=dates(seed=1))
    assert curve.steps == list(range(1, 9))
    assert len(curve.loss) == len(curve.right) == 8
    assert curve.loss[-1] < curve.loss[0]
    assert not trainer.model.training


def test_the_runs_differ_in_what_their_name_says() -> None:
    whole, bag = (lab.loop_run(loop, seed=2) for loop in ("whole loop", "no positions"))
    assert whole.model == preset("dates", "tiny").model
    assert whole.task_options == {"seed": 2}
    assert whole.settings.seed == 2
    assert bag.model == {**whole.model, "positions": "none"}
    assert bag.settings == whole.settings
    with pytest.raises(ValueError, match="loop: got 'best', wanted one of whole loop"):
        lab.loop_run("best", seed=0)


def test_an_open_future_is_seen_when_it_is_shown_and_only_then() -> None:
    config = TransformerConfig.tiny(vocab_size=20, d_model=16, d_ff=16, dropout=0.0)
    model = Transformer(config, torch.Generator().manual_seed(0)).eval()
    source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[1, 8, 9, 10]])
    other = torch.tensor([[1, 8, 9, 11]])
    state = model.start(source, max_len=4)
    steps = [model.step(target[:, t], state) for t in range(4)]

    def first() -> bool:
        same: torch.Tensor = model(source, target)[:, 0] - model(source, other)[:, 0]
        return bool(same.abs().max() < 1e-6)

    assert first()
    lab.open_the_future(model)
    assert not first()
    state = model.start(source, max_len=4)
    for t, before in enumerate(steps):  # by itself it writes as before
        assert torch.allclose(model.step(target[:, t], state), before, atol=1e-6)


def test_the_plain_loop_draws_its_batches_by_the_seed() -> None:
    task = dates()
    pairs = task.encode(task.pairs("train"))
    models = []
    for seed in (0, 0, 1):
        model = Trainer(lab.loop_run("whole loop", 0), task=task).model
        lab.plain_loop(model, pairs, steps=3, rows=8, seed=seed)
        models.append(torch.cat([p.flatten() for p in model.parameters()]))
    assert torch.equal(models[0], models[1])
    assert not torch.equal(models[0], models[2])


def test_a_padded_batch_counts_its_real_labels() -> None:
    pairs = [EncodedPair([5, 6], [1, 7, 2]), EncodedPair([8], [1, 7, 9, 2])]
    batch = lab.padded_batch(pairs)
    assert batch.source.tolist() == [[5, 6], [8, 0]]
    assert batch.target.tolist() == [[1, 7, 2, 0], [1, 7, 9, 2]]
    assert batch.target_tokens == 5


# --- leaks ----------------------------------------------------------------------------


def test_other_forms_are_of_the_same_date_and_another_text() -> None:
    pairs = list(dates().pairs("train"))
    others = lab.other_forms(pairs, seed=0)
    assert [pair.target for pair in others] == [pair.target for pair in pairs]
    assert all(a.source != b.source for a, b in zip(pairs, others, strict=True))
    assert others == lab.other_forms(pairs, seed=0)
    source = "2001년 2월 3일"
    known = {
        p.source
        for s in range(40)
        for p in lab.other_forms([Pair(source, "2001-02-03")], s)
    }
    assert {"03.02.2001", "February 3, 2001"} <= known


# --- resumed runs ---------------------------------------------------------------------


def test_a_power_cut_leaves_the_last_checkpoint_and_nothing_else(
    tmp_path: Path,
) -> None:
    run = preset("dates", "tiny").changed(
        steps=9, warmup=1, validate_every=3, checkpoint_every=2, device="cpu"
    )
    trainer = Trainer(run, tmp_path / "run", task=dates(), on_validation=lab.cut_at(5))
    with pytest.raises(lab.PowerCut, match="after update 6"):
        trainer.train()
    assert Trainer.resume(tmp_path / "run", task=dates()).step == 4


def test_without_its_moments_a_resumed_run_goes_another_way() -> None:
    found = lab.resumed_losses(seed=0, stop=24, look=8, task=dates())
    assert {len(losses) for losses in found.values()} == {8}
    assert found["resumed"] == found["never stopped"]
    assert found["without moments"][0] == found["resumed"][0]
    others = zip(found["without moments"][1:], found["resumed"][1:], strict=True)
    assert all(forgetful != whole for forgetful, whole in others)


def test_the_recorded_run_without_moments_was_thrown_back() -> None:
    values = records.load("training_resumed")["values"]

    def worst(name: str) -> float:
        return max(values[f"{name}, update {n}"][0] for n in range(1, lab.LOOK + 1))

    assert worst("without moments") > worst("resumed") + 0.1


# --- records of long runs -------------------------------------------------------------


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    run = preset("dates", "tiny").changed(
        steps=4, warmup=1, validate_every=2, log_every=2, device="cpu"
    )
    run = dataclasses.replace(
        run, task_options={"train": 300, "validation": 8, "test": 8}
    )
    Trainer(run, folder).train()
    return folder


def test_the_record_of_a_run_holds_its_log_and_what_it_made_of_the_machine(
    ended: Path,
) -> None:
    record = lab.run_record(ended, peak=1e12, scores={"test": {"exact_match": 0.0}})
    assert [line["step"] for line in record["lines"]] == [2, 4]
    assert record["result"]["result"] == "test"
    assert record["seeds"] == [0]
    assert record["values"]["exact_match"] == [record["result"]["exact_match"]]
    for line in record["lines"]:
        wanted = record["flops per token"] * line["tokens_per_second"] / 1e12
        assert line["utilisation"] == pytest.approx(wanted)
        assert 0.0 < line["utilisation"] < 1.0
    json.dumps(record)


def test_without_a_known_peak_there_is_no_utilisation(ended: Path) -> None:
    record = lab.run_record(ended)
    assert record["peak flops"] is None
    assert all(line["utilisation"] is None for line in record["lines"])


def test_a_run_that_has_not_ended_is_no_record(ended: Path, tmp_path: Path) -> None:
    lines = (ended / "metrics.jsonl").read_text().splitlines()
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    (tmp_path / "run.toml").write_text((ended / "run.toml").read_text())
    with pytest.raises(ValueError, match="has not ended"):
        lab.run_record(tmp_path)


def test_a_log_is_kept_under_its_name_and_found_again(
    ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records.resources, "files", lambda _: tmp_path)
    assert lab.load_cpu_record() is None
    assert lab.main(["--log", str(ended), "multi30k_cpu"]) == 0
    kept = lab.load_cpu_record()
    assert kept is not None
    assert kept["command"].endswith("multi30k_cpu")
    assert len(kept["lines"]) == 2
    assert lab.load_gpu_record() is None


def test_without_a_gpu_nothing_is_trained_and_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert lab.main(["--gpu", "--out", str(tmp_path / "run")]) == 2
    assert "no CUDA device" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_peaks_are_found_by_the_names_that_cuda_tells() -> None:
    names = {
        "Tesla T4": 65e12,
        "NVIDIA L4": 121e12,
        "NVIDIA L40S": 362e12,
        "NVIDIA A100-SXM4-80GB": 312e12,
        "NVIDIA H100 PCIe": 756e12,
        "NVIDIA H200": 989e12,
        "NVIDIA GeForce RTX 4090": 165e12,
        "Some Card": None,
    }
    assert {name: lab.peak_flops(name) for name in names} == names


def test_the_work_of_a_token_is_that_of_its_sentence() -> None:
    config = TransformerConfig.tiny(vocab_size=20)
    model = Transformer(config)
    one = model.flops(3, 2, training=True)
    two = model.flops(5, 4, training=True)
    pairs = [EncodedPair([4] * 3, [1, 5, 2]), EncodedPair([4] * 5, [1, 5, 6, 7, 2])]
    assert lab.work_per_token(model, pairs) == (one + two) / 6


# --- records over the seeds -----------------------------------------------------------


@pytest.mark.parametrize("name", lab.SEEDS)
def test_records_hold_their_seeds(name: str) -> None:
    record = records.load(f"training_{name}")
    count = lab.SEEDS[name]
    assert record["seeds"] == list(range(count))
    assert record["command"] == f"{lab.COMMAND} {name}"
    assert all(len(values) == count for values in record["values"].values())


def test_what_the_course_promises_was_measured_with_every_seed() -> None:
    alone, record = (records.load(f"training_{name}") for name in ("preset", "loops"))
    assert min(alone["values"]["right"]) >= 99.0
    assert min(record["values"]["whole loop, right"]) >= 99.0
    assert max(record["values"]["no causal mask, right"]) < 1.0
    assert max(record["values"]["no positions, right"]) < 25.0
    steps = {*record["values"]["steps"], *alone["values"]["steps"]}
    assert steps == {preset("dates", "tiny").settings.steps}
