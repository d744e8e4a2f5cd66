"""The errata of the field say what the chapters print or the records hold."""

from __future__ import annotations

import json
import re
import statistics
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "book" / "errata.md"
RECORDS = ROOT / "transformer_lib" / "experiments" / "records"
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
LINK = re.compile(r"notebooks/(ch\d\d_\w+)\.ipynb#")


def entries(page: str) -> list[str]:
    """Each statement with what holds instead, from its heading to the next."""
    parts = re.split(r"^(?=##+ )", page, flags=re.MULTILINE)
    return [part for part in parts if part.startswith("### ")]


def shown(notebook: dict[str, Any]) -> set[str]:
    """Every number that a reader meets in a chapter."""
    texts = []
    for cell in notebook["cells"]:
        texts += [*cell["source"], json.dumps(cell["metadata"].get("mystnb", {}))]
        for output in cell.get("outputs", []):
            texts += output.get("text", [])
            for kind in ("text/plain", "text/html"):
                texts += output.get("data", {}).get(kind, [])
    return set(NUMBER.findall(" ".join(texts)))


def recorded(record: dict[str, Any]) -> set[str]:
    """Every number of a record, and the median of each measure, to three digits."""
    found = set()
    for values in record["values"].values():
        found |= {f"{abs(x):.3g}" for x in (*values, statistics.median(values))}
    return found


@cache
def backed_by(chapter: str) -> frozenset[str]:
    """The numbers of a chapter and of its topic's records."""
    notebook = (ROOT / "notebooks" / f"{chapter}.ipynb").read_text(encoding="utf-8")
    found = shown(json.loads(notebook))
    for path in RECORDS.glob(f"{chapter.partition('_')[2]}_*.json"):
        found |= recorded(json.loads(path.read_text(encoding="utf-8")))
    return frozenset(found)


def unbacked(entry: str) -> list[str]:
    """Numbers of an entry that none of the chapters it links to shows or recorded."""
    known = frozenset().union(*map(backed_by, LINK.findall(entry)))
    words = re.sub(r"\]\([^)]*\)|\{\w+\}`[^`]*`", "", entry)
    return [number for number in NUMBER.findall(words) if number not in known]


def test_every_number_stands_in_a_chapter_that_the_entry_links_to() -> None:
    every = entries(PAGE.read_text(encoding="utf-8"))
    assert len(every) >= 25
    for entry in every:
        title = entry.partition("\n")[0]
        assert LINK.search(entry), f"{title}: no chapter shows it"
        assert unbacked(entry) == [], title


def test_a_number_that_nothing_shows_is_found() -> None:
    entry = "### Said\n\nIt is 0.98 and not 0.9817.\n[here](../notebooks/ch02_lookup.ipynb#x)"
    assert unbacked(entry) == ["0.9817"]
