"""One command sets the addresses everywhere, and takes them back without a trace."""

from __future__ import annotations

import shutil
from pathlib import Path

import first_cell
import nbformat
import pytest
import set_repository as tool

ROOT = tool.ROOT
URL = "https://github.com/ada/course"
SITE = "https://ada.github.io/course/"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files that hold addresses, and one notebook."""
    for name in tool.PLACES:
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "notebooks").mkdir()
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(first_cell.text())]
    nbformat.write(notebook, tmp_path / "notebooks" / "ch01_x.ipynb")
    return tmp_path


def contents(tree: Path) -> dict[str, str]:
    return {
        str(path): path.read_text(encoding="utf-8")
        for path in sorted(tree.rglob("*"))
        if path.is_file()
    }


def test_places_of_the_course_agree() -> None:
    assert tool.disagreeing(ROOT) == []


def test_set_agrees_everywhere_and_unset_leaves_no_trace(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(["--unset"], tree) == 0
    before = contents(tree)
    assert tool.main([f"{URL}.git", "--site", SITE.rstrip("/")], tree) == 0
    assert "DISAGREES" not in capsys.readouterr().out
    after = contents(tree)
    assert all(URL in text for text in after.values())
    assert tool.known(tree) == tool.Addresses(URL, SITE)
    assert SITE in (tree / "README.md").read_text(encoding="utf-8")
    assert (
        "/github/ada/course/blob/main/notebooks/ch01" in after[str(tree / "README.md")]
    )
    assert tool.main(["--unset"], tree) == 0
    assert contents(tree) == before


def test_setting_twice_changes_nothing_more(tree: Path) -> None:
    tool.write(tree, tool.Addresses(URL))
    assert tool.write(tree, tool.Addresses(URL)) == []


@pytest.mark.parametrize("name", [*tool.PLACES, "notebooks/ch01_x.ipynb"])
def test_a_place_that_says_something_else_is_reported(tree: Path, name: str) -> None:
    tool.write(tree, tool.Addresses(URL))
    path = tree / name
    other = path.read_text(encoding="utf-8").replace("ada/course", "bob/course")
    path.write_text(other, encoding="utf-8")
    wrong = tool.disagreeing(tree)
    # pyproject.toml is the source: if it changes, all the others are wrong
    assert (name in wrong) is (name != "pyproject.toml")
    assert wrong
    assert tool.main(["--check"], tree) == 1


def test_unknown_addresses_show_no_button_and_no_placeholder(tree: Path) -> None:
    tool.write(tree, tool.Addresses())
    for name in ("README.md", "CITATION.cff"):
        text = (tree / name).read_text(encoding="utf-8")
        for word in (
            "colab.research",
            "OWNER",
            "example.com",
            "repository-code",
            "TODO",
        ):
            assert word not in text, name
    assert "git+" not in first_cell.text(tree)
    assert "pip" not in first_cell.text(tree)


def test_outside_github_there_is_no_colab_button(tree: Path) -> None:
    tool.write(tree, tool.Addresses("https://gitlab.com/ada/course"))
    readme = (tree / "README.md").read_text(encoding="utf-8")
    assert "https://gitlab.com/ada/course" in readme
    assert "colab.research" not in readme


@pytest.mark.parametrize(
    "text",
    [
        "github.com/ada/course",
        "http://github.com/ada/course",
        "git@github.com:ada/course.git",
        "https://github.com/ada",
        "https://github.com/ada/course?tab=readme",
        'https://github.com/ada/"x"',
        "https://localhost/ada/course",
        "",
    ],
)
def test_what_is_no_repository_is_refused_with_an_example(
    tree: Path, text: str
) -> None:
    before = contents(tree)
    with pytest.raises(tool.environment.Stop, match=r"https://github.com/OWNER/NAME"):
        tool.main([text], tree)
    assert contents(tree) == before


def test_missing_mark_or_file_is_told(tree: Path) -> None:
    readme = tree / "README.md"
    readme.write_text("# Course\n", encoding="utf-8")
    with pytest.raises(tool.environment.Stop, match=r"README.md needs the marks"):
        tool.main([URL], tree)
    readme.unlink()
    with pytest.raises(tool.environment.Stop, match=r"README.md is missing"):
        tool.main([URL], tree)
