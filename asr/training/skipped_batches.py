"""Batches that are skipped because their loss or gradients are not finite: what is reported of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from asr.base.config import TrainConfig
from asr.base.types import UserError, Utterance
from asr.base.wording import listed

MAX_LISTED = 3
HIGHEST_SENSIBLE_RATE = 0.01
NUM_REPORTED_EACH = 3


@dataclass(frozen=True)
class SkippedBatch:
    """A batch that changed nothing.

    Attributes:
        loss: its mean.
        gradient_norm: before clipping.
        utterances: its rows.
        epoch: from 1.
        num_skipped: batches skipped in the run so far, this one included.
        learning_rate: at this step.
    """

    loss: float
    gradient_norm: float
    utterances: Sequence[Utterance]
    epoch: int
    num_skipped: int
    learning_rate: float

    def describe(self) -> str:
        """Return what happened, in words, without the names of the utterances."""
        return f"epoch {self.epoch}: {self._what()} at a learning rate of {self.learning_rate:.3g}"

    def _what(self) -> str:
        if not math.isfinite(self.loss):
            return f"the loss became {self.loss}"
        return f"the loss was {self.loss:.2f}, but the norm of its gradients {self.gradient_norm}"


def is_reported(num_skipped: int) -> bool:
    """Return whether a skipped batch has a line of its own: the first few, then 10, 20, 40 ..."""
    if num_skipped <= NUM_REPORTED_EACH:
        return True
    tens, rest = divmod(num_skipped, 10)
    return rest == 0 and tens.bit_count() == 1


def skipped_line(batch: SkippedBatch, max_skipped: int) -> str:
    """Return a line that names a skipped batch.

    Args:
        batch: the latest.
        max_skipped: how many a run may skip.
    """
    line = (
        f"{batch.describe()}; the batch is skipped ({batch.num_skipped} of at most {max_skipped}): "
        f"{_named(batch.utterances)}"
    )
    if batch.num_skipped == NUM_REPORTED_EACH:
        line += "; only some of the next ones are reported"
    return line


def skipped_too_often(batch: SkippedBatch, repeated: Sequence[Utterance], config: TrainConfig) -> UserError:
    """Return the error that ends a run which has skipped more batches than it may.

    Args:
        batch: the latest.
        repeated: those of its utterances that were in a skipped batch before.
        config: its `max_skipped` is exceeded.
    """
    lower = lower_rate(config.learning_rate)
    remedy = (
        f"start another run under another `name` with train.learning_rate={lower:g} instead of "
        f"{config.learning_rate:g}"
    )
    # where most come again, nothing speaks against any one of them
    if 0 < len(repeated) <= max(1, len(batch.utterances) // 2):
        remedy = (
            f"listen to what was skipped before as well and leave it out: {_named(repeated)}; else {remedy}"
        )
    return UserError(
        f"{batch.describe()}, for the {_ordinal(batch.num_skipped)} time, and train.max_skipped is "
        f"{config.max_skipped}; the latest batch: {_named(batch.utterances)}. To mend it, {remedy}"
    )


def lower_rate(learning_rate: float) -> float:
    """Return one to try in place of a learning rate that is too high."""
    return min(float(f"{learning_rate / 3:.0e}"), HIGHEST_SENSIBLE_RATE)


def _named(utterances: Sequence[Utterance]) -> str:
    return listed([f"{u.id} ({u.audio_path})" for u in utterances], MAX_LISTED)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
