"""Batches that are left out because their loss or gradients are not finite: what is told of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from asr.base.config import TrainConfig
from asr.base.types import UserError, Utterance

NUM_NAMED = 3
HIGHEST_SENSIBLE_RATE = 0.01
NUM_TOLD_EACH = 3


def is_told(num_skipped: int) -> bool:
    """Whether a skipped batch has a line of its own: the first few, then 10, 20, 40 ..."""
    if num_skipped <= NUM_TOLD_EACH:
        return True
    tens, rest = divmod(num_skipped, 10)
    return rest == 0 and tens.bit_count() == 1


def skipped_line(
    loss: float,
    gradient_norm: float,
    utterances: Sequence[Utterance],
    epoch: int,
    num_skipped: int,
    max_skipped: int,
    learning_rate: float,
) -> str:
    """Names a skipped batch.

    Args:
        loss: of the batch.
        gradient_norm: of the batch.
        utterances: of the batch.
        epoch: from 1.
        num_skipped: in the run so far, this one included.
        max_skipped: the budget.
        learning_rate: at this step.
    """
    line = (
        f"epoch {epoch}: {_infinite(loss, gradient_norm)} at a learning rate of {learning_rate:.3g}; the "
        f"batch is skipped ({num_skipped} of at most {max_skipped}): {_named(utterances)}"
    )
    if num_skipped == NUM_TOLD_EACH:
        line += "; of further ones only some are told"
    return line


def skipped_too_often(
    loss: float,
    gradient_norm: float,
    utterances: Sequence[Utterance],
    repeated: Sequence[Utterance],
    epoch: int,
    num_skipped: int,
    config: TrainConfig,
    learning_rate: float,
) -> UserError:
    """The end of a run whose budget is spent.

    Args:
        loss: of the latest batch.
        gradient_norm: of the latest batch.
        utterances: of the latest batch.
        repeated: those of them that were in a skipped batch before.
        epoch: from 1.
        num_skipped: in the run, the latest included.
        config: whose `max_skipped` is spent.
        learning_rate: at this step.
    """
    lower = lower_rate(config.learning_rate)
    remedy = (
        f"start another run under --name NAME with train.learning_rate={lower:g} instead of "
        f"{config.learning_rate:g}"
    )
    # where most come again, nothing speaks against any one of them
    if 0 < len(repeated) <= max(1, len(utterances) // 2):
        remedy = (
            f"listen to what was skipped before as well and leave it out: {_named(repeated)}; else {remedy}"
        )
    return UserError(
        f"epoch {epoch}: {_infinite(loss, gradient_norm)} at a learning rate of {learning_rate:.3g}, for the "
        f"{_ordinal(num_skipped)} time, and train.max_skipped is {config.max_skipped}; the latest batch: "
        f"{_named(utterances)}. To mend it, {remedy}"
    )


def lower_rate(learning_rate: float) -> float:
    """One to try in place of a learning rate that is too high."""
    return min(float(f"{learning_rate / 3:.0e}"), HIGHEST_SENSIBLE_RATE)


def _infinite(loss: float, gradient_norm: float) -> str:
    if not math.isfinite(loss):
        return f"the loss became {loss}"
    return f"the loss was {loss:.2f}, but the norm of its gradients {gradient_norm}"


def _named(utterances: Sequence[Utterance]) -> str:
    named = ", ".join(f"{u.id} ({u.audio_path})" for u in utterances[:NUM_NAMED])
    more = len(utterances) - NUM_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
