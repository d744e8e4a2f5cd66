"""Ctrl-C and SIGTERM: heard at once, heeded when the step is done."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["StopSignals", "TrainingInterrupted"]


class TrainingInterrupted(Exception):  # noqa: N818 - nothing went wrong
    """Somebody asked the training to stop; what was done is kept.

    Attributes
    ----------
    signal_number
        What asked: ``signal.SIGINT`` or ``signal.SIGTERM``.
    step
        Number of updates that are done.
    """

    def __init__(self, signal_number: int, step: int, where: str) -> None:
        self.signal_number, self.step = signal_number, step
        name = signal.Signals(signal_number).name
        super().__init__(f"{name}: stopped after step {step}; {where}")


class StopSignals:
    """Remember SIGINT and SIGTERM while the ``with`` block runs.

    A second signal does not wait: it is a ``KeyboardInterrupt`` on the spot. Signals
    that the process was told to ignore stay ignored. Outside the main thread Python
    hears no signals, and this does nothing.
    """

    def __init__(self) -> None:
        self.heard: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before is not None and before != signal.SIG_IGN:
                    self._before[number] = before
                    signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.heard is not None:
            raise KeyboardInterrupt
        self.heard = number
