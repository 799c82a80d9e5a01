"""Prepare a corpus as downloaded: write manifests, and a list of everything that is left out.

data/thchs30/train.jsonl, dev.jsonl, test.jsonl    usable recordings
data/thchs30/train-00000-of-00012.jsonl.gz, ...    the same, if they are more than a million
data/thchs30/left_out.tsv                          what cannot be used, with the reason; a line each
data/thchs30/units.model                           how words are split, where labels are pieces of them
data/thchs30/latin_words.txt                       how Latin words are said, where labels are mixed
data/thchs30/normalized.tsv                        texts whose digits or signs were written out
data/thchs30/prepared.json                         source of the corpus, and whether preparation finished
data/thchs30/audio/                                recordings that had to be cut or converted
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from asr.audio.recording import SAMPLE_RATE_HZ, WINDOW_SAMPLES, audio_duration_s, refuse_pipe
from asr.base.cluster import Cluster
from asr.base.errors import UserError
from asr.base.system.files import cannot_write, is_utf8
from asr.base.system.lock import exclusive_lock
from asr.base.system.paths import path_on_disk
from asr.base.system.storage.address import is_address, path_of, refuse_address
from asr.base.system.storage.refusals import StorageError
from asr.base.text.units import MANDARIN_UNITS
from asr.base.text.wording import counted
from asr.base.types import Utterance
from asr.base.work import OnProgress, ignore_progress, reported
from data_pipeline.corpora import FORMS, find_corpus
from data_pipeline.corpora.matching import DUPLICATE_ID
from data_pipeline.labels.from_text import remedies
from data_pipeline.labels.normalization import NormalizedText, write_normalized
from data_pipeline.manifests.left_out import Partition, partition, reason_lines, write_left_out
from data_pipeline.preparation.description import (
    LEFT_OUT,
    NORMALIZED,
    OWN_UNITS,
    Before,
    PreparedCorpus,
    prepared_before,
    split_summary,
    write_manifests,
)
from data_pipeline.preparation.labeller import Labeller, ReadingOptions
from data_pipeline.preparation.latin_words import LATIN_WORDS, listed_words, write_latin_words
from data_pipeline.preparation.learned_units import labelled_by_pieces
from data_pipeline.preparation.several_sources import read_sources
from data_pipeline.preparation.splitting import complete_splits
from data_pipeline.recordings.segments import cut_segments
from data_pipeline.types import NO_SUCH_AUDIO, UNREADABLE_AUDIO, Corpus, LeftOut, Recording, split_rank
from data_pipeline.work import Threads, in_parallel

NOT_MANDARIN = {"zh-HK": "Cantonese", "yue": "Cantonese", "nan-tw": "Taiwanese Hokkien"}
CITATION = ReadingOptions()


class _OpenedCorpus(NamedTuple):
    """A corpus to prepare: its reader, what identifies its preparation, and what an earlier one made."""

    corpus: Corpus
    origin: dict[str, str]
    before: Before


def prepare_corpus(
    name: str,
    source: str,
    target: Path,
    units: str | None = None,
    *,
    more_sources: Sequence[str] = (),
    reading: ReadingOptions = CITATION,
    again: bool = False,
    on_progress: OnProgress = ignore_progress,
    cluster: Cluster | None = None,
) -> PreparedCorpus:
    """Write a manifest for each split of a corpus, unless they exist already.

    Args:
        name: of a corpus or form in `data_pipeline.corpora`.
        source: the corpus as downloaded; "" for a bundled corpus.
        target: folder for the manifests and for audio that is cut or converted.
        units: of the labels: "syllables", "characters", "words", "bpe:500" or "unigram:500" for pieces of
            words, "mixed" or "mixed:200" for syllables and pieces of Latin words, or the file of a model of
            pieces; None for the corpus's own labels if it has them, else for its default units.
        more_sources: further folders or lists, which are read as part of the same corpus.
        reading: how syllables are made from text.
        again: prepare even if that was done before.
        on_progress: receives the progress of reading, labelling and measuring.
        cluster: cuts long recordings and reads headers; None for this machine.

    Raises:
        UserError: the corpus or the source does not exist, the source has nothing usable, something else was
            prepared in the target, or the table of readings is broken.
    """
    sources = [path_on_disk(one) for one in (source, *more_sources)]
    opened = _opened(name, sources, target, units, again=again)
    if opened.before.is_complete and not again:
        return PreparedCorpus(name, target, opened.before.manifests, labels=opened.before.labels)
    labeller = Labeller.of(units, opened.corpus.units, reading)
    with exclusive_lock(target, "asr prepare"):
        try:
            return _prepare(opened, list(map(Path, sources)), target, labeller, on_progress, cluster)
        except OSError as error:
            path = Path(str(error.filename or target))
            if error.filename and not path.resolve().is_relative_to(target.resolve()):
                raise UserError(f"{path}: cannot be read ({error.strerror})") from None
            raise cannot_write(path, "corpus", error) from None


def refuse_missing_source(
    name: str, source: str, target: Path, units: str | None = None, *, listed_as: str = ""
) -> None:
    """Raise what `prepare_corpus` would raise before it reads anything; of several corpora, ask this first.

    Args:
        name: of a corpus or form.
        source: as in `prepare_corpus`.
        target: as in `prepare_corpus`; a corpus that was prepared here does not need its source.
        units: as in `prepare_corpus`.
        listed_as: name among several corpora, for errors; "" for a single corpus.

    Raises:
        UserError: the corpus or the source does not exist, or something else was prepared in the target.
    """
    _opened(name, [path_on_disk(source)], target, units, listed_as=listed_as)


def _opened(
    name: str,
    sources: Sequence[str],
    target: Path,
    units: str | None,
    *,
    again: bool = False,
    listed_as: str = "",
) -> _OpenedCorpus:
    corpus = find_corpus(name)
    refuse_address(path_of(target), "`target`")
    for source in filter(is_address, sources):
        raise UserError(
            f"{source}: expected a folder or a list on a disk, received an address; copy it to a disk. The "
            "audio that a list names may be at addresses"
        )
    origin = {
        "corpus": name,
        "source": ", ".join(str(Path(source).resolve()) for source in sources) if corpus.needs_source else "",
        "units": units or OWN_UNITS,
    }
    before = prepared_before(target, origin, other_units=again)
    is_needed = corpus.needs_source and (again or not before.is_complete)
    absent = [source for source in sources if not (source and Path(source).exists())]
    if is_needed and absent:
        source = absent[0]
        setting = f'"{listed_as}=FOLDER"' if listed_as else "FOLDER"
        missing = f"no folder {source!r}" if source else f"no folder given; set data.source={setting}"
        called = name if listed_as in ("", name) else f"{listed_as} ({name})"
        raise UserError(f"{called}: {missing}; {how_to_get(name, corpus)}")
    return _OpenedCorpus(corpus, origin, before)


def how_to_get(name: str, corpus: Corpus) -> str:
    """Return instructions to get a corpus, for an error."""
    layout = f"the folder must hold {corpus.layout}" if corpus.layout else ""
    if corpus.archives:
        how = f"`asr download {name} FOLDER` downloads the corpus"
    else:
        how = f"get the corpus from {corpus.address}" if corpus.address else ""
    return "; ".join(filter(None, [how, layout])) or f"expected {corpus.about}"


def _prepare(
    opened: _OpenedCorpus,
    sources: Sequence[Path],
    target: Path,
    labeller: Labeller,
    on_progress: OnProgress,
    cluster: Cluster | None,
) -> PreparedCorpus:
    corpus, origin, before = opened
    name = origin["corpus"]
    reading = read_sources(corpus, sources, target, on_progress)
    splits, split_note = complete_splits(reading.splits, may_cut_train=name in FORMS)
    by_split, duplicates = _with_unique_ids(splits)
    split_of = {recording.id: split for split, rows in by_split.items() for recording in rows}
    recordings = [recording for rows in by_split.values() for recording in rows]
    if labeller.units in MANDARIN_UNITS and (other := NOT_MANDARIN.get(reading.language)):
        raise UserError(
            f"{sources[0]}: {reading.language} is {other}, which Mandarin pinyin does not describe; "
            "label it by units=characters, or write its syllables as tokens into a manifest of your own"
        )
    labeller = labeller.in_language_of(recordings)
    labels = labeller.description(recordings)
    usable = _usable_utterances(recordings, labeller, target / "audio", on_progress, cluster)
    if usable.left_out:  # splits are of what can be used
        place_of = {recording.id: _place(recording) for recording in recordings}
        places = {place_of[utterance.id] for utterance in usable.kept}
        kept = {
            split: [row for row in rows if _place(row) in places] for split, rows in reading.splits.items()
        }
        splits, split_note = complete_splits(kept, may_cut_train=name in FORMS)
        by_rank = sorted(splits, key=split_rank, reverse=True)
        split_at = {_place(row): split for split in by_rank for row in splits[split]}
        split_of = {utterance.id: split_at[place_of[utterance.id]] for utterance in usable.kept}
    as_written = {recording.id: recording.text for recording in recordings}
    normalized = [
        NormalizedText(utterance.audio_path, as_written[utterance.id], utterance.text)
        for utterance in usable.kept
        if utterance.text != as_written[utterance.id]
    ]
    write_normalized(target / NORMALIZED, normalized)
    texts = (utterance.text for utterance in usable.kept if labeller.units == "mixed")
    latin = listed_words(texts, labeller.policy)
    write_latin_words(target / LATIN_WORDS, latin)
    left_out = [*reading.left_out, *duplicates, *usable.left_out]
    found: dict[str, list[Utterance]] = {split: [] for split in splits}
    for utterance in usable.kept:
        found[split_of[utterance.id]].append(utterance)
    found, notes, pieces = {split: rows for split, rows in found.items() if rows}, list(reading.notes), None
    if labeller.pieces is not None and found:
        found, without_pieces, pieces, note = labelled_by_pieces(found, labeller.pieces, on_progress)
        left_out += without_pieces
        notes.append(note)

    for split, rows in found.items():
        by_machine = sum(row.labelled_by is not None for row in rows)
        if by_machine and split != "train":
            notes.append(f"{split}: {by_machine:,} of {len(rows):,} labels are by a model, and may be wrong")
    if any(recording.begin_s or recording.end_s is not None for recording in recordings):
        named = {utterance.audio_path for rows in found.values() for utterance in rows}
        unnamed = sum(str(path) not in named for path in (target / "audio").glob("*.wav"))
        if unnamed:
            note = f"{target / 'audio'}: {counted(unnamed, 'recording')} of earlier preparations"
            notes.append(f"{note}; remove what no other manifest names")
    write_left_out(target / LEFT_OUT, left_out)
    if not found:
        reasons = reason_lines(left_out, target / LEFT_OUT)
        title = f"{', '.join(map(str, sources))}: no usable recording"
        lines = [title, *(f"  {note}" for note in reading.notes), *reasons, *remedies(left_out)]
        raise UserError("\n".join(lines))
    return PreparedCorpus(
        name,
        target,
        write_manifests(target, origin, before.manifests, found, labels, pieces),
        {split: split_summary(utterances) for split, utterances in found.items()},
        split_note,
        sum(map(len, reading.splits.values())) + len(reading.left_out),
        left_out,
        labels,
        before.labels,
        normalized,
        notes,
        latin,
    )


def _usable_utterances(
    recordings: Sequence[Recording],
    labeller: Labeller,
    folder: Path,
    on_progress: OnProgress,
    cluster: Cluster | None,
) -> Partition[Utterance]:
    """Label, cut and measure recordings."""
    clips = reported(recordings, "labelling", "clips", on_progress)
    labelled = partition(labeller.label_all(clips))
    there = partition(
        LeftOut(recording.audio_path, NO_SUCH_AUDIO, recording.missing) if recording.missing else recording
        for recording in labelled.kept
    )
    cut = partition(cut_segments(there.kept, folder, on_progress, cluster))
    waits = any(is_address(recording.audio_path) for recording in cut.kept)
    workers = cluster or Threads(waits=waits)
    lengths = in_parallel(_measured, cut.kept, "reading headers", on_progress=on_progress, workers=workers)
    measured = partition(lengths)
    return Partition(measured.kept, there.left_out + labelled.left_out + cut.left_out + measured.left_out)


def _with_unique_ids(
    splits: Mapping[str, Sequence[Recording]],
) -> tuple[dict[str, list[Recording]], list[LeftOut]]:
    """Return recordings with ids that are unique across splits, and the duplicates left out.

    Test splits come first. Of one recording in two splits the first is kept; a different recording with the
    same id gets its split's name as a prefix.
    """
    seen: dict[str, Recording] = {}
    unique: dict[str, list[Recording]] = {}
    left_out: list[LeftOut] = []
    for split in sorted(splits, key=split_rank):
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


def _measured(recording: Recording) -> Utterance | LeftOut:
    path = recording.audio_path
    if not (is_utf8(path) and is_utf8(recording.id)):
        return LeftOut(path, "name is not UTF-8; rename it")
    try:
        refuse_pipe(path)
        duration_s = audio_duration_s(path)
    except StorageError:
        raise  # not a fault of this recording
    except UserError as error:
        reason = UNREADABLE_AUDIO if Path(path).exists() else NO_SUCH_AUDIO
        return LeftOut(path, reason, str(error).removeprefix(f"{path}: "))
    if duration_s * SAMPLE_RATE_HZ < WINDOW_SAMPLES:
        return LeftOut(path, "audio shorter than 25 ms", f"{duration_s * 1000:.1f} ms")
    return Utterance(
        recording.id,
        path,
        duration_s,
        recording.text,
        recording.tokens,
        recording.speaker,
        labelled_by=recording.labelled_by,
    )
