"""The page of all exercises: what is asked, and which mistakes each one knows.

The line ``<!-- exercises -->`` of a page becomes one section for each chapter that checks an
answer, in the order of ``_toc.yml``. What is asked and the mistakes come from
:mod:`transformer_lib.exercises`, title and time from the notebook, so the page cannot say
what is no longer so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from docutils import nodes
from sphinx.application import Sphinx

from transformer_lib.exercises import registry

MARK = "<!-- exercises -->"
HEADING = re.compile(r"^### (Exercise (\d+)\. (.+))$", re.MULTILINE)
TIME = re.compile(r"^\*(\w+, \d+ minutes[^*]*?)\.\*", re.MULTILINE)
CHECK = re.compile(r'^check\("(\w+)"', re.MULTILINE)
TITLE = re.compile(r"^# (\d+)\. (.+)$", re.MULTILINE)


class Asked(NamedTuple):
    """One exercise as its chapter sets it."""

    name: str
    number: int
    title: str
    anchor: str
    time: str


class Chapter(NamedTuple):
    """A chapter and its exercises, in the order of the page."""

    page: str
    number: int
    title: str
    exercises: list[Asked]


def asked(notebook: dict[str, Any]) -> Iterator[Asked]:
    """Each exercise of a notebook, once: its heading, and the name that is checked."""
    heading: re.Match[str] | None = None
    time, told = "", set()
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            for found in HEADING.finditer(text):
                heading = found
                said = TIME.search(text, found.end())
                time = said.group(1) if said else ""
            continue
        for name in CHECK.findall(text):
            if heading is not None and name not in told:
                told.add(name)
                anchor = nodes.make_id(heading.group(1))
                yield Asked(name, int(heading.group(2)), heading.group(3), anchor, time)


def chapters(root: Path) -> list[Chapter]:
    """The chapters that ``_toc.yml`` names and that check an answer."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    found = []
    for page in _pages(toc):
        path = root / f"{page}.ipynb"
        if not page.startswith("notebooks/") or not path.is_file():
            continue
        notebook = json.loads(path.read_text(encoding="utf-8"))
        title = TITLE.search("".join(notebook["cells"][0]["source"]))
        exercises = list(asked(notebook))
        if title and exercises:
            found.append(Chapter(page, int(title[1]), title[2], exercises))
    return found


def _pages(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for part in node:
            yield from _pages(part)
    elif isinstance(node, dict):
        if "file" in node:
            yield node["file"]
        for value in node.values():
            yield from _pages(value)


def plain(text: str) -> str:
    """Markdown that shows a text as it stands."""
    return re.sub(r"([\\`*_{}\[\]<>$|^~#&])", r"\\\1", " ".join(text.split()))


def section(chapter: Chapter, exercise: Asked) -> str:
    """Markdown of one exercise."""
    declared = registry.find(exercise.name)
    count = len(declared.mistakes)
    where = f"../{chapter.page}.ipynb#{exercise.anchor}"
    time = f" {exercise.time}." if exercise.time else ""
    lines = [
        f"### Exercise {chapter.number}.{exercise.number}. {exercise.title}",
        "",
        f"{plain(declared.statement)}",
        "",
        f"[Do it in chapter {chapter.number}]({where}).{time}",
        "",
        "<details>",
        f"<summary>{counted(count)} that it knows</summary>",
        "",
        *(f"* {plain(m.says)} *{plain(m.ask)}*" for m in declared.mistakes),
        "",
        "</details>",
        "",
    ]
    return "\n".join(lines)


def counted(count: int) -> str:
    """How many mistakes."""
    return "One mistake" if count == 1 else f"{count} mistakes"


def page(root: Path) -> str:
    """Markdown of all exercises, in place of the mark."""
    found = chapters(root)
    each = [one for chapter in found for one in chapter.exercises]
    known = sum(len(registry.find(one.name).mistakes) for one in each)
    texts = [
        f"There are {len(each)} exercises in {len(found)} chapters. Together they know "
        f"{known:,} mistakes.\n"
    ]
    for chapter in found:
        texts.append(f"## {chapter.number}. {chapter.title}\n")
        texts += [section(chapter, one) for one in chapter.exercises]
    return "\n".join(texts)


def fill_in(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the mark of a page that is being read."""
    if MARK not in source[0]:
        return
    root = Path(app.srcdir)
    source[0] = source[0].replace(MARK, page(root))
    written = [*root.glob("transformer_lib/exercises/*.py"), root / "_toc.yml"]
    written += [root / f"{chapter.page}.ipynb" for chapter in chapters(root)]
    for path in written:
        app.env.note_dependency(str(path))


def setup(app: Sphinx) -> None:
    """Connect this part of the extension."""
    app.connect("source-read", fill_in)
