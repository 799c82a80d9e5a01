"""Read tar archives in place: shards of WebDataset, as WeNet writes them too, and lhotse's Shar.

    train-000000.tar   a-1.flac, a-1.txt, a-2.flac, a-2.json, ...   a text, or JSON with `text` and `speaker`
    cuts.000000.jsonl.gz, recording.000000.tar                      Shar

A recording is named by its file's name without its suffix, or up to the first dot, as WebDataset has it,
where more recordings have a transcript then. Where several shards have the same names, the shard's goes
before them. Nothing is unpacked: the manifest says where in its archive each recording is.
"""

from __future__ import annotations

import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from asr.audio.formats import AUDIO_SUFFIXES
from asr.base.errors import UserError
from asr.base.work import OnProgress, Work, ignore_progress
from data_pipeline.corpora.clip_lists import (
    ListedClip,
    assign_splits,
    contents,
    refuse_missing,
    usable_entry,
)
from data_pipeline.corpora.forms.json_lines import SPEAKER, TEXT, first_of, name_of
from data_pipeline.corpora.forms.lhotse_shar import archive_of, cuts_below, number_of, read_cuts
from data_pipeline.corpora.layout import files_below, plain_spaces
from data_pipeline.corpora.matching import DUPLICATE_ID, NO_AUDIO, NO_TRANSCRIPT
from data_pipeline.corpora.tar_members import COMPRESSED, NOT_IN_PLACE, Member, members_of
from data_pipeline.manifests.record import machine_label
from data_pipeline.types import Corpus, CorpusReading, LeftOut, Recording

TRANSCRIPTS = ("txt", "text", "lab", "trn", "json")
LAYOUT = "{train,dev,test}-*.tar with a-1.flac and a-1.txt (or a-1.json); or cuts.*.jsonl.gz, recording.*.tar"
NO_CUTS = "archive without a list of cuts"

Found = ListedClip | LeftOut


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return the recordings in one archive, or in all below a folder; `target` is not used.

    Raises:
        UserError: there is no archive, or none with a usable recording.
    """
    refuse_missing(source)
    cuts = cuts_below(source)
    if source.is_file() and source.suffix.lower() != ".tar":
        raise UserError(f"{source}: expected a tar archive; rename it so that it ends in .tar")
    archives = [source] if source.is_file() else list(files_below(source, (".tar",)))
    if not archives:
        raise UserError(f"{source}: no tar archive below this folder; expected {LAYOUT}; {contents(source)}")
    lists = cuts or archives
    chosen, left_out = assign_splits({path: _set_name(path, source) for path in lists})
    if source.is_dir():
        left_out += [LeftOut(str(path), NOT_IN_PLACE) for path in files_below(source, COMPRESSED)]
    if cuts:
        with_cuts = set(map(archive_of, cuts))
        left_out += [LeftOut(str(path), NO_CUTS) for path in archives if path not in with_cuts]
    read_list = read_cuts if cuts else _read_samples
    splits: dict[str, list[tuple[Path, Found]]] = {}
    for number, (path, split) in enumerate(chosen, start=1):
        splits.setdefault(split, []).extend((path, found) for found in read_list(path))
        on_progress(Work("reading shards", number, len(chosen), "shards"))
    recordings: dict[str, list[Recording]] = {}
    for split, found in splits.items():
        named = list(_named(found))
        recordings[split] = [one for one in named if isinstance(one, Recording)]
        left_out += [one for one in named if isinstance(one, LeftOut)]
    if not any(recordings.values()):
        why = f"; the first file, {left_out[0].what}: {left_out[0].reason}" if left_out else ""
        raise UserError(f"{source}: no usable recording in these archives; expected {LAYOUT}{why}")
    return CorpusReading(recordings, left_out)


def _set_name(path: Path, source: Path) -> str:
    """Return the name of a shard's set, without its number: train-000001.tar is of train."""
    name = re.sub(r"[-_.]*\d+$", "", path.name.split(".")[0])
    return path.parent.name if name in ("", "cuts", "shard") and path.parent != source else name


def _read_samples(archive: Path) -> Iterator[Found]:
    """Yield the recordings of an archive of WebDataset, each with the transcript of its name."""
    members, damaged = members_of(archive)
    by_stem, by_first_dot = _grouped(members, operator.attrgetter("stem")), _grouped(members, _first_part)
    samples = by_first_dot if _num_whole(by_first_dot) > _num_whole(by_stem) else by_stem
    for key, files in samples.items():
        yield from _clips_of(key, files)
    yield from damaged


