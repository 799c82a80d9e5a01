"""Outlive the terminal: what is printed after its window was closed goes nowhere, and is no error."""

from __future__ import annotations

import errno
import io
import sys
from typing import TYPE_CHECKING

from typing_extensions import override

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Terminal(io.FileIO):
    """A stream to a terminal, which may vanish.

    A training whose terminal is closed still has to save its state, whatever it prints meanwhile.
    """

    @override
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return memoryview(data).nbytes


class _Buffer(io.BufferedWriter):
    """A stream that was replaced."""


def survive_hangup() -> None:
    """Let `sys.stdout` and `sys.stderr`, where they are terminals, be written to after these are closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not (isinstance(stream, io.TextIOWrapper) and stream.isatty()) or isinstance(
            stream.buffer, _Buffer
        ):
            continue
        stream.flush()
        buffer = _Buffer(Terminal(stream.fileno(), "w", closefd=False))
        outliving = io.TextIOWrapper(buffer, stream.encoding, stream.errors, line_buffering=True)
        setattr(sys, name, outliving)
