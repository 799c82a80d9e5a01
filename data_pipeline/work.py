"""Process many items on all cores, a few items ahead, with progress reports."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

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


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the same items, each fetched while the one before it is processed."""
    source = iter(items)
    end = object()
    with ThreadPoolExecutor(1) as pool:
        fetched = pool.submit(next, source, end)
        while (item := fetched.result()) is not end:
            fetched = pool.submit(next, source, end)
            yield cast(Item, item)


def in_threads(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    task: str,
    at_once: int = AT_ONCE,
    max_threads: int | None = None,
    waits: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> Iterator[Result]:
    """Yield the function's result for each item, in order, computed in threads.

    Args:
        function: called in any thread; it should release the interpreter lock.
        items: only a few are processed ahead of the results taken.
        task: its name in progress reports.
        at_once: items that a thread processes before it reports.
        max_threads: for items that need much memory; None for one thread per core.
        waits: whether the function waits for a network, so that more threads are of use than there are cores.
        on_progress: called in the thread that takes the results.
    """

    def process_chunk(begin: int) -> list[Result]:
        return [function(item) for item in items[begin : begin + at_once]]

    num_threads = WAITING_THREADS if waits else min(available_cores(), max_threads or available_cores())
    at_once = min(at_once, WAITING_AT_ONCE) if waits else at_once
    pending: deque[Future[list[Result]]] = deque()
    begins = iter(range(0, len(items), at_once))
    num_done = 0
    on_progress(Work(task, num_done, len(items), "clips"))
    with ThreadPoolExecutor(num_threads) as pool:
        try:
            while True:
                while len(pending) < 2 * num_threads and (begin := next(begins, None)) is not None:
                    pending.append(pool.submit(process_chunk, begin))
                if not pending:
                    return
                results = pending.popleft().result()
                num_done += len(results)
                on_progress(Work(task, num_done, len(items), "clips"))
                yield from results
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # do not wait for it when interrupted
