"""How every kind of answer is received: right, wrong, broken, endless, odd."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib.exercises import check
from transformer_lib.exercises.engine import (
    Beyond,
    Exercise,
    Mistake,
    Probe,
    Property,
    Variant,
)
from transformer_lib.exercises.verdict import Verdict


def _build(power: float = 1.0, factor: float = 2.0) -> Callable[..., Any]:
    return lambda x: factor * np.sign(x) * np.abs(x) ** power


DOUBLE = Exercise(
    name="double",
    statement="Return twice the vector x.",
    ask="What should become of -2?",
    arguments=("x",),
    reference=lambda x: 2.0 * x,
    probes=(
        Probe(np.array([1.0]), about="one number"),
        Probe(np.array([0.5, -2.0, 3.0]), about="three numbers"),
        Probe(np.array([[1.0, 4.0]]), about="a row"),
    ),
    properties=(
        Property(
            "The sign should stay, and here it changes.",
            lambda got, x: bool((np.sign(got) == np.sign(x)).all()),
        ),
    ),
    beyond=(Beyond(Probe(np.zeros((0,))), "It fails on an empty vector."),),
    variants=(Variant("halves", "yours halves, as some texts do.", lambda x: x / 2.0),),
    assemble=_build,
    mistakes=(
        Mistake(
            "squared",
            "x is squared as well.",
            "What becomes of 3?",
            settings={"power": 2.0},
        ),
        Mistake("tripled", "x is tripled.", "Why 3?", settings={"factor": 3.0}),
    ),
)

TWO = Exercise(
    name="both",
    statement="Return the sum and the differences of x.",
    ask="What is the sum?",
    arguments=("x", "y"),
    reference=lambda x, y: (x + y, x - y),
    returns=("plus", "minus"),
    probes=(
        Probe(np.array([1.0]), np.array([2.0]), about="one number"),
        Probe(np.array([5.0, 1.0]), np.array([1.0, 7.0]), about="two numbers"),
    ),
)


def said(verdict: Verdict) -> str:
    """The whole text on one line."""
    return " ".join(str(verdict).split())


# Right


def test_a_right_answer_passes_and_is_true() -> None:
    verdict = DOUBLE.judge(lambda x: x + x)
    assert verdict.passed
    assert bool(verdict)
    assert verdict.status == "right"
    assert str(verdict).startswith("✓ double: right")


def test_a_wrong_answer_is_false() -> None:
    assert not DOUBLE.judge(lambda x: x)


def test_another_convention_passes_and_says_what_differs() -> None:
    verdict = DOUBLE.judge(lambda x: 0.5 * x)
    assert verdict.passed
    assert "Accepted: yours halves" in said(verdict)


def test_what_was_not_asked_for_earns_a_note_only() -> None:
    def careful(x: Any) -> Any:
        if len(x) == 0:
            raise ValueError("nothing to double")
        return 2 * x

    verdict = DOUBLE.judge(careful)
    assert verdict.passed
    assert verdict.notes == ("It fails on an empty vector.",)
    assert DOUBLE.judge(lambda x: 2 * x).notes == ()


def test_rounding_in_the_last_digits_is_right() -> None:
    assert DOUBLE.judge(lambda x: x * 6.0 / 3.0 + 1e-13).passed
    assert not DOUBLE.judge(lambda x: x * 2.0 + 1e-4).passed


@pytest.mark.parametrize(
    ("convert", "note"),
    [
        (lambda y: y.tolist(), "You return a list"),
        (lambda y: y.astype(np.float32), "float32"),
        (lambda y: y.astype(complex), ""),
        (lambda y: y.astype(object), ""),
    ],
    ids=["list", "float32", "complex", "objects"],
)
def test_other_kinds_of_numbers_are_accepted(
    convert: Callable[[np.ndarray], Any], note: str
) -> None:
    verdict = DOUBLE.judge(lambda x: convert(2.0 * x))
    assert verdict.passed
    assert note in " ".join(verdict.notes)


def test_results_may_come_as_tuple_list_or_stacked() -> None:
    assert TWO.judge(lambda x, y: [x + y, x - y]).passed
    assert TWO.judge(lambda x, y: np.stack([x + y, x - y])).passed
    assert not TWO.judge(lambda x, y: (x - y, x + y)).passed


def test_callable_objects_partials_and_defaults_are_functions_too() -> None:
    import functools

    class Doubler:
        def __call__(self, x: Any, factor: float = 2.0) -> Any:
            return factor * x

    assert DOUBLE.judge(Doubler()).passed
    assert DOUBLE.judge(functools.partial(np.multiply, 2.0)).passed


# Not attempted


def _docstring_only(x: Any) -> Any:
    """Return twice the vector x."""


def _dots(x: Any) -> Any: ...


def _pass(x: Any) -> Any:
    pass


def _returns_dots(x: Any) -> Any:
    return ...


def _not_implemented(x: Any) -> Any:
    raise NotImplementedError


def _half_done(x: Any) -> Any:
    y = x + 0.0
    result: Any = ...
    return result if y is not None else y


@pytest.mark.parametrize(
    "stub",
    [
        _docstring_only, _dots, _pass, _returns_dots, _not_implemented, _half_done,
        None, ..., lambda x: ...,
    ],
)  # fmt: skip
def test_a_stub_counts_as_not_attempted(stub: Any) -> None:
    verdict = DOUBLE.judge(stub)
    assert verdict.status == "not attempted"
    assert not verdict
    assert "not attempted yet" in said(verdict)


def test_a_placeholder_left_in_the_middle_is_pointed_out() -> None:
    def half(x: Any) -> Any:
        factor: Any = ...
        return factor * x

    verdict = DOUBLE.judge(half)
    assert verdict.status == "not attempted"
    assert "return factor * x" in said(verdict)


def test_returning_none_after_work_is_not_a_stub() -> None:
    def forgets(x: Any) -> None:
        y = 2 * x
        y.sum()

    verdict = DOUBLE.judge(forgets)
    assert verdict.status == "type"
    assert "returned None: is the line with return missing?" in said(verdict)


def test_printing_instead_of_returning_is_told() -> None:
    verdict = DOUBLE.judge(lambda x: print(2 * x))
    assert "It prints its result; return it instead." in said(verdict)
    assert "It printed: [2.]" in said(verdict)


# Naming


def test_a_known_mistake_is_named_with_one_question_and_the_smallest_input() -> None:
    verdict = DOUBLE.judge(lambda x: 2 * x * np.abs(x))
    assert verdict.mistakes == ("squared",)
    text = said(verdict)
    assert "x is squared as well. Question: What becomes of 3?" in text
    assert "x [0.5, -2, 3] expected [1, -4, 6] got [0.5, -8, 18]" in text


def test_two_known_mistakes_at_once_are_both_named() -> None:
    verdict = DOUBLE.judge(lambda x: 3 * x * np.abs(x))
    assert verdict.mistakes == ("squared", "tripled")
    assert "Two things at once. 1. x is squared as well. 2. x is tripled." in said(
        verdict
    )


def _alike(**more: Any) -> Exercise:
    """Two mistakes that only x = 3 tells apart: x² and 2x, where x is right."""
    return Exercise(
        name="same",
        statement="Return x.",
        arguments=("x",),
        reference=lambda x: x,
        probes=(Probe(np.array([2.0]), about="two"), Probe(np.array([0.0]), about="0")),
        mistakes=(
            Mistake("squared", "It is squared.", "Why square?", lambda x: x**2),
            Mistake("doubled", "It is doubled.", "Why double?", lambda x: 2 * x),
        ),
        **more,
    )


def test_two_mistakes_that_fit_are_both_named() -> None:
    verdict = _alike().judge(lambda x: x * x)
    assert verdict.status == "either"
    assert verdict.mistakes == ("squared", "doubled")
    text = said(verdict)
    assert "1. It is squared. 2. It is doubled." in text
    assert "the same on every input of this exercise" in text


def test_a_further_input_decides_between_two_mistakes_that_fit() -> None:
    exercise = _alike(apart=(Probe(np.array([3.0])),))
    assert exercise.judge(lambda x: x * x).mistakes == ("squared",)
    assert exercise.judge(lambda x: x + x).mistakes == ("doubled",)


def test_an_input_that_tells_them_apart_is_shown_when_the_answer_is_neither() -> None:
    exercise = _alike(apart=(Probe(np.array([3.0])),))
    verdict = exercise.judge(lambda x: np.where(x == 3.0, 7.0, x * x))
    assert verdict.status == "either"
    text = said(verdict)
    assert "This input tells them apart." in text
    assert "x [3] 1. gives [9] 2. gives [6] yours gives [7]" in text


def test_an_unknown_mistake_shows_input_expected_got_and_the_general_question() -> None:
    verdict = DOUBLE.judge(lambda x: x + 1.0)
    assert verdict.status == "wrong"
    assert verdict.mistakes == ()
    text = said(verdict)
    assert "Right on 1 of 3 inputs: one number." in text
    assert "Question: What should become of -2?" in text
    assert "x [0.5, -2, 3] expected [1, -4, 6] got [1.5, -1, 4]" in text


@pytest.mark.parametrize(
    ("answer", "phrase"),
    [
        (lambda x: 10.0 * x, "Your result is 5 times the expected one."),
        (lambda x: -2.0 * x, "Your result has the opposite sign."),
        (lambda x: 2.0 * x + 1.0, "Your result is off by 1 in every number."),
        (lambda x: 0.0 * x, "Your result is all zeros."),
        (lambda x: x.copy(), "Your result is x itself."),
        (lambda x: np.exp(2.0 * x), "Your result is exp of the expected one."),
        (lambda x: np.abs(2.0 * x), "Right on 2 of 3 inputs, wrong with: three"),
        (lambda x: -2.0 * x, "The sign should stay, and here it changes."),
        (lambda x: 2.0 * x + np.nan, "Here your result is nan."),
    ],
    ids=[
        "factor",
        "sign",
        "offset",
        "zeros",
        "itself",
        "exp",
        "where",
        "property",
        "nan",
    ],
)
def test_how_a_wrong_result_comes_from_the_right_one_is_told(
    answer: Callable[..., Any], phrase: str
) -> None:
    assert phrase in said(DOUBLE.judge(answer))


def test_a_relation_is_told_only_if_it_holds_on_every_failing_input() -> None:
    verdict = DOUBLE.judge(lambda x: 10.0 * x if x.size == 3 else 8.0 * x)
    assert "times the expected" not in said(verdict)


def test_right_parts_of_several_results_are_told() -> None:
    verdict = TWO.judge(lambda x, y: (x + y, x * y))
    text = said(verdict)
    assert "plus is right on every input." in text
    assert "expected minus [-1] got minus [2]" in text
    assert "expected plus" not in text


def test_parameters_in_another_order_are_recognised_by_name_and_by_behaviour() -> None:
    by_name = TWO.judge(lambda y, x: (x + y, x - y))
    assert "right if it is called with (y, x)" in said(by_name)
    by_behaviour = TWO.judge(lambda a, b: (a + b, b - a))
    assert "right if it is called with (y, x)" in said(by_behaviour)


# Broken answers


def test_an_exception_is_told_with_its_line_and_the_shapes() -> None:
    def broken(x: Any) -> Any:
        return x @ np.ones((7, 7))

    verdict = DOUBLE.judge(broken)
    assert verdict.status == "error"
    text = said(verdict)
    assert "It raised ValueError: matmul:" in text
    assert "The line: `return x @ np.ones((7, 7))`." in text
    assert "x (1,)" in text


@pytest.mark.parametrize(
    "problem", [SystemExit(3), GeneratorExit(), RecursionError("deep"), MemoryError()]
)
def test_whatever_is_raised_is_reported(problem: BaseException) -> None:
    def broken(x: Any) -> Any:
        raise problem

    verdict = DOUBLE.judge(broken)
    assert verdict.status == "error"
    assert type(problem).__name__ in said(verdict)


def test_exit_in_an_answer_does_not_end_the_notebook() -> None:
    assert DOUBLE.judge(lambda x: sys.exit("bye")).status == "error"


def test_infinite_recursion_is_reported() -> None:
    def again(x: Any) -> Any:
        return again(x)

    assert "RecursionError" in said(DOUBLE.judge(again))


def test_an_exception_whose_text_is_broken_too_is_reported() -> None:
    class MeanError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def broken(x: Any) -> Any:
        raise MeanError

    assert "It raised MeanError." in said(DOUBLE.judge(broken))


def test_the_readers_own_interrupt_passes() -> None:
    def interrupted(x: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DOUBLE.judge(interrupted)


class _Opaque:
    def __repr__(self) -> str:
        raise RuntimeError

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "phrase"),
    [
        ("2", "It returned a str, and numbers were wanted."),
        ({"y": 1}, "It returned a dict"),
        ({1, 2}, "It returned a set"),
        (np.sin, "It returned a ufunc"),
        (iter([1]), "It returned a list_iterator: use return instead of yield"),
        ([[1], [2, 3]], "does not form an array"),
        ([1.0, None], "Some of the numbers that it returned are None"),
        (np.array(["a"]), "dtype <U1, and numbers were wanted"),
        (np.array([1j]), "complex numbers, and real ones were wanted"),
        (_Opaque(), "It returned"),
        (NotImplemented, "numbers were wanted"),
        (np.zeros(5), "Its shape is (5,), and (1,) was wanted."),
        (3.0, "It is one number, and an array of shape (1,) was wanted."),
        (np.zeros((1, 1)), "Its shape is (1, 1), and (1,) was wanted."),
    ],
    ids=lambda value: (
        type(value).__name__ if not isinstance(value, str) else value[:12]
    ),
)
def test_a_result_of_the_wrong_kind_is_told(value: Any, phrase: str) -> None:
    verdict = DOUBLE.judge(lambda x: value)
    assert verdict.status in ("type", "shape")
    assert phrase in said(verdict)


def test_a_generator_function_is_told_to_return() -> None:
    def yields(x: Any) -> Any:
        yield 2 * x

    assert "use return instead of yield" in said(DOUBLE.judge(yields))


def test_too_few_results_are_told_by_name() -> None:
    assert "return plus, minus." in said(TWO.judge(lambda x, y: x + y))
    assert "returned 3 things, and 2 were wanted" in said(
        TWO.judge(lambda x, y: (x, y, x))
    )


def test_a_torch_tensor_is_told_apart_without_importing_torch() -> None:
    class Tensor:
        pass

    Tensor.__module__ = "torch"
    assert "returned a torch tensor" in said(DOUBLE.judge(lambda x: Tensor()))


def test_a_real_torch_tensor_is_told() -> None:
    import torch

    verdict = DOUBLE.judge(lambda x: torch.as_tensor(2 * x))
    assert verdict.status == "type"
    assert "tensor.detach().numpy()" in said(verdict)


@pytest.mark.parametrize("answer", [3.0, np.ones(2), "double", [1]])
def test_a_value_instead_of_the_function_is_told(answer: Any) -> None:
    verdict = DOUBLE.judge(answer)
    assert verdict.status == "type"
    assert 'check("double", my_double)' in said(verdict)


def test_the_wrong_number_of_parameters_is_told_before_any_call() -> None:
    calls = []
    verdict = TWO.judge(lambda x: calls.append(x))
    assert calls == []
    assert (
        "Your function takes (x), and the exercise calls it with 2 arguments"
        in said(verdict)
    )


def test_an_answer_that_writes_into_its_argument_is_told_what_it_does() -> None:
    def doubles(x: Any) -> Any:
        x *= 2
        return x

    verdict = DOUBLE.judge(doubles)
    assert verdict.status == "changes its input"
    assert "x [1] x afterwards [2]" in said(verdict)


def test_a_wrong_answer_that_also_writes_into_its_argument_gets_a_note() -> None:
    def triples(x: Any) -> Any:
        x *= 3
        return x

    verdict = DOUBLE.judge(triples)
    assert verdict.mistakes == ("tripled",)
    assert "The function also changes x in place." in verdict.notes


def test_the_probes_stay_as_they_are_whatever_an_answer_does() -> None:
    before = [probe.arguments[0].copy() for probe in DOUBLE.probes]

    def vandal(x: Any) -> Any:
        x[...] = 99.0
        return x

    DOUBLE.judge(vandal)
    for probe, then in zip(DOUBLE.probes, before, strict=True):
        assert np.array_equal(probe.arguments[0], then)


def test_chance_and_memory_are_noticed() -> None:
    generator = np.random.default_rng()
    assert DOUBLE.judge(lambda x: x + generator.normal()).status == "unsteady"
    calls: list[int] = []

    def remembers(x: Any) -> Any:
        calls.append(1)
        return 2.0 * x if len(calls) < 4 else 5.0 * x

    assert DOUBLE.judge(remembers).status == "unsteady"


def test_a_huge_result_is_described_by_its_shape() -> None:
    verdict = DOUBLE.judge(lambda x: np.zeros((3000, 1000)))
    assert "array of shape (3000, 1000)" in said(verdict)
    assert len(str(verdict)) < 1000


def test_a_flood_of_output_is_cut() -> None:
    def chatty(x: Any) -> Any:
        for k in range(100_000):
            print("line", k)
        return 5 * x

    verdict = DOUBLE.judge(chatty)
    assert "It printed (first lines): line 0 / line 1 / line 2" in said(verdict)
    assert len(str(verdict)) < 1000


def test_nothing_is_written_to_the_screen_while_checking(
    capsys: pytest.CaptureFixture[str],
) -> None:
    DOUBLE.judge(lambda x: print("hello"))
    with np.errstate(divide="warn"):
        DOUBLE.judge(lambda x: x / 0.0)
    out, err = capsys.readouterr()
    assert out == err == ""


def test_numpys_warning_is_passed_on() -> None:
    verdict = DOUBLE.judge(lambda x: x / np.zeros_like(x))
    assert 'NumPy warned: "divide by zero encountered in divide".' in verdict.notes


# Answers that never return


def _spins(x: Any) -> Any:
    while True:
        pass


def _spins_and_catches(x: Any) -> Any:
    while True:
        try:  # noqa: SIM105
            x = x + 1
        except Exception:
            pass


def _spins_and_catches_all(x: Any) -> Any:
    while True:
        try:  # noqa: SIM105
            x = x + 1
        except:  # noqa: E722
            pass


def _sleeps(x: Any) -> Any:
    time.sleep(60)


@pytest.mark.parametrize(
    "endless", [_spins, _spins_and_catches, _spins_and_catches_all, _sleeps]
)
def test_an_endless_answer_is_stopped(endless: Callable[..., Any]) -> None:
    started = time.monotonic()
    verdict = DOUBLE.judge(endless, seconds=0.3)
    assert time.monotonic() - started < 10
    assert verdict.status == "endless"
    assert "did not finish within 0.3 seconds" in said(verdict)


def test_the_limit_holds_for_all_calls_of_a_check_together() -> None:
    def slow(x: Any) -> Any:
        time.sleep(0.2)
        return 2 * x

    assert DOUBLE.judge(slow, seconds=0.3).status == "endless"
    assert DOUBLE.judge(slow, seconds=30.0).status == "right"


def test_an_earlier_timer_and_its_handler_are_restored() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    outer = signal.setitimer(signal.ITIMER_REAL, 0.8)
    try:
        DOUBLE.judge(_spins, seconds=0.2)
        assert 0.0 < signal.getitimer(signal.ITIMER_REAL)[0] < 0.8
        time.sleep(0.9)
        assert rung == [1]
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *outer)


def test_no_alarm_is_left_behind_after_a_check() -> None:
    before = signal.getitimer(signal.ITIMER_REAL)[0]
    DOUBLE.judge(lambda x: 2 * x)
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) == (before > 0)


def test_in_another_thread_it_works_and_says_that_no_limit_applies() -> None:
    verdicts: list[Verdict] = []

    def work() -> None:
        verdicts.append(DOUBLE.judge(lambda x: x + 1))
        verdicts.append(DOUBLE.judge(lambda x: 2 * x))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "No time limit could be set here." in verdicts[0].notes
    assert verdicts[1].passed
    assert verdicts[1].notes == ()


# The same text every time, and no torch


def test_the_text_of_a_verdict_is_the_same_in_every_run() -> None:
    """Object addresses, file names and random seeds must not show."""
    script = textwrap.dedent(
        """
        import numpy as np
        from transformer_lib.exercises import check
        class Thing: pass
        def raises(scores): raise ValueError(f"bad {Thing()}")
        for answer in (
            raises, lambda s: Thing(), lambda s: np.exp(s), lambda s: s + 1.0,
            lambda s: {1, 2}, lambda s: s / 0, None, 5,
        ):
            verdict = check("softmax", answer)
            print(verdict, verdict._repr_html_())
        """
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
    assert "0x" not in runs.pop()


def test_exercises_check_where_torch_cannot_be_imported() -> None:
    script = textwrap.dedent(
        """
        import sys
        sys.modules["torch"] = None
        from transformer_lib.exercises import check, predict, registry
        from transformer_lib.reference import softmax
        assert not any(
            f"transformer_lib.exercises.{t}" in sys.modules
            for t in set(registry.topics().values())
        ), "a topic was imported before it was asked for"
        assert check("softmax", softmax)
        assert "transformer_lib.exercises.attention" not in sys.modules
        for name in registry.topics():
            print(check(name, ...))
        predict("ch00-sum", "What is 1 + 1?", ("1", "2", "3"), answer=1)
        """
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("not attempted yet") >= 19


# Whatever comes back, there is a verdict

_THINGS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=3)
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(thing=_THINGS)
def test_any_result_at_all_gets_a_verdict(thing: Any) -> None:
    for exercise in (DOUBLE, TWO):
        verdict = exercise.judge(lambda *_: thing)
        assert not verdict.passed
        assert verdict.status != "checker failed"
        assert str(verdict)
        assert verdict._repr_html_().startswith("<div")


@settings(max_examples=40, deadline=None)
@given(thing=_THINGS, name=st.sampled_from(["pencil_attention", "recurrent_factor"]))
def test_any_sheet_of_numbers_gets_a_verdict(thing: Any, name: str) -> None:
    verdict = check(name, thing)
    assert verdict.status != "checker failed"
    assert str(verdict)


def test_a_fault_of_the_checker_itself_does_not_end_the_notebook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(self: Exercise, answer: Any, seconds: float) -> Verdict:
        raise ZeroDivisionError

    monkeypatch.setattr(Exercise, "judge", fails)
    verdict = check("softmax", lambda s: s)
    assert verdict.status == "checker failed"
    assert "ZeroDivisionError" in said(verdict)


# The exercises of the notebooks: what a reader starts from and where he ends


def test_a_right_result_among_several_is_told_to_come_alone() -> None:
    verdict = DOUBLE.judge(lambda x: (2.0 * x, "extra"))
    assert verdict.status == "type"
    text = said(verdict)
    assert "It returned 2 things, and the first is right: return it alone." in text


def test_of_several_returned_things_the_fitting_one_is_looked_at() -> None:
    verdict = DOUBLE.judge(lambda x: (x * 0.0 + 9.0, "extra"))
    assert "It returned 2 things; the first was looked at." in verdict.notes
    named = DOUBLE.judge(lambda x: ("extra", 3.0 * x))
    assert named.mistakes == ("tripled",)
    assert "It returned 2 things; the second was looked at." in named.notes


def test_planted_faults_are_counted_and_asked_about_not_told() -> None:
    exercise = Exercise(
        name="repaired_double",
        statement="Return twice x.",
        arguments=("x",),
        reference=lambda x: 2.0 * x,
        probes=DOUBLE.probes,
        assemble=_build,
        planted=("squared", "tripled"),
        mistakes=(
            *DOUBLE.mistakes,
            Mistake("halved", "x is halved.", "?", lambda x: x / 2.0),
        ),
    )
    both = exercise.judge(lambda x: 3 * x * np.abs(x))
    assert both.mistakes == ("squared", "tripled")
    assert "All two faults that you were given are still there." in said(both)
    assert "is tripled" not in said(both)
    assert "Question: What becomes of 3?" in said(both)
    one = exercise.judge(lambda x: 3 * x)
    assert "One of the faults that you were given is still there." in said(one)
    assert "x is halved." in said(exercise.judge(lambda x: x / 2.0))


def test_the_broken_functions_of_the_notebooks_hold_the_planted_faults() -> None:
    from transformer_lib.exercises import registry
    from transformer_lib.reference import softmax

    def attention(X: Any, W_Q: Any, W_K: Any, W_V: Any) -> Any:
        Q, K, V = X @ W_Q, X @ W_Q, X
        weights = softmax(Q @ K.T / np.sqrt(X.shape[-1]), axis=0)
        return weights @ V, weights

    def months(word: str, names: Any, inverse_temperature: float = 8.0) -> Any:
        def pairs(text: str) -> list[str]:
            return [f"^{text}$"[i : i + 2] for i in range(len(text) + 1)]

        told = [pairs(name) for name in names]
        asked = pairs(word.lower())
        every = sorted({pair for name in [asked, *told] for pair in name})
        keys = np.array([[name.count(pair) for pair in every] for name in told])
        query = np.array([asked.count(pair) for pair in every])
        return softmax(keys @ query / inverse_temperature)

    for name, broken in (
        ("repaired_attention", attention),
        ("repaired_months", months),
        ("last_state", lambda H, lengths: H[:, -1]),
    ):
        exercise = registry.find(name)
        verdict = check(name, broken)
        assert set(verdict.mistakes) == set(exercise.planted)
        assert "you were given" in said(verdict)
