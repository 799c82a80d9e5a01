"""Defines every kind of finding with its severity and remedy, and the manifests they are about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from asr.base.config import DataConfig
from asr.base.errors import UserError
from asr.base.system.shards import is_pattern, shards_of
from asr.base.system.storage.address import path_of
from asr.base.types import Utterance
from data_pipeline.corpora.clip_lists import split_of
from data_pipeline.manifests.sharded import manifests_in
from data_pipeline.preparation.combined_corpora import folder_of, parts_of
from data_pipeline.types import SPLITS

Severity: TypeAlias = Literal["error", "warning", "note"]
Role: TypeAlias = Literal["train", "dev", "test"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
ROLES: tuple[Role, ...] = ("train", "dev", "test")
LAST: Role = "test"


@dataclass(frozen=True, slots=True)
class FindingKind:
    """A kind of finding.

    Attributes:
        code: name for programs.
        severity: an error makes training fail or worse, a warning should be checked, a note informs.
        title: name for people.
        remedy: what to do about it.
        left_out: whether clean manifests leave such utterances out.
    """

    code: str
    severity: Severity
    title: str
    remedy: str
    left_out: bool = False


def _kinds(severity: Severity, left_out: bool, rows: Sequence[tuple[str, str, str]]) -> list[FindingKind]:
    return [FindingKind(code, severity, title, remedy, left_out) for code, title, remedy in rows]


KINDS: dict[str, FindingKind] = {
    kind.code: kind
    for kind in [
        *_kinds(
            "error",
            False,
            [
                ("unreadable-manifest", "manifest cannot be read", "check the path and the permissions"),
                ("empty-manifest", "manifest without utterances", "prepare the corpus again"),
                ("broken-vocabulary", "vocabulary that cannot be used", "correct the vocabulary"),
            ],
        ),
        *_kinds(
            "error",
            True,
            [
                (
                    "broken-line",
                    "line that is not an utterance",
                    "correct the line, or prepare the corpus again",
                ),
                ("repeated-id", "id given twice in a manifest", "give each recording its own id"),
                ("missing-audio", "audio file missing or unreadable", "correct the path, or copy the file"),
                ("empty-audio", "empty audio file", "copy or record it again"),
                ("truncated-audio", "truncated audio", "copy it again from a complete original"),
                ("corrupt-audio", "audio that cannot be decoded", "copy it again, or convert it"),
                ("decoder-stopped", "audio that crashes or hangs the decoder", "convert it to WAV"),
                ("oversized-audio", "audio too long for one utterance", "cut it into utterances"),
                ("too-short", "shorter than one window of 25 ms", "leave it out"),
                ("silent", "silent", "record it again, or leave it out"),
                ("wrong-duration", "duration differs from the manifest's", "correct duration_s"),
                ("no-label", "no label", "add tokens"),
                (
                    "damaged-label",
                    "tokens with damaged characters",
                    "create the tokens again from the source",
                ),
                ("unknown-token", "token outside the vocabulary", "correct it, or extend the vocabulary"),
                (
                    "too-many-tokens",
                    "more tokens than fit into the model's frames",
                    "check that the label is right; of pieces of words, ask for more: they are longer",
                ),
                (
                    "contradicting-labels",
                    "the same recording with different labels",
                    "find out which label is right",
                ),
            ],
        ),
        *_kinds("warning", True, [("repeated-audio", "the same recording twice", "keep one of them")]),
        *_kinds(
            "warning",
            False,
            [
                ("shared-audio", "the same recording in two sets", "remove it from one of them"),
                (
                    "shared-sentence",
                    "the same sentence in two sets",
                    "keep it in one, unless this is intended",
                ),
                (
                    "shared-speaker",
                    "the same speaker in two sets",
                    "separate the speakers, unless this is intended",
                ),
                ("shared-id", "the same id in two manifests", "give each recording its own id"),
                (
                    "unseen-token",
                    "token that is not in training",
                    "add recordings with it; it counts as an error",
                ),
                ("odd-token", "token that is not a syllable with a tone", "spell it as zhong1, lv4, de5"),
                ("mixed-forms", "token written in two Unicode forms", "normalize all to composed form (NFC)"),
                ("text-and-tokens", "numbers of hanzi and syllables differ", "check that the label is right"),
                ("speaking-rate", "implausible speaking rate", "check that the label is right"),
                ("unusual-length", "unusual duration", "listen to it; cut it or leave it out if it is wrong"),
                ("longer-than-batch", "longer than train.batch_s", "raise train.batch_s, or cut it"),
                (
                    "narrow-band",
                    "recorded at less than 16 kHz",
                    "use the model on recordings of the same bandwidth",
                ),
                ("clipped", "clipped", "record at a lower gain; a few are harmless"),
                ("quiet", "very quiet", "raise the level, or check the microphone"),
                ("offset", "constant offset (DC)", "filter below 20 Hz, or check the sound card"),
                ("zero-tail", "ends in exact zeros", "check that it was copied completely"),
                ("damaged-text", "text with damaged characters", "copy it again from the source"),
            ],
        ),
        *_kinds(
            "note",
            False,
            [
                ("resampled", "resampled to 16 kHz", "nothing to do; 16 kHz files are read faster"),
                ("mixed-down", "mixed to mono", "nothing to do, if all channels have the voice"),
                (
                    "unstated-length",
                    "a container that does not state its length, so that a missing end would not be noticed",
                    "compare with the original, or convert it to WAV or FLAC",
                ),
                ("odd-space", "unusual white space in a text", "replace it with plain spaces"),
                ("decomposed", "not in composed form (NFC)", "normalize the text to NFC"),
                (
                    "byte-order-mark",
                    "byte order mark at the start",
                    "nothing to do; other programs may fail to read it",
                ),
                ("no-speaker", "no speaker given", "add speakers, so that shared ones are found"),
            ],
        ),
    ]
}


@dataclass(frozen=True, slots=True)
class CheckedManifest:
    """A manifest and its role.

    Attributes:
        path: of the file.
        role: of its utterances.
        corpus: the name with wildcards that the file is a shard of; None for a manifest of one file.
    """

    path: Path
    role: Role
    corpus: Path | None = None


@dataclass(frozen=True, slots=True)
class ManifestLine:
    """A readable line of a manifest."""

    source: CheckedManifest
    line: int
    utterance: Utterance

    @property
    def where(self) -> str:
        """Return the utterance's id, manifest and line."""
        return f"{self.utterance.id} ({self.source.path.name}:{self.line})"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a manifest, an utterance or a recording.

    Attributes:
        code: code of its kind, a key of KINDS.
        detail: the values expected and found.
        source: the manifest; None if the finding is about none.
        line: line in the manifest, from 1; 0 for the whole file.
        utterance_id: id of the utterance; empty if unknown.
        audio_path: path of the recording; empty if unknown.
    """

    code: str
    detail: str
    source: CheckedManifest | None = None
    line: int = 0
    utterance_id: str = ""
    audio_path: str = ""

    @property
    def kind(self) -> FindingKind:
        """Return the kind of the finding."""
        return KINDS[self.code]

    @property
    def where(self) -> str:
        """Return manifest, line and id, as far as they are known."""
        place = str(self.source.path) if self.source else ""
        place += f":{self.line}" if self.line else ""
        return f"{place} {self.utterance_id}".strip()


def about(entry: ManifestLine, code: str, detail: str) -> Finding:
    """Return a finding about an utterance."""
    utterance = entry.utterance
    return Finding(code, detail, entry.source, entry.line, utterance.id, utterance.audio_path)


def sources_to_examine(manifests: Sequence[Path], data: DataConfig) -> list[CheckedManifest]:
    """Return manifests with their roles.

    Args:
        manifests: manifests to examine.
        data: settings whose manifests, or prepared corpus, are used if `manifests` is empty, with those that
            a model has labelled and further test sets.

    Raises:
        UserError: there is no manifest, or one is given twice.
    """
    paths = list(manifests) or [path_of(path) for path in (data.train, data.dev, data.test) if path]
    if not paths and data.corpus:
        parts = parts_of(data.corpus, data.source)
        folder = folder_of(parts, Path(data.prepared_dir), data.held_out_speakers, data.strings)
        found = manifests_in(folder)
        paths = [found[split] for split in SPLITS if split in found]
        more = [] if data.more_tests else [found[name] for name in sorted(found) if name.startswith("test_")]
    else:
        more = []
    if not manifests:
        more += data.more_test_manifests
    if not paths:
        raise UserError("no manifest to examine; name one, such as data/mandarin_demo/train.jsonl")
    by_machine = [] if manifests else data.machine_labelled_manifests
    named = [
        *sources_of(paths),
        *(CheckedManifest(path, "train") for path in by_machine),
        *(CheckedManifest(path, "test") for path in more),
    ]
    _refuse_repeated(named)
    for source in named:
        if not source.path.exists() and not is_pattern(source.path):
            raise UserError(f"{source.path}: no such manifest; name one that `asr prepare` has written")
    sources = [
        CheckedManifest(shard, source.role, source.path) if is_pattern(source.path) else source
        for source in named
        for shard in shards_of(source.path)
    ]
    _refuse_repeated(sources)  # a shard by its own name, for instance
    return sources


def _refuse_repeated(sources: Iterable[CheckedManifest]) -> None:
    seen: set[Path] = set()
    for source in sources:
        if source.path.resolve() in seen:
            raise UserError(f"{source.path}: given twice; name each manifest once")
        seen.add(source.path.resolve())


def sources_of(paths: Sequence[Path]) -> list[CheckedManifest]:
    """Return manifests with their roles: by name if it contains one, else by order: train, (dev,) test."""
    named = [_named_role(path) for path in paths]
    free = [role for role in ROLES if role not in named]
    unnamed = named.count(None)
    if unnamed < len(free) and "dev" in free:
        free.remove("dev")
    by_order = iter(free)
    return [
        CheckedManifest(path, role if role else next(by_order, LAST))
        for path, role in zip(paths, named, strict=True)
    ]


def _named_role(path: Path) -> Role | None:
    name = split_of(path.stem)
    return next((role for role in ROLES if role == name), None)
