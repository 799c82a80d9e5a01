"""Read folders of recordings with their transcripts, whatever form these have.

Each recording, of any suffix that recordings have, gets the first of these transcripts:

1. A file of its name beside it: a.srt, a.vtt, a.lrc, a.txt, a.lab, a.trn, a.TextGrid, in this order
   (a.zh.srt, too); before all of them a.wav.txt, where a.wav is the recording. Those with times cut the
   recording at their times.
2. The row of a table (CSV, TSV or Excel) in the folder; see `table`.
3. Its own name; `named_by_text` has the rule.

With several folders, the folder of a clip is its speaker, unless its transcript says who speaks. If all clips
are below folders such as train, dev and test, these are the splits. The source may also be a table, or a JSON
Lines manifest, so that several sources become one corpus.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from asr.audio.formats import AUDIO_SUFFIXES
from asr.base.errors import UserError
from asr.base.text.wording import counted, listed
from asr.base.work import OnProgress, ignore_progress, reported
from data_pipeline.corpora.clip_lists import (
    contents,
    num_common_parts,
    refuse_missing,
    splits_beside,
    unique_name,
)
from data_pipeline.corpora.forms import json_lines, table
from data_pipeline.corpora.forms.folder_files import Found, find_files, is_below, key_of
from data_pipeline.corpora.forms.named_by_text import NameRead, read_names
from data_pipeline.corpora.forms.transcripts import WrittenTranscript, read_transcript
from data_pipeline.corpora.matching import NO_AUDIO, NO_TRANSCRIPT
from data_pipeline.types import Corpus, CorpusReading, LeftOut, Recording

SECOND = "second transcript of the same clip"
SAME_NAME = "another clip has the same name"
NUM_SHOWN = 6  # tiers
LAYOUT = (
    "recordings (*.wav, *.mp3, *.m4a, ...) with *.txt, *.lab, *.trn, *.srt, *.vtt, *.lrc or *.TextGrid "
    "beside them, named in a table (*.csv, *.xlsx), or named by their text (苹果.mp3)"
)


class Entry(NamedTuple):
    """A recording, or a stretch of one, with its text.

    Attributes:
        key: of the recording.
        recording: its id and speaker may be empty.
        kind: of transcript that the text is from, for display.
        transcript: the name of its file.
        split: as a table gives it; empty to go by folders.
    """

    key: str
    recording: Recording
    kind: str
    transcript: str
    split: str = ""


class Texts(NamedTuple):
    """What transcripts of one kind say.

    Attributes:
        entries: recordings with their texts.
        left_out: transcripts and recordings that are not used.
        notes: for display.
    """

    entries: list[Entry]
    left_out: list[LeftOut]
    notes: list[str]


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return the recordings below a folder that have a transcript; the target is not used.

    Args:
        source: the folder, or a table or a manifest.
        target: not used.
        on_progress: receives the progress of reading transcripts.

    Raises:
        UserError: no recording has a transcript.
    """
    refuse_missing(source)
    if source.suffix.lower() in AUDIO_SUFFIXES and source.is_file():
        raise UserError(f"{source}: expected a folder or a table, received a recording; give its folder")
    if source.is_file():
        is_list = source.suffix.lower() in json_lines.SUFFIXES
        return json_lines.read(source, target) if is_list else table.read_table(source)
    root = os.path.abspath(source)  # noqa: PTH100 (resolve would follow links)
    found = find_files(root)
    beside = _read_beside(found, on_progress)
    used = {entry.key: entry.transcript for entry in beside.entries}
    of_tables = _read_tables(found, root, used)
    used |= {entry.key: entry.transcript for entry in of_tables.entries if not entry.recording.missing}
    used |= {_key_of(out.what, root): "" for out in of_tables.left_out if out.reason == table.SEVERAL_TEXTS}
    named = _read_names(found, root, used)
    every = (beside, of_tables, named)
    entries = [entry for texts in every for entry in texts.entries]
    left_out = sorted(
        [
            *found.left_out,
            *_of_same_name(found, entries),
            *(out for texts in every for out in texts.left_out),
        ],
        key=lambda out: out.what,
    )
    if not entries:
        raise _nothing(source, found, left_out)
    notes = [note for texts in every for note in texts.notes]
    counts = Counter(entry.kind for entry in entries)
    if len(counts) > 1 or notes:
        notes.insert(0, "texts: " + ", ".join(f"{num:,} {kind}" for kind, num in counts.most_common()))
    return CorpusReading(_by_split(entries), left_out, notes=notes)


