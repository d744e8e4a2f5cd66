"""The role ``{minutes}`` gives a notebook's reading time, counted from its words.

Prose is read at 200 words a minute; an equation takes the time of 10 words, a code cell
of 60. Exercises state their own minutes, and the second reading is for another day, so
neither counts.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

WORDS_PER_MINUTE = 200
WORDS_PER_CODE_CELL = 60
WORDS_PER_EQUATION = 10
APART = ("Exercises", "Backward")  # sections that are not part of the first reading


def minutes(notebook: dict[str, Any]) -> int:
    """Whole minutes, at least 1; hidden hints and solutions do not count."""
    words, apart = 0, False
    for cell in notebook["cells"]:
        tags = cell["metadata"].get("tags", [])
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            if not apart and "hide-cell" not in tags and "hide-input" not in tags:
                words += WORDS_PER_CODE_CELL
            continue
        text = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
        for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
            if section.startswith("## "):
                apart = section[3:].startswith(APART)
            if not apart:
                words += _words(section)
    return max(1, round(words / WORDS_PER_MINUTE))


def _words(text: str) -> int:
    """Count the words of prose, and some for each displayed equation."""
    text, equations = re.subn(r"\$\$.*?\$\$", " ", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$]*\$", " x ", text)  # a symbol in a line reads as a word
    text = re.sub(r"\]\([^)]*\)", "]", text)  # the address of a link is not read
    words = re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text)
    return len(words) + equations * WORDS_PER_EQUATION


class Minutes(SphinxRole):
    """``{minutes}`ch01_recurrence``` becomes "20 min"."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        path = Path(self.env.srcdir) / "notebooks" / f"{self.text}.ipynb"
        self.env.note_dependency(str(path))
        if not path.is_file():
            message = self.inliner.reporter.error(
                f"minutes: there is no notebook {self.text!r}", line=self.lineno
            )
            return [], [message]
        count = minutes(json.loads(path.read_text(encoding="utf-8")))
        return [nodes.Text(f"{count} min")], []


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_role("minutes", Minutes())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
