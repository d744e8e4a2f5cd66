"""Every term of the glossary is linked from the place where a reader first meets it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "book" / "glossary.md"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("ch*.ipynb"))
SCALE = ROOT / "book" / "training_at_scale.md"
HERE = "../book/glossary.md"
LINK = re.compile(r"\[[^\[\]]+\]\(\.\./book/glossary\.md#([\w-]+)\)")

# How the text says a term, where it is not the entry's name with or without an s.
SAID = {
    "recurrent neural network": r"recurrent (?:neural )?networks?",
    "vanishing and exploding gradient": r"gradient fades|vanish\w*|explod\w*",
    "query, key, value": r"query|queries",
    "kernel regression": r"\[Nadaraya\]",
    "attention weight": r"(?<=into )\[?weights",
    "core of attention": r"its core",
    "exact match": r"all be right",
    "hidden state": r"\*\*state\*\*|hidden states?",
    "interaction distance": r"(?<=in the )\[?distance",
    "scaled dot-product attention": r"\*Attention\*",
    "sequential steps": r"products that wait|sequential steps?",
    "one-hot vector": r"one-hot",
    "tied embeddings": r"\*\*tied\*\*|tied embeddings",
    "encoder and decoder": r"decoders?|encoders?",
    "absolute and relative positions": r"\*absolute\*|absolute positions?",
    "sinusoidal positions": r"sinusoid\w*",
    "learned positions": r"learned (?:positions?|table)",
    "rotary positions": r"rotary positions?|RoPE",
    "layer normalisation": r"layer normalisation|LayerNorm",
    "batch normalisation": r"batch normalisation|BatchNorm",
    "pre-norm and post-norm": r"pre-norm|post-norm",
    "feed-forward network": r"feed-forward (?:networks?|layers?)",
    "exclusive or": r"exclusive or|XOR",
    "leaving one out": r"leaving one out|remove one part",
    "search error and model error": r"search errors?|mistakes? of the search",
    "planted fault": r"plant(?:ed)? (?:the )?faults?",
    "scan": r"scans?|scanned",
    "FLOP": r"FLOPs?",
}

# Words that also have an everyday sense: they must be linked, and may occur before.
EVERYDAY = {"bucket", "chance", "checkpoint", "memory", "plateau", "score", "shift"}


class Place(NamedTuple):
    """Where something stands; places compare in the order of reading."""

    chapter: int
    cell: int
    letter: int


def terms() -> list[str]:
    """Headings of the glossary's entries."""
    return re.findall(r"^### (.+)$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)


def anchor(term: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", term.lower()).replace(" ", "-")


def blank(text: str) -> str:
    """The prose alone, letter for letter: formulas, code, headings, addresses are gaps."""
    text, _, _ = text.partition("### Further reading")
    for gone in (
        r"\$\$.*?\$\$",
        r"^#+ .*?$",
        r"\$[^$\n]*\$",
        r"`[^`\n]*`",
        r"\]\([^)]*\)",
    ):
        flags = re.DOTALL if gone.startswith(r"\$\$") else re.MULTILINE
        text = re.sub(gone, lambda found: " " * len(found.group()), text, flags=flags)
    return text


def prose(notebooks: list[dict[str, Any]]) -> Iterator[tuple[int, int, str]]:
    """Chapter, cell and text of each Markdown cell, in the order of reading."""
    for chapter, notebook in enumerate(notebooks):
        for number, cell in enumerate(notebook["cells"]):
            if cell["cell_type"] == "markdown":
                yield chapter, number, "".join(cell["source"])


def first_links(notebooks: list[dict[str, Any]]) -> dict[str, Place]:
    """Anchor -> the place of the first link to it."""
    found: dict[str, Place] = {}
    for chapter, cell, text in prose(notebooks):
        for link in LINK.finditer(text):
            found.setdefault(link.group(1), Place(chapter, cell, link.start()))
    return found


def first_use(term: str, notebooks: list[dict[str, Any]]) -> Place | None:
    """Where the text first says a term."""
    said = SAID.get(term, re.escape(term) + "s?")
    pattern = re.compile(rf"(?<![\w-])(?:{said})(?![\w-])", re.IGNORECASE)
    for chapter, cell, text in prose(notebooks):
        found = pattern.search(blank(text))
        if found:
            return Place(chapter, cell, found.start())
    return None


def faults(names: list[str], notebooks: list[dict[str, Any]]) -> list[str]:
    """Terms without a link, and terms that are said before their link."""
    links, found = first_links(notebooks), []
    for term in names:
        link = links.get(anchor(term))
        if link is None:
            found.append(f"{term}: no chapter links to glossary.md#{anchor(term)}")
            continue
        used = first_use(term, notebooks)
        if term not in EVERYDAY and used is not None and used < link:
            found.append(f"{term}: said at {used}, linked only at {link}")
    return found


def read() -> list[dict[str, Any]]:
    """The chapters, and behind them the page that the last one leads to."""
    chapters = [json.loads(path.read_text(encoding="utf-8")) for path in NOTEBOOKS]
    page = SCALE.read_text(encoding="utf-8").replace("](glossary.md#", f"]({HERE}#")
    return [*chapters, {"cells": [{"cell_type": "markdown", "source": [page]}]}]


def test_every_term_is_linked_from_its_first_use() -> None:
    assert len(terms()) >= 75
    assert faults(terms(), read()) == []


def test_every_link_leads_to_a_term() -> None:
    assert set(first_links(read())) <= {anchor(term) for term in terms()}


def test_the_lists_above_name_terms_that_exist() -> None:
    assert set(SAID) | EVERYDAY <= set(terms())


def notebook(*texts: str) -> dict[str, Any]:
    return {"cells": [{"cell_type": "markdown", "source": [text]} for text in texts]}


def test_a_term_that_is_said_too_early_or_never_linked_is_found() -> None:
    linked = "An [embedding](../book/glossary.md#embedding) is a table."
    sound = [notebook("## Embeddings", linked), notebook("Embeddings again.")]
    assert faults(["embedding"], sound) == []
    assert len(faults(["embedding"], [notebook("An embedding.", linked)])) == 1
    assert len(faults(["embedding"], [notebook("An embedding.")])) == 1
    assert (
        faults(["embedding"], [notebook("`embedding(x)` and $embedding$", linked)])
        == []
    )
