"""Makes the report's tables of error rates: in all units, by corpus, speaker, length, noise and frequency."""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from asr.audio.noise_level import recordings_signal_to_noise_db
from asr.base.text.wording import percent
from asr.base.types import EditCounts
from asr.evaluation.errors.significance import blocks_of, rate_interval
from asr.evaluation.scores import Score
from asr.pages.page import Table
from asr.report.utterances import Scored, most_frequent

NUM_SPEAKERS = 30
LENGTH_EDGES_S = (1, 2, 3, 5, 10, 20)
NOISE_EDGES_DB = (0, 5, 10, 15, 20, 30, 40)
UNITS = {
    "mixed": "syllables and Latin words",
    "language switch": "next to a change of language",
    "tone-free syllable": "syllables without their tones",
    "sentence": "sentences with an error",
    "written sentence": "sentences with an error, as written",
}
FREQUENCY_EDGES = (0, 1, 5, 20, 100, 1000, 10_000)


@dataclass(frozen=True)
class GroupTable:
    """Error rates of groups of utterances; the tail of a long table is folded."""

    shown: Table
    rest: Table


@dataclass(frozen=True)
class ErrorRates:
    """Error rates in every unit, and those of groups of utterances."""

    table: Table
    groups: Sequence[GroupTable]


def error_rates(unit: str, scores: Sequence[Score], scored: Sequence[Scored]) -> ErrorRates:
    """Return the error rates in every unit, and those by corpus, speaker, length of clip and noise."""
    rows = [[UNITS.get(score.name, f"{score.name}s"), *score_cells(score)] for score in scores]
    headings = ("", "error rate", "95% interval", "errors", "substituted", "inserted", "deleted", "out of")
    by_length = sorted(scored, key=lambda s: s.utterance.duration_s)
    speakers = grouped(scored, [s.utterance.speaker or "unknown" for s in scored])
    ranges = [range_name(LENGTH_EDGES_S, s.utterance.duration_s, "s") for s in by_length]
    lengths = grouped(by_length, ranges)
    corpora = grouped(scored, [s.utterance.corpus or "unknown" for s in scored])
    groups = []
    if len(corpora) > 1:
        groups.append(group_table("corpus", unit, corpora))
        for score in scores:
            if score.name != unit and score.name in ("character", scores[0].name):  # as the field counts
                counted = [dataclasses.replace(s, edits=e) for s, e in zip(scored, score.edits, strict=True)]
                of_corpora = grouped(counted, [s.utterance.corpus or "unknown" for s in scored])
                groups.append(group_table("corpus", score.name, of_corpora))
    if set(speakers) != {"unknown"}:
        worst_first = sorted(speakers.items(), key=lambda item: summed(item[1]).rate, reverse=True)
        groups.append(group_table("speaker", unit, dict(worst_first)))
    groups.append(group_table("length of clip", unit, lengths))
    noises = by_noise(scored)
    if noises:
        groups.append(group_table("speech above noise", unit, noises))
    return ErrorRates(Table(headings, rows), groups)


def score_cells(score: Score) -> list[str | float]:
    """Return the cells of a rate, its interval and counts; sentences have no kinds of errors."""
    edits = score.total
    counts = [f"{count:,}" for count in (edits.substitutions, edits.insertions, edits.deletions)]
    if score.name.endswith("sentence"):
        counts = [""] * 3
    ends = interval(score.interval, len(score.edits))
    return [edits.rate, ends, f"{edits.errors:,}", *counts, f"{edits.reference_length:,}"]


def interval(ends: tuple[float, float], num_utterances: int) -> str:
    """Format an interval; return an empty string for a single utterance, or if an end is infinite."""
    if num_utterances < 2 or not all(map(math.isfinite, ends)):
        return ""
    low, high = (percent(end) for end in ends)
    return f"{low.removesuffix('%')}\N{EN DASH}{high}"


