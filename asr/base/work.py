"""Library functions report their progress as `Work` objects to a callback, which may display them.

def measure(files: Sequence[Path], on_progress: OnProgress = ignore_progress) -> None:
    for done, file in enumerate(files, start=1):
        ...
        on_progress(Work("measuring", done, len(files), "files"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Item = TypeVar("Item")

NUM_REPORTS = 200  # for items that are processed one by one


@dataclass(frozen=True, slots=True)
class Work:
    """The progress of a task.

    Attributes:
        task: what is being done, such as "checking audio"; each task gets its own progress bar.
        done: units done so far.
        total: number of units; None if unknown.
        unit: plural name of what is counted: "clips", "bytes"; empty for a task that only waits.
        note: a detail to show, such as the current file.
    """

    task: str
    done: float
    total: float | None = None
    unit: str = ""
    note: str = ""

    @property
    def is_done(self) -> bool:
        """Return whether all units are done."""
        return self.total is not None and self.done >= self.total


OnProgress: TypeAlias = Callable[[Work], None]


def ignore_progress(work: Work) -> None:
    """Do nothing; the default callback of functions that report progress."""


def reported(
    items: Iterable[Item],
    task: str,
    unit: str,
    on_progress: OnProgress = ignore_progress,
    total: int | None = None,
) -> Iterator[Item]:
    """Yield the same items, and report about two hundred times how many of them are done.

    Args:
        items: processed by the caller.
        task: its name in progress reports.
        unit: name of the items, in the plural.
        on_progress: called between two items.
        total: number of items; None for items that have a length.
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
