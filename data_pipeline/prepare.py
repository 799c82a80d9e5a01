"""A corpus as downloaded -> manifests; everything that is left out is returned and written down.

data/thchs30/train.jsonl, dev.jsonl, test.jsonl    what can be used
data/thchs30/left_out.tsv                          what cannot, and why; a line each
data/thchs30/prepared.json                         where it comes from, and whether all is there
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
from asr.base.lock import alone_in
from asr.base.types import UserError, Utterance
from asr.base.units import Unit
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora import FORMS, find_corpus
from data_pipeline.corpora.layout import PREPARED
from data_pipeline.corpora.listed import ID_TWICE
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


@dataclass(frozen=True)
class SplitSummary:
    """A manifest in figures.

    Attributes:
        num_utterances: in the manifest.
        duration_s: of all of them.
        num_speakers: that are named.
    """

    num_utterances: int
    duration_s: float
    num_speakers: int


@dataclass(frozen=True)
class PreparedCorpus:
    """What preparing a corpus made, or found made before.

    Attributes:
        name: of the corpus or form.
        folder: of the manifests.
        manifests: by split.
        splits: their figures; empty where the manifests were there already.
        how_cut: how splits were made that the corpus does not have; empty where none was.
        num_found: recordings, those left out included.
        left_out: what could not be used; `left_out.tsv` in the folder lists it, too.
    """

    name: str
    folder: Path
    manifests: Mapping[str, Path]
    splits: Mapping[str, SplitSummary] = field(default_factory=dict)
    how_cut: str = ""
    num_found: int = 0
    left_out: Sequence[LeftOut] = ()

    def lines(self) -> list[str]:
        """Return the summary for a person; nothing where the manifests were there already."""
        if not self.splits:
            return []
        lines = [f"{self.name}: {self.folder}"]
        lines += [
            f"  {split:<8} {of_split.num_utterances:>9,} utterances {of_split.duration_s / 3600:>9,.2f} h "
            f"{of_split.num_speakers:>6,} speakers"
            for split, of_split in self.splits.items()
        ]
        if self.how_cut:
            lines.append(f"  {self.how_cut}")
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
    """Write the manifests of a corpus, a split each, where they are not there yet.

    Args:
        name: of a corpus or a form that `data_pipeline.corpora` knows.
        source: the corpus as downloaded; "" for one that the project carries.
        target: the folder of its manifests, and of audio that had to be made.
        units: to cut the text into; None for the corpus's own labels, where it brings them, and else the
            units it is usually labelled with.
        again: prepare even if that was done before.
        on_progress: receives how far reading, labelling and measuring have come.

    Raises:
        UserError: there is no such corpus or no such source, it holds nothing that can be used, or
            something else was prepared in the target.
    """
    corpus = find_corpus(name)
    origin = {
        "corpus": name,
        "source": str(Path(source).resolve()) if corpus.needs_source else "",
        "units": units or OWN_UNITS,
    }
    before = _prepared_before(target, origin, other_units=again)
    if before.is_whole and not again:
        return PreparedCorpus(name, target, before.manifests)
    if corpus.needs_source and not (source and Path(source).exists()):
        raise UserError(
            f"{name}: no folder {source!r} with its recordings; {where_from(name, corpus)}. "
            "Training finds it by the setting data.source=FOLDER"
        )
    with alone_in(target, "asr prepare"):
        try:
            return _prepare(corpus, Path(source), target, origin, before.manifests, on_progress)
        except OSError as error:
            path = Path(str(error.filename or target))
            if error.filename and not path.resolve().is_relative_to(target.resolve()):
                raise UserError(f"{path}: cannot read this ({error.strerror})") from None
            raise cannot_write(path, "corpus", error) from None


def where_from(name: str, corpus: Corpus) -> str:
    """How a user comes by a corpus."""
    layout = f"; the folder holds {corpus.layout}" if corpus.layout else ""
    if corpus.archives:
        return f"`asr download {name} FOLDER` fetches it{layout}"
    return f"get it from {corpus.address}{layout}" if corpus.address else f"expected {corpus.about}{layout}"


@dataclass(frozen=True)
class _Before:
    """What an earlier command made in a target.

    Attributes:
        manifests: by split, or those that it was about to write.
        is_whole: whether it came to its end, and all of them are still there.
    """

    manifests: dict[str, Path]
    is_whole: bool


def _prepared_before(target: Path, origin: dict[str, str], *, other_units: bool) -> _Before:
    """What there is already.

    Raises:
        UserError: it is of something else; other units are no matter where all is made again.
    """
    try:
        found = json.loads((target / PREPARED).read_text(encoding="utf-8"))
        manifests = {split: target / file for split, file in found["manifests"].items()}
        is_finished = bool(found["finished"])
    except (FileNotFoundError, NotADirectoryError, ValueError, AttributeError, KeyError, TypeError):
        return _Before({}, is_whole=False)
    for key, wanted in origin.items():
        if found.get(key) != wanted and not (other_units and key == "units"):
            raise UserError(
                f"{target}: prepared from {key} {found.get(key)!r}, not from {wanted!r}; remove that folder, "
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
    splits, how_cut = complete_splits(reading.splits, may_cut_train=name in FORMS)
    by_split, same_ids = _with_ids_of_their_own(splits)
    split_of = {recording.id: split for split, rows in by_split.items() for recording in rows}
    recordings = [recording for rows in by_split.values() for recording in rows]
    units = corpus.units if labels_given else origin["units"]
    usable = _usable_utterances(recordings, units, labels_given, target / "audio", on_progress)
    left_out = [*reading.left_out, *same_ids, *usable.left_out]

    write_left_out(target / LEFT_OUT, left_out)
    if not usable.kept:
        reasons = reason_lines(left_out, target / LEFT_OUT)
        raise UserError("\n".join([f"{source}: nothing that can be used", *reasons]))
    found: dict[str, list[Utterance]] = collections.defaultdict(list)
    for utterance in usable.kept:
        found[split_of[utterance.id]].append(utterance)
    found = {split: found[split] for split in splits if split in found}
    return PreparedCorpus(
        name,
        target,
        _write_manifests(target, origin, before, found),
        {split: _summary(utterances) for split, utterances in found.items()},
        how_cut,
        sum(map(len, splits.values())) + len(reading.left_out),
        left_out,
    )


def _usable_utterances(
    recordings: Sequence[Recording], units: Unit, labels_given: bool, folder: Path, on_progress: OnProgress
) -> Partition[Utterance]:
    """Label, cut and measure recordings."""
    some = reported(recordings, "labelling", "clips", on_progress)
    labelled = partition(_labelled(recording, units, labels_given) for recording in some)
    cut = partition(cut_segments(labelled.kept, folder, on_progress))
    measured = partition(in_threads(_measured, cut.kept, "reading headers", on_progress=on_progress))
    return Partition(measured.kept, labelled.left_out + cut.left_out + measured.left_out)


def _write_manifests(
    target: Path,
    origin: dict[str, str],
    before: dict[str, Path],
    usable: dict[str, list[Utterance]],
) -> dict[str, Path]:
    """A manifest for each split in place of those made before; nobody else's is written over."""
    manifests = {split: target / f"{split}.jsonl" for split in usable}
    for path in manifests.values():
        if path.exists() and path not in before.values():
            raise UserError(f"{path}: was not made by asr prepare, and would be lost; choose another folder")
    _write_prepared(target, origin, {**before, **manifests}, finished=False)
    for split, path in manifests.items():
        write_manifest(path, usable[split])
    for stale in set(before.values()) - set(manifests.values()):
        stale.unlink(missing_ok=True)  # of a split that is not there any more
    _write_prepared(target, origin, manifests, finished=True)
    return manifests


