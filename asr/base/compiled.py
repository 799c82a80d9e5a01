"""Compile loops with numba at their first call, and cache them on disk for the next process.

@compiled
def total(values: Float32) -> float: ...

The cache is in a folder of `asr.base.system.cache.cache_folder`.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy.typing as npt

from asr.base.system.cache import cache_folder

F = TypeVar("F", bound=Callable[..., object])
Array = npt.NDArray[Any]

PACKAGE = Path(__file__).parent.parent
ROOMS = ("base", "ctc", "language")  # all compiled loops, and all that these import
STALE_S = 7 * 86_400.0  # a process that started earlier may still use an old cache

logger = logging.getLogger(__name__)


def sources() -> list[Path]:
    """Return the files that contain compiled functions, and all files that these import."""
    return sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py"))


def _choose_folder() -> bool:
    """Set numba's cache to a folder for the present sources; return whether it can be written.

    Numba alone invalidates a function when its own file changes, but not when one does that it calls into.
    """
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.read_bytes())
    try:
        folder = cache_folder() / f"compiled-{digest.hexdigest()[:16]}"
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        logger.warning("%s; loops are compiled again in each process: set NUMBA_CACHE_DIR to a folder", error)
        return False
    for other in folder.parent.glob("compiled-*"):
        if other != folder and time.time() - other.stat().st_mtime > STALE_S:
            shutil.rmtree(other, ignore_errors=True)
    numba.config.CACHE_DIR = str(folder)
    return True


_OPTIONS = {"cache": _choose_folder(), "nogil": True, "no_cfunc_wrapper": True}


def compiled(function: F) -> F:
    """Compile a function that does not need the interpreter; it releases the GIL while it runs."""
    return cast(F, numba.njit(**_OPTIONS)(function))


def compiled_inline(function: F) -> F:
    """Compile a small function as `compiled` does, inlined where it is called."""
    return cast(F, numba.njit(**_OPTIONS, inline="always")(function))


@compiled_inline
def copy_into(target: Array, values: Array) -> None:
    """Copy values into an array of the same length.

    `target[:] = values` takes ten times as long to compile: its error message formats the two shapes.
    """
    for index in range(len(values)):
        target[index] = values[index]
