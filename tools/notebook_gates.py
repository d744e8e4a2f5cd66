"""What a stored notebook must be: ``python tools/notebook_gates.py [ch03 ...]``.

Each gate takes a notebook and returns its complaints, one sentence each, that name the
cell and the rule. ``GATES`` holds them all. Tests run every gate over every notebook, and
plant a fault for each gate that it must report.
"""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter()

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import first_cell
import nbformat

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 1_500_000
MOST_LINES = 20
MOST_COLUMNS = 88
LEAST_COMPARED = 0.8
LEAST_ALT = 40  # characters; less cannot stand in a figure's place
NOT_COMPARED = "nbval-ignore-output"
TAGS = frozenset(
    {
        NOT_COMPARED,
        "raises-exception",
        "hide-input",
        "hide-output",
        "hide-cell",
        "remove-input",
        "remove-output",
        "remove-cell",
        "scroll-output",
    }
)
CELL_METADATA = frozenset({"tags", "mystnb", "ignore_reason", "jupyter"})
METADATA = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}
MYST_ONLY = (
    (re.compile(r"^\s*(`{3,}|~{3,})\{"), "a directive"),
    (re.compile(r"^\s*:{3,}"), "a colon fence"),
    (re.compile(r"(?<![\w`\\])\{[A-Za-z][\w:+.-]*\}`[^`\n]+`"), "a role"),
    (re.compile(r"^\s*\([\w.:-]+\)=\s*$"), "a label"),
    (re.compile(r"^%"), "a comment"),
    (re.compile(r"^\+\+\+"), "a block break"),
    (re.compile(r"\$\$\s*\([\w.:-]+\)\s*$"), "an equation label"),
    (re.compile(r"\[\^[^\]]+\]"), "a footnote"),
)
PROGRESS = re.compile(
    r"\btqdm\b|\bclear_output\b|\bupdate_display\b|display_id\s*=|\bFloatProgress\b|"
    r"\bIntProgress\b|\brich\.progress\b"
)
PRIVATE = (
    (re.compile(r"(?<!\w)0x[0-9a-f]{6,}(?!\w)"), "a memory address"),
    (
        re.compile(
            r"(?<![\w./~-])(/home/|/root/|/Users/|/tmp/|/work/|/content/)\w|\b[A-Z]:\\\w"
        ),
        "a path of one machine",
    ),
    (re.compile(r"\x1b\[\d+A|\r(?!\n)"), "a line that was overwritten"),
)


@dataclass(frozen=True)
class Subject:
    """One notebook, where it lies, and the tree that its links point into."""

    path: Path
    notebook: Any
    root: Path = ROOT

    def cells(self, kind: str) -> Iterator[tuple[str, Any]]:
        """The cells of one kind, each with the name that complaints use."""
        for number, cell in enumerate(self.notebook.cells):
            if cell.cell_type == kind:
                first = cell.source.strip().splitlines()
                start = f' "{first[0][:40]}"' if first else ""
                yield f"cell {number}{start}", cell


def load(path: Path, root: Path = ROOT) -> Subject:
    """Read a notebook; what cannot be read ends in a sentence."""
    try:
        return Subject(path, nbformat.read(path, as_version=4), root)
    except OSError as trouble:
        raise environment.Stop(
            f"{path} cannot be read ({trouble.strerror}): restore it with git checkout."
        ) from trouble
    except Exception as trouble:  # nbformat raises many kinds for a broken file
        raise environment.Stop(
            f"{path.name} is not a readable notebook ({type(trouble).__name__}): restore "
            "it with git checkout, or mend its JSON."
        ) from trouble


def tags(cell: Any) -> list[str]:
    """The cell's tags."""
    return list(cell.metadata.get("tags", []))


def images(cell: Any) -> int:
    """How many pictures the cell shows."""
    return sum(
        any(mime.startswith("image/") for mime in output.get("data", {}))
        for output in cell.outputs
    )


def prose(source: str) -> Iterator[tuple[str, str]]:
    """Lines of a Markdown cell; inside code fences only the fence itself."""
    fence = ""
    for line in source.splitlines():
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence:
            if mark and mark.group(1).startswith(fence) and not line.strip("`~ \t"):
                fence = ""
            continue
        if mark:
            fence = mark.group(1)
        yield line, re.sub(r"(?<!\})(`+)(?!`).+?(?<!`)\1(?!`)", "", line)


