"""Prepare a corpus as downloaded: write manifests, and a list of everything that is left out.

data/thchs30/train.jsonl, dev.jsonl, test.jsonl    usable recordings
data/thchs30/left_out.tsv                          what cannot be used, with the reason; a line each
data/thchs30/prepared.json                         source of the corpus, and whether preparation finished
data/thchs30/audio/                                recordings that had to be cut or converted
"""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asr.audio.recording import SAMPLE_RATE_HZ, WINDOW_SAMPLES, audio_duration_s, refuse_pipe
from asr.base.files import cannot_write, is_utf8, whole_file
from asr.base.lock import exclusive_lock
from asr.base.types import UserError, Utterance
from asr.base.units import Unit
from asr.base.wording import counted, duration
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora import FORMS, find_corpus
from data_pipeline.corpora.layout import PREPARED
from data_pipeline.corpora.listed import DUPLICATE_ID
from data_pipeline.corpora.syllables import syllables_of
from data_pipeline.labels import UnlabelledError, label
from data_pipeline.left_out import Partition, partition, reason_lines, write_left_out
from data_pipeline.manifest import write_manifest
from data_pipeline.segments import cut_segments
from data_pipeline.splitting import complete_splits
from data_pipeline.types import UNREADABLE_AUDIO, Corpus, LeftOut, Recording
from data_pipeline.work import in_threads, reported

LEFT_OUT = "left_out.tsv"
OWN_UNITS = "its own"
CANTONESE = ("zh-HK", "yue")


@dataclass(frozen=True)
class SplitSummary:
    """Holds the statistics of a manifest.

    Attributes:
        num_utterances: in the manifest.
        duration_s: of all utterances.
        num_speakers: whose names are known.
    """

    num_utterances: int
    duration_s: float
    num_speakers: int


@dataclass(frozen=True)
class PreparedCorpus:
    """Describes the manifests of a prepared corpus, written now or before.

    Attributes:
        name: of the corpus or form.
        folder: of the manifests.
        manifests: by split.
        splits: their statistics; empty if the manifests existed already.
        split_note: how splits that the corpus lacks were made; empty if none was.
        num_found: number of recordings, including those left out.
        left_out: what could not be used; `left_out.tsv` in the folder lists it, too.
    """

    name: str
    folder: Path
    manifests: Mapping[str, Path]
    splits: Mapping[str, SplitSummary] = field(default_factory=dict)
    split_note: str = ""
    num_found: int = 0
    left_out: Sequence[LeftOut] = ()

    def lines(self) -> list[str]:
        """Return the summary for display; nothing if the manifests existed already."""
        if not self.splits:
            return []
        lines = [f"{self.name}: {self.folder}"]
        lines += [
            f"  {split:<8} {counted(of_split.num_utterances, 'utterance'):>18} "
            f"{duration(of_split.duration_s):>14} {counted(of_split.num_speakers, 'speaker'):>15}"
            for split, of_split in self.splits.items()
        ]
        if self.split_note:
            lines.append(f"  {self.split_note}")
        if self.left_out:
            lines.append(f"  left out: {len(self.left_out):,} of {self.num_found:,}")
        return lines + reason_lines(self.left_out, self.folder / LEFT_OUT)


