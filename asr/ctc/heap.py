"""Implements a binary heap in arrays, for compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable


class Heap(NamedTuple):
    """Items ordered so that the first has the smallest key."""

    keys: npt.NDArray[np.float64]
    items: npt.NDArray[np.int32]
    size: npt.NDArray[np.int32]  # (1,)


@compilable
def make_heap(room: int) -> Heap:
    """Return an empty heap with room for that many items."""
    return Heap(np.empty(room), np.empty(room, np.int32), np.zeros(1, np.int32))


@compilable
def push(heap: Heap, key: float, item: int) -> None:
    """Add an item with a key."""
    index = heap.size[0]
    heap.size[0] += 1
    while index and heap.keys[(index - 1) // 2] > key:
        above = (index - 1) // 2
        heap.keys[index], heap.items[index] = heap.keys[above], heap.items[above]
        index = above
    heap.keys[index], heap.items[index] = key, item


@compilable
def pop(heap: Heap) -> int:
    """Remove and return the item with the smallest key."""
    item: int = heap.items[0]
    heap.size[0] -= 1
    last = heap.size[0]
    heap.keys[0], heap.items[0] = heap.keys[last], heap.items[last]
    sift_down(heap, 0)
    return item


@compilable
def sift_down(heap: Heap, index: int) -> None:
    """Move an item down until no item below it has a smaller key."""
    key, item = heap.keys[index], heap.items[index]
    size = heap.size[0]
    while 2 * index + 1 < size:
        below = 2 * index + 1
        if below + 1 < size and heap.keys[below + 1] < heap.keys[below]:
            below += 1
        if heap.keys[below] >= key:
            break
        heap.keys[index], heap.items[index] = heap.keys[below], heap.items[below]
        index = below
    heap.keys[index], heap.items[index] = key, item