# ------------------------------------------------------------------------------- gates


def executed_in_order(subject: Subject) -> Iterator[str]:
    """Every code cell was run, once, from top to bottom."""
    expected = 1
    for name, cell in subject.cells("code"):
        if not cell.source.strip():
            yield f"{name}: the code cell is empty"
        elif cell.execution_count is None:
            yield f"{name}: was not executed"
        elif cell.execution_count != expected:
            yield f"{name}: has count {cell.execution_count} where {expected} is next"
        expected += 1


def no_traceback(subject: Subject) -> Iterator[str]:
    """An error is stored only where the tag says that it is meant."""
    for name, cell in subject.cells("code"):
        errors = [o for o in cell.outputs if o.output_type == "error"]
        if errors and "raises-exception" not in tags(cell):
            yield f"{name}: holds a traceback ({errors[0].ename}: {errors[0].evalue})"
        if not errors and "raises-exception" in tags(cell):
            yield f"{name}: is tagged raises-exception and raises nothing"


def compared(subject: Subject) -> Iterator[str]:
    """At least four cells in five are compared; each exception says why."""
    cells = list(subject.cells("code"))
    loose = [(n, c) for n, c in cells if NOT_COMPARED in tags(c)]
    for name, cell in loose:
        if not str(cell.metadata.get("ignore_reason", "")).strip():
            yield f"{name}: is tagged {NOT_COMPARED} and gives no ignore_reason"
    for name, cell in cells:
        if "ignore_reason" in cell.metadata and NOT_COMPARED not in tags(cell):
            yield f"{name}: gives an ignore_reason and is not tagged {NOT_COMPARED}"
        comments = re.findall(
            r"^\s*#\s*(?:NBVAL_|nbval-)\w+", cell.source, re.MULTILINE
        )
        if comments:
            yield f"{name}: tells nbval by a comment ({comments[0].strip()}), not a tag"
    if cells and len(cells) - len(loose) < LEAST_COMPARED * len(cells):
        share = 1 - len(loose) / len(cells)
        yield f"{share:.0%} of the code cells are compared, {LEAST_COMPARED:.0%} needed"


def same_first_cell(subject: Subject) -> Iterator[str]:
    """The first code cell is that of tools/first_cell.py."""
    first = next((c for _, c in subject.cells("code")), None)
    if first is None:
        yield "there is no code cell"
    elif first.source != first_cell.text(subject.root):
        yield "the first code cell differs: `python tools/first_cell.py` rewrites it"


def figures_described(subject: Subject) -> Iterator[str]:
    """Each figure has a caption, and alt text that could stand in its place."""
    for name, cell in subject.cells("code"):
        count = images(cell)
        if not count:
            continue
        if count > 1:
            yield f"{name}: shows {count} pictures; one alt text can describe only one"
        settings = cell.metadata.get("mystnb", {})
        alt = str(settings.get("image", {}).get("alt", "")).strip()
        caption = str(settings.get("figure", {}).get("caption", "")).strip()
        if len(alt) < LEAST_ALT:
            yield f"{name}: alt text has {len(alt)} characters, {LEAST_ALT} needed"
        if not caption:
            yield f"{name}: the figure has no caption (metadata mystnb.figure.caption)"
        elif alt == caption:
            yield f"{name}: alt text repeats the caption"
    for name, cell in subject.cells("markdown"):
        for _, text in prose(cell.source):
            if re.search(r"!\[\s*\]\(", text) or re.search(
                r"<img(?![^>]*\balt=\"[^\"]+\")", text
            ):
                yield f"{name}: a picture without alt text"


def portable_markdown(subject: Subject) -> Iterator[str]:
    """No syntax that only MyST knows: Colab and GitHub would show it raw."""
    for name, cell in subject.cells("markdown"):
        for line, text in prose(cell.source):
            for pattern, what in MYST_ONLY:
                if pattern.search(text):
                    yield f"{name}: {what} of MyST: {line.strip()[:60]}"


