"""Finds the recordings to transcribe, and decides which files their transcripts are written to.

`asr transcribe` writes one list for all recordings, or subtitles or a TextGrid for each: into a folder, below
which they are arranged as the recordings are below theirs, or, for a single recording, to the path itself.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from asr.audio.formats import AUDIO_SUFFIXES
from asr.audio.media.kinds import media_kind
from asr.base.errors import UserError
from asr.base.system.files import LONGEST_NAME, files_of, whole_file
from asr.base.system.storage.address import Address, path_of, refuse_address
from asr.base.text.wording import counted
from asr.transcription.formats import (
    FORMATS,
    SUFFIXES,
    FileFormat,
    Format,
    ListFormat,
    ListWriter,
    is_timed,
)
from asr.transcription.transcript import Transcript

logger = logging.getLogger(__name__)

STANDARD_INPUT = "-"


def audio_files(arguments: Sequence[str]) -> list[Path]:
    """Return the given paths, with each folder replaced by the audio files below it, sorted by name.

    Other files of a folder are skipped, counted and logged.

    Raises:
        UserError: a folder contains no audio file.
    """
    files: list[Path] = []
    for argument in arguments:
        path = path_of(argument)
        everything = _files_below(path)
        if everything is None:
            files.append(path)
            continue
        below = [p for p in everything if _is_recording(p)]
        if not below:
            raise UserError(
                f"{path}: no audio file below this folder (expected *.wav, *.mp3, *.m4a, *.mp4, ...)"
            )
        if len(below) < len(everything):
            others = sorted({p.suffix or p.name for p in everything} - {p.suffix for p in below})
            num_others = len(everything) - len(below)
            skipped = counted(num_others, "file")
            logger.info("%s: skipped %s without audio: %s", path, skipped, ", ".join(others))
        files += below
    return files


def _files_below(path: Path) -> list[Path] | None:
    """Return the files below a folder that are not hidden; None for a file."""
    # Path's raises where a folder above cannot be entered
    is_folder = path.is_dir() if isinstance(path, Address) else os.path.isdir(path)  # noqa: PTH112
    return files_of(path) if is_folder else None


def _is_recording(path: Path) -> bool:
    """Return whether a file is a recording by its suffix, or a video by its first bytes, as a.ts may be."""
    if path.suffix.lower() in AUDIO_SUFFIXES or isinstance(path, Address):
        return path.suffix.lower() in AUDIO_SUFFIXES
    with contextlib.suppress(OSError), path.open("rb") as file:
        return media_kind(file) is not None
    return False


def refuse_bad_out(out: Path, sources: Sequence[Path]) -> None:
    """Raise a UserError if transcripts cannot be written to a path."""
    refuse_address(out, "`out`")
    if out.resolve() in {source.resolve() for source in sources}:
        raise UserError(f"`out={out}`: this is one of the recordings; choose another file")
    if out.exists() and not out.is_file():
        raise UserError(f"`out={out}`: expected a file, received a folder or a device; choose another path")


def format_of(out: Path | None) -> Format:
    """Return the format that the suffix of a file names; text where it names none."""
    suffix = out.suffix.lower().removeprefix(".") if out else ""
    return next((name for name in FORMATS if name == suffix), "text")


def write_list(
    path: Path,
    format_name: ListFormat,
    results: Iterable[tuple[Path, Transcript | UserError]],
    *,
    with_names: bool,
) -> None:
    """Write the transcripts of recordings atomically: the file appears under its name when all are written.

    Args:
        path: of the file.
        format_name: of the file.
        results: of each recording.
        with_names: see `ListWriter`.

    Raises:
        UserError: the file cannot be written.
    """
    with whole_file(path, "list of transcripts") as file:
        # the name of a recording need not be valid UTF-8
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        writer = ListWriter(text, format_name, with_names)
        for source, result in results:
            writer.write(str(source), result)
        text.flush()
        text.detach()


def files_of_recordings(
    out: Path, arguments: Sequence[str], sources: Sequence[Path], format_name: FileFormat
) -> dict[Path, Path]:
    """Return the file to write for each recording.

    Args:
        out: a folder on a disk; or, where one recording is named, a file.
        arguments: the recordings and folders that the user named.
        sources: the recordings, see `audio_files`.
        format_name: of the files, which decides their suffix.

    Raises:
        UserError: `out` is the wrong one of both, or two recordings would be written to one file, or to
            one whose name is too long.
    """
    refuse_address(out, "`out`")
    folders = [path_of(argument) for argument in arguments if path_of(argument).is_dir()]
    if not (out.is_dir() or folders or len(sources) > 1):
        refuse_bad_out(out, sources)
        return {sources[0]: out}
    if is_timed(format_of(out)) or (out.exists() and not out.is_dir()):
        reason = "expected a folder, since each recording has a file of its own, received the name of a file"
        raise UserError(f"`out={out}`: {reason}; choose a folder")
    names = [_name_below(source, folders) for source in sources]
    shared = Counter(name.with_suffix("") for name in names)
    paths = []
    for name in names:
        kept = name.name if shared[name.with_suffix("")] > 1 else name.stem  # a.wav and a.mp3: a.wav.srt
        paths.append(out / name.with_name(kept + SUFFIXES[format_name]))
    for source, path in zip(sources, paths, strict=True):
        if len(os.fsencode(path.name)) > LONGEST_NAME:
            raise UserError(f"{source}: its name is too long for one that ends in {path.suffix}; rename it")
    for path, count in Counter(paths).items():
        if count > 1:
            both = " and ".join(str(s) for s, p in zip(sources, paths, strict=True) if p == path)
            raise UserError(f"{both}: would be written to one file, {path}; transcribe them one by one")
    return dict(zip(sources, paths, strict=True))


def _name_below(source: Path, folders: Sequence[Path]) -> Path:
    """Return the path of a recording below the folder that contains it, or its name."""
    if str(source) == STANDARD_INPUT:
        return Path("stdin")
    for folder in folders:
        if source.is_relative_to(folder):
            return source.relative_to(folder)
    return Path(source.name)
