from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from transformer_lib.experiments import records


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(records.resources, "files", lambda _: tmp_path)
    return tmp_path


def test_a_record_comes_back_as_it_was_written(folder: Path) -> None:
    records.write(
        "topic_claim", "python -m x", [0, 1, 2], {"accuracy": [0.5, 1.0, 0.75]}
    )
    record = records.load("topic_claim")
    assert record["command"] == "python -m x"
    assert record["seeds"] == [0, 1, 2]
    assert record["values"] == {"accuracy": [0.5, 1.0, 0.75]}
    assert records.median(record, "accuracy") == 0.75
    assert records.spread(record, "accuracy") == (0.5, 1.0)


def test_a_measure_needs_one_number_per_seed(folder: Path) -> None:
    with pytest.raises(ValueError, match="got 1 numbers, wanted 2"):
        records.write("x", "c", [0, 1], {"accuracy": [1.0]})
    assert not list(folder.iterdir())


def test_an_unknown_record_is_named_with_those_there_are(folder: Path) -> None:
    records.write("there_is", "c", [0], {"a": [1.0]})
    with pytest.raises(ValueError, match="no record 'missing'; there are there_is"):
        records.load("missing")


def test_no_version_in_a_record_is_local(folder: Path) -> None:
    path = records.write("x", "c", [0], {"a": [1.0]})
    assert "+" not in json.dumps(json.loads(path.read_text())["versions"])


def test_every_committed_record_has_command_versions_seeds_and_numbers() -> None:
    stored = [p for p in resources.files(records).iterdir() if p.name.endswith(".json")]
    for path in stored:
        record = json.loads(path.read_text())
        assert set(record) >= {"command", "versions", "seeds", "values"}, path.name
        assert record["command"].startswith("python -m transformer_lib."), path.name
        assert all(len(v) == len(record["seeds"]) for v in record["values"].values()), (
            path.name
        )
