"""Paths of files in object storage: s3://, gs://, hdfs://, whatever fsspec knows.

path_of("s3://corpus/train-*.jsonl.gz")    # an Address, which is used as a Path is
path_of("data/train.jsonl")                # a Path

What is at an address is read, and never written. The address of a web page (https://) is none of these:
`asr.base.download` downloads it.
"""

from __future__ import annotations

import errno
import fnmatch
import io
import os
import posixpath
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from typing_extensions import override

from asr.base.errors import UserError
from asr.base.system.storage import store
from asr.base.system.storage.refusals import MISSING, MissingError

if sys.platform == "win32":
    from pathlib import WindowsPath as SystemPath
else:
    from pathlib import PosixPath as SystemPath

# a Path has one slash where its text had two; a scheme of one letter is a drive of Windows
ADDRESS = re.compile(r"(?!https?:|ftp:|file:)([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL | re.IGNORECASE)
LOCAL = "file://"
DEFAULT_HOST = {"hdfs:///": "hdfs://default/"}  # a Path does not keep the third slash


def is_address(name: str) -> bool:
    """Return whether a text is the address of something in object storage."""
    return "://" in name and ADDRESS.match(name) is not None


def path_of(name: str | Path) -> Path:
    """Return an `Address` for the text or the Path of one, and a plain Path for any other."""
    if isinstance(name, Address):
        return name
    text = str(name)
    for begin, replaced in DEFAULT_HOST.items():
        text = replaced + text[len(begin) :] if text.startswith(begin) else text
    found = ADDRESS.fullmatch(text)
    if not found or ("://" not in text and Path(f"{found[1]}:").exists()):
        return Path(text.removeprefix(LOCAL)) if text.startswith(LOCAL) else Path(name)
    return Address(f"{found[1].lower()}:/{posixpath.normpath(found[2])}")


def refuse_address(path: Path, what: str) -> None:
    """Raise a UserError if something is to be written to an address.

    Args:
        path: to write to.
        what: names it in the error, such as "`train.runs_dir`".
    """
    if isinstance(path, Address):
        raise UserError(
            f"{path}: {what}: expected a folder on a disk, since nothing is written to an address; write it "
            "to a disk, and copy it there when it is complete"
        )


def refuse_to_read_address(path: str | Path, what: str) -> None:
    """Raise a UserError if what can only be read from a disk is at an address.

    Args:
        path: to read.
        what: names it in the error, such as "`language_model`".
    """
    if isinstance(path_of(path), Address):
        raise UserError(
            f"{path_of(path)}: {what}: expected a path on a disk; copy it to a disk, and name that"
        )


def stat_of(found: store.Stored) -> os.stat_result:
    """Return what `Path.stat` returns, with a time of modification that stands for the version."""
    kind = stat.S_IFDIR if found.is_folder else stat.S_IFREG
    version = zlib.crc32(found.version.encode())  # long ago, in nanoseconds
    return os.stat_result((kind | 0o444, 0, 0, 1, 0, 0, found.num_bytes, 0, 0, 0), {"st_mtime_ns": version})


class Address(SystemPath):
    """A path in object storage. What it answers, it asks for over the network each time.

    An error other than a missing file is a UserError, and so is whatever would write.
    """

    @override
    def __str__(self) -> str:
        text = super().__str__()
        scheme, _, rest = text.partition(":/")
        return f"{scheme.rstrip(':')}://{rest}" if ":" in text else text

    @override
    def __fspath__(self) -> str:
        return str(self)

    @override
    def as_posix(self) -> str:
        return str(self)

    @override
    def __truediv__(self, name: str | os.PathLike[str]) -> Path:  # type: ignore[override]
        """Return a path below this one; an absolute path, or an address, as it is."""
        text = os.fspath(name)
        if text.startswith("/") or is_address(text):
            return path_of(text)
        return path_of(f"{self}/{text}")

    @override
    def relative_to(self, *others: Any, **options: Any) -> Path:  # type: ignore[override]
        return Path(*super().relative_to(*others, **options).parts)

    @override
    def resolve(self, strict: bool = False) -> Address:
        return self

    @override
    def absolute(self) -> Address:
        return self

    @override
    def is_absolute(self) -> bool:
        return True

    @override
    def exists(self, **options: bool) -> bool:
        return store.find(str(self)) is not None

    @override
    def is_file(self, **options: bool) -> bool:
        found = store.find(str(self))
        return found is not None and not found.is_folder

    @override
    def is_dir(self, **options: bool) -> bool:
        found = store.find(str(self))
        return found is not None and found.is_folder

    @override
    def is_symlink(self) -> bool:
        return False

    @override
    def is_fifo(self) -> bool:
        return False

    @override
    def stat(self, **options: bool) -> os.stat_result:
        """Return size and kind, and a time of modification that is another one for each version."""
        found = store.find(str(self))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return stat_of(found)

    @override
    def open(self, mode: str = "r", buffering: int = -1, encoding: str | None = None,  # type: ignore[override]
             errors: str | None = None, newline: str | None = None) -> IO[Any]:  # fmt: skip
        if set(mode) & set("wax+"):
            self._refuse()
        try:
            file = store.open_stored(str(self))
        except MissingError:  # as of any Path: many files may be missing
            raise FileNotFoundError(errno.ENOENT, MISSING, str(self)) from None
        return file if "b" in mode else io.TextIOWrapper(file, encoding, errors, newline)

    @override
    def iterdir(self) -> Iterator[Path]:  # type: ignore[override]
        return (self / name for name in store.names_in(str(self)))

    @override
    def glob(self, pattern: str, **options: bool) -> Iterator[Path]:  # type: ignore[override]
        """Yield what is in this folder by a pattern of names, without hidden names."""
        folder, _, names = pattern.rpartition("/")
        below = self / folder if folder else self
        found = [name for name in store.names_in(str(below)) if fnmatch.fnmatchcase(name, names)]
        return (below / name for name in found if not name.startswith(".") or names.startswith("."))

    @override
    def rglob(self, pattern: str = "*", **options: bool) -> Iterator[Path]:  # type: ignore[override]
        """Yield the files below this folder by a pattern of names."""
        below = (self / name for name in store.files_below(str(self)))
        return (path for path in below if fnmatch.fnmatchcase(path.name, pattern))

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        refuse_address(self, "cannot be written")
        raise AssertionError("an address")

    mkdir = touch = unlink = rmdir = rename = replace = chmod = write_bytes = write_text = _refuse
    symlink_to = hardlink_to = _refuse
