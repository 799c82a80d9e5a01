"""Read an ARPA file line by line, with errors that name the line."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from asr.base.errors import UserError
from asr.base.work import OnProgress, Work

BLOCK_BYTES = 1 << 23
LONGEST_LINE_BYTES = 1 << 20  # a file with longer lines is not ARPA
GZIP = b"\x1f\x8b"


class ArpaText:
    """A file that is read line by line.

    Args:
        path: path of the file, for errors.
        file: the open file.
        num_bytes: size of the text; None if it is compressed.
        on_progress: called with the number of bytes read.
    """

    def __init__(self, path: Path, file: BinaryIO, num_bytes: int | None, on_progress: OnProgress) -> None:
        self.path, self.file, self.num_bytes, self.on_progress = path, file, num_bytes, on_progress
        self.block, self.place, self.lines_before, self.num_read = b"", 0, 0, 0

    @property
    def is_packed(self) -> bool:
        """Return whether the file is gzipped."""
        return self.num_bytes is None

    def line(self) -> bytes | None:
        """Return the next line without its end; None at the end of the file."""
        if self.place == len(self.block) and not self._next_block():
            return None
        end = self.block.index(b"\n", self.place)
        line, self.place = self.block[self.place : end], end + 1
        return line.removesuffix(b"\r")

    def _next_block(self) -> bool:
        """Read the next block of lines; return whether there is one."""
        self.lines_before += self.block.count(b"\n")
        try:
            self.block = self.file.read(BLOCK_BYTES) + self.file.readline(LONGEST_LINE_BYTES)
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(
                f"{self.path}: cannot read the file to its end ({reason}); copy or make it again"
            ) from None
        if not self.num_read:
            self.block = self.block.removeprefix(codecs.BOM_UTF8)
        self.num_read += len(self.block)
        self.on_progress(Work(f"reading {self.path.name}", self.num_read, self.num_bytes, "bytes"))
        self.place = 0
        if self.block and not self.block.endswith(b"\n"):
            self.block += b"\n"
        return bool(self.block)

    def error(self, expected: str, received: str, remedy: str = "copy or make the file again") -> UserError:
        """Return an error about the line that was read last."""
        number = self.lines_before + self.block.count(b"\n", 0, self.place)
        return UserError(
            f"{self.path}, line {max(number, 1):,}: expected {expected}, received {received}; {remedy}"
        )


@contextlib.contextmanager
def open_arpa(path: Path, on_progress: OnProgress) -> Iterator[ArpaText]:
    """Open a plain or gzipped file for reading.

    Raises:
        UserError: the file cannot be opened.
    """
    try:
        file = path.open("rb")
        beginning = file.read(len(GZIP))
        file.seek(0)
    except OSError as error:
        raise UserError(f"{path}: cannot read this language model ({error.strerror})") from None
    with contextlib.ExitStack() as stack:
        stack.enter_context(file)
        unpacked = cast(BinaryIO, stack.enter_context(gzip.open(file))) if beginning == GZIP else file
        yield ArpaText(path, unpacked, path.stat().st_size if unpacked is file else None, on_progress)
