"""The data sets of the course."""

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from transformer_lib.tasks.agreement import (
    agreement_batch,
    sentence,
)
from transformer_lib.tasks.animal_street import (
    Grammar,
    encode,
    grammar,
)
from transformer_lib.tasks.batches import (
    Batch,
    Batches,
    Update,
    padding_share,
    sorted_batches,
)
from transformer_lib.tasks.dates import (
    DatesTask,
)
from transformer_lib.tasks.download import (
    MissingDataError,
)
from transformer_lib.tasks.multi30k import (
    Multi30kTask,
)
from transformer_lib.tasks.number_words import (
    NumberWordsTask,
)
from transformer_lib.tasks.parity import (
    parity_batch,
)
from transformer_lib.tasks.task import (
    EncodedPair,
    Pair,
    Task,
)
from transformer_lib.tasks.vocabulary import (
    CharacterVocabulary,
    SubwordVocabulary,
    Vocabulary,
    WordVocabulary,
    vocabulary_from_dict,
)

__all__ = [
    "TASKS",
    "Batch",
    "Batches",
    "CharacterVocabulary",
    "DatesTask",
    "EncodedPair",
    "Grammar",
    "MissingDataError",
    "Multi30kTask",
    "NumberWordsTask",
    "Pair",
    "SubwordVocabulary",
    "Task",
    "Update",
    "Vocabulary",
    "WordVocabulary",
    "agreement_batch",
    "encode",
    "grammar",
    "load_task",
    "padding_share",
    "parity_batch",
    "sentence",
    "sorted_batches",
    "vocabulary_from_dict",
]

TASKS: Mapping[str, type[Task]] = MappingProxyType(
    {task.name: task for task in (DatesTask, NumberWordsTask, Multi30kTask)}
)
"""The tasks that :func:`load_task` knows, by name."""


def load_task(name: str, **options: Any) -> Task:
    """Make a task by its name.

    Parameters
    ----------
    name
        A key of :data:`TASKS`.
    options
        Arguments of that class.

    Raises
    ------
    ValueError
        If there is no such task or option; the message lists the known ones.

    Examples
    --------
    >>> load_task("dates", forms="numeric", test=500)
    DatesTask(seed=0, forms='numeric', train=71549, validation=1000, test=500)
    >>> load_task("numbers")
    Traceback (most recent call last):
    ...
    ValueError: name: got 'numbers', wanted one of the tasks dates, number_words, multi30k
    """
    if name not in TASKS:
        raise ValueError(
            f"name: got {name!r}, wanted one of the tasks {', '.join(TASKS)}"
        )
    known = [key for key in inspect.signature(TASKS[name]).parameters if key != "self"]
    for option in options:
        if option not in known:
            raise ValueError(
                f"{option}: the task {name} has no such option, "
                f"wanted some of {', '.join(known)}"
            )
    return TASKS[name](**options)
