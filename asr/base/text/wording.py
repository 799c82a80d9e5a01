"""Format numbers and durations as text, the same way everywhere."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path


def percent(rate: float) -> str:
    """Return a rate as text, such as 8.9%; with two decimals below 1%."""
    if not math.isfinite(rate):
        return "∞"
    return f"{rate:.2%}" if 0 < rate < 0.01 else f"{rate:.1%}"


def short_percent(rate: float) -> str:
    """Return a rate with three significant digits, for an axis."""
    return f"{short_number(100 * rate)}%"


def short_number(value: float) -> str:
    """Return a number with three significant digits."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Return a duration as 42 s, 5 min 12 s or 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02d} min"


def file_size(num_bytes: float) -> str:
    """Return a size with three digits and a decimal unit, such as 15.6GB."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 999.5:
            return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}{unit}"
        value /= 1000
    return f"{value:.2f}EB"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun in the singular or plural, which is the noun with an s by default."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def listed(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first items as text, and the number of the others: "a, b and 5 more".

    Args:
        items: the texts.
        most: maximum number of items to name.
        separator: text between two items.
    """
    text = separator.join(items[:most])
    more = len(items) - most
    last = separator if "\n" in separator else " "  # "and 5 more" gets its own line below lines
    return f"{text}{last}and {more:,} more" if more > 0 else text


def short_paths(paths: Sequence[Path], least: int = 1) -> list[str]:
    """Return the last parts of each path, as many of them as distinguish all paths.

    Args:
        paths: all different.
        least: the number of parts to keep at least.
    """
    parts = [path.absolute().parts for path in paths]
    most = max(map(len, parts), default=least)
    tails = [[Path(*one[-number:]) for one in parts] for number in range(least, max(most, least) + 1)]
    return [str(tail) for tail in next((each for each in tails if len(set(each)) == len(each)), tails[-1])]


def visible(text: str) -> str:
    """Escape what is invisible, ends a line, or cannot be encoded as UTF-8."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean X?)" with the most similar known name; empty where none is similar."""
    similar = most_similar(name, known)
    return f" (did you mean {similar}?)" if similar else ""


def most_similar(name: str, known: Iterable[str]) -> str:
    """Return the most similar known name; empty where none is similar."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), "")
