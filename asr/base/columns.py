"""Tables and other text in columns of a terminal, in which a hanzi takes two."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

GAP = 2  # columns between two cells of a table


def in_columns(rows: Sequence[Sequence[str]], right_from: int | None = None) -> list[str]:
    """A line for each row, whose cells stand under each other.

    Args:
        rows: of as many cells each.
        right_from: the first column that is aligned on the right; None for none.
    """
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    first = len(widths) if right_from is None else right_from
    aligned = [
        [
            " " * (width - width_of(cell)) + cell
            for cell, width in zip(row[first:], widths[first:], strict=True)
        ]
        for row in rows
    ]
    return [join_cells([*row[:first], *right], widths) for row, right in zip(rows, aligned, strict=True)]


def join_cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A line of cells of these widths."""
    return (" " * GAP).join(map(padded, cells, widths)).rstrip()


def width_of(text: str) -> int:
    """Columns in a terminal: a hanzi takes two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def padded(text: str, width: int) -> str:
    """A text followed by spaces, so many columns in all."""
    return text + " " * (width - width_of(text))
