"""Finds everything that is wrong with manifests: reads, decodes and compares."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asr.base.cluster import Cluster
from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress, reported
from data_pipeline.doctor import comparisons, label_checks
from data_pipeline.doctor.checkup import NO_STORAGE, Checkups, audio_findings
from data_pipeline.doctor.comparisons import Sentences, Speakers
from data_pipeline.doctor.contents import AudioPaths, Contents, Entries, Findings, GrowingFindings
from data_pipeline.doctor.findings import KINDS, CheckedManifest, Finding, Severity
from data_pipeline.doctor.label_checks import LabelRules
from data_pipeline.doctor.workers import check_recordings
from data_pipeline.manifests.columns import added_in_order


@dataclass(frozen=True)
class Summary:
    """The summary of a manifest.

    Attributes:
        source: the manifest.
        num_utterances: number of readable lines.
        num_left_out: number of unusable lines.
        duration_s: total duration of the decoded audio, or that of the manifest where decoding failed.
        num_speakers: number of speakers that are named.
        counts: number of findings by severity.
    """

    source: CheckedManifest
    num_utterances: int
    num_left_out: int
    duration_s: float
    num_speakers: int
    counts: dict[Severity, int]


@dataclass(frozen=True)
class Diagnosis:
    """All findings about manifests.

    Attributes:
        contents: the content of the manifests.
        checkups: checkup of each entry's recording.
        findings: findings in the order of KINDS, then of the manifests and lines.
        model: name of the model whose frames the labels must fit.
        speakers: of the entries.
    """

    contents: Contents
    checkups: Checkups
    findings: Findings
    model: str
    speakers: Speakers

    def by_kind(self) -> dict[str, Findings]:
        """Return the findings by the code of their kind, in the order of KINDS."""
        return self.findings.by_kind()

    def counts(self) -> dict[Severity, int]:
        """Return the number of findings of each severity."""
        return self.findings.counts()

    def durations_s(self) -> npt.NDArray[np.float64]:
        """Return each entry's duration, (N,): of the decoded audio, or else by the manifest."""
        return _durations_s(self.contents.entries, self.checkups)

    def left_out(self) -> set[tuple[CheckedManifest, int]]:
        """Return the lines that clean manifests leave out."""
        return set(self.findings.places_left_out())

    def usable(self) -> npt.NDArray[np.bool_]:
        """Return which entries clean manifests keep, (N,)."""
        return self.findings.usable()

    def summaries(self) -> Iterator[Summary]:
        """Yield a summary of each manifest."""
        left_out = Counter(source for source, _ in self.left_out())
        durations_s = self.durations_s()
        for source in self.contents.sources:
            own = self.contents.entries.of_source(source)
            yield Summary(
                source,
                len(own),
                left_out[source],
                added_in_order(durations_s[own.start : own.stop]),
                self.speakers.num_different(own),
                self.findings.about(source).counts(),
            )


def check_entries(
    entries: Entries,
    on_progress: OnProgress = ignore_progress,
    cluster: Cluster | None = None,
) -> Checkups:
    """Decode and measure every recording on all cores or on a cluster, and return the checkup of each.

    Raises:
        UserError: object storage cannot be used.
    """
    checkups = Checkups(len(entries))
    paths = AudioPaths(entries.utterances)
    results = check_recordings(paths, cluster=cluster)
    for index, one in reported(results, "decoding", "files", on_progress, len(paths)):
        if one.problem == NO_STORAGE:
            raise UserError(one.detail)
        checkups[index] = one
    return checkups


def diagnose(
    contents: Contents, checkups: Checkups, rules: LabelRules, findings: Sequence[Finding] = ()
) -> Diagnosis:
    """Run all checks on manifests whose recordings have been decoded.

    Args:
        contents: content of the manifests.
        checkups: checkup of each entry's recording, in the same order.
        rules: rules for labels.
        findings: earlier findings, such as those about the vocabulary.
    """
    entries, found = contents.entries, GrowingFindings(contents.entries)
    found.extend([*contents.findings, *findings])
    durations_s = _durations_s(entries, checkups)
    speakers, sentences = Speakers(), Sentences()
    odd = label_checks.tokens_among_syllables(entries.columns, rules.vocabulary)
    for entry, one, duration_s in zip(entries, checkups, map(float, durations_s), strict=True):
        speakers.append(entry.utterance.speaker)
        sentences.append(entry.utterance)
        found.extend(audio_findings(entry, one))
        found.extend(label_checks.label_findings(entry, duration_s, rules))
        found.extend(label_checks.text_findings(entry))
        if odd is not None:
            found.extend(label_checks.syllable_findings(entry, odd))
    # of duplicates, the first usable one is kept
    same_ids = comparisons.repeated(entries.columns.keys, found.findings().usable())
    found.extend(comparisons.id_findings(entries[index] for index in same_ids))
    found.extend(comparisons.audio_comparisons(entries, checkups, found.findings().usable()))
    found.extend(comparisons.sentence_findings(entries, sentences))
    found.extend(comparisons.speaker_comparisons(entries, speakers))
    found.extend(comparisons.speaker_findings(entries, speakers))
    found.extend(label_checks.form_findings(entries))
    found.extend(label_checks.rate_findings(entries, entries.columns.tokens.lengths, durations_s))
    return Diagnosis(contents, checkups, found.findings().in_order(), rules.model, speakers)


def as_json(diagnosis: Diagnosis) -> dict[str, object]:
    """Return the diagnosis as JSON values."""
    return {
        "sound": not diagnosis.counts()["error"],
        "model": diagnosis.model,
        "manifests": [
            {
                "path": str(summary.source.path),
                "role": summary.source.role,
                "utterances": summary.num_utterances,
                "left_out": summary.num_left_out,
                "duration_s": round(summary.duration_s, 3),
                "speakers": summary.num_speakers,
                **{f"{severity}s": count for severity, count in summary.counts.items()},
            }
            for summary in diagnosis.summaries()
        ],
        "kinds": [
            {**dataclasses.asdict(KINDS[code]), "count": len(findings)}
            for code, findings in diagnosis.by_kind().items()
        ],
        "findings": [
            {
                "code": finding.code,
                "severity": finding.kind.severity,
                "manifest": str(finding.source.path) if finding.source else "",
                "line": finding.line,
                "id": finding.utterance_id,
                "audio": finding.audio_path,
                "detail": finding.detail,
            }
            for finding in diagnosis.findings
        ],
    }


def _durations_s(entries: Entries, checkups: Checkups) -> npt.NDArray[np.float64]:
    decoded_s = checkups.rows["duration_s"]
    return np.where(decoded_s != 0, decoded_s, entries.columns.durations_s)
