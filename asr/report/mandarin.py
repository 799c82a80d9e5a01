"""The report's sections on Mandarin: initials, finals, tones; hanzi apart from the syllables under them."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from asr.base.pinyin import TONES
from asr.base.wording import counted, percent
from asr.evaluation.hanzi_errors import hanzi_errors
from asr.evaluation.mandarin_errors import (
    PARTS,
    Confusion,
    Part,
    SyllableErrors,
    known_confusions,
    syllable_errors,
)
from asr.pages.page import element, section, table
from asr.report.utterances import Scored

NUM_CONFUSIONS, NUM_EXAMPLES, NUM_HANZI = 10, 3, 20


def syllable_section(scored: Sequence[Scored]) -> list[Element]:
    """What part of the syllable goes wrong, and what is taken for what."""
    errors = syllable_errors(pair for s in scored for pair in s.pairs)
    if not (errors.num_substituted or any(errors.lost_tones)):
        return []
    note = (
        f"Of {counted(errors.num_compared, 'syllable')} heard as a syllable, {errors.num_substituted:,} were "
        "heard as another one. It can differ in its initial, its final and its tone, and counts in each."
    )
    confused = element(
        "div",
        *(confusion_table(part, errors.parts[part].confusions) for part in PARTS),
        class_="columns thirds",
    )
    return [
        section(
            "Initial, final or tone",
            note,
            part_table(errors),
            *known_table(errors),
            confused,
            tone_matrix(errors),
        )
    ]


def part_table(errors: SyllableErrors) -> Element:
    """How many of the substituted syllables are wrong in each part, and in nothing else."""
    total = max(1, errors.num_substituted)
    rows: list[list[str | float]] = []
    for name in PARTS:
        part = errors.parts[name]
        rows.append([name, part.wrong / total, f"{part.wrong:,}", part.only / total, f"{part.only:,}"])
    return table(("wrong in its", "of those substituted", "syllables", "in nothing else", "syllables"), rows)


def known_table(errors: SyllableErrors) -> list[Element]:
    """The well-known classes of confusions, and what helps."""
    known = known_confusions(errors)
    if not known:
        return []
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
    return [element("div", table(headings, rows, "words told"), class_="spaced")]


def shown_confusion(confusion: Confusion) -> str:
    """As it is read: `zh > z (12)`."""
    said, heard = shown_part(confusion.said), shown_part(confusion.heard)
    return f"{said} > {heard} ({confusion.count:,})".replace(" ", "\N{NO-BREAK SPACE}")


def shown_part(part: str) -> str:
    """An initial, final or tone for a person."""
    return part.replace("v", "ü") or "none"


def confusion_table(part: Part, confusions: Sequence[Confusion]) -> Element:
    """What was most often heard in the place of what."""
    rows: list[list[str | float]] = [
        [shown_part(c.said), shown_part(c.heard), f"{c.count:,} of {c.out_of:,}", c.rate]
        for c in confusions[:NUM_CONFUSIONS]
    ]
    if not rows:
        return element("p", f"No {part} was heard as another.", class_="note")
    return table((f"{part} said", "heard", "times", "rate"), rows, "words")


def tone_matrix(errors: SyllableErrors) -> Element:
    """Which tone was heard as which, as shares of each row; what is wrong is the darker the more it is."""
    names = ("said in tone", *(f"heard {tone}" for tone in TONES), "not heard", "syllables")
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in names)))
    body = element("tbody")
    rows = [[*row, lost] for row, lost in zip(errors.tones, errors.lost_tones, strict=True)]
    shares = [[count / max(1, sum(row)) for count in row] for row in rows]
    worst = max(share for said, row in enumerate(shares) for heard, share in enumerate(row) if heard != said)
    for said, tone in enumerate(TONES):
        cells = []
        for heard, share in enumerate(shares[said]):
            kind = "right" if heard == said else "lost" if heard == len(TONES) else "wrong"
            depth = share if kind == "right" else share / (worst or 1.0)
            shown = percent(share) if share else ""
            title = f"{rows[said][heard]:,} times"
            cells.append(
                element("td", shown, class_=f"heat {kind}", style=f"--share:{depth:.3f}", title=title)
            )
        name = f"{tone}, neutral" if tone == "5" else tone
        total = element("td", f"{sum(rows[said]):,}")
        body.append(element("tr", element("th", name, scope="row"), *cells, total))
    matrix = element("div", element("table", head, body, class_="matrix"), class_="scroll")
    return element("div", element("h3", "Tones"), matrix, class_="spaced")


def hanzi_section(scored: Sequence[Scored]) -> list[Element]:
    """Wrong hanzi by whether the syllable under them is right."""
    errors = hanzi_errors((s.utterance, s.hypothesis) for s in scored)
    if errors is None:
        return []
    total = max(1, errors.num_said)
    rows: list[list[str | float]] = [
        [
            "right syllable, wrong hanzi: language model",
            errors.under_right / total,
            f"{errors.under_right:,}",
        ],
        ["wrong syllable, wrong hanzi: acoustics", errors.under_wrong / total, f"{errors.under_wrong:,}"],
        ["wrong syllable, right hanzi: saved", errors.saved / total, f"{errors.saved:,}"],
    ]
    note = f"Of {errors.num_said:,} hanzi, along the alignment of the syllables under them."
    if errors.num_not_compared:
        left = counted(errors.num_not_compared, "utterance")
        note += f" {left} without one hanzi a syllable, in text or hypothesis, left aside."
    examples = [[*what, f"{count:,}"] for what, count in errors.examples[:NUM_HANZI]]
    tables = [table(("", "of all hanzi", "hanzi"), rows)]
    if examples:
        tables.append(table(("said", "written", "syllable", "times"), examples, "words"))
    return [section("Pinyin right, hanzi wrong", note, element("div", *tables, class_="columns"))]
