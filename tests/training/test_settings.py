"""Settings: every bad value is named, and they come back from JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from transformer_lib.training import TrainingSettings

GOOD: dict[str, Any] = {"steps": 100, "max_tokens": 512, "lr": 1e-3}

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"steps": 0}, ValueError, "steps: got 0, wanted 1 or more"),
    ({"steps": 2.5}, TypeError, "steps: got 2.5, wanted a whole number"),
    ({"steps": True}, TypeError, "steps: got True"),
    ({"max_tokens": 1}, ValueError, "max_tokens: got 1"),
    ({"accumulate": 0}, ValueError, "accumulate: got 0"),
    ({"lr": 0.0}, ValueError, "lr: got 0.0, wanted a finite number above 0"),
    ({"lr": float("nan")}, ValueError, "lr: got nan"),
    ({"lr": float("inf")}, ValueError, "lr: got inf"),
    ({"lr": "0.1"}, TypeError, "lr: got '0.1', wanted a number"),
    ({"schedule": "linear"}, ValueError, "schedule: got 'linear', wanted one of 'cosi"),
    ({"warmup": -1}, ValueError, "warmup: got -1"),
    ({"warmup": 100}, ValueError, "warmup: got 100, wanted below steps=100"),
    ({"schedule": "inverse_sqrt"}, ValueError, "warmup: got 0, wanted 1 or more for"),
    ({"label_smoothing": 1.0}, ValueError, "label_smoothing: got 1.0"),
    ({"label_smoothing": -0.1}, ValueError, "label_smoothing: got -0.1"),
    ({"clip": -1.0}, ValueError, "clip: got -1.0"),
    ({"clip": float("inf")}, ValueError, "clip: got inf"),
    ({"weight_decay": -1}, ValueError, "weight_decay: got -1"),
    ({"betas": (0.9, 1.0)}, ValueError, r"betas: got \(0.9, 1.0\), wanted two numbers"),
    ({"betas": (0.9,)}, ValueError, "betas: got"),
    ({"betas": 0.9}, ValueError, "betas: got 0.9"),
    ({"betas": (0.9, "x")}, TypeError, "betas: got"),
    ({"seed": -1}, ValueError, "seed: got -1"),
    ({"seed": 2**63}, ValueError, "seed: got 9223372036854775808"),
    ({"device": "quantum"}, ValueError, "device: got 'quantum', wanted 'auto', 'cpu'"),
    ({"device": 0}, TypeError, "device: got 0"),
    ({"precision": "fp8"}, ValueError, "precision: got 'fp8', wanted one of 'auto'"),
    ({"compile": True}, ValueError, "compile: got True, wanted one of 'auto', 'on'"),
    ({"log_every": 0}, ValueError, "log_every: got 0"),
    ({"validate_every": -5}, ValueError, "validate_every: got -5"),
    ({"validation_pairs": 0}, ValueError, "validation_pairs: got 0"),
    ({"checkpoint_every": -1}, ValueError, "checkpoint_every: got -1"),
    ({"keep": 0}, ValueError, "keep: got 0"),
    ({"average": 0}, ValueError, "average: got 0"),
    ({"average": 6}, ValueError, "average: got 6, wanted at most keep=5"),
    ({"patience": -1}, ValueError, "patience: got -1"),
    ({"patience": 2}, ValueError, "patience: got 2, wanted 0 with validate_every=0"),
    (
        {"patience": 2, "validate_every": 5, "average": 2},
        ValueError,
        "average: got 2, wanted 1 with patience=2",
    ),
    ({"beam_size": 0}, ValueError, "beam_size: got 0"),
    ({"length_penalty": -0.6}, ValueError, "length_penalty: got -0.6"),
    ({"threads": 0}, ValueError, "threads: got 0"),
]


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(("values", "kind", "message"), BAD)
def test_a_bad_value_is_named(
    values: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        TrainingSettings(**{**GOOD, **values})
    with pytest.raises(kind, match=message):
        TrainingSettings.from_dict({**GOOD, **values})


@pytest.mark.no_shape_hook
def test_every_setting_has_a_bad_value_that_is_refused() -> None:
    names = {field.name for field in dataclasses.fields(TrainingSettings)}
    assert {name for values, _, _ in BAD for name in values} == names


def test_settings_come_back_from_json() -> None:
    settings = TrainingSettings(
        steps=7, max_tokens=64, lr=1e-5, betas=(0.8, 0.9), seed=2**60, threads=2
    )
    through = json.loads(json.dumps(settings.to_dict()))
    assert TrainingSettings.from_dict(through) == settings
    assert set(through) == {f.name for f in dataclasses.fields(TrainingSettings)}


def test_whole_numbers_serve_as_numbers() -> None:
    settings = TrainingSettings.from_dict({**GOOD, "lr": 1, "betas": [0, 0]})
    assert (settings.lr, settings.betas) == (1.0, (0.0, 0.0))
    assert isinstance(settings.lr, float)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({**GOOD, "warm_up": 3}, "there is no 'warm_up'; perhaps 'warmup' is meant"),
        ({**GOOD, "zzz": 3}, "there is no 'zzz'; known are steps, max_tokens"),
        ({"steps": 3, "lr": 0.1}, "'max_tokens' is missing"),
    ],
)
def test_an_unknown_or_missing_name_is_told(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingSettings.from_dict(values)
