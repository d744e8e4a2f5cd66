"""Judges an answer and, when it is wrong, names the mistake.

**How an exercise is declared.** A topic module (``exercises/<topic>.py``) lists its names
and declares each one::

    EXERCISES = ("double",)

    DOUBLE = Exercise(
        name="double",
        arguments=("x",),
        statement="Return twice the vector x.",
        ask="What should become of -2?",
        reference=lambda x: 2 * x,
        probes=(
            Probe(np.array([1.0]), about="one number"),
            Probe(np.array([1.0, -2.0, 3.0]), about="three numbers"),
        ),
        mistakes=(
            Mistake(
                "squared",
                "x is squared instead of doubled.",
                "What should -2 become, and what does it become now?",
                lambda x: x**2,
            ),
        ),
    )

That is all: ``check("double", answer)`` finds the module by the text of its
``EXERCISES`` line, and ``tests/exercises/test_confusion.py`` covers it unasked.

**How an answer is judged.** The answer is called on every probe, with copies of the
arguments. If all results agree with the reference, it is right. Otherwise its behaviour is
compared with that of each accepted variant, of each known mistake, and of each pair of them
(where ``assemble`` says how to build both into one function). Behaviours match when they
agree on *every* probe: the same numbers, or an error on the same inputs. One match is
named. Several are all named, with an input that tells them apart. Without a match the first
failing input is shown, with what was expected and what came, how the two are related, which
inputs went well, and the exercise's own question ``ask``.

So probes decide how much a verdict can say. Make all sizes different, so that swapped
axes show; let the first probes isolate one factor (zero weights, identity, one-hot) and
say in ``about`` what they isolate, because a learner reads "Right with h = 0"; end with
unremarkable random numbers of one decimal. Order them from small to large: of the
failing ones the first is shown.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from transformer_lib.exercises import _calling
from transformer_lib.exercises._calling import SECONDS, Outcome, call
from transformer_lib.exercises._comparing import shape, shown
from transformer_lib.exercises._grading import (
    Finding,
    alike,
    grade,
    result_rows,
    result_text,
)
from transformer_lib.exercises.parts import (
    Beyond,
    Function,
    Mistake,
    Probe,
    Property,
    Variant,
    numbers,
)
from transformer_lib.exercises.pencil import Pencil
from transformer_lib.exercises.verdict import Rows, Verdict, unattempted

__all__ = [
    "Beyond",
    "Exercise",
    "Function",
    "Mistake",
    "Probe",
    "Property",
    "Variant",
    "numbers",
]

_PATIENCE = 1.0  # seconds; a slower answer is not called in other orders

_NUMBERS = ("None", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight")


@dataclass(frozen=True)
class _Attempt:
    """An answer, what it did on each probe, and how that compares."""

    answer: Function
    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...]
    seconds: float
    took: float
    note: str = ""  # a remark on how it was looked at

    @cached_property
    def failing(self) -> list[int]:
        """Indices of the probes on which it is wrong."""
        return [k for k, finding in enumerate(self.findings) if not finding.right]

    @cached_property
    def shown(self) -> int:
        """The failing probe to show: the first, a result before an error."""
        failed = [self.outcomes[k].error_class != "" for k in self.failing]
        return self.failing[failed.index(False) if False in failed else 0]


@dataclass(frozen=True)
class Exercise:
    """A function to write.

    Parameters
    ----------
    name, statement
        What ``check`` is called with; what is asked, in one or two sentences.
    arguments
        Names of the arguments, in order.
    reference
        The right function.
    probes
        Inputs to try, smallest and most telling first.
    ask
        The question to put when the mistake is not a known one.
    mistakes, variants, properties, beyond
        See the classes of :mod:`transformer_lib.exercises.parts`.
    returns
        Names of the results when there are several, such as ``("h", "c")``.
    assemble
        ``assemble(**settings)`` builds an implementation with the faults that the
        settings ask for; lets two mistakes in one answer be recognised.
    planted
        Names of the mistakes in the broken function that a *debug it* exercise starts
        from. They are counted and asked about, not told. Pairs of mistakes are always
        looked for; of the planted ones, all larger groups too.
    apart
        More probes, used only to tell apart mistakes that agree on ``probes``.
    numbers
        What an answer that is no function is handed to (a `Pencil`), if anything.

    Raises
    ------
    ValueError
        If the declaration contradicts itself.
    """

    name: str
    statement: str
    arguments: tuple[str, ...]
    reference: Function
    probes: tuple[Probe, ...]
    ask: str = ""
    mistakes: tuple[Mistake, ...] = ()
    variants: tuple[Variant, ...] = ()
    properties: tuple[Property, ...] = ()
    beyond: tuple[Beyond, ...] = ()
    returns: tuple[str, ...] = ()
    assemble: Callable[..., Function] | None = None
    planted: tuple[str, ...] = ()
    apart: tuple[Probe, ...] = ()
    numbers: Pencil | None = None

    def __post_init__(self) -> None:
        names = [m.name for m in self.mistakes] + [v.name for v in self.variants]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: got two mistakes or variants of one name")
        for planted in self.planted:
            if planted not in names:
                raise ValueError(f"{self.name}: planted {planted!r} is no mistake here")
        for mistake in self.mistakes:
            if (mistake.function is None) == (not mistake.settings):
                raise ValueError(
                    f"{self.name}: mistake {mistake.name!r} needs either a function "
                    "or settings"
                )
            if mistake.settings and self.assemble is None:
                raise ValueError(
                    f"{self.name}: mistake {mistake.name!r} has settings, but the "
                    "exercise has no assemble"
                )

    # What is right, and what the known mistakes do; computed when first needed

    @cached_property
    def expected(self) -> tuple[Outcome, ...]:
        """What the reference does on each probe."""
        return tuple(self._call(self.reference, probe) for probe in self.probes)

    def build(self, *mistakes: Mistake) -> Function:
        """Build an implementation that makes these mistakes, all at once."""
        if len(mistakes) == 1 and mistakes[0].function is not None:
            return mistakes[0].function
        if self.assemble is None:
            raise ValueError(f"{self.name}: there is no assemble to build a pair with")
        settings: dict[str, Any] = {}
        for mistake in mistakes:
            settings.update(mistake.settings)
        return self.assemble(**settings)

    @property
    def sizes(self) -> range:
        """How many mistakes at once are looked for, from 2 up."""
        return range(2, max(2, len(self.planted)) + 1)

    def groups(self, size: int) -> Iterator[tuple[Mistake, ...]]:
        """Mistakes that can stand in one answer together: no setting in common.

        Groups of more than two are made of the planted ones only.
        """
        able = [m for m in self.mistakes if m.settings]
        if size > 2:
            able = [m for m in able if m.name in self.planted]
        for group in itertools.combinations(able, size):
            keys = [key for mistake in group for key in mistake.settings]
            if len(set(keys)) == len(keys):
                yield group

    @cached_property
    def _remembered(self) -> dict[tuple[str, ...], Outcome]:
        return {}

    def _known(self, group: tuple[Mistake, ...], k: int) -> Outcome:
        """What these mistakes together do on probe ``k``; computed once."""
        key = (*(m.name for m in group), str(k))
        if key not in self._remembered:
            self._remembered[key] = self._call(self.build(*group), self.probes[k])
        return self._remembered[key]

    def _call(
        self, function: Function, probe: Probe, seconds: float = SECONDS
    ) -> Outcome:
        return call(function, probe.arguments, self.arguments, seconds)

    def _alike(self, a: Outcome, b: Outcome) -> bool:
        return alike(a, b, bool(self.returns))

    def _grade(self, outcome: Outcome, expected: Outcome, probe: Probe) -> Finding:
        return grade(
            outcome, expected, probe, self.arguments, self.returns, self.properties
        )

    # Judging

    def judge(self, answer: Any, seconds: float = SECONDS) -> Verdict:
        """Judge an answer; the module's text says how."""
        if answer is None or answer is Ellipsis or _calling.is_stub(answer):
            return unattempted(self.name)
        if not callable(answer):
            return self._no_function(answer, seconds)
        problem = _calling.arity_problem(answer, self.arguments)
        if problem:
            return self._verdict("error", problem)
        attempt = self._attempt(answer, seconds)
        if isinstance(attempt, Verdict):
            return attempt
        attempt = self._unwrapped(attempt)
        # A verdict on a wrong answer is false, so each must be compared with None.
        for look in (
            self._unsteady,
            self._passes,
            self._accepted,
            self._other_order,
            self._known_mistake,
            self._two_swapped,
        ):
            verdict = look(attempt)
            if verdict is not None:
                return verdict
        return self._unknown_mistake(attempt)

    def _verdict(self, status: str, *says: str, **more: Any) -> Verdict:
        return Verdict(self.name, status, tuple(s for s in says if s), **more)

    def _no_function(self, answer: Any, seconds: float) -> Verdict:
        if self.numbers is not None:
            return self.numbers.judge(answer, seconds)
        return self._verdict(
            "type",
            "The exercise wants the function itself, and got a value of type "
            f"{type(answer).__name__}. Write the name of your function without calling "
            f'it, as in check("{self.name}", my_{self.name}).',
        )

    def _attempt(self, answer: Function, seconds: float) -> _Attempt | Verdict:
        """Call the answer on all probes; a verdict when that has to stop early."""
        started = time.monotonic()
        end = started + seconds
        outcomes, findings = [], []
        for probe, expected in zip(self.probes, self.expected, strict=True):
            left = max(end - time.monotonic(), 1e-3)
            outcome = self._call(answer, probe, left)
            if outcome.late:
                return self._late(probe, outcome, seconds)
            unfinished = outcome.error_class == "NotImplementedError"
            if unfinished or outcome.value is Ellipsis:
                return unattempted(self.name)
            if "ellipsis" in outcome.error.lower():
                said = "A placeholder `...` is still in the function, in the line "
                return self._verdict("not attempted", f"{said}`{outcome.where}`.")
            outcomes.append(outcome)
            findings.append(self._grade(outcome, expected, probe))
        took = time.monotonic() - started
        return _Attempt(answer, tuple(outcomes), tuple(findings), seconds, took)

    def _unwrapped(self, attempt: _Attempt) -> _Attempt:
        """Look at one of several returned things, where one result was wanted.

        So that a mistake in it can be named. When it is right, nothing changes: the
        finding then says to return that one alone.
        """
        values = [o.value for o in attempt.outcomes if not o.error_class]
        lengths = {len(v) if isinstance(v, tuple) else 0 for v in values}
        if self.returns or len(lengths) != 1 or not 2 <= max(lengths) <= 4:
            return attempt
        for place in range(max(lengths)):
            item = self._item(attempt, place, max(lengths))
            fitting = [f for f in item.findings if f.right or f.status == "wrong"]
            if fitting:
                return item if item.failing else attempt
        return attempt

    def _item(self, attempt: _Attempt, place: int, count: int) -> _Attempt:
        """The attempt as if the answer returned only the thing at ``place``."""
        outcomes = tuple(
            o if o.error_class else replace(o, value=o.value[place])
            for o in attempt.outcomes
        )
        findings = tuple(map(self._grade, outcomes, self.expected, self.probes))
        ordinal = ("first", "second", "third", "fourth")[place]
        return _Attempt(
            lambda *given: attempt.answer(*given)[place],
            outcomes,
            findings,
            attempt.seconds,
            attempt.took,
            f"It returned {count} things; the {ordinal} was looked at.",
        )

    def _late(self, probe: Probe, outcome: Outcome, seconds: float) -> Verdict:
        return self._verdict(
            "endless",
            f"The function did not finish within {seconds:g} seconds, so it was "
            "stopped.",
            ask="Which condition ends the loop, and does anything in the loop change "
            "it?",
            exhibit=self._inputs(probe),
            notes=_printed(outcome),
        )

    def _unsteady(self, attempt: _Attempt) -> Verdict | None:
        """Call once more: the same input must give the same result."""
        k = attempt.shown if attempt.failing else 0
        first = attempt.outcomes[k]
        again = self._call(attempt.answer, self.probes[k], attempt.seconds)
        if again.late or self._alike(again, first):
            return None
        several = bool(self.returns)
        return self._verdict(
            "unsteady",
            "Called twice with the same input, the function gave two different "
            "results.",
            ask="What does it keep from one call to the next, or draw at random? The "
            "result may depend on the arguments only.",
            exhibit=(
                *self._inputs(self.probes[k]),
                ("first call", result_text(first, several)),
                ("second call", result_text(again, several)),
            ),
        )

    def _passes(self, attempt: _Attempt) -> Verdict | None:
        return None if attempt.failing else self._right(attempt)

    def _right(self, attempt: _Attempt, variant: str = "") -> Verdict:
        for probe, outcome in zip(self.probes, attempt.outcomes, strict=True):
            if outcome.changed:
                return self._changes_input(probe, outcome)
        said = "It agrees with the reference on every input tried."
        notes = list(dict.fromkeys(n for f in attempt.findings for n in f.notes))
        if variant:
            return self._verdict("right", f"Accepted: {variant}")
        for extra in self.beyond:
            mine = self._call(attempt.answer, extra.probe)
            wanted = self._call(self.reference, extra.probe)
            if not self._grade(mine, wanted, extra.probe).right:
                notes.append(extra.note)
        return self._verdict("right", said, notes=tuple(notes))

    def _changes_input(self, probe: Probe, outcome: Outcome) -> Verdict:
        names = " and ".join(name for name, _ in outcome.changed)
        after = tuple((f"{name} afterwards", shown(v)) for name, v in outcome.changed)
        return self._verdict(
            "changes its input",
            f"The numbers are right, but the function changes {names} in place: "
            "whoever called it finds other numbers there afterwards.",
            ask="Which line writes into an argument (+=, [...] =, sort, out=)? Work on "
            "a copy or on a new array.",
            exhibit=(*self._inputs(probe), *after),
        )

    # Naming the mistake

    def _accepted(self, attempt: _Attempt) -> Verdict | None:
        for variant in self.variants:
            theirs = [self._call(variant.function, probe) for probe in self.probes]
            if all(map(self._alike, attempt.outcomes, theirs)):
                return self._right(attempt, variant.note)
        return None

    def _works(self, function: Function) -> bool:
        """Whether a function is right on every probe."""
        for probe, expected in zip(self.probes, self.expected, strict=True):
            if not self._grade(self._call(function, probe), expected, probe).right:
                return False
        return True

    def _other_order(self, attempt: _Attempt) -> Verdict | None:
        """A right function whose parameters have our names in another order."""
        own = _calling.parameters(attempt.answer)
        if own == list(self.arguments) or sorted(own) != sorted(self.arguments):
            return None
        places = [self.arguments.index(name) for name in own]
        if not self._works(lambda *given: attempt.answer(*(given[p] for p in places))):
            return None
        return self._reorder(own)

    def _two_swapped(self, attempt: _Attempt) -> Verdict | None:
        """A right function that wants two of the arguments exchanged."""
        if attempt.took > _PATIENCE:
            return None
        places = list(range(len(self.arguments)))
        for a, b in itertools.combinations(places, 2):
            order = list(places)
            order[a], order[b] = b, a

            def exchanged(*given: Any, order: list[int] = order) -> Any:
                return attempt.answer(*(given[p] for p in order))

            if self._works(exchanged):
                return self._reorder([self.arguments[p] for p in order])
        return None

    def _reorder(self, order: Sequence[str]) -> Verdict:
        return self._verdict(
            "error",
            f"Your function is right if it is called with ({', '.join(order)}). The "
            f"exercise calls it with ({', '.join(self.arguments)}): put the parameters "
            "into this order.",
        )

    def _behaves(self, attempt: _Attempt, group: tuple[Mistake, ...]) -> bool:
        """Whether the answer did what these mistakes together do, on every probe.

        The last probes come first: random numbers part two mistakes at once.
        """
        for k in reversed(range(len(self.probes))):
            if not self._alike(attempt.outcomes[k], self._known(group, k)):
                return False
        return True

    def _known_mistake(self, attempt: _Attempt) -> Verdict | None:
        if all(outcome.error_class for outcome in attempt.outcomes):
            return None
        fits = [m for m in self.mistakes if self._behaves(attempt, (m,))]
        if len(fits) == 1:
            return self._named(attempt, (fits[0],), self._told((fits[0],)))
        if fits:
            return self._either(attempt, fits)
        for size in self.sizes:
            groups = [g for g in self.groups(size) if self._behaves(attempt, g)]
            if len(groups) == 1:
                return self._named(attempt, groups[0], self._told(groups[0]))
            if groups:
                return self._common(attempt, groups)
        return None

    def _named(
        self, attempt: _Attempt, group: Sequence[Mistake], says: Sequence[str]
    ) -> Verdict:
        return self._verdict(
            "mistake",
            *says,
            ask=group[0].ask,
            exhibit=self._exhibit(attempt),
            notes=self._remarks(attempt),
            mistakes=tuple(m.name for m in group),
        )

    def _told(self, group: Sequence[Mistake]) -> list[str]:
        """What is said of these mistakes; a planted one is left for the reader to find."""
        own = [m.says for m in group if m.name not in self.planted]
        left = len(group) - len(own)
        if left and len(self.planted) == 1:
            return [*own, "The fault that you were given is still there."]
        if left == len(self.planted) > 1:
            count = _NUMBERS[left].lower()
            return [*own, f"All {count} faults that you were given are still there."]
        if left:
            faults = f"{_NUMBERS[left]} of the faults that you were given "
            return [*own, faults + ("is" if left == 1 else "are") + " still there."]
        if len(own) == 1:
            return own
        return [f"{_NUMBERS[len(own)]} things at once.", *_numbered(own)]

    def _common(
        self, attempt: _Attempt, groups: Sequence[tuple[Mistake, ...]]
    ) -> Verdict | None:
        """Several groups fit: name what they share, and the rest if it is short."""
        shared = [m for m in groups[0] if all(m in other for other in groups)]
        if not shared:
            return None
        rest = [m.says for other in groups for m in other if m not in shared]
        told = [m.says for m in shared]
        if len(dict.fromkeys(rest)) <= 3:
            told.append("One of these: " + " Or: ".join(dict.fromkeys(rest)))
        says = ["More than one thing is wrong.", *_numbered(told)]
        return self._named(attempt, shared, says)

    def _either(self, attempt: _Attempt, fits: Sequence[Mistake]) -> Verdict:
        """Several mistakes fit: decide by a further probe, or name them all."""
        several = bool(self.returns)
        for probe in self.apart:
            theirs = [self._call(self.build(m), probe) for m in fits]
            if all(self._alike(theirs[0], other) for other in theirs[1:]):
                continue
            mine = self._call(attempt.answer, probe, attempt.seconds)
            left = [
                m for m, o in zip(fits, theirs, strict=True) if self._alike(mine, o)
            ]
            if len(left) == 1:
                return self._named(attempt, left, self._told(left))
            rows = [
                (f"{n}. gives", result_text(o, several))
                for n, o in enumerate(theirs, start=1)
            ]
            rows.append(("yours gives", result_text(mine, several)))
            end = "This input tells them apart."
            return self._named_all(fits, end, (*self._inputs(probe), *rows))
        end = "They give the same on every input of this exercise."
        return self._named_all(fits, end, self._exhibit(attempt))

    def _named_all(self, fits: Sequence[Mistake], end: str, exhibit: Rows) -> Verdict:
        return self._verdict(
            "either",
            f"{_NUMBERS[min(len(fits), 8)]} known mistakes give what yours gives.",
            *_numbered([m.says for m in fits]),
            end,
            ask=fits[0].ask,
            exhibit=exhibit,
            mistakes=tuple(m.name for m in fits),
        )

    # Describing a mistake that is not known

    def _unknown_mistake(self, attempt: _Attempt) -> Verdict:
        k = attempt.shown
        finding, outcome = attempt.findings[k], attempt.outcomes[k]
        printed = bool(outcome.printed) and outcome.value is None
        relation = self._relation(attempt)
        return self._verdict(
            finding.status,
            *finding.says,
            "It prints its result; return it instead." if printed else "",
            relation or finding.here,
            self._right_parts(attempt),
            self._where_right(attempt),
            ask="" if relation or finding.status == "type" else self.ask,
            exhibit=self._exhibit(attempt),
            notes=self._remarks(attempt),
        )

    def _relation(self, attempt: _Attempt) -> str:
        """How result and expected are related, if it is so on every failing input."""
        results = [
            finding
            for finding in attempt.findings
            if not finding.right and finding.status != "error" and finding.finite
        ]
        wanted = self.expected[attempt.shown].value
        if len(results) == 1 and not self.returns and np.size(wanted) < 2:
            return ""  # any two numbers are related somehow
        for phrase in attempt.findings[attempt.shown].related:
            if all(phrase in finding.related for finding in results):
                return phrase
        return ""

    def _right_parts(self, attempt: _Attempt) -> str:
        """Which of several results are right on every input."""
        failed = [
            finding
            for finding in attempt.findings
            if not finding.right and finding.status != "error"
        ]
        good = [n for n in self.returns if all(n in f.good for f in failed)]
        if not good or not failed:
            return ""
        verb = "is" if len(good) == 1 else "are"
        return f"{' and '.join(good)} {verb} right on every input."

    def _where_right(self, attempt: _Attempt) -> str:
        """Which inputs went well, or which did not if these are fewer."""
        wrong = [self.probes[k].about for k in attempt.failing]
        right = [
            probe.about
            for probe, finding in zip(self.probes, attempt.findings, strict=True)
            if finding.right
        ]
        if not right:
            return ""
        count = f"Right on {len(right)} of {len(self.probes)} inputs"
        if len(wrong) < min(len(right), 3):
            listed, start = wrong, f"{count}, wrong with: "
        else:
            listed, start = right[:3], f"{count}: "
        told = "; ".join(about for about in listed if about)
        return f"{start}{told}." if told else f"{count}."

    # What is shown

    def _inputs(self, probe: Probe, shapes: bool = False) -> Rows:
        rows = []
        for name, value in zip(self.arguments, probe.arguments, strict=True):
            array = shapes and isinstance(value, np.ndarray)
            rows.append((f"{name} {shape(value)}" if array else name, shown(value)))
        return tuple(rows)

    def _exhibit(self, attempt: _Attempt) -> Rows:
        k = attempt.shown
        probe, expected, outcome = self.probes[k], self.expected[k], attempt.outcomes[k]
        shapes = attempt.findings[k].status in ("error", "shape")
        rows = result_rows(expected, outcome, self.returns)
        return (*self._inputs(probe, shapes), *rows)

    def _remarks(self, attempt: _Attempt) -> tuple[str, ...]:
        outcome = attempt.outcomes[attempt.shown]
        remarks = [attempt.note] if attempt.note else []
        if outcome.warned:
            remarks.append(f'NumPy warned: "{outcome.warned[0]}".')
        changed = next((o.changed for o in attempt.outcomes if o.changed), ())
        if changed:
            names = " and ".join(name for name, _ in changed)
            remarks.append(f"The function also changes {names} in place.")
        remarks += _printed(outcome)
        if not _calling.limit_applies():
            remarks.append("No time limit could be set here.")
        return tuple(remarks)


def _numbered(sentences: Sequence[str]) -> list[str]:
    return [f"{n}. {sentence}" for n, sentence in enumerate(sentences, start=1)]


def _printed(outcome: Outcome) -> tuple[str, ...]:
    lines = outcome.printed.strip().splitlines()
    if not lines:
        return ()
    text = " / ".join(line.strip() for line in lines[:3])
    text = text if len(text) <= 160 else text[:156] + " ..."
    more = " (first lines)" if len(lines) > 3 else ""
    return (f"It printed{more}: {text}",)
