"""What the tests of the built book share: the site, a server, a browser off the network.

``site``        folder of the built pages (``SITE=...`` names one; else it is built if
                it is missing)
``server``      its address over http; unknown addresses get ``404.html``, as on a host
``open_page``   ``open_page("book/intro.html", theme="dark", width=360, disk=True)``
                returns a ``Visit``: the page, and what it asked for and complained of
``show``        ``show("lookup", ...)``: a widget on its page of the course, and the visit
``page_path``   every page of ``_toc.yml`` and the ones that Sphinx adds, one test each
``theme``       light, then dark; ``width``: 1280, then 360 pixels

A test that uses the browser carries the marker ``browser`` by itself. Without Chromium it
is skipped, saying how to get one; with ``CI=true`` it fails.
"""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))  # course_site, the Sphinx extension

THEMES = ("light", "dark")
WIDTHS = (1280, 360)
ADDED_PAGES = ("404.html", "search.html", "genindex.html")
CHROMIUM_NAMES = (
    "chromium-headless-shell",  # no window around each page, so twice as quick
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
NO_CHROMIUM = (
    "the browser tests did not run: no Chromium or Chrome was found. Install one "
    "(Debian and Ubuntu: `apt-get install chromium`; any system: "
    "`.venv/bin/playwright install chromium`) or name it: CHROMIUM=/path/to/chrome"
)
SETTLED = """async () => {
  if (window.MathJax && MathJax.startup && MathJax.startup.promise)
    await MathJax.startup.promise;
  await document.fonts.ready;
  for (let i = 0; i < 2; i++)
    await new Promise(done => requestAnimationFrame(done));
}"""

STILL = "*, *::before, *::after { transition: none !important; animation: none !important; }"
SET_THEME = """theme => {
  document.documentElement.dataset.theme = theme;
  document.documentElement.dataset.mode = theme;
}"""


def toc_pages() -> list[str]:
    """Addresses of the pages that ``_toc.yml`` names, in reading order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    names: list[str] = []

    def walk(node: Any) -> None:
        if isinstance(node, list):
            for part in node:
                walk(part)
        elif isinstance(node, dict):
            name = node.get("root") or node.get("file")
            if name:
                names.append(f"{name}.html")
            for key in ("parts", "chapters", "sections"):
                walk(node.get(key))

    walk(toc)
    return names


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "page_path" in metafunc.fixturenames:
        metafunc.parametrize("page_path", [*toc_pages(), *ADDED_PAGES])
    if "toc_path" in metafunc.fixturenames:
        metafunc.parametrize("toc_path", toc_pages())
    marked = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "theme" in metafunc.fixturenames and not any(
        "theme" in names for names in marked
    ):
        metafunc.parametrize("theme", THEMES)
    if "width" in metafunc.fixturenames:
        metafunc.parametrize("width", WIDTHS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


# ------------------------------------------------------------------------------ site


def build_book(source: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build the book of one folder strictly, as ``make book`` does."""
    program = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", program, "build", str(source)]
    return subprocess.run(
        [*command, "-W", "-n", "--keep-going", *options],
        cwd=source,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"},
        check=False,
    )


@pytest.fixture(scope="session")
def site() -> Path:
    """Folder of the built pages."""
    named = os.environ.get("SITE")
    if named:
        folder = Path(named).resolve()
        if not (folder / "index.html").is_file():
            pytest.fail(f"SITE={named} holds no built book (index.html is missing)")
        return folder
    folder = ROOT / "_build" / "html"
    lock = ROOT / "_build" / "building.lock"
    lock.parent.mkdir(exist_ok=True)
    for _ in range(600):  # several pytest workers: one builds, the others wait
        try:
            lock.mkdir()
            break
        except FileExistsError:
            time.sleep(1)
    try:
        if not (folder / "index.html").is_file():
            done = build_book(ROOT)
            if done.returncode:
                pytest.fail(
                    f"the book does not build:\n{(done.stdout + done.stderr)[-4000:]}"
                )
    finally:
        lock.rmdir()
    return folder


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves one folder quietly; an unknown address gets the site's 404 page."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        page = Path(self.directory) / "404.html"
        if code != 404 or not page.is_file():
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="session")
def server(site: Path) -> Iterator[str]:
    """Address of the site over http, with a slash at its end."""
    handler = functools.partial(_Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        running.daemon_threads = True
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()


# --------------------------------------------------------------------------- browser


def find_chromium() -> str | None:
    """Path of a Chromium: ``$CHROMIUM``, the system's, or the one of playwright."""
    for name in (os.environ.get("CHROMIUM", ""), *CHROMIUM_NAMES):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A running Chromium (playwright, synchronous), one for each worker."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = find_chromium()
        own = Path(playwright.chromium.executable_path)
        if path is None and own.is_file():
            path = str(own)
        if path is None:
            if os.environ.get("CI", "").lower() in ("1", "true"):
                pytest.fail(NO_CHROMIUM)
            pytest.skip(NO_CHROMIUM)
        running = playwright.chromium.launch(
            executable_path=path, args=CHROMIUM_ARGUMENTS
        )
        yield running
        running.close()


@dataclass
class Visit:
    """One page in a browser without network, and what happened on it.

    ``off_site`` lists the addresses that it asked for outside the site (all refused),
    ``errors`` page errors and console errors, ``requests`` what it loaded, as
    ``(address, kind)``.
    """

    page: Any
    context: Any
    off_site: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def settle(self) -> None:
        """Wait until equations, fonts and the layout stand."""
        self.page.evaluate(SETTLED)

    def set_theme(self, theme: str) -> None:
        """Turn to ``light`` or ``dark``, at once."""
        self.page.add_style_tag(content=STILL)
        self.page.evaluate(SET_THEME, theme)
        self.settle()


@pytest.fixture
def open_page(
    browser: Any, site: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Visit]]:
    """Open a page of the site: ``open_page(path, disk=, theme=, width=, ...)``.

    ``equations=False`` leaves equations as TeX, which spares seconds.
    """
    contexts = []

    def visit(
        path: str = "book/intro.html",
        *,
        disk: bool = False,
        theme: str = "light",
        width: int = 1280,
        height: int = 900,
        settle: bool = True,
        equations: bool = True,
        prepare: Callable[[Visit], None] | None = None,
        **options: Any,
    ) -> Visit:
        base = site.as_uri() + "/" if disk else request.getfixturevalue("server")
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            **options,
        )
        contexts.append(context)
        context.set_default_timeout(60_000)
        context.add_init_script(
            "try { for (const key of ['mode', 'theme'])"
            f" localStorage.getItem(key) || localStorage.setItem(key, '{theme}'); }}"
            " catch { /* a page without storage keeps its own theme */ }"
        )
        made = Visit(context.new_page(), context)

        def decide(route: Any) -> None:
            address = route.request.url
            if address.startswith(base) or urlsplit(address).scheme in (
                "data",
                "blob",
                "about",
            ):
                made.requests.append((address, route.request.resource_type))
                if equations or "/mathjax/" not in address:
                    route.continue_()
                else:
                    route.fulfill(body="", content_type="text/javascript")
            else:
                made.off_site.append(address)
                route.abort()

        context.route("**/*", decide)
        made.page.on("pageerror", lambda e: made.errors.append(f"page error: {e}"))
        made.page.on(
            "console",
            lambda m: (
                made.errors.append(f"console: {m.text}") if m.type == "error" else None
            ),
        )
        if prepare is not None:
            prepare(made)
        made.page.goto(base + path, wait_until="load")
        if settle:
            made.settle()
        return made

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture
def page_of(site: Path) -> Callable[[str], str]:
    """``page_of(name)``: address of the first page that holds the widget."""

    def address(name: str) -> str:
        for page in sorted(site.glob("*/*.html")):
            if f'data-widget="{name}"' in page.read_text(encoding="utf-8"):
                return page.relative_to(site).as_posix()
        pytest.fail(f"no page of {site} holds the widget {name!r}")

    return address


@pytest.fixture
def show(
    open_page: Callable[..., Visit], page_of: Callable[[str], str]
) -> Callable[..., Any]:
    """``show(name, ...)``: the first widget of that name on its page, and the visit."""

    def visit(name: str, **options: Any) -> tuple[Any, Visit]:
        made = open_page(page_of(name), **{"equations": False, **options})
        widget = made.page.locator(f'[data-widget="{name}"].tl-live').first
        widget.scroll_into_view_if_needed()
        return widget, made

    return visit
