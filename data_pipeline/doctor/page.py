"""What the doctor found, as one HTML page: figures, spreads, and examples of every kind to listen to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from asr.base.types import Utterance
from asr.base.wording import duration, short_number, visible
from asr.pages.charts import Chart
from asr.pages.histogram import histogram
from asr.pages.page import Table, write_page
from data_pipeline.doctor.checkup import is_silent
from data_pipeline.doctor.diagnosis import Diagnosis
from data_pipeline.doctor.findings import KINDS, SEVERITIES, Finding, Kind

NUM_EXAMPLES = 6  # of a kind, to be seen and heard
NUM_LISTED = 200  # of a kind, by name
NOT_TO_BE_HEARD = {
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
    """Write the page, whole or not at all.

    Args:
        path: of the HTML file; players and links lead from there to the recordings.
        diagnosis: to be shown.
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
        charts=_spreads(diagnosis),
        found={severity: [one for one in kinds if one.kind.severity == severity] for severity in SEVERITIES},
    )


def _facts(diagnosis: Diagnosis) -> dict[str, str]:
    counts = diagnosis.counts()
    entries = diagnosis.contents.entries
    return {
        "utterances": f"{len(entries):,}",
        "audio": duration(sum(diagnosis.durations_s())),
        "speakers": f"{len({entry.utterance.speaker for entry in entries} - {''}):,}",
        "lines without a sound utterance": f"{len(diagnosis.left_out()):,}",
        "warnings": f"{counts['warning']:,}",
        "notes": f"{counts['note']:,}",
    }


def _manifests(diagnosis: Diagnosis) -> Table:
    headings = ["manifest", "taken for", "utterances", "audio", "speakers", "errors", "warnings", "notes"]
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


def _spreads(diagnosis: Diagnosis) -> list[Chart]:
    """Draw how durations, levels and speaking rates are spread."""
    pairs = list(zip(diagnosis.contents.entries, diagnosis.heard, strict=True))
    levels = [heard.level_db for _, heard in pairs if heard.digest and not is_silent(heard)]
    rates = [
        len(entry.utterance.tokens) / heard.duration_s
        for entry, heard in pairs
        if entry.utterance.tokens and heard.duration_s
    ]
    charts = [
        ("Durations", "seconds", [heard.duration_s for _, heard in pairs if heard.digest]),
        ("Levels", "dBFS, root mean square", levels),
        ("Speaking rates", "tokens a second", rates),
    ]
    return [
        histogram(title, quantity, values, show=short_number, noun="recording")
        for title, quantity, values in charts
        if values
    ]


@dataclass(frozen=True)
class _Example:
    """A finding with what it is about.

    Attributes:
        finding: what was found.
        utterance: where it was found; None where there is none.
        said: its text, tokens and speaker.
        address: leads from the page to its recording.
        has_player: whether that can be listened to.
    """

    finding: Finding
    utterance: Utterance | None = None
    said: str = ""
    address: str = ""
    has_player: bool = False


@dataclass(frozen=True)
class _KindFound:
    """The findings of a kind.

    Attributes:
        kind: what was found.
        examples: the first findings.
        listed: further ones.
        total: how many there are.
        cut: how many of them the page names, where it leaves some out; else None.
    """

    kind: Kind
    examples: Sequence[_Example]
    listed: Table
    total: int
    cut: int | None

    @property
    def num_more(self) -> int:
        """How many there are beside the examples."""
        return self.total - len(self.examples)


class _Examples:
    """Findings with what they are about.

    Args:
        folder: of the page, from which links lead.
        diagnosis: to be shown.
    """

    def __init__(self, folder: Path, diagnosis: Diagnosis) -> None:
        self._folder = folder.resolve()
        self._utterances = {
            (entry.source, entry.line): entry.utterance for entry in diagnosis.contents.entries
        }

    def of_kind(self, kind: Kind, findings: Sequence[Finding]) -> _KindFound:
        """Return the first findings of a kind."""
        rows = [[visible(one.where), visible(one.detail)] for one in findings[NUM_EXAMPLES:NUM_LISTED]]
        return _KindFound(
            kind,
            [self._example(finding) for finding in findings[:NUM_EXAMPLES]],
            Table(["where", "what"], rows, kind="words"),
            len(findings),
            NUM_LISTED if len(findings) > NUM_LISTED else None,
        )

    def _example(self, finding: Finding) -> _Example:
        utterance = self._utterances.get((finding.source, finding.line)) if finding.source else None
        if utterance is None:
            return _Example(finding)
        said = " · ".join(filter(None, (utterance.text, " ".join(utterance.tokens), utterance.speaker)))
        has_player = finding.code not in NOT_TO_BE_HEARD
        return _Example(finding, utterance, said, self._address(utterance), has_player)

    def _address(self, utterance: Utterance) -> str:
        """From the page to the recording."""
        audio = Path(utterance.audio_path).absolute()
        try:
            relative = os.path.relpath(audio, self._folder)
        except ValueError:  # another drive
            return audio.as_uri()
        return quote(Path(relative).as_posix().encode(errors="surrogateescape"))
