"""Draw progress bars in the terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from asr.base.work import Work

DELAY_S = 1.0  # shorter tasks get no bar
WAITING = "{desc} [{elapsed}]"  # of a task that counts nothing


class ProgressBars:
    """A bar for the progress of each task; an `asr.base.work.OnProgress`.

    with ProgressBars() as bars:
        prepare_corpus(..., on_progress=bars)

    Args:
        shown: False to draw none.
        delay_s: seconds before a task gets a bar.
    """

    def __init__(self, *, shown: bool = True, delay_s: float = DELAY_S) -> None:
        self._shown, self._delay_s = shown, delay_s
        self._task = ""
        self._bar: Any = None

    def __enter__(self) -> ProgressBars:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, work: Work) -> None:
        """Show how much of a task is done; a new task closes the bar of the previous one."""
        from tqdm import tqdm

        if self._bar is None or work.task != self._task:
            self.close()
            is_bytes = work.unit == "bytes"
            self._task = work.task
            self._bar = tqdm(
                total=work.total,
                initial=work.done,
                desc=work.task,
                unit="B" if is_bytes else f" {work.unit}",
                unit_scale=is_bytes,
                unit_divisor=1024 if is_bytes else 1000,
                bar_format=None if work.unit else WAITING,
                delay=self._delay_s,
                disable=not self._shown,
            )
        self._bar.total = work.total
        self._bar.set_postfix_str(work.note, refresh=False)
        self._bar.update(work.done - self._bar.n)
        if work.is_done:
            self.close()

    def close(self) -> None:
        """Close the bar that is shown, if there is one."""
        if self._bar is not None:
            self._bar.close()
        self._task, self._bar = "", None
