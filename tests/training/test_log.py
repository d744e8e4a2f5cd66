"""The log: JSON on every line, also after a crash."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from events import Events

from transformer_lib.training.log import MetricsLog, environment, read_metrics


@pytest.fixture
def log(tmp_path: Path) -> MetricsLog:
    made = MetricsLog(tmp_path / "metrics.jsonl")
    made.begin([])
    return made


def test_every_line_is_json_whatever_comes(log: MetricsLog) -> None:
    entries: list[dict[str, Any]] = [
        {"step": 1, "loss": float("nan"), "norm": float("-inf")},
        {"step": 2, "text": "세 줄\nand 'quotes'", "list": [1.5, float("inf")]},
        {"step": 3, "nested": {"a": (1, 2)}},
    ]
    for entry in entries:
        log.write(entry)
    lines = log.path.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert found == read_metrics(log.path)
    assert found[0] == {"step": 1, "loss": None, "norm": None}
    assert found[1]["list"] == [1.5, None]
    assert found[2]["nested"] == {"a": [1, 2]}


def test_a_line_is_there_as_soon_as_it_is_written(log: MetricsLog) -> None:
    log.write({"step": 1})
    assert read_metrics(log.path) == [{"step": 1}]


@pytest.mark.parametrize("torn", [b'{"step": 3, "lo', b"\xff\xfe", b"{"])
def test_a_torn_last_line_is_left_out(log: MetricsLog, torn: bytes) -> None:
    log.write({"step": 1})
    log.path.write_bytes(log.path.read_bytes() + torn)
    assert read_metrics(log.path) == [{"step": 1}]


def test_a_broken_line_before_the_last_is_told(log: MetricsLog) -> None:
    log.path.write_bytes(b'{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(ValueError, match="line 2 is no JSON"):
        read_metrics(log.path)
    log.path.write_bytes(b"[1]\n")
    with pytest.raises(ValueError, match="line 1 is no JSON object"):
        read_metrics(log.path)


def test_begin_replaces_all_lines_at_once(log: MetricsLog) -> None:
    log.write({"step": 1})
    log.begin([{"step": 7}, {"step": 8}])
    assert read_metrics(log.path) == [{"step": 7}, {"step": 8}]


def test_a_full_disk_leaves_the_old_lines(
    log: MetricsLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write({"step": 1})

    def full(number: int, name: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        Events(full).install(patch.setattr)
        with pytest.raises(OSError, match="no space left") as caught:
            log.begin([{"step": 7}])
        with pytest.raises(OSError, match=r"metrics\.jsonl could not be written"):
            log.write({"step": 2})
    assert caught.value.errno == errno.ENOSPC
    assert read_metrics(log.path) == [{"step": 1}]
    assert [path.name for path in log.path.parent.iterdir()] == ["metrics.jsonl"]


def test_a_missing_file_is_no_empty_log(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_metrics(tmp_path / "metrics.jsonl")


def test_the_record_of_the_machine_can_be_written_as_json() -> None:
    facts = environment(torch.device("cpu"))
    assert set(facts) == {"device", "threads", "versions", "commit"}
    assert facts["versions"]["torch"] == torch.__version__
    assert json.loads(json.dumps(facts)) == facts
