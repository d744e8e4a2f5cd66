"""Every page in a browser without network: quiet, self-contained, readable, accessible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa"]

# What axe cannot decide by itself ("incomplete") and a second look does not settle, and
# why it is no fault: (rule, part of the element's HTML) -> reason. All else fails.
SVG_TEXT = (
    "axe sees no ground behind an SVG's text; test_widgets.py computes the contrast"
)
UNDECIDED: dict[tuple[str, str], str] = {
    ("color-contrast", '<text class="tl-'): SVG_TEXT,
    ("color-contrast", '<tspan class="tl-'): SVG_TEXT,
    ("color-contrast", '<span class="sig-return-icon"'): (
        "the arrow before a return type, in the colour of the type behind it"
    ),
    ("color-contrast", '<span aria-hidden="true"'): (
        "a mark such as ○ beside words that say the same, in the colour of those words"
    ),
}
WIDE = 1280

RUN_AXE = """async ([context, rules]) => {
  const marked = context && document.querySelector(context);
  const told = await axe.run(marked ? context : document,
    {runOnly: rules, resultTypes: ["violations", "incomplete"]});
  for (const old of document.querySelectorAll("[data-doubt]"))
    old.removeAttribute("data-doubt");
  const plain = kind => told[kind].flatMap(rule => rule.nodes.map(node => {
    if (kind === "incomplete" && node.target.length === 1)
      document.querySelector(node.target[0])?.setAttribute("data-doubt", "");
    return {rule: rule.id, html: node.html.slice(0, 160),
      why: node.any.concat(node.all, node.none).map(check => check.message).join("; ")};
  }));
  return {violations: plain("violations"), doubts: plain("incomplete")};
}"""
SIDEBAR_TO_TOP = """() => document.querySelectorAll(
  '.bd-sidebar-primary, .bd-sidebar-primary *').forEach(e => { e.scrollTop = 0; })"""
# Code has thousands of spans and a dozen colours. Of the spans that look alike and lie in
# boxes that look alike one is left; the others become plain text. Links stay.
THIN = """() => {
  const seen = new Set();
  for (const span of document.querySelectorAll("pre span, dt.sig span")) {
    if (span.id || span.title || span.querySelector("a, [id]")) continue;
    const chain = [];
    for (let e = span; e && e.localName !== "section"; e = e.parentElement)
      chain.push(e.localName + "." + e.className);
    const key = chain.join(" ");
    if (seen.has(key)) span.replaceWith(...span.childNodes);
    else seen.add(key);
  }
  for (const box of document.querySelectorAll("pre, dt.sig")) box.normalize();
}"""

# Elements that are hidden from sight on purpose, for ears only.
FOR_EARS = (
    ".tl-for-ears, .tl-hidden, mjx-assistive-mml, mjx-assistive-mml *, "
    "table.tl-map thead"  # on narrow screens the map is a list without a head
)
CUT = """forEars => {
  const cut = [];
  for (const element of document.querySelectorAll("body *")) {
    if (element.closest(forEars) || element.closest("svg")) continue;
    const style = getComputedStyle(element);
    if (!["hidden", "clip"].includes(style.overflowX)) continue;
    if (style.visibility === "hidden" || !element.getClientRects().length) continue;
    if (element.clientWidth === 0) continue;
    if (element.scrollWidth > element.clientWidth + 1)
      cut.push(`${element.tagName}.${element.className}: ${element.scrollWidth} px in ` +
        `${element.clientWidth}: ${element.textContent.trim().slice(0, 60)}`);
  }
  return cut;
}"""
BEYOND = """() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]"""


def undecided(found: list[dict[str, str]]) -> list[dict[str, str]]:
    """What axe left open and we have no reason for."""
    return [
        node
        for node in found
        if not any(
            rule == node["rule"] and part in node["html"] for rule, part in UNDECIDED
        )
    ]


def quiet(visit: Any) -> None:
    """Nothing was asked of another host, and nothing complained, to the page's end."""
    visit.page.mouse.wheel(0, 100_000)  # what loads late loads now
    visit.page.wait_for_load_state("networkidle")
    visit.settle()
    assert visit.off_site == []
    assert visit.errors == []


def axe_faults(visit: Any, looks: list[tuple[int, str]]) -> list[str]:
    """Violations and unexplained doubts of a page at widths and in themes."""
    if not AXE.is_file():
        pytest.fail(f"{AXE} is missing: run `make book`, or `.venv/bin/npm ci`")
    page = visit.page
    page.evaluate(AXE.read_text(encoding="utf-8"))
    page.evaluate(THIN)
    page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    faults = []
    for width, theme in looks:
        page.set_viewport_size({"width": width, "height": 900})
        visit.set_theme(theme)
        page.evaluate(SIDEBAR_TO_TOP)
        told = page.evaluate(RUN_AXE, [None, RULES])
        found, doubts = told["violations"], undecided(told["doubts"])
        if width < WIDE and any(node["rule"] == "color-contrast" for node in doubts):
            # A colour beyond the edge of a table that scrolls cannot be seen: look once
            # more at these elements where there is room for the whole table.
            page.set_viewport_size({"width": WIDE, "height": 900})
            visit.settle()
            again = page.evaluate(RUN_AXE, ["[data-doubt]", ["color-contrast"]])
            doubts = [node for node in doubts if node["rule"] != "color-contrast"]
            doubts += undecided(again["doubts"])
            found += again["violations"]
        faults += [f"{theme}, {width} px: {node}" for node in found + doubts]
    return faults


