"""Mends what the theme and Jupyter Book's extensions get wrong, page by page.

Each cure names its fault. ``book/_templates`` and ``book/_static/course.css`` hold the
cures that are templates and styles.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path, PurePosixPath
from typing import Any

from sphinx.application import Sphinx

# Files of extensions that Jupyter Book always loads, and the text that a page must hold
# to need them. An empty tuple: no page of ours does. (sphinx-thebe also declares its
# constants twice, which is an error on every page.)
NEEDED_BY: dict[str, tuple[str, ...]] = {
    "sphinx-thebe": (),
    "THEBE_JS_URL": (),
    "design-tabs.js": ("sd-tab",),
    "sphinx-design": ("sd-",),
    "togglebutton": ("toggle", "dropdown"),
    "toggleHint": ("toggle", "dropdown"),
    "toggleOpenOnPrint": ("toggle", "dropdown"),
    "clipboard": ('class="highlight',),
    "copybutton": ('class="highlight',),
    "mystnb": ("cell_input", "cell_output"),
}
CLASSES = re.compile(r'class="([^"]*)"')
FIGURE = re.compile(r'<img (?=[^>]*\bsrc="(?P<src>[^"]*_images/[^"]+)")')
SOLUTION = re.compile(
    r"<p[^>]*>Show the content</p>\s*<p[^>]*>Hide the content</p>\s*</summary>\s*"
    r"<div[^>]*>\s*<div[^>]*>\s*<div[^>]*><pre><span></span>"
    r'<span class="c1"># Solution of ([\w ]+)'
)
NUMBERED = re.compile(r"<h1>(\d+)\. ")
MATHS = r'<span class="math notranslate nohighlight">[^<]*</span>'
ATTACHED = re.compile(rf"[^\s<>]*(?:{MATHS}[^\s<>]*)+")
FIGURE_DPI = 150
"""Resolution of the notebooks' figures (``use_style`` sets ``figure.dpi``)."""


def needed(asset: Any, body: str) -> bool:
    """Whether a page with this body needs a script or style sheet."""
    name = f"{asset.filename or ''} {asset.attributes.get('body', '')}"
    for mark, wanted in NEEDED_BY.items():
        if mark not in name:
            continue
        classes = " ".join(CLASSES.findall(body))
        return any(
            text in body if text.startswith("class=") else text in classes
            for text in wanted
        )
    return True


def png_size(path: Path) -> tuple[int, int] | None:
    """Width and height in pixels, from the head of a PNG file."""
    with path.open("rb") as stream:
        head = stream.read(24)
    if len(head) < 24 or head[:8] != b"\x89PNG\r\n\x1a\n":
        return None
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def name_toggles(body: str) -> str:
    """Fault: a toggle's accessible name was not the text that one sees on it."""
    return body.replace('<summary aria-label="Toggle hidden content">', "<summary>")


def name_solutions(body: str) -> str:
    """A folded solution says which one it is; its cell begins ``# Solution of ...``."""
    return SOLUTION.sub(
        lambda match: (
            match[0]
            .replace("Show the content", f"Show a solution of {match[1]}")
            .replace("Hide the content", f"Hide the solution of {match[1]}")
        ),
        body,
    )


def mend_bibliography(body: str) -> str:
    """Fault: a list of entries with a role that no longer exists, so an empty list."""
    return body.replace(' role="doc-biblioentry"', ' role="listitem"')


def keep_together(body: str) -> str:
    """Fault: a line could end between a formula and the comma behind it.

    A browser may break a line on either side of a formula, as if it were a picture. What
    is written without a space stays together: brackets, commas, full stops, endings.
    """

    def kept(match: re.Match[str]) -> str:
        alone = re.fullmatch(MATHS, match[0])
        return match[0] if alone else f'<span class="tl-kept">{match[0]}</span>'

    return ATTACHED.sub(kept, body)


def set_off_number(body: str) -> str:
    """A chapter's number stands above its title: ``1. Title`` becomes "Chapter 1"."""
    return NUMBERED.sub(
        r'<h1><span class="tl-chapter">Chapter \1</span> ', body, count=1
    )


def size_figures(body: str, images: dict[str, Path]) -> str:
    """Fault: figures had no size, so the page jumped while they loaded.

    A figure's pixels are turned into the size that it was drawn for; figures load when
    they come near the screen.
    """

    def with_size(match: re.Match[str]) -> str:
        path = images.get(PurePosixPath(match["src"]).name)
        size = png_size(path) if path is not None and path.is_file() else None
        if size is None:
            return match[0]
        width, height = (round(side * 96 / FIGURE_DPI) for side in size)
        return f'<img loading="lazy" width="{width}" height="{height}" '

    return FIGURE.sub(with_size, body)


def mend(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Apply all cures to one page before it is written."""
    body = context.get("body", "")
    if "body" in context:
        images = {
            name: Path(app.srcdir) / source
            for source, name in app.builder.images.items()
        }
        cures = (
            name_toggles,
            name_solutions,
            mend_bibliography,
            keep_together,
            set_off_number,
        )
        for cure in cures:
            body = cure(body)
        context["body"] = size_figures(body, images)
    for kind in ("script_files", "css_files"):
        context[kind] = [
            asset
            for asset in context[kind]
            if not hasattr(asset, "attributes") or needed(asset, body)
        ]


def setup(app: Sphinx) -> None:
    """Connect this part of the extension."""
    app.connect("html-page-context", mend, priority=900)
