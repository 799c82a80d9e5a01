"""What the doctor can find: every kind with its severity and remedy, and one finding of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from asr.base.config import DataConfig
from asr.base.types import UserError, Utterance
from data_pipeline.corpora.listed import split_of
from data_pipeline.types import SPLITS

Severity: TypeAlias = Literal["error", "warning", "note"]
Role: TypeAlias = Literal["train", "dev", "test"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
ROLES: tuple[Role, ...] = ("train", "dev", "test")
LAST: Role = "test"


@dataclass(frozen=True, slots=True)
class Kind:
    """What findings of a kind have in common.

    Attributes:
        code: its name for machines.
        severity: an error fails or spoils training, a warning wants a look, a note informs.
        title: its name for people.
        remedy: what to do.
        left_out: whether clean manifests leave such utterances out.
    """

    code: str
    severity: Severity
    title: str
    remedy: str
    left_out: bool = False


def _kinds(severity: Severity, left_out: bool, rows: Sequence[tuple[str, str, str]]) -> list[Kind]:
    return [Kind(code, severity, title, remedy, left_out) for code, title, remedy in rows]


KINDS: dict[str, Kind] = {
    kind.code: kind
    for kind in [
        *_kinds(
            "error",
            False,
            [
                ("unreadable-manifest", "manifest cannot be read", "check the path and the permissions"),
                ("empty-manifest", "manifest without an utterance", "prepare the corpus again"),
                ("broken-vocabulary", "vocabulary that cannot be used", "correct the vocabulary"),
            ],
        ),
        *_kinds(
            "error",
            True,
            [
                ("broken-line", "line that is no utterance", "correct the line, or prepare the corpus again"),
                ("repeated-id", "id given twice in a manifest", "give each recording its own id"),
                ("missing-audio", "audio file missing or not to be opened", "correct the path, or copy it"),
                ("empty-audio", "empty audio file", "copy or record it again"),
                ("truncated-audio", "audio cut off", "copy it again from where it is whole"),
                ("corrupt-audio", "audio that cannot be decoded", "copy it again, or convert it to WAV"),
                ("decoder-stopped", "audio that crashes or hangs the decoder", "convert it to WAV"),
                ("oversized-audio", "audio too long to be one utterance", "cut it into utterances"),
                ("too-short", "shorter than one window of 25 ms", "leave it out"),
                ("silent", "silent", "record it again, or leave it out"),
                ("wrong-duration", "real length is not the manifest's", "correct duration_s"),
                ("no-label", "no label", "give it tokens"),
                ("damaged-label", "tokens with damaged characters", "write the tokens again from the source"),
                ("unknown-token", "token outside the vocabulary", "correct it, or extend the vocabulary"),
                ("too-many-tokens", "more tokens than the model has frames", "is it the right label?"),
                (
                    "contradicting-labels",
                    "one sound under different labels",
                    "find out which label is the right one",
                ),
            ],
        ),
        *_kinds("warning", True, [("repeated-audio", "the same sound again", "keep one of them")]),
        *_kinds(
            "warning",
            False,
            [
                ("shared-audio", "the same sound in two sets", "remove it from one: it is no fair test"),
                ("shared-sentence", "the same sentence in two sets", "keep it in one, unless it is meant so"),
                (
                    "shared-speaker",
                    "the same speaker in two sets",
                    "keep voices apart, unless it is meant so",
                ),
                ("shared-id", "the same id in two manifests", "give each recording its own id"),
                ("unseen-token", "token that training never shows", "it will count as an error"),
                ("odd-token", "token that is no toned syllable", "spell it as zhong1, lv4, de5"),
                ("mixed-forms", "token written in two Unicode forms", "write all in composed form (NFC)"),
                ("text-and-tokens", "as many hanzi as syllables expected", "is it the right label?"),
                ("speaking-rate", "implausible speaking rate", "is it the right label for this recording?"),
                ("unusual-length", "length unlike the rest", "listen to it; cut or leave out what is wrong"),
                ("longer-than-batch", "longer than train.batch_s", "raise train.batch_s, or cut it"),
                ("narrow-band", "recorded at less than 16 kHz", "train and use the model on alike sound"),
                ("clipped", "clipped", "record it at a lower gain; a few do no harm"),
                ("quiet", "very quiet", "raise its level, or check the microphone"),
                ("offset", "constant offset (DC)", "filter below 20 Hz, or check the sound card"),
                ("zero-tail", "ends in exact zeros", "was it copied whole?"),
                ("damaged-text", "text with damaged characters", "write it again from the source"),
            ],
        ),
        *_kinds(
            "note",
            False,
            [
                ("resampled", "rate is changed to 16 kHz", "nothing to do; 16 kHz files are read faster"),
                ("mixed-down", "channels are mixed to one", "nothing to do, if both carry the voice"),
                ("odd-space", "unusual white space in a text", "replace it by plain spaces"),
                ("decomposed", "not in composed form (NFC)", "normalise the text to NFC"),
                (
                    "byte-order-mark",
                    "byte order mark at the start",
                    "nothing to do; other programs may stumble",
                ),
                ("no-speaker", "no speaker given", "name speakers, so that shared voices are found"),
            ],
        ),
    ]
}


@dataclass(frozen=True, slots=True)
class Source:
    """A manifest by its place among those given."""

    path: Path
    role: Role


@dataclass(frozen=True, slots=True)
class Entry:
    """A readable line of a manifest."""

    source: Source
    line: int
    utterance: Utterance

    @property
    def where(self) -> str:
        """Its id, manifest and line."""
        return f"{self.utterance.id} ({self.source.path.name}:{self.line})"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    Attributes:
        code: of its kind, a key of KINDS.
        detail: what was expected and what is there.
        source: of the manifest; None where none is to blame.
        line: in the manifest, from 1; 0 where the whole file is meant.
        utterance_id: empty where no utterance can be named.
        audio_path: empty likewise.
    """

    code: str
    detail: str
    source: Source | None = None
    line: int = 0
    utterance_id: str = ""
    audio_path: str = ""

    @property
    def kind(self) -> Kind:
        """What it has in common with others."""
        return KINDS[self.code]

    @property
    def where(self) -> str:
        """Manifest, line and id, as far as they are known."""
        place = str(self.source.path) if self.source else ""
        place += f":{self.line}" if self.line else ""
        return f"{place} {self.utterance_id}".strip()


