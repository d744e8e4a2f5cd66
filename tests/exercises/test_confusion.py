"""Every known mistake gets its own name and no other; every right answer passes.

The matrices of the real exercises are made in a process without the shape-checking hook:
thousands of calls of tiny functions take ten times as long with it.
"""

from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
import pytest

from transformer_lib.exercises import registry
from transformer_lib.exercises._calling import Outcome, call
from transformer_lib.exercises._grading import loose
from transformer_lib.exercises.confusion import confusion, main
from transformer_lib.exercises.engine import Exercise, Mistake, Probe, Variant
from transformer_lib.exercises.pencil import Blank, Pencil, Slip

TOPICS = sorted(set(registry.topics().values()))


def functions() -> list[Exercise]:
    found = [registry.find(name) for name in sorted(registry.topics())]
    return [exercise for exercise in found if isinstance(exercise, Exercise)]


def pencils() -> list[Pencil]:
    found = [registry.find(name) for name in sorted(registry.topics())]
    sheets = [e for e in found if isinstance(e, Pencil)]
    return sheets + [e.numbers for e in functions() if e.numbers is not None]


@pytest.mark.parametrize("topic", TOPICS)
def test_each_mistake_gets_its_own_diagnosis_and_right_answers_pass(topic: str) -> None:
    """Pairs of mistakes are sampled: they must not pass or crash the checker."""
    command = [sys.executable, "-m", "transformer_lib.exercises.confusion", topic]
    run = subprocess.run(
        [*command, "--together", "12"], capture_output=True, text=True, check=False
    )
    print(run.stdout, run.stderr)
    assert run.returncode == 0, run.stdout[-3000:]
    names = [name for name, where in registry.topics().items() if where == topic]
    for name in names:
        assert f"\n{name}: " in f"\n{run.stdout}", name


def _exercise(*mistakes: Mistake, value: float) -> Exercise:
    return Exercise(
        name="example",
        statement="Return x.",
        arguments=("x",),
        reference=lambda x: x,
        probes=(Probe(np.array([value]), about="a number"),),
        mistakes=mistakes,
    )


SQUARED = Mistake("squared", "It is squared.", "?", lambda x: x**2)
DOUBLED = Mistake("doubled", "It is doubled.", "?", lambda x: 2 * x)


def test_the_matrix_shows_two_mistakes_that_no_probe_tells_apart() -> None:
    matrix = confusion(_exercise(SQUARED, DOUBLED, value=2.0))
    assert matrix.errors == [
        "example: squared is called squared+doubled",
        "example: doubled is called squared+doubled",
    ]
    assert "wrong: example: squared is called" in str(matrix)


def test_the_matrix_shows_a_mistake_that_no_probe_sees() -> None:
    matrix = confusion(_exercise(SQUARED, value=1.0))
    assert matrix.errors == ["example: squared is called right"]


def test_the_matrix_shows_a_variant_that_is_not_accepted() -> None:
    flawed = Exercise(
        name="example",
        statement="Return x.",
        arguments=("x",),
        reference=lambda x: x,
        probes=(Probe(np.array([3.0]), about="a number"),),
        variants=(
            Variant("random", "?", lambda x: x + np.random.default_rng().random()),
        ),
    )
    assert confusion(flawed).errors == ["example: variant+random is called unsteady"]


def test_the_matrix_shows_a_slip_that_equals_the_right_value() -> None:
    slip = Slip("same", "It is the same.", "?", {"sum": 2.0})
    sheet = Pencil("sheet", "", (Blank("sum", 2.0, "?"),), (slip,))
    assert confusion(sheet).errors == ["sheet: same is called right"]


def test_the_command_fails_when_a_matrix_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "topics", lambda: {"example": "example"})
    broken = _exercise(SQUARED, value=1.0)
    monkeypatch.setattr(registry, "find", lambda name: broken)
    assert main(["example"]) == 1
    assert "1 known mistakes, 1 wrong diagnoses" in capsys.readouterr().out


@functools.cache
def _outcomes(name: str) -> dict[str, list[Outcome]]:
    """What the reference and each mistake of an exercise do on each probe."""
    exercise = registry.find(name)
    made = {mistake.name: exercise.build(mistake) for mistake in exercise.mistakes}
    return {
        label: [
            call(f, probe.arguments, exercise.arguments) for probe in exercise.probes
        ]
        for label, f in {"reference": exercise.reference, **made}.items()
    }


@pytest.mark.parametrize("exercise", functions(), ids=lambda e: e.name)
def test_each_mistake_is_far_from_right_on_some_probe(exercise: Exercise) -> None:
    """A verdict must not hang on the last digits of some processor's arithmetic."""
    several = bool(exercise.returns)
    done = _outcomes(exercise.name)
    for label, outcomes in done.items():
        gaps = [
            _gap(right, outcome, several)
            for right, outcome in zip(done["reference"], outcomes, strict=True)
        ]
        assert (max(gaps) > 1e-3) == (label != "reference"), label


def _gap(expected: Outcome, outcome: Outcome, several: bool) -> float:
    """Largest difference from the reference; inf for another shape."""
    want, got = loose(expected.value, several), loose(outcome.value, several)
    if outcome.error_class or len(want) != len(got):
        return np.inf
    gap = 0.0
    for w, g in zip(want, got, strict=True):
        if np.shape(w) != np.shape(g):
            return np.inf
        off = np.abs(np.asarray(g, dtype=float) - np.asarray(w, dtype=float))
        gap = max(gap, float(np.nan_to_num(off, nan=np.inf).max(initial=0.0)))
    return gap


@pytest.mark.parametrize("exercise", functions(), ids=lambda e: e.name)
def test_each_mistake_returns_something_on_some_probe(exercise: Exercise) -> None:
    """An answer that raises everywhere is told its error, not a known mistake."""
    for label, outcomes in _outcomes(exercise.name).items():
        assert not all(outcome.error_class for outcome in outcomes), label


@pytest.mark.parametrize("exercise", functions(), ids=lambda e: e.name)
def test_no_mistake_and_no_reference_changes_its_input(exercise: Exercise) -> None:
    for label, outcomes in _outcomes(exercise.name).items():
        assert not any(outcome.changed for outcome in outcomes), label


def test_every_known_mistake_is_told_in_a_sentence_and_asks_a_question() -> None:
    told = [
        mistake
        for exercise in (*functions(), *pencils())
        for mistake in exercise.mistakes
    ]
    for mistake in told:
        assert mistake.says.rstrip(")").endswith("."), mistake.name
        assert "?" in mistake.ask, mistake.name
    print(f"{len(told)} known mistakes")
    assert len(told) >= 500


@pytest.mark.parametrize("exercise", functions(), ids=lambda e: e.name)
def test_each_probe_says_what_it_isolates_and_each_exercise_asks(
    exercise: Exercise,
) -> None:
    assert exercise.ask.endswith((".", "?"))
    assert exercise.statement.endswith(".")
    about = [probe.about for probe in exercise.probes]
    assert all(about)
    assert len(set(about)) == len(about)
