"""Arranges the counts of a manifest's syllables, whatever their tone, by initial and final."""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asr.base.text.pinyin import is_syllable, mandarin_syllables, split_syllable

INITIALS = ("", *"bpmfdtnlgkhjqx", "zh", "ch", "sh", *"rzcsyw")  # by place of articulation
THOUSAND, MILLION = 1_000, 1_000_000


@dataclass(frozen=True)
class SyllableCell:
    """How often a final follows an initial.

    Attributes:
        kind: "known" if it occurs, "missing" if Mandarin has such a syllable, else "impossible".
        count: the occurrences.
        shown: the count in at most four characters; empty for what is impossible.
        depth: of the colour, from 0 to 1, by the logarithm of the count.
    """

    kind: str
    count: int
    shown: str
    depth: float


@dataclass(frozen=True)
class SyllableRow:
    """The cells of one final, one for each initial."""

    final: str
    cells: Sequence[SyllableCell]


@dataclass(frozen=True)
class SyllableTable:
    """The counts of initials (columns) by finals (rows).

    Attributes:
        initials: as people write them; "none" for syllables without one.
        rows: in alphabetical order of the finals.
        num_known: number of pairs that occur.
        missing: pairs of Mandarin that do not occur, as syllables without a tone.
    """

    initials: Sequence[str]
    rows: Sequence[SyllableRow]
    num_known: int
    missing: Sequence[str]


def syllable_table(label_counts: Mapping[str, int]) -> SyllableTable:
    """Return the table of the counts of toned syllables, such as `{"zhong1": 3}`."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for label, count in label_counts.items():
        initial, final, _ = split_syllable(label)
        counts[initial, final] += count
    spelled = {split_syllable(label)[:2]: label[:-1] for label in mandarin_syllables() if is_syllable(label)}
    finals = sorted({final for _, final in spelled.keys() | counts.keys()}, key=lambda one: one.strip("-"))
    highest = math.log1p(max(counts.values(), default=0)) or 1.0

    def cell(pair: tuple[str, str]) -> SyllableCell:
        count = counts[pair]
        if not count:
            is_possible = pair in spelled
            return SyllableCell("missing" if is_possible else "impossible", 0, "0" * is_possible, 0.0)
        return SyllableCell("known", count, compact(count), math.log1p(count) / highest)

    rows = [
        SyllableRow(final.replace("v", "ü"), [cell((initial, final)) for initial in INITIALS])
        for final in finals
    ]
    missing = sorted(spelled[pair] for pair in spelled.keys() - counts.keys())
    return SyllableTable([initial or "none" for initial in INITIALS], rows, len(+counts), missing)


def compact(count: int) -> str:
    """Return a count in at most four characters: 999, 1.2k, 34k, 5.6M."""
    if count < THOUSAND:
        return str(count)
    value, unit = (count / THOUSAND, "k") if count < 999_500 else (count / MILLION, "M")
    return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
