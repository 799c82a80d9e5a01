"""`asr average` averages a run's best checkpoints and compares the result on dev with the chosen epoch."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.text.wording import counted

if TYPE_CHECKING:
    from asr.evaluation.averaged_run import AveragedRun

DESCRIPTION = (
    "Average the weights of the epochs with the lowest dev error, and write them as a new run directory, "
    "which `asr transcribe` and `asr evaluate` accept. The means and variances of batch normalisation are "
    "averaged as well; they are not recomputed on the training set."
)


def add_average_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description = DESCRIPTION
    parser.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    parser.add_argument(
        "--best",
        type=int,
        default=5,
        metavar="K",
        help="number of epochs to average, of those whose checkpoints are kept (default: 5)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the new run directory (default: RUN-averageK beside RUN)"
    )


def average_command(arguments: argparse.Namespace) -> int:
    """Average checkpoints, evaluate the average on dev, and return the exit status."""
    from asr.cli.progress_bars import ProgressBars
    from asr.evaluation.averaged_run import average_run

    with ProgressBars() as bars:
        averaged = average_run(arguments.run, arguments.best, arguments.out, on_progress=bars)
    _print_comparison(averaged)
    return 0


def _print_comparison(averaged: AveragedRun) -> None:
    from asr.runs.resume_command import asr_command

    utterances = averaged.alone.utterances
    unit = averaged.alone.token
    print(f"\n{averaged.manifest}: {counted(len(utterances), 'utterance')}\n")
    print(f"  {'':<28}{unit} error rate   loss")
    for name, evaluation in {
        f"the chosen epoch alone, {averaged.chosen_epoch}": averaged.alone,
        f"the average of {len(averaged.epochs)} epochs": averaged.together,
    }.items():
        print(f"  {name:<28}{evaluation.edits.rate:>{len(unit) + 11}.2%}{evaluation.loss:>7.3g}")
    if averaged.together.edits.rate > averaged.alone.edits.rate:
        print("\nThe average is worse on this set: decode with the run itself.")
    print("\nDecode with the average as with any run:\n")
    print(f"    {asr_command()} transcribe {shlex.quote(str(averaged.run.directory))} RECORDING")
