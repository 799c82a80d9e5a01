"""Find, read and write files: in UTF-8, with errors that name the file, and completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from asr.base.errors import UserError
from asr.base.system.shards import open_shard
from asr.base.system.storage.address import Address

LONGEST_NAME = 255  # bytes of a file's name, on all usual disks


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded; a lone surrogate, which JSON and TOML may hold, cannot."""
    return text == text.encode(errors="replace").decode()


def read_lines(path: Path, what: str) -> list[str]:
    """Return the lines of a UTF-8 file, with or without a byte order mark, also of one in `.gz`.

    Only line feeds (and carriage returns before them) end a line: a transcript may contain other breaks.

    Args:
        path: of the file.
        what: kind of the file, for the error, such as "manifest".

    Raises:
        UserError: the file cannot be read, or is not UTF-8.
    """
    try:
        with open_shard(path) as file:
            text = file.read().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: cannot read this {what} ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text; save it as UTF-8") from None
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def visible_files(
    folder: Path, is_left_out: Callable[[Path, Sequence[str]], bool] = lambda *_: False
) -> Iterator[Path]:
    """Yield the files below a folder on a disk, sorted within each, without hidden ones.

    Links to folders are followed once each.

    Args:
        folder: to search.
        is_left_out: whether to skip a folder, by its path and the names in it, and what is below it.

    Raises:
        UserError: a folder cannot be read.
    """
    seen: set[str] = set()
    for parent, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen or is_left_out(Path(parent), names):
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith("."))


def files_of(folder: Path) -> list[Path]:
    """Return the files below a folder, which may be at an address, sorted and without hidden ones.

    Raises:
        UserError: a folder cannot be read.
    """
    if isinstance(folder, Address):
        below = [path.relative_to(folder).parts for path in folder.rglob()]
        return sorted(folder.joinpath(*parts) for parts in below if not any(p.startswith(".") for p in parts))
    return sorted(path for path in visible_files(folder) if path.is_file())


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):  # then nothing is below it
        raise UserError(f"{error.filename}: cannot read this folder ({error.strerror})") from None


def sha256_of(path: Path) -> bytes:
    """Return the SHA-256 of a file's contents; raise an OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path at which to write a file: it then gets its name, or is removed if writing fails."""
    name = f"{path.name}.part"
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = f"{zlib.crc32(os.fsencode(path.name)):08x}.part"
    temporary = path.with_name(name)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_file(path: Path, what: str) -> Iterator[BinaryIO]:
    """Open a file for writing that gets its name once it is complete and on the disk.

    Until then, or if writing fails, an existing file of that name remains.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        flush(path.parent)
    except OSError as error:
        raise cannot_write(path, what, error) from None


@contextlib.contextmanager
def whole_folder(path: Path, what: str) -> Iterator[Path]:
    """Make a folder that gets its name once it is complete and on the disk; else nothing remains.

    Args:
        path: of the new folder.
        what: kind of the folder, for the error, such as "run directory".

    Yields:
        the folder to write to, beside the new one.

    Raises:
        UserError: something of that name exists, or the folder cannot be written.
    """
    refuse_existing(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as hidden:
            made = Path(hidden) / path.name
            made.mkdir()
            yield made
            for file in made.rglob("*"):
                flush(file)
            made.rename(path)
        flush(path.parent)
    except OSError as error:
        raise cannot_write(path, what, error) from None


def refuse_existing(path: Path) -> None:
    """Raise a UserError where a file or folder exists."""
    if path.exists() or path.is_symlink():
        raise UserError(f"{path}: already exists; remove it, or choose another name")


def flush(path: Path) -> None:
    """Make a file or a renaming survive a power cut, on systems that allow a folder to be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def cannot_write(path: Path, what: str, error: OSError) -> UserError:
    """Return the error to raise where a file cannot be written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "free space there, or choose another location" if full else "choose another location"
    return UserError(f"{path}: cannot write this {what} ({error.strerror}); {remedy}")
