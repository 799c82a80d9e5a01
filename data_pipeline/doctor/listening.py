"""Listening to many files on all cores, in processes that a bad file may crash or hang without harm."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from data_pipeline.doctor.checkup import Heard, listen
from data_pipeline.work import available_cores

LIMIT_S = 30.0  # for one file; the longest that is decoded takes a few seconds
START_LIMIT_S = 120.0
FILES_AT_ONCE = 64  # handed over together, because a message costs as much as a file
TELL_EVERY_S = 0.1
MOST_WORKERS = 60  # Windows waits for no more


def listen_to_all(
    paths: Sequence[str], num_workers: int | None = None, limit_s: float = LIMIT_S
) -> Iterator[tuple[int, Heard]]:
    """Listen to files in parallel; yields the place of each and what was heard, as they are done.

    A file at which the decoder crashes or exceeds its time is told as such, and the others go on.

    Args:
        paths: of the files.
        num_workers: processes; as many as there are cores by default.
        limit_s: seconds that one file may take.
    """
    waiting = deque(enumerate(paths))
    most = min(MOST_WORKERS, -(-len(waiting) // FILES_AT_ONCE))
    workers = [_Worker(limit_s) for _ in range(min(num_workers or available_cores(), most))]
    try:
        while busy := [worker for worker in workers if worker.todo or worker.take(waiting)]:
            ready = wait([worker.connection for worker in busy], timeout=min(1.0, limit_s))
            for worker in busy:
                if worker.connection in ready:
                    yield from worker.receive()
                elif worker.is_stuck():
                    yield from worker.replace(f"the decoder did not end within {limit_s:g} s")
    finally:
        for worker in workers:
            worker.kill()


class _Worker:
    """A process that listens, and the files it has been handed.

    Where a process dies or hangs, another one listens to the same files and tells of each at once: this
    shows which of them it is, and a process that was ended by someone else does no harm.

    Attributes:
        todo: places and paths of which it has told nothing yet, in its order.
        connection: to the process.
    """

    def __init__(self, limit_s: float) -> None:
        self.todo: deque[tuple[int, str]] = deque()
        self._limit_s, self._since, self._one_by_one = limit_s, 0.0, False
        self._start()

    def take(self, waiting: deque[tuple[int, str]]) -> bool:
        """Hand it the next files; whether there were any."""
        self._one_by_one = False
        while waiting and len(self.todo) < FILES_AT_ONCE:
            self.todo.append(waiting.popleft())
        if self.todo:
            self._send()
        return bool(self.todo)

    def receive(self) -> Iterator[tuple[int, Heard]]:
        """What it tells."""
        try:
            told: list[Heard] = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            status = self._process.exitcode or 0
            name = signal.Signals(-status).name if status < 0 else f"status {status}"
            yield from self.replace(f"the decoder crashed ({name})")
            return
        self._since = time.monotonic()
        for heard in told:
            yield self.todo.popleft()[0], heard

    def is_stuck(self) -> bool:
        """Whether it has told nothing for too long."""
        return time.monotonic() - self._since > self._limit_s + TELL_EVERY_S

    def replace(self, reason: str) -> Iterator[tuple[int, Heard]]:
        """Go on in another process; with the file left out that this one failed at, if it is known."""
        if self._one_by_one:
            yield self.todo.popleft()[0], Heard("decoder-stopped", reason)
        self._one_by_one = True
        self.kill()
        self._start()
        if self.todo:
            self._send()

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self.connection.close()

    def _start(self) -> None:
        # forked from a process that has done nothing else: ours may hold locks and TensorFlow's threads
        methods = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        context.set_forkserver_preload([_serve.__module__])  # loaded once for all
        self.connection, theirs = context.Pipe()
        self._process: Any = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        assert self.connection.poll(START_LIMIT_S), "a process to listen in did not start"
        self.connection.recv()

    def _send(self) -> None:
        self._since = time.monotonic()
        with contextlib.suppress(OSError):  # it has died: receiving will tell
            self.connection.send(([path for _, path in self.todo], self._one_by_one))


def _serve(connection: Connection) -> None:
    """Listen to lists of paths until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # decoders complain there, into the progress bar
    connection.send("ready")
    with contextlib.suppress(EOFError, OSError):
        while True:
            paths, one_by_one = connection.recv()
            heard, told = [], time.monotonic()
            for place, path in enumerate(paths, start=1):
                heard.append(listen(path))
                if one_by_one or place == len(paths) or time.monotonic() - told > TELL_EVERY_S:
                    connection.send(heard)
                    heard, told = [], time.monotonic()
