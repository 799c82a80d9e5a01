"""Numbers and durations as text, the same wherever a person reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percent(rate: float) -> str:
    """A rate as text, such as 8.9%; two decimals below 1%."""
    if not math.isfinite(rate):
        return "∞"
    return f"{rate:.2%}" if 0 < rate < 0.01 else f"{rate:.1%}"


def short_percent(rate: float) -> str:
    """A rate for an axis, in three digits that matter."""
    return f"{short_number(100 * rate)}%"


def short_number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """As a person says it: 42 s, 5 min 12 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02d} min"


def file_size(num_bytes: float) -> str:
    """Return a size in three digits and a decimal unit, such as 15.6GB."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 999.5:
            return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}{unit}"
        value /= 1000
    return f"{value:.2f}EB"


def counted(count: int, noun: str) -> str:
    """A number and its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first items as text, and how many more there are: "a, b and 5 more".

    Args:
        items: to list.
        most: how many of them to name.
        separator: between two.
    """
    text = separator.join(items[:most])
    more = len(items) - most
    last = separator if "\n" in separator else " "  # a line of its own below lines
    return f"{text}{last}and {more:,} more" if more > 0 else text


def visible(text: str) -> str:
    """Return a text with escapes for what cannot be seen, ends a line, or has no UTF-8."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