def test_a_page_over_http_is_quiet_and_whole_at_every_width(
    open_page: Callable[..., Any], page_path: str
) -> None:
    """No other host, no error, every equation set; nothing scrolls sideways or is cut."""
    visit = open_page(page_path, width=360)
    page = visit.page
    quiet(visit)
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    errors = page.locator("mjx-merror, [data-mjx-error]").all_text_contents()
    assert errors == []
    unread = page.locator(".math:not(:has(mjx-container))").all_text_contents()
    assert unread == []

    page.evaluate(
        "() => { for (const d of document.querySelectorAll('details')) d.open = true; }"
    )
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        visit.settle()
        inside, screen = page.evaluate(BEYOND)
        assert inside <= screen, f"scrolls sideways at {width} px"
        assert page.evaluate(CUT, FOR_EARS) == [], f"cut at {width} px"


@pytest.mark.timeout(600)
def test_a_page_from_disk_is_quiet_and_accessible(
    open_page: Callable[..., Any], page_path: str
) -> None:
    """Colours depend on the theme and the frame on the width: each pair is seen once."""
    visit = open_page(page_path, theme="dark", disk=True)
    quiet(visit)
    assert visit.page.evaluate("document.documentElement.dataset.theme") == "dark"
    looks = [(360, "dark"), (WIDE, "light")]
    if page_path in ("book/intro.html", "search.html"):
        looks += [(WIDE, "dark"), (360, "light")]
    faults = axe_faults(visit, looks)
    assert not faults, "\n".join(faults)


# ------------------------------------------------ the checks themselves can find faults


def test_the_check_for_cut_text_finds_a_cut_equation(
    open_page: Callable[..., Any],
) -> None:
    visit = open_page("book/notation.html", width=360)
    visit.page.evaluate(
        "() => document.querySelector('article').insertAdjacentHTML('beforeend',"
        '\'<div style="overflow: hidden; width: 300px"><div style="width: 900px">\''
        "+ 'a long equation</div></div>')"
    )
    cut = visit.page.evaluate(CUT, FOR_EARS)
    assert len(cut) == 1
    assert "900 px in 300" in cut[0]


def test_axe_finds_a_planted_violation_and_a_planted_doubt(
    open_page: Callable[..., Any],
) -> None:
    visit = open_page("404.html")
    visit.page.evaluate(
        "() => document.querySelector('article').insertAdjacentHTML('afterbegin',"
        "'<button id=\"nameless\"></button>'"
        '+ \'<p id="unseen" style="color: #fff; background: #fff">unseen</p>\')'
    )
    faults = axe_faults(visit, [(WIDE, "light")])
    assert len(faults) == 2, faults
    assert any("button-name" in fault for fault in faults)
    assert any("unseen" in fault for fault in faults)


def test_axe_finds_a_colour_of_code_that_cannot_be_read(
    open_page: Callable[..., Any],
) -> None:
    """Though of the spans that look alike it is shown one only."""
    visit = open_page("notebooks/ch02_lookup.html", equations=False)
    assert visit.page.locator(".highlight span.kn").count() > 5
    visit.page.add_style_tag(
        content=".highlight span.kn { color: #fff0f0 !important; }"
    )
    faults = axe_faults(visit, [(WIDE, "light")])
    assert 1 <= len(faults) <= 3, faults
    assert all("color-contrast" in f and 'class="kn"' in f for f in faults)


def test_what_ears_are_told_of_an_equation_takes_no_room(
    open_page: Callable[..., Any],
) -> None:
    """How wide its hidden text is depends on the fonts of the machine: make it wide."""
    visit = open_page("notebooks/ch02_lookup.html", width=360)
    hidden = visit.page.locator("mjx-assistive-mml:not([display=block]) math")
    assert hidden.count() > 20
    visit.page.add_style_tag(content="mjx-assistive-mml math { font-size: 60px; }")
    inside, screen = visit.page.evaluate(BEYOND)
    assert inside <= screen


def test_a_request_to_another_host_is_seen_and_refused(
    open_page: Callable[..., Any],
) -> None:
    visit = open_page("book/notation.html")
    visit.page.evaluate(
        "() => new Promise(done => { const image = new Image();"
        "image.onload = image.onerror = done;"
        "image.src = 'https://elsewhere.invalid/pixel.png'; })"
    )
    assert visit.off_site == ["https://elsewhere.invalid/pixel.png"]
