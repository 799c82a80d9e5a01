"""Read the sheets of Excel workbooks (.xlsx) as rows of text."""

from __future__ import annotations

import datetime
import itertools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asr.base.errors import UserError

READABLE = (".xlsx", ".xlsm")
WORKBOOK_SUFFIXES = (*READABLE, ".xls", ".et", ".ods", ".numbers")  # the others are named with the remedy
MAX_ROWS = 1_048_576  # of Excel
MAX_UNPACKED_BYTES = 1_000_000_000  # a crafted workbook unpacks to any size


def sheet_rows(path: Path) -> Iterator[tuple[str, list[tuple[int, list[str]]]]]:
    """Yield the name of each sheet with its rows that are not empty, and their numbers from 1.

    Raises:
        UserError: the workbook cannot be read.
    """
    from openpyxl import load_workbook

    if path.suffix.lower() not in READABLE:
        raise UserError(f"{path}: workbooks of this kind are not read; save it as .xlsx or CSV")
    try:
        with zipfile.ZipFile(path) as archive:
            num_bytes = sum(member.file_size for member in archive.infolist())
        if num_bytes > MAX_UNPACKED_BYTES:
            raise UserError(f"{path}: workbook of {num_bytes:,} bytes unpacked; save the table as CSV")
        # row by row: a stray cell in the last column of the last row takes no memory
        workbook = load_workbook(path, read_only=True, data_only=True)
        try:
            for sheet in workbook.worksheets:
                sheet.reset_dimensions()  # some programs write wrong ones
                rows = itertools.islice(sheet.iter_rows(values_only=True), MAX_ROWS)
                texts = ((number, list(map(_text, row))) for number, row in enumerate(rows, start=1))
                yield sheet.title, [(number, row) for number, row in texts if any(row)]
        finally:
            workbook.close()
    except UserError:
        raise
    except Exception as error:  # of zipfile, zlib, expat and openpyxl, which name no common base
        raise UserError(f"{path}: cannot read this workbook ({error}); save the table as CSV") from None


def _text(cell: Any) -> str:
    """Return what a cell holds as text; times of day are those of a recording."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime.timedelta):
        return str(cell.total_seconds())
    return str(cell).strip()
