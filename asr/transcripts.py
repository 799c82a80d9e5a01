"""Files to transcribe, and transcripts as text, JSON Lines or CSV."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from asr.files import whole_file
from asr.types import Hypothesis, UserError

STANDARD_INPUT = "-"
AUDIO_SUFFIXES = {
    *(".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".aifc", ".au", ".snd", ".caf"),
    *(".w64", ".rf64", ".voc", ".sph", ".nist", ".mat", ".paf", ".sf", ".wve", ".sd2", ".htk"),
}
FIELDS = ("file", "text", "score", "error")


def audio_files(arguments: Sequence[str]) -> list[Path]:
    """Files, with each folder replaced by the audio files below it in order of their names.

    What of a folder is no audio by its name is counted on standard error.

    Raises:
        UserError: a folder holds no audio file.
    """
    files: list[Path] = []
    for argument in arguments:
        path = Path(argument)
        if not os.path.isdir(argument):  # noqa: PTH112 (Path's raises where a folder above cannot be entered)
            files.append(path)
            continue
        everything = sorted(p for p in path.rglob("*") if p.is_file())
        below = [p for p in everything if p.suffix.lower() in AUDIO_SUFFIXES]
        if not below:
            raise UserError(f"{path}: no audio file below this folder (looked for *.wav, *.flac, *.mp3, ...)")
        if len(below) < len(everything):
            others = sorted({p.suffix or p.name for p in everything} - {p.suffix for p in below})
            num_others = len(everything) - len(below)
            print(
                f"{path}: {num_others} files are no audio by their names: {', '.join(others)}",
                file=sys.stderr,
            )
        files += below
    return files


class TranscriptWriter:
    """Writes one result after the other.

    Args:
        file: where to.
        format_name: text, jsonl or csv.
        with_names: whether text lines begin with the file's name.
    """

    def __init__(self, file: TextIO, format_name: str, with_names: bool) -> None:
        self._file, self._format, self._with_names = file, format_name, with_names
        self._csv = csv.writer(file, lineterminator="\n")
        if format_name == "csv":
            self._csv.writerow(FIELDS)

    def write(self, name: str, result: Hypothesis | UserError) -> None:
        """Write what was heard in a file, or why nothing was; text leaves failures to standard error."""
        if self._format == "csv":
            self._csv.writerow(_row(name, result))
        elif self._format == "jsonl":
            self._file.write(json.dumps(_record(name, result), ensure_ascii=False) + "\n")
        elif not isinstance(result, UserError):
            self._file.write((f"{name}\t" if self._with_names else "") + result.text + "\n")
        self._file.flush()


@contextlib.contextmanager
def open_writer(format_name: str, out: Path | None, num_files: int) -> Iterator[TranscriptWriter]:
    """A writer to a file, which takes its name when all is written, or to standard output.

    Raises:
        UserError: the file cannot be written.
    """
    if out is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        yield TranscriptWriter(sys.stdout, format_name, num_files > 1)
        return
    with whole_file(out, "list of transcripts") as file:
        # a file's name may be no UTF-8
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        yield TranscriptWriter(text, format_name, num_files > 1)
        text.flush()
        text.detach()


def _row(name: str, result: Hypothesis | UserError) -> tuple[str, str, str, str]:
    if isinstance(result, UserError):
        return name, "", "", str(result)
    return name, result.text, f"{result.score:.3f}", ""


def _record(name: str, result: Hypothesis | UserError) -> dict[str, object]:
    if isinstance(result, UserError):
        return {"file": name, "error": str(result)}
    return {
        "file": name,
        "text": result.text,
        "tokens": result.tokens,
        "times_s": result.times_s,
        "score": round(result.score, 4),
    }
