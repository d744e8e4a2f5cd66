'''Exercises that name your mistake: ``check``, ``predict`` and the scoreboard.

``check("softmax", my_softmax)`` tries an answer on a handful of inputs. A wrong one is
compared with the known mistakes of its exercise, and the one that behaves the same on
every input is named. Neither this package nor an exercise in NumPy needs torch: a topic's
module is loaded when one of its exercises is checked.

A new chapter adds one module, ``exercises/<topic>.py``, and nothing else. All of it, for
a chapter with one exercise::

    """Exercises of chapter 0: doubling."""

    import numpy as np

    from transformer_lib.exercises.engine import Exercise, Mistake, Probe, numbers

    EXERCISES = ("double",)

    DOUBLE = Exercise(
        name="double",
        arguments=("x",),
        statement="Return twice the vector x.",
        reference=lambda x: 2 * x,
        probes=(
            Probe(np.array([3.0]), about="one number"),
            Probe(numbers(1, 4), about="four numbers"),
        ),
        mistakes=(
            Mistake("squared", "x is squared instead of doubled.",
                    "What should -2 become?", lambda x: x**2),
        ),
    )

The tests find it by its ``EXERCISES`` line and demand that every mistake gets its own
name and no other. How to choose probes, and everything else that an exercise can declare
(accepted variants, properties, several results, two mistakes at once, numbers worked out
with a pencil), is told in :mod:`transformer_lib.exercises.engine` and
:mod:`transformer_lib.exercises.pencil`.
'''

from transformer_lib.exercises.checking import check
from transformer_lib.exercises.prediction import predict
from transformer_lib.exercises.scoreboard import scoreboard

__all__ = ["check", "predict", "scoreboard"]
