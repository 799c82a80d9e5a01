"""`asr average`: one model from the best checkpoints of a run, measured on dev beside the best single one."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.types import UserError
from asr.cli.commands.evaluate import evaluation_data
from asr.model.devices import start_devices

if TYPE_CHECKING:
    from asr.evaluation.evaluator import Evaluation
    from asr.runs.average import Average
    from asr.runs.run import Run
    from data_pipeline.dataset import Dataset

DESCRIPTION = (
    "Average the weights of the epochs with the lowest dev error into a run directory of its own, which "
    "`asr transcribe` and `asr evaluate` take. The means and variances of batch normalisation are averaged "
    "as well; they are not computed anew on the training set."
)


def add_average_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.description = DESCRIPTION
    parser.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    parser.add_argument(
        "--best", type=int, default=5, metavar="K", help="so many epochs, of those that are kept (default: 5)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the new run directory (default: RUN-averageK beside RUN)"
    )


def average_command(arguments: argparse.Namespace) -> int:
    """Average, write, and evaluate on dev; returns the exit status."""
    from asr.runs.average import average_best, refuse_existing, write_average
    from asr.runs.run import Run

    if arguments.best < 2:
        raise UserError(f"--best {arguments.best}: expected 2 or more epochs to average")
    run = Run.open(arguments.run)
    target = arguments.out or _beside(arguments.run, arguments.best)
    refuse_existing(target)
    average = average_best(run, arguments.best, lambda line: print(line, file=sys.stderr))
    write_average(run, average, target)
    epochs = ", ".join(str(epoch) for epoch in sorted(average.epochs))
    print(f"{target}: the average of epochs {epochs}", flush=True)
    _evaluate(run, average, Run.open(target))
    return 0


def _beside(run: Path, num_best: int) -> Path:
    directory = run if run.name not in ("", "..") else run.resolve()
    return directory.with_name(f"{directory.name}-average{num_best}")


def _evaluate(run: Run, average: Average, made: Run) -> None:
    """Tell the error rates of the average and of what the run decodes with, on dev."""
    from asr.evaluation.metrics import token_name
    from asr.runs.average import Origin, write_origin
    from asr.runs.resume_command import asr_command

    manifest = Path(run.config().data.dev)
    start_devices()
    data, _ = evaluation_data(manifest, run.vocabulary())
    alone, together = _evaluation(run, data), _evaluation(made, data)
    write_origin(made.directory, Origin(str(run.directory), average.epochs, together.edits.rate))

    unit = token_name(data.utterances)
    print(f"\n{manifest}: {len(data.utterances):,} utterances\n")
    print(f"  {'':<28}{unit} error rate   loss")
    for name, evaluation in {
        f"the best epoch alone, {_epoch_of(run)}": alone,
        f"the average of {len(average.epochs)} epochs": together,
    }.items():
        print(f"  {name:<28}{evaluation.edits.rate:>{len(unit) + 11}.2%}{evaluation.loss:>7.3g}")
    if together.edits.rate > alone.edits.rate:
        print("\nThe average is no better here: rather decode with the run itself.")
    print("\nDecode with the average as with any run:\n")
    print(f"    {asr_command()} transcribe {shlex.quote(str(made.directory))} RECORDING")


def _epoch_of(run: Run) -> int:
    """The epoch that a run decodes with."""
    from asr.runs.checkpoint import read_checkpoint

    return read_checkpoint(run.best_checkpoint(), ()).progress.epochs_done


def _evaluation(run: Run, data: Dataset) -> Evaluation:
    from asr.base.decoder_settings import DecoderSettings
    from asr.evaluation.evaluator import Evaluator
    from asr.recognition.recognizer import Recognizer

    recognizer = Recognizer.load(run.directory, settings=DecoderSettings(), write_hanzi=False)
    return Evaluator(recognizer.listener, recognizer.vocabulary).evaluate(data)
