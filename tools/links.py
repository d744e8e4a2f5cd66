"""Dead links between the built pages: ``python tools/links.py [folder]``."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import environment

SITE = environment.ROOT / "_build" / "html"


class Page(HTMLParser):
    """What one page links to, and the places in it that can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        for name in ("id", "name") if tag == "a" else ("id",):
            if values.get(name):
                self.places.add(str(values[name]))
        for name in ("href", "src"):
            if values.get(name):
                self.links.append(str(values[name]))
        if tag == "meta" and (values.get("http-equiv") or "").lower() == "refresh":
            _, _, target = (values.get("content") or "").partition("url=")
            if target:
                self.links.append(target.strip("'\" "))

    @classmethod
    def read(cls, path: Path) -> Page:
        page = cls()
        page.feed(path.read_text(encoding="utf-8"))
        return page


def dead_links(site: Path) -> list[str]:
    """Links of the site's pages that lead nowhere, each with the page that has it."""
    pages = {path.resolve(): Page.read(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.relative_to(site.resolve()).parts[0] in ("_static", "_sources"):
            continue
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = path
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
                if target.is_dir():
                    target = target / "index.html"
            name = path.relative_to(site.resolve()).as_posix()
            if parts.path.startswith("/") and name == "404.html":
                continue  # served for any address, so its links start at the root
            place = unquote(parts.fragment)
            if not target.is_file():
                found.append(f"{name}: {link} leads nowhere")
            elif place and target in pages and place not in pages[target].places:
                found.append(f"{name}: {link} names a place that is not there")
    return found


def main() -> int:
    site = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else SITE
    if not (site / "index.html").is_file():
        raise environment.Stop(f"{site} holds no built book: run `make book` first.")
    found = dead_links(site)
    for line in found:
        environment.say(line)
    environment.say(f"{len(found)} dead links" if found else "no dead link")
    return 1 if found else 0


if __name__ == "__main__":
    environment.finish(main)
