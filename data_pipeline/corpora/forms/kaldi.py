"""Read Kaldi data directories (ESPnet's and WeNet's too): wav.scp, text, optionally utt2spk and segments.

A folder with a wav.scp is the whole corpus; otherwise its subfolders are, such as data/{train,dev,test}.
A command in place of a path in wav.scp is never run: if it only decodes one file (`flac -c -d -s a.flac |`),
that file is read, otherwise the recording is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.clip_lists import (
    KeyedLines,
    ListedClip,
    Listing,
    assign_splits,
    contents,
    keyed_lines,
    nearest_below,
    reading_of,
    refuse_missing,
)
from data_pipeline.corpora.forms.pipes import file_of_pipe
from data_pipeline.corpora.matching import NO_AUDIO, NO_TRANSCRIPT
from data_pipeline.manifests.left_out import partition
from data_pipeline.types import Corpus, CorpusReading, LeftOut

TABLES = ("wav.scp", "text", "utt2spk", "segments")
ARCHIVE_ENTRY = re.compile(r".*:[0-9]+(\[.*\])?")  # "raw_wav.1.ark:1234"
EXPECTED = "wav.scp with an id and a path on each line, and the transcripts in the file `text` beside it"
LAYOUT = "wav.scp, text, utt2spk, segments; or {train,dev,test}/ with these"


@dataclass(frozen=True)
class KaldiTables:
    """The lines of a data directory's files.

    Attributes:
        wav: recording -> path or command.
        text: utterance -> transcript.
        speakers: utterance -> speaker; empty without utt2spk.
    """

    wav: KeyedLines
    text: KeyedLines
    speakers: KeyedLines


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return the recordings of the data directories below a folder; the other parameters are not used.

    Raises:
        UserError: there is no data directory below the folder, or one without a usable recording.
    """
    refuse_missing(source)
    source = source.parent if source.name == "wav.scp" else source
    folders = nearest_below(source, lambda folder: (folder / "wav.scp").is_file(), depth=2)
    if not folders:
        raise UserError(f"{source}: no wav.scp below this folder; expected {LAYOUT}; {contents(source)}")
    labelled = {folder: folder.name for folder in folders if (folder / "text").is_file()}
    if not labelled:
        raise UserError(f"{folders[0]}: wav.scp without text beside it; expected {LAYOUT}")
    left_out = [
        LeftOut(str(folder), "wav.scp without text beside it") for folder in folders if folder not in labelled
    ]
    if source in labelled:
        return reading_of([_read_folder(source, "all")], left_out)
    chosen, others = assign_splits(labelled)
    return reading_of((_read_folder(folder, split) for folder, split in chosen), left_out + others)


def _read_folder(folder: Path, split: str) -> Listing:
    files = {name: folder / name for name in TABLES if (folder / name).is_file()}
    found = {name: keyed_lines(path) for name, path in files.items()}
    wav, text, speakers, segments = (found.get(name, ({}, []))[0] for name in TABLES)
    tables = KaldiTables(wav, text, speakers)
    if "segments" in files:
        entries, left_out = partition(_entries(segments, tables, _segment))
    else:
        entries, left_out = partition(_entries(wav, tables, _whole))
    same_ids = [row for _, rows in found.values() for row in rows]
    return Listing(folder / "wav.scp", split, EXPECTED, entries, same_ids + left_out)


Make = Callable[[str, str, str, KaldiTables], ListedClip | LeftOut]


def _entries(utterances: KeyedLines, tables: KaldiTables, make: Make) -> Iterator[ListedClip | LeftOut]:
    for name, (where, rest) in utterances.items():
        yield make(name, where, rest, tables) if name in tables.text else LeftOut(where, NO_TRANSCRIPT, name)
    for name, (where, _) in tables.text.items():
        if name not in utterances:
            yield LeftOut(where, NO_AUDIO, name)


def _whole(name: str, where: str, rest: str, tables: KaldiTables) -> ListedClip | LeftOut:
    """Return a whole recording as an utterance."""
    audio = _audio(where, rest)
    if isinstance(audio, LeftOut):
        return audio
    return ListedClip(where, audio, tables.text[name][1], name, tables.speakers.get(name, ("", ""))[1])


def _segment(name: str, where: str, rest: str, tables: KaldiTables) -> ListedClip | LeftOut:
    """Return a segment of a recording; an end below 0 is the recording's end."""
    try:
        recording, *times = rest.split()
        if len(times) > 2:
            return LeftOut(where, "segment of a single channel", name)
        begin_s, end_s = map(float, times)
    except ValueError:
        return LeftOut(where, "segment without begin and end times", rest)
    if recording not in tables.wav:
        return LeftOut(where, "segment of a recording missing from wav.scp", recording)
    whole = _audio(*tables.wav[recording])
    if isinstance(whole, LeftOut):
        return LeftOut(where, whole.reason, whole.detail)
    speaker = tables.speakers.get(name, ("", ""))[1]
    return ListedClip(
        where, whole, tables.text[name][1], name, speaker, (), begin_s, None if end_s < 0 else end_s
    )


def _audio(where: str, rest: str) -> str | LeftOut:
    """Return the file named by a line of wav.scp."""
    if rest.endswith("|"):
        path = file_of_pipe(rest)
        return path or LeftOut(where, "command that does more than decode one file", rest)
    if ARCHIVE_ENTRY.fullmatch(rest):
        return LeftOut(where, "entry of a Kaldi archive", rest)
    return rest or LeftOut(where, NO_AUDIO)


CORPUS = Corpus(
    read=read,
    about="your own recordings in Kaldi data directories: wav.scp, text, utt2spk, segments",
    layout=LAYOUT,
)
