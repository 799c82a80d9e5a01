"""Loops that are compiled by numba at their first call, and kept on the disk for the next process.

@compiled
def total(values: Float32) -> float: ...

Numba itself keeps what it compiled until the file that holds the function changes. But what the function
calls, and the constants that it reads, may be in other files: all is compiled again when any of these has
changed.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numba

F = TypeVar("F", bound=Callable[..., object])

HERE = Path(__file__).parent
PACKAGE = HERE.parent
IMPORT = re.compile(rb"^(?:from|import) (asr[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE)
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


def sources(package: Path = PACKAGE) -> list[Path]:
    """Return the files that compiled functions are made of: those with some, and all that these import.

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
    """The files that a module may import at its top; those that are not there are names in modules."""
    for module, names in IMPORT.findall(text):
        folder = package.parent.joinpath(*module.decode().split("."))
        yield folder.with_suffix(".py")
        yield folder / "__init__.py"
        yield from (folder / f"{name.decode()}.py" for name in re.findall(rb"\w+", names))


@functools.cache
def _folder() -> str:
    """Where what is compiled of these very sources is kept; numba finds another place if it must."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.read_bytes())
    folder = HERE / "__pycache__" / f"compiled-{digest.hexdigest()[:16]}"
    if not folder.exists():
        for other in folder.parent.glob("compiled-*"):
            if time.time() - other.stat().st_mtime > STALE_S:
                shutil.rmtree(other, ignore_errors=True)
    return str(folder)