def _read_beside(found: Found, on_progress: OnProgress) -> Texts:
    texts = Texts([], [], [])
    tiers: dict[str, list[tuple[Path, WrittenTranscript]]] = {}
    for key in reported(list(found.transcripts), "reading transcripts", "files", on_progress):
        used = ""
        for path in found.transcripts[key]:
            if used:
                texts.left_out.append(LeftOut(str(path), SECOND, f"{used} is used"))
                continue
            transcript = read_transcript(path, found.audio[key])
            if isinstance(transcript, LeftOut):
                texts.left_out.append(transcript)
                continue
            used, kind = path.name, f"in {'.TextGrid' if transcript.tier else path.suffix.lower()}"
            texts.entries.extend(Entry(key, recording, kind, used) for recording in transcript.recordings)
            if transcript.tier:
                tiers.setdefault(transcript.tier, []).append((path, transcript))
    texts.notes.extend(_tier_note(tier, read_here) for tier, read_here in tiers.items())
    return texts


def _tier_note(name: str, read_here: Sequence[tuple[Path, WrittenTranscript]]) -> str:
    others = dict.fromkeys(other for _, transcript in read_here for other in transcript.other_tiers)
    unread = f"; not read: {listed(list(others), NUM_SHOWN)}" if others else ""
    files = counted(len(read_here), "TextGrid")
    return f"tier {name!r} of {files} was read, such as {read_here[0][0].name}{unread}"


def _read_tables(found: Found, root: str, used: Mapping[str, str]) -> Texts:
    """Read the tables in a folder; rows of recordings that have a transcript already are left out.

    Args:
        found: the files.
        root: the folder.
        used: the transcript of each recording that has one.
    """
    chosen, left_out = table.tables_of(found.tables, Path(root))
    texts = Texts([], left_out, [])
    taken = dict(used)
    for path, split in chosen:
        try:
            reading = table.read_table(path, split)
        except UserError as error:
            texts.left_out.append(LeftOut(str(path), "table without a usable row", str(error)))
            continue
        texts.left_out.extend(reading.left_out)
        texts.notes.extend(reading.notes)
        entries = [
            Entry(
                _key_of(recording.audio_path, root),
                recording,
                "in tables",
                path.name,
                name if name != "all" else "",
            )
            for name, recordings in reading.splits.items()
            for recording in recordings
        ]
        for entry in entries:
            if entry.key in taken:
                detail = f"the row of {entry.recording.where}; {taken[entry.key]} is used"
                texts.left_out.append(LeftOut(str(path), SECOND, detail))
            else:
                texts.entries.append(entry)
        there = {entry.key: path.name for entry in entries if not entry.recording.missing}
        taken = there | taken
    return texts


def _key_of(audio_path: str, root: str) -> str:
    return os.path.splitext(key_of(os.path.normpath(audio_path), root))[0]  # noqa: PTH122


def _read_names(found: Found, root: str, used: Mapping[str, str]) -> Texts:
    """Read the names of recordings without any transcript, and leave out those that have no text at all."""
    texts = Texts([], [], [])
    without = [key for key in found.audio if key not in used]
    names = read_names(found.audio, [key for key in without if key not in found.transcripts])
    for key in without:
        path = found.audio[key]
        name = names.get(key, NameRead("", "the transcript beside it cannot be used"))
        if name.text:
            texts.entries.append(
                Entry(key, Recording("", str(path), name.text), "in names of files", path.name)
            )
        else:
            remedy = f"{name.why_not}; write its text into {path.stem}.txt"
            texts.left_out.append(LeftOut(str(path), NO_TRANSCRIPT, remedy))
    if texts.entries:
        _, recording, *_ = texts.entries[0]
        path = Path(recording.audio_path).relative_to(root)
        texts.notes.append(
            f"the name is the text of {counted(len(texts.entries), 'recording')}, such as {path}: "
            f"{recording.text} (where it is not, write the text into {path.stem}.txt)"
        )
    return texts


