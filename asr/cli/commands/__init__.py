"""What each command does, a module a command. They compose the packages, as `train.py` does.

TensorFlow is imported when they run: `--help` answers at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from asr.base.types import UserError

EXIT_MISTAKE = 2  # of the user's, told in a line each
EXIT_SIGNAL = 128  # and the number of the signal that ended the command
EXIT_NO_READER = 141


def add_override_argument(parser: argparse.ArgumentParser, example: str) -> None:
    """Declare `--set`."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        dest="overrides",
        help=f"change one setting, such as {example}; may be repeated",
    )


def refuse_overwriting(option: str, target: Path, manifests: Sequence[Path]) -> None:
    """Raise a UserError where a page or a report would take a manifest's place."""
    if target.suffix == ".jsonl" or target.resolve() in {path.resolve() for path in manifests}:
        raise UserError(f"{option} {target}: a manifest, which would be written over; name another file")
