"""MathJax and the fonts, taken from ``node_modules`` into the site.

MathJax's parts are joined into one file: the start-up code, the TeX reader, HTML output
with its fonts, and MathML for screen readers; without the menu and without anything that
asks another host. Rare TeX extensions stay files of their own that MathJax fetches from
the site when a page uses one.
"""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

PARTS = (  # the order matters: each needs the ones before it
    "startup.js",
    "core.js",
    "input/tex.js",
    "output/chtml.js",
    "output/chtml/fonts/tex.js",
    "a11y/assistive-mml.js",
)
LOADED = (
    "core",
    "input/tex",
    "output/chtml",
    "output/chtml/fonts/tex",
    "a11y/assistive-mml",
)
FOLDERS = ("input/tex/extensions", "output/chtml/fonts/woff-v2")
FONTS = (  # family, style, weight, file
    (
        "Source Serif 4",
        "normal",
        "400",
        "@fontsource/source-serif-4/files/source-serif-4-latin-400-normal.woff2",
    ),
    (
        "Source Serif 4",
        "italic",
        "400",
        "@fontsource/source-serif-4/files/source-serif-4-latin-400-italic.woff2",
    ),
    (
        "Source Serif 4",
        "normal",
        "600 700",
        "@fontsource/source-serif-4/files/source-serif-4-latin-600-normal.woff2",
    ),
    (
        "Source Sans 3",
        "normal",
        "200 900",
        "@fontsource-variable/source-sans-3/files/source-sans-3-latin-wght-normal.woff2",
    ),
)
MISSING = (
    "{path} is missing: MathJax and the fonts come by npm. Run `make book`, or "
    "`.venv/bin/npm ci` in the folder of the course, and build again."
)


def join_mathjax(es5: Path) -> str:
    """One script of all parts; it starts to typeset when the last part is there."""
    texts = []
    for part in PARTS:
        path = es5 / part
        if not path.is_file():
            raise ExtensionError(MISSING.format(path=path))
        texts.append(path.read_text(encoding="utf-8"))
    names = ", ".join(f"'{name}'" for name in LOADED)
    # start-up's own load list is empty, and it gets ready in a microtask: after this line
    texts.append(f"MathJax.loader.preLoad({names});")
    return ";\n".join(texts) + "\n"


def style_of_fonts(modules: Path) -> str:
    """A style sheet that holds the fonts themselves.

    So the text stands in its own letters from the first moment, from a host and from
    disk, and nothing moves when a font arrives.
    """
    rules = []
    for family, style, weight, name in FONTS:
        path = modules / name
        if not path.is_file():
            raise ExtensionError(MISSING.format(path=path))
        letters = base64.b64encode(path.read_bytes()).decode("ascii")
        rules.append(
            f'@font-face{{font-family:"{family}";font-style:{style};font-weight:{weight};'
            f'src:url(data:font/woff2;base64,{letters}) format("woff2")}}'
        )
    return "\n".join(rules) + "\n"


def write(app: Sphinx) -> None:
    """Write MathJax and the fonts below ``_static``."""
    if app.builder.format != "html":
        return
    modules = Path(app.srcdir) / "node_modules"
    static = Path(app.outdir) / "_static"
    es5 = modules / "mathjax" / "es5"
    script = join_mathjax(es5)
    (static / "mathjax").mkdir(parents=True, exist_ok=True)
    (static / "mathjax" / "mathjax.js").write_text(script, encoding="utf-8")
    shutil.copyfile(modules / "mathjax" / "LICENSE", static / "mathjax" / "LICENSE")
    for folder in FOLDERS:
        shutil.copytree(es5 / folder, static / "mathjax" / folder, dirs_exist_ok=True)
    (static / "fonts").mkdir(exist_ok=True)
    fonts = style_of_fonts(modules)
    (static / "fonts" / "fonts.css").write_text(fonts, encoding="utf-8")
    for package in sorted({(modules / name).parents[1] for *_, name in FONTS}):
        target = static / "fonts" / f"LICENSE-{package.name}"
        shutil.copyfile(package / "LICENSE", target)


def setup(app: Sphinx) -> None:
    """Connect this part of the extension."""
    app.connect("builder-inited", write)