def by_noise(scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Group utterances by signal-to-noise ratio; return nothing if no recording can be read."""
    paths = [s.utterance.audio_path for s in scored]
    measured = sorted(
        zip(recordings_signal_to_noise_db(paths), scored, strict=True),
        key=lambda pair: (math.isnan(pair[0]), pair[0]),
    )
    if not measured or math.isnan(measured[0][0]):
        return {}
    # an upper edge belongs to its range
    ranges = [
        "unknown" if math.isnan(snr_db) else range_name(NOISE_EDGES_DB, snr_db, "dB")
        for snr_db, _ in measured
    ]
    return grouped([s for _, s in measured], ranges)


def group_table(title: str, unit: str, groups: Mapping[str, Sequence[Scored]]) -> GroupTable:
    """Return the error rates of groups of utterances, in the order given."""
    headings = (title, "error rate", "95% interval", f"{unit}s", "entirely right")
    rows: list[list[str | float]] = []
    for name, members in groups.items():
        edits, num_right = summed(members), sum(not s.edits.errors for s in members)
        blocks = blocks_of([s.utterance.speaker for s in members])
        errors = blocks.summed([s.edits.errors for s in members])
        lengths = blocks.summed([s.edits.reference_length for s in members])
        ends = rate_interval(errors, lengths)
        right = f"{num_right:,} of {len(members):,}"
        rows.append([name, edits.rate, interval(ends, len(members)), f"{edits.reference_length:,}", right])
    names = [0] if title in ("corpus", "speaker") else []
    return GroupTable(
        *(Table(headings, part, names=names) for part in (rows[:NUM_SPEAKERS], rows[NUM_SPEAKERS:]))
    )


def grouped(scored: Sequence[Scored], names: Sequence[str]) -> dict[str, list[Scored]]:
    """Group utterances by name, in the order in which the names first appear."""
    groups: dict[str, list[Scored]] = {}
    for name, one in zip(names, scored, strict=True):
        groups.setdefault(name, []).append(one)
    return groups


def summed(scored: Iterable[Scored]) -> EditCounts:
    """Sum the edits of utterances."""
    return sum((s.edits for s in scored), EditCounts())


def range_name(edges: Sequence[float], value: float, measure: str) -> str:
    """Return the name of the range that a value is in: between two edges, or outside of them."""
    index = bisect.bisect_left(edges, value)
    if index == 0:
        return f"up to {edges[0]} {measure}"
    if index == len(edges):
        return f"over {edges[-1]} {measure}"
    return f"{edges[index - 1]} to {edges[index]} {measure}"


@dataclass(frozen=True)
class FrequencyRates:
    """Error rates of tokens by how often they are in the training set.

    Attributes:
        table: error rates by frequency in training.
        num_unseen: number of different tokens that are not in the training set.
        times_unseen: how often those tokens were said.
        unseen: the most frequent of those tokens, and how often each was said.
    """

    table: Table
    num_unseen: int
    times_unseen: int
    unseen: Sequence[tuple[str, int]]


def rates_by_frequency(
    unit: str, scored: Sequence[Scored], token_counts: Mapping[str, int]
) -> FrequencyRates | None:
    """Return error rates by how often a token is in the training set; None if that is unknown."""
    said = Counter(token for s in scored for token in s.utterance.tokens)
    if not (token_counts and said):
        return None
    missed = Counter(p.reference for s in scored for p in s.pairs if p.edit in ("substitution", "deletion"))
    groups: dict[int, list[str]] = {}
    for token in said:
        groups.setdefault(bisect.bisect_left(FREQUENCY_EDGES, token_counts.get(token, 0)), []).append(token)
    rows: list[list[str | float]] = []
    for index, tokens in sorted(groups.items()):
        times, wrong = sum(said[token] for token in tokens), sum(missed[token] for token in tokens)
        rows.append([frequency_bin(index), wrong / times, f"{wrong:,}", f"{times:,}", f"{len(tokens):,}"])
    headings = (f"{unit} in training", "error rate", "errors", "out of", f"different {unit}s")
    unseen = Counter({token: times for token, times in said.items() if not token_counts.get(token)})
    return FrequencyRates(Table(headings, rows), len(unseen), unseen.total(), most_frequent(unseen))


def frequency_bin(index: int) -> str:
    """Return the name of a range of counts; an upper edge belongs to its range."""
    if index < 2:
        return ("never", "once")[index]
    low = FREQUENCY_EDGES[index - 1]
    if index == len(FREQUENCY_EDGES):
        return f"over {low:,} times"
    return f"{low + 1:,} to {FREQUENCY_EDGES[index]:,} times"
