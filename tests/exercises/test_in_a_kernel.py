"""In a real Jupyter kernel: bad answers are reported and the notebook goes on."""

from __future__ import annotations

import nbformat
from nbclient import NotebookClient

CELLS = [
    """
from transformer_lib.exercises import check

def my_softmax(scores):
    while True:
        try:
            scores = scores + 1
        except Exception:
            pass

check("softmax", my_softmax, seconds=0.5)
""",
    """
def my_softmax(scores):
    print("looking at", scores.shape)
    return scores.reshape(7, 7)

check("softmax", my_softmax)
""",
    """
import sys
check("softmax", lambda scores: sys.exit())
""",
    """
check("sofmax", my_softmax)
""",
    "1 + 1",
]


def test_a_kernel_survives_endless_failing_and_leaving_answers() -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source.strip()) for source in CELLS]
    )
    NotebookClient(
        notebook, timeout=60, kernel_name="python3", allow_errors=True
    ).execute()
    outputs = [cell.outputs for cell in notebook.cells]
    endless, failing, leaving, unknown, after = outputs
    assert [len(cell) for cell in outputs] == [1, 1, 1, 1, 1]
    text = endless[0].data["text/plain"]
    assert "did not finish within 0.5 seconds" in text
    assert endless[0].data["text/html"].startswith('<div class="tl-verdict"')
    text = " ".join(failing[0].data["text/plain"].split())
    assert "It raised ValueError" in text
    assert "The line: `return scores.reshape(7, 7)`." in text
    assert "It printed: looking at (3,)" in text
    assert "It raised SystemExit" in leaving[0].data["text/plain"]
    assert unknown[0].ename == "ValueError"
    assert unknown[0].evalue.endswith('Did you mean "softmax"?')
    assert after[0].data["text/plain"] == "2"
