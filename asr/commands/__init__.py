"""What each command does, a module a command. They compose the packages, as `train.py` does.

TensorFlow is imported when they run: `--help` answers at once.
"""

from __future__ import annotations

import argparse

EXIT_MISTAKE = 2  # of the user's, told in a line each
EXIT_INTERRUPTED = 130
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
