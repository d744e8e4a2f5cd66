"""Run every check and print a summary: ``python tools/test.py [phase ...]``.

Without an argument all phases run, quick ones first; a failure does not stop the rest.
With ``CI=true`` a test that is skipped counts as failed. Tests marked ``gpu`` or ``data``
are left out, and their number is printed.
"""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter(node=True)

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import lint

import notebooks

ROOT = environment.ROOT
LEFT_OUT = "not gpu and not data"
TEST_TIMEOUT = 600  # seconds for one test; only a hang takes that long
MOST_NAMES = 40
HEAD = f"{'phase':<12} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}"


@dataclass
class Result:
    """What one phase gave."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    complaints: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def line(self, name: str) -> str:
        return (
            f"{name:<12} {self.passed:>7} {self.failed:>7} {self.skipped:>8} "
            f"{self.seconds:>8.0f}"
        )


def in_ci() -> bool:
    """Whether nothing may be skipped."""
    return os.environ.get("CI", "").lower() in ("1", "true")


def count(report: Path) -> Result:
    """Read the counts, and the names of what failed, from pytest's report."""
    result = Result()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            result.failed += 1
            result.complaints.append(name)
        elif skipped is not None and skipped.get("type") != "pytest.xfail":
            result.skipped += 1
            result.reasons.append(skipped.get("message", "no reason given"))
            if in_ci():
                result.complaints.append(f"{name} was skipped: {result.reasons[-1]}")
        else:
            result.passed += 1
    if in_ci():
        result.failed += result.skipped
    return result


def run_pytest(folder: Path, *arguments: str, **variables: str) -> Result:
    """One run of pytest, its output passed on."""
    report = folder / f"report-{time.monotonic_ns()}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--junitxml={report}", *arguments]
    env = notebooks.kernel_environment(environment.variables())
    env.update({"COURSE_LEFT_OUT": str(folder), **variables})
    code = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    if not report.is_file() or code not in (0, 1):
        why = "it selected no test" if code == 5 else f"pytest ended with {code}"
        return Result(failed=1, complaints=[f"{why}; its message stands above"])
    result = count(report)
    if code and not result.failed:
        result.failed = 1
        result.complaints.append("pytest reported a failure outside of its tests")
    return result


def selection(marks: str) -> list[str]:
    """Options that select by marker, and end a test that hangs."""
    return ["-m", f"{marks} and {LEFT_OUT}", f"--timeout={TEST_TIMEOUT}"]


def phase_lint(folder: Path) -> Result:
    """Formatter, linter, types, import layers."""
    failed = lint.failures()
    return Result(len(lint.CHECKS) - len(failed), len(failed), complaints=failed)


def phase_unit(folder: Path) -> Result:
    """Properties of the library and the tools, shapes checked at each call."""
    apart = [f"--ignore=tests/{name}" for name in ("book", "notebooks")]
    quick = selection("not browser and not slow")
    return run_pytest(folder, "tests", *apart, *quick, "-n", "2")


def phase_doctest(folder: Path) -> Result:
    """The examples in the docstrings."""
    hook_off = ["-o", "addopts=--import-mode=importlib", "--doctest-modules"]
    return run_pytest(folder, *hook_off, "transformer_lib")


def phase_book(folder: Path) -> Result:
    """The strict build."""
    command = [sys.executable, str(ROOT / "tools" / "book.py")]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        return Result(failed=1, complaints=["the build; its message stands above"])
    return Result(passed=1)


def phase_gates(folder: Path) -> Result:
    """What a stored notebook must be."""
    quick = selection("not browser and not slow")
    return run_pytest(folder, "tests/notebooks", *quick)


def phase_site(folder: Path) -> Result:
    """The built pages, read without a browser."""
    quick = selection("not browser and not slow")
    return run_pytest(folder, "tests/book", *quick, "-n", "2")


def phase_browser(folder: Path) -> Result:
    """The built pages in Chromium, cut off from the network."""
    return run_pytest(
        folder, "tests", *selection("browser"), "-n", "2", "--dist=loadgroup"
    )


