"""A run that is killed at any moment goes on to the same bits."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("resume"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
]

SUPPORT = Path(__file__).parents[1] / "support"

NAMED_POINTS = (
    r"make \.partial-step-N",  # before the write
    r"write model\.safetensors",  # in mid-write of each file
    r"write optimizer\.safetensors",
    r"write state\.json",
    r"flush state\.json",
    r"flush \.partial-step-N",
    r"rename \.partial-step-N to step-N",  # before the rename
    r"flush checkpoints",  # after it
    r"rename step-N to \.removing-step-N",  # before the old one is removed
    r"remove \.removing-step-N",  # while it is
    r"remove \.removing-step-N, half-way",
    r"write metrics\.jsonl",
    r"rename \.partial-metrics\.jsonl to metrics\.jsonl",
    r"write \.partial-run\.toml",
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "dying.py"), str(tmp_path_factory.mktemp("r"))],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    print(len(found["events"]), "touches of the disk,", len(found["trials"]), "trials")
    return found


def trials(report: dict[str, Any], pattern: str) -> list[dict[str, Any]]:
    found = [t for t in report["trials"] if re.fullmatch(pattern, t["name"])]
    assert found, pattern
    return found


def whole(report: dict[str, Any]) -> dict[str, Any]:
    (trial,) = trials(report, "whole")
    assert trial["first"] == 0
    outcome: dict[str, Any] = trial["outcome"]
    return outcome


def check_same(report: dict[str, Any], trial: dict[str, Any]) -> None:
    assert trial["second"] == 0, trial["name"]
    for what in ("weights", "optimizer", "evaluated", "metrics", "folders", "files"):
        wanted = whole(report)[what]
        assert trial["outcome"][what] == wanted, (trial["name"], what)


@pytest.mark.parametrize("point", NAMED_POINTS)
def test_killed_at_a_named_point_it_ends_in_the_same_bits(
    report: dict[str, Any], point: str
) -> None:
    for trial in trials(report, rf"\d+: {point}"):
        assert trial["first"] == -9
        check_same(report, trial)


def test_killed_at_any_touch_of_the_disk_it_ends_in_the_same_bits(
    report: dict[str, Any],
) -> None:
    found = trials(report, r"\d+: .*")
    assert len(found) == len(report["events"]) > 60
    for trial in found:
        assert trial["first"] == -9, trial["name"]
        check_same(report, trial)


def test_some_kills_leave_halves_behind_and_none_is_left_in_the_end(
    report: dict[str, Any],
) -> None:
    left = [name for t in trials(report, r"\d+: .*") for name in t["left"]]
    assert any(name.startswith(".partial-") for name in left)
    assert any(name.startswith(".removing-") for name in left)
    assert whole(report)["folders"] == [
        "step-00000006",
        "step-00000009",
        "step-00000010",
    ]


@pytest.mark.parametrize("pattern", [r"between steps, \d", r"moment \d"])
def test_killed_between_steps_and_at_seeded_moments_it_ends_in_the_same_bits(
    report: dict[str, Any], pattern: str
) -> None:
    found = trials(report, pattern)
    assert all(trial["first"] < 0 for trial in found)
    for trial in found:
        check_same(report, trial)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_lets_the_step_end_and_writes_a_checkpoint(
    report: dict[str, Any], name: str
) -> None:
    for trial in trials(report, rf"{name} in .*"):
        assert trial["first"] == 77, trial["name"]
        assert re.search(r"step-0000000[56]", trial["left"][-1]), trial["left"]
        check_same(report, trial)


def test_no_step_of_the_log_is_missing_or_there_twice(report: dict[str, Any]) -> None:
    for trial in report["trials"]:
        if "forgotten" not in trial["name"]:
            steps = [entry["step"] for entry in trial["outcome"]["metrics"]]
            assert steps == [2, 4, 5, 6, 8, 10, 10], trial["name"]
            assert "exact_match" in trial["outcome"]["metrics"][-1]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("moments forgotten", "weights"),
        ("place forgotten", "weights"),
        ("dropout forgotten", "weights"),
        ("average of any", "evaluated"),
    ],
)
def test_a_resume_that_forgets_something_is_seen(
    report: dict[str, Any], name: str, what: str
) -> None:
    (trial,) = trials(report, name)
    assert trial["second"] == 0
    assert trial["outcome"][what] != whole(report)[what]
