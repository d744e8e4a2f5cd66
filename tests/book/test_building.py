"""The build says no: to a stored traceback, a broken reference, a dead link, a bad widget.

Each test builds a small copy of the book: its real settings and extension, two pages.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow

TOC = """\
format: jb-book
root: book/intro
parts:
  - caption: The course
    chapters:
      - file: notebooks/one
"""


def cell(text: str) -> dict:
    return {"cell_type": "markdown", "id": "m", "metadata": {}, "source": [text]}


def code(source: str, outputs: list, **metadata: object) -> dict:
    return {
        "cell_type": "code",
        "id": "c",
        "metadata": metadata,
        "source": [source],
        "execution_count": 1,
        "outputs": outputs,
    }


def error(name: str) -> dict:
    text = f"{name}: no such thing"
    return {
        "output_type": "error",
        "ename": name,
        "evalue": "no such thing",
        "traceback": [text],
    }


def notebook(*cells: dict) -> str:
    for number, each in enumerate(cells):
        each["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps(
        {
            "cells": list(cells),
            "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


@pytest.fixture
def small_book(tmp_path: Path) -> Path:
    book = tmp_path / "course"
    for folder in (
        "book/_ext",
        "book/_static",
        "book/_templates",
        "transformer_lib/widgets",
    ):
        shutil.copytree(
            ROOT / folder,
            book / folder,
            ignore=shutil.ignore_patterns(
                "__pycache__", "*.py" if "lib" in folder else ""
            ),
        )
    for name in ("_config.yml", "pyproject.toml", "book/references.bib"):
        shutil.copy(ROOT / name, book / name)
    (book / "node_modules").symlink_to(ROOT / "node_modules", target_is_directory=True)
    (book / "_toc.yml").write_text(TOC, encoding="utf-8")
    (book / "book" / "intro.md").write_text(
        "# The first page\n\nTo [chapter 1](../notebooks/one.ipynb#a-section).\n",
        encoding="utf-8",
    )
    (book / "notebooks").mkdir()
    (book / "notebooks" / "one.ipynb").write_text(
        notebook(cell("# 1. One\n\n## A section\n\nWords with $x^2$.")),
        encoding="utf-8",
    )
    return book


def build(book: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = "from jupyter_book.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "build", ".", *options],
        cwd=book,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"},
        check=False,
    )


STRICT = ("-W", "-n", "--keep-going")


def test_a_sound_book_builds_and_a_second_time_too(small_book: Path) -> None:
    done = build(small_book, *STRICT)
    assert done.returncode == 0, done.stdout + done.stderr
    html = small_book / "_build" / "html"
    page = (html / "notebooks" / "one.html").read_text(encoding="utf-8")
    assert '<span class="tl-chapter">Chapter 1</span>' in page
    assert "mathjax/mathjax.js" in page
    assert "widget-host.js" not in page
    assert "og:title" not in page
    assert "Report a mistake" not in page
    assert not (html / "sitemap.xml").exists()

    style = small_book / "book" / "_static" / "course.css"
    style.write_text(style.read_text("utf-8") + "\n.tl-new { color: red; }\n", "utf-8")
    again = build(small_book, *STRICT)
    assert again.returncode == 0, again.stdout + again.stderr
    assert ".tl-new" in (html / "_static" / "course.css").read_text(encoding="utf-8")


def test_a_stored_traceback_fails_the_build(small_book: Path) -> None:
    one = small_book / "notebooks" / "one.ipynb"
    one.write_text(
        notebook(cell("# 1. One\n\n## A section"), code("f()", [error("ValueError")])),
        "utf-8",
    )
    done = build(small_book)  # with or without -W
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "notebooks/one.ipynb: cell 1 holds a traceback: ValueError" in said


def test_broken_references_fail_the_build_and_each_is_named(small_book: Path) -> None:
    broken = {
        "nowhere": "See {doc}`nowhere`.",
        "gone.md": "See [that](gone.md).",
        "reference.softmaxx": "See {py:func}`transformer_lib.reference.softmaxx`.",
        "no-section": "See [that](../notebooks/one.ipynb#no-section).",
        "nobody2017": "See {cite}`nobody2017`.",
    }
    intro = small_book / "book" / "intro.md"
    text = "\n\n".join(broken.values())
    intro.write_text(f"# The first page\n\n{text}\n", encoding="utf-8")
    done = build(small_book, *STRICT)
    assert done.returncode != 0
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line]
    for name in broken:
        assert any(name in line for line in warnings), (name, warnings)


def test_a_dead_link_between_pages_fails_the_build(small_book: Path) -> None:
    intro = small_book / "book" / "intro.md"
    intro.write_text(
        '# The first page\n\n<a href="../notebooks/two.html">raw</a>\n'
        '<a href="../notebooks/one.html#nowhere">anchor</a>\n',
        encoding="utf-8",
    )
    done = build(small_book)  # with or without -W
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "book/intro.html: dead link ../notebooks/two.html" in said
    assert "book/intro.html: dead anchor ../notebooks/one.html#nowhere" in said


def test_a_widget_that_is_not_there_fails_the_build(small_book: Path) -> None:
    html = {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/html": ['<div class="tl-widget" data-widget="nothing"></div>']},
    }
    one = small_book / "notebooks" / "one.ipynb"
    one.write_text(
        notebook(cell("# 1. One\n\n## A section"), code("w", [html])), "utf-8"
    )
    done = build(small_book)
    assert done.returncode != 0
    assert "there is no widget 'nothing'" in done.stdout + done.stderr


def test_known_addresses_bring_their_buttons_and_tags(small_book: Path) -> None:
    project = small_book / "pyproject.toml"
    lines = []
    for line in project.read_text(encoding="utf-8").splitlines():
        if line.startswith("repository ="):
            line = 'repository = "https://github.com/someone/course"'
        elif line.startswith("site ="):
            line = 'site = "https://someone.github.io/course/"'
        lines.append(line)
    project.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = build(small_book, *STRICT)
    assert done.returncode == 0, done.stdout + done.stderr
    html = small_book / "_build" / "html"
    page = (html / "notebooks" / "one.html").read_text(encoding="utf-8")
    colab = (
        "colab.research.google.com/github/someone/course/blob/main/notebooks/one.ipynb"
    )
    assert colab in page
    assert "https://github.com/someone/course/issues/new?title=Mistake" in page
    assert 'content="https://someone.github.io/course/notebooks/one.html"' in page
    assert 'rel="canonical"' in page
    prose = (html / "book" / "intro.html").read_text(encoding="utf-8")
    assert "https://github.com/someone/course/edit/main/book/intro.md" in prose
    assert "colab.research" not in prose
    sitemap = (html / "sitemap.xml").read_text(encoding="utf-8")
    assert "https://someone.github.io/course/notebooks/one.html" in sitemap
    assert "404.html" not in sitemap
