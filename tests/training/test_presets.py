"""Runs: every preset can be built, TOML goes both ways, bad values are named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from letters import LettersTask, letters_run

from transformer_lib.nn import Transformer
from transformer_lib.tasks import TASKS, load_task
from transformer_lib.training import PRESETS, Run, TrainingSettings, preset

EVERY = [(task, name) for task, of_task in PRESETS.items() for name in of_task]
READS_TOML = pytest.mark.skipif(sys.version_info < (3, 11), reason="no tomllib")
SETTINGS = TrainingSettings(steps=5, max_tokens=64, lr=1e-4)


@pytest.mark.parametrize(("task", "name"), EVERY)
def test_presets_are_of_known_tasks_and_go_through_a_dict(task: str, name: str) -> None:
    run = preset(task, name)
    assert run.task == task
    assert task in TASKS
    assert Run.from_dict(run.to_dict()) == run
    if task != "multi30k":
        assert load_task(run.task, **run.task_options).name == task


@READS_TOML
@pytest.mark.parametrize(("task", "name"), EVERY)
def test_presets_go_through_toml(task: str, name: str) -> None:
    assert Run.from_toml(preset(task, name).to_toml()) == preset(task, name)


def test_every_task_has_a_tiny_preset() -> None:
    assert set(PRESETS) == set(TASKS)
    assert all("tiny" in of_task for of_task in PRESETS.values())


def test_the_dates_model_has_about_a_quarter_million_parameters() -> None:
    run = preset("dates", "tiny")
    model = Transformer(run.config(load_task("dates")))
    assert 230_000 < model.num_parameters() < 250_000


@READS_TOML
def test_toml_keeps_what_is_hard_to_write(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "quote": 'a "b" \\ c',
        "lines": "1\n2\t\x7f\x1f",
        "korean": "한글 🌳",
        "empty": "",
        "forms": [["de", "dd.MM.y"], ["ko", "y년 M월 d일"]],
        "yes": True,
        "none": [],
        "nested": {"a b": 1, "c": [1.5, 2.0]},
    }
    run = Run(task="any", task_options=options, settings=SETTINGS)
    path = tmp_path / "run.toml"
    path.write_text(run.to_toml(), encoding="utf-8")
    assert Run.from_file(path) == run
    assert Run.from_file(path).settings.lr == 1e-4


@READS_TOML
def test_none_is_left_out_of_toml() -> None:
    text = letters_run(threads=None).to_toml()
    assert "threads" not in text
    assert Run.from_toml(text).settings.threads is None


def test_without_tomllib_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tomllib", None)
    with pytest.raises(RuntimeError, match=r"Python reads from 3\.11 on; this is 3"):
        Run.from_toml("")


def test_the_task_completes_the_model() -> None:
    config = letters_run().config(LettersTask())
    assert (config.src_vocab_size, config.tgt_vocab_size) == (11, 11)
    assert (config.max_len, config.d_model) == (8, 16)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ({}, ValueError, "task: 'name' is missing"),
        ({"task": {"name": "dates"}}, ValueError, "settings: 'steps' is missing"),
        ({"tasks": {}}, ValueError, "run: there is no 'tasks'; perhaps 'task' is"),
        ({"task": "dates"}, TypeError, "task: got 'dates', wanted a table"),
        ({"task": {"name": 3}}, TypeError, "task: got 3, wanted a name"),
        ({"model": {"d_modle": 3}}, ValueError, "model: there is no 'd_modle'; perh"),
        ({"model": {"d_model": 10}}, ValueError, "d_model=10 is not divisible"),
        ({"model": {"max_len": 9}}, ValueError, "model: 'max_len' is decided by the t"),
        ({"training": {"steps": 0}}, ValueError, "steps: got 0"),
    ],
)
def test_a_bad_value_of_a_run_is_named(
    values: dict[str, Any], kind: type[Exception], message: str
) -> None:
    whole = {"task": {"name": "dates"}, "training": SETTINGS.to_dict()}
    if values and "training" not in values and "task" not in values:
        values = {**whole, **values}
    elif "training" in values or values == {"task": {"name": 3}}:
        values = {**whole, **values}
        values["training"] = {**SETTINGS.to_dict(), **values["training"]}
    with pytest.raises(kind, match=message):
        Run.from_dict(values)


@READS_TOML
def test_what_is_no_toml_is_told() -> None:
    with pytest.raises(ValueError, match="not TOML: "):
        Run.from_toml("steps: 3")


@pytest.mark.parametrize(
    ("task", "name", "message"),
    [
        ("date", "tiny", "task: got 'date', wanted one of dates"),
        ("dates", "huge", "preset: got 'huge' for 'dates', wanted one of tiny"),
    ],
)
def test_an_unknown_preset_lists_the_known(task: str, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        preset(task, name)
