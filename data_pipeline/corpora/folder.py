"""Folders of clips with a transcript beside each: a.wav and a.txt, a.lab, a.trn or a.wav.txt.

The text is all lines of a .txt or .lab, and the first of a .trn. The speaker is the folder of the clip,
where there are several. A corpus whose clips are all below folders such as train, dev and test has these
splits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from asr.audio.formats import AUDIO_SUFFIXES
from asr.base.types import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.layout import files_below, plain_spaces, text_lines
from data_pipeline.corpora.listed import (
    contents,
    free_name,
    num_shared,
    refuse_missing,
    split_of,
)
from data_pipeline.corpora.matching import EMPTY, NO_AUDIO, NO_TRANSCRIPT, UNREADABLE_TRANSCRIPT
from data_pipeline.types import Corpus, LeftOut, Reading, Recording
from data_pipeline.work import reported

TRANSCRIPT_SUFFIXES = (".txt", ".lab", ".trn")
ONE_LINE = ".trn"  # more lines hold the same in syllables and in phones
TIMED = re.compile(r"[0-9]+(\.[0-9]+)?\s+[0-9]+(\.[0-9]+)?\s+\S+")  # begin, end and label of a phone
LAYOUT = "<speaker>/*.wav with *.txt, *.lab, *.trn or *.wav.txt beside them"


@dataclass(frozen=True)
class Pairs:
    """Clips and transcripts by their paths without suffixes, and files whose place was taken."""

    audio: dict[str, Path]
    transcripts: dict[str, Path]
    left_out: list[LeftOut]


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> Reading:
    """Recordings of the clips that have a transcript beside them; the other parameters are not used.

    Raises:
        UserError: there is no such pair below the folder.
    """
    refuse_missing(source)
    pairs = _pairs(os.path.abspath(source))  # noqa: PTH100 (resolve would follow links)
    keys = [key for key in pairs.audio if key in pairs.transcripts]
    silent, unlabelled = pairs.transcripts.keys() - pairs.audio.keys(), pairs.audio.keys() - set(keys)
    left_out = [
        *pairs.left_out,
        *(LeftOut(str(pairs.audio[key]), NO_TRANSCRIPT) for key in unlabelled),
        *(LeftOut(str(pairs.transcripts[key]), NO_AUDIO) for key in silent),
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
        name = free_name(key.replace("/", "-"), taken)
        taken.add(name)
        recording = Recording(name, str(pairs.audio[key]), text, speakers[key])
        splits.setdefault(split_by_key[key], []).append(recording)
    if not splits:
        raise UserError(
            f"{source}: no clip with its transcript below this folder; expected {LAYOUT}; "
            f"found {len(pairs.audio)} clips and {len(pairs.transcripts)} transcripts; {contents(source)}"
        )
    return Reading(splits, left_out)


def _pairs(source: str) -> Pairs:
    pairs = Pairs({}, {}, [])
    for path in files_below(Path(source), (*AUDIO_SUFFIXES, *TRANSCRIPT_SUFFIXES)):
        relative = str(path)[len(source) :].replace(os.sep, "/").lstrip("/")
        stem, suffix = os.path.splitext(relative)  # noqa: PTH122 (several times as fast as Path)
        if suffix.lower() in AUDIO_SUFFIXES:
            files, kind = pairs.audio, "a second clip of the same name"
        else:
            files, kind = pairs.transcripts, "a second transcript of the same clip"
            inner, inner_suffix = os.path.splitext(stem)  # noqa: PTH122
            stem = inner if inner_suffix.lower() in AUDIO_SUFFIXES else stem
        if files.setdefault(stem, path) is not path:
            pairs.left_out.append(LeftOut(str(path), kind, f"{files[stem].name} is taken"))
    return pairs


def _splits(keys: Iterable[str]) -> dict[str, str]:
    """The split of each clip by the uppermost folder; all in one where any of these tells none."""
    told = {key: split_of(key.split("/")[0]) if "/" in key else None for key in keys}
    return {key: split if split and all(told.values()) else "all" for key, split in told.items()}


def _speakers(keys: list[str], has_splits: bool) -> dict[str, str]:
    """The folder of each clip, below its split's; empty where all clips have the same."""
    folders = {key: key.split("/")[:-1][1 if has_splits else 0 :] for key in keys}
    several = len({tuple(folder) for folder in folders.values()}) > 1
    shared = num_shared(list(folders.values()))
    return {key: "-".join(folder[shared:]) if several else "" for key, folder in folders.items()}


def _text(path: Path) -> str | LeftOut:
    try:
        lines = [line for _, line in text_lines(path)]
    except UserError as error:
        return LeftOut(str(path), UNREADABLE_TRANSCRIPT, str(error))
    if not lines:
        return LeftOut(str(path), EMPTY)
    if all(TIMED.fullmatch(line) for line in lines):
        return LeftOut(str(path), "a transcript of timed phones")
    return plain_spaces(lines[0] if path.suffix.lower() == ONE_LINE else " ".join(lines))


CORPUS = Corpus(
    read=read,
    about="your own recordings, a transcript beside each clip",
    layout=LAYOUT,
)
