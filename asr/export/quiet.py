"""Hide what libraries written in C++ print to standard error where no Python code can stop them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Hide what is written to file descriptor 2 meanwhile; errors must be exceptions that say what it was."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