def nbval(folder: Path, **variables: str) -> Result:
    """Every notebook anew, each output compared with the stored one."""
    arguments = ["-o", "addopts=", "--nbval", "--nbval-current-env", "-n", "2"]
    arguments += ["--dist=loadscope", f"--nbval-cell-timeout={notebooks.CELL_TIMEOUT}"]
    arguments += ["-p", "no:jaxtyping", "-p", "no:hypothesispytest", "notebooks"]
    return run_pytest(folder, *arguments, **variables)


def phase_nbval(folder: Path) -> Result:
    """Every notebook anew, each output compared with the stored one."""
    return nbval(folder)


def phase_kernels(folder: Path) -> Result:
    """The same with two threads and older processor instructions."""
    return nbval(folder, **notebooks.OTHER_PROCESSOR)


def phase_wheel(folder: Path) -> Result:
    """The built package alone, other environments, whole runs of the tools."""
    return run_pytest(folder, "tests", *selection("slow and not browser"), "-n", "2")


PHASES: dict[str, Callable[[Path], Result]] = {
    "lint": phase_lint,
    "unit": phase_unit,
    "doctest": phase_doctest,
    "gates": phase_gates,
    "book": phase_book,
    "site": phase_site,
    "browser": phase_browser,
    "nbval": phase_nbval,
    "kernels": phase_kernels,
    "wheel": phase_wheel,
}


def left_out(folder: Path) -> dict[str, int]:
    """How many tests each of the markers left out, over all phases."""
    found: dict[str, set[str]] = {"gpu": set(), "data": set()}
    for path in folder.glob("left-out-*.json"):
        for marker, names in json.loads(path.read_text(encoding="utf-8")).items():
            found.setdefault(marker, set()).update(names)
    return {marker: len(names) for marker, names in found.items()}


def summary(results: dict[str, Result], out: dict[str, int]) -> str:
    """The closing text; its last line is "N passed, N failed" and nothing else."""
    lines = ["", "=" * len(HEAD)]
    for name, result in results.items():
        for complaint in result.complaints[:MOST_NAMES]:
            lines.append(f"FAILED {name}: {complaint}")
        if len(result.complaints) > MOST_NAMES:
            lines.append(
                f"FAILED {name}: and {len(result.complaints) - MOST_NAMES} more"
            )
    lines += [HEAD, "-" * len(HEAD)]
    lines += [result.line(name) for name, result in results.items()]
    total = Result(
        sum(r.passed for r in results.values()),
        sum(r.failed for r in results.values()),
        sum(r.skipped for r in results.values()),
        sum(r.seconds for r in results.values()),
    )
    lines += ["-" * len(HEAD), total.line("together"), ""]
    for reason in dict.fromkeys(r for x in results.values() for r in x.reasons):
        times = sum(x.reasons.count(reason) for x in results.values())
        lines.append(f"Skipped, {times} tests: {reason}")
    lines.append(
        f"Left out by marker: {out.get('gpu', 0)} gpu tests (they need a CUDA device), "
        f"{out.get('data', 0)} data tests (they need a download)."
    )
    apart = [name for name in PHASES if name not in results]
    if apart:
        lines.append(f"Not asked for: {', '.join(apart)}.")
    lines += ["", f"{total.passed} passed, {total.failed} failed"]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("phases", nargs="*", metavar="phase", help=", ".join(PHASES))
    chosen = parser.parse_args(arguments).phases or list(PHASES)
    unknown = [name for name in chosen if name not in PHASES]
    if unknown:
        raise environment.Stop(
            f"There is no phase {', '.join(unknown)}; there are: {', '.join(PHASES)}."
        )
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, phase in enumerate(chosen, 1):
            started = time.monotonic()
            what = (PHASES[phase].__doc__ or "").strip()
            environment.say(f"\n== {number} of {len(chosen)}: {phase}. {what}")
            results[phase] = PHASES[phase](folder)
            results[phase].seconds = time.monotonic() - started
            environment.say(f"== {results[phase].line(phase)}")
        out = left_out(folder)
    environment.say(summary(results, out))
    return 1 if any(result.failed for result in results.values()) else 0


if __name__ == "__main__":
    environment.finish(main)
