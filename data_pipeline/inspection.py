"""Compute statistics of manifests: durations, speakers, how often each label occurs."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.pinyin import is_syllable, split_syllable
from asr.base.types import Utterance
from data_pipeline.doctor.findings import ROLES, sources_of
from data_pipeline.manifest import read_manifest

RARE = 10  # a label with fewer occurrences is hardly learned


@dataclass(frozen=True)
class Inspection:
    """Holds the statistics of a manifest.

    Attributes:
        name: of the manifest.
        durations_s: of its utterances.
        num_tokens: of its utterances.
        num_sentences: number of distinct sentences.
        speaker_s: seconds of each speaker, the longest first; "" for utterances without a speaker.
        label_counts: how often each label occurs, the most frequent first.
        part_counts: the same for initials, finals and tones, if the labels are toned syllables.
    """

    name: str
    durations_s: Sequence[float]
    num_tokens: Sequence[int]
    num_sentences: int
    speaker_s: dict[str, float]
    label_counts: dict[str, int]
    part_counts: dict[str, dict[str, int]]

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
    return [inspect_utterances(str(source.path), read_manifest(source.path)) for source in sources]


def inspect_utterances(name: str, utterances: Sequence[Utterance]) -> Inspection:
    """Return the statistics of the utterances of one manifest."""
    speaker_s: dict[str, float] = collections.defaultdict(float)
    for utterance in utterances:
        speaker_s[utterance.speaker] += utterance.duration_s
    labels = collections.Counter(token for utterance in utterances for token in utterance.tokens)
    return Inspection(
        name=name,
        durations_s=[utterance.duration_s for utterance in utterances],
        num_tokens=[len(utterance.tokens) for utterance in utterances],
        num_sentences=len({utterance.tokens for utterance in utterances}),
        speaker_s=dict(sorted(speaker_s.items(), key=lambda item: (-item[1], item[0]))),
        label_counts=_by_frequency(labels),
        part_counts=_parts(labels),
    )


def unseen_labels(inspections: Sequence[Inspection]) -> dict[str, list[str]]:
    """Return the labels of each later manifest that are missing in the first: a model cannot output them."""
    first, *others = inspections
    unseen = {other.name: sorted(other.label_counts.keys() - first.label_counts.keys()) for other in others}
    return {name: labels for name, labels in unseen.items() if labels}


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
