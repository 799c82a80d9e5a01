"""Writes the doctor's findings as one HTML page: figures, histograms, and examples of every kind to play."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from asr.base.text.wording import duration, short_number, visible
from asr.base.types import Utterance
from asr.pages.charts import Chart
from asr.pages.histogram import histogram
from asr.pages.page import Table, write_page
from data_pipeline.doctor.checkup import is_silent
from data_pipeline.doctor.diagnosis import Diagnosis
from data_pipeline.doctor.findings import KINDS, SEVERITIES, Finding, FindingKind

NUM_EXAMPLES = 6  # of a kind, shown with a player
NUM_LISTED = 200  # of a kind, listed by name
UNPLAYABLE = {
    "missing-audio",
    "empty-audio",
    "truncated-audio",
    "corrupt-audio",
    "decoder-stopped",
    "oversized-audio",
    "too-short",
    "silent",
}


def write_doctor_page(path: Path, diagnosis: Diagnosis, written: datetime | None = None) -> None:
    """Write the page atomically.

    Args:
        path: path of the HTML file; links to the recordings are relative to it.
        diagnosis: the findings to show.
        written: the date on the page; now by default.

    Raises:
        UserError: the file cannot be written.
    """
    examples = _Examples(path.parent, diagnosis)
    kinds = [examples.of_kind(KINDS[code], findings) for code, findings in diagnosis.by_kind().items()]
    write_page(
        path,
        "data_pipeline.doctor",
        "doctor.html",
        written=written,
        names=[source.path.name for source in diagnosis.contents.sources],
        num_errors=diagnosis.counts()["error"],
        facts=_facts(diagnosis),
        model=diagnosis.model,
        manifests=_manifests(diagnosis),
        charts=_histograms(diagnosis),
        found={severity: [one for one in kinds if one.kind.severity == severity] for severity in SEVERITIES},
    )


def _facts(diagnosis: Diagnosis) -> dict[str, str]:
    counts = diagnosis.counts()
    entries = diagnosis.contents.entries
    return {
        "utterances": f"{len(entries):,}",
        "audio": duration(sum(diagnosis.durations_s())),
        "speakers": f"{len({entry.utterance.speaker for entry in entries} - {''}):,}",
        "lines to leave out": f"{len(diagnosis.left_out()):,}",
        "warnings": f"{counts['warning']:,}",
        "notes": f"{counts['note']:,}",
    }


def _manifests(diagnosis: Diagnosis) -> Table:
    headings = ["manifest", "used as", "utterances", "audio", "speakers", "errors", "warnings", "notes"]
    rows = [
        [
            visible(str(summary.source.path)),
            summary.source.role,
            f"{summary.num_utterances:,}",
            duration(summary.duration_s),
            f"{summary.num_speakers:,}" if summary.num_speakers else "unknown",
            *(f"{summary.counts[severity]:,}" for severity in SEVERITIES),
        ]
        for summary in diagnosis.summaries()
    ]
    return Table(headings, rows)


def _histograms(diagnosis: Diagnosis) -> list[Chart]:
    """Draw histograms of durations, levels and speaking rates."""
    pairs = list(zip(diagnosis.contents.entries, diagnosis.checkups, strict=True))
    levels = [checkup.level_db for _, checkup in pairs if checkup.digest and not is_silent(checkup)]
    rates = [
        len(entry.utterance.tokens) / checkup.duration_s
        for entry, checkup in pairs
        if entry.utterance.tokens and checkup.duration_s
    ]
    charts = [
        ("Durations", "seconds", [checkup.duration_s for _, checkup in pairs if checkup.digest]),
        ("Levels", "dBFS, root mean square", levels),
        ("Speaking rates", "tokens per second", rates),
    ]
    return [
        histogram(title, quantity, values, show=short_number, noun="recording")
        for title, quantity, values in charts
        if values
    ]


@dataclass(frozen=True)
class _Example:
    """A finding with its utterance.

    Attributes:
        finding: the finding.
        utterance: the utterance it is about; None for a finding about a manifest.
        description: text, tokens and speaker of the utterance.
        address: address of the recording, relative to the page.
        has_player: whether the recording can be played.
    """

    finding: Finding
    utterance: Utterance | None = None
    description: str = ""
    address: str = ""
    has_player: bool = False


@dataclass(frozen=True)
class _KindFound:
    """The findings of a kind.

    Attributes:
        kind: the kind of finding.
        examples: the first findings, with their utterances.
        listed: further findings by name.
        total: number of findings.
        cut: number of findings on the page if it leaves some out, else None.
    """

    kind: FindingKind
    examples: Sequence[_Example]
    listed: Table
    total: int
    cut: int | None

    @property
    def num_more(self) -> int:
        """Return the number of findings that are not examples."""
        return self.total - len(self.examples)


class _Examples:
    """Looks up the utterances of findings.

    Args:
        folder: folder of the page, to which links are relative.
        diagnosis: the findings to show.
    """

    def __init__(self, folder: Path, diagnosis: Diagnosis) -> None:
        self._folder = folder.resolve()
        self._utterances = {
            (entry.source, entry.line): entry.utterance for entry in diagnosis.contents.entries
        }

    def of_kind(self, kind: FindingKind, findings: Sequence[Finding]) -> _KindFound:
        """Return the findings of a kind as the page shows them."""
        rows = [[visible(one.where), visible(one.detail)] for one in findings[NUM_EXAMPLES:NUM_LISTED]]
        return _KindFound(
            kind,
            [self._example(finding) for finding in findings[:NUM_EXAMPLES]],
            Table(["where", "finding"], rows, kind="words"),
            len(findings),
            NUM_LISTED if len(findings) > NUM_LISTED else None,
        )

    def _example(self, finding: Finding) -> _Example:
        utterance = self._utterances.get((finding.source, finding.line)) if finding.source else None
        if utterance is None:
            return _Example(finding)
        description = " · ".join(
            filter(None, (utterance.text, " ".join(utterance.tokens), utterance.speaker))
        )
        has_player = finding.code not in UNPLAYABLE
        return _Example(finding, utterance, description, self._address(utterance), has_player)

    def _address(self, utterance: Utterance) -> str:
        """Return the address of the recording, relative to the page."""
        audio = Path(utterance.audio_path).absolute()
        try:
            relative = os.path.relpath(audio, self._folder)
        except ValueError:  # another drive
            return audio.as_uri()
        return quote(Path(relative).as_posix().encode(errors="surrogateescape"))
