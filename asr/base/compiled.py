"""Loops that are compiled by numba at their first call, and kept on the disk for the next process.

@compiled
def total(values: Float32) -> float: ...

Numba itself keeps what it compiled until the file that holds the function changes. But what it calls of other
files is part of it: here all is compiled anew when any file of compiled loops has changed.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numba

F = TypeVar("F", bound=Callable[..., object])

HERE = Path(__file__).parent
SOURCES = (HERE.parent / "language", HERE.parent / "recognition")
STALE_S = 7 * 86_400.0  # another process may still run what was there a while ago


def compiled(function: F) -> F:
    """Compile a function that needs nothing of the interpreter, so that others run beside it."""
    return _compiled(function)


def compiled_inline(function: F) -> F:
    """The same, for a line or two that are to stand where they are called."""
    return _compiled(function, inline="always")


def _compiled(function: F, **options: str) -> F:
    found = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _folder()  # looked up now, not when the function is called
    try:
        decorated: F = numba.njit(cache=True, nogil=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = found
    return decorated


@functools.cache
def _folder() -> str:
    """Where what is compiled of these very sources is kept; numba finds another place if it must."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in SOURCES for path in folder.rglob("*.py")):
        digest.update(path.read_bytes())
    folder = HERE / "__pycache__" / f"compiled-{digest.hexdigest()[:16]}"
    if not folder.exists():
        for other in folder.parent.glob("compiled-*"):
            if time.time() - other.stat().st_mtime > STALE_S:
                shutil.rmtree(other, ignore_errors=True)
    return str(folder)
