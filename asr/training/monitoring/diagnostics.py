"""Watch for signs of trouble in training; each is reported in one line with its remedy, once per run.

diagnostics = Diagnostics(config.train, warmup_steps)
for line in diagnostics.after_epoch(history, edits):
    logger.warning(line)
checkpoint(reported=diagnostics.reported)  # a resumed run: Diagnostics(config.train, warmup_steps, reported)

The reports follow from the epochs' metrics only, so that a resumed run reports the same. The thresholds come
from good and bad curves of the demo, in tests/asr/training/monitoring/test_diagnostics.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from asr.base.config import TrainConfig
from asr.base.text.wording import counted
from asr.base.types import EditCounts
from asr.runs.progress import EpochMetrics
from asr.training.optimization.skipped_batches import (
    SkippedBatch,
    is_reported,
    lower_rate,
    skipped_line,
    skipped_too_often,
)

SURE_STEPS, SURE_EPOCHS = 600, 3  # after these, a sound CTC model no longer writes only blanks
SURE_STEPS_OF_ONE_EPOCH = 4000  # with a large corpus, one epoch of this many steps is enough
BLANK_SHARE = 0.98  # share of missed labels from which a model counts as writing only blanks
LEARNED_ERROR = 0.8  # below this error rate a model has begun to recognize speech
SMALL_FALL = 0.02
LOSS_RISE, RISEN_EPOCHS, ERROR_RISE = 1.08, 3, 0.01
NORM_RISE = 10.0
SKIPPED_IN_A_BURST = 5
STALLED_EPOCHS, PROGRESS = 10, 0.95  # the lowest error keeps falling a little by chance
WAITING_SHARE = 0.2
LONG_WAIT_S = 1.0  # in an epoch; shorter waits are those of tiny sets
START_UP_S = 120.0  # no session waits longer for its first batches


class Diagnostics:
    """The checks of a run after every epoch and every skipped batch.

    Args:
        config: of the run.
        warmup_steps: number of steps until the learning rate is at its peak.
        reported: the `reported` of an earlier session of the run.
    """

    def __init__(self, config: TrainConfig, warmup_steps: int, reported: Collection[str] = ()) -> None:
        self.config, self.warmup_steps = config, warmup_steps
        self._reported = list(reported)

    @property
    def reported(self) -> tuple[str, ...]:
        """Return the names of reported signs and of skipped utterances, to be saved with a checkpoint."""
        return tuple(self._reported)

    def after_epoch(self, history: Sequence[EpochMetrics], edits: EditCounts) -> list[str]:
        """Return the lines to report after an epoch.

        Args:
            history: all epochs so far, the latest last.
            edits: the errors on the training set in the latest epoch.
        """
        signs: dict[str, Callable[[], str]] = {
            "blank": lambda: self._only_blanks(history, edits),
            "unlearned": lambda: self._learns_nothing(history),
            "rate": lambda: self._rate_too_high(history),
            "stalled": lambda: self._stalled(history),
            "starved": lambda: _starved(history),
        }
        lines = []
        for name, check in signs.items():
            if name not in self._reported and (line := check()):
                self._reported.append(name)
                lines.append(f"epoch {history[-1].epoch}: {line}")
        return lines

    def after_skipped(self, batch: SkippedBatch) -> list[str]:
        """Return the lines to report after a batch whose loss or gradients were not finite.

        Raises:
            UserError: more batches were skipped than `train.max_skipped` allows.
        """
        again = [f"skipped {u.id}" in self._reported for u in batch.utterances]
        repeated = [u for u, seen in zip(batch.utterances, again, strict=True) if seen]
        self._reported += [
            f"skipped {u.id}" for u, seen in zip(batch.utterances, again, strict=True) if not seen
        ]
        if batch.num_skipped > self.config.max_skipped:
            raise skipped_too_often(batch, repeated, self.config)
        return [skipped_line(batch, self.config.max_skipped)] if is_reported(batch.num_skipped) else []

    def _only_blanks(self, history: Sequence[EpochMetrics], edits: EditCounts) -> str:
        missed = edits.deletions / max(edits.reference_length, 1)
        if missed < BLANK_SHARE:
            return ""
        before = [metrics.train_error for metrics in history[:-1]]
        if min(before, default=1.0) < LEARNED_ERROR:
            return (
                f"the model outputs almost only blanks ({missed:.1%} of the labels are deleted), although "
                f"the training error had fallen to {min(before):.1%}: it has collapsed. "
                f"{self._lower_rate()}"
            )
        sure = self._sure_epochs(history)
        if not sure or any(abs(metrics.train_error - 1) > 1 - BLANK_SHARE for metrics in history[-sure:]):
            return ""
        return (
            f"for {_epochs(sure)} the model has output almost only blanks; it should have begun to recognize "
            f"speech by now. Either the learning rate is wrong ({self._lower_rate(bare=True)}), or the "
            "labels do not match the audio: see `asr inspect` and `asr doctor`"
        )

    def _learns_nothing(self, history: Sequence[EpochMetrics]) -> str:
        sure = self._sure_epochs(history)
        if not sure or "blank" in self._reported or len(history) <= sure:
            return ""
        before, now = history[-1 - sure].train_error, history[-1].train_error
        lowest = min(metrics.train_error for metrics in history)
        if lowest < LEARNED_ERROR or before - now > SMALL_FALL:
            return ""
        return (
            f"the training error is still {now:.1%} and hardly falls (it was {before:.1%} {_epochs(sure)} "
            "ago): do the labels match the audio? See `asr inspect` and `asr doctor`; if they do, try "
            f"another train.learning_rate (now {self.config.learning_rate:g})"
        )

    def _rate_too_high(self, history: Sequence[EpochMetrics]) -> str:
        now, remedy = history[-1], self._lower_rate()
        if now.skipped >= SKIPPED_IN_A_BURST:
            return f"{now.skipped} batches with infinite loss or gradients in one epoch. {remedy}"
        learned = [metrics for metrics in history if math.isfinite(metrics.loss + metrics.gradient_norm)]
        if not learned:  # every batch was skipped, and reported
            return ""
        lowest = min(learned, key=lambda metrics: metrics.loss)
        recent = history[-RISEN_EPOCHS:]
        is_high = now.learning_rate > 0.3 * self.config.learning_rate  # otherwise the schedule has lowered it
        is_blank = "blank" in self._reported
        if is_high and not is_blank and all(_has_risen(metrics, lowest) for metrics in recent):
            return (
                f"the loss has been above its lowest, {lowest.loss:.2f} in epoch {lowest.epoch}, for "
                f"{_epochs(now.epoch - lowest.epoch)}, now {now.loss:.2f}. {remedy}"
            )
        norm = min(metrics.gradient_norm for metrics in learned)
        if now.loss > lowest.loss and now.gradient_norm > NORM_RISE * max(norm, self.config.clip_norm):
            return (
                f"the gradient norm has grown to {now.gradient_norm:.3g} (it was {norm:.3g}; "
                f"train.clip_norm is {self.config.clip_norm:g}) while the loss rises. {remedy}"
            )
        return ""

    def _stalled(self, history: Sequence[EpochMetrics]) -> str:
        """Report a dev error that no longer falls, unless early stopping is set."""
        since, now = _last_progress(history), history[-1]
        patience = max(STALLED_EPOCHS, math.ceil(self.config.epochs / 4))
        if self.config.early_stopping_epochs or now.epoch - since.epoch < patience:
            return ""
        if not 0 < since.dev_error < LEARNED_ERROR:
            return ""
        lowest = min(metrics.dev_error for metrics in history)
        stalled = (
            f"the dev error has hardly fallen for {_epochs(now.epoch - since.epoch)}, from "
            f"{since.dev_error:.1%} (epoch {since.epoch}) to {lowest:.1%} at the lowest"
        )
        if now.train_error < 0.9 * since.train_error:
            return (
                f"{stalled}, while the training error fell from {since.train_error:.1%} to "
                f"{now.train_error:.1%}: the model overfits its training set. Use more augmentation "
                "([augment]) or data, a smaller model.size, or train.early_stopping_epochs to stop in time"
            )
        decayed = now.learning_rate < 0.1 * self.config.learning_rate
        if decayed or self.config.schedule == "plateau":  # the schedule has ended progress, as intended
            return ""
        return (
            f"{stalled}, and the training error no longer falls ({now.train_error:.1%}): try train.schedule "
            f"= plateau or a lower train.learning_rate (now {self.config.learning_rate:g}), otherwise a "
            "larger model.size"
        )

    def _sure_epochs(self, history: Sequence[EpochMetrics]) -> int:
        """Return how many of the latest epochs suffice for a verdict; 0 if those after the warm-up do not."""
        now = history[-1].step
        for count, base in enumerate(reversed(history[:-1]), start=1):
            if base.step < self.warmup_steps:
                return 0
            steps = now - base.step
            if steps >= SURE_STEPS_OF_ONE_EPOCH or (count >= SURE_EPOCHS and steps >= SURE_STEPS):
                return count
        return 0

    def _lower_rate(self, bare: bool = False) -> str:
        rate = self.config.learning_rate
        lower = lower_rate(rate)
        text = f"train.learning_rate is {rate:g}: set it to {lower:g}, or lengthen train.warmup_share"
        return text if bare else f"{text} (now {self.config.warmup_share:g})"


def _last_progress(history: Sequence[EpochMetrics]) -> EpochMetrics:
    """Return the last epoch whose dev error was well below the lowest before it."""
    last = history[0]
    for metrics in history[1:]:
        if metrics.dev_error < PROGRESS * last.dev_error:
            last = metrics
    return last


def _has_risen(now: EpochMetrics, lowest: EpochMetrics) -> bool:
    """Return whether the loss has risen since the epoch with the lowest; a NaN loss has."""
    return (
        now.epoch > lowest.epoch
        and not now.loss <= LOSS_RISE * lowest.loss
        and now.train_error > lowest.train_error + ERROR_RISE
    )


def _starved(history: Sequence[EpochMetrics]) -> str:
    """Report waiting for batches, in two epochs or for longer than a session waits for its first ones."""
    now = history[-1]
    before = history[-2] if len(history) > 1 else None
    waiting_s = now.waiting_share * (now.train_s - (before.train_s if before else 0.0))
    lasting = before is not None and before.waiting_share > WAITING_SHARE and waiting_s > LONG_WAIT_S
    if now.waiting_share <= WAITING_SHARE or not (lasting or waiting_s > START_UP_S):
        return ""
    return (
        f"{now.waiting_share:.0%} of the time was spent waiting for batches: speed up reading with `asr "
        "pack` or a faster disk, and preparation with fewer effects in [augment] or more cores"
    )


def _epochs(count: int) -> str:
    return counted(count, "epoch")
