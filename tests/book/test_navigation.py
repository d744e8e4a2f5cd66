"""What a reader does with the site: search, step on, download, lose the way, change colours."""

from __future__ import annotations

import functools
import http.server
import json
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("ch*.ipynb"))


def reading_order() -> list[str]:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    course = [entry["file"] for entry in toc["parts"][0]["chapters"]]
    return [f"{name}.html" for name in [toc["root"], *course]]


def word_of(notebook: str) -> str:
    """A long word that stands in this notebook's prose and in no other notebook."""
    texts = {
        name: " ".join(
            "".join(cell["source"]).lower()
            for cell in json.loads(
                (ROOT / "notebooks" / f"{name}.ipynb").read_text("utf-8")
            )["cells"]
            if cell["cell_type"] == "markdown"
        )
        for name in CHAPTERS
    }
    words = set(
        re.findall(r"\b[a-z]{7,}\b", re.sub(r"[$`(].*?[$`)]", " ", texts[notebook]))
    )
    others = " ".join(text for name, text in texts.items() if name != notebook)
    own = sorted(word for word in words if word not in others)
    return max(own, key=len)


@pytest.mark.parametrize("disk", [False, True], ids=["http", "disk"])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_search_finds_a_word_that_stands_in_a_chapter(
    open_page: Callable[..., Any], chapter: str, disk: bool
) -> None:
    visit = open_page(f"search.html?q={word_of(chapter)}", disk=disk)
    # Results appear one after the other.
    found = visit.page.locator(f'ul.search li a[href*="notebooks/{chapter}.html"]')
    found.first.wait_for()
    visit.page.wait_for_timeout(300)
    assert visit.errors == []
    assert visit.off_site == []


def test_search_opens_by_keyboard_and_leads_to_results(
    open_page: Callable[..., Any],
) -> None:
    page = open_page("book/intro.html").page
    page.keyboard.press("Control+k")
    field = page.locator(".search-button__wrapper.show input")
    field.wait_for()
    page.keyboard.type("softmax")
    page.keyboard.press("Enter")
    page.locator("ul.search li a").first.wait_for()
    assert "q=softmax" in page.url


def test_a_word_that_stands_nowhere_is_not_found(open_page: Callable[..., Any]) -> None:
    page = open_page("search.html?q=zyzzyvaxyz").page
    page.locator(".search-summary").filter(has_text="did not match").wait_for()
    assert page.locator("ul.search li").count() == 0


def test_previous_and_next_lead_through_the_course(
    open_page: Callable[..., Any],
) -> None:
    order = reading_order()
    page = open_page(order[0], equations=False).page
    for name in order[1:]:
        page.locator("a.right-next").click()
        page.wait_for_url(f"**/{name}")
    for name in reversed(order[:-1]):
        page.locator("a.left-prev").click()
        page.wait_for_url(f"**/{name}")
    assert page.locator("a.left-prev").count() == 0


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_notebook_of_a_chapter_is_downloaded_as_it_is(
    open_page: Callable[..., Any], chapter: str, tmp_path: Path, site: Path
) -> None:
    page = open_page(
        f"notebooks/{chapter}.html", equations=False, accept_downloads=True
    ).page
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Notebook").click()
    waiting.value.save_as(tmp_path / "got.ipynb")
    got = (tmp_path / "got.ipynb").read_bytes()
    assert waiting.value.suggested_filename == f"{chapter}.ipynb"
    assert got == (site / "_sources" / "notebooks" / f"{chapter}.ipynb").read_bytes()
    assert json.loads(got)["nbformat"] == 4


def test_the_contents_of_a_page_lead_to_its_sections(
    open_page: Callable[..., Any], toc_path: str
) -> None:
    page = open_page(toc_path, equations=False).page
    links = page.locator("nav.page-toc a:visible")
    sections = page.locator("article section section").count()
    assert links.count() >= min(sections, 1)
    if links.count():
        links.last.click()
        target = page.url.partition("#")[2]
        assert page.locator(f"[id='{target}']").is_visible()


# ------------------------------------------------------------------------- lost pages


@pytest.mark.parametrize("prefix", ["", "course/"], ids=["root", "below a folder"])
@pytest.mark.parametrize("lost", ["gone.html", "a/b/c/gone.html", "book/"])
def test_the_404_page_finds_its_way_from_any_depth(
    browser: Any, site: Path, tmp_path: Path, prefix: str, lost: str
) -> None:
    host = tmp_path / "host"
    if prefix:
        host.mkdir()
        (host / "course").symlink_to(site, target_is_directory=True)
    else:
        host = site
    not_found = (site / "404.html").read_bytes()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def list_directory(self, path: Any) -> None:  # a host lists no folders
            self.send_error(404)

        def send_error(self, code: int, *_: Any) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(not_found)

    handler = functools.partial(Handler, directory=str(host))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}/{prefix}"
        context = browser.new_context()
        context.route(
            "**/*", lambda r: r.continue_() if base[:16] in r.request.url else r.abort()
        )
        page = context.new_page()
        page.goto(base + lost)
        page.wait_for_function("document.readyState === 'complete'")
        assert page.locator("h1").inner_text() == "There is no such page"
        assert page.locator("#lost-address").inner_text() == f"/{prefix}{lost}"
        family = page.evaluate(
            "getComputedStyle(document.querySelector('h1')).fontFamily"
        )
        assert family.startswith('"Source Sans 3"')  # the style sheet was found
        failed = page.evaluate(
            "performance.getEntriesByType('resource').filter(r => r.responseStatus >= 400)"
            ".map(r => r.name)"
        )
        assert failed == []
        page.get_by_role("link", name="To the map of the course").click()
        page.wait_for_url(base + "book/intro.html")
        context.close()
        server.shutdown()


