"""Find files whose names are composed or decomposed (NFC, NFD), as a Mac, a download or a list wrote them.

Exported folders contain a copy of this module.
"""

from __future__ import annotations

import functools
import os
import time
import unicodedata

COARSE_NS = 2_000_000_000  # of FAT


def path_on_disk(path: str) -> str:
    """Return a path, each name in the Unicode form that it has on disk; as it is where it is nowhere.

    So is an address, as the names of object storage have one form only.
    """
    if path.isascii() or "://" in path or os.path.lexists(path):
        return path
    head, name = os.path.split(path)
    if head == path:
        return path
    folder = path_on_disk(head)
    if name and not name.isascii():
        name = _names_in(folder or ".", _changed(folder or ".")).get(unicodedata.normalize("NFC", name), name)
    return os.path.join(folder, name)  # noqa: PTH118


def _changed(folder: str) -> int:
    """Return when a folder changed; now if that was just before, as clocks of file systems are coarse."""
    now = time.time_ns()
    try:
        changed = os.stat(folder).st_mtime_ns  # noqa: PTH116
    except (OSError, ValueError):
        return 0
    return changed if now - changed > COARSE_NS else now


@functools.lru_cache(maxsize=64)
def _names_in(folder: str, _changed_at: int) -> dict[str, str]:
    """Return the names in a folder by their composed form."""
    try:
        return {unicodedata.normalize("NFC", name): name for name in sorted(os.listdir(folder))}  # noqa: PTH208
    except (OSError, ValueError):
        return {}
