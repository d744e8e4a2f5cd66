"""Results over many seeds, written once by a named command and read by notebooks and tests.

A record is ``<name>.json`` in this folder: the command that made it, the versions, the
seeds, and for each measure its values in the order of the seeds. The notebooks show
median and range; the tests run one seed and compare it with the recorded range.
"""

import json
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib import metadata, resources
from pathlib import Path
from typing import Any

__all__ = ["load", "median", "spread", "write"]


def load(name: str) -> dict[str, Any]:
    """Read the record ``name``.

    Returns
    -------
    dict
        Keys ``command``, ``versions``, ``seeds`` and ``values`` (measure -> list with
        one number per seed).

    Raises
    ------
    ValueError
        If there is no record of that name; the message lists those there are.
    """
    folder = resources.files(__package__)
    file = folder / f"{name}.json"
    if not file.is_file():
        have = sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".json"))
        raise ValueError(
            f"name: no record {name!r}; there are {', '.join(have) or 'none'}"
        )
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return record


def write(
    name: str, command: str, seeds: Sequence[int], values: Mapping[str, Sequence[float]]
) -> Path:
    """Write a record beside this file and return its path.

    Parameters
    ----------
    name
        File name without ending, ``<topic>_<claim>``.
    command
        The command line that makes this record again.
    seeds
        The seeds, one run each.
    values
        Measure -> one number per seed, in the order of ``seeds``.

    Raises
    ------
    ValueError
        If a measure does not hold one number per seed.
    """
    for measure, numbers in values.items():
        if len(numbers) != len(seeds):
            raise ValueError(
                f"values[{measure!r}]: got {len(numbers)} numbers, wanted {len(seeds)}, one per seed"
            )
    record = {
        "command": command,
        "versions": {
            "python": platform.python_version(),
            **{p: metadata.version(p).split("+")[0] for p in ("numpy", "torch")},
        },
        "seeds": list(seeds),
        "values": {m: [round(float(v), 6) for v in values[m]] for m in values},
    }
    path = Path(str(resources.files(__package__))) / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path


def median(record: Mapping[str, Any], measure: str) -> float:
    """Median over the seeds of one measure of a record."""
    return float(statistics.median(record["values"][measure]))


def spread(record: Mapping[str, Any], measure: str) -> tuple[float, float]:
    """Lowest and highest value over the seeds of one measure of a record."""
    numbers = record["values"][measure]
    return float(min(numbers)), float(max(numbers))
