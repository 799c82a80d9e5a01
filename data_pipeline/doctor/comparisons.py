"""What only a look at several utterances tells: repeated ids and sounds, and what two sets share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

from asr.base.wording import counted
from data_pipeline.doctor.checkup import Heard, is_silent
from data_pipeline.doctor.findings import ROLES, Entry, Finding, Source, about
from data_pipeline.sentences import sentence_key


def id_findings(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Ids that stand twice in a manifest, or in two."""
    first: dict[str, Entry] = {}
    first_here: dict[tuple[Source, str], Entry] = {}
    for entry in entries:
        name = entry.utterance.id
        here = first_here.setdefault((entry.source, name), entry)
        anywhere = first.setdefault(name, entry)
        if here is not entry:
            yield about(entry, "repeated-id", f"also in line {here.line}, which is kept")
        elif anywhere is not entry:
            yield about(entry, "shared-id", f"also {anywhere.source.path}, line {anywhere.line}")


def sound_comparisons(heard: Sequence[tuple[Entry, Heard]]) -> Iterator[Finding]:
    """The same sound twice in a set, under other labels perhaps, or in two sets."""
    by_sound: defaultdict[bytes, list[Entry]] = defaultdict(list)
    for entry, one in heard:
        if one.digest and not is_silent(one):
            by_sound[one.digest].append(entry)
    for alike in by_sound.values():
        if len(alike) > 1:
            yield from _alike_findings(alike)


def sentence_findings(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Sentences of one set that stand in an earlier one too: train before dev before test."""
    sentences = [sentence_key(entry.utterance.text, entry.utterance.tokens) for entry in entries]
    for entry, other in _shared(entries, sentences):
        said = entry.utterance.text or " ".join(entry.utterance.tokens)
        yield about(entry, "shared-sentence", f"{said!r}, also {other.where}")


def speaker_comparisons(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Speakers of one set that speak in an earlier one too."""
    counts = Counter((entry.source, entry.utterance.speaker) for entry in entries)
    told: set[tuple[Source, str]] = set()
    for entry, other in _shared(entries, [entry.utterance.speaker for entry in entries]):
        speaker = entry.utterance.speaker
        if (entry.source, speaker) not in told:
            told.add((entry.source, speaker))
            detail = (
                f"{speaker!r}: {counted(counts[entry.source, speaker], 'utterance')} here, "
                f"{counts[other.source, speaker]:,} in {other.source.path.name}"
            )
            yield Finding("shared-speaker", detail, entry.source)


def _alike_findings(alike: Sequence[Entry]) -> Iterator[Finding]:
    """About utterances of the same sound."""
    first = min(alike, key=lambda entry: ROLES.index(entry.source.role))
    by_role: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in alike:
        by_role[entry.source.role].append(entry)
    for same_set in by_role.values():
        one = same_set[0]
        another = next((entry for entry in same_set if entry.utterance.tokens != one.utterance.tokens), None)
        for place, entry in enumerate(same_set):
            if another:
                other = another if entry.utterance.tokens == one.utterance.tokens else one
                labels = f"{' '.join(entry.utterance.tokens)!r}, {' '.join(other.utterance.tokens)!r}"
                yield about(entry, "contradicting-labels", f"{labels} in {other.where}")
            elif place:
                yield about(entry, "repeated-audio", f"the same as {one.where}, which is kept")
        if first not in same_set:
            yield about(one, "shared-audio", f"also {first.where}")


def _shared(entries: Sequence[Entry], keys: Sequence[Hashable]) -> Iterator[tuple[Entry, Entry]]:
    """Entries whose key stands in an earlier set too, and the first entry there; an empty key counts not."""
    first: dict[Hashable, Entry] = {}
    for role in ROLES:
        of_role = [place for place, entry in enumerate(entries) if entry.source.role == role and keys[place]]
        for place in of_role:
            if keys[place] in first:
                yield entries[place], first[keys[place]]
        for place in of_role:
            first.setdefault(keys[place], entries[place])
