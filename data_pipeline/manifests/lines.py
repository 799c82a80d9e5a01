"""The lines of manifests in memory, compressed where they are many.

Lines stay as they were read, whatever becomes of their file, and are parsed when they are asked for.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

PLAIN_BYTES = 32 << 20  # of lines that are not compressed: 150,000 utterances
BLOCK_BYTES = 16 << 10  # compressed together: a block is read in 50 us, a quarter of its lines' size
LEVEL = 1  # of compression: a higher one takes three times as long to make them 15 % smaller


class Lines:
    """A list of lines that grows at its end; safe to read from several threads.

    Args:
        plain_bytes: lines beyond these are compressed.
    """

    def __init__(self, plain_bytes: int = PLAIN_BYTES) -> None:
        self._room = plain_bytes
        self._ends = array("q", [0])  # of each line among all bytes
        self._blocks: list[bytes] = []
        self._first_lines = array("q")  # the index of each block's first line
        self._num_compressed_from = 0  # blocks from this one on are compressed
        self._new: list[bytes] = []
        self._new_bytes = 0
        self._opened = (-1, b"")  # the block that was read last

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, line: bytes) -> None:
        """Add a line at the end."""
        self._new.append(line)
        self._new_bytes += len(line)
        self._ends.append(self._ends[-1] + len(line))
        if self._new_bytes >= BLOCK_BYTES:
            self.finish()

    def finish(self) -> None:
        """Make the lines added last readable."""
        if not self._new:
            return
        block = b"".join(self._new)
        self._first_lines.append(len(self) - len(self._new))
        self._room -= len(block)
        if self._room >= 0:
            self._num_compressed_from += 1
        else:
            block = zlib.compress(block, LEVEL)
        self._blocks.append(block)
        self._new, self._new_bytes = [], 0

    def read(self, indices: Iterable[int]) -> Iterator[bytes]:
        """Yield the lines of these indices; those of one block are best asked for together."""
        ends, first_lines = self._ends, self._first_lines
        block, begin, first, last = b"", 0, 0, 0
        for index in indices:
            if not first <= index < last:
                number = bisect_right(first_lines, index) - 1
                first = first_lines[number]
                last = first_lines[number + 1] if number + 1 < len(first_lines) else len(self)
                block, begin = self._block(number), ends[first]
            yield block[ends[index] - begin : ends[index + 1] - begin]

    def _block(self, number: int) -> bytes:
        if number < self._num_compressed_from:
            return self._blocks[number]
        opened, block = self._opened
        if opened != number:
            block = zlib.decompress(self._blocks[number])
            self._opened = (number, block)
        return block
