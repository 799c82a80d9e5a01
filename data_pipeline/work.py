"""Process many items on all cores or on a cluster, a few items ahead, with progress reports."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from asr.base.cluster import Cluster
from asr.base.work import OnProgress, Work, ignore_progress

Item = TypeVar("Item")
Result = TypeVar("Result")

WAITING_THREADS, WAITING_AT_ONCE = 32, 8  # where they wait for a network
AT_ONCE = 200  # items that a thread processes before it reports: a report costs as much as reading a header


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def computed_ahead(
    function: Callable[[Item], Result], items: Iterable[Item], num_threads: int, num_ahead: int
) -> Generator[Result, None, None]:
    """Yield the function's result for each item, in order, computed in threads before it is taken.

    Args:
        function: called in any thread.
        items: are taken in the thread that takes the results.
        num_threads: number of threads.
        num_ahead: number of results that are ready or under way when one is waited for. What is under way
            ends before the iterator is closed.
    """
    pending: deque[Future[Result]] = deque()
    source = iter(items)
    with ThreadPoolExecutor(num_threads) as pool:
        try:
            for item in itertools.islice(source, num_ahead):
                pending.append(pool.submit(function, item))
            while pending:
                yield pending.popleft().result()
                for item in itertools.islice(source, 1):
                    pending.append(pool.submit(function, item))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # what has begun is waited for: it may write files


class Threads(NamedTuple):
    """Threads of this process.

    Attributes:
        max_threads: for items that need much memory; None for one thread per core.
        waits: whether they wait for a network, so that more threads are of use than there are cores.
    """

    max_threads: int | None = None
    waits: bool = False

    def chunks(self, items: Sequence[Item], at_most: int) -> Iterator[Sequence[Item]]:
        """Yield items in chunks of this many."""
        return (items[begin : begin + at_most] for begin in range(0, len(items), at_most))

    def results(
        self, function: Callable[[Sequence[Item]], Sequence[Result]], chunks: Iterable[Sequence[Item]]
    ) -> Generator[Sequence[Result], None, None]:
        """Yield the results of each chunk of items, in order; only a few chunks are computed ahead."""
        num_threads = min(available_cores(), self.max_threads or available_cores())
        if self.waits:
            num_threads = WAITING_THREADS
        return computed_ahead(function, chunks, num_threads, 2 * num_threads)


THREADS = Threads()


def in_parallel(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    task: str,
    at_once: int = AT_ONCE,
    on_progress: OnProgress = ignore_progress,
    workers: Threads | Cluster = THREADS,
) -> Iterator[Result]:
    """Yield the function's result for each item, in order, computed in threads or on a cluster.

    Args:
        function: called in any thread; it should release the interpreter lock. A cluster needs one of a
            module, or a `functools.partial` of such a one, and items that `Cluster.results` takes.
        items: only a few are processed ahead of the results taken.
        task: its name in progress reports.
        at_once: items that a thread processes before it reports.
        on_progress: called in the thread that takes the results.
        workers: what computes the results.
    """
    if isinstance(workers, Threads) and workers.waits:
        at_once = min(at_once, WAITING_AT_ONCE)
    of_chunk = functools.partial(_results_of, function)
    num_done = 0
    on_progress(Work(task, num_done, len(items), "clips"))
    with contextlib.closing(workers.results(of_chunk, workers.chunks(items, at_once))) as all_results:
        for results in all_results:
            num_done += len(results)
            on_progress(Work(task, num_done, len(items), "clips"))
            yield from results


def _results_of(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    return [function(item) for item in items]
