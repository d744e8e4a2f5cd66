"""What imports what, what needs torch, and one name for one topic."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import topics
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "transformer_lib"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
OWNERS = importlib.metadata.packages_distributions()


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


NEEDED = names(PROJECT["dependencies"])
ON_DEMAND = names(PROJECT["optional-dependencies"]["training"])


def imports(tree: ast.AST, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """Top-level names that a module imports; whether only when a function is called."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")[0], inside
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0], inside
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from imports(node, inside or function)


def undeclared(source: str) -> list[str]:
    """Imports of a module that pyproject.toml does not account for."""
    found = []
    for name, inside in imports(ast.parse(source)):
        if name in sys.stdlib_module_names or name in ("transformer_lib", "__future__"):
            continue
        owners = {canonicalize_name(owner) for owner in OWNERS.get(name, [name])}
        if not owners & NEEDED and not (inside and owners & ON_DEMAND):
            found.append(name)
    return found


@pytest.mark.parametrize(
    "path",
    sorted(PACKAGE.rglob("*.py")),
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_every_third_party_import_is_declared(path: Path) -> None:
    assert undeclared(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import scipy.stats", ["scipy"]),
        ("from yaml import load", ["yaml"]),
        ("import tqdm", ["tqdm"]),
        ("def f():\n    import tqdm", []),
        ("def f():\n    import pytest", ["pytest"]),
        ("import os, numpy as np\nfrom torch import nn\nimport IPython", []),
    ],
)
def test_undeclared_import_is_seen(source: str, found: list[str]) -> None:
    assert undeclared(source) == found


# ----------------------------------------------------------------------------- no torch


def without_torch(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process where importing torch fails."""
    block = "import sys\nsys.modules['torch'] = None\n"
    return subprocess.run(
        [sys.executable, "-c", block + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_reference_widgets_and_plotting_import_without_torch() -> None:
    done = without_torch(
        "import importlib, pkgutil\n"
        "for name in ('reference', 'widgets', 'plotting'):\n"
        "    package = importlib.import_module('transformer_lib.' + name)\n"
        "    walk = pkgutil.walk_packages(package.__path__, package.__name__ + '.')\n"
        "    for module in walk:\n"
        "        importlib.import_module(module.name)\n"
        "print('done')"
    )
    assert done.stdout == "done\n", done.stderr


def test_exercise_engine_judges_without_torch() -> None:
    done = without_torch(
        "import numpy as np\n"
        "from transformer_lib.exercises import check, predict, scoreboard\n"
        "print(bool(check('softmax', lambda scores: scores)))\n"
        "print(bool(check('softmax', lambda s: "
        "np.exp(s - s.max(-1, keepdims=True)) "
        "/ np.exp(s - s.max(-1, keepdims=True)).sum(-1, keepdims=True))))"
    )
    assert done.stdout.split()[-2:] == ["False", "True"], done.stderr


def test_torch_is_really_out_of_reach_there() -> None:
    done = without_torch("import transformer_lib.nn")
    assert done.returncode != 0
    assert "torch" in done.stderr


def test_importing_the_package_alone_loads_nothing_heavy() -> None:
    done = without_torch(
        "import transformer_lib\n"
        "print(sorted({'numpy', 'matplotlib', 'IPython', 'anywidget'} & set(sys.modules)))"
    )
    assert done.stdout == "[]\n", done.stderr


# ------------------------------------------------------------------------------- topics


def test_table_of_topics_is_that_of_contributing() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    print(topics.table())
    assert topics.put(page, topics.table()) == page, "python tools/topics.py writes it"


@pytest.mark.parametrize(
    "folder", sorted(p.name for p in PACKAGE.iterdir() if p.is_dir())
)
def test_topics_go_by_their_one_name(folder: str) -> None:
    for path in (PACKAGE / folder).glob("*.py"):
        known = topics.OTHER_NAMES.get(path.stem)
        assert known is None, f"{path.name} is the topic {known}"


def test_reference_holds_topics_and_nothing_else() -> None:
    found = {path.stem for path in (PACKAGE / "reference").glob("*.py")} - {"__init__"}
    assert found <= set(topics.TOPICS)


def test_chapters_carry_the_names_and_numbers_of_the_topics() -> None:
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        found = re.fullmatch(r"ch(\d\d)_(\w+)", path.stem)
        assert found, path.name
        assert topics.TOPICS[int(found[1]) - 1] == found[2]


def test_other_name_and_table_out_of_date_are_seen(tmp_path: Path) -> None:
    for folder in ("transformer_lib/reference", "notebooks", "tests/reference"):
        (tmp_path / folder).mkdir(parents=True)
    before = topics.table(tmp_path)
    (tmp_path / "transformer_lib/reference/masks.py").touch()
    (tmp_path / "tests/reference/test_masks.py").touch()
    (tmp_path / "notebooks/ch06_masks.ipynb").touch()
    (row,) = set(topics.table(tmp_path).splitlines()) - set(before.splitlines())
    assert row.startswith("| `masks` | [ch06](notebooks/ch06_masks.ipynb) | yes |")
    assert row.endswith("| reference |")