def prepare_corpus(
    name: str,
    source: str,
    target: Path,
    units: Unit | None = None,
    *,
    again: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> PreparedCorpus:
    """Write a manifest for each split of a corpus, unless they exist already.

    Args:
        name: of a corpus or form in `data_pipeline.corpora`.
        source: the corpus as downloaded; "" for a bundled corpus.
        target: folder for the manifests and for audio that is cut or converted.
        units: of the labels; None for the corpus's own labels if it has them, else for its default units.
        again: prepare even if that was done before.
        on_progress: receives the progress of reading, labelling and measuring.

    Raises:
        UserError: the corpus or the source does not exist, the source has nothing usable, or something else
            was prepared in the target.
    """
    corpus = find_corpus(name)
    origin = {
        "corpus": name,
        "source": str(Path(source).resolve()) if corpus.needs_source else "",
        "units": units or OWN_UNITS,
    }
    before = _prepared_before(target, origin, other_units=again)
    if before.is_complete and not again:
        return PreparedCorpus(name, target, before.manifests)
    if corpus.needs_source and not (source and Path(source).exists()):
        missing = f"no folder {source!r}" if source else "no folder given; set data.source=FOLDER"
        raise UserError(f"{name}: {missing}; {how_to_get(name, corpus)}")
    with exclusive_lock(target, "asr prepare"):
        try:
            return _prepare(corpus, Path(source), target, origin, before.manifests, on_progress)
        except OSError as error:
            path = Path(str(error.filename or target))
            if error.filename and not path.resolve().is_relative_to(target.resolve()):
                raise UserError(f"{path}: cannot be read ({error.strerror})") from None
            raise cannot_write(path, "corpus", error) from None


def how_to_get(name: str, corpus: Corpus) -> str:
    """Return instructions to get a corpus, for an error."""
    layout = f"the folder must hold {corpus.layout}" if corpus.layout else ""
    if corpus.archives:
        how = f"`asr download {name} FOLDER` downloads the corpus"
    else:
        how = f"get the corpus from {corpus.address}" if corpus.address else ""
    return "; ".join(filter(None, [how, layout])) or f"expected {corpus.about}"


@dataclass(frozen=True)
class _Before:
    """Describes what an earlier command made in a target.

    Attributes:
        manifests: by split, including those that it was about to write.
        is_complete: whether it finished, and all manifests still exist.
    """

    manifests: dict[str, Path]
    is_complete: bool


def _prepared_before(target: Path, origin: dict[str, str], *, other_units: bool) -> _Before:
    """Return what an earlier command made in this target.

    Raises:
        UserError: it was made of another corpus or source, or with other units unless these are allowed.
    """
    try:
        found = json.loads((target / PREPARED).read_text(encoding="utf-8"))
        manifests = {split: target / file for split, file in found["manifests"].items()}
        is_finished = bool(found["finished"])
    except (FileNotFoundError, NotADirectoryError, ValueError, AttributeError, KeyError, TypeError):
        return _Before({}, is_complete=False)
    for key, wanted in origin.items():
        if found.get(key) != wanted and not (other_units and key == "units"):
            raise UserError(
                f"{target}: prepared with {key} {found.get(key)!r}, expected {wanted!r}; remove this folder, "
                "or choose another one (in a configuration: data.prepared_dir)"
            )
    return _Before(manifests, is_finished and all(path.exists() for path in manifests.values()))


def _write_prepared(
    target: Path, origin: dict[str, str], manifests: dict[str, Path], *, finished: bool
) -> None:
    names = {split: path.name for split, path in manifests.items()}
    with whole_file(target / PREPARED, "description") as file:
        described = {**origin, "manifests": names, "finished": finished}
        file.write(
            json.dumps(described, ensure_ascii=False, indent=2).encode(errors="backslashreplace") + b"\n"
        )


def _prepare(
    corpus: Corpus,
    source: Path,
    target: Path,
    origin: dict[str, Any],
    before: dict[str, Path],
    on_progress: OnProgress,
) -> PreparedCorpus:
    name = origin["corpus"]
    labels_given = origin["units"] == OWN_UNITS
    reading = corpus.read(source, target, on_progress)
    splits, split_note = complete_splits(reading.splits, may_cut_train=name in FORMS)
    by_split, duplicates = _with_unique_ids(splits)
    split_of = {recording.id: split for split, rows in by_split.items() for recording in rows}
    recordings = [recording for rows in by_split.values() for recording in rows]
    units = corpus.units if labels_given else origin["units"]
    if units == "syllables" and reading.language in CANTONESE:
        raise UserError(
            f"{source}: {reading.language} is Cantonese, which Mandarin pinyin does not describe; "
            "label it by units=characters, or write jyutping as tokens into a manifest of your own"
        )
    usable = _usable_utterances(recordings, units, labels_given, target / "audio", on_progress)
    left_out = [*reading.left_out, *duplicates, *usable.left_out]

    write_left_out(target / LEFT_OUT, left_out)
    if not usable.kept:
        reasons = reason_lines(left_out, target / LEFT_OUT)
        raise UserError("\n".join([f"{source}: no usable recording", *reasons]))
    found: dict[str, list[Utterance]] = collections.defaultdict(list)
    for utterance in usable.kept:
        found[split_of[utterance.id]].append(utterance)
    found = {split: found[split] for split in splits if split in found}
    return PreparedCorpus(
        name,
        target,
        _write_manifests(target, origin, before, found),
        {split: _summary(utterances) for split, utterances in found.items()},
        split_note,
        sum(map(len, splits.values())) + len(reading.left_out),
        left_out,
    )


def _usable_utterances(
    recordings: Sequence[Recording], units: Unit, labels_given: bool, folder: Path, on_progress: OnProgress
) -> Partition[Utterance]:
    """Label, cut and measure recordings."""
    clips = reported(recordings, "labelling", "clips", on_progress)
    labelled = partition(_labelled(recording, units, labels_given) for recording in clips)
    cut = partition(cut_segments(labelled.kept, folder, on_progress))
    measured = partition(in_threads(_measured, cut.kept, "reading headers", on_progress=on_progress))
    return Partition(measured.kept, labelled.left_out + cut.left_out + measured.left_out)


def _write_manifests(
    target: Path,
    origin: dict[str, str],
    before: dict[str, Path],
    usable: dict[str, list[Utterance]],
) -> dict[str, Path]:
    """Write a manifest for each split, replacing only manifests that were made here before."""
    manifests = {split: target / f"{split}.jsonl" for split in usable}
    for path in manifests.values():
        if path.exists() and path not in before.values():
            raise UserError(
                f"{path}: not made by `asr prepare`, and would be overwritten; choose another folder"
            )
    _write_prepared(target, origin, {**before, **manifests}, finished=False)
    for split, path in manifests.items():
        write_manifest(path, usable[split])
    for stale in set(before.values()) - set(manifests.values()):
        stale.unlink(missing_ok=True)  # of a split that no longer exists
    _write_prepared(target, origin, manifests, finished=True)
    return manifests


def _with_unique_ids(
    splits: Mapping[str, Sequence[Recording]],
) -> tuple[dict[str, list[Recording]], list[LeftOut]]:
    """Return recordings with ids that are unique across splits, and the duplicates left out.

    Test splits come first. Of one recording in two splits the first is kept; a different recording with the
    same id gets its split's name as a prefix.
    """
    order = sorted(splits, key=lambda split: (split == "train", not split.startswith("test")))
    seen: dict[str, Recording] = {}
    unique: dict[str, list[Recording]] = {}
    left_out: list[LeftOut] = []
    for split in order:
        unique[split] = []
        for recording in splits[split]:
            other = seen.get(recording.id)
            if other and _place(other) != _place(recording):
                recording = dataclasses.replace(recording, id=f"{split}-{recording.id}")
            if recording.id in seen:
                left_out.append(LeftOut(recording.audio_path, DUPLICATE_ID, recording.id))
            else:
                seen[recording.id] = recording
                unique[split].append(recording)
    return unique, left_out


def _place(recording: Recording) -> tuple[str, float, float | None]:
    return recording.audio_path, recording.begin_s, recording.end_s


def _labelled(recording: Recording, units: Unit, labels_given: bool) -> Recording | LeftOut:
    try:
        if not (recording.tokens and labels_given):
            tokens = label(recording.text, units)
        elif units == "syllables":
            tokens = syllables_of(" ".join(recording.tokens))
        else:
            tokens = recording.tokens
    except UnlabelledError as error:
        return LeftOut(recording.audio_path, error.reason, error.detail)
    except UserError as error:
        return LeftOut(recording.audio_path, "invalid syllable labels", str(error))
    return dataclasses.replace(recording, tokens=tokens)


def _measured(recording: Recording) -> Utterance | LeftOut:
    path = recording.audio_path
    if not (is_utf8(path) and is_utf8(recording.id)):
        return LeftOut(path, "name is not UTF-8; rename it")
    try:
        refuse_pipe(path)
        duration_s = audio_duration_s(path)
    except UserError as error:
        reason = UNREADABLE_AUDIO if Path(path).exists() else "no such audio file"
        return LeftOut(path, reason, str(error).removeprefix(f"{path}: "))
    if duration_s * SAMPLE_RATE_HZ < WINDOW_SAMPLES:
        return LeftOut(path, "audio shorter than 25 ms", f"{duration_s * 1000:.1f} ms")
    return Utterance(recording.id, path, duration_s, recording.text, recording.tokens, recording.speaker)


def _summary(utterances: Sequence[Utterance]) -> SplitSummary:
    return SplitSummary(
        len(utterances),
        sum(utterance.duration_s for utterance in utterances),
        len({utterance.speaker for utterance in utterances} - {""}),
    )
