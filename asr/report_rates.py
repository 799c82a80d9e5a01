"""The report's tables of error rates: of all tokens; by speaker, length of clip, frequency of the token."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from xml.etree.ElementTree import Element

from asr.metrics import part_errors, total_edits, without_tones
from asr.page import counted, element, folded, section, table
from asr.report_utterances import Scored, most_frequent
from asr.types import EditCounts

NUM_SPEAKERS = 30
LENGTH_EDGES_S = (1, 2, 3, 5, 10, 20)
FREQUENCY_EDGES = (0, 1, 5, 20, 100, 1000, 10_000)


def error_rates(unit: str, edits: EditCounts, scored: Sequence[Scored]) -> Element:
    """Of all tokens, of their parts and of sentences; by speaker and by length of clip."""
    rows: list[list[str | float]] = [[f"{unit}s", *edit_cells(edits)]]
    note = ""
    if unit == "syllable":
        toneless = total_edits(
            (without_tones(s.utterance.tokens), without_tones(s.hypothesis.tokens)) for s in scored
        )
        rows.append(["syllables without their tones", *edit_cells(toneless)])
        parts = part_errors(pair for s in scored for pair in s.pairs)
        for name, count in zip(("initials", "finals", "tones"), parts, strict=True):
            cells = edit_cells(EditCounts(count, reference_length=edits.reference_length))
            rows.append([f"{name} of substituted syllables", *cells[:3], "", "", cells[-1]])
        note = "A substituted syllable can differ in its initial, its final and its tone, and counts in each."
    num_wrong = sum(s.edits.errors > 0 for s in scored)
    rate = num_wrong / len(scored) if scored else 0.0
    rows.append(["sentences with an error", rate, f"{num_wrong:,}", "", "", "", f"{len(scored):,}"])
    headings = ("", "error rate", "errors", "substitutions", "insertions", "deletions", "out of")
    speakers = grouped(scored, lambda s: s.utterance.speaker or "unknown")
    lengths = grouped(
        sorted(scored, key=lambda s: s.utterance.duration_s), lambda s: length_bin(s.utterance.duration_s)
    )
    columns = element("div", class_="columns")
    if set(speakers) != {"unknown"}:
        worst_first = sorted(speakers.items(), key=lambda item: summed(item[1]).rate, reverse=True)
        columns.append(group_table("speaker", unit, dict(worst_first)))
    columns.append(group_table("length of clip", unit, lengths))
    return section("Error rates", note, table(headings, rows), columns)


def edit_cells(edits: EditCounts) -> list[str | float]:
    """Rate and counts."""
    counts = (edits.errors, edits.substitutions, edits.insertions, edits.deletions, edits.reference_length)
    return [edits.rate, *(f"{count:,}" for count in counts)]


def group_table(title: str, unit: str, groups: Mapping[str, Sequence[Scored]]) -> Element:
    """Error rates of groups of utterances, in the order given; the tail of a long table is folded."""
    headings = (title, "error rate", f"{unit}s", "entirely right")
    rows: list[list[str | float]] = []
    for name, members in groups.items():
        edits, num_right = summed(members), sum(not s.edits.errors for s in members)
        rows.append([name, edits.rate, f"{edits.reference_length:,}", f"{num_right:,} of {len(members):,}"])
    shown, rest = rows[:NUM_SPEAKERS], rows[NUM_SPEAKERS:]
    more = [folded(f"{len(rest):,} more", table(headings, rest))] if rest else []
    return element("div", table(headings, shown), *more)


def grouped(scored: Iterable[Scored], key: Callable[[Scored], str]) -> dict[str, list[Scored]]:
    """Utterances by a key, keys in the order they come up."""
    groups: dict[str, list[Scored]] = {}
    for one in scored:
        groups.setdefault(key(one), []).append(one)
    return groups


def summed(scored: Iterable[Scored]) -> EditCounts:
    """Edits of them all."""
    return sum((s.edits for s in scored), EditCounts())


def length_bin(duration_s: float) -> str:
    """Which of a few ranges of seconds a clip falls in; an upper edge belongs to its range."""
    place = bisect.bisect_left(LENGTH_EDGES_S, duration_s)
    if place == 0:
        return f"up to {LENGTH_EDGES_S[0]} s"
    if place == len(LENGTH_EDGES_S):
        return f"over {LENGTH_EDGES_S[-1]} s"
    return f"{LENGTH_EDGES_S[place - 1]} to {LENGTH_EDGES_S[place]} s"


def rates_by_frequency(unit: str, scored: Sequence[Scored], token_counts: Mapping[str, int]) -> list[Element]:
    """How well a token is heard that was often, seldom or never trained on."""
    said = Counter(token for s in scored for token in s.utterance.tokens)
    if not (token_counts and said):
        return []
    missed = Counter(p.reference for s in scored for p in s.pairs if p.edit in ("substitution", "deletion"))
    groups: dict[int, list[str]] = {}
    for token in said:
        groups.setdefault(bisect.bisect_left(FREQUENCY_EDGES, token_counts.get(token, 0)), []).append(token)
    rows: list[list[str | float]] = []
    for place, tokens in sorted(groups.items()):
        times, wrong = sum(said[token] for token in tokens), sum(missed[token] for token in tokens)
        rows.append([frequency_bin(place), wrong / times, f"{wrong:,}", f"{times:,}", f"{len(tokens):,}"])
    headings = (f"{unit} in training", "error rate", "errors", "out of", f"different {unit}s")
    note = f"Of the {unit}s said, those heard as another or not at all, by how often training held them."
    unseen = Counter({token: times for token, times in said.items() if not token_counts.get(token)})
    return [
        section(
            "Error rate by frequency in training", note, table(headings, rows), *never_trained(unit, unseen)
        )
    ]


def never_trained(unit: str, unseen: Counter[str]) -> list[Element]:
    """The most frequent of those that training never held."""
    if not unseen:
        return []
    told = ", ".join(f"{token}\N{NO-BREAK SPACE}({times:,})" for token, times in most_frequent(unseen))
    more = ", \N{HORIZONTAL ELLIPSIS}" if len(unseen) > len(most_frequent(unseen)) else ""
    said = (
        f"{counted(len(unseen), unit)} of this set never in training, {counted(unseen.total(), 'time')} said"
    )
    return [element("p", f"{said}: ", element("b", told), more, class_="unseen")]


def frequency_bin(place: int) -> str:
    """The name of a range of counts; an upper edge belongs to its range."""
    if place < 2:
        return ("never", "once")[place]
    low = FREQUENCY_EDGES[place - 1]
    if place == len(FREQUENCY_EDGES):
        return f"over {low:,} times"
    return f"{low + 1:,} to {FREQUENCY_EDGES[place]:,} times"
