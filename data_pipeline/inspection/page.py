"""Write the statistics of manifests as one HTML page."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.text.wording import duration, listed, short_number, short_paths
from asr.pages.charts import Chart, ChartLine, Quantity, line_chart
from asr.pages.histogram import histogram
from asr.pages.page import Table, write_page
from data_pipeline.inspection.statistics import RARE, Inspection
from data_pipeline.inspection.syllable_table import SyllableTable, syllable_table
from data_pipeline.labels.syllable_use import Coverage

NUM_SHOWN = 30
MAX_POINTS = 200  # of a curve


def write_inspect_page(path: Path, inspections: Sequence[Inspection]) -> None:
    """Write the page completely or not at all.

    Raises:
        UserError: the file cannot be written.
    """
    names = short_paths([Path(inspection.name) for inspection in inspections], least=2)
    inspections = [
        dataclasses.replace(inspection, name=name)
        for inspection, name in zip(inspections, names, strict=True)
    ]
    write_page(
        path,
        "data_pipeline.inspection",
        "inspect.html",
        title=", ".join(inspection.name for inspection in inspections),
        overview=_overview(inspections),
        is_compared=len(inspections) > 1,
        unseen=_unseen(inspections),
        manifests=list(map(_shown, inspections)),
        rare_under=RARE,
        num_missing_shown=NUM_SHOWN,
    )


def _overview(inspections: Sequence[Inspection]) -> Table:
    rows = [
        [
            inspection.name,
            duration(inspection.duration_s),
            f"{len(inspection.durations_s):,}",
            f"{inspection.num_sentences:,}",
            f"{inspection.num_speakers:,}",
            f"{sum(inspection.num_tokens):,}",
            f"{len(inspection.label_counts):,}",
            f"{len(inspection.rare_labels):,}",
        ]
        for inspection in inspections
    ]
    headings = ["", "audio", "utterances", "distinct sentences", "speakers", "tokens", "labels"]
    return Table([*headings, f"labels with under {RARE} occurrences"], rows, names=[0])


def _unseen(inspections: Sequence[Inspection]) -> Table:
    """Return a table of what each later manifest contains that the first does not."""
    rows = [
        [
            inspection.name,
            unseen.what,
            f"{len(unseen.counts):,}",
            f"{sum(unseen.counts.values()):,}",
            f"{unseen.num_utterances:,}",
            duration(unseen.duration_s),
            listed([f"{name} ({count:,})" for name, count in unseen.counts.items()], NUM_SHOWN) or "none",
        ]
        for inspection in inspections
        for unseen in inspection.unseen
    ]
    headings = ["", "not in training", "number", "occurrences", "in utterances", "audio of these", "which"]
    return Table(headings, rows, "words unseen", names=[0])


@dataclass(frozen=True)
class _Shown:
    """What the page shows of a manifest."""

    name: str
    charts: Sequence[Chart]
    counts: Sequence[Table]
    speakers: Table
    rare_labels: Mapping[str, int]
    syllables: SyllableTable | None
    coverage: Coverage | None


def _shown(inspection: Inspection) -> _Shown:
    charts = [
        histogram("Durations", "seconds", inspection.durations_s, show=short_number, noun="utterance"),
        histogram(
            "Speaking rate", "tokens per second", inspection.tokens_per_s, show=short_number, noun="utterance"
        ),
        *([_frequency_curve(inspection)] if inspection.label_counts else []),
    ]
    if inspection.num_speakers > 1:
        minutes = [seconds / 60 for seconds in inspection.speaker_s.values()]
        charts.append(histogram("Minutes per speaker", "minutes", minutes, show=short_number, noun="speaker"))
    parts = [_counts(f"{part}s", counts, len(counts)) for part, counts in inspection.part_counts.items()]
    speakers = {name or "unknown": duration(s) for name, s in inspection.speaker_s.items()}
    return _Shown(
        inspection.name,
        charts,
        [_counts("labels", inspection.label_counts, NUM_SHOWN), *parts],
        Table(["speaker", "audio"], list(speakers.items()), names=[0]),
        inspection.rare_labels,
        syllable_table(inspection.label_counts) if inspection.part_counts else None,
        inspection.coverage,
    )


def _frequency_curve(inspection: Inspection) -> Chart:
    """Draw how often labels occur, from the most frequent to the rarest."""
    counts = list(inspection.label_counts.values())
    ranks = sorted({round(index * (len(counts) - 1) / MAX_POINTS) for index in range(MAX_POINTS + 1)})
    return line_chart(
        "Labels by frequency",
        Quantity("occurrences", short_number),
        [rank + 1 for rank in ranks],
        [ChartLine("occurrences", "dev", [counts[rank] for rank in ranks])],
        x_label="rank",
    )


def _counts(what: str, counts: Mapping[str, int], num_shown: int) -> Table:
    total = sum(counts.values())
    rows: list[list[str | float]] = [
        [label, f"{count:,}", count / total] for label, count in list(counts.items())[:num_shown]
    ]
    return Table([what, "occurrences", "share"], rows, names=[0])
