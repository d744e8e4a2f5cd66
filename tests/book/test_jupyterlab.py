"""One widget in a real JupyterLab: it runs, keeps its keys, and tells Python its state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from transformer_lib.reference import self_attention

X = [[1, 0], [0, 2], [2, 1]]
W_Q, W_K, W_V = [[1, 1], [0, 1]], [[0, 1], [1, 1]], [[1, 0], [-1, 1]]
CELLS = (
    "from transformer_lib.widgets import AttentionCalculator\n"
    "calculator = AttentionCalculator()\ncalculator",
    "print('rows', calculator.X)",
    # The same widget without the line that keeps its keys from JupyterLab.
    "class Leaky(AttentionCalculator):\n"
    "    _esm = AttentionCalculator._esm.replace('event.stopPropagation()', 'null')\n"
    "Leaky()",
)
SECONDS_TO_START = 90

pytestmark = pytest.mark.xdist_group("lab")  # one server for them all


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a JupyterLab of its own, serving one notebook that was never run."""
    folder = tmp_path_factory.mktemp("lab")
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in CELLS],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(notebook, folder / "widget.ipynb")
    runtime = folder / "runtime"
    env = {
        **os.environ,
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "IPYTHONDIR": str(folder / "ipython"),
        "OMP_NUM_THREADS": "1",
    }
    log = folder / "lab.log"
    options = (
        "--no-browser", "--allow-root", "--port=0", "--ServerApp.token=",
        "--ServerApp.password=", f"--ServerApp.root_dir={folder}",
        "--LabApp.news_url=None", "--LabApp.check_for_updates_class="
        "jupyterlab.NeverCheckForUpdate",
    )  # fmt: skip
    with log.open("w") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield _address(server, runtime, log)
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _address(server: subprocess.Popen, runtime: Path, log: Path) -> str:
    """Wait until the server has written where it listens."""
    end = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < end and server.poll() is None:
        for file in runtime.glob("jpserver-*.json"):
            try:
                return str(json.loads(file.read_text())["url"])
            except (ValueError, KeyError):
                pass  # half written: look again
        time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="module")
def notebook(browser: Any, lab: str) -> Iterator[Any]:
    """The notebook open in JupyterLab, all cells run, nothing reached outside."""
    context = browser.new_context(viewport={"width": 1280, "height": 1600})
    context.set_default_timeout(90_000)
    context.route(
        "**/*",
        lambda route: (
            route.continue_()
            if route.request.url.startswith((lab, "data:", "blob:"))
            else route.abort()
        ),
    )
    page = context.new_page()
    page.goto(f"{lab}lab/tree/widget.ipynb?reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.get_by_text("| Idle").wait_for()  # else JupyterLab asks which kernel
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.locator(".tl-live").nth(1).wait_for()
    yield page
    context.close()


def texts(widget: Any, grid: str) -> np.ndarray:
    """The numbers of one matrix of the calculator, as they stand on the screen."""
    rows = widget.get_by_role("grid", name=grid).get_by_role("row").all()[1:]
    return np.array(
        [
            [
                float(text.replace("\N{MINUS SIGN}", "-"))
                for text in row.get_by_role("gridcell").all_inner_texts()
            ]
            for row in rows
        ]
    )


def test_the_widget_keeps_its_keys_and_python_sees_the_new_state(notebook: Any) -> None:
    widget = notebook.locator(".tl-live").first
    cells = notebook.locator(".jp-Notebook .jp-Cell")
    assert cells.count() == len(CELLS)
    widget.get_by_role("grid", name="X, the tokens").get_by_role(
        "gridcell"
    ).first.click()
    for key in ("ArrowRight", "ArrowDown", "+", "+", "b", "a", "x", "m", "ArrowLeft"):
        notebook.keyboard.press(key)

    changed = np.array(X, float)
    changed[1, 1] += 2
    assert texts(widget, "X, the tokens").tolist() == changed.tolist()
    output, weights = self_attention(
        changed, *(np.array(W, float) for W in (W_Q, W_K, W_V))
    )
    assert np.abs(texts(widget, "weights") - weights).max() <= 0.0051
    assert np.abs(texts(widget, "O, gets") - output).max() <= 0.0051
    assert "cat, number 1" in widget.get_by_role("status").inner_text()
    assert cells.count() == len(CELLS)  # "b" and "a" add cells, "x" cuts one
    assert notebook.locator(".jp-Notebook .jp-MarkdownCell").count() == 0  # "m"

    cells.nth(1).locator(".cm-content").click()
    notebook.keyboard.press("Control+Enter")
    said = cells.nth(1).locator(".jp-OutputArea-output", has_text="[0, 4]")
    said.wait_for()
    assert said.inner_text().strip() == "rows [[1, 0], [0, 4], [2, 1]]"


def test_without_the_guard_jupyterlab_would_take_the_keys(notebook: Any) -> None:
    leaky = notebook.locator(".tl-live").nth(1)
    cells = notebook.locator(".jp-Notebook .jp-Cell")
    leaky.get_by_role("grid", name="X, the tokens").get_by_role(
        "gridcell"
    ).first.click()
    before = cells.count()
    notebook.keyboard.press("b")
    notebook.wait_for_function(
        "count => document.querySelectorAll('.jp-Notebook .jp-Cell').length > count",
        arg=before,
    )
