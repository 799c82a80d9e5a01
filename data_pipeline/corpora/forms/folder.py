"""Read folders of clips with a transcript beside each: a.wav and a.txt, a.lab, a.trn or a.wav.txt.

The text is all lines of a .txt or .lab, and the first line of a .trn. With several folders, the folder of a
clip is its speaker. If all clips are below folders such as train, dev and test, these are the splits.
"""

from __future__ import annotations

import functools
import mimetypes
import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from asr.audio.formats import AUDIO_SUFFIXES, conversion
from asr.base.errors import UserError
from asr.base.text.wording import counted
from asr.base.work import OnProgress, ignore_progress, reported
from data_pipeline.corpora.clip_lists import (
    contents,
    num_common_parts,
    refuse_missing,
    split_of,
    unique_name,
)
from data_pipeline.corpora.layout import files_below, plain_spaces, text_lines
from data_pipeline.corpora.matching import EMPTY, NO_AUDIO, NO_TRANSCRIPT, UNREADABLE_TRANSCRIPT
from data_pipeline.types import UNREADABLE_AUDIO, Corpus, CorpusReading, LeftOut, Recording

TRANSCRIPT_SUFFIXES = (".txt", ".lab", ".trn")
ONE_LINE = ".trn"  # further lines repeat the text in syllables and phones
TIMED = re.compile(r"[0-9]+(\.[0-9]+)?\s+[0-9]+(\.[0-9]+)?\s+\S+")  # begin, end and label of a phone
LAYOUT = "<speaker>/*.wav (or *.mp3, *.m4a, ...) with *.txt, *.lab, *.trn or *.wav.txt beside them"


@dataclass(frozen=True)
class Pairs:
    """Maps paths without suffixes to clips and transcripts, and lists files whose key was taken."""

    audio: dict[str, Path]
    transcripts: dict[str, Path]
    left_out: list[LeftOut]


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return a recording for each clip with a transcript beside it; the other parameters are not used.

    Raises:
        UserError: no clip below the folder has a transcript.
    """
    refuse_missing(source)
    pairs = _pairs(os.path.abspath(source))  # noqa: PTH100 (resolve would follow links)
    keys = [key for key in pairs.audio if key in pairs.transcripts]
    left_out = [
        *pairs.left_out,
        *(LeftOut(str(pairs.audio[key]), NO_TRANSCRIPT) for key in pairs.audio.keys() - set(keys)),
        *(_without_audio(path) for key, path in pairs.transcripts.items() if key not in pairs.audio),
    ]
    left_out.sort(key=lambda out: out.what)
    split_by_key = _splits(keys)
    speakers = _speakers(keys, has_splits=split_by_key != dict.fromkeys(keys, "all"))
    taken: set[str] = set()
    splits: dict[str, list[Recording]] = {}
    for key in reported(keys, "reading transcripts", "clips", on_progress):
        text = _text(pairs.transcripts[key])
        if isinstance(text, LeftOut):
            left_out.append(text)
            continue
        name = unique_name(key.replace("/", "-"), taken)
        taken.add(name)
        recording = Recording(name, str(pairs.audio[key]), text, speakers[key])
        splits.setdefault(split_by_key[key], []).append(recording)
    if not splits:
        raise UserError(
            f"{source}: no clip with a transcript beside it below this folder; expected {LAYOUT}; "
            f"found {counted(len(pairs.audio), 'clip')} and {counted(len(pairs.transcripts), 'transcript')}; "
            f"{contents(source)}"
        )
    return CorpusReading(splits, left_out)


def _pairs(source: str) -> Pairs:
    pairs = Pairs({}, {}, [])
    for path in files_below(Path(source), (*AUDIO_SUFFIXES, *TRANSCRIPT_SUFFIXES)):
        relative = str(path)[len(source) :].replace(os.sep, "/").lstrip("/")
        stem, suffix = os.path.splitext(relative)  # noqa: PTH122 (several times as fast as Path)
        stem = unicodedata.normalize("NFC", stem)  # a Mac's names may be decomposed
        if suffix.lower() in AUDIO_SUFFIXES:
            files, reason = pairs.audio, "another clip has the same name"
        else:
            files, reason = pairs.transcripts, "second transcript of the same clip"
            inner, inner_suffix = os.path.splitext(stem)  # noqa: PTH122
            stem = inner if inner_suffix.lower() in AUDIO_SUFFIXES else stem
        if files.setdefault(stem, path) is not path:
            pairs.left_out.append(LeftOut(str(path), reason, f"{files[stem].name} is used"))
    return pairs


def _without_audio(transcript: Path) -> LeftOut:
    """Return what is left out with a transcript: the recording of an unknown kind beside it, or itself."""
    names = [
        name for name in _names_by_stem(transcript.parent).get(transcript.stem, []) if name != transcript.name
    ]
    for name in names:
        if (mimetypes.guess_type(name)[0] or "").startswith(("audio/", "video/")):
            recording = str(transcript.with_name(name))
            return LeftOut(
                recording, UNREADABLE_AUDIO, f"of an unknown kind; convert it: {conversion(recording)}"
            )
    return LeftOut(str(transcript), NO_AUDIO, f"beside it: {', '.join(sorted(names))}" if names else "")


@functools.lru_cache(maxsize=16)  # folders, one after the other
def _names_by_stem(folder: Path) -> dict[str, list[str]]:
    by_stem: dict[str, list[str]] = {}
    for name in os.listdir(folder):  # noqa: PTH208 (several times as fast)
        by_stem.setdefault(os.path.splitext(name)[0], []).append(name)  # noqa: PTH122
    return by_stem


def _splits(keys: Iterable[str]) -> dict[str, str]:
    """Return the split named by each clip's top folder; "all" for every clip if any top folder names none."""
    named = {key: split_of(key.split("/")[0]) if "/" in key else None for key in keys}
    return {key: split if split and all(named.values()) else "all" for key, split in named.items()}


def _speakers(keys: list[str], has_splits: bool) -> dict[str, str]:
    """Return each clip's folder below the folder of its split; empty if all clips share one folder."""
    folders = {key: key.split("/")[:-1][1 if has_splits else 0 :] for key in keys}
    several = len({tuple(folder) for folder in folders.values()}) > 1
    common = num_common_parts(list(folders.values()))
    return {key: "-".join(folder[common:]) if several else "" for key, folder in folders.items()}


def _text(path: Path) -> str | LeftOut:
    try:
        lines = [line for _, line in text_lines(path)]
    except UserError as error:
        return LeftOut(str(path), UNREADABLE_TRANSCRIPT, str(error))
    if not lines:
        return LeftOut(str(path), EMPTY)
    if all(TIMED.fullmatch(line) for line in lines):
        return LeftOut(str(path), "transcript of timed phones, not words")
    return plain_spaces(lines[0] if path.suffix.lower() == ONE_LINE else " ".join(lines))


CORPUS = Corpus(
    read=read,
    about="your own recordings, a transcript beside each clip",
    layout=LAYOUT,
)
