"""Describe a prepared corpus, also in prepared.json, which `asr prepare` writes beside the manifests.

Beside manifests that other commands made of these is labels.json, with how the labels of each were made.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asr.base.errors import UserError
from asr.base.system.files import sha256_of, whole_file
from asr.base.system.shards import has_manifest, shards_of, single_file
from asr.base.system.storage.address import path_of
from asr.base.system.storage.refusals import StorageError
from asr.base.text.pieces import UNITS_MODEL, Pieces
from asr.base.text.wording import counted, duration
from asr.base.types import Utterance
from data_pipeline.corpora import find_corpus
from data_pipeline.corpora.layout import PREPARED
from data_pipeline.labels.from_text import LABELS_VERSION
from data_pipeline.labels.normalization import NormalizedText
from data_pipeline.manifests.left_out import reason_lines
from data_pipeline.manifests.sharded import manifest_to_write, remove_manifest, write_in_shards
from data_pipeline.preparation.latin_words import LATIN_WORDS, ListedWord
from data_pipeline.preparation.learned_units import write_pieces
from data_pipeline.types import LeftOut

LEFT_OUT = "left_out.tsv"
NORMALIZED = "normalized.tsv"
LABELS = "labels.json"
OWN_UNITS = "its own"
UNREADABLE = (OSError, ValueError, AttributeError, KeyError, TypeError, StorageError)  # a description
BEFORE_VERSIONS = 1  # of labels whose description does not name it
LABELLED_BY_MAKERS = ("mandarin_demo", "thchs30", "asrt")  # unless other units are chosen


@dataclass(frozen=True)
class LabelsDescription:
    """How syllables were made from text.

    Attributes:
        version: of the labels; see `data_pipeline.labels.from_text.LABELS_VERSION`.
        tones: "citation" or "spoken".
        readings: SHA-256 of the user's table of readings; empty for none.
    """

    version: int = LABELS_VERSION
    tones: str = "citation"
    readings: str = ""

    @classmethod
    def of(cls, tones: str, table: Path | None) -> LabelsDescription:
        """Return the description of labels made now, with a user's table if there is one."""
        return cls(tones=tones, readings=sha256_of(table).hex() if table else "")

    def as_json(self) -> dict[str, Any]:
        """Return the description for JSON; `of_json` reads it."""
        return dict(vars(self))

    @classmethod
    def of_json(cls, read: Mapping[str, Any]) -> LabelsDescription:
        """Return what `as_json` made; keys of later versions are ignored."""
        return cls(**{key: type(default)(read[key]) for key, default in vars(cls()).items() if key in read})

    def __str__(self) -> str:
        """Return a phrase such as `version 2, citation tones`."""
        parts = [f"version {self.version}", f"{self.tones} tones"]
        parts += ["a table of readings"] * bool(self.readings)
        return ", ".join(parts)


@dataclass(frozen=True)
class Before:
    """What an earlier command made in a folder.

    Attributes:
        manifests: by split, including those that it was about to write; by their names those that it was
            about to replace.
        is_complete: whether it finished, and all manifests still exist.
        labels: how its syllables were made from text; None if there are no manifests, or the corpus's makers
            wrote the labels.
    """

    manifests: dict[str, Path]
    is_complete: bool
    labels: LabelsDescription | None = None


def prepared_before(target: Path, origin: Mapping[str, str], *, other_units: bool) -> Before:
    """Return what an earlier command made in this folder.

    Args:
        target: the folder.
        origin: corpus, source and units, as `write_prepared` wrote them.
        other_units: whether labels in other units may be replaced.

    Raises:
        UserError: it was made of another corpus or source, or with other units unless these are allowed.
    """
    try:
        found = json.loads((target / PREPARED).read_text(encoding="utf-8"))
        manifests = {split: target / file for split, file in found["manifests"].items()}
        manifests |= {file: target / file for file in found.get("replaced", ())}
        is_finished = bool(found["finished"])
        labels = _labels_of(found)
    except (FileNotFoundError, NotADirectoryError, ValueError, AttributeError, KeyError, TypeError):
        return Before({}, is_complete=False)
    for key, wanted in origin.items():
        if found.get(key) != wanted and not (other_units and key == "units"):
            raise UserError(
                f"{target}: prepared with {key} {found.get(key)!r}, expected {wanted!r}; remove this folder, "
                "or choose another one (in a configuration: data.prepared_dir)"
            )
    return Before(manifests, is_finished and all(map(_is_whole, manifests.values())), labels)


def _is_whole(manifest: Path) -> bool:
    try:
        return all(shard.exists() for shard in shards_of(manifest))
    except UserError:
        return False


