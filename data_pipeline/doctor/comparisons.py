"""Compares utterances: finds repeated ids and recordings, and what two sets have in common."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

from asr.base.text.wording import counted
from data_pipeline.doctor.checkup import Checkup, is_silent
from data_pipeline.doctor.findings import ROLES, Finding, ManifestLine, Source, about
from data_pipeline.text.sentences import sentence_key


def id_findings(entries: Sequence[ManifestLine]) -> Iterator[Finding]:
    """Yield ids that appear twice in a manifest or its shards, or in two manifests."""
    first: dict[str, ManifestLine] = {}
    first_here: dict[tuple[Source | Path, str], ManifestLine] = {}
    for entry in entries:
        name = entry.utterance.id
        here = first_here.setdefault((entry.source.corpus or entry.source, name), entry)
        anywhere = first.setdefault(name, entry)
        if here is not entry:
            where = "" if here.source == entry.source else f" of {here.source.path.name}"
            yield about(entry, "repeated-id", f"also in line {here.line}{where}, which is kept")
        elif anywhere is not entry:
            yield about(entry, "shared-id", f"also {anywhere.source.path}, line {anywhere.line}")


def audio_comparisons(checkups: Sequence[tuple[ManifestLine, Checkup]]) -> Iterator[Finding]:
    """Yield recordings that appear twice in a set, possibly with other labels, or in two sets."""
    by_audio: defaultdict[bytes, list[ManifestLine]] = defaultdict(list)
    for entry, one in checkups:
        if one.digest and not is_silent(one):
            by_audio[one.digest].append(entry)
    for same_audio in by_audio.values():
        if len(same_audio) > 1:
            yield from _same_audio_findings(same_audio)


def sentence_findings(entries: Sequence[ManifestLine]) -> Iterator[Finding]:
    """Yield sentences of a set that are also in an earlier one, in the order train, dev, test."""
    sentences = [sentence_key(entry.utterance.text, entry.utterance.tokens) for entry in entries]
    for entry, other in _shared(entries, sentences):
        sentence = entry.utterance.text or " ".join(entry.utterance.tokens)
        yield about(entry, "shared-sentence", f"{sentence!r}, also {other.where}")


def speaker_comparisons(entries: Sequence[ManifestLine]) -> Iterator[Finding]:
    """Yield speakers of a set that are also in an earlier one."""
    counts = Counter((entry.source, entry.utterance.speaker) for entry in entries)
    reported: set[tuple[Source, str]] = set()
    for entry, other in _shared(entries, [entry.utterance.speaker for entry in entries]):
        speaker = entry.utterance.speaker
        if (entry.source, speaker) not in reported:
            reported.add((entry.source, speaker))
            detail = (
                f"{speaker!r}: {counted(counts[entry.source, speaker], 'utterance')} here, "
                f"{counts[other.source, speaker]:,} in {other.source.path.name}"
            )
            yield Finding("shared-speaker", detail, entry.source)


def _same_audio_findings(same_audio: Sequence[ManifestLine]) -> Iterator[Finding]:
    """Yield the findings about utterances of the same audio."""
    first = min(same_audio, key=lambda entry: ROLES.index(entry.source.role))
    by_role: defaultdict[str, list[ManifestLine]] = defaultdict(list)
    for entry in same_audio:
        by_role[entry.source.role].append(entry)
    for same_set in by_role.values():
        one = same_set[0]
        another = next((entry for entry in same_set if entry.utterance.tokens != one.utterance.tokens), None)
        for index, entry in enumerate(same_set):
            if another:
                other = another if entry.utterance.tokens == one.utterance.tokens else one
                labels = f"{' '.join(entry.utterance.tokens)!r}, {' '.join(other.utterance.tokens)!r}"
                yield about(entry, "contradicting-labels", f"{labels} in {other.where}")
            elif index:
                yield about(entry, "repeated-audio", f"the same as {one.where}, which is kept")
        if first not in same_set:
            yield about(one, "shared-audio", f"also {first.where}")


def _shared(
    entries: Sequence[ManifestLine], keys: Sequence[Hashable]
) -> Iterator[tuple[ManifestLine, ManifestLine]]:
    """Yield entries whose key is also in an earlier set, with the first entry there; skip empty keys."""
    first: dict[Hashable, ManifestLine] = {}
    for role in ROLES:
        of_role = [index for index, entry in enumerate(entries) if entry.source.role == role and keys[index]]
        for index in of_role:
            if keys[index] in first:
                yield entries[index], first[keys[index]]
        for index in of_role:
            first.setdefault(keys[index], entries[index])
