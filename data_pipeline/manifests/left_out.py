"""Report what is left out of a corpus: it is always returned, counted by reason and written to a list."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from asr.base.system.files import whole_file
from data_pipeline.types import LeftOut

Item = TypeVar("Item")


class Partition(NamedTuple, Generic[Item]):
    """Usable results, and what was left out.

    Attributes:
        kept: in their order.
        left_out: in their order.
    """

    kept: list[Item]
    left_out: list[LeftOut]


def partition(results: Iterable[Item | LeftOut]) -> Partition[Item]:
    """Separate usable results from what is left out."""
    parts: Partition[Item] = Partition([], [])
    for result in results:
        if isinstance(result, LeftOut):
            parts.left_out.append(result)
        else:
            parts.kept.append(result)
    return parts


def write_left_out(path: Path, left_out: Sequence[LeftOut]) -> None:
    """Write a list with a line for each: reason, what, detail; write no file if nothing is left out."""
    path.unlink(missing_ok=True)
    if left_out:
        with whole_file(path, "list") as file:
            for row in left_out:
                cells = (" ".join(cell.split()) for cell in (row.reason, row.what, row.detail))
                file.write(("\t".join(cells) + "\n").encode(errors="backslashreplace"))


def reason_lines(left_out: Sequence[LeftOut], path: Path) -> list[str]:
    """Return lines for display: the number by reason, an example of each, and the path of the list."""
    if not left_out:
        return []
    counts = collections.Counter(row.reason for row in left_out)
    first = {row.reason: row for row in reversed(left_out)}
    lines = []
    for reason, count in counts.most_common():
        detail = f" ({first[reason].detail})" if first[reason].detail else ""
        lines.append(f"  {count:>7,}  {reason}: {first[reason].what}{detail}")
    return [*lines, f"  full list: {path}"]
