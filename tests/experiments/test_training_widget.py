"""The record of the widget *Training*: how it is written, and that it is the model's."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from transformer_lib.decoding import greedy
from transformer_lib.experiments._training_widget import (
    CODE,
    END,
    EVERY,
    EXAMPLES,
    NOTHING,
    PAIRS,
    ROWS,
    encode_map,
    look,
    snapshot_steps,
    whole_percents,
    widget_record,
    widget_run,
)
from transformer_lib.tasks.dates import WRITTEN_FORMS, DatesTask, write_date
from transformer_lib.training.loop import Trainer, TrainerView
from transformer_lib.training.presets import preset
from transformer_lib.widgets import training as widget
from transformer_lib.widgets.base import recording

RUN = recording("training")


@given(st.lists(st.one_of(st.just(0), st.integers(0, 100)), max_size=200))
@example([0] * 27)
@example([0] * 28)
@example([0] * 55 + [100])
def test_a_map_is_read_as_it_was_written(percents: list[int]) -> None:
    text = encode_map(percents)
    assert widget.decode_map(text, CODE) == percents
    assert len(text) <= len(percents)


def test_neither_json_nor_html_writes_a_character_of_the_code_in_another_way() -> None:
    assert len(set(CODE)) == len(CODE) == 127
    assert not set(CODE) & set("\"'&<>\\\x7f")
    assert min(CODE) > " "


def test_widget_and_record_mean_the_same_end_and_length() -> None:
    assert (END, NOTHING, ROWS) == (widget.END, widget.NOTHING, widget.ROWS)


@pytest.mark.parametrize(("steps", "every"), [(1200, 10), (900, 10), (37, 5), (4, 10)])
def test_snapshots_lie_by_the_square_roots_of_their_steps(
    steps: int, every: int
) -> None:
    chosen = snapshot_steps(steps, 25, every)
    assert chosen[0] == 0
    assert chosen[-1] == steps
    assert chosen == sorted(set(chosen))
    assert all(step % every == 0 for step in chosen[:-1])
    roots = np.sqrt(snapshot_steps(10**6, 25, 1))
    assert np.ptp(np.diff(roots)) < 0.5


@given(
    st.lists(
        st.lists(st.floats(0.001, 1), min_size=7, max_size=7), min_size=1, max_size=4
    )
)
def test_rounded_rows_are_a_hundred_and_lie_close(rows: list[list[float]]) -> None:
    weights = np.array(rows)
    weights /= weights.sum(axis=1, keepdims=True)
    rounded = whole_percents(weights)
    assert (rounded.sum(axis=1) == 100).all()
    assert np.abs(rounded - 100 * weights).max() < 1
    assert (rounded >= 0).all()


def test_the_examples_are_dates_that_were_not_trained_on() -> None:
    split = DatesTask(**preset("dates", "tiny").task_options).split()
    days = [day for day, _ in EXAMPLES]
    assert set(days) <= set(split.test)
    texts = [write_date(day, WRITTEN_FORMS[form]) for day, form in EXAMPLES]
    assert [one["source"] for one in RUN["examples"]] == texts
    assert [one["target"] for one in RUN["examples"]] == [d.isoformat() for d in days]


def test_the_recorded_run_begins_as_the_preset_does() -> None:
    """Before the first step: the same text, and the same weights to a percent."""
    run = preset("dates", "tiny").changed(seed=RUN["seed"], device="cpu")
    task = DatesTask(**run.task_options, train=50)  # its vocabulary is that of all
    trainer = Trainer(run, task=task, progress=False)
    assert RUN["steps"][-1] == run.settings.steps
    assert RUN["parameters"] == trainer.model.num_parameters()
    for one in RUN["examples"]:
        written, maps = look(trainer.model, task, one["source"])
        assert written == one["written"][0]
        for mine, recorded in zip(maps, one["maps"][0], strict=True):
            a, b = (
                np.array(widget.decode_map(t, RUN["code"])) for t in (mine, recorded)
            )
            assert np.abs(a - b).max() <= 1


class _EnoughError(Exception):
    """Ends a training that has shown what was asked."""


@pytest.mark.slow
def test_the_recorded_run_goes_on_as_the_preset_does() -> None:
    """The first point of the curve: another preset or other batches need a new record."""
    found: list[tuple[int, float]] = []

    def note(view: TrainerView) -> None:
        found.append((view.step, view.evaluation.loss))
        raise _EnoughError

    run = widget_run(RUN["seed"], None, EVERY, PAIRS)
    with pytest.raises(_EnoughError):
        Trainer(run, progress=False, on_validation=note).train()
    step, loss = found[0]
    assert step == RUN["curve"]["steps"][1]
    assert loss == pytest.approx(RUN["curve"]["loss"][1], abs=2e-3)


def test_a_look_is_the_model_s_own_attention_while_it_writes() -> None:
    """Row t is what the decoder saw when token t was chosen: the tokens before it."""
    run = preset("dates", "tiny").changed(seed=3, device="cpu")
    task = DatesTask(train=50)
    model = Trainer(run, task=task, progress=False).model
    source = "June 20, 1915"
    written, maps = look(model, task, source)
    vocabulary = task.target_vocabulary
    source_ids = torch.tensor([task.encode_source(source)])
    ids = [
        vocabulary.bos_id,
        *greedy(
            model,
            source_ids,
            bos_id=vocabulary.bos_id,
            eos_id=vocabulary.eos_id,
            max_len=ROWS,
        )[0].tolist(),
    ]
    assert vocabulary.decode(ids) == written.rstrip(END).replace(NOTHING, "")
    for t in range(len(written)):
        cross = (
            model.eval().attention_maps(source_ids, torch.tensor([ids[: t + 1]])).cross
        )
        rows = [head[-1].double().numpy() for layer in cross for head in layer[0]]
        for text, row in zip(maps, rows, strict=True):
            percents = np.array(widget.decode_map(text, CODE)).reshape(-1, len(source))
            assert np.abs(percents[t] - 100 * row).max() < 1


def test_a_short_run_gives_a_whole_record_and_the_same_one_again() -> None:
    task = DatesTask(train=400, validation=20, test=20)
    records = [
        widget_record(steps=4, task=task, snapshots=2, every=2, pairs=10)
        for _ in range(2)
    ]
    assert records[0] == records[1]
    record = json.loads(json.dumps(records[0]))
    assert record["steps"] == [0, 4]
    assert record["curve"]["steps"] == [0, 2, 4]
    assert record.keys() == RUN.keys()
    assert record["pairs"] == 10
    for one in record["examples"]:
        assert len(one["written"]) == len(one["maps"]) == 2
        assert one.keys() == RUN["examples"][0].keys()
