"""Run what waits together: one thread owns the model and takes, kind by kind, the largest batch at once.

batcher = Batcher([Kind("clip", transcribe, len, max_samples)])
future = batcher.submit("clip", waveform)     # from any thread
future.result()

No job is delayed for others to come. Kinds that wait take turns, so that long recordings, streams and clips
do not starve each other; within a kind the oldest job is first. A job whose future is cancelled is dropped.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class BatchReport(NamedTuple):
    """A batch that was run.

    Attributes:
        kind: of its jobs.
        num_jobs: that it contained.
        num_samples: including padding.
        waited_s: by the oldest job.
        run_s: by the model.
    """

    kind: str
    num_jobs: int
    num_samples: int
    waited_s: float
    run_s: float


@dataclass(frozen=True)
class JobKind:
    """The jobs that can share a batch.

    Attributes:
        name: of the kind.
        run: maps a list of items to their results, in order.
        num_samples: of an item; shorter ones are padded to the longest.
        max_samples: of a batch, with padding; a single item may be larger.
    """

    name: str
    run: Callable[[list[Any]], Sequence[Any]]
    num_samples: Callable[[Any], int]
    max_samples: int


@dataclass(frozen=True)
class _Job:
    item: Any
    future: Future[Any] = field(default_factory=Future)
    submitted_s: float = field(default_factory=time.monotonic)


class Batcher:
    """A thread that runs jobs in batches.

    Args:
        kinds: of jobs.
        on_batch: is called in that thread after each batch.
    """

    def __init__(
        self, kinds: Sequence[JobKind], on_batch: Callable[[BatchReport], None] = lambda _: None
    ) -> None:
        self._kinds, self._on_batch = {kind.name: kind for kind in kinds}, on_batch
        self._waiting: dict[str, deque[_Job]] = {kind.name: deque() for kind in kinds}
        self._turns = deque(self._kinds)
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def submit(self, kind: str, item: Any) -> Future[Any]:
        """Add a job, and return the future of its result."""
        job = _Job(item)
        with self._changed:
            assert not self._closed, "a closed batcher takes no job"
            self._waiting[kind].append(job)
            self._changed.notify()
        return job.future

    def num_waiting(self, kind: str) -> int:
        """Return how many jobs of a kind are waiting."""
        return len(self._waiting[kind])

    def close(self) -> None:
        """End the thread when the running batch is done; waiting jobs are cancelled."""
        with self._changed:
            self._closed = True
            for jobs in self._waiting.values():
                while jobs:
                    jobs.popleft().future.cancel()
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while (turn := self._next_turn()) is not None:
            self._run(*turn)

    def _next_turn(self) -> tuple[JobKind, list[_Job]] | None:
        with self._changed:
            while not self._closed:
                for _ in range(len(self._turns)):
                    kind = self._kinds[self._turns[0]]
                    self._turns.rotate(-1)
                    if jobs := self._take(kind):
                        return kind, jobs
                self._changed.wait()
        return None

    def _take(self, kind: JobKind) -> list[_Job]:
        """Remove and return the oldest jobs that fit into a batch."""
        waiting = self._waiting[kind.name]
        jobs: list[_Job] = []
        longest = 0
        while waiting:
            longest = max(longest, kind.num_samples(waiting[0].item))
            if jobs and longest * (len(jobs) + 1) > kind.max_samples:
                break
            job = waiting.popleft()
            if job.future.set_running_or_notify_cancel():
                jobs.append(job)
        return jobs

    def _run(self, kind: JobKind, jobs: list[_Job]) -> None:
        started_s = time.monotonic()
        try:
            results = kind.run([job.item for job in jobs])
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
            else:  # each on its own, so that one does not fail another
                for job in jobs:
                    self._run(kind, [job])
            return
        ended_s = time.monotonic()
        num_samples = len(jobs) * max(kind.num_samples(job.item) for job in jobs)
        waited_s = started_s - min(job.submitted_s for job in jobs)
        self._on_batch(BatchReport(kind.name, len(jobs), num_samples, waited_s, ended_s - started_s))
        for job, result in zip(jobs, results, strict=True):
            job.future.set_result(result)
