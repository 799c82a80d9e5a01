"""Rows of integers of different lengths, kept in one array: labels, and the clips of batches."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import override

T = TypeVar("T")

TAKEN_AT_ONCE = 1 << 16  # rows, which bounds the memory of the indices into their values
FOUND_AT_ONCE = 1 << 20  # values: indices of 32 bits are copied as 64


class ComparedByItems(Sequence[T]):
    """A sequence that equals any other with the same items."""

    @override
    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == same for one, same in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class Rows(ComparedByItems[list[int]]):
    """Rows of integers, which take eight bytes each besides their values; a row is read as a list.

    Args:
        values: (M,) of all rows, one row after the other.
        begins: (N + 1,) where each row begins in the values, and where the last one ends.
    """

    def __init__(self, values: npt.NDArray[np.integer], begins: npt.NDArray[np.int64]) -> None:
        self._values, self._begins = values, begins

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]]) -> Rows:
        """Keep rows in an array of 32-bit integers."""
        values, begins = array("i"), array("q", [0])
        for row in rows:
            values.extend(row)
            begins.append(len(values))
        return cls(np.frombuffer(values, np.int32), np.frombuffer(begins, np.int64))

    @property
    def values(self) -> npt.NDArray[np.integer]:
        """Return the values of all rows, (M,)."""
        return self._values[self._begins[0] : self._begins[-1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Return the number of values of each row, (N,)."""
        return np.diff(self._begins)

    def take(self, indices: npt.NDArray[np.integer]) -> Rows:
        """Return some rows, in the order of their indices."""
        begins = np.concatenate([[0], np.cumsum(self.lengths[indices])])
        values = np.empty(begins[-1], self._values.dtype)
        for first in range(0, len(indices), TAKEN_AT_ONCE):
            chosen = indices[first : first + TAKEN_AT_ONCE]
            new = begins[first : first + len(chosen) + 1]
            shifts = np.repeat(self._begins[chosen] - new[:-1], np.diff(new))
            values[new[0] : new[-1]] = self._values[np.arange(new[0], new[-1]) + shifts]
        return Rows(values, begins)

    def with_values(self, values: npt.NDArray[np.integer]) -> Rows:
        """Return rows of the same lengths with other values, (M,)."""
        return Rows(values, self._begins - self._begins[0] if self._begins[0] else self._begins)

    def where(self, keep: npt.NDArray[np.bool_]) -> Rows:
        """Return the rows without some of their values.

        Args:
            keep: (M,) whether each value stays.
        """
        num_kept = np.concatenate([[0], np.cumsum(keep)])
        return Rows(self.values[keep], num_kept[self._begins - self._begins[0]])

    @override
    def __len__(self) -> int:
        return len(self._begins) - 1

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    @override
    def __getitem__(self, index: int | slice) -> list[int] | Rows:
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step != 1:
                return self.take(np.arange(begin, end, step))
            return Rows(self._values, self._begins[begin : max(begin, end) + 1])
        index = range(len(self))[index]
        row: list[int] = self._values[self._begins[index] : self._begins[index + 1]].tolist()
        return row

    @override
    def __iter__(self) -> Iterator[list[int]]:
        for begin, end in itertools.pairwise(self._begins):
            yield self._values[begin:end].tolist()

    @override
    def __repr__(self) -> str:
        return f"Rows.of({list(self)!r})"


def narrow(values: npt.NDArray[np.int32], num_different: int) -> npt.NDArray[np.integer]:
    """Return numbers from 0 to below another one in 16 bits each where these are enough, (M,)."""
    return values.astype(np.uint16) if num_different <= 1 << 16 else values


def looked_up(table: npt.NDArray[np.integer], indices: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """Return the table's values at many indices, (M,), of the table's type."""
    found = np.empty(len(indices), table.dtype)
    for begin in range(0, len(indices), FOUND_AT_ONCE):
        found[begin : begin + FOUND_AT_ONCE] = table[indices[begin : begin + FOUND_AT_ONCE]]
    return found
