"""Long work on many things: on all cores, a few things ahead, with reports of how far it has come."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

from asr.base.work import OnProgress, Work, ignore_progress

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 200  # items a thread deals with before it reports: a report costs as much as a header
NUM_REPORTS = 200  # of work that is done item by item


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, each fetched while the one before is worked on."""
    source = iter(items)
    end = object()
    with ThreadPoolExecutor(1) as pool:
        fetched = pool.submit(next, source, end)
        while (item := fetched.result()) is not end:
            fetched = pool.submit(next, source, end)
            yield cast(Item, item)


def reported(
    items: Iterable[Item],
    task: str,
    unit: str,
    on_progress: OnProgress = ignore_progress,
    total: int | None = None,
) -> Iterator[Item]:
    """Yield the same items, and report some two hundred times how many of them are done.

    Args:
        items: to be worked on by whoever takes them.
        task: what is being done with them.
        unit: what they are, in the plural.
        on_progress: called between two items.
        total: how many there are; None for items that have a length.
    """
    if total is None:
        assert isinstance(items, Sized)
        total = len(items)
    step = max(1, total // NUM_REPORTS)
    for num_done, item in enumerate(items):
        if num_done % step == 0:
            on_progress(Work(task, num_done, total, unit))
        yield item
    on_progress(Work(task, total, total, unit))


def in_threads(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    task: str,
    at_once: int = AT_ONCE,
    most_threads: int | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Iterator[Result]:
    """What a function returns for each item, in order; it should let go of the interpreter lock.

    Args:
        function: called in any thread.
        items: few of them are worked on ahead of what is asked for.
        task: what is being done, for the reports.
        at_once: items that a thread deals with before it reports.
        most_threads: where each needs much memory; else as many as there are cores.
        on_progress: called in the thread that takes the results.
    """

    def some(begin: int) -> list[Result]:
        return [function(item) for item in items[begin : begin + at_once]]

    num_threads = min(available_cores(), most_threads or available_cores())
    pending: deque[Future[list[Result]]] = deque()
    begins = iter(range(0, len(items), at_once))
    num_done = 0
    on_progress(Work(task, num_done, len(items), "clips"))
    with ThreadPoolExecutor(num_threads) as pool:
        try:
            while True:
                while len(pending) < 2 * num_threads and (begin := next(begins, None)) is not None:
                    pending.append(pool.submit(some, begin))
                if not pending:
                    return
                results = pending.popleft().result()
                num_done += len(results)
                on_progress(Work(task, num_done, len(items), "clips"))
                yield from results
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # who interrupts waits for nothing else
