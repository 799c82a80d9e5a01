"""One command at a time in a folder, and whether one is at work there, which it does not notice.

This is flock(2) by hand, because looking needs a lock that those who look share, and filelock's are
exclusive: whoever looked through it could keep a command out for a moment, and take someone else who
looks for a command at work. And where a disk has no locks, filelock falls back to a file that stays when
its owner is killed; here a command goes without. On Windows, which has no flock, filelock does the
locking, and those who look hold the lock for a moment, for which a command waits.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from asr.base.files import cannot_write
from asr.base.types import UserError

AGAIN_S = 0.01
LOOK_S = 0.5  # on Windows: longer than anyone looks


@contextlib.contextmanager
def alone_in(folder: Path, command: str) -> Iterator[bool]:
    """Keep a second command out of a folder; the system lets go of it even where this one is killed.

    Yields:
        Whether a second one is kept out: not every network disk has such locks, and there it goes without.

    Raises:
        UserError: another one is at work there, or the folder cannot be written.
    """
    path = _lock_path(folder, command)
    with contextlib.ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # a network disk that imitates these locks wants both rights
            file = held.enter_context(path.open("a+"))
        except OSError as error:
            raise cannot_write(folder, "folder", error) from None
        try:
            is_kept = _take(file) if _has_flock() else _take_on_windows(path, held)
        except OSError:
            yield False
            return
        if not is_kept:
            raise UserError(f"{folder}: another {command} is at work there; wait, or stop it")
        yield True


def is_anyone_in(folder: Path, command: str) -> bool:
    """Whether a command is at work in a folder, which does not notice that it is asked.

    False where the folder's disk has no locks.
    """
    path = _lock_path(folder, command)
    with contextlib.suppress(OSError), path.open() as file, contextlib.ExitStack() as held:
        return _is_taken(file) if _has_flock() else not _take_on_windows(path, held)
    return False


def _lock_path(folder: Path, command: str) -> Path:
    return folder / f".{command.replace(' ', '-')}.lock"


def _has_flock() -> bool:
    try:
        import fcntl  # noqa: F401
    except ImportError:
        return False
    return True


def _take(file: IO[str]) -> bool:
    """Hold the lock until the file is closed; returns whether it could be had."""
    import fcntl

    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if _is_taken(file):
            return False
        time.sleep(AGAIN_S)  # it was someone who only looked, and is gone by now


def _is_taken(file: IO[str]) -> bool:
    """Whether someone holds the lock, rather than looks as we do: those who look share it."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _take_on_windows(path: Path, held: contextlib.ExitStack) -> bool:
    """Hold the lock until the stack is left; returns whether it could be had."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=LOOK_S, poll_interval=AGAIN_S)
    except Timeout:
        return False
    held.callback(lock.release)
    return True
