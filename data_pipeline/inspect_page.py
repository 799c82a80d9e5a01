"""What manifests hold, as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from xml.etree.ElementTree import Element

from asr.base.files import whole_file
from asr.base.wording import counted, duration, short_number
from asr.pages.charts import Line, line_chart
from asr.pages.histogram import histogram
from asr.pages.page import element, folded, page, section, table
from data_pipeline.inspection import RARE, Inspection, unseen_labels

NUM_SHOWN = 30
MOST_POINTS = 200  # of a curve


def write_inspect_page(
    path: Path, inspections: Sequence[Inspection], written: datetime | None = None
) -> None:
    """Write the page, whole or not at all.

    Raises:
        UserError: the file cannot be written.
    """
    title = ", ".join(inspection.name for inspection in inspections)
    header = element("header", element("h1", title), _overview(inspections))
    unseen = unseen_labels(inspections)
    sections = [header, *([_unseen(unseen)] if unseen else []), *map(_manifest, inspections)]
    footer = element("footer", element("p", f"asr inspect, {(written or datetime.now()):%Y-%m-%d %H:%M}"))
    with whole_file(path, "page") as file:
        # a manifest's JSON can hold what has no UTF-8
        file.write(page(title, [*sections, footer]).encode(errors="xmlcharrefreplace"))


def _overview(inspections: Sequence[Inspection]) -> Element:
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
    headings = ["", "audio", "utterances", "sentences that differ", "speakers", "tokens", "labels"]
    return table([*headings, f"labels under {RARE} times"], rows)


def _unseen(unseen: Mapping[str, Sequence[str]]) -> Element:
    rows = [[name, f"{len(labels):,}", " ".join(labels[:NUM_SHOWN])] for name, labels in unseen.items()]
    note = "Labels that the first manifest does not hold: a model trained on it cannot write them."
    return section("Never trained on", note, table(["", "labels", "such as"], rows, "words"))


def _manifest(inspection: Inspection) -> Element:
    pictures = [
        histogram("Durations", "seconds", inspection.durations_s, show=short_number, noun="utterance"),
        histogram(
            "Speaking rate", "tokens per second", inspection.tokens_per_s, show=short_number, noun="utterance"
        ),
        *([_frequency_curve(inspection)] if inspection.label_counts else []),
    ]
    if inspection.num_speakers > 1:
        minutes = [seconds / 60 for seconds in inspection.speaker_s.values()]
        pictures.append(
            histogram("Minutes of a speaker", "minutes", minutes, show=short_number, noun="speaker")
        )
    parts = [_counts(f"{part}s", counts, len(counts)) for part, counts in inspection.part_counts.items()]
    rare = [f"{label} ({count})" for label, count in inspection.rare_labels.items()]
    speakers = {name or "not named": duration(s) for name, s in inspection.speaker_s.items()}
    more = [
        folded(
            f"All {counted(len(speakers), 'speaker')}", table(["speaker", "audio"], list(speakers.items()))
        ),
        folded(f"{counted(len(rare), 'label')} under {RARE} times", element("p", " ".join(rare))),
    ]
    return section(
        inspection.name,
        "",
        element("div", *pictures, class_="charts"),
        element("div", _counts("labels", inspection.label_counts, NUM_SHOWN), *parts, class_="columns"),
        *more,
    )


def _frequency_curve(inspection: Inspection) -> Element:
    """How often labels occur, from the most frequent to the rarest."""
    counts = list(inspection.label_counts.values())
    ranks = sorted({round(place * (len(counts) - 1) / MOST_POINTS) for place in range(MOST_POINTS + 1)})
    return line_chart(
        "Labels by frequency",
        "occurrences",
        [rank + 1 for rank in ranks],
        [Line("occurrences", "dev", [counts[rank] for rank in ranks])],
        show=short_number,
        x_label="rank",
    )


def _counts(what: str, counts: Mapping[str, int], num_shown: int) -> Element:
    total = sum(counts.values())
    rows: list[list[str | float]] = [
        [label, f"{count:,}", count / total] for label, count in list(counts.items())[:num_shown]
    ]
    return element("div", table([what, "occurrences", "share"], rows))
