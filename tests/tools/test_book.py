"""The build is strict: what a reader would stumble over makes it fail, every time."""

from __future__ import annotations

from pathlib import Path

import links
import nbformat
import pytest

import book

CONFIG = """\
title: A small book
only_build_toc_files: true
execute: {execute_notebooks: "off"}
repository: {url: ""}
html: {use_issues_button: false}
latex: {latex_documents: {}}
"""
TOC = "format: jb-book\nroot: intro\nchapters:\n- file: two\n- file: three\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A book of two pages and a notebook."""
    root = tmp_path / "course"
    (root / "notebooks").mkdir(parents=True)
    (root / "_config.yml").write_text(CONFIG, encoding="utf-8")
    (root / "_toc.yml").write_text(TOC, encoding="utf-8")
    (root / "intro.md").write_text("# One\n\nGo to [two](two.md).\n", encoding="utf-8")
    (root / "two.md").write_text("(label)=\n# Two\n\nText.\n", encoding="utf-8")
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_markdown_cell("# Three")]
    nbformat.write(notebook, root / "three.ipynb")
    return root


def put(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_sound_book_is_built_and_a_fault_fails_until_it_is_mended(tree: Path) -> None:
    assert book.build(tree) == []
    assert (tree / "_build" / "html" / "two.html").is_file()

    put(tree / "two.md", "(label)=\n# Two\n\n{ref}`nowhere`, [four](four.md)\n")
    for attempt in ("first", "second, when Sphinx reads nothing again"):
        found = book.build(tree)
        for target in ("nowhere", "four.md"):
            assert any(target in x and "two.md" in x for x in found), (attempt, found)

    put(tree / "two.md", '(label)=\n# Two\n\n<a href="gone.html">x</a>\n')
    assert book.build(tree) == ["two.html: gone.html leads nowhere"]

    put(tree / "two.md", "(label)=\n# Two\n\nMended.\n")
    assert book.build(tree) == []


def test_stored_traceback_fails_before_anything_is_built(tree: Path) -> None:
    notebook = nbformat.v4.new_notebook()
    error = nbformat.v4.new_output("error", ename="NameError", evalue="x")
    cell = nbformat.v4.new_code_cell("x", execution_count=1, outputs=[error])
    notebook.cells = [cell]
    path = tree / "notebooks" / "ch01.ipynb"
    nbformat.write(notebook, path)
    assert len(book.build(tree)) == 1
    assert "traceback (NameError: x)" in book.build(tree)[0]
    assert not (tree / "_build").exists()
    cell.metadata.tags = ["raises-exception"]
    nbformat.write(notebook, path)
    assert book.stored_tracebacks(tree) == []


@pytest.mark.parametrize("name", ["_config.yml", "_toc.yml", "two.md", "three.ipynb"])
def test_missing_file_ends_in_a_sentence_that_says_what_to_do(
    tree: Path, name: str
) -> None:
    (tree / name).unlink()
    with pytest.raises(book.environment.Stop, match=r"(?s)missing.*git\s+checkout"):
        book.build(tree)


def test_broken_yaml_names_the_line(tree: Path) -> None:
    put(tree / "_toc.yml", "root: intro\nchapters: [\n")
    with pytest.raises(book.environment.Stop, match=r"_toc.yml is not YAML in line \d"):
        book.build(tree)


def test_broken_notebook_ends_in_a_sentence(tree: Path) -> None:
    put(tree / "notebooks" / "ch01.ipynb", "{")
    with pytest.raises(book.environment.Stop, match=r"ch01.ipynb is not a readable"):
        book.build(tree)


def test_everything_is_built_again_when_unwatched_things_change(tree: Path) -> None:
    before = book.fingerprint(tree)
    assert book.fingerprint(tree) == before
    (tree / "book" / "_ext").mkdir(parents=True)
    put(tree / "book" / "_ext" / "course.py", "x = 1\n")
    extended = book.fingerprint(tree)
    put(tree / "_toc.yml", TOC + "- file: four\n")
    assert len({before, extended, book.fingerprint(tree)}) == 3


# ------------------------------------------------------------------------------- links


def site(folder: Path, **pages: str) -> Path:
    for name, body in pages.items():
        put(folder / f"{name}.html", f"<html><body>{body}</body></html>")
    return folder


def test_sound_links_are_let_pass(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    put(tmp_path / "sub" / "index.html", "<p id='x y'>")
    put(tmp_path / "data.txt", "text")
    body = (
        '<a href="two.html#here">a</a><a href="#own">b</a><i id="own"></i>'
        '<a href="sub/#x%20y">c</a><a href="data.txt?v=1">d</a><a href="#">e</a>'
        '<a href="https://other.example/x">f</a><a href="mailto:a@b.c">g</a>'
        '<img src="data:image/png;base64,AA">'
    )
    assert links.dead_links(site(tmp_path, one=body, two='<a name="here"></a>')) == []


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ('<a href="gone.html">x</a>', "gone.html leads nowhere"),
        ('<img src="gone.png">', "gone.png leads nowhere"),
        ('<script src="../up.js"></script>', "../up.js leads nowhere"),
        ('<a href="two.html#gone">x</a>', "two.html#gone names a place"),
        ('<a href="#gone">x</a>', "#gone names a place"),
        (
            '<meta http-equiv="Refresh" content="0; url=gone.html">',
            "gone.html leads nowhere",
        ),
    ],
)
def test_dead_link_is_reported_with_its_page(
    tmp_path: Path, body: str, complaint: str
) -> None:
    (found,) = links.dead_links(site(tmp_path, one=body, two=""))
    assert found.startswith(f"one.html: {complaint}")