def quiet_code(subject: Subject) -> Iterator[str]:
    """No trailing semicolon, no progress bar, no display that is updated."""
    for name, cell in subject.cells("code"):
        lines = cell.source.rstrip().splitlines()
        if lines and re.sub(r"\s*#[^'\"]*$", "", lines[-1]).rstrip().endswith(";"):
            yield f"{name}: ends in a semicolon, which nbval does not know"
        found = PROGRESS.search(cell.source)
        if found:
            yield f"{name}: {found.group()} cannot be compared by nbval"


def short_cells(subject: Subject) -> Iterator[str]:
    """A cell fits on a screen."""
    for name, cell in subject.cells("code"):
        lines = cell.source.splitlines()
        if len(lines) > MOST_LINES:
            yield f"{name}: {len(lines)} lines, at most {MOST_LINES}"
        for number, line in enumerate(lines, 1):
            if len(line) > MOST_COLUMNS and "git+https" not in line:
                yield f"{name}: line {number} has {len(line)} columns"


def small_file(subject: Subject) -> Iterator[str]:
    """The file stays small enough to load, to show and to review."""
    size = subject.path.stat().st_size
    if size >= MOST_BYTES:
        yield f"the file has {size:,} bytes, fewer than {MOST_BYTES:,} wanted"


def no_widget_state(subject: Subject) -> Iterator[str]:
    """Stored widgets are their text/html part: no model that only a kernel could fill."""
    if "widgets" in subject.notebook.metadata:
        yield "metadata.widgets is stored: `make notebooks` removes it"
    for name, cell in subject.cells("code"):
        for output in cell.outputs:
            if any("widget-view" in mime for mime in output.get("data", {})):
                yield f"{name}: stores a widget-view: `make notebooks` removes it"


def minimal_metadata(subject: Subject) -> Iterator[str]:
    """Only metadata that means something, so that re-execution changes no byte."""
    notebook = subject.notebook
    if notebook.metadata != METADATA:
        extra = sorted(set(notebook.metadata) - set(METADATA))
        yield f"notebook metadata is not minimal (extra: {extra or 'values differ'})"
    if (notebook.nbformat, notebook.nbformat_minor) != (4, 5):
        yield f"format is {notebook.nbformat}.{notebook.nbformat_minor}, not 4.5"
    for number, cell in enumerate(notebook.cells):
        extra = sorted(set(cell.metadata) - CELL_METADATA)
        if extra:
            yield f"cell {number}: metadata {', '.join(extra)} is not used by anything"
        unknown = sorted(set(tags(cell)) - TAGS)
        if unknown:
            yield f"cell {number}: tag {', '.join(unknown)} is unknown"
        if cell.get("id") != f"cell-{number:03d}":
            yield f"cell {number}: id is {cell.get('id')}, not cell-{number:03d}"
        for output in cell.get("outputs", []):
            if output.get("metadata"):
                yield f"cell {number}: an output has metadata"


def no_private_text(subject: Subject) -> Iterator[str]:
    """Stored text holds nothing that is another on the next machine or run."""
    for name, cell in subject.cells("code"):
        for output in cell.outputs:
            parts = [output.get("text", ""), output.get("evalue", "")]
            parts += [
                value
                for mime, value in output.get("data", {}).items()
                if mime.startswith("text/")
            ]
            for pattern, what in PRIVATE:
                if any(pattern.search(part) for part in parts):
                    yield f"{name}: its output shows {what}"


def one_title(subject: Subject) -> Iterator[str]:
    """One heading of the first level, "# N. Title", at the very beginning."""
    titles = []
    anchors: set[str] = set()
    for level, text in headings(subject):
        if level == 1:
            titles.append(text)
        anchor = slug(text)
        if anchor in anchors:
            yield f'the heading "{text}" occurs twice, so its link is ambiguous'
        anchors.add(anchor)
    if len(titles) != 1:
        yield f"{len(titles)} headings of the first level, one wanted"
    cells = subject.notebook.cells
    if not cells or not re.match(r"# \d+\. \S", cells[0].source):
        yield 'the first cell does not begin with "# N. Title"'


# ------------------------------------------------------------------------------- links


