"""Checks many recordings on all cores, in processes that a bad file may crash or hang without harm."""

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

from data_pipeline.doctor.checkup import Checkup, check_recording
from data_pipeline.work import available_cores

LIMIT_S = 30.0  # for one file; the longest file takes a few seconds
START_LIMIT_S = 120.0
FILES_AT_ONCE = 64  # sent in one message, because a message costs as much as a file
REPORT_EVERY_S = 0.1
MAX_WORKERS = 60  # Windows cannot wait for more


def check_recordings(
    paths: Sequence[str], num_workers: int | None = None, limit_s: float = LIMIT_S
) -> Iterator[tuple[int, Checkup]]:
    """Check recordings in parallel; yield the index and the checkup of each as it is done.

    A file that crashes the decoder or exceeds the time limit gets a checkup that says so; the other files
    are not affected.

    Args:
        paths: paths of the recordings.
        num_workers: number of processes; by default the number of cores.
        limit_s: time limit of one file in seconds.
    """
    waiting = deque(enumerate(paths))
    most = min(MAX_WORKERS, -(-len(waiting) // FILES_AT_ONCE))
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
    """Manages a process that checks recordings, and the files that were sent to it.

    If a process dies or hangs, another one checks the same files and reports each at once: this identifies
    the bad file, and no file is blamed for a process that was killed by someone else.

    Attributes:
        todo: indices and paths of the files without a checkup so far, in the process's order.
        connection: connection to the process.
    """

    def __init__(self, limit_s: float) -> None:
        self.todo: deque[tuple[int, str]] = deque()
        self._limit_s, self._since, self._one_by_one = limit_s, 0.0, False
        self._start()

    def take(self, waiting: deque[tuple[int, str]]) -> bool:
        """Send the next files to the process; return whether there were any."""
        self._one_by_one = False
        while waiting and len(self.todo) < FILES_AT_ONCE:
            self.todo.append(waiting.popleft())
        if self.todo:
            self._send()
        return bool(self.todo)

    def receive(self) -> Iterator[tuple[int, Checkup]]:
        """Yield the checkups that the process has sent."""
        try:
            checkups: list[Checkup] = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            status = self._process.exitcode or 0
            name = signal.Signals(-status).name if status < 0 else f"status {status}"
            yield from self.replace(f"the decoder crashed ({name})")
            return
        self._since = time.monotonic()
        for checkup in checkups:
            yield self.todo.popleft()[0], checkup

    def is_stuck(self) -> bool:
        """Return whether the process has sent nothing for too long."""
        return time.monotonic() - self._since > self._limit_s + REPORT_EVERY_S

    def replace(self, reason: str) -> Iterator[tuple[int, Checkup]]:
        """Continue in another process, without the file at which this one failed, if it is known."""
        if self._one_by_one:
            yield self.todo.popleft()[0], Checkup("decoder-stopped", reason)
        self._one_by_one = True
        self.kill()
        self._start()
        if self.todo:
            self._send()

    def kill(self) -> None:
        """End the process immediately, whatever it does."""
        self._process.kill()
        self._process.join()
        self.connection.close()

    def _start(self) -> None:
        # forked from a clean process, since this one may hold locks and TensorFlow's threads
        methods = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        context.set_forkserver_preload([_serve.__module__])  # loaded once for all
        self.connection, theirs = context.Pipe()
        self._process: Any = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        assert self.connection.poll(START_LIMIT_S), "a worker process did not start"
        self.connection.recv()

    def _send(self) -> None:
        self._since = time.monotonic()
        with contextlib.suppress(OSError):  # it has died, which `receive` will notice
            self.connection.send(([path for _, path in self.todo], self._one_by_one))


def _serve(connection: Connection) -> None:
    """Check the recordings of each list of paths received, until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process kills this one
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # decoders print warnings there, into the progress bar
    connection.send("ready")
    with contextlib.suppress(EOFError, OSError):
        while True:
            paths, one_by_one = connection.recv()
            checkups, reported_s = [], time.monotonic()
            for place, path in enumerate(paths, start=1):
                checkups.append(check_recording(path))
                if one_by_one or place == len(paths) or time.monotonic() - reported_s > REPORT_EVERY_S:
                    connection.send(checkups)
                    checkups, reported_s = [], time.monotonic()