def _with_ids_of_their_own(
    splits: Mapping[str, Sequence[Recording]],
) -> tuple[dict[str, list[Recording]], list[LeftOut]]:
    """Return recordings whose ids differ in all splits, and which are left out for that.

    Splits that are tested on come first. Of one recording in two splits the first stays; another recording
    of the same id gets its split's name before it.
    """
    order = sorted(splits, key=lambda split: (split == "train", not split.startswith("test")))
    seen: dict[str, Recording] = {}
    own: dict[str, list[Recording]] = {}
    left_out: list[LeftOut] = []
    for split in order:
        own[split] = []
        for recording in splits[split]:
            other = seen.get(recording.id)
            if other and _place(other) != _place(recording):
                recording = dataclasses.replace(recording, id=f"{split}-{recording.id}")
            if recording.id in seen:
                left_out.append(LeftOut(recording.audio_path, ID_TWICE, recording.id))
            else:
                seen[recording.id] = recording
                own[split].append(recording)
    return own, left_out


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
        return LeftOut(recording.audio_path, "labels that are no syllables", str(error))
    return dataclasses.replace(recording, tokens=tokens)


def _measured(recording: Recording) -> Utterance | LeftOut:
    path = recording.audio_path
    if not (is_utf8(path) and is_utf8(recording.id)):
        return LeftOut(path, "a name that is not UTF-8; rename it")
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
