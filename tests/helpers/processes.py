"""Start programs that end at a certain point, and watch the processes that they start."""

import socket
import time
from collections.abc import Sequence
from pathlib import Path

LIMIT_S = 120  # far more than a busy machine needs

KILL_AT_OPENING = """
import os, signal, sys
def kill_at_opening(event, arguments):
    if event == "open" and str(arguments[0]).endswith({end_of_path!r}):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(kill_at_opening)
"""


def killed_at_opening(end_of_path: str, program: str) -> str:
    """Return a Python program that is killed when it opens a file, before the file is made."""
    return KILL_AT_OPENING.format(end_of_path=end_of_path) + program


def children_of(pid: int) -> list[int]:
    """Return the ids of the processes that a process has started; needs Linux."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until_ended(pids: Sequence[int]) -> None:
    """Return when none of the processes is left."""
    deadline = time.monotonic() + LIMIT_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "a process has not ended"
        time.sleep(0.05)


def free_ports(number: int) -> list[int]:
    """Return ports on which no process listens now."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