def labels_beside(manifest: Path) -> LabelsDescription | None:
    """Return how the syllables of a manifest were made from text; None if that is not known.

    It is not known where `asr prepare` was interrupted: manifests may be those from before.

    Args:
        manifest: made by `asr prepare`, of such a manifest, or by anything else.
    """
    with contextlib.suppress(*UNREADABLE):
        found = json.loads((manifest.parent / PREPARED).read_text(encoding="utf-8"))
        if _names_of(manifest, found):
            return _labels_of(found) if found["finished"] else None
    with contextlib.suppress(*UNREADABLE):
        return LabelsDescription.of_json(_carried(manifest.parent)[single_file(manifest).name])
    return None


def carry_labels(folder: Path, sources: Mapping[str, Path]) -> None:
    """Write how labels were made beside manifests that were made of others: from text, and of which pieces.

    Args:
        folder: of the new manifests.
        sources: name of each new manifest -> the one that it was made of.

    Raises:
        UserError: the description cannot be written, or the folder has the pieces of other labels.
    """
    pieces = refuse_other_pieces(folder, sources.values())
    if pieces and not (folder / UNITS_MODEL).exists():
        with whole_file(folder / UNITS_MODEL, "model of pieces") as file:
            file.write(pieces)
    try:
        before = dict(_carried(folder))
    except UNREADABLE:
        before = {}
    labels = {single_file(folder / name).name: labels_beside(source) for name, source in sources.items()}
    kept = {name: one for name, one in before.items() if name not in labels}
    kept |= {name: one.as_json() for name, one in labels.items() if one}
    if kept != before:
        with whole_file(folder / LABELS, "description") as file:
            file.write(
                json.dumps(kept, ensure_ascii=False, indent=2).encode(errors="backslashreplace") + b"\n"
            )


def refuse_other_pieces(folder: Path, sources: Iterable[Path]) -> bytes:
    """Return the model of pieces beside manifests, empty if there is none.

    Args:
        folder: of new manifests that will be made of these.
        sources: the manifests.

    Raises:
        UserError: these have different ones, or the folder has another one.
    """
    folders = {path_of(source).parent: None for source in sources} | {folder: None}
    models = (one / UNITS_MODEL for one in folders)
    found = {path: path.read_bytes() for path in models if path.exists()}
    if len(set(found.values())) > 1:
        which = " and ".join(map(str, found))
        raise UserError(f"{folder}: these are the pieces of different labels: {which}; choose another folder")
    return next(iter(found.values()), b"")


