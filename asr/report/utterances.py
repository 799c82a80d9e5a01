"""The report's sections that set what was heard beside what was said: confusions and utterance cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from xml.etree.ElementTree import Element

from asr.base.pinyin import is_syllable, split_syllable
from asr.base.types import EditCounts, Hypothesis, UserError, Utterance
from asr.base.wording import counted
from asr.evaluation.metrics import AlignedPair
from asr.pages.page import element, section, table
from asr.report.sound import MARKS, sound_figure

NUM_CONFUSIONS, NUM_WORST, NUM_RIGHT = 15, 20, 5
WIDE_FROM, WIDE_FROM_S = 11, 4.0  # more tokens than that, or a longer clip, span the page
EDITS = {
    "equal": "right",
    "substitution": "substituted",
    "deletion": "deleted: said, not heard",
    "insertion": "inserted: heard, not said",
}

K = TypeVar("K", str, tuple[str, str])


@dataclass(frozen=True)
class Scored:
    """One utterance beside what was heard."""

    utterance: Utterance
    hypothesis: Hypothesis
    pairs: Sequence[AlignedPair]
    edits: EditCounts


def edit_key(names: Mapping[str, str]) -> Element:
    """What the colours and letters of edits mean."""
    entries = [
        element("span", element("i", MARKS[kind], class_=kind), f" {name}", class_="key-entry")
        for kind, name in names.items()
    ]
    return element("p", *entries)


def confusions(scored: Sequence[Scored]) -> list[Element]:
    """Which token was most often heard as which other, which were left out and which put in."""
    pairs = [pair for s in scored for pair in s.pairs]
    times_said = Counter(pair.reference for pair in pairs)
    swapped = Counter((p.reference, p.hypothesis) for p in pairs if p.edit == "substitution")
    dropped = Counter(pair.reference for pair in pairs if pair.edit == "deletion")
    added = Counter(pair.hypothesis for pair in pairs if pair.edit == "insertion")
    swaps = [
        [said, heard, f"{count:,} of {times_said[said]:,}", difference(said, heard)]
        for (said, heard), count in most_frequent(swapped)
    ]
    drops = [[said, f"{count:,} of {times_said[said]:,}"] for said, count in most_frequent(dropped)]
    additions = [[heard, f"{count:,}"] for heard, count in most_frequent(added)]
    lists = [
        (["said", "heard", "times", "differs in"], swaps),
        (["said, not heard", "times"], drops),
        (["heard, not said", "times"], additions),
    ]
    tables = [table(headings, rows, "words") for headings, rows in lists if rows]
    if not tables:
        return []
    return [section("Most frequent confusions", "", element("div", *tables, class_="columns"))]


def most_frequent(counts: Counter[K]) -> list[tuple[K, int]]:
    """The highest counts; of equal ones the first in the alphabet, so that a page can be made twice."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:NUM_CONFUSIONS]


def difference(reference: str, heard: str) -> str:
    """What two syllables differ in."""
    if not (is_syllable(reference) and is_syllable(heard)):
        return ""
    parts = zip(("initial", "final", "tone"), split_syllable(reference), split_syllable(heard), strict=True)
    return ", ".join(name for name, a, b in parts if a != b)


def worst_utterances(unit: str, scored: Sequence[Scored]) -> list[Element]:
    """Those with the most errors, aligned."""
    wrong = [s for s in scored if s.edits.errors]
    if not wrong:
        return []
    wrong.sort(key=lambda s: (-s.edits.errors, -s.edits.rate, s.utterance.id))
    key = edit_key({kind: name for kind, name in EDITS.items() if MARKS[kind]})
    note = f"{min(NUM_WORST, len(wrong))} of {len(wrong):,} utterances with an error, the most errors first."
    cards = [utterance_card(unit, s) for s in wrong[:NUM_WORST]]
    return [section("Worst utterances", note, key, element("div", *cards, class_="cards"))]


def right_utterances(scored: Sequence[Scored]) -> list[Element]:
    """The longest of those without an error."""
    right = sorted((s for s in scored if not s.edits.errors), key=lambda s: -len(s.utterance.tokens))
    if not right:
        return []
    note = f"The longest of {len(right):,}."
    cards = [
        element("article", utterance_line(s), element("p", " ".join(s.utterance.tokens)))
        for s in right[:NUM_RIGHT]
    ]
    return [section("Entirely right", note, element("div", *cards, class_="cards"))]


def utterance_card(unit: str, scored: Scored) -> Element:
    """One utterance: what it is, and the hypothesis over the reference, on its sound where that is there."""
    errors, length = scored.edits.errors, scored.edits.reference_length
    count = f"{counted(errors, 'error')} in {counted(length, unit)}"
    wide = len(scored.pairs) > WIDE_FROM or scored.utterance.duration_s > WIDE_FROM_S
    try:
        times_s = scored.hypothesis.times_s
        shown = [sound_figure(scored.utterance, scored.pairs, times_s, wide=wide)]
    except UserError as error:
        shown = [alignment_table(scored), element("p", f"No picture of its sound: {error}", class_="note")]
    return element("article", utterance_line(scored, count), *shown, class_="wide" if wide else "narrow")


def alignment_table(scored: Scored) -> Element:
    """The reference over the hypothesis."""
    rows = [
        element(
            "tr",
            element("td", pair.reference),
            element("td", pair.hypothesis),
            element("td", MARKS[pair.edit]),
            class_=pair.edit,
        )
        for pair in scored.pairs
    ]
    names = [element("th", name, scope="col") for name in ("said", "heard", "edit")]
    head = element("thead", element("tr", *names))
    return element("table", head, element("tbody", *rows), class_="alignment")


def utterance_line(scored: Scored, verdict: str = "") -> Element:
    """Its text, its identity, and how sure the model was."""
    utterance = scored.utterance
    about = [
        verdict,
        utterance.id,
        utterance.speaker,
        f"{utterance.duration_s:.1f} s",
        f"log p\N{NO-BREAK SPACE}{scored.hypothesis.score:.1f}".replace("-", "\N{MINUS SIGN}"),
    ]
    text = element("q", utterance.text)
    return element("h3", text, element("small", " · ".join(part for part in about if part)))
