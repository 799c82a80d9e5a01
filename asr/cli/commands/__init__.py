"""Each module implements one command: it declares the arguments, calls the library and prints the result.

TensorFlow is imported only when a command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from asr.base.errors import UserError

EXIT_MISTAKE = 2  # a mistake of the user, printed as one line
EXIT_SIGNAL = 128  # plus the number of the signal that ended the command
EXIT_NO_READER = 141  # 128 + SIGPIPE: the reader of a pipe has closed it


def add_override_argument(parser: argparse.ArgumentParser, example: str) -> None:
    """Declare `--set`, which overrides settings."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        dest="overrides",
        help=f"change one setting, such as {example}; may be repeated",
    )


def default_page(path: Path) -> Path:
    """Return the first of `doctor.html`, `doctor-2.html`, ... that is free or an earlier page of its kind."""
    from asr.pages.page import is_page

    numbered = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
    names = itertools.chain([path], numbered)
    return next(name for name in names if not os.path.lexists(name) or is_page(name, path.name))


def refuse_overwriting(option: str, target: Path, manifests: Sequence[Path]) -> None:
    """Raise a UserError where a page or a report would overwrite a manifest."""
    if target.suffix == ".jsonl" or target.resolve() in {path.resolve() for path in manifests}:
        raise UserError(f"{option} {target}: is a manifest and would be overwritten; choose another file")
