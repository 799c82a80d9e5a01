"""Handle Ctrl-C, SIGTERM and a hang-up: the first lets a step finish and save, the second ends at once.

with stop_signals() as stop:
    ...  # here, a signal raises Interrupted
    with stop.deferred():
        while not stop.requested:
            step()
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

HANG_UP = getattr(signal, "SIGHUP", None)  # which Windows does not have
SIGNALS = tuple(number for number in (signal.SIGINT, signal.SIGTERM, HANG_UP) if number is not None)


class Interrupted(KeyboardInterrupt):
    """Raised when a person or the system asked this process to stop.

    Attributes:
        signal_number: number of the signal.
        at_once: whether to stop without waiting for anything.
    """

    def __init__(self, signal_number: int, at_once: bool) -> None:
        super().__init__()
        self.signal_number, self.at_once = signal_number, at_once


class StopRequest:
    """Whether to stop after the current step.

    Args:
        on_request: called in the signal handler when the current step is to be the last; it must not print,
            because the signal may have interrupted a print.

    Attributes:
        signal_number: number of the signal received; 0 while there is none.
    """

    def __init__(self, on_request: Callable[[], None] = lambda: None) -> None:
        self._on_request = on_request
        self.signal_number = 0
        self._defers = False

    @property
    def requested(self) -> bool:
        """Return whether to stop after the current step."""
        return self.signal_number != 0

    def raise_if_requested(self) -> None:
        """Raise Interrupted if a signal was received."""
        if self.requested:
            raise Interrupted(self.signal_number, at_once=False)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer the first signal within the block: the caller checks `requested` after each step."""
        self._defers = True
        try:
            yield
        finally:
            self._defers = False

    def receive(self, signal_number: int, _frame: FrameType | None = None) -> None:
        """Handle a signal: record it if it is deferred, else raise Interrupted."""
        first, self.signal_number = not self.requested, signal_number
        if not (first and self._defers):
            raise Interrupted(signal_number, at_once=True)
        self._on_request()


@contextlib.contextmanager
def stop_signals(on_request: Callable[[], None] = lambda: None) -> Iterator[StopRequest]:
    """Handle the signals until the end of the block; do nothing outside the main thread.

    Args:
        on_request: see `StopRequest`.
    """
    stop = StopRequest(on_request)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    with handled_by(stop.receive):
        yield stop


@contextlib.contextmanager
def handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let a function handle the signals until the end of the block; to be used in the main thread.

    A hang-up remains ignored where it was, as for a process started by nohup.
    """
    is_ignored = HANG_UP is not None and signal.getsignal(HANG_UP) == signal.SIG_IGN
    numbers = [number for number in SIGNALS if number != HANG_UP or not is_ignored]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
