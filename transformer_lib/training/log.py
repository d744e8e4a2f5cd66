"""What happened in training, one JSON object per line, and where it happened."""

import functools
import json
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from transformer_lib.training.checkpoint import explained, write_whole

__all__ = ["MetricsLog", "environment", "read_metrics"]


class MetricsLog:
    """A file of JSON lines; each line is on its way to the disk when written.

    Parameters
    ----------
    path
        The file; its folder must exist.

    Examples
    --------
    >>> import tempfile
    >>> log = MetricsLog(Path(tempfile.mkdtemp()) / "metrics.jsonl")
    >>> log.begin([{"step": 50, "loss": 2.5}])
    >>> log.write({"step": 100, "loss": float("nan")})
    >>> read_metrics(log.path)
    [{'step': 50, 'loss': 2.5}, {'step': 100, 'loss': None}]
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Let the file hold these lines and no others, in one stroke.

        A run that is resumed has forgotten what came after its checkpoint; the file
        forgets it too, and a torn last line with it.

        Raises
        ------
        OSError
            If it cannot be written; the old lines stay.
        """
        write_whole(self.path, b"".join(map(_line, entries)))

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one line.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        try:
            with self.path.open("ab") as file:
                file.write(_line(entry))
        except OSError as error:
            raise explained(error, self.path) from error


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the lines; a last one that was torn off by a crash is left out.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a line before the last is no JSON object.
    """
    lines = path.read_bytes().split(b"\n")
    entries = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
        except ValueError:
            if number == len(lines):  # empty, or torn
                break
            raise ValueError(f"{path}: line {number} is no JSON") from None
        if not isinstance(entry, dict):
            raise ValueError(f"{path}: line {number} is no JSON object")
        entries.append(entry)
    return entries


def environment(device: torch.device) -> dict[str, Any]:
    """Tell on what a run runs, for the record.

    Parameters
    ----------
    device
        Where the model is.

    Returns
    -------
    facts
        ``device``, ``threads``, ``versions`` and, in a git clone, ``commit``.
    """
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = f"{device.type} ({platform.machine()}, {os.cpu_count()} cores)"
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "versions": _versions(),
        "commit": _commit(),
    }


@functools.cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for package in ("transformer-lib", "numpy", "safetensors"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


@functools.cache
def _commit() -> str | None:
    """The commit of the clone that this file lies in; ``None`` elsewhere."""
    here = Path(__file__).resolve().parent
    if not (here.parents[1] / ".git").exists():
        return None
    command = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--dirty"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _line(entry: Mapping[str, Any]) -> bytes:
    text = json.dumps(_finite(entry), ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def _finite(value: Any) -> Any:
    """NaN and infinity are no JSON: ``None`` stands for them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
