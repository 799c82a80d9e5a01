"""Read tables with a header: CSV and TSV, separated by commas, tabs or semicolons.

Columns are recognized by their usual names, in any order and case; others are ignored. Each row is one line.
Fields may be quoted as spreadsheets do; in tab-separated tables an unpaired quotation mark is a character.
Audio paths are relative to the table's folder, else to one above it, else to the current folder.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.clip_lists import (
    NOT_A_TIME,
    ListedClip,
    Listing,
    assign_splits,
    contents,
    list_name,
    reading_of,
    refuse_missing,
    split_of,
)
from data_pipeline.corpora.layout import files_below, raw_lines
from data_pipeline.manifests.left_out import partition
from data_pipeline.types import Corpus, CorpusReading, LeftOut

SUFFIXES = (".csv", ".tsv")
DELIMITERS = "\t,;"
ROLES = {  # what a column holds -> its names, the preferred first
    "audio": (
        *("path", "audio_filepath", "audio_path", "wav_path", "file_path", "filepath", "wav_filename"),
        *("file", "filename", "file_name", "audio_file", "audio", "wav"),
    ),
    "text": ("text", "sentence", "transcript", "transcription", "txt", "label"),
    "tokens": ("tokens", "syllables", "pinyin"),
    "id": ("id", "utt_id", "utt", "key"),
    "speaker": ("speaker", "speaker_id", "client_id", "spk", "spk_id"),
    "split": ("split", "subset"),
    "begin": ("start", "begin", "start_s", "begin_s", "start_time"),
    "end": ("end", "end_s", "end_time"),
}
EXPECTED = (
    f"a header with columns for audio ({', '.join(ROLES['audio'])}) and text ({', '.join(ROLES['text'])})"
)
PLAIN_NAME = re.compile(r"\w[\w.-]*")
LAYOUT = "one table, or {train,dev,test}.csv, or a column named split"


@dataclass(frozen=True)
class TableHeader:
    """The columns of a table.

    Attributes:
        delimiter: between the fields.
        num_columns: of the table, unknown ones included.
        column_of: role -> position, for each role that has a column.
    """

    delimiter: str
    num_columns: int
    column_of: dict[str, int]


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return the recordings of one table, or of all below a folder; the other parameters are not used.

    Raises:
        UserError: no table was found, or a table lacks the columns or has no usable line.
    """
    refuse_missing(source)
    if source.is_file():
        return reading_of(_read_table(source, "all"))
    files = list(files_below(source, SUFFIXES))
    tables = {path: list_name(path, source) for path in files if _header(_first_line(path))}
    if not tables and files:
        raise _no_columns(files[0])
    if not tables:
        raise UserError(
            f"{source}: no .csv or .tsv below this folder; expected {LAYOUT}, with {EXPECTED}; "
            f"{contents(source)}"
        )
    chosen, left_out = assign_splits(tables)
    left_out += [
        LeftOut(str(path), "table without the expected columns") for path in files if path not in tables
    ]
    return reading_of([listing for path, split in chosen for listing in _read_table(path, split)], left_out)


def _first_line(path: Path) -> str:
    return next(raw_lines(path, "table"), (0, ""))[1]


def _header(line: str) -> TableHeader | None:
    """Return the header in a first line, by the delimiter that yields known columns; None if none does."""
    for delimiter in DELIMITERS:
        fields = _fields(line, delimiter)
        if fields is None:
            continue
        names = [field.strip().lower().replace(" ", "_").replace("-", "_") for field in fields]
        columns = {
            role: next((names.index(name) for name in known if name in names), None)
            for role, known in ROLES.items()
        }
        column_of = {role: column for role, column in columns.items() if column is not None}
        if "audio" in column_of and ("text" in column_of or "tokens" in column_of):
            return TableHeader(delimiter, len(names), column_of)
    return None


def _no_columns(path: Path) -> UserError:
    line = _first_line(path)
    delimiter = max(DELIMITERS, key=line.count)
    found = ", ".join(field.strip() for field in _fields(line, delimiter) or [line]) or "an empty file"
    return UserError(f"{path}:1: expected {EXPECTED}; found {found}; name the columns in the first line")


def _fields(line: str, delimiter: str) -> list[str] | None:
    """Return the fields of a line; None if a quotation mark is not closed."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return line.split(delimiter) if delimiter == "\t" else None


def _read_table(path: Path, split: str) -> list[Listing]:
    """Return one listing per split of a table: of its split column if it has one, else of the file."""
    header = _header(_first_line(path))
    if header is None:
        raise _no_columns(path)
    rows: dict[str, list[ListedClip | LeftOut]] = {}
    for row, split_in_row in _rows(path, header):
        rows.setdefault(split_in_row or split, []).append(row)
    return [Listing(path, name, EXPECTED, *partition(of_split)) for name, of_split in rows.items()] or [
        Listing(path, split, EXPECTED)
    ]


def _rows(path: Path, header: TableHeader) -> Iterator[tuple[ListedClip | LeftOut, str]]:
    """Yield each line as an entry, or why it is left out, with the split in its column ("" if none)."""
    lines = raw_lines(path, "table")
    next(lines)
    for number, line in lines:
        where = f"{path}:{number}"
        fields = _fields(line, header.delimiter)
        if fields is None:
            yield LeftOut(where, "quotation mark not closed on its line"), ""
            continue
        while len(fields) > header.num_columns and not fields[-1].strip():
            fields.pop()
        if len(fields) > header.num_columns:
            found = f"expected {header.num_columns}, found {len(fields)}"
            detail = f"{found}; put text that contains {header.delimiter!r} in quotes"
            yield LeftOut(where, "more fields than columns", detail), ""
            continue
        value = {
            role: fields[column].strip() if column < len(fields) else ""
            for role, column in header.column_of.items()
        }
        split = value.get("split", "")
        if "split" in value and not split:
            yield LeftOut(where, "empty split column"), ""
            continue
        if split and not PLAIN_NAME.fullmatch(split):
            yield LeftOut(where, "invalid split name", repr(split)), ""
            continue
        try:
            begin_s, end_s = _seconds(value, "begin") or 0.0, _seconds(value, "end")
        except ValueError as error:
            yield LeftOut(where, NOT_A_TIME, str(error)), ""
            continue
        yield (
            ListedClip(
                where,
                value["audio"],
                value.get("text", ""),
                value.get("id", ""),
                value.get("speaker", ""),
                tuple(value.get("tokens", "").split()),
                begin_s,
                end_s,
            ),
            split_of(split) or split,
        )


def _seconds(value: dict[str, str], role: str) -> float | None:
    text = value.get(role, "")
    return float(text) if text else None


CORPUS = Corpus(
    read=read,
    about="your own recordings in a CSV or TSV table with columns such as path, text (or tokens), id, "
    "speaker, split, start and end (in seconds, within a longer file)",
    layout=LAYOUT,
)
