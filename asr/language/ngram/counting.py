"""Count all n-grams of one length in bounded memory: sorted runs on disk, merged block by block.

An n-gram is reversed, the last word first, and packed into a few 64-bit integers. In this order n-grams with
the same ending are adjacent, as Kneser-Ney smoothing needs them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable, compiled
from asr.base.system.files import cannot_write
from asr.language.ngram.model import Int32

Keys = npt.NDArray[np.uint64]  # (N, W), the first column is the most significant
Counts = npt.NDArray[np.int64]

BEGIN_ID, END_ID = 1, 2  # of <s> and </s>
PAD_ID = 0  # pads before <s>; <unk>, which has the same id, never occurs in the training text
BYTES_PER_KEY_WORD = 40  # of one column: keys, their sorted copy, flags of changes, and merged keys
MIN_ROOM = 1000  # n-grams


class CountedRows(NamedTuple):
    """Different n-grams in the order of their reversed words, and their counts."""

    rows: Int32  # (N, order), the last word first
    counts: Counts  # (N,)


class Packing(NamedTuple):
    """How reversed n-grams are packed."""

    order: int
    bits: int

    @classmethod
    def of(cls, order: int, num_words: int) -> Packing:
        """Return the packing for n-grams over a number of words."""
        return cls(order, max(1, (num_words - 1).bit_length()))

    @property
    def per_column(self) -> int:
        """Return the number of words in an integer."""
        return 64 // self.bits

    @property
    def num_columns(self) -> int:
        """Return the number of integers for an n-gram."""
        return -(-self.order // self.per_column)


class SortedCounts:
    """N-grams and their counts in order, in memory or in a nameless file.

    Args:
        packing: packing of the n-grams.
        keys: (N, W) all keys; None if they are in a file.
        counts: (N,) all counts; None if they are in a file.
        run: the keys and counts in a file.
        block_size: number of n-grams that are read at once from the file.
    """

    def __init__(
        self,
        packing: Packing,
        keys: Keys | None = None,
        counts: Counts | None = None,
        run: SortedRun | None = None,
        block_size: int = 0,
    ) -> None:
        self._packing, self._keys, self._counts = packing, keys, counts
        self._run, self._block_size = run, block_size

    def blocks(self) -> Iterator[CountedRows]:
        """Yield all n-grams and counts; can be called repeatedly."""
        if self._run is None:
            assert self._keys is not None
            assert self._counts is not None
            yield CountedRows(
                compiled(unpack)(self._keys, self._packing.order, self._packing.bits), self._counts
            )
            return
        for begin in range(0, self._run.length, self._block_size):
            keys, counts = self._run.read(begin, self._block_size)
            yield CountedRows(compiled(unpack)(keys, self._packing.order, self._packing.bits), counts)


class SortedRun:
    """Sorted keys and counts in nameless files, which vanish when this process ends."""

    def __init__(self, folder: Path, num_columns: int) -> None:
        self._folder, self._num_columns = folder, num_columns
        self._keys, self._counts = temporary_file(folder), temporary_file(folder)
        self.length = 0

    def append(self, keys: Keys, counts: Counts) -> None:
        """Append keys and counts at the end."""
        write_array(self._keys, keys, self._folder)
        write_array(self._counts, counts, self._folder)
        self.length += len(counts)

    def read(self, begin: int, length: int) -> tuple[Keys, Counts]:
        """Read up to `length` keys and counts from `begin` on; fewer at the end."""
        length = min(length, self.length - begin)
        keys = read_array(
            self._keys, np.dtype(np.uint64), begin * self._num_columns, length * self._num_columns
        )
        counts = read_array(self._counts, np.dtype(np.int64), begin, length)
        return keys.reshape(length, self._num_columns), counts

    def close(self) -> None:
        """Close the files, which frees their space."""
        self._keys.close()
        self._counts.close()


def count_ngrams(
    blocks: Iterable[Int32], order: int, num_words: int, memory_bytes: int, folder: Path
) -> SortedCounts:
    """Count all n-grams of one length.

    Args:
        blocks: whole sentences of word ids, each ending with `END_ID`, which occurs nowhere else.
        order: length; n-grams at the beginning of a sentence contain `BEGIN_ID` and, before it, `PAD_ID`.
        num_words: upper bound of the ids.
        memory_bytes: memory for counting; the rest goes to disk.
        folder: folder for files without a name.

    Raises:
        UserError: the folder cannot be written, or its disk is full.
    """
    packing = Packing.of(order, num_words)
    room = max(MIN_ROOM, memory_bytes // (BYTES_PER_KEY_WORD * (packing.num_columns + 1)))
    runs: list[SortedRun] = []
    waiting: list[Keys] = []
    num_waiting = 0
    for tokens in blocks:
        for piece in _pieces(tokens, room):
            if num_waiting + len(piece) > room and waiting:
                _spill(waiting, runs, folder, packing)
                waiting, num_waiting = [], 0
            waiting.append(
                compiled(_reversed_ngrams)(
                    piece, order, packing.bits, packing.per_column, packing.num_columns
                )
            )
            num_waiting += len(piece)
    if not runs:
        return SortedCounts(packing, *_reduced(_joined(waiting, packing), None))
    _spill(waiting, runs, folder, packing)
    del waiting
    merged = _merged(runs, folder, packing, max(MIN_ROOM, room // 2))
    return SortedCounts(packing, run=merged, block_size=max(MIN_ROOM, room // 4))


def temporary_file(folder: Path) -> IO[bytes]:
    """Open a temporary file without a name.

    Raises:
        UserError: the file cannot be created in the folder.
    """
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise cannot_write(folder, "temporary file", error) from None


def write_array(file: IO[bytes], array: npt.NDArray[np.generic], folder: Path) -> None:
    """Append an array's bytes to a temporary file.

    Raises:
        UserError: the disk is full.
    """
    try:
        file.seek(0, 2)
        file.write(np.ascontiguousarray(array).data)
        file.flush()
    except OSError as error:
        raise cannot_write(folder, "temporary file", error) from None


def read_array(file: IO[bytes], dtype: np.dtype[np.generic], begin: int, length: int) -> npt.NDArray[Any]:
    """Read elements of an array that `write_array` wrote."""
    file.seek(begin * dtype.itemsize)
    return np.frombuffer(file.read(length * dtype.itemsize), dtype)


def _pieces(tokens: Int32, room: int) -> Iterator[Int32]:
    """Yield whole sentences, about `room` tokens at a time."""
    ends = np.flatnonzero(tokens == END_ID) + 1
    begin = 0
    while begin < len(tokens):
        last = max(np.searchsorted(ends, begin + room, "right") - 1, np.searchsorted(ends, begin, "right"))
        yield tokens[begin : ends[last]]
        begin = int(ends[last])


def _spill(waiting: list[Keys], runs: list[SortedRun], folder: Path, packing: Packing) -> None:
    keys, counts = _reduced(_joined(waiting, packing), None)
    run = SortedRun(folder, packing.num_columns)
    run.append(keys, counts)
    runs.append(run)


def _joined(keys: list[Keys], packing: Packing) -> Keys:
    return np.concatenate(keys) if keys else np.zeros((0, packing.num_columns), np.uint64)


def _reduced(keys: Keys, counts: Counts | None) -> tuple[Keys, Counts]:
    """Return each key once, in order, with the sum of its counts; without counts each key counts once."""
    if not len(keys):
        return keys, np.zeros(0, np.int64)
    if counts is None and keys.shape[1] == 1:
        keys = np.sort(keys, axis=0)
    else:
        order = np.lexsort(keys.T[::-1])
        keys = keys[order]
        counts = counts[order] if counts is not None else None
    begins = np.flatnonzero(np.concatenate([[True], (keys[1:] != keys[:-1]).any(axis=1)]))
    if counts is None:
        return keys[begins], np.diff(np.append(begins, len(keys)))
    return keys[begins], np.add.reduceat(counts, begins)


def _merged(runs: list[SortedRun], folder: Path, packing: Packing, room: int) -> SortedRun:
    """Merge all runs into one, reading each a little at a time."""
    merged = SortedRun(folder, packing.num_columns)
    share = max(MIN_ROOM // 10, room // len(runs))
    indices = [0] * len(runs)
    heads = [run.read(0, share) for run in runs]
    while any(len(counts) for _, counts in heads):
        # keys up to the lowest of the last keys read occur in no later part of any run
        lasts = [keys[-1] for keys, _ in heads if len(keys)]
        limit = min(lasts, key=lambda key: tuple(key.tolist()))
        ready = [compiled(_num_not_above)(keys, limit) for keys, _ in heads]
        taken = [(keys[:n], counts[:n]) for (keys, counts), n in zip(heads, ready, strict=True)]
        merged.append(*_reduced(np.concatenate([k for k, _ in taken]), np.concatenate([c for _, c in taken])))
        for index, run in enumerate(runs):
            if ready[index]:
                indices[index] += ready[index]
                heads[index] = run.read(indices[index], share)
    for run in runs:
        run.close()
    return merged


@compilable
def _num_not_above(keys: Keys, limit: npt.NDArray[np.uint64]) -> int:
    """Return how many of these sorted keys are at most the limit."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        above = False
        for column in range(keys.shape[1]):
            if keys[middle, column] != limit[column]:
                above = keys[middle, column] > limit[column]
                break
        if above:
            high = middle
        else:
            low = middle + 1
    return low


