"""Watch the processes that a program under test starts."""

import time
from collections.abc import Sequence
from pathlib import Path

LIMIT_S = 120  # far more than a busy machine needs


def children_of(pid: int) -> list[int]:
    """Return the ids of the processes that a process has started; needs Linux."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until_ended(pids: Sequence[int]) -> None:
    """Return when none of the processes is left."""
    deadline = time.monotonic() + LIMIT_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "a process has not ended"
        time.sleep(0.05)
