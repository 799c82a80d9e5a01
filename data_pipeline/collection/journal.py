"""A file of lines in JSON that survives the end of its process at any moment."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asr.base.errors import UserError
from asr.base.system.files import cannot_write, flush

Fields = Mapping[str, Any]  # of an object in JSON


class TakeJournal:
    """A file of lines in JSON that grows by whole lines, each flushed to the disk; half a line is cut off.

    Args:
        path: of the file; made if it is missing.

    Attributes:
        rows: the objects read from the file when it was opened.

    Raises:
        UserError: the file cannot be written, or a line in the middle is broken.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("a+b", buffering=0)
            self._file.seek(0)
            lines = self._file.readall().split(b"\n")
        except OSError as error:
            raise cannot_write(path, "list of takes", error) from None
        self.rows = self._parsed(lines)
        self.num_rows = len(self.rows)
        self._end = sum(len(line) + 1 for line in lines[: self.num_rows])
        self._file.truncate(self._end)
        flush(path.parent)

    def _parsed(self, lines: Sequence[bytes]) -> list[dict[str, Any]]:
        """Return the objects of all lines up to the torn end, which has no valid line after it."""
        found = [_object(line) for line in lines[:-1]]
        num_valid = max((number for number, row in enumerate(found, 1) if row is not None), default=0)
        for number, row in enumerate(found[:num_valid], 1):
            if row is None:
                raise UserError(f"{self._path}:{number}: expected an object in JSON; remove this line")
        return [row for row in found[:num_valid] if row is not None]

    def append(self, row: Fields) -> int:
        """Append a line, flush it to the disk, and return its number from 1.

        Raises:
            UserError: it cannot be written; nothing of it remains.
        """
        line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
        try:
            self._file.truncate(self._end)  # removes what a failure left
            rest = memoryview(line)
            while rest:  # a disk that is nearly full takes a part, and then raises the reason
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            raise cannot_write(self._path, "list of takes", error) from None
        self._end += len(line)
        self.num_rows += 1
        return self.num_rows

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
