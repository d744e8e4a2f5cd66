"""Open the notebooks in JupyterLab: ``python tools/lab.py [options of jupyter lab]``."""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter()

import os
import subprocess
import sys

ROOT = environment.ROOT


def command(arguments: list[str]) -> list[str]:
    """The call of JupyterLab; links from notebooks to book pages work under its root."""
    call = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={ROOT}"]
    call.append("--LabApp.default_url=/lab/tree/notebooks")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        call.append("--allow-root")  # inside a container everything is root's
    return [*call, *arguments]


def main() -> int:
    return subprocess.call(command(sys.argv[1:]), cwd=ROOT, env=environment.variables())


if __name__ == "__main__":
    environment.finish(main)
