"""What a first visit costs: bytes over the wire, requests, and how still the page is."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("ch*.ipynb"))
MOST_BYTES = 650_000
"""Compressed, without the figures."""
MOST_REQUESTS = 40
MOST_SHIFT = 0.05
"""Cumulative layout shift; up to 0.1 counts as good (web.dev/articles/cls)."""
COMPRESSED = {".woff", ".woff2", ".png", ".jpg"}
"""Gain nothing from gzip, so a host sends them as they are."""


def cost(site: Path, address: str) -> int:
    """Bytes that a host with gzip sends for one address of the site."""
    path = site / unquote(urlsplit(address).path).lstrip("/")
    content = path.read_bytes()
    if path.suffix in COMPRESSED:
        return len(content)
    return len(gzip.compress(content, 6))


def figure(address: str) -> bool:
    return "/_images/" in address


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_s_first_visit_is_light(
    open_page: Callable[..., Any], site: Path, chapter: str, capsys: Any
) -> None:
    visit = open_page(f"notebooks/{chapter}.html")
    visit.page.mouse.wheel(0, 100_000)
    visit.page.wait_for_load_state("networkidle")
    visit.settle()
    addresses = {address for address, _ in visit.requests if address.startswith("http")}
    loaded = {a: cost(site, a) for a in addresses if not figure(a)}
    with capsys.disabled():
        print(
            f"\n{chapter}: {sum(loaded.values()) / 1000:.0f} KB with gzip in "
            f"{len(loaded)} requests, without {len(addresses) - len(loaded)} figures"
        )
    heaviest = sorted(loaded.items(), key=lambda item: -item[1])[:8]
    assert sum(loaded.values()) <= MOST_BYTES, heaviest
    assert len(loaded) <= MOST_REQUESTS, sorted(loaded)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_does_not_jump_while_it_loads(
    open_page: Callable[..., Any], chapter: str
) -> None:
    def watch(visit: Any) -> None:
        visit.context.add_init_script(
            "window.shift = 0; new PerformanceObserver(list => { for (const e of "
            "list.getEntries()) if (!e.hadRecentInput) window.shift += e.value; })"
            ".observe({type: 'layout-shift', buffered: true});"
        )

    visit = open_page(f"notebooks/{chapter}.html", prepare=watch)
    visit.page.wait_for_timeout(500)
    assert visit.page.evaluate("window.shift") <= MOST_SHIFT


def test_the_budget_counts_what_a_page_loads(
    open_page: Callable[..., Any], site: Path
) -> None:
    """Planted fault: a page that loads MathJax's every part is over the budget."""
    whole = ROOT / "node_modules" / "mathjax" / "es5" / "tex-mml-chtml.js"
    slim = site / "_static" / "mathjax" / "mathjax.js"
    if whole.is_file():
        assert len(gzip.compress(slim.read_bytes())) < len(
            gzip.compress(whole.read_bytes())
        )
    visit = open_page("book/notation.html")
    kinds = {kind for _, kind in visit.requests}
    assert {"document", "script", "stylesheet", "font"} <= kinds
    by_name = {urlsplit(a).path.rpartition("/")[2]: a for a, _ in visit.requests}
    path = site / "_static" / "course.css"
    assert cost(site, by_name["course.css"]) < len(path.read_bytes()) / 2
