"""Read the sheets of Excel and OpenDocument workbooks (.xlsx, .xls, .ods) as rows of text."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asr.base.errors import UserError

WORKBOOK_SUFFIXES = (".xlsx", ".xlsm", ".xls", ".ods")
MAX_UNPACKED_BYTES = 1_000_000_000  # of a workbook: a crafted one unpacks to any size


def sheet_rows(path: Path) -> Iterator[tuple[str, list[tuple[int, list[str]]]]]:
    """Yield the name of each sheet with its rows that are not empty, and their numbers from 1.

    Raises:
        UserError: the workbook cannot be read.
    """
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if sum(member.file_size for member in archive.infolist()) > MAX_UNPACKED_BYTES:
                    raise UserError(f"{path}: workbook of more than 1 GB; save the table as CSV")
        workbook = CalamineWorkbook.from_path(path)
        for name in workbook.sheet_names:
            cells = workbook.get_sheet_by_name(name).to_python(skip_empty_area=False)
            rows = [(number, [_text(cell) for cell in row]) for number, row in enumerate(cells, start=1)]
            yield name, [(number, row) for number, row in rows if any(row)]
    except (CalamineError, zipfile.BadZipFile, OSError, ValueError) as error:
        raise UserError(f"{path}: cannot read this workbook ({error}); save the table as CSV") from None


def _text(cell: Any) -> str:
    """Return what a cell holds as text; times of day are those of a recording."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime.timedelta):
        return str(cell.total_seconds())
    return str(cell).strip()
