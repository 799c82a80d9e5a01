"""Print the library's log on standard error; `asr --verbose` and `--quiet` set how much of it."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys

LOGGERS = ("asr", "data_pipeline", "multigpu")


def add_log_arguments(parser: argparse.ArgumentParser, *, default: object) -> None:
    """Declare `--verbose` and `--quiet`.

    Args:
        parser: of the program, or of a command, which accepts them as well.
        default: of both; `argparse.SUPPRESS` for a command, so that options given before it are kept.
    """
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--verbose", action="store_true", default=default, help="log details as well")
    group.add_argument("--quiet", action="store_true", default=default, help="log warnings only")


def start_logging(*, verbose: bool, quiet: bool) -> None:
    """Print the library's log in the terminal, in lines above a progress bar."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)
        if not any(isinstance(handler, TerminalHandler) for handler in logger.handlers):
            logger.addHandler(TerminalHandler())


class TerminalHandler(logging.Handler):
    """A handler that writes each record as a line; the line of a warning begins with its level."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record to standard error; a closed pipe or a full disk does not end training."""
        line = record.getMessage()
        if record.levelno >= logging.WARNING:
            line = f"{record.levelname.lower()}: {line}"
        with contextlib.suppress(OSError):
            if "tqdm" in sys.modules:
                sys.modules["tqdm"].tqdm.write(line, file=sys.stderr)
            else:
                print(line, file=sys.stderr, flush=True)
