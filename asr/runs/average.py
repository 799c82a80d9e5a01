"""Average the weights of a run's best epochs into one model, as fast as each of them and often better.

Averaging checkpoints is from Vaswani et al., 2017 (arXiv:1706.03762), section 6.1. The moving means and
variances of batch normalisation are averaged as well, not recomputed on the training set.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr.base.errors import UserError
from asr.runs.checkpoint import Arrays, Checkpoint, read_checkpoint
from asr.runs.origin import AverageOrigin, write_run
from asr.runs.progress import Progress, best_first
from asr.runs.run import Run

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Average:
    """The mean of the weights of several epochs.

    Attributes:
        weights: mean weights by the paths of variables.
        progress: progress of the run after the latest of these epochs.
        epochs: the averaged epochs, the one with the lowest dev error first.
    """

    weights: Arrays
    progress: Progress
    epochs: tuple[int, ...]


def average_best(run: Run, num_best: int) -> Average:
    """Average the epochs with the lowest dev error whose checkpoints are kept.

    A warning is logged for a checkpoint that cannot be read, and for a run that has too few.

    Args:
        run: a run of at least two epochs.
        num_best: number of epochs; all if there are fewer.

    Raises:
        UserError: fewer than two checkpoints can be read, or they are of different models.
    """
    mean = _Mean()
    kept = [metrics for metrics in run.metrics() if run.epoch_checkpoint(metrics.epoch).exists()]
    for metrics in best_first(kept):
        if len(mean.epochs) == num_best:
            break
        try:
            checkpoint = read_checkpoint(run.epoch_checkpoint(metrics.epoch), ("model", "ema"))
        except UserError as error:
            logger.warning("skipped a checkpoint: %s", error)
            continue
        mean.add(metrics.epoch, checkpoint)
    if len(mean.epochs) < 2:
        raise UserError(
            f"{run.directory}: expected the checkpoints of at least 2 epochs to average, received "
            f"{len(mean.epochs)}; train for more epochs, with a higher train.keep_best"
        )
    if len(mean.epochs) < num_best:
        logger.warning(
            "%s: only %d epochs have checkpoints to average; a higher train.keep_best keeps more",
            run.directory,
            len(mean.epochs),
        )
    return mean.result()


def write_average(run: Run, average: Average, target: Path) -> None:
    """Write a run directory with the average, completely or not at all; it decodes like any other.

    Args:
        run: the original run.
        average: the average of its weights.
        target: the new directory.

    Raises:
        UserError: the target exists, or cannot be written.
    """
    origin = AverageOrigin(str(run.directory), average.epochs)
    write_run(target, run.config(), run.vocabulary(), average.weights, origin, average.progress)


class _Mean:
    """A mean of weights in double precision."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self._sums: Arrays = {}
        self._latest: Checkpoint | None = None

    def add(self, epoch: int, checkpoint: Checkpoint) -> None:
        """Add the weights to decode with after an epoch."""
        weights = checkpoint.decoding_weights
        if self._latest and _shapes(weights) != _shapes(self._latest.decoding_weights):
            raise UserError(
                f"{checkpoint.path}: holds other variables than {self._latest.path}; remove the one that is "
                "from another run"
            )
        for name, value in weights.items():
            if np.issubdtype(value.dtype, np.floating):
                self._sums[name] = self._sums.get(name, 0.0) + value.astype(np.float64)
        if not self.epochs or epoch > max(self.epochs):
            self._latest = checkpoint
        self.epochs.append(epoch)

    def result(self) -> Average:
        """Return the mean in the precision of the weights; integers are those of the latest epoch."""
        assert self._latest
        weights = {
            name: (self._sums[name] / len(self.epochs)).astype(value.dtype) if name in self._sums else value
            for name, value in self._latest.decoding_weights.items()
        }
        return Average(weights, self._latest.progress, tuple(self.epochs))


def _shapes(weights: Arrays) -> dict[str, tuple[tuple[int, ...], str]]:
    return {name: (value.shape, value.dtype.str) for name, value in weights.items()}
