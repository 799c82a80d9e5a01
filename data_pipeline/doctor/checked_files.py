"""Remembers, beside a manifest, which recordings were decoded without an error.

Each start of a training, and each time it is resumed, would otherwise decode all compressed recordings: hours
for a large corpus. A recording is checked again if its size or its time of modification has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from asr.audio.recording import PIECE
from asr.base.errors import UserError
from asr.base.system.cache import cache_folder
from asr.base.system.files import whole_file
from asr.base.system.lock import lock_file
from asr.base.system.shards import shards_of, single_file
from asr.base.system.storage import store
from asr.base.system.storage.address import Address, is_address, path_of, stat_of

logger = logging.getLogger(__name__)

SUFFIX = ".checked"
VERSION = 2  # of the check: a higher one checks everything again
SETTLED_NS = 2_000_000_000  # a file that was changed since then may change again within one tick of its clock


Rows: TypeAlias = npt.NDArray[np.void]
ROW = np.dtype(
    [("key", "u8"), ("size", "i8"), ("modified_ns", "i8"), ("duration_s", "f8"), ("unstated", "S24")]
)
PACKED = struct.Struct("=Qqqd24s")  # a row


class CheckedRecording(NamedTuple):
    """What the check of a sound recording found.

    Attributes:
        duration_s: by its header.
        unstated: its container, if a missing end would not be noticed; else "".
    """

    duration_s: float
    unstated: str = ""


class CheckedFiles:
    """The size, the time of modification and what was found of each recording that is sound.

    Methods may be called in any thread.

    Args:
        rows: of ROW, sorted by their keys.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._keys = np.ascontiguousarray(rows["key"])
        self._added = bytearray()  # rows that were found since; extending it is safe in any thread

    @classmethod
    def load(cls, path: Path) -> CheckedFiles:
        """Read what was remembered; nothing where the file is missing, damaged or of another version."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                if int(arrays["version"]) == VERSION:
                    return cls(arrays["rows"].astype(ROW, casting="no"))
        except (OSError, ValueError, KeyError, EOFError, TypeError, IndexError, BadZipFile):
            pass
        return cls(np.zeros(0, ROW))

    def __len__(self) -> int:
        return len(self._rows)

    def save(self, path: Path, locked: Path) -> None:
        """Add what was found to the file, which another process may have changed since it was read.

        A folder that cannot be written to costs a check at the next start.

        Args:
            path: of the file.
            locked: another file, which is locked meanwhile.
        """
        if not self._added:
            return
        found = np.frombuffer(bytes(self._added), ROW)
        _, from_last = np.unique(found["key"][::-1], return_index=True)
        added = found[len(found) - 1 - from_last]  # of two checks of a file, the later one
        try:
            with locked.open("rb") as file_of_lock:
                lock_file(file_of_lock, wait=True)
                known = CheckedFiles.load(path)._rows
                kept = known[~np.isin(known["key"], added["key"])]
                rows = np.sort(np.concatenate([kept, added]), order="key")
                with whole_file(path, "list of checked recordings") as file:
                    np.savez(file, version=np.array(VERSION), rows=rows)
        except (OSError, UserError) as error:
            logger.debug("%s", error)

    def find(self, audio_path: str) -> CheckedRecording | None:
        """Return what is remembered of a sound recording that has not changed since; else None."""
        key, state = np.uint64(_key(audio_path)), file_state(audio_path)
        index = int(self._keys.searchsorted(key))
        if state is None or index == len(self._keys) or self._keys[index] != key:
            return None
        row = self._rows[index]
        is_same = row["size"] == state.st_size and row["modified_ns"] == state.st_mtime_ns
        return CheckedRecording(float(row["duration_s"]), row["unstated"].decode()) if is_same else None

    def add(self, audio_path: str, before: os.stat_result | None, found: CheckedRecording) -> None:
        """Remember a sound recording, unless it was changed a moment ago or during the check.

        Args:
            audio_path: of the recording.
            before: its state from before the check.
            found: what the check found.
        """
        after = file_state(audio_path)
        if before is None or after is None or before.st_mtime_ns != after.st_mtime_ns:
            return
        if after.st_size == before.st_size and time.time_ns() - after.st_mtime_ns > SETTLED_NS:
            state = (_key(audio_path), after.st_size, after.st_mtime_ns)
            self._added.extend(PACKED.pack(*state, found.duration_s, found.unstated.encode()))


@contextmanager
def checked_files(manifest: Path | None) -> Iterator[CheckedFiles]:
    """Open what is remembered of a manifest's recordings, and save what is added, also after an error.

    Args:
        manifest: its path; None to remember nothing.
    """
    if manifest is None:
        yield CheckedFiles(np.zeros(0, ROW))
        return
    path = _path_beside(path_of(manifest))
    files = CheckedFiles.load(path)
    try:
        yield files
    finally:
        files.save(path, _file_to_lock(manifest, path))


def _path_beside(manifest: Path) -> Path:
    """Return where a manifest's recordings are remembered: in the cache for one at an address."""
    single = single_file(manifest)
    if not isinstance(single, Address):
        return single.with_name(single.name + SUFFIX)
    key = hashlib.sha256(str(single).encode()).hexdigest()[:16]
    return cache_folder() / "checked" / f"{key}-{single.name}{SUFFIX}"


def _file_to_lock(manifest: Path, path: Path) -> Path:
    """Return a file that is not replaced while the list is saved: the manifest if it is on a disk."""
    if not isinstance(path_of(manifest), Address):
        return shards_of(manifest)[0]
    locked = path.with_name(f".{path.name}.lock")
    with contextlib.suppress(OSError):
        locked.parent.mkdir(parents=True, exist_ok=True)
        locked.touch()
    return locked


def _key(audio_path: str) -> int:
    return int.from_bytes(hashlib.blake2b(os.fsencode(audio_path), digest_size=8).digest(), "little")


def file_state(audio_path: str) -> os.stat_result | None:
    """Return the state of a recording's file, or of the pack that it is in."""
    piece = PIECE.fullmatch(audio_path)
    if is_address(audio_path):
        found = None if piece else store.find(audio_path)
        return stat_of(found) if found else None
    try:
        return os.stat(piece["path"] if piece else audio_path)  # noqa: PTH116 (a path for each takes as long)
    except (OSError, ValueError):
        return None
