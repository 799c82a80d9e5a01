"""Compile loops with numba at their first call, and cache them on disk for the next process.

@compiled
def total(values: Float32) -> float: ...

Numba's own cache is invalidated only when the file that holds the function changes. But what the function
calls, and the constants that it reads, may be in other files: here a change to any of them recompiles all.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy.typing as npt

F = TypeVar("F", bound=Callable[..., object])
Array = npt.NDArray[Any]

HERE = Path(__file__).parent
PACKAGE = HERE.parent
IMPORT = re.compile(rb"^(?:from|import) (asr[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE)
STALE_S = 7 * 86_400.0  # a process that started earlier may still use an old cache


def compiled(function: F) -> F:
    """Compile a function that does not need the interpreter; it releases the GIL while it runs."""
    return _compiled(function)


def compiled_inline(function: F) -> F:
    """Compile a small function as `compiled` does, inlined where it is called."""
    return _compiled(function, inline="always")


def _compiled(function: F, **options: str) -> F:
    found = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _folder()  # looked up now, not when the function is called
    try:
        decorated: F = numba.njit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = found
    compile_or_load = decorated.compile  # type: ignore[attr-defined]

    @functools.wraps(compile_or_load)
    def compile_once(argument_types: tuple[Any, ...]) -> object:
        with _other_processes_waiting():
            # numba compiles again for every constant that a caller passes
            return compile_or_load(tuple(numba.types.unliteral(one) for one in argument_types))

    decorated.compile = compile_once  # type: ignore[attr-defined]
    return decorated


@contextlib.contextmanager
def _other_processes_waiting() -> Iterator[None]:
    """Let processes that need the same function wait until this one has compiled it, and then load it.

    Without flock(2), each of them compiles it.
    """
    with contextlib.ExitStack() as held:
        if not _waiting.depth:
            with contextlib.suppress(ImportError, OSError):
                import fcntl

                folder = Path(_folder())
                folder.mkdir(parents=True, exist_ok=True)
                file = held.enter_context((folder / ".lock").open("a+"))
                fcntl.flock(file, fcntl.LOCK_EX)
        _waiting.depth += 1
        try:
            yield
        finally:
            _waiting.depth -= 1


class _Waiting(threading.local):
    """Counts the compilations in progress in a thread: a function compiles those that it calls."""

    depth = 0


_waiting = _Waiting()


def sources(package: Path = PACKAGE) -> list[Path]:
    """Return the files that contain compiled functions, and all files that these import.

    Args:
        package: the folder of asr.
    """
    texts = {path: path.read_bytes() for path in package.rglob("*.py")}
    left = [path for path, text in texts.items() if b"from asr.base.compiled import" in text]
    found: set[Path] = set()
    while left:
        path = left.pop()
        if path in texts and path not in found:
            found.add(path)
            left += _imported(texts[path], package)
    return sorted(found)


def _imported(text: bytes, package: Path) -> Iterator[Path]:
    """Yield the files that a module may import at its top; some of the names are not modules."""
    for module, names in IMPORT.findall(text):
        folder = package.parent.joinpath(*module.decode().split("."))
        yield folder.with_suffix(".py")
        yield folder / "__init__.py"
        yield from (folder / f"{name.decode()}.py" for name in re.findall(rb"\w+", names))


@functools.cache
def _folder() -> str:
    """Return the cache folder for the present sources; numba chooses another if it is not writable."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.read_bytes())
    folder = HERE / "__pycache__" / f"compiled-{digest.hexdigest()[:16]}"
    if not folder.exists():
        for other in folder.parent.glob("compiled-*"):
            if time.time() - other.stat().st_mtime > STALE_S:
                shutil.rmtree(other, ignore_errors=True)
    return str(folder)


@compiled_inline
def copy_into(target: Array, values: Array) -> None:
    """Copy values into an array of the same length.

    `target[:] = values` takes ten times as long to compile: its error message formats the two shapes.
    """
    for index in range(len(values)):
        target[index] = values[index]
