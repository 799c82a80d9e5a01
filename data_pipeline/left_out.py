"""What is left out of a corpus, written down and told: never in silence."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from pathlib import Path

from asr.base.files import whole_file
from data_pipeline.corpora.recording import LeftOut


def write_left_out(path: Path, left_out: Sequence[LeftOut]) -> None:
    """Keep the list, a line each: reason, what, detail; no file where nothing is left out."""
    path.unlink(missing_ok=True)
    if left_out:
        with whole_file(path, "list") as file:
            for row in left_out:
                cells = (" ".join(cell.split()) for cell in (row.reason, row.what, row.detail))
                file.write(("\t".join(cells) + "\n").encode(errors="backslashreplace"))


def reasons_told(left_out: Sequence[LeftOut], path: Path) -> list[str]:
    """Lines for a person: how many by reason, an example of each, and where the list is."""
    if not left_out:
        return []
    counts = collections.Counter(row.reason for row in left_out)
    first = {row.reason: row for row in reversed(left_out)}
    lines = []
    for reason, count in counts.most_common():
        detail = f" ({first[reason].detail})" if first[reason].detail else ""
        lines.append(f"  {count:>7,}  {reason}: {first[reason].what}{detail}")
    return [*lines, f"  each of them: {path}"]
