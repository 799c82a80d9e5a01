"""Read tables with a header: CSV and TSV, separated by commas, tabs or semicolons, and workbooks (.xlsx).

    文件名,文本,说话人,开始,结束
    新录音1.m4a,今天天气很好,小明,0.5,2.25

Columns are recognized by their usual names, English or Chinese, in any order and case; others are ignored.
Fields may be quoted as spreadsheets do, and then hold line breaks; in tab-separated tables each row is one
line, and an unpaired quotation mark is a character. Times are seconds, milliseconds where the column's name
ends in (ms) or _ms, or 00:01:02.5. Rows that give different texts to one whole file are left out, and
so are repeated ones.
Audio paths are relative to the table's folder, else to one above it, else to the current folder.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from asr.base.errors import UserError
from asr.base.text.subtitles import clock_seconds
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
    splits_beside,
)
from data_pipeline.corpora.forms.workbooks import WORKBOOK_SUFFIXES, sheet_rows
from data_pipeline.corpora.layout import files_below, raw_lines
from data_pipeline.manifests.left_out import partition
from data_pipeline.types import Corpus, CorpusReading, LeftOut, Recording

TEXT_SUFFIXES = (".csv", ".tsv")
SUFFIXES = (*TEXT_SUFFIXES, *WORKBOOK_SUFFIXES)
DELIMITERS = "\t,;"
OFFSET = "offset"  # NeMo's begin, with a duration
ROLES = {  # what a column holds -> its names, the preferred first
    "audio": (
        *("path", "audio_filepath", "audio_path", "wav_path", "file_path", "filepath", "wav_filename"),
        *("file", "filename", "file_name", "audio_file", "audio", "wav"),
        *(
            "路径",
            "音频路径",
            "文件路径",
            "录音路径",
            "文件名",
            "音频文件名",
            "录音文件名",
            "文件名称",
            "音频文件",
        ),
        *("录音文件", "文件", "音频", "录音"),
    ),
    "text": (
        *("text", "sentence", "transcript", "transcription", "txt", "label"),
        *(
            "文本",
            "文本内容",
            "转写",
            "转写文本",
            "转写结果",
            "转录",
            "标注",
            "标注文本",
            "标注内容",
            "内容",
            "句子",
        ),
        *("语句", "文字", "文字内容", "汉字", "台词", "字幕"),
    ),
    "tokens": ("tokens", "syllables", "pinyin", "音节", "拼音"),
    "id": ("id", "utt_id", "utt", "key"),  # 编号 and 序号 are numbers of rows, which two tables share
    "speaker": (
        *("speaker", "speaker_id", "client_id", "spk", "spk_id"),
        *("说话人", "说话者", "发音人", "朗读人", "朗读者", "录音人", "讲话人"),
    ),
    "split": ("split", "subset", "划分", "集合", "数据集"),
    "begin": (
        "start",
        "begin",
        "start_time",
        "begin_time",
        "开始",
        "开始时间",
        "起始",
        "起始时间",
        "起点",
        OFFSET,
    ),
    "end": ("end", "end_time", "结束", "结束时间", "终止", "终止时间", "终点"),
    "duration": ("duration", "时长", "持续时间"),  # counts where there is a begin and no end
}
# start_ms, start (ms), 开始（秒）; group 1 are milliseconds
UNIT = re.compile(r"(?:_|[(（\[])(?:(ms|msec|milliseconds?|毫秒)|s|secs?|seconds?|秒)[)）\]]?$")
MAX_LINES = 100  # of a row: a quotation mark that is never closed does not take the rest of the table
HEADER_ROWS = 5  # of a workbook, whose header may be below a title
EXPECTED = (
    "a header with columns for audio (path, file, audio, 文件名, 路径, 音频, ...) and text (text, sentence, "
    "transcript, 文本, 内容, 标注, ...)"
)
EXPECTED_TEXT = "a header with a column for text (text, sentence, transcript, 文本, 内容, 句子, ...)"
SEVERAL_TEXTS = "several texts of one recording"
REPEATED = "repeated row"
FOR_SEVERAL = "add columns start and end with the times of each text, or keep one row"
WITHOUT_COLUMNS = "table without the expected columns"
PLAIN_NAME = re.compile(r"\w[\w.-]*")
LAYOUT = "one table (CSV, TSV, Excel), or {train,dev,test}.csv, or a column named split"


class Column(NamedTuple):
    """The position of a column, and the unit of its times in seconds."""

    position: int
    unit_s: float = 1.0


@dataclass(frozen=True)
class FieldTable:
    """A table as rows of fields.

    Attributes:
        path: of its file.
        names: the fields of its header.
        columns: those known, by role; empty without one for audio and one for text.
        rows: `path:number` of each, with its fields or why it is left out.
        delimiter: between the fields; empty in a workbook.
    """

    path: Path
    names: list[str]
    columns: dict[str, Column]
    rows: Iterable[tuple[str, list[str] | LeftOut]]
    delimiter: str = ""


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return the recordings of one table, or of all below a folder; the other parameters are not used.

    Raises:
        UserError: no table was found, or a table lacks the columns or has no usable line.
    """
    refuse_missing(source)
    if source.is_file():
        return read_table(source)
    files = list(files_below(source, SUFFIXES))
    if not files:
        raise UserError(
            f"{source}: no {', no '.join(SUFFIXES)} below this folder; expected {LAYOUT}, with {EXPECTED}; "
            f"{contents(source)}"
        )
    chosen, left_out = tables_of(files, source)
    if not chosen:
        raise _no_columns(files[0])
    listings = [listing for path, split in chosen for listing in _read_table(path, split)]
    return _without_disputed(reading_of(listings, left_out))