def slug(heading: str) -> str:
    """The anchor that GitHub, Jupyter Book and Colab's export give a heading."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[`*$\\]", "", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def markdown_headings(source: str) -> Iterator[tuple[int, str]]:
    """Level and text of the headings in Markdown."""
    for line, _ in prose(source):
        found = re.match(r"(#{1,6})\s+(.+?)\s*#*\s*$", line)
        if found:
            yield len(found.group(1)), found.group(2)


def headings(subject: Subject) -> Iterator[tuple[int, str]]:
    """Level and text of the notebook's headings."""
    for _, cell in subject.cells("markdown"):
        yield from markdown_headings(cell.source)


def anchors_of(path: Path, root: Path) -> set[str]:
    """Anchors of a notebook or Markdown page: its headings and its own labels."""
    if path.suffix == ".ipynb":
        subject = load(path, root)
        sources = [cell.source for _, cell in subject.cells("markdown")]
    else:
        sources = [path.read_text(encoding="utf-8")]
    found: set[str] = set()
    for source in sources:
        found |= {slug(text) for _, text in markdown_headings(source)}
        found |= set(re.findall(r"^\(([\w.:-]+)\)=\s*$", source, re.MULTILINE))
        found |= set(re.findall(r"\bid=\"([^\"]+)\"", source))
        found |= set(re.findall(r"\{#([\w.:-]+)", source))
    return found


def relative_links(source: str) -> Iterator[str]:
    """Targets in Markdown that have no scheme."""
    text = "\n".join(stripped for _, stripped in prose(source))
    found = re.findall(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)", text)
    found += re.findall(r"^\[[^\]^]+\]:\s*(\S+)", text, re.MULTILINE)
    found += re.findall(r"(?:href|src)=\"([^\"]+)\"", text)
    for target in found:
        parts = urlsplit(target)
        if not parts.scheme and not parts.netloc:
            yield unquote(target)


def links_resolve(subject: Subject) -> Iterator[str]:
    """A relative link leads to a file of the course, and to a heading that it has."""
    for name, cell in subject.cells("markdown"):
        for target in relative_links(cell.source):
            file, _, anchor = target.partition("#")
            path = (subject.path.parent / file).resolve() if file else subject.path
            if file.startswith("/"):
                yield f"{name}: {target} is absolute; links are relative to the notebook"
            elif path.suffix == ".html":
                yield f"{name}: {target} names a built page; link its .md or .ipynb"
            elif not path.exists():
                yield f"{name}: {target} leads nowhere"
            elif anchor and path.suffix in (".md", ".ipynb"):
                known = (
                    {slug(text) for _, text in headings(subject)}
                    if path == subject.path
                    else anchors_of(path, subject.root)
                )
                if anchor not in known:
                    yield f"{name}: {target} names a heading that is not there"


GATES: dict[str, Callable[[Subject], Iterator[str]]] = {
    gate.__name__: gate
    for gate in (
        executed_in_order,
        no_traceback,
        compared,
        same_first_cell,
        figures_described,
        portable_markdown,
        quiet_code,
        short_cells,
        small_file,
        no_widget_state,
        minimal_metadata,
        no_private_text,
        one_title,
        links_resolve,
    )
}


def every_notebook(root: Path = ROOT) -> list[Path]:
    """The notebooks of the course in reading order."""
    return sorted((root / "notebooks").glob("*.ipynb"))


def choose(names: list[str], root: Path = ROOT) -> list[Path]:
    """The notebooks whose name begins with one of ``names``; all without names."""
    every = every_notebook(root)
    stems = tuple(Path(name).name.removesuffix(".ipynb") for name in names)
    lost = [n for n in stems if not any(p.stem.startswith(n) for p in every)]
    if lost or not every:
        have = ", ".join(p.stem for p in every) or "none"
        raise environment.Stop(
            f"No notebook begins with {', '.join(lost) or 'any name'}; there are: {have}."
        )
    return [p for p in every if not stems or p.stem.startswith(stems)]


def main(arguments: list[str] | None = None) -> int:
    names = sys.argv[1:] if arguments is None else arguments
    count = 0
    for path in choose(names):
        subject = load(path)
        for gate in GATES.values():
            for complaint in gate(subject):
                count += 1
                print(f"{path.name}: {complaint}  [{gate.__name__}]")
    print(f"{count} complaints" if count else "no complaint")
    return 1 if count else 0


if __name__ == "__main__":
    environment.finish(main)