def _of_same_name(found: Found, entries: Sequence[Entry]) -> list[LeftOut]:
    """Return the recordings that are not used since one that differs only in its suffix is."""
    used: dict[str, list[str]] = {}
    for key, recording, *_ in entries:
        if found.others.get(key) and not recording.missing:
            used.setdefault(key, []).append(os.path.normpath(recording.audio_path))
    return [
        LeftOut(str(path), SAME_NAME, f"{Path(in_use[0]).name} is used")
        for key, others in found.others.items()
        for in_use in [used.get(key, [str(found.audio[key])])]
        for path in (found.audio[key], *others)
        if str(path) not in in_use
    ]


def _nothing(source: Path, found: Found, left_out: Sequence[LeftOut]) -> UserError:
    by_reason = {item.reason: item for item in reversed(left_out)}  # the first of each reason
    examples = "".join(f"\n  {item.reason}: {item.what} ({item.detail})" for item in by_reason.values())
    num_transcripts = sum(map(len, found.transcripts.values())) + sum(
        out.reason == NO_AUDIO for out in left_out
    )
    return UserError(
        f"{source}: no recording with a transcript below this folder; expected {LAYOUT}; "
        f"found {counted(len(found.audio), 'clip')} and {counted(num_transcripts, 'transcript')}; "
        f"{contents(source)}{examples}"
    )


def _by_split(entries: Sequence[Entry]) -> dict[str, list[Recording]]:
    """Return recordings by split, each with an id and, if folders say who speaks, a speaker."""
    keys = list(dict.fromkeys(entry.key for entry in entries))
    # the folders of files elsewhere say nothing, nor do folders where a table gives the split
    split_by_key = _splits({entry.key for entry in entries if not entry.split and is_below(entry.key)})
    speakers = _speakers(keys, has_splits=any(split != "all" for split in split_by_key.values()))
    id_counts = Counter(entry.recording.id for entry in entries)  # 1.wav of two tables in their folders
    taken = set(id_counts)
    splits: dict[str, list[Recording]] = {}
    for key, recording, _, _, split in entries:
        name = recording.id
        if not name or id_counts[name] > 1:
            in_part = recording.begin_s or recording.end_s is not None
            begin = f"-{recording.begin_s:.2f}" if in_part else ""
            name = unique_name(key.strip("/").replace("/", "-") + begin, taken)
            taken.add(name)
        speaker = recording.speaker or speakers[key]
        named = dataclasses.replace(recording, id=name, speaker=speaker)
        splits.setdefault(split or split_by_key.get(key, "all"), []).append(named)
    return splits


def _splits(keys: Iterable[str]) -> dict[str, str]:
    """Return the split named by each clip's top folder; "all" for every clip if any top folder names none."""
    top = {key: key.partition("/")[0] if "/" in key else "" for key in keys}
    split_by_name = splits_beside(top.values())
    named = {key: split_by_name[name] for key, name in top.items()}
    return {key: split if split and all(named.values()) else "all" for key, split in named.items()}


def _speakers(keys: list[str], has_splits: bool) -> dict[str, str]:
    """Return each clip's folder below the folder of its split; empty if all clips share one folder."""
    folders = {key: key.strip("/").split("/")[:-1] for key in keys}
    if has_splits:
        split_by_name = splits_beside("".join(folder[:1]) for folder in folders.values())
        folders = {
            key: folder[split_by_name["".join(folder[:1])] is not None :] for key, folder in folders.items()
        }
    several = len({tuple(folder) for folder in folders.values()}) > 1
    common = num_common_parts(list(folders.values()))
    return {key: "-".join(folder[common:]) if several else "" for key, folder in folders.items()}


CORPUS = Corpus(
    read=read,
    about="your own recordings, a transcript beside each clip, in a table, or in its name",
    layout=LAYOUT,
)
