"""Fetch recordings from object storage before they are needed, many at a time.

ahead = ReadAhead(len(batches), lambda number: batches[number])    # lists of paths
for number, batch in enumerate(batches):
    fetched = ahead.take(number)
    waveforms = [read_audio(fetched[path]) for path in batch]
ahead.close()

A request to object storage takes a twentieth of a second and a few milliseconds of processor time, whatever
it brings. So the requests of many groups are under way together, and pieces of a pack that are near each
other come in one, whichever group they are of. The first groups are asked for a few at a time, since somebody
waits for them.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import NamedTuple

from asr.audio.recording import PIECE, stored_bytes
from asr.base.system.storage.store import read_range

NUM_THREADS = 16  # the processor makes no more requests in 50 ms
AHEAD_BYTES = 256 << 20  # of recordings that are not used yet; two hours of 16-bit WAV
FIRST_BYTES = 1 << 20  # of the groups that are asked for first, about one batch
GROWTH = 4  # from one block of groups to the next
BLOCKS_AHEAD = 4  # at least, so that there is always one to use
GAP_BYTES = 256 << 10  # read, and thrown away, rather than asking again: as long takes the processor
LARGEST_BYTES = 8 << 20  # of one request
TYPICAL_BYTES = 128 << 10  # of a file whose size nobody has stated


class FilePart(NamedTuple):
    """A recording within a file, or a whole file.

    Attributes:
        path: of the recording.
        file: that it is in.
        begin: of the recording, in bytes.
        end: of the recording; 0 for a whole file.
    """

    path: str
    file: str
    begin: int
    end: int

    @classmethod
    def of(cls, path: str) -> FilePart:
        """Return where a recording is."""
        piece = PIECE.fullmatch(path)
        if piece is None:
            return cls(path, path, 0, 0)
        begin = int(piece["begin"])
        return cls(path, piece["path"], begin, begin + int(piece["num_bytes"]))

    @property
    def num_bytes(self) -> int:
        """Return its size, of a whole file about."""
        return self.end - self.begin if self.end else TYPICAL_BYTES


class Fetched(io.BytesIO):
    """A recording in memory, whose errors name where it is from."""

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data)
        self.name = name


class ReadAhead:
    """The recordings of groups, such as batches, fetched ahead in the order in which they are taken.

    Safe to use from several threads, each of which takes other groups.

    Args:
        num_groups: how many there are.
        paths_of: returns the paths of a group's recordings at addresses, by its number.
        ahead_bytes: of recordings that are fetched, or under way, and not taken, up to half more.
    """

    def __init__(
        self, num_groups: int, paths_of: Callable[[int], Iterable[str]], ahead_bytes: int = AHEAD_BYTES
    ) -> None:
        self._num_groups, self._paths_of, self._room = num_groups, paths_of, ahead_bytes
        self._largest_block = max(1, ahead_bytes // BLOCKS_AHEAD)
        self._block_bytes = min(FIRST_BYTES, self._largest_block)
        self._next = 0
        self._under_way: dict[int, _Group] = {}
        self._lock, self._is_closed = threading.Lock(), False
        self._pool = ThreadPoolExecutor(NUM_THREADS, "read-ahead")

    def close(self) -> None:
        """Fetch nothing more."""
        with self._lock:
            self._is_closed, self._num_groups = True, 0
            self._under_way.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def take(self, number: int) -> Mapping[str, Fetched]:
        """Return the recordings of a group by their paths; fetch later groups meanwhile.

        Raises:
            UserError: one cannot be read.
            CancelledError: `close` was called.
        """
        with self._lock:
            if self._is_closed:
                raise CancelledError
            while self._next < self._num_groups and self._next <= number:
                self._fetch_block()
            self._fetch_more()
            group = self._under_way.pop(number, None)
        if group is None:
            return {}
        try:
            return {path: Fetched(request.result()[path], path) for path, request in group.requests.items()}
        finally:
            with self._lock:
                self._room += group.num_bytes
                self._fetch_more()

    def _fetch_more(self) -> None:
        """Ask for one block if there is room: for all that there is room for, the first group would wait."""
        if self._next < self._num_groups and self._room > 0:
            self._fetch_block()

    def _fetch_block(self) -> None:
        """Ask for the next groups together: among more of them, more pieces are near each other."""
        block: dict[int, list[FilePart]] = {}
        num_bytes = 0
        while self._next < self._num_groups and (not block or num_bytes < self._block_bytes):
            block[self._next] = [FilePart.of(path) for path in dict.fromkeys(self._paths_of(self._next))]
            num_bytes += sum(piece.num_bytes for piece in block[self._next])
            self._next += 1
        requests: dict[str, Future[dict[str, bytes]]] = {}
        needed_by = {piece: number for number in reversed(block) for piece in block[number]}

        def first_group(together: Iterable[FilePart]) -> int:
            """Return the first group that needs one of these pieces, and waits for the requests before."""
            return min(needed_by[piece] for piece in together)

        for together in sorted(near_each_other(needed_by), key=first_group):
            request = self._pool.submit(_read, together)
            requests |= {piece.path: request for piece in together}
        for number, pieces in block.items():
            size = sum(piece.num_bytes for piece in pieces)
            self._under_way[number] = _Group({piece.path: requests[piece.path] for piece in pieces}, size)
        self._room -= num_bytes
        self._block_bytes = min(GROWTH * self._block_bytes, self._largest_block)


class _Group(NamedTuple):
    requests: Mapping[str, Future[dict[str, bytes]]]
    num_bytes: int


def near_each_other(pieces: Iterable[FilePart]) -> Iterator[list[FilePart]]:
    """Yield pieces to read in one request each time."""
    together: list[FilePart] = []
    for piece in sorted(pieces, key=lambda piece: (piece.file, piece.begin)):
        if together and not _is_near(together, piece):
            yield together
            together = []
        together.append(piece)
    if together:
        yield together


def _is_near(together: Sequence[FilePart], piece: FilePart) -> bool:
    first, last = together[0], together[-1]
    return (
        piece.file == last.file
        and piece.end > 0
        and piece.begin - last.end <= GAP_BYTES
        and piece.end - first.begin <= LARGEST_BYTES
    )


def _read(together: Sequence[FilePart]) -> dict[str, bytes]:
    first, end = together[0], max(piece.end for piece in together)
    if not end:
        return {first.path: stored_bytes(first.path)}
    data = read_range(first.file, first.begin, end - first.begin)
    return {one.path: data[one.begin - first.begin : one.end - first.begin] for one in together}
