"""Advise what would lower a run's errors: more recordings, more epochs, a larger model, or other recordings.

for line in advice(run.metrics(), "syllable", resume="asr train runs/mine --resume"):
    print(line)

docs/guides/how-much-data.md states the rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from asr.base.text.wording import percent
from asr.base.types import EditCounts
from asr.runs.progress import EpochMetrics, best_first, chosen_epoch

MIN_EPOCHS = 4  # with fewer, curves show only that training has begun
GAP_FACTOR, GAP = 2.0, 0.05  # dev above training: what was learned are the recordings
STILL_FALLS = 0.1  # of the dev error, in the last quarter of the epochs, two at least
HIGH = 0.25  # training errors, which are measured with augmentation and dropout
FAR_FACTOR, FAR_ERRORS = 1.5, 3.0  # a test set above dev; and by how many standard errors
MANY_ERRORS = 0.15  # with which a trained model to start from is worth naming


def advice(
    metrics: Sequence[EpochMetrics],
    token: str,
    *,
    test: EditCounts | None = None,
    resume: str = "",
    starts_from_trained: bool = False,
    start_error: float | None = None,
) -> list[str]:
    """Return what to do next, one sentence or two for each rule that holds; none before the first epochs.

    A command is on a line of its own.

    Args:
        metrics: of every epoch of a run.
        token: what errors are of, such as "syllable".
        test: errors on a test set; None if there is none.
        resume: the command that resumes the run.
        starts_from_trained: whether the run began with the weights of another.
        start_error: dev error of these weights; None if it is not known.
    """
    if len(metrics) < MIN_EPOCHS:
        return []
    train, dev = metrics[-1].train_error, best_first(metrics)[0].dev_error
    before = min(epoch.dev_error for epoch in metrics[: -max(2, len(metrics) // 4)])
    errors = f"training {percent(train)}, dev {percent(dev)} of the {token}s wrong"
    trained = ", and so does starting from a trained model (train.init_from)"
    also = trained if dev > MANY_ERRORS and not starts_from_trained else ""
    if start_error is not None and not chosen_epoch(metrics):
        lines = [
            f"No epoch is better than the model before training: {percent(start_error)} of the {token}s of "
            f"dev wrong, {percent(dev)} after training. That model is used. More recordings of this kind "
            "help, and so may a lower learning rate (train.learning_rate)."
        ]
    elif dev > GAP_FACTOR * train and dev - train > GAP:
        lines = [
            f"More recordings, not more epochs: {errors}. The model knows its own recordings and not yet "
            f"other speech; more of them, above all other speakers and sentences, lower the dev error{also}."
        ]
    elif dev < (1 - STILL_FALLS) * before:
        command = f"\n{resume} --set train.epochs={2 * len(metrics)}" if resume else ""
        lines = [
            f"More epochs: the dev error fell from {percent(before)} to {percent(dev)} in the last quarter "
            f"of the epochs. Train on:{command}"
        ]
    elif train > HIGH:
        first = "A trained model to start from, or a larger one" if also else "A larger model, or more epochs"
        lines = [
            f"{first}: {errors}, and dev no longer falls. A larger model (model.size) or twice the epochs "
            f"learn more of the same recordings{also}."
        ]
    else:
        lines = [
            f"Training has done its part: {errors}, and dev no longer falls. Record more of what the worst "
            "utterances have."
        ]
    chosen = next((m.dev_error for m in metrics if m.epoch == chosen_epoch(metrics)), dev)
    if test and test.rate > FAR_FACTOR * chosen and test.rate - chosen > FAR_ERRORS * test.standard_error:
        lines.append(
            f"Other recordings: {percent(test.rate)} of this set's {token}s are wrong, {percent(chosen)} of "
            "dev's. It has other speakers, rooms or sentences; record such ones for training and dev, too."
        )
    return lines
