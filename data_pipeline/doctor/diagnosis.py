"""Finds everything that is wrong with manifests: reads, decodes and compares."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress, reported
from data_pipeline.doctor import comparisons, label_checks
from data_pipeline.doctor.checkup import NO_STORAGE, Checkup, audio_findings
from data_pipeline.doctor.findings import KINDS, SEVERITIES, Finding, ManifestLine, Severity, Source
from data_pipeline.doctor.label_checks import LabelRules
from data_pipeline.doctor.workers import check_recordings
from data_pipeline.manifests.manifest import scan_manifest


@dataclass(frozen=True)
class Contents:
    """The content of manifests.

    Attributes:
        sources: the manifests, in the order given.
        entries: all readable lines of all manifests.
        findings: defects of the manifests themselves.
    """

    sources: Sequence[Source]
    entries: Sequence[ManifestLine]
    findings: Sequence[Finding]


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

    source: Source
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
    """

    contents: Contents
    checkups: Sequence[Checkup]
    findings: Sequence[Finding]
    model: str

    def by_kind(self) -> dict[str, list[Finding]]:
        """Return the findings by the code of their kind, in the order of KINDS."""
        found: dict[str, list[Finding]] = {code: [] for code in KINDS}
        for finding in self.findings:
            found[finding.code].append(finding)
        return {code: findings for code, findings in found.items() if findings}

    def counts(self) -> dict[Severity, int]:
        """Return the number of findings of each severity."""
        return _by_severity(self.findings)

    def durations_s(self) -> list[float]:
        """Return each entry's duration: of the decoded audio, or else by the manifest."""
        return _durations_s(self.contents.entries, self.checkups)

    def left_out(self) -> set[tuple[Source, int]]:
        """Return the lines that clean manifests leave out."""
        return {
            (finding.source, finding.line)
            for finding in self.findings
            if finding.source and finding.kind.left_out
        }

    def summaries(self) -> Iterator[Summary]:
        """Yield a summary of each manifest."""
        left_out = Counter(source for source, _ in self.left_out())
        seconds: Counter[Source] = Counter()
        for entry, duration_s in zip(self.contents.entries, self.durations_s(), strict=True):
            seconds[entry.source] += duration_s  # type: ignore[assignment]  # a Counter adds floats as well
        for source in self.contents.sources:
            own = [entry for entry in self.contents.entries if entry.source == source]
            yield Summary(
                source,
                len(own),
                left_out[source],
                seconds[source],
                len({entry.utterance.speaker for entry in own} - {""}),
                _by_severity([finding for finding in self.findings if finding.source == source]),
            )


def read_contents(sources: Sequence[Source]) -> Contents:
    """Read manifests; broken lines become findings."""
    entries: list[ManifestLine] = []
    findings: list[Finding] = []
    for source in sources:
        try:
            scan = scan_manifest(source.path)
        except UserError as error:
            findings.append(Finding("unreadable-manifest", str(error), source))
            continue
        findings += [Finding("broken-line", reason, source, line) for line, reason in scan.broken.items()]
        if scan.has_byte_order_mark:
            findings.append(Finding("byte-order-mark", "EF BB BF", source))
        if not scan.utterances:
            findings.append(Finding("empty-manifest", f"{len(scan.broken)} broken lines", source))
        entries += [ManifestLine(source, line, utterance) for line, utterance in scan.utterances.items()]
    return Contents(sources, entries, findings)


def check_entries(
    entries: Sequence[ManifestLine], num_workers: int | None = None, on_progress: OnProgress = ignore_progress
) -> list[Checkup]:
    """Decode and measure every recording on all cores, and return the checkup of each.

    Raises:
        UserError: object storage cannot be used.
    """
    checkups = [Checkup()] * len(entries)
    paths = [entry.utterance.audio_path for entry in entries]
    results = reported(check_recordings(paths, num_workers), "decoding", "files", on_progress, len(paths))
    for index, one in results:
        if one.problem == NO_STORAGE:
            raise UserError(one.detail)
        checkups[index] = one
    return checkups


def diagnose(
    contents: Contents, checkups: Sequence[Checkup], rules: LabelRules, findings: Sequence[Finding] = ()
) -> Diagnosis:
    """Run all checks on manifests whose recordings have been decoded.

    Args:
        contents: content of the manifests.
        checkups: checkup of each entry's recording, in the same order.
        rules: rules for labels.
        findings: earlier findings, such as those about the vocabulary.
    """
    entries, found = contents.entries, [*contents.findings, *findings]
    durations_s = _durations_s(entries, checkups)
    for entry, one, duration_s in zip(entries, checkups, durations_s, strict=True):
        found += audio_findings(entry, one)
        found += label_checks.label_findings(entry, duration_s, rules)
        found += label_checks.text_findings(entry)
    # of duplicates, the first usable one is kept
    found += comparisons.id_findings([entry for entry, _ in _usable(entries, checkups, found)])
    found += comparisons.audio_comparisons(_usable(entries, checkups, found))
    found += comparisons.sentence_findings(entries)
    found += comparisons.speaker_comparisons(entries)
    found += label_checks.form_findings(entries)
    found += label_checks.syllable_findings(entries, rules.vocabulary)
    found += label_checks.rate_findings(entries, durations_s)
    found += label_checks.speaker_findings(entries)
    return Diagnosis(contents, checkups, _in_order(found, contents.sources), rules.model)


def _usable(
    entries: Sequence[ManifestLine], checkups: Sequence[Checkup], found: Sequence[Finding]
) -> list[tuple[ManifestLine, Checkup]]:
    """Return the entries that no finding so far leaves out, with their checkups."""
    left_out = {(finding.source, finding.line) for finding in found if finding.kind.left_out}
    pairs = zip(entries, checkups, strict=True)
    return [(entry, one) for entry, one in pairs if (entry.source, entry.line) not in left_out]


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


def _durations_s(entries: Sequence[ManifestLine], checkups: Sequence[Checkup]) -> list[float]:
    return [
        one.duration_s or entry.utterance.duration_s for entry, one in zip(entries, checkups, strict=True)
    ]


def _by_severity(findings: Sequence[Finding]) -> dict[Severity, int]:
    counts = Counter(finding.kind.severity for finding in findings)
    return {severity: counts[severity] for severity in SEVERITIES}


def _in_order(findings: Sequence[Finding], sources: Sequence[Source]) -> list[Finding]:
    ranks = {code: rank for rank, code in enumerate(KINDS)}
    indices = {source: index for index, source in enumerate(sources)}

    def order(finding: Finding) -> tuple[int, int, int]:
        index = indices[finding.source] if finding.source else -1
        return ranks[finding.code], index, finding.line

    return sorted(findings, key=order)
