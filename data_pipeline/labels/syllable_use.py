"""How often Mandarin uses each toned syllable, and how much of that use some labels cover.

`syllable_use.txt` has the syllables, the most frequent first, with their occurrences in a million;
tools/syllable_use.py counts them in running text.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

USE_FILE = Path(__file__).with_name("syllable_use.txt")
MILLION = 1_000_000


@functools.cache
def syllable_use() -> Mapping[str, float]:
    """Return the share of each toned syllable in use, the most frequent first; they sum to 1."""
    rows = [line.split() for line in USE_FILE.read_text(encoding="utf-8").splitlines()]
    total = sum(int(count) for _, count in rows)
    return {syllable: int(count) / total for syllable, count in rows}


@dataclass(frozen=True)
class Coverage:
    """How much of Mandarin some labels cover.

    Attributes:
        num_covered: number of toned syllables in use that occur among the labels.
        num_used: number of toned syllables in use.
        share: of running text that consists of covered syllables.
        missing: the others with their share, the most frequent first.
    """

    num_covered: int
    num_used: int
    share: float
    missing: Mapping[str, float]


def coverage_of(labels: Collection[str]) -> Coverage:
    """Return how much of Mandarin's toned syllables these labels cover."""
    use = syllable_use()
    missing = {syllable: share for syllable, share in use.items() if syllable not in labels}
    return Coverage(len(use) - len(missing), len(use), 1 - sum(missing.values()), missing)
