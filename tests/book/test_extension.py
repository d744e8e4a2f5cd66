"""The parts of the Sphinx extension, each on its own."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import types
from pathlib import Path

import pytest
from course_site import api, assets, checks, settings, theme, widgets

ROOT = Path(__file__).resolve().parents[2]
SHARED = "const shared = (() => ({ double: (x) => 2 * x }))();"
MODULE = "function render() { return shared.double(21); }\nexport default { render };\n"


# --------------------------------------------------------------------------- widgets


def test_a_widget_becomes_one_classic_script_that_runs(tmp_path: Path) -> None:
    script = widgets.classic_script("lookup", SHARED, MODULE)
    assert "export" not in script
    assert "import" not in script
    program = f"globalThis.window = globalThis;\n{script}\n"
    program += "console.log(window.courseWidgets.lookup.render());"
    (tmp_path / "run.js").write_text(program, encoding="utf-8")
    node = Path(sys.executable).with_name("node")
    done = subprocess.run(
        [node, tmp_path / "run.js"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "42"


@pytest.mark.parametrize(
    ("module", "fault"),
    [
        ("function render() {}\n", "found 0"),
        (MODULE + "export default { render };\n", "found 2"),
        ("import x from './x.js';\n" + MODULE, "import x"),
        ("export const a = 1;\n" + MODULE, "export const a"),
        (
            "export function render() {}\nexport default { render };\n",
            "export function",
        ),
    ],
    ids=[
        "no export",
        "two exports",
        "an import",
        "a named export",
        "exported function",
    ],
)
def test_a_widget_that_could_not_load_from_disk_is_refused(
    module: str, fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        widgets.classic_script("lookup", SHARED, module)


def test_the_message_of_a_refused_widget_names_it() -> None:
    with pytest.raises(ValueError, match=r"widget lookup: shared\.js holds `export"):
        widgets.classic_script("lookup", "export const shared = 1;", MODULE)


def test_the_word_export_inside_a_text_is_no_export() -> None:
    module = 'const label = "export default { x };";\n' + MODULE
    assert "return { render };" in widgets.classic_script("lookup", SHARED, module)


def test_widgets_of_a_page_are_found_once_each_in_order() -> None:
    html = '<div data-widget="b"></div><div data-widget="a"></div><i data-widget="b">'
    assert widgets.used_in(html) == ["b", "a"]
    assert widgets.used_in("&lt;div data-widget=&quot;c&quot;&gt;") == []


def test_every_widget_of_the_library_becomes_a_script() -> None:
    folder = ROOT / widgets.FOLDER
    shared = (folder / "shared.js").read_text(encoding="utf-8")
    modules = [path for path in folder.glob("*.js") if path.stem != "shared"]
    assert modules
    for path in modules:
        text = path.read_text(encoding="utf-8")
        assert widgets.classic_script(path.stem, shared, text)


# ---------------------------------------------------------------------------- checks


def write(root: Path, name: str, body: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(f"<html><body>{body}</body></html>", encoding="utf-8")


@pytest.fixture
def small_site(tmp_path: Path) -> Path:
    write(tmp_path, "a/one.html", '<h1 id="top">One</h1><a href="../b/two.html#far">')
    write(
        tmp_path, "b/two.html", '<p id="far"></p><a href="#far"></a><img src="p.png">'
    )
    (tmp_path / "b" / "p.png").write_bytes(b"")
    return tmp_path


PAGES = ["a/one.html", "b/two.html"]


def test_a_sound_site_has_no_dead_link(small_site: Path) -> None:
    assert checks.dead_links(small_site, PAGES) == []


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ('<a href="../b/three.html">', "a/one.html: dead link ../b/three.html"),
        ('<a href="../b/two.html#near">', "a/one.html: dead anchor ../b/two.html#near"),
        ('<a href="#bottom">', "a/one.html: dead anchor #bottom"),
        ('<img src="missing.png">', "a/one.html: dead link missing.png"),
        ('<script src="../gone.js?v=1">', "a/one.html: dead link ../gone.js?v=1"),
        ('<a href="../../outside.html">', "dead link ../../outside.html"),
        ('<a href="old.html">', "dead link old.html"),
    ],
)
def test_a_dead_link_is_found(small_site: Path, link: str, fault: str) -> None:
    write(small_site, "a/old.html", "of an earlier build")
    write(small_site, "a/one.html", link)
    found = checks.dead_links(small_site, PAGES)
    assert len(found) == 1
    assert fault in found[0]


def test_links_to_other_hosts_are_not_followed(small_site: Path) -> None:
    links = '<a href="https://a.example/x"><a href="mailto:x@y"><img src="data:,">'
    write(small_site, "a/one.html", links)
    assert checks.dead_links(small_site, PAGES) == []


def notebook(**metadata: object) -> dict:
    output = {
        "output_type": "error",
        "ename": "ValueError",
        "evalue": "no",
        "traceback": [],
    }
    return {
        "cells": [
            {"cell_type": "markdown", "metadata": {}},
            {"cell_type": "code", "metadata": metadata, "outputs": [output]},
        ]
    }


def test_a_stored_traceback_is_found_and_an_announced_one_is_not() -> None:
    assert checks.stored_tracebacks(notebook()) == [
        "cell 1 holds a traceback: ValueError: no"
    ]
    assert checks.stored_tracebacks(notebook(tags=["raises-exception"])) == []


# -------------------------------------------------------------------------- settings


def course(repository: str = "", site: str = "") -> settings.Course:
    return settings.Course(version="1.2.3", repository=repository, site=site)


def test_without_a_repository_there_is_no_address_that_needs_one() -> None:
    unknown = course()
    assert unknown.report("Title", "book/intro") == ""
    assert unknown.colab("notebooks/a.ipynb") == ""
    assert unknown.edit("book/intro.md") == ""
    assert unknown.commit_page("abc") == ""


def test_addresses_on_github() -> None:
    known = course("https://github.com/someone/course")
    assert known.colab("notebooks/a.ipynb") == (
        "https://colab.research.google.com/github/someone/course/blob/main/notebooks/a.ipynb"
    )
    assert known.edit("book/a.md") == (
        "https://github.com/someone/course/edit/main/book/a.md"
    )
    assert known.commit_page("abc").endswith("/someone/course/commit/abc")
    report = known.report("3. Self-attention", "notebooks/ch03")
    assert report.startswith(
        "https://github.com/someone/course/issues/new?title=Mistake"
    )
    assert "3.%20Self-attention" in report
    assert "ch03" in report


def test_addresses_on_gitlab() -> None:
    known = course("https://gitlab.com/someone/course")
    assert known.colab("notebooks/a.ipynb") == ""
    assert "/-/issues/new?issue%5Btitle%5D=" in known.report("T", "p")
    assert known.edit("a.md").endswith("/-/edit/main/a.md")
    assert known.commit_page("abc").endswith("/-/commit/abc")


def test_a_repository_is_read_without_its_ending(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "3"\n'
        '[tool.course]\nrepository = "https://github.com/a/b.git/"\nsite = "https://s.io/x"\n',
        encoding="utf-8",
    )
    read = settings.read_course(tmp_path)
    assert read.version == "3"
    assert read.repository.rstrip("/") == read.repository
    assert read.site == "https://s.io/x/"


def test_the_day_is_the_commit_s_and_not_today_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            env={
                "PATH": str(Path("/usr/bin")),
                "GIT_COMMITTER_DATE": "2001-02-03T04:05:06+00:00",
                "GIT_AUTHOR_DATE": "2001-02-03T04:05:06+00:00",
            },
        )

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "x")
    commit, day = settings.read_commit(tmp_path)
    assert day == "2001-02-03"
    assert len(commit) == 8


def test_outside_a_clone_the_day_is_the_one_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert settings.read_commit(tmp_path) == ("", "")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "981173106")
    assert settings.read_commit(tmp_path) == ("", "2001-02-03")


def test_a_day_in_words() -> None:
    assert settings.in_words("2026-11-09") == "9 November 2026"
    assert settings.in_words("") == ""


def test_the_pages_colours_are_the_palette_s() -> None:
    from transformer_lib.palette import DARK, LIGHT

    css = settings.palette()
    for colours in (LIGHT, DARK):
        for name, value in colours.items():
            assert f"--tl-{name}:{value};" in css


# ----------------------------------------------------------------------------- theme


def asset(filename: str | None, **attributes: str) -> types.SimpleNamespace:
    return types.SimpleNamespace(filename=filename, attributes=attributes)


@pytest.mark.parametrize(
    ("given", "body", "wanted"),
    [
        (asset("sphinx-thebe.js"), "<p>thebe</p>", False),
        (asset(None, body='const THEBE_JS_URL = "x"'), "", False),
        (asset("clipboard.min.js"), '<div class="highlight">', True),
        (asset("clipboard.min.js"), "<p>highlight</p>", False),
        (asset("design-tabs.js"), '<div class="sd-tab-set">', True),
        (asset("design-tabs.js"), '<div class="sd-card">', False),
        (asset("sphinx-design.min.css"), "<p>sd-card</p>", False),
        (asset("course.js"), "", True),
        (asset(None, body="window.MathJax = {}"), "", True),
    ],
)
def test_a_page_loads_what_it_needs(given: object, body: str, wanted: bool) -> None:
    assert theme.needed(given, body) is wanted


def png(path: Path, width: int, height: int) -> Path:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    path.write_bytes(head)
    return path


def test_a_figure_has_the_size_that_it_was_drawn_for(tmp_path: Path) -> None:
    images = {"f.png": png(tmp_path / "f.png", 1020, 450)}  # 6.8 x 3 inches at 150 dpi
    body = theme.size_figures('<img alt="A" src="../_images/f.png" />', images)
    assert 'width="653" height="288"' in body
    assert 'loading="lazy"' in body
    assert 'alt="A"' in body


def test_an_image_of_unknown_size_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "f.png").write_bytes(b"no picture")
    body = '<img src="../_images/f.png" />'
    assert theme.size_figures(body, {"f.png": tmp_path / "f.png"}) == body
    assert theme.size_figures(body, {}) == body


def test_figures_are_drawn_at_the_resolution_that_sizes_assume() -> None:
    import matplotlib as mpl

    from transformer_lib.plotting import use_style

    with mpl.rc_context():
        use_style()
        assert mpl.rcParams["figure.dpi"] == theme.FIGURE_DPI


def test_a_chapter_s_number_stands_above_its_title() -> None:
    body = theme.set_off_number("<h1>12. Training<a>#</a></h1><h1>2. No</h1>")
    assert body.startswith('<h1><span class="tl-chapter">Chapter 12</span> Training')
    assert "<h1>2. No" in body
    assert theme.set_off_number("<h1>Notation</h1>") == "<h1>Notation</h1>"


def folded(first_line: str) -> str:
    return (
        '<summary>\n<p class="collapsed">Show the content</p>\n'
        '<p class="expanded">Hide the content</p>\n</summary>\n'
        '<div class="cell_input">\n<div class="highlight-python"><div class="highlight">'
        f'<pre><span></span><span class="c1">{first_line}</span>\n'
    )


def test_a_folded_solution_says_which_one_it_is() -> None:
    body = (
        folded("# Solution of exercise 2")
        + folded("# Data")
        + folded("# Solution of exercise 3")
    )
    named = theme.name_solutions(body)
    assert "Show a solution of exercise 2<" in named
    assert "Hide the solution of exercise 3<" in named
    assert named.count("Show the content") == 1


def test_a_formula_keeps_what_is_attached_to_it_on_its_line() -> None:
    def maths(text: str) -> str:
        return f'<span class="math notranslate nohighlight">\\({text}\\)</span>'

    alone = f"<p>Let {maths('n')} be <em>{maths('d')}</em> of</p>"
    assert theme.keep_together(alone) == alone
    attached = (
        f"<p>the ({maths('k')}), {maths('a')}-th and {maths('b')}/{maths('c')}</p>"
    )
    assert theme.keep_together(attached) == (
        f'<p>the <span class="tl-kept">({maths("k")}),</span> '
        f'<span class="tl-kept">{maths("a")}-th</span> and '
        f'<span class="tl-kept">{maths("b")}/{maths("c")}</span></p>'
    )


# ------------------------------------------------------------------- assets and pages


def test_without_npm_s_folder_the_build_says_what_to_do(tmp_path: Path) -> None:
    from sphinx.errors import ExtensionError

    with pytest.raises(ExtensionError, match="make book"):
        assets.join_mathjax(tmp_path)


def test_public_names_stand_under_the_address_that_one_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make(name: str, **values: object) -> types.ModuleType:
        module = types.ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    def short() -> None: ...

    def long() -> None: ...

    for function in (short, long):
        function.__module__ = "transformer_lib.fake.topic"
    topic = make("transformer_lib.fake.topic", __all__=["short", "long"])
    topic.short, topic.long = short, long  # type: ignore[attr-defined]
    package = make("transformer_lib.fake", __all__=["short"], short=short)
    found = api.addresses(package, [topic])
    assert [address for address, _ in found["transformer_lib.fake.topic"]] == [
        "transformer_lib.fake.short",
        "transformer_lib.fake.topic.long",
    ]


def test_a_name_that_does_not_exist_stays_a_broken_reference() -> None:
    assert api.find("transformer_lib.palette.LIGHT") is not None
    assert api.find("transformer_lib.palette.NIGHT") is None
    assert api.find("transformer_lib.pallette") is None


def test_a_changed_module_makes_its_page_stale(tmp_path: Path) -> None:
    text = "# X\n\n<!-- api: lib.part -->\n"
    folder = tmp_path / "lib" / "part"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("A = 1\n", encoding="utf-8")
    before = api.fingerprint(tmp_path, text)
    assert api.fingerprint(tmp_path, text) == before
    (folder / "b.py").write_text("", encoding="utf-8")
    assert api.fingerprint(tmp_path, text) != before


def test_the_book_names_every_package_of_the_library_on_a_page() -> None:
    pages = (ROOT / "book" / "api").glob("*.md")
    told = {
        name for page in pages for name in api.MARK.findall(page.read_text("utf-8"))
    }
    folders = (ROOT / "transformer_lib").iterdir()
    have = {
        f"transformer_lib.{path.name}"
        for path in folders
        if (path / "__init__.py").is_file()
    }
    assert told == have


def test_reading_time_counts_prose_and_cells_but_no_hidden_solutions() -> None:
    from reading_time import minutes

    words = "word " * 400
    cell = {"cell_type": "markdown", "metadata": {}, "source": [words]}
    hint = {**cell, "source": [f"<details>{words}</details>"]}
    solution = {**cell, "cell_type": "code", "metadata": {"tags": ["hide-cell"]}}
    assert minutes({"cells": [cell]}) == 2
    assert minutes({"cells": [cell, hint, solution]}) == 2
    code = {"cell_type": "code", "metadata": {}, "source": ["x"]}
    assert minutes({"cells": [cell] + 10 * [code]}) == 5
    assert minutes(json.loads('{"cells": []}')) == 1
