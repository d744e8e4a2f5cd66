"""The topic-by-folder table of CONTRIBUTING.md: ``python tools/topics.py`` writes it.

A topic has one name in every folder that has something for it. The table shows which
folders do; a test compares it with the tree.
"""

from __future__ import annotations

import re
from pathlib import Path

import environment

ROOT = environment.ROOT
TOPICS = (
    "recurrence",
    "lookup",
    "attention",
    "positions",
    "feed_forward",
    "masks",
    "multi_head",
    "normalization",
    "encoder_decoder",
    "decoding",
    "cost",
    "training",
)
FOLDERS = ("reference", "nn", "experiments", "plotting", "widgets", "exercises")
BEGIN, END = "<!-- topic table: begin -->", "<!-- topic table: end -->"
# What a topic might be called by mistake, and its one name.
OTHER_NAMES = {
    "rnn": "recurrence",
    "lstm": "recurrence",
    "recurrent": "recurrence",
    "softmax": "lookup",
    "embedding": "lookup",
    "embeddings": "lookup",
    "self_attention": "attention",
    "position": "positions",
    "positional": "positions",
    "positional_encoding": "positions",
    "rope": "positions",
    "ffn": "feed_forward",
    "feedforward": "feed_forward",
    "mlp": "feed_forward",
    "mask": "masks",
    "masking": "masks",
    "multihead": "multi_head",
    "heads": "multi_head",
    "norm": "normalization",
    "layer_norm": "normalization",
    "normalisation": "normalization",
    "transformer": "encoder_decoder",
    "cross_entropy": "training",
    "loss": "training",
}


def has(root: Path, folder: str, topic: str) -> bool:
    """Whether the folder has a module of that topic."""
    return (root / "transformer_lib" / folder / f"{topic}.py").is_file()


def notebook(root: Path, topic: str) -> str:
    """The topic's notebook as a link, empty if it is not written yet."""
    found = sorted((root / "notebooks").glob(f"ch??_{topic}.ipynb"))
    return f"[{found[0].stem[:4]}](notebooks/{found[0].name})" if found else ""


def tests(root: Path, topic: str) -> str:
    """The folders of tests that have a file for the topic."""
    found = sorted((root / "tests").glob(f"*/test_{topic}.py"))
    return ", ".join(path.parent.name for path in found)


def table(root: Path = ROOT) -> str:
    """The table in Markdown; a cell names the file where a folder has the topic."""
    head = ["topic", "notebook", *(f"`{folder}/`" for folder in FOLDERS), "tests in"]
    lines = [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for topic in TOPICS:
        cells = [f"`{topic}`", notebook(root, topic)]
        cells += ["yes" if has(root, folder, topic) else "" for folder in FOLDERS]
        cells.append(tests(root, topic))
        lines.append(re.sub(r" +", " ", "| " + " | ".join(cells) + " |"))
    return "\n".join(lines)


def put(text: str, new: str) -> str:
    """The page with the table between its two marks."""
    replaced, found = re.subn(
        f"(?s){BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{new}\n{END}", text
    )
    if found != 1:
        raise environment.Stop(
            f"CONTRIBUTING.md needs the marks {BEGIN} and {END} once."
        )
    return replaced


def main() -> int:
    page = ROOT / "CONTRIBUTING.md"
    before = page.read_text(encoding="utf-8")
    after = put(before, table())
    page.write_text(after, encoding="utf-8")
    environment.say(
        "CONTRIBUTING.md: " + ("written" if after != before else "up to date")
    )
    return 0


if __name__ == "__main__":
    environment.finish(main)
