"""Compute statistics of manifests: durations, speakers, how often each label occurs."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.text.pinyin import is_syllable, split_syllable, without_tone
from asr.base.types import Utterance
from data_pipeline.doctor.findings import ROLES, sources_of
from data_pipeline.labels.syllable_use import Coverage, coverage_of
from data_pipeline.manifests.manifest import read_manifest

RARE = 10  # a label with fewer occurrences is hardly learned


@dataclass(frozen=True)
class Unseen:
    """What a manifest contains that the training manifest does not: a model cannot learn it.

    Attributes:
        what: "labels", or "syllables without tone": initials with finals.
        counts: how often each occurs, the most frequent first.
        num_utterances: that contain any of them.
        duration_s: of these utterances.
    """

    what: str
    counts: dict[str, int]
    num_utterances: int
    duration_s: float


@dataclass(frozen=True)
class Inspection:
    """The statistics of a manifest.

    Attributes:
        name: of the manifest.
        durations_s: of its utterances.
        num_tokens: of its utterances.
        num_sentences: number of distinct sentences.
        speaker_s: seconds of each speaker, the longest first; "" for utterances without a speaker.
        label_counts: how often each label occurs, the most frequent first.
        part_counts: the same for initials, finals and tones, if the labels are toned syllables.
        unseen: what it contains that the training manifest does not; empty for the training manifest.
        coverage: how much of Mandarin its labels cover, if they are toned syllables; else None.
    """

    name: str
    durations_s: Sequence[float]
    num_tokens: Sequence[int]
    num_sentences: int
    speaker_s: dict[str, float]
    label_counts: dict[str, int]
    part_counts: dict[str, dict[str, int]]
    unseen: Sequence[Unseen] = ()
    coverage: Coverage | None = None

    @property
    def duration_s(self) -> float:
        """Return the total seconds of audio."""
        return sum(self.durations_s)

    @property
    def num_speakers(self) -> int:
        """Return the number of known speakers."""
        return len(self.speaker_s.keys() - {""})

    @property
    def tokens_per_s(self) -> list[float]:
        """Return the speaking rate of each utterance."""
        return [num / s for num, s in zip(self.num_tokens, self.durations_s, strict=True)]

    @property
    def rare_labels(self) -> dict[str, int]:
        """Return labels that occur less than ten times with their counts, the rarest first."""
        rare = [(label, count) for label, count in self.label_counts.items() if count < RARE]
        return dict(sorted(rare, key=lambda item: (item[1], item[0])))


def inspect_manifests(paths: Sequence[Path]) -> list[Inspection]:
    """Return the statistics of manifests, training manifests first, whatever their order.

    Raises:
        UserError: a manifest cannot be read.
    """
    sources = sorted(sources_of(paths), key=lambda source: ROLES.index(source.role))
    inspections: list[Inspection] = []
    for source in sources:
        first = inspections[0] if inspections else None
        inspections.append(inspect_utterances(str(source.path), read_manifest(source.path), first))
    return inspections


def inspect_utterances(
    name: str, utterances: Sequence[Utterance], train: Inspection | None = None
) -> Inspection:
    """Return the statistics of the utterances of one manifest.

    Args:
        name: of the manifest.
        utterances: its lines.
        train: the statistics of the training manifest; None if this is it.
    """
    speaker_s: dict[str, float] = collections.defaultdict(float)
    for utterance in utterances:
        speaker_s[utterance.speaker] += utterance.duration_s
    labels = collections.Counter(token for utterance in utterances for token in utterance.tokens)
    parts = _parts(labels)
    return Inspection(
        name=name,
        durations_s=[utterance.duration_s for utterance in utterances],
        num_tokens=[len(utterance.tokens) for utterance in utterances],
        num_sentences=len({utterance.tokens for utterance in utterances}),
        speaker_s=dict(sorted(speaker_s.items(), key=lambda item: (-item[1], item[0]))),
        label_counts=_by_frequency(labels),
        part_counts=parts,
        unseen=_unseen(utterances, train) if train else (),
        coverage=coverage_of(labels) if parts else None,
    )


def _unseen(utterances: Sequence[Utterance], train: Inspection) -> list[Unseen]:
    """Return the labels, and if these are toned syllables their pairs of initial and final, not in training.

    A pair is named by its syllable without the tone: `zhong`.
    """
    named: dict[str, Callable[[str], str]] = {"labels": str}
    if train.part_counts:
        named["syllables without tone"] = without_tone
    found = []
    for what, name_of in named.items():
        known = set(map(name_of, train.label_counts))
        counts: collections.Counter[str] = collections.Counter()
        num_utterances, duration_s = 0, 0.0
        for utterance in utterances:
            unseen = [name for name in map(name_of, utterance.tokens) if name not in known]
            counts.update(unseen)
            num_utterances += bool(unseen)
            duration_s += utterance.duration_s * bool(unseen)
        found.append(Unseen(what, _by_frequency(counts), num_utterances, duration_s))
    return found


def _parts(labels: collections.Counter[str]) -> dict[str, dict[str, int]]:
    if not labels or not all(map(is_syllable, labels)):
        return {}
    counts = [collections.Counter[str]() for _ in range(3)]
    for label, count in labels.items():
        for part, counter in zip(split_syllable(label), counts, strict=True):
            counter[part or "none"] += count
    initials, finals, tones = map(_by_frequency, counts)
    return {"initial": initials, "final": finals, "tone": dict(sorted(tones.items()))}


def _by_frequency(counts: collections.Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def spread(values: Iterable[float]) -> tuple[float, float, float]:
    """Return the minimum, the median (the upper of two) and the maximum."""
    ordered = sorted(values)
    return ordered[0], ordered[len(ordered) // 2], ordered[-1]
