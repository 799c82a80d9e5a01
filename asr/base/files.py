"""Files as the project reads and writes them: UTF-8, errors that name the file, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from asr.base.types import UserError


def is_utf8(text: str) -> bool:
    """Whether a text can be written: half a surrogate pair, which JSON and TOML may hold, cannot."""
    return text == text.encode(errors="replace").decode()


def read_lines(path: Path, what: str) -> list[str]:
    """Lines of a UTF-8 file, with or without a byte order mark.

    Only line feeds (and carriage returns before them) end a line: a transcript may hold other breaks.

    Args:
        path: of the file.
        what: the file is, for the error: "manifest".

    Raises:
        UserError: the file cannot be read, or is not UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: cannot read this {what} ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8; save it again as UTF-8") from None
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


@contextlib.contextmanager
def whole_file(path: Path, what: str) -> Iterator[BinaryIO]:
    """A file to write to, which takes its name when it is complete and on the disk.

    Until then, and for ever if writing fails, what stood under the name stays.

    Raises:
        UserError: it cannot be written.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, what, error) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    """Let a name outlive a power cut; where the system does not open folders, it sees to that itself."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def cannot_write(path: Path, what: str, error: OSError) -> UserError:
    """The error to raise where a file cannot be written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "free space there, or choose another place" if full else "choose another place"
    return UserError(f"{path}: cannot write this {what} ({error.strerror}); {remedy}")
