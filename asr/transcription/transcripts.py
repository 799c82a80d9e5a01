"""Finds the files to transcribe, and writes transcripts as text, JSON Lines or CSV."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias

from asr.audio.formats import AUDIO_SUFFIXES
from asr.base.errors import UserError
from asr.base.files import whole_file
from asr.base.hypothesis_json import hypothesis_as_json
from asr.base.types import Hypothesis
from asr.base.wording import counted

if TYPE_CHECKING:
    from asr.transcription.recognized import Recognition

logger = logging.getLogger(__name__)

STANDARD_INPUT = "-"
JSON_FIELDS = ("text", "tokens", "times_s", "confidences", "score")  # of a hypothesis
CSV_COLUMNS = ("file", "text", "tokens", "score", "error")

Format: TypeAlias = Literal["text", "jsonl", "csv"]
Result: TypeAlias = Hypothesis | UserError
"""The transcript of a file, or the reason why it could not be read."""


def result_of(recognition: Recognition) -> Result:
    """Return the transcript alone of what is recognized."""
    return recognition if isinstance(recognition, UserError) else recognition.hypothesis


def audio_files(arguments: Sequence[str]) -> list[Path]:
    """Return the given paths, with each folder replaced by the audio files below it, sorted by name.

    Files of a folder whose suffix is not that of audio are skipped, counted and logged.

    Raises:
        UserError: a folder contains no audio file.
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
            raise UserError(f"{path}: no audio file below this folder (expected *.wav, *.flac, *.mp3, ...)")
        if len(below) < len(everything):
            others = sorted({p.suffix or p.name for p in everything} - {p.suffix for p in below})
            num_others = len(everything) - len(below)
            skipped = counted(num_others, "file")
            logger.info("%s: skipped %s without audio: %s", path, skipped, ", ".join(others))
        files += below
    return files


def refuse_bad_out(out: Path, sources: Sequence[Path]) -> None:
    """Raise a UserError if transcripts cannot be written to a path."""
    if out.resolve() in {source.resolve() for source in sources}:
        raise UserError(f"`out={out}`: this is one of the recordings; choose another file")
    if out.exists() and not out.is_file():
        raise UserError(f"`out={out}`: expected a file, received a folder or a device; choose another path")


class TranscriptWriter:
    """Writes results one by one.

    Args:
        file: open for writing text.
        format_name: text, jsonl or csv.
        with_names: whether text lines begin with the file's name.
    """

    def __init__(self, file: TextIO, format_name: str, with_names: bool) -> None:
        self._file, self._format, self._with_names = file, format_name, with_names
        self._csv = csv.writer(file, lineterminator="\n")
        if format_name == "csv":
            self._csv.writerow(CSV_COLUMNS)

    def write(self, name: str, result: Result) -> None:
        """Write the transcript of a file, or why there is none; the text format omits failures."""
        if self._format == "csv":
            self._csv.writerow(_row(name, result))
        elif self._format == "jsonl":
            self._file.write(json.dumps(_record(name, result), ensure_ascii=False) + "\n")
        elif not isinstance(result, UserError):
            self._file.write((f"{name}\t" if self._with_names else "") + result.text + "\n")
        self._file.flush()


def write_transcripts(
    path: Path, format_name: str, sources: Sequence[Path], results: Iterable[Result]
) -> None:
    """Write a file of results atomically: it appears under its name when all are written.

    Raises:
        UserError: the file cannot be written.
    """
    with whole_file(path, "list of transcripts") as file:
        # the name of a recording need not be valid UTF-8
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        writer = TranscriptWriter(text, format_name, len(sources) > 1)
        for source, result in zip(sources, results, strict=True):
            writer.write(str(source), result)
        text.flush()
        text.detach()


def _row(name: str, result: Result) -> tuple[str, ...]:
    if isinstance(result, UserError):
        return name, "", "", "", str(result)
    return name, result.text, " ".join(result.tokens), f"{result.score:.3f}", ""


def _record(name: str, result: Result) -> dict[str, object]:
    if isinstance(result, UserError):
        return {"file": name, "error": str(result)}
    fields = hypothesis_as_json(result) | {
        "confidences": [round(confidence, 3) for confidence in result.confidences],
        "score": round(result.score, 4),
    }
    record = {"file": name} | {key: fields[key] for key in JSON_FIELDS}
    if result.alternatives:
        record["alternatives"] = [
            {"text": other.text, "tokens": other.tokens, "score": round(other.score, 4)}
            for other in result.alternatives
        ]
    return record