def _grouped(members: Iterable[Member], key: Callable[[PurePosixPath], str]) -> dict[str, list[Member]]:
    samples: dict[str, list[Member]] = {}
    for member in members:
        path = PurePosixPath(member.name)
        samples.setdefault(str(path.with_name(key(path))), []).append(member)
    return samples


def _first_part(path: PurePosixPath) -> str:
    return path.name.split(".")[0]


def _num_whole(samples: Mapping[str, Sequence[Member]]) -> int:
    """Return how many samples have one recording and a transcript."""
    return sum(len(_audio(files)) == 1 and any(map(_is_transcript, files)) for files in samples.values())


def _audio(files: Iterable[Member]) -> list[Member]:
    return [file for file in files if _suffix(file) in AUDIO_SUFFIXES]


def _suffix(file: Member) -> str:
    return PurePosixPath(file.name).suffix.lower()


def _is_transcript(file: Member) -> bool:
    return _suffix(file).lstrip(".") in TRANSCRIPTS


def _clips_of(key: str, files: Sequence[Member]) -> Iterator[Found]:
    """Yield the recording of a sample, or why each of its recordings cannot be used."""
    audio, transcripts = _audio(files), list(filter(_is_transcript, files))
    if not audio:
        yield LeftOut(files[0].where, NO_AUDIO)
    elif not transcripts:
        yield from (LeftOut(file.where, NO_TRANSCRIPT) for file in audio)
    elif len(audio) > 1:
        yield from (LeftOut(file.where, DUPLICATE_ID, f"several recordings {key}") for file in audio)
    else:
        try:
            yield _clip(key, audio[0], transcripts)
        except (UserError, UnicodeDecodeError) as error:
            yield LeftOut(audio[0].where, "transcript cannot be read", str(error))


def _clip(key: str, audio: Member, transcripts: Sequence[Member]) -> Found:
    """Return a recording with its text; what JSON says beside a text goes with it."""
    contents = {_suffix(file).lstrip("."): file.content().decode("utf-8-sig") for file in transcripts}
    record: dict[str, Any] = {}
    try:
        record = json.loads(contents.pop("json", "{}"))
        written, tokens = first_of(record, TEXT) or "", record.get("tokens") or ""
    except (ValueError, AttributeError, RecursionError) as error:
        return LeftOut(audio.where, "transcript is not a JSON object", str(error))
    if not isinstance(written, str) or not isinstance(tokens, str):
        return LeftOut(audio.where, "text is not a string")
    text = next((contents[kind] for kind in TRANSCRIPTS if kind in contents), written)
    name = name_of(record, ("id",)) or key
    return ListedClip(
        audio.where,
        audio.path,
        text,
        name,
        name_of(record, SPEAKER),
        tuple(tokens.split()),
        labelled_by=machine_label(record.get("labelled_by")),
    )


def _named(found: Iterable[tuple[Path, Found]]) -> Iterator[Recording | LeftOut]:
    """Yield recordings with ids of their own; of two with one name in one shard, the second is left out."""
    clips = [(path, usable_entry(clip) if isinstance(clip, ListedClip) else clip) for path, clip in found]
    names = {path: number_of(path) for path, _ in clips}
    counts = Counter(names.values())
    labels = {
        path: name if counts[name] == 1 else f"{path.parent.name}-{name}" for path, name in names.items()
    }
    shards: dict[str, set[Path]] = {}
    for path, clip in clips:
        if isinstance(clip, ListedClip):
            shards.setdefault(clip.id, set()).add(path)
    seen: Counter[str] = Counter()
    for path, clip in clips:
        if isinstance(clip, LeftOut):
            yield clip
            continue
        name = clip.id if len(shards[clip.id]) == 1 else f"{labels[path]}-{clip.id}"
        seen[name] += 1
        if seen[name] > 1:
            yield LeftOut(clip.where, DUPLICATE_ID, name)
        else:
            text, times = plain_spaces(clip.text), (clip.begin_s, clip.end_s)
            said = (text, clip.speaker, clip.tokens)
            yield Recording(name, clip.audio, *said, *times, labelled_by=clip.labelled_by)


CORPUS = Corpus(
    read=read,
    about="tar shards of WebDataset (WeNet's, too) or lhotse's Shar, which are read in place",
    layout=LAYOUT,
)
