"""Read what is in object storage, through fsspec, which is imported for the first address only.

data = read_range("s3://corpus/packed/train.jsonl-00000.tar", 1536, 40_000)
with open_stored("s3://corpus/train.jsonl.gz") as file:
    ...

A small file is read in one request. A larger one is read in blocks: at most eight are in memory, and the next
one is fetched ahead. Of a file that is read in several requests, all parts are from one version.
"""

from __future__ import annotations

import io
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, BinaryIO

from typing_extensions import override

from asr.base.errors import UserError
from asr.base.system.storage.file_systems import file_system
from asr.base.system.storage.refusals import as_user_errors, changed, has_changed, refuse_missing_bucket

WHOLE_BYTES = 16 << 20  # a file up to this size is read at once, 8 minutes of 16-bit WAV at 16 kHz
BLOCK_BYTES, MAX_BLOCKS = 4 << 20, 8
BUFFER_BYTES = 64 << 10
MAX_OPEN = 10_000  # files of packs, 3 KB each; opening one again takes a request
VERSIONS = (
    "ETag",
    "etag",
    "generation",
    "md5Hash",
    "LastModified",
    "mtime",
    "created",
)  # of fsspec's classes


@dataclass(frozen=True, slots=True)
class Stored:
    """What is at an address.

    Attributes:
        num_bytes: its size.
        version: changes when it does; "" where the storage has none.
        is_folder: whether it is a folder, which has neither.
    """

    num_bytes: int
    version: str
    is_folder: bool = False


def find(address: str) -> Stored | None:
    """Return what is at an address, or None.

    Raises:
        UserError: it cannot be seen, or there is no such bucket.
    """
    with as_user_errors(address):
        try:
            return _stored(file_system(address).info(address))
        except FileNotFoundError:
            refuse_missing_bucket(address)
            return None


def open_stored(address: str) -> BinaryIO:
    """Open what is at an address for reading.

    Raises:
        UserError: it cannot be read; also by the file's `read`.
    """
    with as_user_errors(address):
        data = _first_bytes(address)
        if len(data) <= WHOLE_BYTES:
            return io.BytesIO(data)
        file = file_system(address).open(
            address,
            "rb",
            block_size=BLOCK_BYTES,
            cache_type="background",
            cache_options={"maxblocks": MAX_BLOCKS},
        )
    return io.BufferedReader(_CheckedFile(file, address), BUFFER_BYTES)


def read_range(address: str, begin: int, num_bytes: int) -> bytes:
    """Return a part of a file; safe to call from several threads.

    Raises:
        StorageError: it has changed since this process first read a part of it, and so have all other parts.
        UserError: it cannot be read, or ends before.
    """
    with as_user_errors(address):
        file = _opened.get(address)
        if begin + num_bytes > file.state.num_bytes:
            raise UserError(f"{address}: ends before byte {begin + num_bytes:,}; copy or pack it again")
        try:
            data = file.fetch(begin, begin + num_bytes)
        except BaseException as error:
            _opened.close(address)  # the next reader compares the versions
            if has_changed(error):
                raise changed(address) from None
            raise
        if len(data) != num_bytes:
            _opened.close(address)
            raise changed(address)
    return data


def state_of_opened(address: str) -> Stored:
    """Return the size and the version of a file of which `read_range` reads parts.

    Raises:
        StorageError: see `read_range`.
        UserError: it cannot be read.
    """
    with as_user_errors(address):
        return _opened.get(address).state


def names_in(address: str) -> list[str]:
    """Return the names in a folder, sorted; none where it does not exist."""
    with as_user_errors(address):
        try:
            entries = file_system(address).ls(address, detail=True)
        except FileNotFoundError:
            refuse_missing_bucket(address)
            return []
    names = [
        str(one["name"]) for one in entries if _stored(one).is_folder or not _is_marker(str(one["name"]))
    ]
    return sorted({name.rstrip("/").rpartition("/")[2] for name in names})


def files_below(address: str) -> dict[str, Stored]:
    """Return the files below a folder, by their names relative to it, sorted.

    Raises:
        UserError: nothing is there.
    """
    with as_user_errors(address):
        files = file_system(address)
        from fsspec.core import strip_protocol  # after its absence would have been reported

        root = str(strip_protocol(address)).rstrip("/") + "/"  # as the storage's lists name it
        found = files.find(address, detail=True)
        if not found:
            files.info(address)  # raises its error
        below = {str(name): _stored(entry) for name, entry in found.items() if not _is_marker(str(name))}
    return {name[name.index(root) + len(root) :]: below[name] for name in sorted(below) if root in name}


def _is_marker(name: str) -> bool:
    """Return whether a file's name is that of an empty object, which consoles make for a folder."""
    return name.endswith("/")


def _stored(entry: dict[str, Any]) -> Stored:
    version = next((str(entry[name]) for name in VERSIONS if entry.get(name)), "")
    return Stored(int(entry.get("size") or 0), version, entry.get("type") == "directory")


def _first_bytes(address: str) -> bytes:
    files = file_system(address)
    try:
        return bytes(files.cat_file(address, start=0, end=WHOLE_BYTES + 1))
    except FileNotFoundError:
        raise
    except Exception:
        if files.info(address)["size"] == 0:  # an empty object has no range
            return b""
        raise


class _Opened:
    """A file of which parts are read, at the version that it had when it was opened.

    Attributes:
        state: of this version.
    """

    def __init__(self, address: str) -> None:
        self._address, self._files = address, file_system(address)
        file = self._files.open(address, "rb", cache_type="none")
        self.state = _stored(getattr(file, "details", None) or self._files.info(address))
        self._cache = getattr(file, "cache", None)
        if self._cache is None:
            file.close()

    def fetch(self, begin: int, end: int) -> bytes:
        if self._cache is not None:  # of object stores; it refuses another version
            return bytes(self._cache.fetcher(begin, end))
        return bytes(self._files.cat_file(self._address, start=begin, end=end))


class _OpenedFiles:
    """The files that parts were read of last, and the first version of each that was ever read."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[str, int], _Opened] = OrderedDict()
        self._first: dict[str, Stored] = {}
        self._lock = threading.Lock()

    def get(self, address: str) -> _Opened:
        """Return a file.

        Raises:
            StorageError: its first version is no longer there.
        """
        key = address, os.getpid()
        with self._lock:
            if key in self._files:
                self._files.move_to_end(key)
                return self._files[key]
        opened = _Opened(address)
        with self._lock:
            if self._first.setdefault(address, opened.state) != opened.state:
                raise changed(address)
            while len(self._files) >= MAX_OPEN:
                self._files.popitem(last=False)
            return self._files.setdefault(key, opened)

    def close(self, address: str) -> None:
        with self._lock:
            self._files.pop((address, os.getpid()), None)


_opened = _OpenedFiles()


class _CheckedFile(io.RawIOBase):
    """A file of fsspec that raises UserErrors."""

    def __init__(self, file: Any, address: str) -> None:
        self._file, self._address = file, address

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def seek(self, offset: int, origin: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, origin))

    @override
    def readinto(self, buffer: Any) -> int:
        with as_user_errors(self._address):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    @override
    def close(self) -> None:
        self._file.close()
        super().close()
