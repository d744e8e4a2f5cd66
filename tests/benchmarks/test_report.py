"""The record, its verdicts, and the page that is made from it."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import report


def row(work: str, who: str, **changes: Any) -> dict[str, Any]:
    plain = {
        "work": work,
        "who": who,
        "value": 1234.56,
        "unit": "tokens/s",
        "ratio": None,
        "over_best": None,
        "utilisation": None,
        "seconds": [],
    }
    return plain | changes


RECORD = {
    "machine": {
        "device": "a processor",
        "instructions": "AVX2",
        "bfloat16 units": False,
        "threads": 1,
        "versions": {"torch": "2.0"},
    },
    "rows": [
        row(
            "train base fp32", "nn.Transformer", ratio=[1.0, 1.0, 1.0], utilisation=0.5
        ),
        row(
            "train base fp32",
            "ours",
            ratio=[1.4, 1.3, 1.5],
            over_best=[1.2, 1.1, 1.3],
            utilisation=0.7,
        ),
        row(
            "kept for backward base fp32 n=1024",
            "ours",
            unit="MiB",
            ratio=[0.6, 0.6, 0.6],
        ),
    ],
}


def test_the_end_of_the_interval_that_is_against_us_counts() -> None:
    found = report.verdicts(RECORD["rows"])
    assert [(v["work"], v["against"], v["counts"], v["reached"]) for v in found] == [
        ("train base fp32", "nn.Transformer", 1.3, True),
        ("train base fp32", "the best other", 1.1, False),
        ("kept for backward base fp32 n=1024", "nn.Transformer", 0.6, True),
    ]


def test_the_page_tells_the_machine_and_every_row() -> None:
    text = report.page(RECORD)
    assert "a processor, 1 thread, instructions AVX2" in text
    assert "no units for bfloat16" in text
    assert "| train base fp32 | 1.40 (1.30 to 1.50) | 1.20 (1.10 to 1.30) |" in text
    assert "| base fp32 | ours | 1,234.6 | 70% | 1.40 (1.30 to 1.50) |" in text
    assert "| base fp32 | nn.Transformer | 1,234.6 | 50% | 1.00 |" in text


def test_the_page_of_the_book_is_what_the_record_says() -> None:
    assert not (report.RESULTS / "cuda.json").exists(), "the page says: no GPU yet"
    record = json.loads((report.RESULTS / "cpu.json").read_text(encoding="utf-8"))
    assert report.PAGE.read_text(encoding="utf-8") == report.page(record)
    assert record["machine"]["threads"] == 1
    for entry in record["rows"]:
        assert len(entry["seconds"]) >= 7 or entry["unit"] == "MiB"
