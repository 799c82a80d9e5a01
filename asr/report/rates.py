"""The report's tables of error rates: in all units; by speaker, length of clip, noise, frequency."""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from xml.etree.ElementTree import Element

from asr.audio.noise_level import recordings_signal_to_noise_db
from asr.base.types import EditCounts
from asr.base.wording import counted, percent
from asr.evaluation.scores import Score
from asr.evaluation.significance import rate_interval
from asr.pages.page import element, folded, section, table
from asr.report.utterances import Scored, most_frequent

NUM_SPEAKERS = 30
LENGTH_EDGES_S = (1, 2, 3, 5, 10, 20)
NOISE_EDGES_DB = (0, 5, 10, 15, 20, 30, 40)
UNITS = {
    "tone-free syllable": "syllables without their tones",
    "sentence": "sentences with an error",
    "written sentence": "sentences with an error, as written",
}
FREQUENCY_EDGES = (0, 1, 5, 20, 100, 1000, 10_000)


def error_rates(unit: str, scores: Sequence[Score], scored: Sequence[Scored]) -> Element:
    """In every unit; by speaker, by length of clip and by noise."""
    rows = [[UNITS.get(score.name, f"{score.name}s"), *score_cells(score)] for score in scores]
    headings = ("", "error rate", "95% interval", "errors", "substituted", "inserted", "deleted", "out of")
    by_length = sorted(scored, key=lambda s: s.utterance.duration_s)
    speakers = grouped(scored, [s.utterance.speaker or "unknown" for s in scored])
    lengths = grouped(by_length, [length_bin(s.utterance.duration_s) for s in by_length])
    columns = element("div", class_="columns")
    if set(speakers) != {"unknown"}:
        worst_first = sorted(speakers.items(), key=lambda item: summed(item[1]).rate, reverse=True)
        columns.append(group_table("speaker", unit, dict(worst_first)))
    columns.append(group_table("length of clip", unit, lengths))
    columns.extend(rates_by_noise(unit, scored))
    note = (
        "Intervals hold the rate with 95 % confidence: utterances, or speakers where there are 20, are drawn "
        "again."
    )
    return section("Error rates", note, table(headings, rows), columns)


def score_cells(score: Score) -> list[str | float]:
    """Rate, interval and counts; a sentence is right or wrong, and has no kinds of errors."""
    edits = score.total
    counts = [f"{count:,}" for count in (edits.substitutions, edits.insertions, edits.deletions)]
    if score.name.endswith("sentence"):
        counts = [""] * 3
    told = interval(score.interval, len(score.edits))
    return [edits.rate, told, f"{edits.errors:,}", *counts, f"{edits.reference_length:,}"]


def interval(ends: tuple[float, float], num_utterances: int) -> str:
    """From low to high; nothing where there is none: of one utterance, or of insertions alone."""
    if num_utterances < 2 or not all(map(math.isfinite, ends)):
        return ""
    low, high = (percent(end) for end in ends)
    return f"{low.removesuffix('%')}\N{EN DASH}{high}"


def rates_by_noise(unit: str, scored: Sequence[Scored]) -> list[Element]:
    """By how far the speech stands above the noise; nothing where no recording can be read."""
    paths = [s.utterance.audio_path for s in scored]
    measured = sorted(
        zip(recordings_signal_to_noise_db(paths), scored, strict=True),
        key=lambda pair: (math.isnan(pair[0]), pair[0]),
    )
    if not measured or math.isnan(measured[0][0]):
        return []
    groups = grouped([s for _, s in measured], [noise_bin(snr_db) for snr_db, _ in measured])
    return [group_table("speech above noise", unit, groups)]


def noise_bin(snr_db: float) -> str:
    """Which of a few ranges of decibels a recording falls in; an upper edge belongs to its range."""
    if math.isnan(snr_db):
        return "unknown"
    return range_name(NOISE_EDGES_DB, snr_db, "dB")


def group_table(title: str, unit: str, groups: Mapping[str, Sequence[Scored]]) -> Element:
    """Error rates of groups of utterances, in the order given; the tail of a long table is folded."""
    headings = (title, "error rate", "95% interval", f"{unit}s", "all right")
    rows: list[list[str | float]] = []
    for name, members in groups.items():
        edits, num_right = summed(members), sum(not s.edits.errors for s in members)
        ends = rate_interval([s.edits.errors for s in members], [s.edits.reference_length for s in members])
        right = f"{num_right:,} of {len(members):,}"
        rows.append([name, edits.rate, interval(ends, len(members)), f"{edits.reference_length:,}", right])
    shown, rest = rows[:NUM_SPEAKERS], rows[NUM_SPEAKERS:]
    more = [folded(f"{len(rest):,} more", table(headings, rest))] if rest else []
    return element("div", table(headings, shown), *more)


def grouped(scored: Sequence[Scored], names: Sequence[str]) -> dict[str, list[Scored]]:
    """Utterances by the names of their groups, in the order in which they come up."""
    groups: dict[str, list[Scored]] = {}
    for name, one in zip(names, scored, strict=True):
        groups.setdefault(name, []).append(one)
    return groups


def summed(scored: Iterable[Scored]) -> EditCounts:
    """Edits of them all."""
    return sum((s.edits for s in scored), EditCounts())


def length_bin(duration_s: float) -> str:
    """Which of a few ranges of seconds a clip falls in; an upper edge belongs to its range."""
    return range_name(LENGTH_EDGES_S, duration_s, "s")


def range_name(edges: Sequence[float], value: float, measure: str) -> str:
    """The name of the range between two edges, or beyond the last one on either side."""
    place = bisect.bisect_left(edges, value)
    if place == 0:
        return f"up to {edges[0]} {measure}"
    if place == len(edges):
        return f"over {edges[-1]} {measure}"
    return f"{edges[place - 1]} to {edges[place]} {measure}"


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