def about(entry: Entry, code: str, detail: str) -> Finding:
    """A finding about an utterance."""
    utterance = entry.utterance
    return Finding(code, detail, entry.source, entry.line, utterance.id, utterance.audio_path)


def sources_to_examine(manifests: Sequence[Path], data: DataConfig) -> list[Source]:
    """Return manifests with their roles.

    Args:
        manifests: to examine.
        data: whose manifests, or prepared corpus, it is where none is named.

    Raises:
        UserError: there is none, or one is named twice.
    """
    paths = list(manifests) or [Path(path) for path in (data.train, data.dev, data.test) if path]
    if not paths and data.corpus:
        folder = Path(data.prepared_dir) / data.corpus
        paths = [path for split in SPLITS if (path := folder / f"{split}.jsonl").exists()]
    if not paths:
        raise UserError("no manifest to examine; name one, such as data/mandarin_demo/train.jsonl")
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise UserError(f"{path}: given twice; name each manifest once")
        seen.add(path.resolve())
    return sources_of(paths)


def sources_of(paths: Sequence[Path]) -> list[Source]:
    """Manifests with their roles: by name where it tells, else by order: train, (dev,) test."""
    named = [_named_role(path) for path in paths]
    free = [role for role in ROLES if role not in named]
    unnamed = named.count(None)
    if unnamed < len(free) and "dev" in free:
        free.remove("dev")
    by_order = iter(free)
    return [
        Source(path, role if role else next(by_order, LAST)) for path, role in zip(paths, named, strict=True)
    ]


def _named_role(path: Path) -> Role | None:
    name = split_of(path.stem)
    return next((role for role in ROLES if role == name), None)
