"""Every moment at which a process touches the disk, so that a test can stop it there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Events:
    """Count the writes, flushes, renames and removals; call ``act`` at each.

    A write and a removal call it half-way: with half of the bytes written, or one of
    the files removed.
    """

    def __init__(self, act: Callable[[int, str], None]) -> None:
        self._act = act
        self.names: list[str] = []

    def install(self, patch: Callable[[Any, str, Any], None]) -> None:
        """Put the counting functions in place; ``patch`` is like ``setattr``."""
        replace, fsync, rmtree = os.replace, os.fsync, shutil.rmtree
        opened, mkdir = Path.open, Path.mkdir

        def count_replace(source: Any, target: Any) -> None:
            self._count(f"rename {_plain(source)} to {_plain(target)}")
            replace(source, target)

        def count_fsync(handle: int) -> None:
            self._count(f"flush {_plain(Path(f'/proc/self/fd/{handle}').readlink())}")
            fsync(handle)

        def count_rmtree(path: Any, *args: Any, **options: Any) -> None:
            if options.get("ignore_errors") or not Path(path).exists():
                rmtree(path, *args, **options)
                return
            self._count(f"remove {_plain(path)}")
            files = sorted(p for p in Path(path).rglob("*") if p.is_file())
            if files:
                files[0].unlink()
            self._count(f"remove {_plain(path)}, half-way")
            rmtree(path, *args, **options)

        def count_open(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
            file = opened(path, mode, *args, **options)
            return file if "r" in mode else _Counting(file, path, self._count)

        def count_mkdir(path: Path, *args: Any, **options: Any) -> None:
            self._count(f"make {_plain(path)}")
            mkdir(path, *args, **options)

        patch(os, "replace", count_replace)
        patch(os, "fsync", count_fsync)
        patch(shutil, "rmtree", count_rmtree)
        patch(Path, "open", count_open)
        patch(Path, "mkdir", count_mkdir)

    def _count(self, name: str) -> None:
        self.names.append(name)
        self._act(len(self.names) - 1, name)


class _Counting:
    def __init__(self, file: Any, path: Path, count: Callable[[str], None]) -> None:
        self._file, self._path, self._count = file, path, count

    def write(self, data: bytes) -> int:
        half = len(data) // 2
        self._file.write(data[:half])
        self._file.flush()
        self._count(f"write {_plain(self._path)}")
        self._file.write(data[half:])
        return len(data)

    def __enter__(self) -> _Counting:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _plain(path: Any) -> str:
    """The name without the number of the step."""
    return re.sub(r"\d{8}", "N", Path(path).name)
