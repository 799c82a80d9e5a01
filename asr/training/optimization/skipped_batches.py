"""Report batches that are skipped because their loss or gradients are not finite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from asr.base.config import TrainConfig
from asr.base.errors import UserError
from asr.base.text.wording import counted, listed
from asr.base.types import Utterance

MAX_LISTED = 3
HIGHEST_SENSIBLE_RATE = 0.01
NUM_REPORTED_EACH = 3


@dataclass(frozen=True)
class SkippedBatch:
    """A batch that was skipped and changed no weight.

    Attributes:
        loss: mean loss of the batch.
        gradient_norm: before clipping.
        utterances: the batch's rows.
        epoch: counted from 1.
        num_skipped: batches skipped in the run so far, including this one.
        learning_rate: at this step.
    """

    loss: float
    gradient_norm: float
    utterances: Sequence[Utterance]
    epoch: int
    num_skipped: int
    learning_rate: float

    def describe(self) -> str:
        """Return a description of what happened, without the names of the utterances."""
        cause = f"the loss is {self.loss}"
        if math.isfinite(self.loss):
            cause = f"the loss is {self.loss:.2f}, but the norm of its gradients is {self.gradient_norm}"
        return f"epoch {self.epoch}: {cause} at a learning rate of {self.learning_rate:.3g}"


def is_reported(num_skipped: int) -> bool:
    """Return whether a skipped batch is reported: the first few, then the 10th, 20th, 40th ..."""
    if num_skipped <= NUM_REPORTED_EACH:
        return True
    tens, rest = divmod(num_skipped, 10)
    return rest == 0 and tens.bit_count() == 1


def skipped_line(batch: SkippedBatch, max_skipped: int) -> str:
    """Return the line that reports a skipped batch.

    Args:
        batch: the latest skipped batch.
        max_skipped: number of batches that a run may skip.
    """
    line = (
        f"{batch.describe()}; the batch is skipped ({batch.num_skipped} of at most {max_skipped}): "
        f"{_named(batch.utterances)}"
    )
    if batch.num_skipped == NUM_REPORTED_EACH:
        line += "; only some of the next ones are reported"
    return line


def skipped_too_often(batch: SkippedBatch, repeated: Sequence[Utterance], config: TrainConfig) -> UserError:
    """Return the error that ends a run which has skipped more than `max_skipped` batches.

    Args:
        batch: the latest skipped batch.
        repeated: those of its utterances that were in a skipped batch before.
        config: the run's settings.
    """
    lower = lower_rate(config.learning_rate)
    remedy = (
        f"start another run under another `name` with train.learning_rate={lower:g} instead of "
        f"{config.learning_rate:g}"
    )
    # if most utterances were skipped before, none of them is suspicious
    if 0 < len(repeated) <= max(1, len(batch.utterances) // 2):
        remedy = (
            "listen to the utterances that were in skipped batches before, and leave them out if they are "
            f"damaged: {_named(repeated)}; otherwise {remedy}"
        )
    return UserError(
        f"{batch.describe()}; skipped: {counted(batch.num_skipped, 'batch', 'batches')}, train.max_skipped "
        f"is {config.max_skipped}; the latest batch: {_named(batch.utterances)}. To fix it, {remedy}"
    )


def lower_rate(learning_rate: float) -> float:
    """Return a learning rate to try instead of one that is too high."""
    return min(float(f"{learning_rate / 3:.0e}"), HIGHEST_SENSIBLE_RATE)


def _named(utterances: Sequence[Utterance]) -> str:
    return listed([f"{u.id} ({u.audio_path})" for u in utterances], MAX_LISTED)
