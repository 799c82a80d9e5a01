"""The utterances of manifests, millions of them: what planning needs is in arrays, the rest in lines."""

from __future__ import annotations

import itertools
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from asr.base.system.storage.address import is_address
from asr.base.types import Utterance
from data_pipeline.manifests.columns import Columns, joined_columns, utterance_keys
from data_pipeline.manifests.lines import Lines
from data_pipeline.manifests.record import Identity, identity_of, utterance_of
from data_pipeline.manifests.rows import ComparedByItems

READ_AT_ONCE = 1 << 16  # lines whose indices are numbers of Python at a time


class Source(NamedTuple):
    """The lines of one file.

    Attributes:
        lines: that have been checked.
        folder: that audio paths are relative to, "" for the current one, with a slash at its end otherwise.
        is_remote: whether recordings are at addresses, some or all.
    """

    lines: Lines
    folder: str
    is_remote: bool = False


class Utterances(ComparedByItems[Utterance]):
    """The utterances of one or several manifests; one is made of its line each time it is asked for.

    Args:
        sources: the files that they are from.
        indices: of their lines among those of all sources, (N,).
        columns: some of their fields, in the same order.
    """

    def __init__(self, sources: Sequence[Source], indices: npt.NDArray[np.int64], columns: Columns) -> None:
        self._sources, self._indices, self.columns = sources, indices, columns
        self._begins: list[int] = np.cumsum([0, *(len(source.lines) for source in sources)]).tolist()

    def take(self, indices: npt.NDArray[np.integer] | slice) -> Utterances:
        """Return some of the utterances."""
        return Utterances(self._sources, self._indices[indices], self.columns.take(indices))

    def followed_by(self, others: Sequence[Utterances]) -> Utterances:
        """Return these utterances and, after them, others."""
        sets = [self, *others]
        begins = np.cumsum([0, *(one._begins[-1] for one in sets)]).tolist()
        return Utterances(
            [source for one in sets for source in one._sources],
            np.concatenate([one._indices + begin for one, begin in zip(sets, begins, strict=False)]),
            joined_columns([one.columns for one in sets]),
        )

    @override
    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> Utterance: ...
    @overload
    def __getitem__(self, index: slice) -> Utterances: ...
    @override
    def __getitem__(self, index: int | slice) -> Utterance | Utterances:
        if isinstance(index, slice):
            return self.take(index if index.step in (None, 1) else np.arange(len(self))[index])
        line = int(self._indices[index])
        number = bisect_right(self._begins, line) - 1
        (content,) = self._sources[number].lines.read([line - self._begins[number]])
        return utterance_of(content, self._sources[number].folder)

    @override
    def __iter__(self) -> Iterator[Utterance]:
        return itertools.starmap(utterance_of, self._lines(self._indices))

    @property
    def is_remote(self) -> bool:
        """Return whether recordings are at addresses, some or all."""
        return any(source.is_remote for source in self._sources)

    def checksum(self) -> int:
        """Return a checksum of the ids, durations and tokens, see `checksum_of`."""
        return checksum_of(identity_of(line) for line, _ in self._lines(self._indices))

    def _lines(self, indices: npt.NDArray[np.int64]) -> Iterator[tuple[bytes, str]]:
        """Yield lines, each with the folder that its audio path is relative to."""
        for begin in range(0, len(indices), READ_AT_ONCE):
            some = indices[begin : begin + READ_AT_ONCE]
            numbers = np.searchsorted(self._begins, some, "right") - 1
            for part in np.split(some, np.flatnonzero(np.diff(numbers)) + 1):
                number = bisect_right(self._begins, part[0]) - 1
                source = self._sources[number]
                for line in source.lines.read((part - self._begins[number]).tolist()):
                    yield line, source.folder

    @override
    def __repr__(self) -> str:
        return f"<{len(self):,} utterances>"


class UtterancesById:
    """Utterances that are found by their ids: sixteen bytes each.

    Args:
        utterances: with different ids.
    """

    def __init__(self, utterances: Utterances) -> None:
        self._utterances = utterances
        self._order = np.argsort(utterances.columns.keys)
        self._keys = utterances.columns.keys[self._order]

    def find(self, utterance_id: str) -> int | None:
        """Return the index of the utterance with an id; None if there is none."""
        (key,) = utterance_keys([utterance_id])
        begin, end = (int(self._keys.searchsorted(key, side)) for side in ("left", "right"))
        found = (
            index for index in self._order[begin:end].tolist() if self._utterances[index].id == utterance_id
        )
        return next(found, None)


def checksum_of(identities: Iterable[Identity]) -> int:
    """Return a checksum of ids, durations and tokens, and of their order."""
    checksum = 0
    for index, identity in enumerate(identities):
        line = f"\n{identity!r}" if index else repr(identity)
        checksum = zlib.crc32(line.encode(errors="backslashreplace"), checksum)
    return checksum


def columns_of(utterances: Sequence[Utterance]) -> Columns:
    """Return the columns of utterances, which those of manifests have already."""
    return utterances.columns if isinstance(utterances, Utterances) else Columns.of(utterances)


def durations_of(utterances: Sequence[Utterance]) -> npt.NDArray[np.float64]:
    """Return the seconds of each utterance, (N,)."""
    if isinstance(utterances, Utterances):
        return utterances.columns.durations_s
    return np.array([utterance.duration_s for utterance in utterances])


def is_remote(utterances: Sequence[Utterance]) -> bool:
    """Return whether recordings are at addresses, some or all."""
    if isinstance(utterances, Utterances):
        return utterances.is_remote
    return any(is_address(utterance.audio_path) for utterance in utterances)


def some_of(utterances: Sequence[Utterance], indices: Sequence[int]) -> Sequence[Utterance]:
    """Return some utterances, in memory only once where they are of a manifest."""
    if isinstance(utterances, Utterances):
        return utterances.take(np.asarray(indices, np.int64))
    return [utterances[index] for index in indices]
