"""The list of labels to review, as a CSV file that spreadsheets open and may save again in their own way.

One line an utterance. Who reviews writes `a` or `y` into `decision` to accept what is suggested, which may
be edited before; `n`, or nothing, leaves the label as it is. `asr labels apply` does the rest.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from asr.base.files import whole_file
from asr.base.types import UserError

COLUMNS = ("decision", "id", "audio", "text", "reference", "suggested", "differs", "score")
DELIMITERS = ",;\t"
ACCEPTED, REFUSED = ("a", "y", "yes"), ("", "n", "no")
# what a spreadsheet would compute, or take for a number, a date (`jun4` is one) or a truth value
AS_DATA = re.compile(
    r"[=+\-@'].*|[\d.,:/ e+-]*\d[\d.,:/ e+%-]*|true|false"
    r"|(?=.*\d)\d*[-/ ]?(jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec)[a-z]*[-/ ]?\d*",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class ReviewRow:
    """One utterance.

    Attributes:
        decision: as it was written.
        id: of the utterance.
        audio: path of the recording, for who wants to listen.
        text: of the utterance.
        reference: tokens of the label when the list was made.
        suggested: tokens to put in their place.
        differs: what was contradicted, for a person.
        score: how strongly, for a person.
        line: in the file, from 1; 0 for a row that comes from none.
    """

    decision: str
    id: str
    audio: str
    text: str
    reference: tuple[str, ...]
    suggested: tuple[str, ...]
    differs: str
    score: str
    line: int = 0

    @property
    def is_accepted(self) -> bool:
        """Whether the label is to be corrected."""
        return _normal(self.decision) in ACCEPTED


def write_review(path: Path, rows: Iterable[ReviewRow]) -> None:
    """Write the list: UTF-8 with the byte order mark without which Excel takes it for something else.

    A leading apostrophe keeps what spreadsheets would take for data as it is; `read_review` removes it.

    Raises:
        UserError: the file cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        cells = {name: getattr(row, name) for name in COLUMNS}
        cells |= {name: " ".join(cells[name]) for name in ("reference", "suggested")}
        writer.writerow([cell if name == "score" else _kept(cell) for name, cell in cells.items()])
    with whole_file(path, "list to review") as file:
        file.write(codecs.BOM_UTF8 + text.getvalue().encode(errors="backslashreplace"))


def read_review(path: Path) -> list[ReviewRow]:
    """Read the list, as it was written or as a spreadsheet saved it.

    It may be in UTF-8, UTF-16 or GB 18030, its cells separated by commas, semicolons or tabs, its columns in
    any order and beside others.

    Raises:
        UserError: the file cannot be read, a column or cell is missing, a decision is none, or an id stands
            twice.
    """
    lines = _rows(path)
    header_line, header = next(lines, (1, []))
    columns = [name.strip().lower() for name in header]
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise UserError(
            f"{path}:{header_line}: expected the columns {', '.join(COLUMNS)}; {', '.join(missing)} "
            "missing; take the list that `asr evaluate` wrote"
        )
    places = {name: columns.index(name) for name in COLUMNS}
    rows: list[ReviewRow] = []
    seen: dict[str, int] = {}
    for line, cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        # spreadsheets leave out empty cells at the end, and nothing else
        cells += [""] * (len(columns) - len(cells))
        row = _row(path, line, {name: _as_it_was(cells[place]) for name, place in places.items()})
        if row.id in seen:
            raise UserError(
                f"{path}: id {row.id!r} stands in lines {seen[row.id]} and {line}; remove one of the two"
            )
        seen[row.id] = line
        rows.append(row)
    return rows


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    text = _decoded(path)
    first_line = text.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=first_line.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    begin = 1
    try:
        for cells in reader:
            yield begin, cells
            begin = reader.line_num + 1  # a cell may hold line breaks
    except csv.Error as error:
        raise UserError(f"{path}:{begin}: no line of a table ({error}); save it again as CSV") from None


def _decoded(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot read this list to review ({error.strerror})") from None
    if content.startswith(b"PK"):
        raise UserError(f"{path}: a workbook, expected CSV; save it as 'CSV UTF-8'")
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if wide else ("utf-8-sig", "gb18030"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise UserError(f"{path}: neither UTF-8 nor UTF-16 nor GB 18030; save it again as 'CSV UTF-8'")


def _row(path: Path, line: int, cells: dict[str, str]) -> ReviewRow:
    if not cells["id"]:
        raise UserError(f"{path}:{line}: no id; take this line as `asr evaluate` wrote it, or remove it")
    if _normal(cells["decision"]) not in ACCEPTED + REFUSED:
        raise UserError(
            f"{path}:{line}: decision: expected one of {', '.join(ACCEPTED)} to accept, "
            f"{', '.join(REFUSED[1:])} or nothing to refuse, received {cells['decision']!r}"
        )
    tokens = {name: tuple(cells[name].split()) for name in ("reference", "suggested")}
    row = ReviewRow(**{**dict.fromkeys(COLUMNS, ""), **cells, **tokens})  # type: ignore[arg-type]
    return dataclasses.replace(row, line=line)


def _normal(decision: str) -> str:
    """Without case, and as ASCII: an input method for Chinese may write full-width letters."""
    return unicodedata.normalize("NFKC", decision).strip().lower()


def _kept(cell: str) -> str:
    return f"'{cell}" if AS_DATA.fullmatch(cell) else cell


def _as_it_was(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and AS_DATA.fullmatch(cell[1:]) else cell
