"""`asr export` writes a model for other runtimes, and compares it with the trained model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.model_files.model_file import FORMAT, SUFFIX
from asr.base.registry import EXPORT_FORMATS
from asr.export.exporting import DEFAULT_FORMAT, ParityError, export, format_of
from asr.export.format import Card

if TYPE_CHECKING:
    from asr.export.parity import Parity

EXIT_DIFFERENT = 1  # the exported model is not the trained one

DESCRIPTION = (
    "Write a run's model as a folder for other runtimes, run it on the test clips, and compare it "
    "with the trained model. A model that differs too much is not written, and the exit status is 1."
)


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description = DESCRIPTION
    parser.add_argument("run", help="a run directory, such as runs/demo, a model file, or its address")
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="the folder to make, or the model file, NAME.polyphone"
    )
    formats = "; ".join(f"{name}: {format_of(name).about}" for name in EXPORT_FORMATS)
    parser.add_argument(
        "--format",
        choices=list(EXPORT_FORMATS),
        help=f"{formats} (default: {DEFAULT_FORMAT}, or polyphone if OUT ends in {SUFFIX})",
    )
    parser.add_argument(
        "--quantize",
        choices=["int8", "float16"],
        default="",
        help="make the file smaller, at a cost that is measured; float16 is for polyphone, int8 for others",
    )
    parser.add_argument(
        "--clips", type=int, metavar="N", help="number of clips to compare on (default: all of the test set)"
    )
    parser.add_argument(
        "--manifest", type=Path, help="clips to compare on (default: the test set of the run)"
    )
    group = parser.add_argument_group("card", "what the card of --format polyphone says besides error rates")
    group.add_argument("--license", dest="licence", metavar="TEXT", help="licence of the weights")
    group.add_argument(
        "--card",
        type=Path,
        metavar="FILE",
        help="Markdown for the end of the card: from whom the model learned, what it cannot do",
    )
    group.add_argument(
        "--fine-tuning-only",
        action="store_true",
        help="the model is for train.init_from and known text, and does not recognize well enough as it is",
    )


def export_command(arguments: argparse.Namespace) -> int:
    """Export, print how the result compares with the trained model, and return the exit status."""
    from asr.cli.progress_bars import ProgressBars

    try:
        with ProgressBars() as bars:
            exported = export(
                arguments.run,
                arguments.out,
                arguments.format or (FORMAT if arguments.out.suffix == SUFFIX else DEFAULT_FORMAT),
                quantize=arguments.quantize,
                manifest=arguments.manifest,
                clips=arguments.clips,
                card=_card(arguments),
                on_progress=bars,
            )
    except ParityError as error:
        _print_parity(error.parity)
        print(f"\n{error}")
        return EXIT_DIFFERENT
    _print_parity(exported.parity)
    if exported.folder.is_dir():
        print(f"\n{exported.folder}: written; its README.md says how to use it")
        return 0
    from asr.base.model_files.model_file import digest_of

    print(
        f"\n{exported.folder}: written, in place of a run; its address, once it is published, is\n"
        f"    https://HOST/{exported.folder.name}#sha256={digest_of(exported.folder)}"
    )
    return 0


def _card(arguments: argparse.Namespace) -> Card | None:
    """Return what the options say about the model; None without any of them."""
    from asr.base.system.files import read_lines

    if not (arguments.licence or arguments.card or arguments.fine_tuning_only):
        return None
    text = "\n".join(read_lines(arguments.card, "card")) if arguments.card else ""
    return Card(arguments.licence or "", text, not arguments.fine_tuning_only)


def _print_parity(parity: Parity) -> None:
    from asr.base.text.terminal_table import align_columns
    from asr.base.text.wording import counted
    from asr.export.parity import parity_rows

    print(f"\n{counted(parity.num_clips, 'clip')} of {parity.manifest}\n")
    for line in align_columns(parity_rows(parity), right_from=1):
        print(f"  {line}")
