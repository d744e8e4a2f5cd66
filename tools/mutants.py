"""Generate wrong versions of the library and see which of them the tests let pass.

``python tools/mutants.py`` draws a seeded sample of 200 small changes over
``transformer_lib/reference`` and ``transformer_lib/nn`` (a ``<`` that becomes ``<=``, a
sign, a constant, a dropped ``not``), runs the tests on each, and writes
``tests/records/mutants.json``. A survivor is a change that no test noticed. Each is
judged by hand in ``tests/records/mutants_judged.json``: equivalent (no input can tell it
from the original), or a gap. At least 90 % of those that are not equivalent must be
killed.
"""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter()

import argparse
import ast
import copy
import json
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = environment.ROOT
RECORD = ROOT / "tests" / "records" / "mutants.json"
JUDGED = ROOT / "tests" / "records" / "mutants_judged.json"
WANTED = 0.9
TIMEOUT = 600  # seconds of processor time for the tests on one mutant

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


def test_files(module: str) -> list[Path]:
    """The tests that may notice, the nearest first."""
    _, part, topic = module.split(".")
    near = [ROOT / "tests" / part / f"test_{topic}.py"]
    if part == "nn" and topic == "attention":
        near.append(ROOT / "tests" / "nn" / "test_self_attention.py")
    other = "nn" if part == "reference" else "reference"
    rest = [
        *sorted((ROOT / "tests" / part).glob("test_*.py")),
        ROOT / "tests" / other / f"test_{topic}.py",
        *sorted((ROOT / "tests" / "decoding").glob("test_*.py")),
    ]
    return [p for p in dict.fromkeys([*near, *rest]) if p.is_file()]


def killer(mutant: Mutant, tree: ast.Module) -> str | None:
    """The first test that fails on the mutant, run in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.setitimer(signal.ITIMER_VIRTUAL, TIMEOUT)  # ends the child
        os.write(write, _first_failure(mutant, tree).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        return "the process ended" if not os.WIFSIGNALED(status) else "it ran too long"
    return answer or None


def _first_failure(mutant: Mutant, tree: ast.Module) -> str:
    import mutation

    try:
        with mutation.planted(mutant.module, [mutant.function], tree):
            for path in test_files(mutant.module):
                for name, test in mutation.tests_of(mutation.load_tests(path)).items():
                    if "compile" in name or "export" in name:
                        continue  # slow, and what they check is checked elsewhere too
                    if mutation.fails(test):
                        return f"{path.relative_to(ROOT / 'tests').as_posix()}::{name}"
    except ValueError as error:  # another number of free variables
        return f"refused: {error}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a module's name")
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
    chosen = random.Random(options.seed).sample(every, min(options.number, len(every)))
    for module in {mutant.module for mutant, _ in chosen}:
        for path in test_files(module):
            mutation.load_tests(path)  # before forking, so that no child imports torch

    rows = []
    began = time.monotonic()
    for i, (mutant, tree) in enumerate(chosen, 1):
        test = killer(mutant, tree)
        rows.append({**vars(mutant), "killed_by": test})
        print(
            f"{i:>4}/{len(chosen)} {time.monotonic() - began:6.0f} s "
            f"{'killed  ' if test else 'SURVIVED'} {mutant.key} (line {mutant.line})",
            flush=True,
        )
    if not options.no_record:
        RECORD.parent.mkdir(exist_ok=True)
        record = {"seed": options.seed, "of": len(every), "mutants": rows}
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return report(rows)


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
