"""Re-execute the notebooks and store clean outputs: ``python tools/notebooks.py [ch03 ...]``.

Without an argument all notebooks run; an argument picks those whose name starts with it.
The result is byte-identical from run to run on one machine.
"""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter()

import argparse
import os
import time
from pathlib import Path
from typing import Any

import first_cell
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import (
    CellExecutionError,
    CellTimeoutError,
    DeadKernelError,
)
from notebook_gates import METADATA, choose, load

ROOT = Path(__file__).resolve().parents[1]
CELL_TIMEOUT = 600  # seconds; chapter 12 trains, in CI on old instructions too
MIME_DROPPED = ("application/vnd.jupyter.widget-view+json",)


# Other kernels and another order of summation, as on another reader's processor.
OTHER_PROCESSOR = {
    "OMP_NUM_THREADS": "2",
    "MKL_NUM_THREADS": "2",
    "OPENBLAS_NUM_THREADS": "2",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", "Nehalem"),
}


def kernel_environment(before: dict[str, str] | None = None) -> dict[str, str]:
    """Environment of a kernel: one thread, one seed of hashes, no chatter."""
    env = dict(os.environ if before is None else before)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        env[name] = "1"
    env["PYTHONHASHSEED"] = "0"
    env["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    return env


def clean_outputs(outputs: list[Any]) -> list[Any]:
    """Drop what changes from run to run, and join adjacent streams of one name."""
    cleaned: list[Any] = []
    for output in outputs:
        if "data" in output:
            for mime in MIME_DROPPED:
                output["data"].pop(mime, None)
            output["metadata"] = {}
        if (
            output["output_type"] == "stream"
            and cleaned
            and cleaned[-1]["output_type"] == "stream"
            and cleaned[-1]["name"] == output["name"]
        ):
            cleaned[-1]["text"] += output["text"]
            continue
        cleaned.append(output)
    return cleaned


def clean(notebook: Any) -> Any:
    """Make the notebook's metadata minimal and its cell ids fixed."""
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        cell.metadata.pop("execution", None)
        cell.metadata.pop("collapsed", None)
        if cell.cell_type == "code":
            cell.outputs = clean_outputs(cell.outputs)
    return notebook


def execute(path: Path, seconds: int = CELL_TIMEOUT) -> Any:
    """Run one notebook from a fresh kernel, in its folder, and return it cleaned."""
    notebook = load(path).notebook
    first_cell.put(notebook, first_cell.text())
    os.environ.update(kernel_environment())
    client = NotebookClient(
        notebook,
        timeout=seconds,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    return clean(notebook)


def rewrite(path: Path) -> None:
    """Execute one notebook and replace it; a failing cell leaves the file as it was."""
    try:
        notebook = execute(path)
    except CellExecutionError as trouble:
        raise environment.Stop(
            f"{path.name}: a cell failed, nothing was written; mend it and run again.\n"
            f"{trouble}"
        ) from trouble
    except CellTimeoutError as trouble:
        raise environment.Stop(
            f"{path.name}: a cell ran longer than {CELL_TIMEOUT} s, nothing was written; "
            f"make it shorter.\n{trouble}"
        ) from trouble
    except DeadKernelError as trouble:
        raise environment.Stop(
            f"{path.name}: the kernel died (out of memory?), nothing was written."
        ) from trouble
    temporary = path.with_suffix(".ipynb.tmp")
    nbformat.write(notebook, temporary)
    temporary.replace(path)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="beginnings of names, such as ch03")
    for path in choose(parser.parse_args(arguments).names):
        start = time.perf_counter()
        rewrite(path)
        environment.say(f"{path.name}: {time.perf_counter() - start:.1f} s")
    return 0


if __name__ == "__main__":
    environment.finish(main)
