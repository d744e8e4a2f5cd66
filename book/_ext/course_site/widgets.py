"""Widgets on pages without a kernel: each one a classic script, only where it is used.

The contract, kept by ``book/_static/widget-host.js`` and ``transformer_lib/widgets``:

* A page holds ``<div class="tl-widget" data-widget="NAME" data-state="JSON">``.
* ``_static/widgets/NAME.js`` is ``shared.js`` and ``NAME.js`` in one function, the latter's
  ``export default {...};`` turned into ``return {...};``. It leaves the object in
  ``window.courseWidgets.NAME``. Classic scripts, since ES modules do not load from disk.
* ``_static/widgets/shared.css`` and ``_static/widget-host.js`` come with the first widget
  of a page. The scripts stand in the page's head with ``defer``, the host after the
  widgets, so that it finds them all and the parsed page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

FOLDER = Path("transformer_lib") / "widgets"
HOST = "widget-host.js"
EXPORT = re.compile(r"^export default (\{.*?\});[ \t]*$", re.MULTILINE | re.DOTALL)
MODULE_WORD = re.compile(r"^[ \t]*(?:import|export)\b.*$", re.MULTILINE)
USED = re.compile(r"""data-widget=["']([^"']+)["']""")


def classic_script(name: str, shared: str, module: str) -> str:
    """Turn a widget's two sources into one script that a page can load from disk.

    Raises
    ------
    ValueError
        Not exactly one ``export default {...};``, or another import or export.
    """
    found = EXPORT.findall(module)
    if len(found) != 1:
        raise ValueError(
            f"widget {name}: found {len(found)} lines `export default {{...}};`, "
            "wanted exactly one at the beginning of a line"
        )
    body = EXPORT.sub(lambda match: f"return {match[1]};", module)
    for source, text in (("shared.js", shared), (f"{name}.js", body)):
        other = MODULE_WORD.search(text)
        if other:
            raise ValueError(
                f"widget {name}: {source} holds `{other[0].strip()}`; a page opened "
                "from disk loads no modules, so a widget imports and exports nothing else"
            )
    return (
        "(window.courseWidgets = window.courseWidgets || {})"
        f"[{json.dumps(name)}] = (() => {{\n"
        f'"use strict";\n{shared.strip()}\n{body.strip()}\n}})();\n'
    )


def used_in(html: str) -> list[str]:
    """Names of the widgets of a page, each once, in the page's order."""
    return list(dict.fromkeys(USED.findall(html)))


def write_scripts(app: Sphinx) -> None:
    """Write every widget's script, and the shared style, below ``_static/widgets``."""
    if app.builder.format != "html":
        return
    source = Path(app.srcdir) / FOLDER
    target = Path(app.outdir) / "_static" / "widgets"
    target.mkdir(parents=True, exist_ok=True)
    shared = source / "shared.js"
    if not shared.is_file():
        return
    for module in sorted(source.glob("*.js")):
        if module == shared:
            continue
        try:
            script = classic_script(
                module.stem,
                shared.read_text(encoding="utf-8"),
                module.read_text(encoding="utf-8"),
            )
        except ValueError as error:
            raise ExtensionError(str(error)) from error
        (target / module.name).write_text(script, encoding="utf-8")
    style = source / "shared.css"
    (target / "shared.css").write_text(
        style.read_text(encoding="utf-8"), encoding="utf-8"
    )


def add_to_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give a page its widgets' scripts, the host and the style."""
    names = used_in(context.get("body", ""))
    if not names:
        return
    for name in names:
        if not (Path(app.outdir) / "_static" / "widgets" / f"{name}.js").is_file():
            raise ExtensionError(
                f"{page}: there is no widget {name!r}; {FOLDER}/{name}.js is missing"
            )
    app.add_css_file("widgets/shared.css", priority=600)
    for name in names:
        app.add_js_file(f"widgets/{name}.js", priority=600, defer="defer")
    app.add_js_file(HOST, priority=601, defer="defer")


def setup(app: Sphinx) -> None:
    """Connect this part of the extension."""
    app.connect("builder-inited", write_scripts)
    app.connect("html-page-context", add_to_page)
