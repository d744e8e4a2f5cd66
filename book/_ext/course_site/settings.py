"""What the site knows about itself: addresses, version, commit and date.

The repository's and the site's address stand in ``pyproject.toml`` under
``[tool.course]`` and nowhere else; ``tools/set_repository.py`` writes them. While the
repository is unknown no page has a button that needs it; while the site's address is
unknown there are no OpenGraph tags and no sitemap.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from sphinx.application import Sphinx
from sphinx.config import Config

from transformer_lib.palette import DARK, LIGHT

BRANCH = "main"
COLAB = "https://colab.research.google.com"
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
LOOK = ("book/_ext", "book/_static", "book/_templates", "transformer_lib/widgets")


@dataclass(frozen=True)
class Course:
    """Facts of the project as ``pyproject.toml`` gives them; addresses may be empty."""

    version: str
    repository: str
    site: str

    @property
    def provider(self) -> str:
        """Which kind of host the repository is on: github, gitlab or bitbucket."""
        host = urlsplit(self.repository).netloc
        for name in ("gitlab", "bitbucket"):
            if name in host:
                return name
        return "github"

    def report(self, title: str, page: str) -> str:
        """Address at which a mistake on a page is reported, empty if unknown."""
        if not self.repository:
            return ""
        subject = f"Mistake in {title}"
        text = f"Page: {page}\n\nWhat I read:\n\nWhat I expected:\n"
        if self.provider == "gitlab":
            fields = {"issue[title]": subject, "issue[description]": text}
            return f"{self.repository}/-/issues/new?{urlencode(fields)}"
        fields = {"title": subject, "body": text}
        return f"{self.repository}/issues/new?{urlencode(fields, quote_via=quote)}"

    def colab(self, notebook: str) -> str:
        """Address that opens a notebook in Colab, empty if Colab cannot."""
        parts = urlsplit(self.repository)
        if parts.netloc != "github.com":
            return ""
        return f"{COLAB}/github{parts.path}/blob/{BRANCH}/{notebook}"

    def edit(self, source: str) -> str:
        """Address at which the source of a page is edited, empty if unknown."""
        if not self.repository or self.provider == "bitbucket":
            return ""
        middle = "-/edit" if self.provider == "gitlab" else "edit"
        return f"{self.repository}/{middle}/{BRANCH}/{source}"

    def commit_page(self, commit: str) -> str:
        """Address of one commit, empty if the repository is unknown."""
        if not self.repository or not commit:
            return ""
        middle = {"gitlab": "-/commit", "bitbucket": "commits"}
        return f"{self.repository}/{middle.get(self.provider, 'commit')}/{commit}"


def read_course(root: Path) -> Course:
    """Read the facts from the project's ``pyproject.toml``."""
    with (root / "pyproject.toml").open("rb") as stream:
        project = tomllib.load(stream)
    course = project.get("tool", {}).get("course", {})
    site = str(course.get("site", "")).rstrip("/")
    return Course(
        version=str(project["project"]["version"]),
        repository=str(course.get("repository", "")).rstrip("/").removesuffix(".git"),
        site=f"{site}/" if site else "",
    )


def read_commit(root: Path) -> tuple[str, str]:
    """Short hash and day (ISO) of the last commit; empty outside a git clone.

    Nothing depends on when or where the site is built: without git the day is that of
    ``SOURCE_DATE_EPOCH``, if that is set.
    """
    command = ["git", "log", "-1", "--format=%h %cs", "--abbrev=8"]
    try:
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, check=False
        )
    except OSError:
        done = None
    if done is not None and done.returncode == 0 and done.stdout.strip():
        commit, day = done.stdout.split()
        return commit, day
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isdigit():
        moment = datetime.datetime.fromtimestamp(int(epoch), tz=datetime.timezone.utc)
        return "", moment.date().isoformat()
    return "", ""


def in_words(day: str) -> str:
    """``2026-11-29`` becomes ``29 November 2026`` (in English whatever the locale)."""
    if not day:
        return ""
    date = datetime.date.fromisoformat(day)
    return f"{date.day} {MONTHS[date.month - 1]} {date.year}"


def look_of(root: Path) -> str:
    """Fingerprint of all that shapes pages beside their text; a change rewrites them."""
    digest = hashlib.sha256()
    for folder in LOOK:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(path.relative_to(root).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def apply(app: Sphinx, config: Config) -> None:
    """Set what depends on addresses, version and commit."""
    root = Path(app.srcdir)
    course = read_course(root)
    commit, day = read_commit(root)
    if course.site:
        config.html_baseurl = course.site
        config.ogp_site_url = course.site
        config.sitemap_url_scheme = "{link}"  # no language or version in the path
        config.sitemap_excludes = ["404.html", "search.html", "genindex.html"]
    config.version = config.release = course.version
    config.html_context = {
        **config.html_context,
        "course_version": course.version,
        "course_commit": commit,
        "course_commit_page": course.commit_page(commit),
        "course_day": day,
        "course_day_in_words": in_words(day),
        "course_site": course.site,
        "course_repository": course.repository,
        "course_palette": palette(),
    }
    config.course_look = look_of(root)
    config.course = course


def palette() -> str:
    """The course's colours as CSS variables, for both themes, from their one source."""

    def variables(colours: dict[str, str]) -> str:
        return "".join(f"--tl-{name}:{value};" for name, value in colours.items())

    return (
        f":root{{{variables(LIGHT)}color-scheme:light}}"
        f"html[data-theme=dark]{{{variables(DARK)}color-scheme:dark}}"
    )


def add_addresses(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give each written page its own addresses: report, edit, Colab, notebook."""
    if doctree is None:
        return
    course: Course = app.config.course
    title = app.env.titles[page].astext()
    source = Path(app.env.doc2path(page)).relative_to(app.srcdir).as_posix()
    context["course_report"] = course.report(title, page)
    if source.endswith(".ipynb"):
        context["course_notebook"] = f"_sources/{context['sourcename']}"
        context["course_colab"] = course.colab(source)
    else:
        context["course_edit"] = course.edit(source)


def setup(app: Sphinx) -> None:
    """Connect this part of the extension."""
    app.add_config_value("course_look", "", "html", str)
    app.add_config_value("course", None, "", Course)
    course = read_course(Path(app.srcdir))
    if course.repository:
        app.tags.add("repository")
    if course.site:
        app.tags.add("site")
        app.setup_extension("sphinxext.opengraph")
        app.setup_extension("sphinx_sitemap")
    app.connect("config-inited", apply, priority=400)
    app.connect("html-page-context", add_addresses)