# ----------------------------------------------------------------- colours and reading


def test_the_colour_theme_is_kept_from_page_to_page(
    open_page: Callable[..., Any],
) -> None:
    visit = open_page("book/intro.html", theme="light")
    page = visit.page
    button = page.locator(".theme-switch-button")
    shown = "document.documentElement.dataset.theme"
    for _ in range(3):
        button.click()
        if page.evaluate("document.documentElement.dataset.mode") == "dark":
            break
    assert page.evaluate(shown) == "dark"
    assert page.evaluate("localStorage.getItem('mode')") == "dark"
    page.reload()
    assert page.evaluate(shown) == "dark"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(18, 21, 25)"


def test_the_theme_is_settled_before_anything_is_painted(
    open_page: Callable[..., Any],
) -> None:
    def watch(visit: Any) -> None:
        visit.context.add_init_script(
            "window.seen = []; new MutationObserver(() => seen.push("
            "document.documentElement.dataset.theme)).observe(document,"
            "{subtree: true, attributes: true, attributeFilter: ['data-theme']});"
        )

    page = open_page("book/intro.html", theme="dark", prepare=watch).page
    assert set(page.evaluate("seen")) == {"dark"}


def test_the_page_works_where_storage_is_refused(open_page: Callable[..., Any]) -> None:
    def refuse(visit: Any) -> None:
        visit.context.add_init_script(
            "Object.defineProperty(window, 'localStorage', {get() {"
            "throw new DOMException('refused', 'SecurityError'); }});"
        )

    visit = open_page("book/intro.html", prepare=refuse)
    theme = visit.page.evaluate("document.documentElement.dataset.theme")
    assert theme == "light"


def test_code_can_be_copied_without_prompts(open_page: Callable[..., Any]) -> None:
    def allow(visit: Any) -> None:
        visit.context.grant_permissions(["clipboard-read", "clipboard-write"])

    page = open_page("book/how_to_run.html", prepare=allow).page
    block = page.locator("div.highlight").first
    block.hover()
    block.locator("button.copybtn").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("make book")


def test_the_skip_link_comes_first_and_leads_to_the_text(
    open_page: Callable[..., Any],
) -> None:
    page = open_page("book/notation.html").page
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.textContent")
    assert focused == "Skip to main content"
    page.keyboard.press("Enter")
    assert page.url.endswith("#main-content")


def test_a_hidden_cell_opens_by_the_name_that_is_seen(
    open_page: Callable[..., Any],
) -> None:
    for chapter in CHAPTERS:
        page = open_page(f"notebooks/{chapter}.html", equations=False).page
        hidden = page.locator("details.hide")
        if not hidden.count():
            continue
        first = hidden.first
        assert first.locator("summary").get_attribute("aria-label") is None
        assert first.locator("summary").inner_text().strip().startswith("Show")
        assert not first.locator("pre").first.is_visible()
        first.locator("summary").press("Enter")
        assert first.locator("pre").first.is_visible()
        assert first.locator("summary").inner_text().strip().startswith("Hide")
        return
    pytest.fail("no chapter holds a hidden solution")


def test_equations_are_typeset_and_can_be_read_aloud(
    open_page: Callable[..., Any],
) -> None:
    page = open_page("book/notation.html", disk=True).page
    assert page.locator("mjx-container").count() > 20
    assert page.locator("mjx-assistive-mml math").count() > 20
    assert page.locator("mjx-merror").count() == 0


def test_a_rare_command_of_tex_is_fetched_from_the_site(
    open_page: Callable[..., Any],
) -> None:
    visit = open_page("book/notation.html", disk=True)
    text = visit.page.evaluate(
        """async () => {
          const box = document.createElement("div");
          box.textContent = "\\\\(\\\\cancel{x} + \\\\boldsymbol{y}\\\\)";
          box.className = "math";
          document.querySelector("article").append(box);
          await MathJax.typesetPromise([box]);
          return [box.querySelectorAll("mjx-merror").length, box.querySelectorAll("mjx-menclose").length];
        }"""
    )
    assert text == [0, 1]
    assert visit.off_site == []


def test_on_paper_everything_is_open_and_the_frame_is_gone(
    open_page: Callable[..., Any],
) -> None:
    page = open_page("book/intro.html").page
    page.emulate_media(media="print")
    for gone in (".bd-sidebar-primary", ".bd-header-article", ".prev-next-footer"):
        assert not page.locator(gone).first.is_visible()
    assert page.locator("article h1").is_visible()


def test_the_site_does_not_need_its_place(
    browser: Any, site: Path, tmp_path: Path
) -> None:
    """A copy in a folder with spaces and accents, opened by double click."""
    there = tmp_path / "my course é"
    shutil.copytree(site, there, ignore=shutil.ignore_patterns("_sources", "*.map"))
    context = browser.new_context()
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.on("requestfailed", lambda r: errors.append(r.url))
    page.goto((there / "index.html").as_uri())
    page.wait_for_url("**/book/intro.html")
    page.locator("a.right-next").click()
    page.wait_for_url(f"**/{reading_order()[1]}")
    page.wait_for_load_state("networkidle")
    assert errors == []
    context.close()
