"""Compares utterances: finds repeated ids and recordings, and what two sets have in common.

What is compared is in arrays. Utterances are read again only where a number appears twice.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asr.base.text.wording import counted
from asr.base.types import Utterance
from data_pipeline.doctor.checkup import Checkups
from data_pipeline.doctor.contents import Entries
from data_pipeline.doctor.findings import ROLES, CheckedManifest, Finding, ManifestLine, about
from data_pipeline.text.sentences import sentence_key

NOTHING = 0  # the number of an empty sentence, and of an unknown speaker


class Speakers:
    """Who speaks each of many utterances, by numbers."""

    def __init__(self) -> None:
        self._numbers = array("i")
        self._names = {"": NOTHING}

    def append(self, name: str) -> None:
        """Add the speaker of the next utterance, "" if unknown."""
        self._numbers.append(self._names.setdefault(name, len(self._names)))

    @property
    def numbers(self) -> npt.NDArray[np.int32]:
        """Return the number of each utterance's speaker, (N,)."""
        return np.array(self._numbers, np.int32)

    def num_different(self, own: range | None = None) -> int:
        """Return the number of known speakers of all utterances, or of some."""
        numbers = self.numbers if own is None else self.numbers[own.start : own.stop]
        return int(np.count_nonzero(np.unique(numbers) != NOTHING))


class Sentences:
    """The sentence of each of many utterances, by numbers of 64 bits."""

    def __init__(self) -> None:
        self._numbers = bytearray()

    def append(self, utterance: Utterance) -> None:
        """Add the sentence of the next utterance."""
        key = sentence_key(utterance.text, utterance.tokens).encode(errors="surrogatepass")
        self._numbers += hashlib.blake2b(key, digest_size=8).digest() if key else bytes(8)

    @property
    def numbers(self) -> npt.NDArray[np.uint64]:
        """Return the number of each utterance's sentence, (N,)."""
        return np.frombuffer(self._numbers, np.uint64)


def repeated(keys: npt.NDArray[np.generic], chosen: npt.NDArray[np.bool_]) -> list[int]:
    """Return the indices of chosen keys that appear at least twice among these.

    Args:
        keys: (N,).
        chosen: (N,) which keys are compared.
    """
    indices = np.flatnonzero(chosen)
    _, groups, counts = np.unique(keys[indices], return_inverse=True, return_counts=True)
    found: list[int] = indices[counts[groups] > 1].tolist()
    return found


def id_findings(entries: Iterable[ManifestLine]) -> Iterator[Finding]:
    """Yield ids that appear twice in a manifest or its shards, or in two manifests."""
    first: dict[str, ManifestLine] = {}
    first_here: dict[tuple[CheckedManifest | Path, str], ManifestLine] = {}
    for entry in entries:
        name = entry.utterance.id
        here = first_here.setdefault((entry.source.corpus or entry.source, name), entry)
        anywhere = first.setdefault(name, entry)
        if here is not entry:
            where = "" if here.source == entry.source else f" of {here.source.path.name}"
            yield about(entry, "repeated-id", f"also in line {here.line}{where}, which is kept")
        elif anywhere is not entry:
            yield about(entry, "shared-id", f"also {anywhere.source.path}, line {anywhere.line}")


def audio_comparisons(
    entries: Entries, checkups: Checkups, usable: npt.NDArray[np.bool_]
) -> Iterator[Finding]:
    """Yield recordings that appear twice in a set, possibly with other labels, or in two sets."""
    digests = checkups.rows["digest"]
    by_audio: defaultdict[bytes, list[int]] = defaultdict(list)
    for index in repeated(digests, usable & checkups.is_audible()):
        by_audio[digests[index].tobytes()].append(index)
    for same_audio in by_audio.values():
        yield from _same_audio_findings([entries[index] for index in same_audio])


def sentence_findings(entries: Entries, sentences: Sentences) -> Iterator[Finding]:
    """Yield sentences of a set that are also in an earlier one, in the order train, dev, test."""
    for index, other_index in _shared(entries, sentences.numbers):
        entry, other = entries[index], entries[other_index]
        texts = [(one.utterance.text, one.utterance.tokens) for one in (entry, other)]
        if sentence_key(*texts[0]) == sentence_key(*texts[1]):  # their numbers might be equal by chance
            sentence = entry.utterance.text or " ".join(entry.utterance.tokens)
            yield about(entry, "shared-sentence", f"{sentence!r}, also {other.where}")


def speaker_comparisons(entries: Entries, speakers: Speakers) -> Iterator[Finding]:
    """Yield speakers of a set that are also in an earlier one."""
    sources, numbers = entries.source_numbers, speakers.numbers
    pairs = sources.astype(np.int64) << 32 | numbers
    different, counts = np.unique(pairs, return_counts=True)
    reported: set[int] = set()
    for index, other_index in _shared(entries, numbers):
        if int(pairs[index]) not in reported:
            reported.add(int(pairs[index]))
            here, there = (counts[different.searchsorted(pairs[one])] for one in (index, other_index))
            entry, other = entries[index], entries[other_index]
            detail = (
                f"{entry.utterance.speaker!r}: {counted(int(here), 'utterance')} here, "
                f"{there:,} in {other.source.path.name}"
            )
            yield Finding("shared-speaker", detail, entry.source)


def speaker_findings(entries: Entries, speakers: Speakers) -> Iterator[Finding]:
    """Yield the number of each manifest's utterances without a speaker."""
    is_unknown = speakers.numbers == NOTHING
    for source in entries.sources:
        own = entries.of_source(source)
        if missing := np.count_nonzero(is_unknown[own.start : own.stop]):
            yield Finding("no-speaker", f"{missing:,} of {counted(len(own), 'utterance')}", source)


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


def _shared(entries: Entries, keys: npt.NDArray[np.integer]) -> Iterator[tuple[int, int]]:
    """Yield entries whose key is also in an earlier set, with the first entry there; skip empty keys."""
    roles = np.array([ROLES.index(source.role) for source in entries.sources])[entries.source_numbers]
    known, first = keys[:0], np.arange(0)  # sorted keys of the sets so far, and the first entry of each
    for role in range(len(ROLES)):
        of_role = np.flatnonzero((roles == role) & (keys != NOTHING))
        own, own_first = np.unique(keys[of_role], return_index=True)
        is_shared = np.isin(own, known)
        for index in of_role[np.isin(keys[of_role], own[is_shared])].tolist():
            yield index, int(first[known.searchsorted(keys[index])])
        all_keys = np.concatenate([known, own[~is_shared]])
        all_first = np.concatenate([first, of_role[own_first[~is_shared]]])
        order = np.argsort(all_keys)
        known, first = all_keys[order], all_first[order]
