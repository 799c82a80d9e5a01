"""Long work on many things: on all cores, a few things ahead, with a bar."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

from tqdm import tqdm

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 200  # items a thread deals with before it reports: a report costs as much as a header


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


def in_threads(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    title: str,
    at_once: int = AT_ONCE,
    most_threads: int | None = None,
) -> Iterator[Result]:
    """What a function returns for each item, in order; it should let go of the interpreter lock.

    Args:
        function: called in any thread.
        items: few of them are worked on ahead of what is asked for.
        title: of the progress bar, which stays away from work of a moment.
        at_once: items that a thread deals with before it reports.
        most_threads: where each needs much memory; else as many as there are cores.
    """

    def some(begin: int) -> list[Result]:
        return [function(item) for item in items[begin : begin + at_once]]

    num_threads = min(available_cores(), most_threads or available_cores())
    pending: deque[Future[list[Result]]] = deque()
    begins = iter(range(0, len(items), at_once))
    with (
        ThreadPoolExecutor(num_threads) as pool,
        tqdm(total=len(items), desc=title, unit=" clips", delay=1) as bar,
    ):
        try:
            while True:
                while len(pending) < 2 * num_threads and (begin := next(begins, None)) is not None:
                    pending.append(pool.submit(some, begin))
                if not pending:
                    return
                results = pending.popleft().result()
                bar.update(len(results))
                yield from results
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # who interrupts waits for nothing else
