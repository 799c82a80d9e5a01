"""Each module implements one command: it declares the arguments, calls the library and prints the result.

TensorFlow is imported only when a command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.shards import is_manifest_name
from asr.base.system.storage.address import refuse_address

PAGES = Path("pages")
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
        help=f"change settings, such as {example}; several are separated by spaces",
    )


def default_page(name: str) -> Path:
    """Return where a page goes that is written again and again: into `pages`, which Git ignores.

    Raises:
        UserError: the folder cannot be written, or a file of another kind is in the page's place.
    """
    from asr.base.system.files import whole_file
    from asr.pages.page import is_page

    path = PAGES / name
    if os.path.lexists(path) and not is_page(path, name):
        raise UserError(f"{path}: is a file of another kind; move it, or name the page with --html")
    with whole_file(PAGES / ".gitignore", "list") as file:  # fails here, not after minutes of work
        file.write(b"*\n")
    return path


def refuse_overwriting(option: str, target: Path, manifests: Sequence[Path]) -> None:
    """Raise a UserError where a page or a report would overwrite a manifest, or be written to an address."""
    refuse_address(target, option)
    if is_manifest_name(target.name) or target.resolve() in {path.resolve() for path in manifests}:
        raise UserError(f"{option} {target}: is a manifest and would be overwritten; choose another file")
