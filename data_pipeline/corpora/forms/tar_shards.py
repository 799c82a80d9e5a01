"""Read tar archives in place: shards of WebDataset, as WeNet writes them too, and lhotse's Shar.

    train-000000.tar   a-1.flac, a-1.txt, a-2.flac, a-2.json, ...   a text, or JSON with `text` and `speaker`
    cuts.000000.jsonl.gz, recording.000000.tar                      Shar

A recording is named by its file's name up to the first dot; where several shards have the same names, the
shard's goes before them. Nothing is unpacked: the manifest says where in its archive each recording is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from asr.audio.formats import AUDIO_SUFFIXES
from asr.base.errors import UserError
from asr.base.work import OnProgress, Work, ignore_progress
from data_pipeline.corpora.clip_lists import (
    DUPLICATE_ID,
    ListedClip,
    assign_splits,
    contents,
    refuse_missing,
    usable_entry,
)
from data_pipeline.corpora.forms.json_lines import SPEAKER, TEXT, first_of, name_of
from data_pipeline.corpora.forms.lhotse_shar import cuts_below, read_cuts
from data_pipeline.corpora.layout import files_below
from data_pipeline.corpora.matching import NO_AUDIO, NO_TRANSCRIPT
from data_pipeline.corpora.tar_members import COMPRESSED, NOT_IN_PLACE, Member, members_of
from data_pipeline.types import Corpus, CorpusReading, LeftOut, Recording

TRANSCRIPTS = ("txt", "text", "lab", "trn", "json")
LAYOUT = "{train,dev,test}-*.tar with a-1.flac and a-1.txt (or a-1.json); or cuts.*.jsonl.gz, recording.*.tar"

Found = ListedClip | LeftOut


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return the recordings in one archive, or in all below a folder; `target` is not used.

    Raises:
        UserError: there is no archive, or none with a usable recording.
    """
    refuse_missing(source)
    cuts = cuts_below(source)
    archives = [source] if source.is_file() else list(files_below(source, (".tar",)))
    if not archives:
        raise UserError(f"{source}: no tar archive below this folder; expected {LAYOUT}; {contents(source)}")
    lists = cuts or archives
    chosen, left_out = assign_splits({path: _set_name(path, source) for path in lists})
    if source.is_dir():
        left_out += [LeftOut(str(path), NOT_IN_PLACE) for path in files_below(source, COMPRESSED)]
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
    samples: dict[str, list[Member]] = {}
    for member in members:
        samples.setdefault(_key(member), []).append(member)
    for key, files in samples.items():
        yield _sample(key, files)
    yield from damaged


def _key(member: Member) -> str:
    """Return what the files of one sample have in common: folder and name up to the first dot."""
    path = PurePosixPath(member.name)
    return str(path.with_name(path.name.split(".")[0]))


def _sample(key: str, files: Sequence[Member]) -> Found:
    audio = [file for file in files if PurePosixPath(file.name).suffix.lower() in AUDIO_SUFFIXES]
    texts = {PurePosixPath(file.name).suffix.lower().lstrip("."): file for file in files}
    if not audio:
        return LeftOut(files[0].where, NO_AUDIO)
    if len(audio) > 1:
        return LeftOut(audio[1].where, DUPLICATE_ID, f"{audio[0].name} has the same name up to the first dot")
    found = next((texts[kind] for kind in TRANSCRIPTS if kind in texts), None)
    if found is None:
        return LeftOut(audio[0].where, NO_TRANSCRIPT)
    try:
        content = found.content().decode("utf-8-sig")
    except (UserError, UnicodeDecodeError) as error:
        return LeftOut(found.where, "transcript cannot be read", str(error))
    if not found.name.lower().endswith("json"):
        return ListedClip(audio[0].where, audio[0].path, content, key)
    return _of_record(key, audio[0], content)


def _of_record(key: str, audio: Member, content: str) -> Found:
    try:
        record = json.loads(content)
        text, tokens = first_of(record, TEXT), record.get("tokens") or ""
    except (ValueError, AttributeError, RecursionError) as error:
        return LeftOut(audio.where, "transcript is not a JSON object", str(error))
    if not isinstance(text or "", str) or not isinstance(tokens, str):
        return LeftOut(audio.where, "text is not a string")
    name = name_of(record, ("id",)) or key
    return ListedClip(
        audio.where, audio.path, text or "", name, name_of(record, SPEAKER), tuple(tokens.split())
    )


def _named(found: Iterable[tuple[Path, Found]]) -> Iterator[Recording | LeftOut]:
    """Yield recordings with ids of their own; of two with one name in one shard, the second is left out."""
    clips = [(path, usable_entry(clip) if isinstance(clip, ListedClip) else clip) for path, clip in found]
    shards: dict[str, set[Path]] = {}
    for path, clip in clips:
        if isinstance(clip, ListedClip):
            shards.setdefault(clip.id, set()).add(path)
    seen: Counter[str] = Counter()
    for path, clip in clips:
        if isinstance(clip, LeftOut):
            yield clip
            continue
        name = clip.id if len(shards[clip.id]) == 1 else f"{path.name.split('.')[0]}-{clip.id}"
        seen[name] += 1
        if seen[name] > 1:
            yield LeftOut(clip.where, DUPLICATE_ID, name)
        else:
            text, times = clip.text.strip(), (clip.begin_s, clip.end_s)
            yield Recording(name, clip.audio, text, clip.speaker, clip.tokens, *times)


CORPUS = Corpus(
    read=read,
    about="tar shards of WebDataset (WeNet's, too) or lhotse's Shar, which are read in place",
    layout=LAYOUT,
)
