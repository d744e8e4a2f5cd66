"""Pages of the library: what each package offers, from its docstrings.

A page such as ``book/api/nn.md`` holds the line ``<!-- api: transformer_lib.nn -->``. When
it is read, the line becomes one section for each topic, with the topic's docstring and an
autodoc entry for each public name. A name that the package re-exports is shown with its
short address, as one imports it; the rest of a topic's ``__all__`` with its own.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

MARK = re.compile(r"^<!-- api: ([\w.]+) -->$", re.MULTILINE)

LONGEST_VALUE = 60
"""A constant whose value is written with more characters is shown without it."""


def topics_of(package: ModuleType) -> list[ModuleType]:
    """Modules of a package in the order of their names; private ones and scripts not."""
    return [
        importlib.import_module(f"{package.__name__}.{found.name}")
        for found in pkgutil.iter_modules(package.__path__)
        if not found.name.startswith("_")
    ]


def public_names(module: ModuleType) -> list[str]:
    """What ``__all__`` says; without it, what the module defines without underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
    ]


def entry(address: str, value: Any) -> str:
    """Autodoc's directive for one name."""
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
    elif callable(value):
        kind = "autofunction"
    else:
        quiet = "   :no-value:\n" if len(repr(value)) > LONGEST_VALUE else ""
        return f".. autodata:: {address}\n{quiet}"
    return f".. {kind}:: {address}\n"


def addresses(
    package: ModuleType, topics: list[ModuleType]
) -> dict[str, list[tuple[str, Any]]]:
    """For each topic its public names, each under the shortest address that works.

    The package's own names that no topic defines stand under ``""``.
    """
    exported = {
        name: getattr(package, name) for name in getattr(package, "__all__", [])
    }
    found: dict[str, list[tuple[str, Any]]] = {}
    told = set()
    for topic in topics:
        entries = []
        for name in public_names(topic):
            value = getattr(topic, name)
            home = getattr(value, "__module__", topic.__name__)
            if str(home).startswith("transformer_lib.") and home != topic.__name__:
                continue  # told where it is defined
            # What a constant is stands where it is defined, and only there.
            short = exported.get(name) is value and hasattr(value, "__module__")
            prefix = package.__name__ if short else topic.__name__
            entries.append((f"{prefix}.{name}", value))
            told.add(name)
        if entries:
            found[topic.__name__] = entries
    own = [
        (f"{package.__name__}.{name}", value)
        for name, value in exported.items()
        if name not in told and not inspect.ismodule(value)
    ]
    return {"": own, **found} if own else found


def page(package_name: str) -> str:
    """Markdown of one package's page, in place of the mark."""
    package = importlib.import_module(package_name)
    topics = topics_of(package)
    texts = []
    for topic, entries in addresses(package, topics).items():
        directives = "\n".join(entry(address, value) for address, value in entries)
        if topic:
            module = importlib.import_module(topic)
            texts.append(f"## {topic.rsplit('.', 1)[1]}\n")
            summary = inspect.getdoc(module) or ""
            texts.append(f"```{{eval-rst}}\n{summary}\n\n{directives}```\n")
        else:
            texts.append(f"```{{eval-rst}}\n{directives}```\n")
    return "\n".join(texts)


def fill_in(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the marks of a page that is being read."""
    for name in MARK.findall(source[0]):
        try:
            text = page(name)
        except ImportError as error:
            raise ExtensionError(
                f"{docname}: {name} cannot be imported: {error}"
            ) from error
        source[0] = source[0].replace(f"<!-- api: {name} -->", text)


def find(address: str) -> tuple[str, str, Any] | None:
    """Module, the rest of the address, and what stands there; None if nothing does."""
    parts = address.split(".")
    for end in range(len(parts), 1, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        try:
            for name in parts[end:]:
                value = getattr(value, name)
        except AttributeError:
            return None
        return ".".join(parts[:end]), ".".join(parts[end:]), value
    return None


def link_to_topic(
    app: Sphinx,
    env: BuildEnvironment,
    node: pending_xref,
    text: nodes.TextElement,
    module: str,
) -> nodes.Node:
    """Link a module's name to its section (a function of that name may exist too)."""
    _, package, *topic = module.split(".")
    page = f"book/api/{package}"
    if page not in env.found_docs:
        return text
    address = app.builder.get_relative_uri(node["refdoc"], page)
    if topic:
        address += f"#{nodes.make_id(topic[0])}"
    return nodes.reference("", "", text, internal=True, refuri=address)


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement
) -> nodes.Node | None:
    """Link a name that a docstring gives with its long address to its short one.

    What exists but has no entry (a private base, an alias of a type) stays plain text;
    what does not exist stays a broken reference.
    """
    address = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not address.startswith("transformer_lib."):
        return None
    found = find(address)
    if found is None:
        return None
    module, rest, value = found
    if inspect.ismodule(value):
        return link_to_topic(app, env, node, text, module)
    package = ".".join(module.split(".")[:2])
    short = f"{package}.{rest}" if rest else ""
    if short and short != address:
        told = find(short)
        if told is not None and told[2] is value:
            python = env.get_domain("py")
            kind, here = node["reftype"], node["refdoc"]
            link = python.resolve_xref(env, here, app.builder, kind, short, node, text)
            if link is not None:
                return link
    return text


def leave_out_private(
    app: Sphinx, name: str, value: Any, options: Any, bases: list[Any]
) -> None:
    """Of a class's bases show the public ones."""
    bases[:] = [
        base for base in bases if not getattr(base, "__name__", "").startswith("_")
    ] or [object]


def fingerprint(root: Path, text: str) -> str:
    """Changes when a module of a page's packages changes, comes or goes."""
    digest = hashlib.sha256()
    for name in MARK.findall(text):
        for path in sorted((root / Path(*name.split("."))).glob("*.py")):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def outdated(
    app: Sphinx, env: BuildEnvironment, added: set, changed: set, removed: set
) -> list[str]:
    """Pages whose packages changed since they were read."""
    root = Path(app.srcdir)
    before: dict[str, str] = getattr(env, "course_api", {})
    now = {}
    for name in env.found_docs:
        path = Path(env.doc2path(name))
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            if MARK.search(text):
                now[name] = fingerprint(root, text)
    env.course_api = now  # type: ignore[attr-defined]
    return [name for name, value in now.items() if before.get(name) != value]


def setup(app: Sphinx) -> None:
    """Connect this part of the extension."""
    app.connect("source-read", fill_in)
    app.connect("env-get-outdated", outdated)
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-bases", leave_out_private)