@compilable
def _reversed_ngrams(tokens: Int32, order: int, bits: int, per_column: int, num_columns: int) -> Keys:
    """Return the n-gram that ends with each token, reversed and packed."""
    keys = np.empty((len(tokens), num_columns), np.uint64)
    window = np.empty(order, np.uint64)  # the last words, the latest first
    window[:] = PAD_ID
    window[0] = BEGIN_ID
    for position in range(len(tokens)):
        for index in range(order - 1, 0, -1):
            window[index] = window[index - 1]
        window[0] = tokens[position]
        for column in range(num_columns):
            key = np.uint64(0)
            for index in range(column * per_column, min(order, (column + 1) * per_column)):
                key = (key << np.uint64(bits)) | window[index]
            keys[position, column] = key
        if tokens[position] == END_ID:
            window[:] = PAD_ID
            window[0] = BEGIN_ID
    return keys


@compilable
def unpack(keys: Keys, order: int, bits: int) -> Int32:
    """Unpack reversed n-grams to (N, order) word ids."""
    rows = np.empty((len(keys), order), np.int32)
    per_column = 64 // bits
    mask = np.uint64((1 << bits) - 1)
    for row in range(len(keys)):
        for column in range(keys.shape[1]):
            key = keys[row, column]
            begin = column * per_column
            for index in range(min(order, begin + per_column) - 1, begin - 1, -1):
                rows[row, index] = np.int32(key & mask)
                key >>= np.uint64(bits)
    return rows
