"""The command in one of several processes: ``torchrun watched.py FOLDER ARGUMENTS``.

Whatever this process changes on the disk below ``FOLDER/out`` is noted, as lines of
``FOLDER/changes-RANK``. The variable ``FAULT`` lets process 1 ``die`` or ``raise`` in its
fourth update.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
RANK = os.environ["RANK"]
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link")


def watch() -> None:
    notes = os.open(FOLDER / f"changes-{RANK}", os.O_WRONLY | os.O_CREAT)

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int) or not flags & WRITING:
                return
        elif event in CHANGES:
            path = arguments[0]
        else:
            return
        if str(FOLDER / "out") in os.fsdecode(path):
            os.write(notes, f"{event} {os.fsdecode(path)}\n".encode())

    sys.addaudithook(hear)


def plant(fault: str) -> None:
    from transformer_lib.training import loop

    update = loop.Trainer._update

    def faulty(trainer: loop.Trainer) -> None:
        if trainer.step == 3:
            (FOLDER / "gone").touch()
            if fault == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ZeroDivisionError("planted")
        update(trainer)

    loop.Trainer._update = faulty  # type: ignore[method-assign]


if __name__ == "__main__":
    watch()
    if RANK == "1" and "FAULT" in os.environ:
        plant(os.environ["FAULT"])
    del sys.argv[1]
    from transformer_lib.training.command import program

    program()