def _carried(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = json.loads((folder / LABELS).read_text(encoding="utf-8"))
    return found


def set_beside(manifest: Path) -> tuple[str, str] | None:
    """Return the corpus and the split that a manifest was prepared as, such as ("librispeech", "test_other").

    Args:
        manifest: made by `asr prepare`, or by anything else, of which nothing is known: None.
    """
    try:
        found = json.loads((manifest.parent / PREPARED).read_text(encoding="utf-8"))
        splits = _names_of(manifest, found)
        return (str(found["corpus"]), splits[0]) if splits else None
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None


def _names_of(manifest: Path, found: Mapping[str, Any]) -> list[str]:
    """Return the splits that a manifest is of, whatever wildcards name its shards."""
    name = single_file(manifest)
    return [
        split for split, other in found["manifests"].items() if single_file(manifest.with_name(other)) == name
    ]


def _labels_of(found: Mapping[str, Any]) -> LabelsDescription | None:
    if "labels" in found:
        return LabelsDescription.of_json(found["labels"]) if found["labels"] else None
    units = found["units"]
    if units == OWN_UNITS and found["corpus"] not in LABELLED_BY_MAKERS:
        units = find_corpus(found["corpus"]).units
    return LabelsDescription(BEFORE_VERSIONS) if units == "syllables" else None


def write_prepared(
    target: Path,
    origin: Mapping[str, str],
    manifests: Mapping[str, Path],
    labels: LabelsDescription | None,
    replaced: Iterable[Path] = (),
    *,
    finished: bool,
) -> None:
    """Write the description of a prepared corpus.

    Args:
        target: the folder.
        origin: corpus, source and units.
        manifests: by split.
        labels: how syllables were made from text; None if none was.
        replaced: earlier manifests that will be removed.
        finished: whether all manifests are written.

    Raises:
        OSError: the file cannot be written.
    """
    described = {
        **origin,
        "labels": labels and labels.as_json(),
        "manifests": {split: path.name for split, path in manifests.items()},
        "replaced": sorted(path.name for path in replaced),
        "finished": finished,
    }
    with whole_file(target / PREPARED, "description") as file:
        file.write(
            json.dumps(described, ensure_ascii=False, indent=2).encode(errors="backslashreplace") + b"\n"
        )


def write_manifests(
    target: Path,
    origin: dict[str, str],
    before: dict[str, Path],
    usable: dict[str, list[Utterance]],
    labels: LabelsDescription | None,
    pieces: Pieces | None = None,
) -> dict[str, Path]:
    """Write a manifest for each split, and the description of the corpus; return their paths.

    Args:
        target: the folder.
        origin: see `write_prepared`.
        before: manifests that were made here before; no others are replaced.
        usable: utterances by split.
        labels: see `write_prepared`.
        pieces: model of the labels, which is written beside the manifests; None for other labels.

    Raises:
        UserError: another file would be replaced, or a manifest cannot be written.
        OSError: the description cannot be written.
    """
    manifests = {split: manifest_to_write(target, split, len(rows)) for split, rows in usable.items()}
    for path in manifests.values():
        if has_manifest(path) and path not in before.values():
            raise UserError(
                f"{path}: not made by `asr prepare`, and would be overwritten; choose another folder"
            )
    stale = {*before.values()} - {*manifests.values()}  # of a split that no longer exists, or in other files
    write_prepared(target, origin, manifests, labels, stale, finished=False)
    write_pieces(target, pieces)
    for split, path in manifests.items():
        write_in_shards(path, usable[split])
    for path in stale:
        remove_manifest(path)
    write_prepared(target, origin, manifests, labels, finished=True)
    return manifests


@dataclass(frozen=True)
class SplitSummary:
    """The statistics of a manifest.

    Attributes:
        num_utterances: in the manifest.
        duration_s: of all utterances.
        num_speakers: whose names are known.
    """

    num_utterances: int
    duration_s: float
    num_speakers: int


def split_summary(utterances: Sequence[Utterance]) -> SplitSummary:
    """Return the statistics of a manifest."""
    return SplitSummary(
        len(utterances),
        sum(utterance.duration_s for utterance in utterances),
        len({utterance.speaker for utterance in utterances} - {""}),
    )


def version_lines(folder: Path, labels: LabelsDescription | None, remedy: str) -> list[str]:
    """Return a line that says that labels are of another version; none for those of this version, or unknown.

    Args:
        folder: of the manifests.
        labels: how their syllables were made from text.
        remedy: for the line.
    """
    if labels is None or labels.version == LABELS_VERSION:
        return []
    return [
        f"  {folder}: syllables were made from text by version {labels.version} of the labels, "
        f"this is version {LABELS_VERSION}; {remedy}"
    ]


@dataclass(frozen=True)
class PreparedCorpus:
    """The manifests of a prepared corpus, written now or before.

    Attributes:
        name: of the corpus or form.
        folder: of the manifests.
        manifests: by split; those in shards with wildcards.
        splits: their statistics; empty if the manifests existed already.
        split_note: how splits that the corpus lacks were made; empty if none was.
        num_found: number of recordings, including those left out.
        left_out: what could not be used; `left_out.tsv` in the folder lists it, too.
        labels: how the syllables were made from text; None if none was, or that is not known.
        labels_before: the same of manifests that were replaced; None if there were none.
        normalized: texts whose digits or signs were written out; `normalized.tsv` lists them, too.
        notes: lines on how the source was read.
        latin: Latin words of mixed labels; `latin_words.txt` lists them, too.
    """

    name: str
    folder: Path
    manifests: Mapping[str, Path]
    splits: Mapping[str, SplitSummary] = field(default_factory=dict)
    split_note: str = ""
    num_found: int = 0
    left_out: Sequence[LeftOut] = ()
    labels: LabelsDescription | None = None
    labels_before: LabelsDescription | None = None
    normalized: Sequence[NormalizedText] = ()
    notes: Sequence[str] = ()
    latin: Sequence[ListedWord] = ()

    def lines(self) -> list[str]:
        """Return the summary for display; if the manifests existed already, only what is odd about them."""
        if not self.splits:
            return version_lines(self.folder, self.labels, "prepare it again to label it by this version")
        lines = [f"{self.name}: {self.folder}"]
        lines += [
            f"  {split:<8} {counted(of_split.num_utterances, 'utterance'):>18} "
            f"{duration(of_split.duration_s):>14} {counted(of_split.num_speakers, 'speaker'):>15}"
            for split, of_split in self.splits.items()
        ]
        lines += [f"  {note}" for note in self.notes]
        if self.split_note:
            lines.append(f"  {self.split_note}")
        if self.labels:
            lines.append(f"  syllables: {self.labels}")
        lines += version_lines(self.folder, self.labels_before, "labelled again")
        if self.latin:
            spelt = sum(word.is_spelt for word in self.latin)
            lines += [
                f"  Latin words: {len(self.latin):,}, {spelt:,} of them spelt",
                f"  to review: {self.folder / LATIN_WORDS}",
            ]
        if self.normalized:
            first = self.normalized[0]
            lines += [
                f"  digits or signs written out: {counted(len(self.normalized), 'text')}, such as "
                f"{first.written} -> {first.spoken}",
                f"  to review: {self.folder / NORMALIZED}",
            ]
        if self.left_out:
            lines.append(f"  left out: {len(self.left_out):,} of {self.num_found:,}")
        return lines + reason_lines(self.left_out, self.folder / LEFT_OUT)
