"""Swap the code of a function for a wrong one, run tests on it, and put it back.

A fault is planted by replacing the code object inside the living function object, so
that everyone who imported the function meets the fault, however they imported it. No
file is touched and nothing is imported twice.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import hypothesis
import jaxtyping
import pytest

ROOT = Path(__file__).resolve().parents[1]
RAN: set[str] = set()
"""Where functions whose code was marked say that they ran."""


def source_of(module_name: str) -> str:
    """The text of a module of the library."""
    return (ROOT / (module_name.replace(".", "/") + ".py")).read_text(encoding="utf-8")


def function_codes(code: CodeType, prefix: str = "") -> dict[str, CodeType]:
    """The code of each function and method that compiled source defines, by its name."""
    found: dict[str, CodeType] = {}
    for constant in code.co_consts:
        if not isinstance(constant, CodeType):
            continue
        name = prefix + constant.co_name
        if constant.co_flags & inspect.CO_OPTIMIZED:
            found[name] = constant  # of several definitions the last one counts
        else:  # a class body
            found.update(function_codes(constant, name + "."))
    return found


def living_function(module: ModuleType, name: str) -> FunctionType:
    """The innermost function behind decorators, properties and the shape hook."""
    thing: Any = module
    for part in name.split("."):
        thing = vars(thing)[part] if part in vars(thing) else getattr(thing, part)
    if isinstance(thing, property):
        thing = thing.fget
    if isinstance(thing, staticmethod | classmethod):
        thing = thing.__func__
    return inspect.unwrap(thing)


@contextlib.contextmanager
def planted(module_name: str, names: list[str], source: Any) -> Iterator[None]:
    """Give these functions the code that they have in ``source`` (text or tree)."""
    module = importlib.import_module(module_name)
    codes = function_codes(compile(source, module_name, "exec"))
    functions = {name: living_function(module, name) for name in names}
    before = {name: function.__code__ for name, function in functions.items()}
    try:
        for name, function in functions.items():
            function.__code__ = codes[name]
        yield
    finally:
        for name, function in functions.items():
            function.__code__ = before[name]


def changed_functions(old: str, new: str) -> list[str]:
    """Names of the functions whose code differs between two texts of a module."""
    before = function_codes(compile(old, "old", "exec"))
    after = function_codes(compile(new, "new", "exec"))
    return [name for name in after if _differs(before.get(name), after[name])]


def _differs(a: CodeType | None, b: CodeType) -> bool:
    """Compare what is executed, not where it stands."""
    if a is None or a.co_code != b.co_code or a.co_names != b.co_names:
        return True
    pairs = itertools.zip_longest(a.co_consts, b.co_consts)
    for x, y in pairs:
        if isinstance(x, CodeType) and isinstance(y, CodeType):
            if _differs(x, y):
                return True
        elif (type(x), x) != (type(y), y):
            return True
    return a.co_varnames != b.co_varnames


@contextlib.contextmanager
def _no_shrinking() -> Iterator[None]:
    """A test that fails need not look for its smallest failure here."""
    hypothesis.settings.register_profile(
        "faults",
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
    )
    before = hypothesis.settings.get_current_profile_name()
    hypothesis.settings.load_profile("faults")
    yield
    hypothesis.settings.load_profile(before)


def load_tests(path: Path) -> ModuleType:
    """Import a test file under a name of its own."""
    name = "faults_" + "_".join(path.relative_to(ROOT / "tests").with_suffix("").parts)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise FileNotFoundError(path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        with _no_shrinking():
            spec.loader.exec_module(module)
    return sys.modules[name]


def tests_of(module: ModuleType) -> dict[str, Callable[..., None]]:
    """The test functions of a loaded file, in order."""
    return {
        name: thing
        for name, thing in vars(module).items()
        if name.startswith("test_") and callable(thing)
    }


def load_test(path: Path, name: str) -> Callable[..., None]:
    """One test function of a test file."""
    return tests_of(load_tests(path))[name]


def fails(test: Callable[..., None]) -> bool:
    """Whether a test fails for at least one of its parameter sets."""
    try:
        run(test)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # pytest's own failures are no Exceptions
        return True
    return False


def run(test: Callable[..., None]) -> None:
    """Run a test as pytest would, for all parameter sets, with the fixtures used here."""
    marks = getattr(test, "pytestmark", [])
    disable = any(mark.name == "no_shape_hook" for mark in marks)
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", disable or before)
    try:
        for arguments in _parameter_sets(marks):
            with _fixtures(test) as fixtures, _silence():
                test(**arguments, **fixtures)
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


def _parameter_sets(marks: list[Any]) -> Iterator[dict[str, Any]]:
    choices: list[list[dict[str, Any]]] = []
    for mark in marks:
        if mark.name != "parametrize":
            continue
        names, values = mark.args[:2]
        names = (
            [n.strip() for n in names.split(",")] if isinstance(names, str) else names
        )
        sets = []
        for value in values:
            inner = value.values if hasattr(value, "marks") else value
            one = len(names) == 1 and not hasattr(value, "marks")
            sets.append(dict(zip(names, [inner] if one else inner, strict=True)))
        choices.append(sets)
    for combination in itertools.product(*choices):
        yield {name: value for part in combination for name, value in part.items()}


@contextlib.contextmanager
def _fixtures(test: Callable[..., None]) -> Iterator[dict[str, Any]]:
    wanted = inspect.signature(test).parameters
    with contextlib.ExitStack() as stack:
        given: dict[str, Any] = {}
        if "tmp_path" in wanted:
            given["tmp_path"] = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if "monkeypatch" in wanted:
            given["monkeypatch"] = stack.enter_context(pytest.MonkeyPatch.context())
        yield given


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with (
        open(os.devnull, "w") as nowhere,  # noqa: PTH123
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield
