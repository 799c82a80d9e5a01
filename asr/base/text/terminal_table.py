"""Align text in columns of a terminal, in which a hanzi takes two."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

GAP = 2  # columns between two cells of a table


def align_columns(rows: Sequence[Sequence[str]], right_from: int | None = None) -> list[str]:
    """Return a line for each row, with its cells aligned in columns.

    Args:
        rows: the cells; all rows have the same number.
        right_from: index of the first column that is right-aligned; None for none.
    """
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    first = len(widths) if right_from is None else right_from
    aligned = [
        [
            " " * (width - display_width(cell)) + cell
            for cell, width in zip(row[first:], widths[first:], strict=True)
        ]
        for row in rows
    ]
    return [join_cells([*row[:first], *right], widths) for row, right in zip(rows, aligned, strict=True)]


def join_cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a line of cells, each padded to its width."""
    return (" " * GAP).join(map(pad_to_width, cells, widths)).rstrip()


def display_width(text: str) -> int:
    """Return the number of terminal columns of a text; a hanzi takes two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def pad_to_width(text: str, width: int) -> str:
    """Append spaces to a text, to fill a number of terminal columns."""
    return text + " " * (width - display_width(text))
