"""The written files: links, pictures, footers, icons, what a page head says."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from course_site import checks, settings, theme

ROOT = Path(__file__).resolve().parents[2]
COURSE = settings.read_course(ROOT)
LOADING = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src",),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
}


class Head(HTMLParser):
    """What a page loads, its pictures, ids and metadata."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.pictures: list[dict[str, str]] = []
        self.ids: list[str] = []
        self.meta: dict[str, str] = {}
        self.icons: set[str] = set()
        self.headings: list[str] = []
        self.language = ""
        self.title = ""
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        for key in LOADING.get(tag, ()):
            if key in given:
                self.loads.append(given[key])
        if tag == "link" and given.get("rel") not in ("canonical", "alternate"):
            self.loads.append(given.get("href", ""))
        if tag == "img":
            self.pictures.append(given)
        if tag == "meta":
            self.meta[given.get("name") or given.get("property", "")] = given.get(
                "content", ""
            )
        if tag == "html":
            self.language = given.get("lang", "")
        if "id" in given:
            self.ids.append(given["id"])
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.headings.append(tag)
        self.icons |= {
            name for name in given.get("class", "").split() if name.startswith("fa-")
        }
        self._in_title = tag == "title"

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data


@pytest.fixture
def page(site: Path, page_path: str) -> tuple[str, Head]:
    path = site / page_path
    if not path.is_file():
        pytest.fail(f"{page_path} was not built")
    text = path.read_text(encoding="utf-8")
    head = Head()
    head.feed(text)
    return text, head


def test_a_page_loads_only_files_of_the_site(page: tuple[str, Head]) -> None:
    _, head = page
    outside = [u for u in head.loads if re.match(r"(?:[a-z]+:)?//", u)]
    assert outside == []


def test_every_picture_has_a_text_in_its_place(page: tuple[str, Head]) -> None:
    _, head = page
    bare = [p.get("src", "") for p in head.pictures if not p.get("alt", "").strip()]
    assert bare == []


def test_a_page_says_its_language_and_has_one_main_heading(
    page: tuple[str, Head],
) -> None:
    _, head = page
    assert head.language == "en"
    assert head.headings.count("h1") == 1


def test_a_page_s_title_names_the_page_and_the_course(
    page: tuple[str, Head], page_path: str
) -> None:
    _, head = page
    assert "The Transformer, Barrier by Barrier" in head.title
    if page_path != "book/intro.html":
        assert head.title.strip() != "The Transformer, Barrier by Barrier"


def test_the_foot_of_a_page_says_version_commit_and_day(page: tuple[str, Head]) -> None:
    text, _ = page
    foot = text[text.index('class="tl-colophon"') :]
    assert f"Version {COURSE.version}" in foot
    inside = subprocess.run(
        ["git", "rev-parse", "--git-dir"], cwd=ROOT, capture_output=True, check=False
    )
    if inside.returncode == 0:
        assert re.search(r"commit\s+(?:<a [^>]*>)?[0-9a-f]{8}", foot)
        assert re.search(r'<time datetime="\d{4}-\d\d-\d\d">\d+ \w+ \d{4}</time>', foot)


def test_what_needs_the_repository_is_there_if_it_is_known(
    page: tuple[str, Head], page_path: str
) -> None:
    text, _ = page
    written = page_path.startswith(("book/", "notebooks/"))
    known = bool(COURSE.repository)
    assert ("Report a mistake" in text) == (known and written)
    assert ("colab.research" in text) == (
        bool(COURSE.colab("x")) and page_path.startswith("notebooks/")
    )
    for placeholder in ("OWNER/REPO", "executablebooks/jupyter-book", 'href=""'):
        assert placeholder not in text


def test_opengraph_stands_in_a_page_only_if_the_site_s_address_is_known(
    page: tuple[str, Head], page_path: str
) -> None:
    _, head = page
    if not COURSE.site:
        assert not [name for name in head.meta if name.startswith("og:")]
    elif page_path.startswith(("book/", "notebooks/")):
        assert head.meta["og:url"] == COURSE.site + page_path
        assert head.meta["og:title"]


def test_a_sitemap_is_written_only_if_the_site_s_address_is_known(site: Path) -> None:
    assert (site / "sitemap.xml").is_file() == bool(COURSE.site)


def test_every_icon_that_a_page_uses_is_drawn(page: tuple[str, Head]) -> None:
    _, head = page
    css = (ROOT / "book" / "_static" / "course.css").read_text(encoding="utf-8")
    drawn = set(re.findall(r"\.(fa-[\w-]+)", css))
    assert head.icons - drawn == set()


def test_what_the_theme_loads_for_nothing_is_not_loaded(page: tuple[str, Head]) -> None:
    text, head = page
    for name in ("fontawesome", "thebe", "require.js", "html-manager"):
        assert not [u for u in head.loads if name in u]
    assert "THEBE_JS_URL" not in text
    assert 'rel="preload"' not in text


def test_anchors_of_headings_come_from_their_words(site: Path, toc_path: str) -> None:
    text = (site / toc_path).read_text(encoding="utf-8")
    counted = re.findall(r'<section [^>]*id="(id\d+)"', text)
    assert counted == []


def test_no_link_between_pages_and_no_anchor_is_dead(site: Path) -> None:
    pages = [
        path.relative_to(site).as_posix()
        for path in site.rglob("*.html")
        if not path.relative_to(site).parts[0].startswith("_")
    ]
    assert len(pages) > 10
    assert checks.dead_links(site, pages) == []


def test_style_sheets_load_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.css"):
        css = path.read_text(encoding="utf-8", errors="replace")
        outside = re.findall(
            r"(?:@import\s+|url\()\s*['\"]?((?:https?:)?//[^'\")]+)", css
        )
        assert outside == [], path


def test_the_site_holds_the_licences_of_what_it_brings_along(site: Path) -> None:
    static = site / "_static"
    assert "Apache License" in (static / "mathjax" / "LICENSE").read_text("utf-8")
    for package in ("source-serif-4", "source-sans-3"):
        licence = (static / "fonts" / f"LICENSE-{package}").read_text("utf-8")
        assert "Open Font License" in licence.title().replace("Sil ", "")


def test_the_first_page_is_reached_from_the_site_s_folder(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert "book/intro.html" in text


def test_every_cure_of_the_theme_still_meets_its_fault() -> None:
    """A cure whose fault is gone would be dead code: the theme's files are looked at."""
    import myst_nb
    import pydata_sphinx_theme
    import sphinx_thebe

    def source(package: object, name: str) -> str:
        return (Path(package.__file__).parent / name).read_text("utf-8")  # type: ignore[attr-defined]

    assert '<summary aria-label="Toggle hidden content">' in source(
        myst_nb, "sphinx_.py"
    )
    assert "THEBE_JS_URL" in source(sphinx_thebe, "__init__.py")
    folder = "theme/pydata_sphinx_theme"
    macros = source(pydata_sphinx_theme, f"{folder}/static/webpack-macros.html")
    assert "crossorigin" in macros
    assert "all.min.js" in macros
    assert set(theme.NEEDED_BY) >= {"sphinx-thebe", "THEBE_JS_URL"}
