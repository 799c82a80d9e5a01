"""Present a new head and parts of a stream as one stream."""

from __future__ import annotations

import bisect
import io
from typing import BinaryIO, NamedTuple


class Whole(NamedTuple):
    """A stream that libsndfile reads to the end of its audio.

    Attributes:
        stream: seekable.
        reason: why audio would be missing; "" if none would be.
        is_stated: whether the length is stated, so that a missing end would be noticed.
        is_complete: whether all audio that is stated was found, so that its end need not be decoded.
    """

    stream: BinaryIO
    reason: str
    is_stated: bool
    is_complete: bool = False


class Joined(io.RawIOBase):
    """A head and parts of a stream as one stream.

    Args:
        stream: seekable.
        head: what comes first.
        runs: begin and end of the parts.
    """

    def __init__(self, stream: BinaryIO, head: bytes, runs: list[tuple[int, int]]) -> None:
        self._stream, self._head, self._place = stream, head, 0
        self._begins, self._runs, place = [0], [(0, len(head)), *runs], 0
        for begin, end in self._runs:
            place += end - begin
            self._begins.append(place)

    def seekable(self) -> bool:
        """Return whether positions can be chosen or bytes read: always."""
        return True

    def readable(self) -> bool:
        """Return whether positions can be chosen or bytes read: always."""
        return True

    def tell(self) -> int:
        """Return the position in the joined stream."""
        return self._place

    def seek(self, offset: int, origin: int = 0, /) -> int:
        """Move to a position; before the beginning is an error, as of other streams."""
        place = offset + (0, self._place, self._begins[-1])[origin]
        if place < 0:
            raise ValueError(f"expected a position from 0, received {place}")
        self._place = place
        return place

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        wanted = self._begins[-1] - self._place if size < 0 else size
        parts = []
        while wanted > 0 and self._place < self._begins[-1]:
            part = self._read_one(wanted)
            if not part:  # the file became shorter
                break
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)

    def _read_one(self, size: int) -> bytes:
        index = bisect.bisect_right(self._begins, self._place) - 1
        begin, end = self._runs[index]
        begin += self._place - self._begins[index]
        if index == 0:
            part = self._head[begin : begin + size]
        else:
            self._stream.seek(begin)
            part = self._stream.read(min(size, end - begin))
        self._place += len(part)
        return part

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill a buffer with the next bytes, and return their number."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)
