"""Run the benchmarks: ``python -m benchmarks`` (or ``make bench``).

Everybody's arithmetic is checked first, then each piece of work is measured. A whole run
writes JSON and, on a CPU, the page of the book; a part of it (``--only``, ``--sizes``,
``--precisions``, ``--quick``, or others that are not installed) is only printed, unless
``--out`` names a file. One thread, seven rounds, float32 and, where the processor has units
for it, bfloat16. Nothing else should run meanwhile.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import sys
from pathlib import Path

import torch

from benchmarks import report
from benchmarks.contestants import SIZES, missing
from benchmarks.work import WORK, Options, as_record, check


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--only", nargs="*", choices=list(WORK), default=list(WORK))
    parser.add_argument("--sizes", nargs="*", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--precisions", nargs="*", choices=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: does it run? no record"
    )
    parser.add_argument("--out", type=Path, help="where the JSON goes")
    choice = parser.parse_args()

    torch.set_num_threads(choice.threads)
    device = torch.device(choice.device)
    where = report.machine(device, choice.threads)
    precisions = choice.precisions
    if not precisions:
        precisions = ["fp32", "bf16"] if where["bfloat16 units"] else ["fp32"]
        if len(precisions) == 1:
            print("This processor has no bfloat16 units: bf16 is left out.")
    options = Options(
        device,
        2 if choice.quick else choice.rounds,
        ["tiny"] if choice.quick else choice.sizes,
        precisions,
        8 if choice.quick else choice.new_tokens,
        choice.quick,
    )
    print(json.dumps(where, indent=1))
    absent = missing()
    if absent:
        print(
            f"Not installed: {', '.join(absent)}. To measure against them: "
            "python -m pip install -r benchmarks/requirements.txt"
        )
    for sentence in check(options):
        print(sentence, flush=True)

    rows = []
    for name in choice.only:
        for row in WORK[name](options):
            rows.append(as_record(row))
            print(report.line(rows[-1]), flush=True)
    for verdict in report.verdicts(rows):
        word = "reached" if verdict["reached"] else "MISSED"
        print(
            f"{word}: {verdict['work']}, against {verdict['against']}: goal "
            f"{verdict['goal']}, measured {verdict['counts']:.2f}"
        )
    parts = (choice.only, choice.sizes, choice.precisions)
    whole = parts == (list(WORK), list(SIZES), None) and not (choice.quick or absent)
    if not whole and choice.out is None:
        return 0
    path = choice.out or report.RESULTS / f"{device.type}.json"
    report.write(rows, where, path)
    print(f"written: {path}")
    if choice.out is None and device.type == "cpu":
        record = json.loads(path.read_text(encoding="utf-8"))
        report.PAGE.write_text(report.page(record), encoding="utf-8")
        print(f"written: {report.PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
