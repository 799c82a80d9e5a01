"""Decides which file the subtitles or the TextGrid of each recording is written to.

`asr transcribe` writes one file for each recording: into a folder, below which they are arranged as the
recordings are below theirs, or, for a single recording, to the path itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, get_args

from typing_extensions import TypeIs

from asr.base.errors import UserError
from asr.transcription.time_formats import TimedFormat
from asr.transcription.transcripts import STANDARD_INPUT, Format, refuse_bad_out

SUFFIXES: dict[TimedFormat, str] = {"srt": ".srt", "vtt": ".vtt", "textgrid": ".TextGrid"}
AnyFormat: TypeAlias = Format | TimedFormat
FORMATS: tuple[AnyFormat, ...] = (*get_args(Format), *get_args(TimedFormat))


def format_of(out: Path | None) -> AnyFormat:
    """Return the format that the suffix of a file names; text where it names none."""
    suffix = out.suffix.lower().removeprefix(".") if out else ""
    return next((name for name in FORMATS if name == suffix), "text")


def is_timed(format_name: AnyFormat) -> TypeIs[TimedFormat]:
    """Return whether a format is one of subtitles, or a TextGrid."""
    return format_name in SUFFIXES


def files_of_recordings(
    out: Path, arguments: Sequence[str], sources: Sequence[Path], format_name: TimedFormat
) -> list[Path]:
    """Return the file to write for each recording.

    Args:
        out: a folder; or, where one recording is named, a file.
        arguments: the recordings and folders that the user named.
        sources: the recordings, see `asr.transcription.transcripts.audio_files`.
        format_name: of the files, which decides their suffix.

    Raises:
        UserError: `out` is the wrong one of both, or two recordings would be written to one file.
    """
    folders = [Path(argument) for argument in arguments if Path(argument).is_dir()]
    if not (out.is_dir() or folders or len(sources) > 1):
        refuse_bad_out(out, sources)
        return [out]
    if out.suffix.lower() in map(str.lower, SUFFIXES.values()) or (out.exists() and not out.is_dir()):
        reason = "expected a folder, since each recording has a file of its own, received the name of a file"
        raise UserError(f"`out={out}`: {reason}; choose a folder")
    names = [_name_below(source, folders) for source in sources]
    shared = Counter(name.with_suffix("") for name in names)
    paths = []
    for name in names:
        kept = name.name if shared[name.with_suffix("")] > 1 else name.stem  # a.wav and a.mp3: a.wav.srt
        paths.append(out / name.with_name(kept + SUFFIXES[format_name]))
    for path, count in Counter(paths).items():
        if count > 1:
            both = " and ".join(str(s) for s, p in zip(sources, paths, strict=True) if p == path)
            raise UserError(f"{both}: would be written to one file, {path}; transcribe them one by one")
    return paths


def _name_below(source: Path, folders: Sequence[Path]) -> Path:
    """Return the path of a recording below the folder that contains it, or its name."""
    if str(source) == STANDARD_INPUT:
        return Path("stdin")
    for folder in folders:
        if source.is_relative_to(folder):
            return source.relative_to(folder)
    return Path(source.name)
