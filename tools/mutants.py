"""Generate wrong versions of the library and see which of them the tests let pass.

``python tools/mutants.py`` draws a seeded sample of 200 small changes over
``transformer_lib/reference`` and ``transformer_lib/nn`` (a ``<`` that becomes ``<=``, a
sign, a constant, a dropped ``not``), runs on each the tests that come through the changed
function, the quickest first, and writes ``tests/records/mutants.json``. A survivor is a
change that no test noticed. Each is judged by hand in
``tests/records/mutants_judged.json``: equivalent (no input can tell it from the
original), or a gap. At least 90 % of those that are not equivalent must be killed.
"""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter()

import argparse
import ast
import contextlib
import copy
import itertools
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = environment.ROOT
RECORD = ROOT / "tests" / "records" / "mutants.json"
JUDGED = ROOT / "tests" / "records" / "mutants_judged.json"
WANTED = 0.9
# Seconds of processor time for the tests on one mutant, beyond five times what they take
# on the right code: a loop that never ends is noticed.
MOST_SECONDS = 60

COMPARE = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
WORDS = {"sin": "cos", "cos": "sin", "sum": "mean", "mean": "sum", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """One small change inside one function."""

    module: str
    function: str
    line: int
    before: str
    after: str

    @property
    def key(self) -> str:
        return f"{self.module}:{self.function}: {self.before} -> {self.after}"


def mutants_of(module: str, text: str) -> list[tuple[Mutant, ast.Module]]:
    """All changes of a module, each with the changed tree."""
    found = []
    tree = ast.parse(text)
    for name, path in _functions(tree):
        function = _at(tree, path)
        for place in _places(function):
            original = _at(function, place)
            for change in _changes(original):
                changed = copy.deepcopy(tree)
                target = _at(_at(changed, path), place[:-1])
                _put(target, place[-1], change)
                ast.fix_missing_locations(changed)
                mutant = Mutant(
                    module,
                    name,
                    getattr(original, "lineno", function.lineno),
                    ast.unparse(original),
                    ast.unparse(change),
                )
                found.append((mutant, changed))
    return found


def _functions(tree: ast.Module) -> list[tuple[str, list[Any]]]:
    """Names and paths of all functions and methods."""
    found: list[tuple[str, list[Any]]] = []

    def visit(body: list[ast.stmt], path: list[Any], prefix: str) -> None:
        for i, node in enumerate(body):
            here = [*path, ("body", i)]
            if isinstance(node, ast.ClassDef):
                visit(node.body, here, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef) and not _is_stub(node):
                found.append((prefix + node.name, here))

    visit(tree.body, [], "")
    return found


def _is_stub(node: ast.FunctionDef) -> bool:
    """An overload, a protocol, or what ``print`` shows."""
    names = [ast.unparse(d) for d in node.decorator_list]
    return "overload" in names or node.name in ("extra_repr", "__repr__")


def _places(function: ast.AST) -> list[list[Any]]:
    """Paths of the nodes inside that may be changed."""
    found: list[list[Any]] = []

    def visit(node: ast.AST, path: list[Any]) -> None:
        for name, value in ast.iter_fields(node):
            if name in (
                "decorator_list",
                "returns",
                "annotation",
                "args",
            ) and isinstance(node, ast.FunctionDef | ast.arg | ast.AnnAssign):
                continue
            for i, child in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(child, ast.AST) or isinstance(child, ast.Raise):
                    continue
                here = [*path, (name, i if isinstance(value, list) else None)]
                found.append(here)
                visit(child, here)

    visit(function, [])
    return found


def _at(node: Any, path: list[Any]) -> Any:
    for name, i in path:
        node = getattr(node, name)
        node = node if i is None else node[i]
    return node


def _put(parent: Any, place: tuple[str, int | None], new: ast.AST) -> None:
    name, i = place
    if i is None:
        setattr(parent, name, new)
    else:
        getattr(parent, name)[i] = new


def _changes(node: ast.AST) -> list[ast.AST]:
    """What this node may become."""
    made: list[ast.AST] = []
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = COMPARE.get(type(node.ops[0]))
        if other is not None:
            made.append(ast.Compare(node.left, [other()], node.comparators))
    elif isinstance(node, ast.BinOp):
        other = ARITHMETIC.get(type(node.op))
        if other is not None:
            made.append(ast.BinOp(node.left, other(), node.right))
    elif isinstance(node, ast.AugAssign):
        other = ARITHMETIC.get(type(node.op))
        if other is not None:
            made.append(ast.AugAssign(node.target, other(), node.value))
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        made.append(node.operand)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        made.append(ast.BoolOp(other(), node.values))
    elif isinstance(node, ast.IfExp):
        made.append(ast.IfExp(node.test, node.orelse, node.body))
    elif isinstance(node, ast.Constant):
        made.extend(_other_constants(node))
    elif isinstance(node, ast.Attribute) and node.attr in WORDS:
        made.append(ast.Attribute(node.value, WORDS[node.attr], node.ctx))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        made.append(ast.Pass())
    elif isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords:
        swapped = ast.Call(node.func, node.args[::-1], [])
        if ast.unparse(swapped) != ast.unparse(node):
            made.append(swapped)
    return [ast.copy_location(new, node) for new in made]


def _other_constants(node: ast.Constant) -> list[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        return [ast.Constant(not value)]
    if isinstance(value, int):
        return [ast.Constant(value + 1)]
    if isinstance(value, float):
        return [ast.Constant(2.0 * value if value else 1.0)]
    return []


def modules() -> list[str]:
    """The modules that are changed."""
    return [
        f"transformer_lib.{part}.{path.stem}"
        for part in ("reference", "nn")
        for path in sorted((ROOT / "transformer_lib" / part).glob("*.py"))
        if path.stem != "__init__"
    ]


def test_files() -> list[Path]:
    """The tests that may notice."""
    return [
        path
        for part in ("reference", "nn", "decoding")
        for path in sorted((ROOT / "tests" / part).glob("test_*.py"))
    ]


@dataclass(frozen=True)
class Test:
    """A test, what it takes on the right code, and the functions that it runs."""

    path: Path
    name: str
    seconds: float
    functions: frozenset[str]

    @property
    def key(self) -> str:
        return f"{self.path.relative_to(ROOT / 'tests').as_posix()}::{self.name}"


def marked(module: str, text: str) -> tuple[list[str], ast.Module]:
    """The functions of a module, each made to say that it ran."""
    tree = ast.parse(text)
    names = []
    for name, path in _functions(tree):
        says = f"__import__('mutation').RAN.add({module + ':' + name!r})"
        body = _at(tree, path).body
        body.insert(
            1 if ast.get_docstring(_at(tree, path)) else 0, ast.parse(says).body[0]
        )
        names.append(name)
    return names, ast.fix_missing_locations(tree)


def look_at_tests(jobs: int) -> list[Test]:
    """Run every test once on the right code, and note which functions it runs."""
    import mutation

    pairs = [
        (path, name)
        for path in test_files()
        for name in mutation.tests_of(mutation.load_tests(path))
        if "compile" not in name and "export" not in name  # slow; checked elsewhere too
    ]

    def look(i: int) -> Any:
        path, name = pairs[i]
        mutation.RAN.clear()
        began = time.process_time()
        mutation.run(mutation.load_test(path, name))
        return [time.process_time() - began, sorted(mutation.RAN)]

    with contextlib.ExitStack() as stack:
        for module in modules():
            names, tree = marked(module, mutation.source_of(module))
            stack.enter_context(mutation.planted(module, names, tree))
        found = dict(in_parallel(look, len(pairs), jobs))
    return [
        Test(path, name, found[i][0], frozenset(found[i][1]))
        for i, (path, name) in enumerate(pairs)
    ]


def killer(mutant: Mutant, tree: ast.Module, tests: list[Test]) -> str | None:
    """The first test that fails on the mutant, run in a process of its own."""
    function = f"{mutant.module}:{mutant.function}"
    those = sorted(
        (test for test in tests if function in test.functions),
        key=lambda test: test.seconds,
    )
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        most = MOST_SECONDS + 5 * sum(test.seconds for test in those)
        signal.setitimer(signal.ITIMER_VIRTUAL, most)  # ends the child
        os.write(write, _first_failure(mutant, tree, those).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        return "the process ended" if not os.WIFSIGNALED(status) else "it ran too long"
    return answer or None


def _first_failure(mutant: Mutant, tree: ast.Module, tests: list[Test]) -> str:
    import mutation

    with mutation.planted(mutant.module, [mutant.function], tree):
        for test in tests:
            if mutation.fails(mutation.load_test(test.path, test.name)):
                return test.key
    return ""


def can_be_planted(mutant: Mutant, tree: ast.Module) -> bool:
    """Whether the changed code fits into the living function (its free variables do)."""
    import mutation

    try:
        with mutation.planted(mutant.module, [mutant.function], tree):
            return True
    except ValueError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a module's name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-record", action="store_true", help="print only")
    options = parser.parse_args()

    sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support"), str(ROOT)]
    import mutation

    every = [
        pair
        for module in modules()
        if options.only in module
        for pair in mutants_of(module, mutation.source_of(module))
    ]
    order = random.Random(options.seed).sample(every, len(every))
    able = (pair for pair in order if can_be_planted(*pair))
    chosen = list(itertools.islice(able, options.number))
    began = time.monotonic()
    tests = look_at_tests(options.jobs)
    print(f"{len(tests)} tests looked at, {time.monotonic() - began:.0f} s", flush=True)

    found: dict[int, str | None] = {}
    work = in_parallel(lambda i: killer(*chosen[i], tests), len(chosen), options.jobs)
    for i, test in work:
        found[i] = test
        mutant = chosen[i][0]
        print(
            f"{len(found):>4}/{len(chosen)} {time.monotonic() - began:6.0f} s "
            f"{'killed  ' if test else 'SURVIVED'} {mutant.key} (line {mutant.line})",
            flush=True,
        )
    rows = [
        {**vars(mutant), "killed_by": found[i]} for i, (mutant, _) in enumerate(chosen)
    ]
    if not options.no_record:
        RECORD.parent.mkdir(exist_ok=True)
        record = {"seed": options.seed, "of": len(every), "mutants": rows}
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return report(rows)


_work: Callable[[int], Any]


def in_parallel(
    work: Callable[[int], Any], number: int, jobs: int
) -> Iterator[tuple[int, Any]]:
    """``(i, work(i))`` for all numbers, as they come from ``jobs`` processes."""
    global _work  # forked processes hold it; a closure could not be sent to them
    _work = work
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        for done in as_completed([pool.submit(_numbered, i) for i in range(number)]):
            yield done.result()


def _numbered(i: int) -> tuple[int, Any]:
    return i, _work(i)


def report(rows: list[dict[str, Any]]) -> int:
    """Print the share killed; an unjudged survivor or too low a share is a failure."""
    judged = json.loads(JUDGED.read_text("utf-8")) if JUDGED.is_file() else {}
    survivors = [
        Mutant(**{k: v for k, v in r.items() if k != "killed_by"})
        for r in rows
        if r["killed_by"] is None
    ]
    unjudged = [m.key for m in survivors if m.key not in judged]
    equivalent = sum(
        judged.get(m.key, {}).get("verdict") == "equivalent" for m in survivors
    )
    killed = len(rows) - len(survivors)
    share = killed / max(len(rows) - equivalent, 1)
    print(
        f"{len(rows)} mutants, {killed} killed, {len(survivors)} survived, of which "
        f"{equivalent} equivalent: {share:.1%} of the others killed"
    )
    for key in unjudged:
        print(f"not judged yet: {key}")
    return 0 if share >= WANTED and not unjudged else 1


if __name__ == "__main__":
    environment.finish(main)
