"""How far long work has come: what library functions report to whoever wants to show it.

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
    """How far a task has come.

    Attributes:
        task: what is being done, such as "checking audio"; another task is another bar.
        done: units done so far.
        total: units in all; None where that is not known.
        unit: what is counted, in the plural: "clips", "bytes".
        note: what is of interest at the moment, such as the file at work.
    """

    task: str
    done: float
    total: float | None = None
    unit: str = ""
    note: str = ""

    @property
    def is_done(self) -> bool:
        """Return whether nothing is left to do."""
        return self.total is not None and self.done >= self.total


OnProgress: TypeAlias = Callable[[Work], None]


def ignore_progress(work: Work) -> None:
    """Do nothing: the default of functions that report progress."""
