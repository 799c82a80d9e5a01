"""Build a weighted finite-state transducer, and write it as OpenFst's binary file.

transducer = Transducer()
end = transducer.state(final=0.0)
transducer.start = transducer.chain([(ord("a"), ord("b"))], end)  # maps "a" to "b"
transducer.write(path)

Labels are bytes and `EPSILON`, weights are costs: of all paths that read a text, the cheapest counts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

EPSILON = 0  # the label of an arc that reads, or writes, nothing
NOT_FINAL = math.inf

# of fst/fst.h and fst/properties.h
MAGIC, VERSION = 2125659606, 2
STORED, SORTED_BY_INPUT = 0x3, 0x10000000  # without the latter, a composition tries all arcs of a state


class Arc(NamedTuple):
    """A transition to a state, which reads a label, writes one, and has a cost."""

    input: int
    output: int
    cost: float
    target: int


class Transducer:
    """States, numbered from 0, and the arcs that leave them.

    Attributes:
        start: the state in which a text begins.
    """

    def __init__(self) -> None:
        self.start = 0
        self._arcs: list[list[Arc]] = []
        self._final: list[float] = []
        self._links: dict[tuple[int, int, int], int] = {}

    @property
    def num_states(self) -> int:
        """Return the number of states."""
        return len(self._arcs)

    @property
    def num_arcs(self) -> int:
        """Return the number of arcs."""
        return sum(map(len, self._arcs))

    def state(self, final: float = NOT_FINAL) -> int:
        """Add a state, and return its number.

        Args:
            final: cost of ending there; infinite if a text cannot.
        """
        self._arcs.append([])
        self._final.append(final)
        return len(self._arcs) - 1

    def set_final(self, state: int, cost: float) -> None:
        """Let a text end in a state."""
        self._final[state] = cost

    def arc(
        self, source: int, target: int, read: int = EPSILON, write: int = EPSILON, cost: float = 0
    ) -> None:
        """Add an arc from one state to another."""
        self._arcs[source].append(Arc(read, write, cost, target))

    def chain(self, labels: Iterable[tuple[int, int]], target: int) -> int:
        """Return the first state of a chain of arcs that reads and writes labels and leads to a state.

        Chains to one state share their ends, so that nothing may be added to their states.

        Args:
            labels: what each arc reads and writes.
            target: where the last arc leads.
        """
        for read, write in reversed(list(labels)):
            link = read, write, target
            if link not in self._links:
                self._links[link] = self.state()
                self.arc(self._links[link], target, read, write)
            target = self._links[link]
        return target

    def write(self, path: Path) -> None:
        """Write the transducer as OpenFst's type "vector" over "standard" arcs.

        Raises:
            OSError: the file cannot be written.
        """
        header = struct.pack("<i", MAGIC) + _text(b"vector") + _text(b"standard")
        flags, properties = 0, STORED | SORTED_BY_INPUT
        sizes = self.start, self.num_states, self.num_arcs
        with path.open("wb") as file:
            file.write(header + struct.pack("<iiQqqq", VERSION, flags, properties, *sizes))
            for final, arcs in zip(self._final, self._arcs, strict=True):
                packed = b"".join(struct.pack("<iifi", *arc) for arc in sorted(arcs))
                file.write(struct.pack("<fq", final, len(arcs)) + packed)


def _text(text: bytes) -> bytes:
    return struct.pack("<i", len(text)) + text
