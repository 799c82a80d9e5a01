"""Averages the best epochs of a run into a new run, and compares it with the chosen epoch on the dev set."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.errors import UserError
from asr.base.system.files import refuse_existing
from asr.base.system.storage.address import path_of, refuse_address
from asr.base.work import OnProgress, ignore_progress
from asr.runs.average import average_best, write_average
from asr.runs.origin import AverageOrigin, write_origin
from asr.runs.run import Run

if TYPE_CHECKING:
    from asr.evaluation.evaluator import Evaluation
    from data_pipeline.batches.dataset import Dataset

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AveragedRun:
    """An averaged run and how it compares with the chosen epoch on the dev set.

    Attributes:
        run: the new run, which decodes like any other.
        epochs: those that were averaged.
        chosen_epoch: the epoch that the original run decodes with.
        manifest: the dev set.
        alone: evaluation of the chosen epoch.
        together: evaluation of the average.
    """

    run: Run
    epochs: tuple[int, ...]
    chosen_epoch: int
    manifest: Path
    alone: Evaluation
    together: Evaluation


def average_run(
    run: str | Path, best: int = 5, out: str | Path | None = None, on_progress: OnProgress = ignore_progress
) -> AveragedRun:
    """Average the weights of the epochs with the lowest dev error into a new run directory.

    Args:
        run: directory of the run; at least two of its epochs have checkpoints.
        best: how many of the epochs with checkpoints to average.
        out: the new run directory; None for RUN-averageN beside the run.
        on_progress: receives the progress of checking the dev set.

    Raises:
        UserError: there are not enough checkpoints, or the directory exists or cannot be written.
    """
    from asr.evaluation.data import evaluation_data
    from asr.runs.checkpoint import read_checkpoint

    if best < 2:
        raise UserError(f"`best={best}`: expected 2 or more epochs to average")
    original = Run.open(run)
    directory = path_of(run)
    directory = directory if directory.name not in ("", "..") else directory.resolve()
    target = _free(path_of(out)) if out else None
    average = average_best(original, best)
    target = target or _free(directory.with_name(f"{directory.name}-average{len(average.epochs)}"))
    write_average(original, average, target)
    epochs = tuple(sorted(average.epochs))
    logger.info("%s: the average of epochs %s", target, ", ".join(map(str, epochs)))
    made = Run.open(target)
    manifest = path_of(original.config().data.dev)
    data, _ = evaluation_data(manifest, original.vocabulary(), on_progress)
    alone, together = _greedy_evaluation(original, data), _greedy_evaluation(made, data)
    origin = AverageOrigin(str(original.directory), average.epochs, together.edits.rate)
    write_origin(made.directory, origin)
    chosen_epoch = read_checkpoint(original.chosen_checkpoint(), ()).progress.epochs_done
    return AveragedRun(made, epochs, chosen_epoch, manifest, alone, together)


def _free(target: Path) -> Path:
    """Return the path of a new run; a UserError if it is an address, or exists."""
    refuse_address(target, "`out`")
    refuse_existing(target)
    return target


def _greedy_evaluation(run: Run, data: Dataset) -> Evaluation:
    from asr.evaluation.evaluator import Evaluator
    from asr.transcription.recognizer import Recognizer

    recognizer = Recognizer.of_run(run)
    return Evaluator(recognizer.runner, recognizer.vocabulary).evaluate(data)
