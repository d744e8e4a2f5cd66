"""Each entry of the bibliography is used, and each paper that a chapter links to has one."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENTRY = re.compile(r"@\w+\{(\S+),\n(.*?)\n\}", re.DOTALL)
FIELD = re.compile(r"^\s*(\w+)\s*=\s*\{(.*)\},?$", re.MULTILINE)
PAPER = re.compile(r"\]\((https://(?:doi\.org|arxiv\.org)/(?:[^\s()]|\([^\s()]*\))+)\)")


def entries(bibliography: str) -> dict[str, dict[str, str]]:
    """Key -> fields of each entry."""
    return {
        key: dict(FIELD.findall(fields))
        for key, fields in ENTRY.findall(bibliography.replace("\r", ""))
    }


def addresses(entry: dict[str, str]) -> set[str]:
    """Where the work can be found."""
    found = {entry["url"]} if "url" in entry else set()
    return found | ({f"https://doi.org/{entry['doi']}"} if "doi" in entry else set())


def pages() -> str:
    """What chapters and pages say."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md")]
    for path in (ROOT / "notebooks").glob("ch*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            texts.append("".join(cell["source"]))
    return "\n".join(texts)


def docstrings() -> str:
    """What the library's pages say, in one line, since a reference may be broken."""
    files = sorted((ROOT / "transformer_lib").rglob("*.py"))
    return " ".join(" ".join(p.read_text(encoding="utf-8").split()) for p in files)


def unused(bibliography: str, said: str, documented: str) -> list[str]:
    """Keys of the entries that neither a page links to nor a docstring names."""
    found = []
    for key, entry in entries(bibliography).items():
        if any(address in said for address in addresses(entry)):
            continue
        author = re.escape(entry["author"].partition(",")[0])
        title = re.escape(re.sub(r"[{}]", "", entry["title"]))
        named = rf"\b{author}(?: and [\w-]+| et al\.)? {entry['year']}\b|{title}"
        if not re.search(named, documented):
            found.append(key)
    return found


BIBLIOGRAPHY = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")


def test_every_entry_is_used() -> None:
    assert len(entries(BIBLIOGRAPHY)) == BIBLIOGRAPHY.count("\n@") + 1
    assert unused(BIBLIOGRAPHY, pages(), docstrings()) == []


def test_every_entry_says_where_the_work_can_be_found() -> None:
    lost = [key for key, entry in entries(BIBLIOGRAPHY).items() if not addresses(entry)]
    assert lost == []


def test_every_paper_that_a_page_links_to_has_an_entry() -> None:
    known = {a for entry in entries(BIBLIOGRAPHY).values() for a in addresses(entry)}
    linked = set(PAPER.findall(pages()))
    assert len(linked) > 50
    assert sorted(linked - known) == []


def test_an_entry_that_nobody_uses_is_found() -> None:
    planted = (
        "@misc{nobody1999,\n  author = {Nobody, A.},\n  title  = {On What Nobody Names},\n"
        "  year   = {1999},\n  url    = {https://arxiv.org/abs/0000.00000},\n}\n"
    )
    assert unused(planted, pages(), docstrings()) == ["nobody1999"]
    assert unused(planted, "[x](https://arxiv.org/abs/0000.00000)", "") == []
    assert unused(planted, "", "See Nobody et al. 1999.") == []
