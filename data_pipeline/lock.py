"""One command at a time in a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from asr.files import cannot_write
from asr.types import UserError


@contextlib.contextmanager
def alone_in(folder: Path, command: str) -> Iterator[None]:
    """Keep a second command out of a folder; the system lets go of it even where this one is killed.

    Raises:
        UserError: another one is at work there, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / f".{command.replace(' ', '-')}.lock").open("w")
    except OSError as error:
        raise cannot_write(folder, "folder", error) from None
    with lock:
        # neither Windows nor every network disk has such locks: there it goes without
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{folder}: another {command} is at work there; wait, or stop it") from None
        yield
