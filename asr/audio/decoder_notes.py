"""Log what libsndfile's MP3 decoder writes to standard error, which would break into a command's own lines.

libmpg123 notes each damaged frame there, without the file's name, and libsndfile has no setting against it.
It writes to C's `stderr`, which the GNU C library lets a program set like any variable
(https://sourceware.org/glibc/manual/latest/html_node/Standard-Streams.html): Python's own lines, and those of
processes that are started meanwhile, keep their way. With other C libraries the notes stay where they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import os
import re
import threading
from collections.abc import Iterator

logger = logging.getLogger(__name__)

NOTE = re.compile(rb"\s*|(Note|Warning|Error): .*|\[[^\]]*\.c:[^\]]*\] .*")


@contextlib.contextmanager
def decoder_notes_logged() -> Iterator[None]:
    """Log the notes written while libsndfile decodes, at the level of debugging; any thread may do so."""
    redirection = _redirection()
    if redirection is None:
        yield
        return
    redirection.begin()
    try:
        yield
    finally:
        redirection.end()


@functools.cache
def _redirection() -> _Redirection | None:
    """Return the redirection of this process; None where C's `stderr` cannot be set."""
    try:
        is_gnu = (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
        return _Redirection() if is_gnu else None
    except (AttributeError, OSError, ValueError):  # another system, or no file can be made in memory
        return None


class _Redirection:
    """Points C's `stderr` to a file in memory from the first `begin` to the last `end`.

    The file is never closed: another thread may be writing to it at any time.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        library.fdopen.restype = ctypes.c_void_p
        self._flush = library.fflush
        self._flush.argtypes = [ctypes.c_void_p]
        self._fd = os.memfd_create("decoder notes")
        self._stderr = ctypes.c_void_p.in_dll(library, "stderr")
        self._in_memory = library.fdopen(self._fd, b"a")
        self._original = self._stderr.value
        self._lock, self._num_decoding = threading.Lock(), 0

    def begin(self) -> None:
        with self._lock:
            if not self._num_decoding:
                self._original, self._stderr.value = self._stderr.value, self._in_memory
            self._num_decoding += 1

    def end(self) -> None:
        with self._lock:
            self._num_decoding -= 1
            if self._num_decoding:
                return
            self._stderr.value = self._original
            written = self._taken()
        for line in written.splitlines(keepends=True):
            if NOTE.fullmatch(line.rstrip(b"\r\n")):
                logger.debug("libmpg123: %s", line.decode(errors="replace").strip())
            else:  # of another library, in another thread
                os.write(2, line)

    def _taken(self) -> bytes:
        """Return what was written since the last call."""
        self._flush(self._in_memory)
        written = os.pread(self._fd, os.fstat(self._fd).st_size, 0)
        if written:
            os.ftruncate(self._fd, 0)
        return written
