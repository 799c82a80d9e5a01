"""Find the recordings below a folder, the transcripts beside them, and tables."""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from asr.audio.formats import RECORDING_SUFFIXES
from data_pipeline.corpora.forms import table
from data_pipeline.corpora.forms.transcripts import OTHER_SUFFIXES, TRANSCRIPT_SUFFIXES
from data_pipeline.corpora.layout import files_below
from data_pipeline.corpora.matching import NO_AUDIO
from data_pipeline.types import LeftOut

BESIDE_SUFFIXES = (*TRANSCRIPT_SUFFIXES, *OTHER_SUFFIXES)
# of subtitles: a.zh-CN.srt
LANGUAGE = re.compile(r"\.(?:[a-z]{2,3}|chs|cht)(?:[-_][a-z0-9]{2,8})*", re.IGNORECASE)
CHINESE = re.compile(r"\.(?:zh|ch[ist]|cmn|zho)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Found:
    """The files below a folder.

    Attributes:
        audio: recordings by key: their paths without suffixes, relative to the folder.
        transcripts: the files beside each recording, the preferred first.
        tables: files with the suffixes of tables.
        left_out: recordings whose key is another's, and transcripts without a recording.
    """

    audio: dict[str, Path]
    transcripts: dict[str, list[Path]]
    tables: list[Path]
    left_out: list[LeftOut]


def find_files(root: str) -> Found:
    """Return the recordings below a folder with what is beside them, and the tables.

    Args:
        root: an absolute path.
    """
    found = Found({}, {}, [], [])
    audio: dict[str, list[Path]] = {}
    transcripts: dict[str, list[Path]] = {}
    suffixes = (*RECORDING_SUFFIXES, *BESIDE_SUFFIXES, *table.SUFFIXES)
    for path in files_below(Path(root), suffixes):
        key, suffix = os.path.splitext(key_of(str(path), root))  # noqa: PTH122 (several times as fast as Path)
        if suffix.lower() in RECORDING_SUFFIXES:
            audio.setdefault(key, []).append(path)
        elif suffix.lower() in BESIDE_SUFFIXES:
            transcripts.setdefault(key, []).append(path)
        else:
            found.tables.append(path)
    for key, paths in audio.items():
        first, *others = sorted(paths, key=lambda path: RECORDING_SUFFIXES.index(path.suffix.lower()))
        found.audio[key] = first
        found.left_out.extend(
            LeftOut(str(path), "another clip has the same name", f"{first.name} is used") for path in others
        )
    for key, paths in transcripts.items():
        inner, suffix = os.path.splitext(key)  # noqa: PTH122
        for path in paths:
            follows = key not in audio and inner in audio and _may_follow_a_name(suffix, path)
            of_audio = inner if follows else key
            if of_audio in audio:
                found.transcripts.setdefault(of_audio, []).append(path)
            elif path.suffix.lower() in TRANSCRIPT_SUFFIXES:  # others may be any document
                found.left_out.append(LeftOut(str(path), NO_AUDIO, "no recording of this name is beside it"))
    for paths in found.transcripts.values():
        paths.sort(key=_preference)
    return found


def key_of(path: str, root: str) -> str:
    """Return a path relative to a folder, as it is if it is elsewhere; a Mac's may be decomposed."""
    relative = path[len(root) :].lstrip(os.sep) if path.startswith(root.rstrip(os.sep) + os.sep) else path
    return unicodedata.normalize("NFC", relative.replace(os.sep, "/"))


def _may_follow_a_name(suffix: str, path: Path) -> bool:
    is_language = path.suffix.lower() in (".srt", ".vtt") and LANGUAGE.fullmatch(suffix) is not None
    return suffix.lower() in RECORDING_SUFFIXES or is_language


def _preference(path: Path) -> tuple[int, bool, str]:
    inner = path.with_suffix("").suffix
    is_foreign = LANGUAGE.fullmatch(inner) is not None and CHINESE.match(inner) is None
    return BESIDE_SUFFIXES.index(path.suffix.lower()), is_foreign, path.name
