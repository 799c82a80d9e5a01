"""One command at a time in a folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from asr.base.files import cannot_write
from asr.base.types import UserError

AGAIN_S = 0.01


@contextlib.contextmanager
def alone_in(folder: Path, command: str) -> Iterator[bool]:
    """Keep a second command out of a folder; the system lets go of it even where this one is killed.

    Yields:
        Whether a second one is kept out: neither Windows nor every network disk has such locks, and there
        it goes without.

    Raises:
        UserError: another one is at work there, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # a network disk that imitates these locks wants both rights
        file = _lock_path(folder, command).open("a+")
    except OSError as error:
        raise cannot_write(folder, "folder", error) from None
    with file:
        try:
            is_kept = _take(file)
        except (ImportError, OSError):
            yield False
            return
        if not is_kept:
            raise UserError(f"{folder}: another {command} is at work there; wait, or stop it")
        yield True


def is_anyone_in(folder: Path, command: str) -> bool:
    """Whether a command is at work in a folder, which does not notice that it is asked.

    False where the folder's disk has no locks.
    """
    with contextlib.suppress(ImportError, OSError), _lock_path(folder, command).open() as file:
        return _is_taken(file)
    return False


def _lock_path(folder: Path, command: str) -> Path:
    return folder / f".{command.replace(' ', '-')}.lock"


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
