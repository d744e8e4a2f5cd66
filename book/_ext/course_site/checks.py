"""What must not be published: a stored traceback, a dead link between pages.

Sphinx reports broken references itself (``-n -W``), but knows nothing of raw HTML links,
of the theme's own links, or of what a notebook's outputs say. These checks run when all
is written, name page and link, and fail the build with or without ``-W``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


class BookFaultError(SphinxError):
    """The book was written, but must not be published as it is."""

    category = "The book has faults"


def stored_tracebacks(notebook: dict[str, Any]) -> list[str]:
    """Errors in a notebook's stored outputs, except where a tag expects them."""
    found = []
    for number, cell in enumerate(notebook.get("cells", [])):
        if "raises-exception" in cell.get("metadata", {}).get("tags", []):
            continue
        for output in cell.get("outputs", []):
            if output.get("output_type") == "error":
                found.append(
                    f"cell {number} holds a traceback: "
                    f"{output.get('ename')}: {output.get('evalue')}"
                )
    return found


class _Page(HTMLParser):
    """Collects what a page links to and the anchors that it offers."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for key in ("id", "name"):
            if given.get(key):
                self.anchors.add(str(given[key]))
        for key in ("href", "src"):
            if given.get(key) is not None:
                self.links.append(str(given[key]))


def read_page(text: str) -> _Page:
    """Parse one HTML page."""
    page = _Page()
    page.feed(text)
    page.close()
    return page


def dead_links(root: Path, names: Iterable[str]) -> list[str]:
    """Links of the named pages that lead nowhere within the site.

    Parameters
    ----------
    root
        Folder of the built site.
    names
        Pages of this build, such as ``"book/intro.html"``. A page that lies in the
        folder from an earlier build does not count as a target.
    """
    pages = {
        name: read_page((root / name).read_text(encoding="utf-8"))
        for name in sorted(set(names))
        if (root / name).is_file()
    }
    dead = []
    for name, page in pages.items():
        for link in dict.fromkeys(page.links):
            address, fragment = urldefrag(link)
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = PurePosixPath(name)
            if parts.path:
                joined = PurePosixPath(name).parent / unquote(parts.path)
                target = PurePosixPath(_normal(joined))
            stale = str(target).endswith(".html") and str(target) not in pages
            if stale or not (root / target).is_file():
                dead.append(f"{name}: dead link {link}")
            elif fragment and str(target) in pages:
                anchors = pages[str(target)].anchors
                if fragment not in anchors and unquote(fragment) not in anchors:
                    dead.append(f"{name}: dead anchor {link}")
    return dead


def _normal(path: PurePosixPath) -> str:
    """Resolve ``..`` without asking the file system; outside the site is kept as such."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def pages_of(app: Sphinx) -> list[str]:
    """Files that this build counts as its pages."""
    extra = [*app.config.html_additional_pages, "search", "genindex"]
    return [f"{name}.html" for name in [*app.env.found_docs, *extra]]


def check(app: Sphinx, exception: Exception | None) -> None:
    """Fail the build when a notebook holds a traceback or a page a dead link."""
    if exception is not None or app.builder.format != "html":
        return
    faults = []
    for name in sorted(app.env.found_docs):
        source = Path(app.env.doc2path(name))
        if source.suffix == ".ipynb":
            notebook = json.loads(source.read_text(encoding="utf-8"))
            faults += [f"{name}.ipynb: {text}" for text in stored_tracebacks(notebook)]
    faults += dead_links(Path(app.outdir), pages_of(app))
    for fault in faults:
        LOGGER.error(fault)
    if faults:
        raise BookFaultError(f"{len(faults)} in all, each named above")


def setup(app: Sphinx) -> None:
    """Connect this part of the extension."""
    app.connect("build-finished", check, priority=900)
