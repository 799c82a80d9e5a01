"""Tables with a header: CSV and TSV, separated by commas, tabs or semicolons.

Columns are known by their usual names, in any order and any case; others are passed over. A row is a
line. Fields may be quoted as spreadsheets do it; in tab-separated tables a lone quotation mark is one.
Audio paths are relative to the table's folder, else to one above it, else to the current folder.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from asr.base.types import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.layout import files_below, raw_lines
from data_pipeline.corpora.listed import (
    Entry,
    Listing,
    by_split,
    contents,
    list_name,
    reading_of,
    refuse_missing,
    split_of,
)
from data_pipeline.left_out import partition
from data_pipeline.types import Corpus, LeftOut, Reading

SUFFIXES = (".csv", ".tsv")
DELIMITERS = "\t,;"
ROLES = {  # what a column holds -> its names, the surest first
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
EXPECTED = f"a header with the audio ({', '.join(ROLES['audio'])}) and the text ({', '.join(ROLES['text'])})"
PLAIN_NAME = re.compile(r"\w[\w.-]*")
LAYOUT = "one table, or {train,dev,test}.csv, or a column split"


@dataclass(frozen=True)
class Header:
    """A table's first line, understood.

    Attributes:
        delimiter: between the fields.
        num_columns: how many there are.
        column_of: role -> position, of the roles that are there.
    """

    delimiter: str
    num_columns: int
    column_of: dict[str, int]


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> Reading:
    """Recordings of one table, or of all below a folder; the other parameters are not used.

    Raises:
        UserError: there is no such table, one lacks the columns, or has no usable line.
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
    chosen, left_out = by_split(tables)
    left_out += [LeftOut(str(path), "a table of other columns") for path in files if path not in tables]
    return reading_of([listing for path, split in chosen for listing in _read_table(path, split)], left_out)


def _first_line(path: Path) -> str:
    return next(raw_lines(path, "table"), (0, ""))[1]


def _header(line: str) -> Header | None:
    """What the first line says, by the delimiter that makes sense of it."""
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
            return Header(delimiter, len(names), column_of)
    return None


def _no_columns(path: Path) -> UserError:
    line = _first_line(path)
    delimiter = max(DELIMITERS, key=line.count)
    found = ", ".join(field.strip() for field in _fields(line, delimiter) or [line]) or "an empty file"
    return UserError(f"{path}:1: expected {EXPECTED}; found {found}; name the columns in a first line")


def _fields(line: str, delimiter: str) -> list[str] | None:
    """The fields of a line; None where a quotation mark is not closed."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return line.split(delimiter) if delimiter == "\t" else None


def _read_table(path: Path, split: str) -> list[Listing]:
    """A table as one listing a split: the column's where there is one, else the file's."""
    header = _header(_first_line(path))
    if header is None:
        raise _no_columns(path)
    rows: dict[str, list[Entry | LeftOut]] = {}
    for row, its_split in _rows(path, header):
        rows.setdefault(its_split or split, []).append(row)
    return [Listing(path, name, EXPECTED, *partition(of_split)) for name, of_split in rows.items()] or [
        Listing(path, split, EXPECTED)
    ]


def _rows(path: Path, header: Header) -> Iterator[tuple[Entry | LeftOut, str]]:
    """Each line as an entry, or why it is none, with the split that its column tells."""
    lines = raw_lines(path, "table")
    next(lines)
    for number, line in lines:
        where = f"{path}:{number}"
        fields = _fields(line, header.delimiter)
        if fields is None:
            yield LeftOut(where, "a quotation mark that is not closed on its line"), ""
            continue
        while len(fields) > header.num_columns and not fields[-1].strip():
            fields.pop()
        if len(fields) > header.num_columns:
            detail = f"{len(fields)} for {header.num_columns}: put text with {header.delimiter!r} in quotes"
            yield LeftOut(where, "more fields than columns", detail), ""
            continue
        value = {
            role: fields[column].strip() if column < len(fields) else ""
            for role, column in header.column_of.items()
        }
        told = value.get("split", "")
        if "split" in value and not told:
            yield LeftOut(where, "no split in its column"), ""
            continue
        if told and not PLAIN_NAME.fullmatch(told):
            yield LeftOut(where, "a split that is no plain name", repr(told)), ""
            continue
        try:
            begin_s, end_s = _seconds(value, "begin") or 0.0, _seconds(value, "end")
        except ValueError as error:
            yield LeftOut(where, "times that are no seconds", str(error)), ""
            continue
        yield (
            Entry(
                where,
                value["audio"],
                value.get("text", ""),
                value.get("id", ""),
                value.get("speaker", ""),
                tuple(value.get("tokens", "").split()),
                begin_s,
                end_s,
            ),
            split_of(told) or told,
        )


def _seconds(value: dict[str, str], role: str) -> float | None:
    text = value.get(role, "")
    return float(text) if text else None


CORPUS = Corpus(
    read=read,
    about="your own recordings in a CSV or TSV table with columns such as path, text (or tokens), id, "
    "speaker, split, start and end (in seconds, of a longer file)",
    layout=LAYOUT,
)
