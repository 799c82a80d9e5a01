"""The report's sections on Mandarin: initials, finals, tones; hanzi apart from the syllables under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asr.base.pinyin import TONES
from asr.base.wording import percent
from asr.evaluation.hanzi_errors import HanziErrors, hanzi_errors
from asr.evaluation.mandarin_errors import (
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
        depth: of its colour, from 0 to 1; what is wrong is the darker the more it is.
        share: of its row, as text; empty for none.
        count: of syllables.
    """

    kind: str
    depth: float
    share: str
    count: int


@dataclass(frozen=True)
class ToneRow:
    """What a tone was recognized as."""

    tone: str
    cells: Sequence[ToneCell]
    total: int


@dataclass(frozen=True)
class SyllableTables:
    """What part of the syllable goes wrong, and what is taken for what.

    Attributes:
        errors: what the tables show.
        parts: how many of the substituted syllables are wrong in each part, and in nothing else.
        known: the well-known classes of confusions, and what helps; None without one.
        confusions: what was most often recognized in the place of what; None for a part without any.
        tones: which tone was recognized as which, as shares of each row.
    """

    errors: SyllableErrors
    parts: Table
    known: Table | None
    confusions: Mapping[Part, Table | None]
    tones: Sequence[ToneRow]


def syllable_tables(scored: Sequence[Scored]) -> SyllableTables | None:
    """Return what part of the syllable goes wrong; None where no syllable does."""
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
    """How many of the substituted syllables are wrong in each part, and in nothing else."""
    total = max(1, errors.num_substituted)
    rows: list[list[str | float]] = []
    for name in PARTS:
        part = errors.parts[name]
        rows.append([name, part.wrong / total, f"{part.wrong:,}", part.only / total, f"{part.only:,}"])
    return Table(("wrong in its", "of those substituted", "syllables", "in nothing else", "syllables"), rows)


def known_table(errors: SyllableErrors) -> Table | None:
    """The well-known classes of confusions, and what helps."""
    known = known_confusions(errors)
    if not known:
        return None
    rows: list[list[str | float]] = [
        [
            one.name,
            f"{one.count:,}",
            one.rate,
            ", ".join(shown_confusion(example) for example in one.examples[:NUM_EXAMPLES]),
            one.remedy,
        ]
        for one in known
    ]
    headings = ("well-known confusions", "times", "of the times they could be", "most often", "what helps")
    return Table(headings, rows, "words told")


def shown_confusion(confusion: Confusion) -> str:
    """As it is read: `zh > z (12)`."""
    said, heard = shown_part(confusion.said), shown_part(confusion.heard)
    return f"{said} > {heard} ({confusion.count:,})".replace(" ", "\N{NO-BREAK SPACE}")


def shown_part(part: str) -> str:
    """An initial, final or tone for a person."""
    return part.replace("v", "ü") or "none"


def confusion_table(part: Part, confusions: Sequence[Confusion]) -> Table | None:
    """What was most often heard in the place of what."""
    rows: list[list[str | float]] = [
        [shown_part(c.said), shown_part(c.heard), f"{c.count:,} of {c.out_of:,}", c.rate]
        for c in confusions[:NUM_CONFUSIONS]
    ]
    return Table((f"{part} said", "heard", "times", "rate"), rows, "words") if rows else None


def tone_matrix(errors: SyllableErrors) -> list[ToneRow]:
    """Return which tone was recognized as which, the tones not recognized in the last column."""
    rows = [[*row, lost] for row, lost in zip(errors.tones, errors.lost_tones, strict=True)]
    shares = [[count / max(1, sum(row)) for count in row] for row in rows]
    worst = max(share for said, row in enumerate(shares) for heard, share in enumerate(row) if heard != said)
    matrix = []
    for said, tone in enumerate(TONES):
        cells = []
        for heard, share in enumerate(shares[said]):
            kind = "right" if heard == said else "lost" if heard == len(TONES) else "wrong"
            depth = share if kind == "right" else share / (worst or 1.0)
            cells.append(ToneCell(kind, depth, percent(share) if share else "", rows[said][heard]))
        matrix.append(ToneRow(f"{tone}, neutral" if tone == "5" else tone, cells, sum(rows[said])))
    return matrix


@dataclass(frozen=True)
class HanziTables:
    """Wrong hanzi by whether the syllable under them is right.

    Attributes:
        errors: what the tables show.
        table: shares of all hanzi.
        examples: the most frequent errors under right syllables; None without one.
    """

    errors: HanziErrors
    table: Table
    examples: Table | None


def hanzi_tables(scored: Sequence[Scored]) -> HanziTables | None:
    """Return wrong hanzi by whether their syllable is right; None where nothing was written in hanzi."""
    errors = hanzi_errors((s.utterance, s.hypothesis) for s in scored)
    if errors is None:
        return None
    total = max(1, errors.num_said)
    kinds = {
        "right syllable, wrong hanzi: language model": errors.under_right,
        "wrong syllable, wrong hanzi: acoustics": errors.under_wrong,
        "wrong syllable, right hanzi: saved": errors.saved,
    }
    rows: list[list[str | float]] = [[kind, count / total, f"{count:,}"] for kind, count in kinds.items()]
    examples = [[*what, f"{count:,}"] for what, count in errors.examples[:NUM_HANZI]]
    return HanziTables(
        errors,
        Table(("", "of all hanzi", "hanzi"), rows),
        Table(("said", "written", "syllable", "times"), examples, "words") if examples else None,
    )
