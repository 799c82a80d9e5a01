"""Find the recordings below a folder, the transcripts beside them, and tables."""

from __future__ import annotations

import functools
import mimetypes
import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from asr.audio.formats import AUDIO_SUFFIXES, conversion
from data_pipeline.corpora.forms import table
from data_pipeline.corpora.forms.transcripts import OTHER_SUFFIXES, TRANSCRIPT_SUFFIXES
from data_pipeline.corpora.layout import files_below
from data_pipeline.corpora.matching import NO_AUDIO
from data_pipeline.types import UNREADABLE_AUDIO, LeftOut

BESIDE_SUFFIXES = (*TRANSCRIPT_SUFFIXES, *OTHER_SUFFIXES)
# of subtitles: a.zh-CN.srt
LANGUAGE = re.compile(r"\.(?:[a-z]{2,3}|chs|cht)(?:[-_][a-z0-9]{2,8})*", re.IGNORECASE)
CHINESE = re.compile(r"\.(?:zh|ch[ist]|cmn|zho)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Found:
    """The files below a folder.

    Attributes:
        audio: recordings by key: their paths without suffixes, relative to the folder.
        others: further recordings of a key, which are used if a table names them.
        transcripts: the files beside each recording, the preferred first.
        tables: files with the suffixes of tables.
        left_out: transcripts without a recording.
    """

    audio: dict[str, Path]
    others: dict[str, list[Path]]
    transcripts: dict[str, list[Path]]
    tables: list[Path]
    left_out: list[LeftOut]


def find_files(root: str) -> Found:
    """Return the recordings below a folder with what is beside them, and the tables.

    Args:
        root: an absolute path.
    """
    found = Found({}, {}, {}, [], [])
    audio: dict[str, list[Path]] = {}
    transcripts: dict[str, list[Path]] = {}
    suffixes = (*AUDIO_SUFFIXES, *BESIDE_SUFFIXES, *table.SUFFIXES)
    for path in files_below(Path(root), suffixes):
        key, suffix = os.path.splitext(key_of(str(path), root))  # noqa: PTH122 (several times as fast as Path)
        if suffix.lower() in AUDIO_SUFFIXES:
            audio.setdefault(key, []).append(path)
        elif suffix.lower() in BESIDE_SUFFIXES:
            transcripts.setdefault(key, []).append(path)
        else:
            found.tables.append(path)
    for key, paths in audio.items():
        paths.sort(key=lambda path: AUDIO_SUFFIXES.index(path.suffix.lower()))
        found.audio[key], *found.others[key] = paths
    names_by_stem = functools.cache(_names_by_stem)
    for key, paths in transcripts.items():
        inner, suffix = os.path.splitext(key)  # noqa: PTH122
        for path in paths:
            follows = key not in audio and inner in audio and _may_follow_a_name(suffix, path)
            of_audio = inner if follows else key
            if of_audio in audio:
                found.transcripts.setdefault(of_audio, []).append(path)
            elif path.suffix.lower() in TRANSCRIPT_SUFFIXES:  # others may be any document
                names = names_by_stem(path.parent).get(path.stem, [])
                found.left_out.append(_without_audio(path, [name for name in names if name != path.name]))
    for key, paths in found.transcripts.items():
        paths.sort(key=functools.partial(_preference, recording=found.audio[key]))
    return found


def _without_audio(transcript: Path, names: list[str]) -> LeftOut:
    """Return what is left out with a transcript: the recording of an unknown kind beside it, or itself.

    Args:
        transcript: its path.
        names: of the other files of its name.
    """
    for name in names:
        if (mimetypes.guess_type(name)[0] or "").startswith(("audio/", "video/")):
            recording = str(transcript.with_name(name))
            remedy = f"of an unknown kind; convert it: {conversion(recording)}"
            return LeftOut(recording, UNREADABLE_AUDIO, remedy)
    beside = f"beside it: {', '.join(names)}" if names else "no recording of this name is beside it"
    return LeftOut(str(transcript), NO_AUDIO, beside)


def _names_by_stem(folder: Path) -> dict[str, list[str]]:
    by_stem: dict[str, list[str]] = {}
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 (several times as fast)
        by_stem.setdefault(os.path.splitext(name)[0], []).append(name)  # noqa: PTH122
    return by_stem


def key_of(path: str, root: str) -> str:
    """Return a path relative to a folder, as it is if it is elsewhere; a Mac's may be decomposed."""
    relative = path[len(root) :].lstrip(os.sep) if path.startswith(root.rstrip(os.sep) + os.sep) else path
    return unicodedata.normalize("NFC", relative.replace(os.sep, "/"))


def is_below(key: str) -> bool:
    """Say whether the file of a key is below the folder that the key is relative to."""
    return not os.path.isabs(key)  # noqa: PTH117


def _may_follow_a_name(suffix: str, path: Path) -> bool:
    is_language = path.suffix.lower() in (".srt", ".vtt") and LANGUAGE.fullmatch(suffix) is not None
    return suffix.lower() in AUDIO_SUFFIXES or is_language


def _preference(path: Path, recording: Path) -> tuple[bool, bool, int, bool, str]:
    """Rank a transcript: a.wav.txt before a.txt before a.mp3.txt, if a.wav is the recording."""
    inner = path.with_suffix("").suffix
    is_its_own = inner.lower() == recording.suffix.lower()
    is_anothers = not is_its_own and inner.lower() in AUDIO_SUFFIXES
    is_foreign = LANGUAGE.fullmatch(inner) is not None and CHINESE.match(inner) is None
    return not is_its_own, is_anothers, BESIDE_SUFFIXES.index(path.suffix.lower()), is_foreign, path.name
