"""Checks many recordings on all cores, in processes that a bad file may crash or hang without harm."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from asr.base.cluster import Cluster
from asr.base.system.child_process import ChildEndedError, ChildProcess, Inbox
from data_pipeline.doctor.checkup import Checkup, check_recording
from data_pipeline.work import available_cores

LIMIT_S = 30.0  # for one file; the longest file takes a few seconds
FILES_OF_A_TASK = 512  # of a cluster, at most
FILES_AT_ONCE = 64  # sent in one message, because a message costs as much as a file
REPORT_EVERY_S = 0.1


def check_recordings(
    paths: Sequence[str],
    num_workers: int | None = None,
    limit_s: float = LIMIT_S,
    cluster: Cluster | None = None,
) -> Iterator[tuple[int, Checkup]]:
    """Check recordings in parallel; yield the index and the checkup of each as it is done.

    A file that crashes the decoder or exceeds the time limit gets a checkup that says so; the other files
    are not affected.

    Args:
        paths: paths of the recordings.
        num_workers: number of processes; by default the number of cores.
        limit_s: time limit of one file in seconds.
        cluster: whose workers check the recordings, each thread of them in a process of its own; None for
            processes of this machine.
    """
    if cluster:
        there = functools.partial(_checked_there, limit_s=limit_s)
        results = cluster.results(there, cluster.chunks(paths, FILES_OF_A_TASK))
        yield from enumerate(itertools.chain.from_iterable(results))
        return
    num_chunks = -(-len(paths) // FILES_AT_ONCE)
    with contextlib.closing(
        CheckingProcesses(min(num_workers or available_cores(), num_chunks), limit_s)
    ) as workers:
        yield from workers.check(paths)


class CheckingProcesses:
    """Processes that check recordings, until they are closed.

    Args:
        number: of the processes.
        limit_s: time limit of one file in seconds.
    """

    def __init__(self, number: int, limit_s: float) -> None:
        self._inbox: Inbox = SimpleQueue()
        self._limit_s = limit_s
        self._workers = [_CheckingWorker(limit_s, self._inbox) for _ in range(number)]

    def check(self, paths: Sequence[str]) -> Iterator[tuple[int, Checkup]]:
        """Yield the index and the checkup of each recording as it is done."""
        waiting = enumerate(paths)
        while busy := [worker for worker in self._workers if worker.todo or worker.take(waiting)]:
            answers = _answers(self._inbox, min(1.0, self._limit_s))
            stuck = [worker for worker in busy if worker.child not in answers and worker.is_stuck()]
            for worker in busy:
                for answer in answers.get(worker.child, ()):
                    yield from worker.receive(answer)
            for worker in stuck:
                yield from worker.replace(f"the decoder did not end within {self._limit_s:g} s")

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.child.kill()


_of_this_thread = threading.local()


def _checked_there(paths: Sequence[str], limit_s: float) -> list[Checkup]:
    """Return the checkup of each recording, on a cluster's worker, whose process stays for the next call."""
    if getattr(_of_this_thread, "limit_s", None) != limit_s:
        _of_this_thread.workers, _of_this_thread.limit_s = CheckingProcesses(1, limit_s), limit_s
    try:
        checkups = dict(_of_this_thread.workers.check(paths))
    except BaseException:
        _of_this_thread.limit_s = None  # what it has not answered is not mistaken for the next answers
        raise
    return [checkups[index] for index in range(len(paths))]


def _answers(inbox: Inbox, timeout_s: float) -> dict[ChildProcess, list[Any]]:
    """Return the answers that have arrived, by child; wait for one if there is none."""
    answers: dict[ChildProcess, list[Any]] = {}
    try:
        child, answer = inbox.get(timeout=timeout_s)
        while True:
            answers.setdefault(child, []).append(answer)
            child, answer = inbox.get_nowait()
    except Empty:
        return answers


class _CheckingWorker:
    """A process that checks recordings, and the files that were sent to it.

    If a process dies or hangs, another one checks the same files and reports each at once: this identifies
    the bad file, and no file is blamed for a process that was killed by someone else.

    Attributes:
        todo: indices and paths of the files without a checkup so far, in the process's order.
        child: the process.
    """

    def __init__(self, limit_s: float, inbox: Inbox) -> None:
        self.todo: deque[tuple[int, str]] = deque()
        self._limit_s, self._inbox = limit_s, inbox
        self._one_by_one = False
        self._start()

    def take(self, waiting: Iterator[tuple[int, str]]) -> bool:
        """Send the next files to the process; return whether there were any."""
        self._one_by_one = False
        self.todo.extend(itertools.islice(waiting, FILES_AT_ONCE - len(self.todo)))
        if self.todo:
            self._send()
        return bool(self.todo)

    def receive(self, answer: Sequence[Checkup] | ChildEndedError) -> Iterator[tuple[int, Checkup]]:
        """Yield the checkups that the process has sent, or continue in another process at its end."""
        if isinstance(answer, ChildEndedError):
            yield from self.replace(f"the decoder crashed ({answer})")
            return
        self._since = time.monotonic()
        for checkup in answer:
            yield self.todo.popleft()[0], checkup

    def is_stuck(self) -> bool:
        """Return whether the process has sent nothing for too long."""
        return time.monotonic() - self._since > self._limit_s + REPORT_EVERY_S

    def replace(self, reason: str) -> Iterator[tuple[int, Checkup]]:
        """Continue in another process, without the file at which this one failed, if it is known."""
        assert self._since != math.inf, f"a process that checks recordings did not start: {reason}"
        if self._one_by_one:
            yield self.todo.popleft()[0], Checkup("decoder-stopped", reason)
        self._one_by_one = True
        self.child.kill()
        self._start()
        if self.todo:
            self._send()

    def _start(self) -> None:
        self._since = math.inf  # until it has started
        self.child = ChildProcess(_serve, inbox=self._inbox)

    def _send(self) -> None:
        if self._since != math.inf:
            self._since = time.monotonic()
        self.child.send(([path for _, path in self.todo], self._one_by_one))


def _serve(requests: Iterator[tuple[list[str], bool]]) -> Iterator[list[Checkup]]:
    """Yield the checkups of each list of paths: those of the moment, or of each path as it is checked."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # decoders print warnings there, into the progress bar
    yield []  # it has started
    for paths, one_by_one in requests:
        checkups, reported_s = [], time.monotonic()
        for index, path in enumerate(paths, start=1):
            checkups.append(check_recording(path))
            if one_by_one or index == len(paths) or time.monotonic() - reported_s > REPORT_EVERY_S:
                yield checkups
                checkups, reported_s = [], time.monotonic()
