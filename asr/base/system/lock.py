"""Locks between processes: of a folder, in which one command at a time works, and of an open file.

This module calls flock(2) itself, because checking needs a shared lock and filelock's locks are exclusive:
a check through filelock could keep a command out for a moment, and two checks could each mistake the other
for a command. On a disk without locks, filelock falls back to a file that remains when its owner is killed;
here a command runs unlocked instead. On Windows, which has no flock, filelock does the locking: a check
holds the lock for a moment, for which a command waits.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from asr.base.errors import UserError
from asr.base.system.files import cannot_write

POLL_S = 0.01
WAIT_S = 0.5  # longer than a check takes on Windows


@contextlib.contextmanager
def exclusive_lock(folder: Path, command: str, on_wait: Callable[[], None] | None = None) -> Iterator[bool]:
    """Keep a second command out of a folder until the block ends, even if this process is killed.

    Args:
        folder: made if it is missing.
        command: name of the work; the folder may hold locks of several.
        on_wait: called every WAIT_S seconds while another command holds the lock, until that ends; None
            refuses at once.

    Yields:
        Whether the lock is held. It is not on network disks without locks, where the command runs unlocked.

    Raises:
        UserError: another command holds the lock and there is no `on_wait`, or the folder cannot be written.
    """
    path = lock_path(folder, command)
    with contextlib.ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # network disks that emulate flock need read and write access
            file = held.enter_context(path.open("a+"))
        except OSError as error:
            raise cannot_write(folder, "folder", error) from None

        def acquire() -> bool:
            return _acquire(file) if _has_flock() else _acquire_on_windows(path, held)

        try:
            is_locked_by_us = acquire()
        except OSError:
            yield False
            return
        while not is_locked_by_us:
            if not on_wait:
                raise UserError(f"{folder}: another {command} is running there; wait for it, or stop it")
            on_wait()
            time.sleep(WAIT_S)
            is_locked_by_us = acquire()
        yield True


def is_locked(folder: Path, command: str) -> bool:
    """Return whether a command is at work in a folder; the check does not disturb the command.

    Returns False where the folder's disk has no locks.
    """
    path = lock_path(folder, command)
    with contextlib.suppress(OSError), path.open() as file, contextlib.ExitStack() as held:
        return _is_held(file) if _has_flock() else not _acquire_on_windows(path, held)
    return False


def lock_file(file: IO[Any], wait: bool = False) -> bool:
    """Lock an open file until it is closed; it stays unlocked where the system or its disk has no locks.

    Args:
        file: of which no process calls `exclusive_lock`.
        wait: until no other process holds the lock.

    Returns:
        False if another process holds the lock.
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        pass
    return True


def lock_path(folder: Path, command: str) -> Path:
    """Return the path of a command's lock."""
    return folder / f".{command.replace(' ', '-')}.lock"


def _has_flock() -> bool:
    try:
        import fcntl  # noqa: F401
    except ImportError:
        return False
    return True


def _acquire(file: IO[str]) -> bool:
    """Take the lock until the file is closed; return whether that succeeded."""
    import fcntl

    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if _is_held(file):
            return False
        time.sleep(POLL_S)  # it was another check, which is over by now


def _is_held(file: IO[str]) -> bool:
    """Return whether a command holds the lock; checks share it, so they do not count."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _acquire_on_windows(path: Path, held: contextlib.ExitStack) -> bool:
    """Take the lock until the stack is closed; return whether that succeeded."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=WAIT_S, poll_interval=POLL_S)
    except Timeout:
        return False
    held.callback(lock.release)
    return True
