"""Measure our modules against others: ``python tools/bench.py [options]``."""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter()

import subprocess
import sys

ROOT = environment.ROOT


def main() -> int:
    if not (ROOT / "benchmarks" / "__main__.py").is_file():
        raise environment.Stop(
            "There are no benchmarks in this version: benchmarks/__main__.py is missing."
        )
    call = [sys.executable, "-m", "benchmarks", *sys.argv[1:]]
    return subprocess.call(call, cwd=ROOT, env=environment.variables())


if __name__ == "__main__":
    environment.finish(main)
