"""Work on large files, told in bytes."""

from __future__ import annotations

from typing import NoReturn, TypeAlias

from tqdm import tqdm

Bar: TypeAlias = "tqdm[NoReturn]"

CHUNK_BYTES = 1 << 20  # read at a time


def byte_bar(title: str, begin: int = 0, total: int | None = None) -> Bar:
    """A progress bar in bytes."""
    bar: Bar = tqdm(desc=title, initial=begin, total=total, unit="B", unit_scale=True, leave=False)
    return bar


def size_text(num_bytes: float) -> str:
    """A size as a person reads it: 15.6GB."""
    return str(tqdm.format_sizeof(num_bytes, "B"))