def tables_of(files: Sequence[Path], source: Path) -> tuple[list[tuple[Path, str]], list[LeftOut]]:
    """Return those of some files that are tables of recordings, with their splits, and why others are not.

    Args:
        files: with suffixes of tables.
        source: the folder that they are below.
    """
    tables: dict[Path, str] = {}
    left_out = []
    for path in files:
        try:
            if any(table.columns for table in _tables(path)):
                tables[path] = list_name(path, source)
            else:
                left_out.append(LeftOut(str(path), WITHOUT_COLUMNS, str(_no_columns(path))))
        except UserError as error:
            left_out.append(LeftOut(str(path), "unreadable table", str(error)))
    chosen, others = assign_splits(tables)
    return chosen, left_out + others


def read_table(path: Path, split: str = "all") -> CorpusReading:
    """Return the recordings of one table.

    Args:
        path: of the table.
        split: of its recordings, unless a column gives it.

    Raises:
        UserError: it cannot be read, lacks the columns, or has no usable line.
    """
    return _without_disputed(reading_of(_read_table(path, split)))


def texts_of(path: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return `path:number`, text and labels of each row of a table, which needs no column for audio.

    Raises:
        UserError: it cannot be read, or has neither a column for texts nor one for labels.
    """
    tables = [table for table in _tables(path, ()) if table.columns]
    if not tables:
        raise _no_columns(path, EXPECTED_TEXT)
    found = []
    for table in tables:
        for where, fields in table.rows:
            if isinstance(fields, LeftOut):
                raise UserError(f"{where}: {fields.reason}; repair this line")
            text, tokens = (
                fields[column.position].strip() if column and column.position < len(fields) else ""
                for column in map(table.columns.get, ("text", "tokens"))
            )
            if text or tokens:
                found.append((where, text, tuple(tokens.split())))
    return found


def _tables(path: Path, needed: Sequence[str] = ("audio",)) -> list[FieldTable]:
    """Return the table of a text file, or those of a workbook's sheets; none of an empty one."""
    if path.suffix.lower() not in WORKBOOK_SUFFIXES:
        return [_text_table(path, needed)]
    tables = []
    for sheet, rows in sheet_rows(path):
        at = next((at for at, (_, row) in enumerate(rows[:HEADER_ROWS]) if _columns(row, needed)), 0)
        for _, names in rows[at : at + 1]:
            below = [(f"{path}:{sheet}!{number}", row) for number, row in rows[at + 1 :]]
            tables.append(FieldTable(path, names, _columns(names, needed), below))
    return tables


def _text_table(path: Path, needed: Sequence[str]) -> FieldTable:
    lines = list(raw_lines(path, "table")) or [(0, "")]
    line = lines[0][1]
    headers = {delimiter: _row(lines, 0, delimiter, 0) for delimiter in DELIMITERS}
    known = (delimiter for delimiter, (names, _) in headers.items() if _columns(names or [], needed))
    delimiter = next(known, max(DELIMITERS, key=line.count))
    names, first = headers[delimiter]
    names = names or [line]

    def rows() -> Iterator[tuple[str, list[str] | LeftOut]]:
        place = first
        while place < len(lines):
            where = f"{path}:{lines[place][0]}"
            fields, place = _row(lines, place, delimiter, len(names))
            yield where, fields or LeftOut(where, "quotation mark not closed")

    return FieldTable(path, names, _columns(names, needed), rows(), delimiter)


def _columns(names: Sequence[str], needed: Sequence[str]) -> dict[str, Column]:
    """Return the known columns of a header by role; none without those needed, or without text and tokens."""
    plain = [
        "_".join(unicodedata.normalize("NFKC", name).lower().replace("-", " ").split()) for name in names
    ]
    units = [UNIT.search(name) for name in plain]
    plain = [UNIT.sub("", name).strip("_ ") for name in plain]
    columns: dict[str, Column] = {}
    for role, known in ROLES.items():
        if name := next((name for name in known if name in plain), ""):
            unit = units[plain.index(name)]
            columns[role] = Column(plain.index(name), 0.001 if unit and unit[1] else 1.0)
    if "begin" in columns and plain[columns["begin"].position] == OFFSET and "duration" not in columns:
        del columns["begin"]
    has_labels = "text" in columns or "tokens" in columns
    return columns if has_labels and all(role in columns for role in needed) else {}


def _no_columns(path: Path, expected: str = EXPECTED) -> UserError:
    names = next((table.names for table in _tables(path)), [])
    found = ", ".join(name.strip() for name in names if name.strip()) or "an empty file"
    return UserError(f"{path}:1: expected {expected}; found {found}; name the columns in the first line")


def _row(
    lines: Sequence[tuple[int, str]], begin: int, delimiter: str, num_columns: int
) -> tuple[list[str] | None, int]:
    """Return the fields of the row that begins in a line, and where the next row begins.

    A further line of a cell that has the fields of a whole row is one: a quotation mark was not closed, and
    that of another row was taken for its end.

    Args:
        lines: of the table, with their numbers.
        begin: index of the line.
        delimiter: between fields.
        num_columns: of the table; 0 for its header.

    Returns:
        None for the fields if a quotation mark is not closed; the next row then begins in the next line.
    """
    line = lines[begin][1]
    if '"' not in line:
        return line.split(delimiter), begin + 1
    longest = 1 if delimiter == "\t" else MAX_LINES
    texts = (f"{lines[at][1]}\n" for at in range(begin, min(begin + longest, len(lines))))
    reader = csv.reader(texts, delimiter=delimiter, strict=True)
    try:
        fields = next(reader)
    except csv.Error:
        return (line.split(delimiter) if delimiter == "\t" else None), begin + 1
    further = itertools.chain.from_iterable(field.split("\n")[1:] for field in fields)
    if any(text.count(delimiter) + 1 == num_columns for text in further):
        return None, begin + 1
    return fields, begin + reader.line_num


def _read_table(path: Path, split: str) -> list[Listing]:
    """Return one listing per split of a table: of its split column if it has one, else of the file."""
    tables = [table for table in _tables(path) if table.columns]
    if not tables:
        raise _no_columns(path)
    rows: dict[str, list[ListedClip | LeftOut]] = {}
    of_tables = [pair for table in tables for pair in _rows(table)]
    split_by_name = splits_beside({named for _, named in of_tables if named})
    for row, named in of_tables:
        rows.setdefault((split_by_name[named] or named) if named else split, []).append(row)
    return [Listing(path, name, EXPECTED, *partition(of_split)) for name, of_split in rows.items()] or [
        Listing(path, split, EXPECTED)
    ]


def _without_disputed(reading: CorpusReading) -> CorpusReading:
    """Leave out rows that give different texts to one whole file (times are missing), and repeated rows."""
    texts: dict[str, set[tuple[str, ...]]] = {}
    seen: set[tuple[object, ...]] = set()
    for recordings in reading.splits.values():
        for one in recordings:
            if _is_whole_file(one):
                texts.setdefault(one.audio_path, set()).add((one.text, *one.tokens))

    def kept(one: Recording, split: str) -> Recording | LeftOut:
        text = one.text or " ".join(one.tokens)
        if _is_whole_file(one) and len(texts[one.audio_path]) > 1:
            return LeftOut(one.audio_path, SEVERAL_TEXTS, f"{text}: {FOR_SEVERAL}")
        row = (split, one.audio_path, one.begin_s, one.end_s, one.text, *one.tokens)
        if row in seen:
            return LeftOut(one.audio_path, REPEATED, text)
        seen.add(row)
        return one

    parts = {
        split: partition(kept(one, split) for one in recordings)
        for split, recordings in reading.splits.items()
    }
    left_out = [*reading.left_out, *(out for part in parts.values() for out in part.left_out)]
    splits = {split: part.kept for split, part in parts.items()}
    return dataclasses.replace(reading, splits=splits, left_out=left_out)


def _is_whole_file(recording: Recording) -> bool:
    return not recording.begin_s and recording.end_s is None


def _rows(table: FieldTable) -> Iterator[tuple[ListedClip | LeftOut, str]]:
    """Yield each row as an entry, or why it is left out, with the split in its column ("" if none)."""
    num_columns = len(table.names)
    for where, fields in table.rows:
        if isinstance(fields, LeftOut):
            yield fields, ""
            continue
        while len(fields) > num_columns and not fields[-1].strip():
            fields.pop()
        if len(fields) > num_columns:
            found = f"expected {num_columns}, found {len(fields)}"
            remedy = f"; put text that contains {table.delimiter!r} in quotes" if table.delimiter else ""
            yield LeftOut(where, "more fields than columns", found + remedy), ""
            continue
        value = {
            role: fields[column.position].strip() if column.position < len(fields) else ""
            for role, column in table.columns.items()
        }
        split = value.get("split", "")
        if "split" in value and not split:
            yield LeftOut(where, "empty split column"), ""
            continue
        if split and not PLAIN_NAME.fullmatch(split):
            yield LeftOut(where, "invalid split name", repr(split)), ""
            continue
        try:
            seconds = {role: _seconds(value, role, table.columns) for role in ("begin", "end", "duration")}
        except ValueError as error:
            yield LeftOut(where, NOT_A_TIME, str(error)), ""
            continue
        begin_s, end_s, duration_s = seconds["begin"], seconds["end"], seconds["duration"]
        if begin_s is not None and end_s is None and duration_s is not None:
            end_s = begin_s + duration_s
        yield (
            ListedClip(
                where,
                value["audio"],
                value.get("text", ""),
                value.get("id", ""),
                value.get("speaker", ""),
                tuple(value.get("tokens", "").split()),
                begin_s or 0.0,
                end_s,
            ),
            split,
        )


def _seconds(value: dict[str, str], role: str, columns: dict[str, Column]) -> float | None:
    text = value.get(role, "")
    if not text or (role == "duration" and "begin" not in columns):
        return None
    if ":" in text:
        return clock_seconds(text)
    try:
        return float(text) * columns[role].unit_s
    except ValueError:
        raise ValueError(f"expected a number such as 12.5, or a time, received {text[:40]!r}") from None


CORPUS = Corpus(
    read=read,
    about="your own recordings in a table, CSV, TSV or Excel, with columns such as path, text (or tokens), "
    "id, speaker, split, start and end (seconds in a longer file), or 文件名, 文本, 说话人, 开始, 结束",
    layout=LAYOUT,
)
