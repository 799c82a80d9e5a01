"""Compile loops with numba at their first call, and cache them on disk for the next process.

@compilable
def total(values: Float32) -> float: ...

total(values)  # interpreted
compiled(total)(values)  # the first call in a process takes half a second, some seconds if the cache is empty
Gradual(total, budget=1000)(lambda: len(values), values)  # interpreted until a process has done so much work

The cache is in a folder of `asr.base.system.cache.cache_folder`.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy.typing as npt

from asr.base.system.cache import cache_folder

P = ParamSpec("P")
R = TypeVar("R")
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

    Numba itself invalidates a function when its own file changes, but not when one does that it calls into.
    """
    import numba

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


_registering = threading.Lock()
_waiting: list[tuple[Any, bool]] = []  # functions that numba does not know of yet, and whether to inline them
_compiled: dict[Any, Any] = {}


@functools.cache
def _options() -> dict[str, bool]:
    return {"cache": _choose_folder(), "nogil": True, "no_cfunc_wrapper": True}


def compilable(function: F) -> F:
    """Return a function as it is, after a note that compiled functions may call it.

    It must need nothing of the interpreter.
    """
    _waiting.append((function, False))
    return function


def compilable_inline(function: F) -> F:
    """Do what `compilable` does for a small function, which is inlined where it is called."""
    _waiting.append((function, True))
    return function


def compiled(function: F) -> F:
    """Return a function that `compilable` knows in its compiled form; it releases the GIL while it runs."""
    found = _compiled.get(function)
    return cast(F, _with_numba(function) if found is None else found)


def _with_numba(function: Callable[..., object]) -> Any:
    import numba
    from numba.extending import register_jitable

    with _registering:
        while _waiting:
            callee, inline = _waiting.pop()
            register_jitable(**_options(), forceinline=inline)(callee)
        return _compiled.setdefault(function, numba.njit(**_options())(function))


class Gradual(Generic[P, R]):
    """A `compilable` function that is interpreted for little work, so that a short process starts sooner.

    It must compute the same to the bit when it is interpreted: NumPy keeps single precision where a Python
    number is added to it, numba does not.

    Args:
        function: the function.
        budget: work that a process interprets before it compiles; none once it has compiled anything, since
            most of the time is that of the import of numba.
    """

    def __init__(self, function: Callable[P, R], budget: int) -> None:
        self.function, self.budget = function, budget
        self._lock, self._spent = threading.Lock(), 0

    def __call__(self, work: Callable[[], int], *arguments: P.args, **named: P.kwargs) -> R:
        """Return what the function returns, which does not depend on how it is run.

        Args:
            work: returns how much work it is; not called once anything is compiled.
            arguments: of the function.
            named: of the function.
        """
        is_little = not _compiled and self._is_in_budget(work())
        return (self.function if is_little else compiled(self.function))(*arguments, **named)

    def _is_in_budget(self, work: int) -> bool:
        with self._lock:
            self._spent += work
            return self._spent <= self.budget


@compilable_inline
def copy_into(target: Array, values: Array) -> None:
    """Copy values into an array of the same length.

    `target[:] = values` takes ten times as long to compile: its error message formats the two shapes.
    """
    for index in range(len(values)):
        target[index] = values[index]
