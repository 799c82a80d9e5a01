"""Keep what takes long to make on the disk, for the next process of this machine.

The cache is in `~/.cache/polyphone`, or in the folder `polyphone` of XDG_CACHE_HOME or NUMBA_CACHE_DIR.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def cache_folder() -> Path:
    """Return the folder of the cache, which may not exist.

    Raises:
        RuntimeError: the user has no home.
    """
    folder = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(folder).expanduser() / "polyphone"


def cached_array(name: str, size: int, make: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return an array from the cache, memory-mapped and read-only, and make it if it is not there.

    Args:
        name: of the file, without its suffix; another one for each version of the contents.
        size: number of elements, by which a damaged file is recognized.
        make: returns the array; where the cache cannot be written, it does so in each process.
    """
    with contextlib.suppress(OSError, RuntimeError, ValueError, EOFError):
        array: npt.NDArray[Any] = np.load(cache_folder() / f"{name}.npy", mmap_mode="r")
        if array.size == size:
            return array
    array = make()
    with contextlib.suppress(OSError, RuntimeError):
        _write(cache_folder() / f"{name}.npy", array)
    return array


def _write(path: Path, array: npt.NDArray[Any]) -> None:
    """Write an array under a name of its own first: several processes may write it at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            np.save(file, array)
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
