"""Reads and writes the list of labels to review, a CSV file that spreadsheets may open and save again.

Each line is an utterance. Reviewers write `a` or `y` into `decision` to accept the suggestion, which they may
edit first; `n`, or nothing, keeps the label. `asr labels apply` applies the accepted suggestions.
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

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.base.text.encodings import decode_text

COLUMNS = ("decision", "id", "audio", "text", "reference", "suggested", "differs", "score")
DELIMITERS = ",;\t"
ACCEPTED, REFUSED = ("a", "y", "yes"), ("", "n", "no")
# cells that a spreadsheet would compute, or convert to a number, a date (such as `jun4`) or a boolean
LOOKS_LIKE_DATA = re.compile(
    r"[=+\-@'].*|[\d.,:/ e+-]*\d[\d.,:/ e+%-]*|true|false"
    r"|(?=.*\d)\d*[-/ ]?(jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec)[a-z]*[-/ ]?\d*",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class ReviewRow:
    """One line of the list, which is an utterance.

    Attributes:
        decision: as it was written.
        id: of the utterance.
        audio: path of the recording, to listen to.
        text: of the utterance.
        reference: tokens of the label when the list was made.
        suggested: tokens to replace them.
        differs: the differences, for people.
        score: how strongly the model contradicts the label, for people.
        line: number of the line in the file, from 1; 0 for a row that was not read from a file.
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
        """Return whether the suggestion was accepted."""
        return _normal(self.decision) in ACCEPTED


def write_review(path: Path, rows: Iterable[ReviewRow]) -> None:
    """Write the list as UTF-8 with a byte order mark, which Excel needs to detect the encoding.

    A leading apostrophe protects cells that spreadsheets would convert; `read_review` removes it.

    Raises:
        UserError: the file cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        cells = {name: getattr(row, name) for name in COLUMNS}
        cells |= {name: " ".join(cells[name]) for name in ("reference", "suggested")}
        writer.writerow([cell if name == "score" else _escaped(cell) for name, cell in cells.items()])
    with whole_file(path, "list to review") as file:
        file.write(codecs.BOM_UTF8 + text.getvalue().encode(errors="backslashreplace"))


def read_review(path: Path) -> list[ReviewRow]:
    """Read the list, as written by `write_review` or saved by a spreadsheet.

    The encoding may be any of `decode_text`, the delimiter a comma, semicolon or tab, and the columns
    in any order and among others.

    Raises:
        UserError: the file cannot be read, a column or id is missing, a decision is invalid, or an id appears
            twice.
    """
    lines = _rows(path)
    header_line, header = next(lines, (1, []))
    columns = [name.strip().lower() for name in header]
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise UserError(
            f"{path}:{header_line}: expected the columns {', '.join(COLUMNS)}; {', '.join(missing)} "
            "missing; use the list that `asr evaluate` wrote"
        )
    indices = {name: columns.index(name) for name in COLUMNS}
    rows: list[ReviewRow] = []
    seen: dict[str, int] = {}
    for line, cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        # spreadsheets omit only empty cells at the end of a line
        cells += [""] * (len(columns) - len(cells))
        row = _row(path, line, {name: _unescaped(cells[index]) for name, index in indices.items()})
        if row.id in seen:
            raise UserError(
                f"{path}: id {row.id!r} appears in lines {seen[row.id]} and {line}; remove one of them"
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
        raise UserError(f"{path}:{begin}: not a line of CSV ({error}); save the list again as CSV") from None


def _decoded(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such list to review; an evaluation writes one if labels may be wrong"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot read this list to review ({error.strerror})") from None
    if content.startswith(b"PK"):
        raise UserError(f"{path}: expected CSV, received a workbook; save it as 'CSV UTF-8'")
    return decode_text(content, path, "list to review")


def _row(path: Path, line: int, cells: dict[str, str]) -> ReviewRow:
    if not cells["id"]:
        raise UserError(f"{path}:{line}: the id is missing; restore the line as `asr evaluate` wrote it")
    if _normal(cells["decision"]) not in ACCEPTED + REFUSED:
        raise UserError(
            f"{path}:{line}: decision: expected one of {', '.join(ACCEPTED)} to accept, "
            f"{', '.join(REFUSED[1:])} or nothing to refuse, received {cells['decision']!r}"
        )
    tokens = {name: tuple(cells[name].split()) for name in ("reference", "suggested")}
    row = ReviewRow(**{**dict.fromkeys(COLUMNS, ""), **cells, **tokens})  # type: ignore[arg-type]
    return dataclasses.replace(row, line=line)


def _normal(decision: str) -> str:
    """Normalize a decision to lower-case ASCII: Chinese input methods may write full-width letters."""
    return unicodedata.normalize("NFKC", decision).strip().lower()


def _escaped(cell: str) -> str:
    return f"'{cell}" if LOOKS_LIKE_DATA.fullmatch(cell) else cell


def _unescaped(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and LOOKS_LIKE_DATA.fullmatch(cell[1:]) else cell
