"""Set the repository's address everywhere: ``python tools/set_repository.py URL``.

``--site URL`` sets the address of the published site too, ``--unset`` takes both back,
``--check`` lists the places and what they say. The addresses stand in ``pyproject.toml``
under ``[tool.course]``; the book's pages (Colab buttons, edit links, "report a mistake",
OpenGraph, sitemap) read them there when they are built. This script writes the rest:
README.md, CITATION.cff and the first cell of each notebook. While an address is not
known, nothing that needs it is shown.
"""

from __future__ import annotations

import environment

if __name__ == "__main__":
    environment.enter()

import argparse
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import first_cell
import nbformat

ROOT = environment.ROOT
COLAB = "https://colab.research.google.com"
BEGIN, END = "<!-- addresses: begin -->", "<!-- addresses: end -->"


@dataclass(frozen=True)
class Addresses:
    """Where the course lives; empty while it is not known."""

    repository: str = ""
    site: str = ""

    @property
    def colab(self) -> str:
        """Where Colab opens the repository's notebooks; it knows GitHub only."""
        parts = urlsplit(self.repository)
        if parts.netloc != "github.com":
            return ""
        return f"{COLAB}/github{parts.path}/blob/main/notebooks"


def repository_address(text: str) -> str:
    """The address in its one form, or a sentence about what is wrong with it."""
    address = text.strip().rstrip("/").removesuffix(".git")
    parts = urlsplit(address)
    if (
        parts.scheme != "https"
        or not re.fullmatch(r"[\w.-]+\.\w+", parts.netloc)
        or not re.fullmatch(r"(/[\w.~-]+){2,}", parts.path)
        or parts.query
        or parts.fragment
    ):
        raise environment.Stop(
            f"{text!r} is not the address of a repository: give it like "
            "https://github.com/OWNER/NAME."
        )
    return address


def site_address(text: str) -> str:
    """The site's address with a slash at its end, or a sentence about what is wrong."""
    parts = urlsplit(text.strip())
    if (
        parts.scheme != "https"
        or not re.fullmatch(r"[\w.-]+\.\w+(:\d+)?", parts.netloc)
        or parts.query
        or parts.fragment
    ):
        raise environment.Stop(
            f"{text!r} is not the address of a site: give it like "
            "https://OWNER.github.io/NAME/."
        )
    return text.strip().rstrip("/") + "/"


def known(root: Path) -> Addresses:
    """The addresses that pyproject.toml holds."""
    with (root / "pyproject.toml").open("rb") as stream:
        course = tomllib.load(stream).get("tool", {}).get("course", {})
    return Addresses(str(course.get("repository", "")), str(course.get("site", "")))


# ---------------------------------------------------------- each place, as text to text


def in_pyproject(text: str, to: Addresses) -> str:
    """``[tool.course]``."""

    def table(match: re.Match[str]) -> str:
        content = match.group()
        for name in ("repository", "site"):
            line = f'{name} = "{getattr(to, name)}"'
            content, found = re.subn(rf'(?m)^{name} *= *".*"$', line, content)
            if not found:
                raise environment.Stop(
                    f"pyproject.toml has no {name} under [tool.course]: put the line "
                    f'{name} = "" there.'
                )
        return content

    new, found = re.subn(r"(?ms)^\[tool\.course\]\n.*?(?=^\[|\Z)", table, text)
    if not found:
        raise environment.Stop(
            "pyproject.toml has no [tool.course]: put the table back."
        )
    return new


def in_readme(text: str, to: Addresses) -> str:
    """Badge and links between two marks; nothing between them while nothing is known."""
    lines = []
    if to.site:
        lines.append(f"Read it at <{to.site}>.")
    if to.colab:
        badge = f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]"
        lines.append(f"{badge}({to.colab}/ch01_recurrence.ipynb)")
    if to.repository:
        lines.append(f"Source: <{to.repository}>.")
    block = "\n".join([BEGIN, *lines, END])
    new, found = re.subn(f"(?s){BEGIN}.*?{END}", lambda _: block, text)
    if found != 1:
        raise environment.Stop(f"README.md needs the marks {BEGIN} and {END} once.")
    return new


