"""Every known mistake of an exercise against what ``check`` says to it.

``python -m transformer_lib.exercises.confusion`` prints the matrices of all exercises,
with names of topics or exercises only theirs, and fails if a diagnosis is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transformer_lib.exercises import registry
from transformer_lib.exercises.engine import Exercise
from transformer_lib.exercises.pencil import Pencil
from transformer_lib.exercises.verdict import Verdict

_RIGHT = ("reference", "variant")


@dataclass(frozen=True)
class Confusion:
    """The verdict on each planted answer.

    Parameters
    ----------
    exercise
        Name of the exercise.
    verdicts
        Names of the planted mistakes (``("reference",)`` for the right answer,
        ``("variant", name)`` for an accepted one) to the verdict.
    """

    exercise: str
    verdicts: Mapping[tuple[str, ...], Verdict]

    @property
    def errors(self) -> list[str]:
        """Rows in which the verdict is not what was planted; empty when all is well.

        Of several mistakes at once, a part may be named, or none: then the verdict only
        has to say that the answer is not right.
        """
        wrong = []
        for planted, verdict in self.verdicts.items():
            if planted[0] in _RIGHT:
                told = verdict.passed
            elif len(planted) > 1:
                told = not verdict.passed and verdict.status != "checker failed"
            else:
                told = verdict.mistakes == planted
            if not told:
                said = "+".join(verdict.mistakes) or verdict.status
                wrong.append(f"{self.exercise}: {'+'.join(planted)} is called {said}")
        return wrong

    def __str__(self) -> str:
        names = [k[0] for k in self.verdicts if k[0] not in _RIGHT and len(k) == 1]
        width = max(len("+".join(k)) for k in self.verdicts)
        lines = [
            f"{self.exercise}: {len(names)} mistakes, row planted, column diagnosed"
        ]
        for planted, verdict in self.verdicts.items():
            marks = "".join("x" if n in verdict.mistakes else "." for n in names)
            other = "" if "x" in marks else f"  {verdict.status}"
            lines.append(f"  {'+'.join(planted):<{width}}  {marks}{other}")
        return "\n".join(lines + [f"  wrong: {error}" for error in self.errors])


def confusion(exercise: Exercise | Pencil, together: int = 0) -> Confusion:
    """Plant every known mistake and collect the verdicts.

    Parameters
    ----------
    exercise
        A declared exercise, as ``registry.find(name)`` returns it.
    together
        How many groups of mistakes to plant at once as well, spread over all that the
        exercise looks for.

    Returns
    -------
    Confusion
        Print it to read the matrix; ``errors`` is empty when every mistake gets its own
        name and nothing else, and every right answer passes.
    """
    verdicts: dict[tuple[str, ...], Verdict] = {}
    if isinstance(exercise, Pencil):
        right = {blank.name: blank.value for blank in exercise.blanks}
        verdicts["reference",] = exercise.judge(right)
        for slip in exercise.mistakes:
            verdicts[slip.name,] = exercise.judge({**right, **slip.values})
        return Confusion(exercise.name, verdicts)
    verdicts["reference",] = exercise.judge(exercise.reference)
    for variant in exercise.variants:
        verdicts["variant", variant.name] = exercise.judge(variant.function)
    for mistake in exercise.mistakes:
        verdicts[mistake.name,] = exercise.judge(exercise.build(mistake))
    groups = [g for size in exercise.sizes for g in exercise.groups(size)]
    step = max(1, len(groups) // together) if together else len(groups) + 1
    for group in groups[step - 1 :: step]:
        key = tuple(m.name for m in group)
        verdicts[key] = exercise.judge(exercise.build(*group))
    return Confusion(exercise.name, verdicts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the matrices; return 1 if one shows a wrong diagnosis, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="topics or exercises; all if none")
    parser.add_argument(
        "--together", type=int, default=0, help="groups of mistakes to plant as well"
    )
    given = parser.parse_args(arguments)
    errors = mistakes = 0
    for name, topic in registry.topics().items():
        if given.names and name not in given.names and topic not in given.names:
            continue
        exercise = registry.find(name)
        sheets = [exercise, getattr(exercise, "numbers", None)]
        for sheet in sheets:
            if sheet is None:
                continue
            matrix = confusion(sheet, given.together)
            print(matrix)
            errors += len(matrix.errors)
            mistakes += len(sheet.mistakes)
    print(f"{mistakes} known mistakes, {errors} wrong diagnoses")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
