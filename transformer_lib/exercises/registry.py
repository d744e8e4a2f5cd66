"""Finds the module that declares an exercise, without importing the others.

A topic module says at its top which exercises it declares::

    EXERCISES = ("softmax", "entropy")

The files are read as text, so a new chapter adds its module and nothing else.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

_PACKAGE = "transformer_lib.exercises"
_LINE = re.compile(r"^EXERCISES\s*=\s*(\(.*?\))", re.MULTILINE | re.DOTALL)


def declared_in(source: str) -> tuple[str, ...]:
    """Names in the ``EXERCISES = (...)`` line of a module's text; () without one.

    Examples
    --------
    >>> declared_in('EXERCISES = ("softmax", "entropy")')
    ('softmax', 'entropy')
    """
    found = _LINE.search(source)
    if found is None:
        return ()
    names = ast.literal_eval(found.group(1))
    return tuple(str(name) for name in names)


@cache
def topics() -> Mapping[str, str]:
    """Exercise name to topic (module name), for every topic module in this package."""
    package = importlib.import_module(_PACKAGE)
    found: dict[str, str] = {}
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        for name in declared_in(_source(f"{_PACKAGE}.{module.name}")):
            if name in found:
                raise ValueError(
                    f"exercise {name!r} is declared twice, in {found[name]}.py "
                    f"and in {module.name}.py"
                )
            found[name] = module.name
    return found


def _source(module: str) -> str:
    """A module's text, read by its own loader and without importing it."""
    spec = importlib.util.find_spec(module)
    read = getattr(getattr(spec, "loader", None), "get_source", None)
    return (read(module) or "") if read is not None else ""


def find(name: str) -> Any:
    """Return the exercise of that name; import its topic module only.

    Raises
    ------
    ValueError
        If no exercise has that name; the message lists close ones.
    ImportError
        If its module needs something that is not installed.
    """
    if name not in topics():
        raise ValueError(_unknown(name))
    topic = topics()[name]
    try:
        module = importlib.import_module(f"{_PACKAGE}.{topic}")
    except ImportError as problem:
        raise ImportError(
            f"The exercise {name!r} (topic {topic}) could not be loaded: {problem}. "
            "Install the course's environment as the page 'How to run' says.",
            name=problem.name,
        ) from problem
    for value in vars(module).values():
        if getattr(value, "name", None) == name and hasattr(value, "judge"):
            return value
    raise ValueError(
        f"{topic}.py lists the exercise {name!r} in EXERCISES, but declares none of "
        "that name"
    )


def _unknown(name: str) -> str:
    known = sorted(topics())
    likeness = {k: difflib.SequenceMatcher(None, k, name).ratio() for k in known}
    best = max(likeness.values(), default=0.0)
    close = [k for k in known if likeness[k] >= max(0.55, best - 0.15)]
    close.sort(key=lambda k: -likeness[k])
    close += [k for k in known if name and (name in k or k in name) and k not in close]
    quoted = [f'"{k}"' for k in close[:3]]
    if not quoted:
        names = ", ".join(f'"{k}"' for k in known)
        return f'There is no exercise "{name}". The exercises are {names}.'
    joined = quoted[0]
    if len(quoted) > 1:
        joined = ", ".join(quoted[:-1]) + " or " + quoted[-1]
    return f'There is no exercise "{name}". Did you mean {joined}?'
