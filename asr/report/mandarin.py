"""Makes the report's sections on Mandarin: initials, finals and tones; hanzi apart from their syllables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asr.base.text.pinyin import TONES
from asr.base.text.wording import percent
from asr.evaluation.errors.hanzi_errors import HanziErrors, hanzi_errors
from asr.evaluation.errors.mandarin_errors import (
    PARTS,
    Confusion,
    Part,
    SyllableErrors,
    known_confusions,
    syllable_errors,
)
from asr.pages.page import Table
from asr.report.utterances import Scored

NUM_CONFUSIONS, NUM_EXAMPLES, NUM_HANZI = 10, 3, 20


@dataclass(frozen=True)
class ToneCell:
    """How often a tone was recognized as another.

    Attributes:
        kind: "right", "wrong" or "lost".
        depth: of the colour, from 0 to 1; frequent errors are darker.
        share: of the row, as text; empty for 0.
        count: number of syllables.
    """

    kind: str
    depth: float
    share: str
    count: int


@dataclass(frozen=True)
class ToneRow:
    """How often a tone was recognized as each tone."""

    tone: str
    cells: Sequence[ToneCell]
    total: int


@dataclass(frozen=True)
class SyllableTables:
    """Which parts of syllables are wrong, and which are confused with which.

    Attributes:
        errors: the counts that the tables show.
        parts: share of the substituted syllables that are wrong in each part, and only there.
        known: the well-known classes of confusions, with remedies; None if there are none.
        confusions: the most frequent confusions in each part; None for a part without any.
        tones: how often each tone was recognized as each tone, as shares of each row.
    """

    errors: SyllableErrors
    parts: Table
    known: Table | None
    confusions: Mapping[Part, Table | None]
    tones: Sequence[ToneRow]


def syllable_tables(scored: Sequence[Scored]) -> SyllableTables | None:
    """Return the tables on wrong syllables; None if no syllable is wrong."""
    errors = syllable_errors(pair for s in scored for pair in s.pairs)
    if not (errors.num_substituted or any(errors.lost_tones)):
        return None
    return SyllableTables(
        errors,
        part_table(errors),
        known_table(errors),
        {part: confusion_table(part, errors.parts[part].confusions) for part in PARTS},
        tone_matrix(errors),
    )


def part_table(errors: SyllableErrors) -> Table:
    """Return a table of the substituted syllables that are wrong in each part, and only there."""
    total = max(1, errors.num_substituted)
    rows: list[list[str | float]] = []
    for name in PARTS:
        part = errors.parts[name]
        rows.append([name, part.wrong / total, f"{part.wrong:,}", part.only / total, f"{part.only:,}"])
    return Table(("wrong part", "of those substituted", "syllables", "only this part", "syllables"), rows)


def known_table(errors: SyllableErrors) -> Table | None:
    """Return a table of the well-known classes of confusions, with remedies; None if there are none."""
    known = known_confusions(errors)
    if not known:
        return None
    rows: list[list[str | float]] = []
    for one in known:
        examples = [
            f"{format_part(pair.said)} > {format_part(pair.recognized)} ({pair.count:,})"
            for pair in one.examples[:NUM_EXAMPLES]
        ]
        unbroken = ", ".join(example.replace(" ", "\N{NO-BREAK SPACE}") for example in examples)
        rows.append([one.name, f"{one.count:,}", one.rate, unbroken, one.remedy])
    headings = ("well-known confusions", "times", "of possible times", "most frequent", "remedy")
    return Table(headings, rows, "words explained", names=[3])


def format_part(part: str) -> str:
    """Format an initial, final or tone for people."""
    return part.replace("v", "ü") or "none"


def confusion_table(part: Part, confusions: Sequence[Confusion]) -> Table | None:
    """Return a table of the most frequent confusions in a part; None if there are none."""
    rows: list[list[str | float]] = [
        [format_part(c.said), format_part(c.recognized), f"{c.count:,} of {c.out_of:,}", c.rate]
        for c in confusions[:NUM_CONFUSIONS]
    ]
    return Table((f"{part} said", "recognized", "times", "rate"), rows, "words", [0, 1]) if rows else None


def tone_matrix(errors: SyllableErrors) -> list[ToneRow]:
    """Return how often each tone was recognized as each; the last column counts those not recognized."""
    rows = [[*row, lost] for row, lost in zip(errors.tones, errors.lost_tones, strict=True)]
    shares = [[count / max(1, sum(row)) for count in row] for row in rows]
    worst = max(share for said, row in enumerate(shares) for other, share in enumerate(row) if other != said)
    matrix = []
    for said, tone in enumerate(TONES):
        cells = []
        for other, share in enumerate(shares[said]):
            kind = "right" if other == said else "lost" if other == len(TONES) else "wrong"
            depth = share if kind == "right" else share / (worst or 1.0)
            cells.append(ToneCell(kind, depth, percent(share) if share else "", rows[said][other]))
        matrix.append(ToneRow(f"{tone}, neutral" if tone == "5" else tone, cells, sum(rows[said])))
    return matrix


@dataclass(frozen=True)
class HanziTables:
    """Wrong hanzi by whether their syllable is right.

    Attributes:
        errors: the counts that the tables show.
        table: shares of all hanzi.
        examples: the most frequent wrong hanzi for right syllables; None if there are none.
    """

    errors: HanziErrors
    table: Table
    examples: Table | None


def hanzi_tables(scored: Sequence[Scored]) -> HanziTables | None:
    """Return the tables on wrong hanzi; None if no text was written in hanzi."""
    errors = hanzi_errors((s.utterance, s.hypothesis) for s in scored)
    if errors is None:
        return None
    total = max(1, errors.num_said)
    kinds = {
        "right syllable, wrong hanzi: language model": errors.syllable_right,
        "wrong syllable, wrong hanzi: acoustics": errors.syllable_wrong,
        "wrong syllable, right hanzi: saved": errors.saved,
    }
    rows: list[list[str | float]] = [[kind, count / total, f"{count:,}"] for kind, count in kinds.items()]
    examples = [[*what, f"{count:,}"] for what, count in errors.examples[:NUM_HANZI]]
    return HanziTables(
        errors,
        Table(("", "of all hanzi", "hanzi"), rows),
        Table(("reference", "hypothesis", "syllable", "times"), examples, "words", [0, 1, 2])
        if examples
        else None,
    )
