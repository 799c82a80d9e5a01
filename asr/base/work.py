"""Library functions report their progress as `Work` objects to a callback, which may display them.

def measure(files: Sequence[Path], on_progress: OnProgress = ignore_progress) -> None:
    for done, file in enumerate(files, start=1):
        ...
        on_progress(Work("measuring", done, len(files), "files"))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Work:
    """Says how far a task has come.

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