def in_citation(text: str, to: Addresses) -> str:
    """``repository-code`` and ``url``, in front of the licence."""
    kept = [
        line
        for line in text.splitlines()
        if not line.startswith(("repository-code:", "url:"))
    ]
    added = []
    if to.repository:
        added.append(f'repository-code: "{to.repository}"')
    if to.site:
        added.append(f'url: "{to.site}"')
    place = next((i for i, x in enumerate(kept) if x.startswith("license:")), len(kept))
    return "\n".join([*kept[:place], *added, *kept[place:]]) + "\n"


PLACES: dict[str, Callable[[str, Addresses], str]] = {
    "pyproject.toml": in_pyproject,
    "README.md": in_readme,
    "CITATION.cff": in_citation,
}


def in_notebooks(root: Path) -> list[Path]:
    """Notebooks whose first cell is not the one of the known addresses."""
    wanted = first_cell.text(root)
    found = []
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        first = next((c for c in notebook.cells if c.cell_type == "code"), None)
        if first is None or first.source != wanted:
            found.append(path)
    return found


def write(root: Path, to: Addresses) -> list[str]:
    """Set the addresses in every place; return the names of the changed files."""
    lost = environment.missing(root, list(PLACES))
    if lost:
        raise environment.Stop(f"{lost[0]} is missing: restore it with git checkout.")
    old = {name: (root / name).read_text(encoding="utf-8") for name in PLACES}
    new = {name: change(old[name], to) for name, change in PLACES.items()}
    changed = [name for name in PLACES if new[name] != old[name]]
    for name in changed:
        (root / name).write_text(new[name], encoding="utf-8")
    changed += [p.relative_to(root).as_posix() for p in first_cell.rewrite(root)]
    return changed


def disagreeing(root: Path) -> list[str]:
    """Places that do not say what pyproject.toml says."""
    to = known(root)
    found = [
        name
        for name, change in PLACES.items()
        if change(text := (root / name).read_text(encoding="utf-8"), to) != text
    ]
    return found + [p.relative_to(root).as_posix() for p in in_notebooks(root)]


def check(root: Path) -> int:
    """List the places; 1 if one of them disagrees."""
    to = known(root)
    environment.say(f"repository: {to.repository or 'not known'}")
    environment.say(f"site:       {to.site or 'not known'}")
    wrong = disagreeing(root)
    notebooks = sorted((root / "notebooks").glob("*.ipynb"))
    for name in [*PLACES, *(p.relative_to(root).as_posix() for p in notebooks)]:
        environment.say(f"  {name}: {'DISAGREES' if name in wrong else 'agrees'}")
    environment.say("  pages of the book: read pyproject.toml when they are built")
    return 1 if wrong else 0


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", nargs="?", help="https://github.com/OWNER/NAME")
    parser.add_argument("--site", help="https://OWNER.github.io/NAME/")
    parser.add_argument("--unset", action="store_true", help="forget both addresses")
    parser.add_argument("--check", action="store_true", help="list the places")
    options = parser.parse_args(arguments)
    if options.check:
        return check(root)
    to = known(root)
    if options.unset:
        to = Addresses()
    elif options.repository or options.site:
        to = Addresses(
            repository_address(options.repository)
            if options.repository
            else to.repository,
            site_address(options.site) if options.site else to.site,
        )
    else:
        raise environment.Stop(
            "No address was given: python tools/set_repository.py "
            "https://github.com/OWNER/NAME (or --check, or --unset)."
        )
    for name in write(root, to):
        environment.say(f"{name}: written")
    environment.say("`make book` now builds the pages with these addresses.")
    return check(root)


if __name__ == "__main__":
    environment.finish(main)
