"""Writes the doctor's findings as one HTML page: figures, histograms, and examples of every kind to play.

Paths are relative to the folder of all manifests, which the page names once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from asr.base.system.storage.address import is_address, path_of
from asr.base.text.wording import duration, short_number, visible
from asr.base.types import Utterance
from asr.pages.charts import Chart
from asr.pages.histogram import histogram
from asr.pages.page import Table, write_page
from data_pipeline.doctor.diagnosis import Diagnosis
from data_pipeline.doctor.findings import KINDS, SEVERITIES, Finding, FindingKind
from data_pipeline.manifests.columns import added_in_order

NUM_EXAMPLES = 6  # of a kind, shown with a player
NUM_LISTED = 200  # of a kind, listed by name
MESSAGES = {  # kinds whose detail is an error's message, or names, and the same in every language
    "unreadable-manifest",
    "broken-vocabulary",
    "broken-line",
    "byte-order-mark",
    "missing-audio",
    "empty-audio",
    "truncated-audio",
    "corrupt-audio",
    "decoder-stopped",
    "unknown-token",
    "unseen-token",
    "odd-token",
}
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
    paths = [source.path for source in diagnosis.contents.sources]
    common = _common_folder(paths)
    examples = _Examples(path.parent, common, diagnosis)
    kinds = [examples.of_kind(KINDS[code], findings) for code, findings in diagnosis.by_kind().items()]
    write_page(
        path,
        "data_pipeline.doctor",
        "doctor.html",
        written=written,
        title=paths[0].name if len(paths) == 1 else common.name,
        folder=str(common),
        num_errors=diagnosis.counts()["error"],
        facts=_facts(diagnosis),
        model=diagnosis.model,
        manifests=_manifests(diagnosis, common),
        charts=_histograms(diagnosis),
        found={severity: [one for one in kinds if one.kind.severity == severity] for severity in SEVERITIES},
    )


def _common_folder(paths: Sequence[Path]) -> Path:
    """Return the folder that all paths are below; the current one where there is none."""
    with contextlib.suppress(ValueError):  # no paths, two drives, or an address beside a disk
        return Path(os.path.commonpath([path.absolute().parent for path in paths]))
    return Path.cwd()


def _facts(diagnosis: Diagnosis) -> dict[str, str]:
    counts = diagnosis.counts()
    return {
        "utterances": f"{len(diagnosis.contents.entries):,}",
        "audio": duration(added_in_order(diagnosis.durations_s())),
        "speakers": f"{diagnosis.speakers.num_different():,}",
        "lines to leave out": f"{len(diagnosis.left_out()):,}",
        "warnings": f"{counts['warning']:,}",
        "notes": f"{counts['note']:,}",
    }


def _short(path: Path, common: Path) -> str:
    """Return a path relative to a folder, if it is in there."""
    path = path.absolute()
    return visible(str(path.relative_to(common) if path.is_relative_to(common) else path))


def _manifests(diagnosis: Diagnosis, common: Path) -> Table:
    headings = ["manifest", "used as", "utterances", "audio", "speakers", "errors", "warnings", "notes"]
    rows = [
        [
            _short(summary.source.path, common),
            summary.source.role,
            f"{summary.num_utterances:,}",
            duration(summary.duration_s),
            f"{summary.num_speakers:,}" if summary.num_speakers else "unknown",
            *(f"{summary.counts[severity]:,}" for severity in SEVERITIES),
        ]
        for summary in diagnosis.summaries()
    ]
    return Table(headings, rows, names=[0])


def _histograms(diagnosis: Diagnosis) -> list[Chart]:
    """Draw histograms of durations, levels and speaking rates."""
    checkups, num_tokens = diagnosis.checkups, diagnosis.contents.entries.columns.tokens.lengths
    seconds = checkups.rows["duration_s"]
    has_rate = (num_tokens > 0) & (seconds > 0)
    charts = [
        ("Durations", "seconds", seconds[checkups.is_decoded()]),
        ("Levels", "dBFS, root mean square", checkups.rows["level_db"][checkups.is_audible()]),
        ("Speaking rates", "tokens per second", num_tokens[has_rate] / seconds[has_rate]),
    ]
    return [
        histogram(title, quantity, values, show=short_number, noun="recording")
        for title, quantity, values in charts
        if len(values)
    ]


@dataclass(frozen=True)
class _Example:
    """A finding with its utterance.

    Attributes:
        finding: the finding.
        where: manifest, line and id.
        utterance: the utterance it is about; None for a finding about a manifest.
        description: text, tokens and speaker of the utterance.
        file: path of the recording.
        address: address of the recording, relative to the page; empty if a browser cannot open it.
        has_player: whether the recording can be played.
    """

    finding: Finding
    where: str
    utterance: Utterance | None = None
    description: str = ""
    file: str = ""
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
    def has_messages(self) -> bool:
        """Return whether the findings' details are errors' messages, or names."""
        return self.kind.code in MESSAGES

    @property
    def num_more(self) -> int:
        """Return the number of findings that are not examples."""
        return self.total - len(self.examples)


class _Examples:
    """The utterances of findings, looked up.

    Args:
        folder: folder of the page, to which links are relative.
        common: folder of all manifests, to which the paths that are shown are relative.
        diagnosis: the findings to show.
    """

    def __init__(self, folder: Path, common: Path, diagnosis: Diagnosis) -> None:
        self._folder, self._common = folder.resolve(), common
        self._entries = diagnosis.contents.entries

    def of_kind(self, kind: FindingKind, findings: Sequence[Finding]) -> _KindFound:
        """Return the findings of a kind as the page shows them."""
        rows = [[self._where(one), visible(one.detail)] for one in findings[NUM_EXAMPLES:NUM_LISTED]]
        return _KindFound(
            kind,
            [self._example(finding) for finding in findings[:NUM_EXAMPLES]],
            Table(["where", "finding"], rows, kind="words", names=[0, 1] if kind.code in MESSAGES else [0]),
            len(findings),
            NUM_LISTED if len(findings) > NUM_LISTED else None,
        )

    def _example(self, finding: Finding) -> _Example:
        index = self._entries.find(finding.source, finding.line)
        if index is None:
            return _Example(finding, self._where(finding))
        utterance = self._entries[index].utterance
        description = " · ".join(
            filter(None, (utterance.text, " ".join(utterance.tokens), utterance.speaker))
        )
        address = self._address(utterance)
        return _Example(
            finding,
            self._where(finding),
            utterance,
            description,
            _short(path_of(utterance.audio_path), self._common),
            address,
            bool(address) and finding.code not in UNPLAYABLE,
        )

    def _where(self, finding: Finding) -> str:
        """Return manifest, line and id, as far as they are known."""
        if finding.source is None:
            return ""
        rest = finding.where.removeprefix(str(finding.source.path))
        return _short(finding.source.path, self._common) + visible(rest)

    def _address(self, utterance: Utterance) -> str:
        """Return the address of the recording, relative to the page; empty in object storage."""
        if is_address(utterance.audio_path):
            return ""
        audio = path_of(utterance.audio_path).absolute()
        try:
            relative = os.path.relpath(audio, self._folder)
        except ValueError:  # another drive
            return audio.as_uri()
        return quote(Path(relative).as_posix().encode(errors="surrogateescape"))
