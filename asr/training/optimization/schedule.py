"""The learning rate of each step: its schedule, its warm-up, plateaus, and when to stop early."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops
from typing_extensions import override

from asr.base.config import TrainConfig
from asr.base.types import Tensor
from asr.model.keras_internals import learning_rate_given_to


def warmup_steps_of(config: TrainConfig, num_steps: int) -> int:
    """Return the number of steps until the learning rate is at its peak; 0 for no warm-up.

    Args:
        config: of the run.
        num_steps: of the whole run.
    """
    return max(1, round(config.warmup_share * num_steps)) if config.warmup_share else 0


def make_learning_rate(
    config: TrainConfig, num_steps: int
) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """Return the learning rate schedule; a plain number, which callbacks may set, if it is constant.

    Args:
        config: of the run.
        num_steps: of the whole run.
    """
    peak = config.learning_rate
    warmup_steps = warmup_steps_of(config, num_steps)
    if config.schedule == "cosine":  # Loshchilov & Hutter, 2017, arXiv:1608.03983
        return Cosine(
            initial_learning_rate=0.0 if warmup_steps else peak,
            decay_steps=max(1, num_steps - warmup_steps),
            warmup_target=peak if warmup_steps else None,
            warmup_steps=warmup_steps,
        )
    if config.schedule == "constant" and not warmup_steps:
        return peak
    return WarmUp(config.schedule, peak, warmup_steps)


class CachedSchedule:
    """A schedule that computes the rate of a step once in a graph.

    Keras calls the schedule for every weight that decays, and each call would add its operations to the
    step: with a warm-up, a condition of two branches.
    """

    _known: tuple[Any, Tensor] | None = None

    def __call__(self, step: Tensor) -> Tensor:
        """Return the learning rate, () float32, of a step counted from 0."""
        if tf.executing_eagerly():
            return self.rate(step)
        graph = tf.compat.v1.get_default_graph()
        if self._known is None or self._known[0] is not step or self._known[1].graph is not graph:
            self._known = (step, self.rate(step))
        return self._known[1]

    def rate(self, step: Tensor) -> Tensor:
        """Compute the learning rate of a step."""
        raise NotImplementedError


@keras.saving.register_keras_serializable("polyphone")
class Cosine(CachedSchedule, keras.optimizers.schedules.CosineDecay):
    """Cosine decay with linear warm-up, as Keras has it (Loshchilov and Hutter, 2017, arXiv:1608.03983)."""

    @override
    def rate(self, step: Tensor) -> Tensor:
        return keras.optimizers.schedules.CosineDecay.__call__(self, step)


@keras.saving.register_keras_serializable("polyphone")
class WarmUp(CachedSchedule, keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises linearly from 0 to its peak, then follows a schedule.

    Args:
        schedule: "constant"; "noam", which falls with the square root of the step (Vaswani et al., 2017,
            arXiv:1706.03762); or "plateau", constant except for the factor that `set_plateau` sets.
        peak: the highest rate.
        warmup_steps: 0 for no warm-up.
    """

    def __init__(self, schedule: str, peak: float, warmup_steps: int) -> None:
        super().__init__()
        self.schedule, self.peak, self.warmup_steps = schedule, peak, warmup_steps
        self.factor = None
        if schedule == "plateau":
            self.factor = keras.Variable(
                1.0, trainable=False, aggregation="only_first_replica", name="plateau_factor"
            )

    @override
    def rate(self, step: Tensor) -> Tensor:
        step = ops.cast(step, "float32")
        first = max(1, self.warmup_steps)  # the first step at the peak rate
        rate = self.peak * ops.minimum(step / first, 1.0) if self.warmup_steps else self.peak
        if self.schedule == "noam":
            rate *= ops.sqrt(first / ops.maximum(step, first))
        if self.factor is not None:
            rate *= ops.convert_to_tensor(self.factor)
        return rate

    @override
    def get_config(self) -> dict[str, Any]:
        return {"schedule": self.schedule, "peak": self.peak, "warmup_steps": self.warmup_steps}


def learning_rate_of(optimizer: keras.optimizers.Optimizer) -> float:
    """Return the learning rate of the next step."""
    return float(ops.convert_to_numpy(optimizer.learning_rate))


def set_plateau(optimizer: keras.optimizers.Optimizer, factor: float) -> None:
    """Set the factor by which the plateau schedule multiplies the peak learning rate."""
    schedule = learning_rate_given_to(optimizer.inner_optimizer)
    assert isinstance(schedule, WarmUp)
    assert schedule.factor is not None, f"{schedule.schedule} has no plateaus"
    schedule.factor.assign(factor)


def plateau_factor(dev_errors: Sequence[float], config: TrainConfig) -> float:
    """Return the factor of the plateau schedule after some epochs.

    Args:
        dev_errors: of every epoch so far.
        config: of the run.
    """
    factor, epochs_waited = 1.0, 0
    for fell in _falls(dev_errors):
        epochs_waited = 0 if fell else epochs_waited + 1
        if epochs_waited == config.plateau_epochs:
            factor, epochs_waited = factor * config.plateau_factor, 0
    return factor


def stops_early(dev_errors: Sequence[float], early_stopping_epochs: int) -> bool:
    """Return whether the dev error has not reached a new minimum for that many epochs; 0 for never."""
    epochs_waited = 0
    for fell in _falls(dev_errors):
        epochs_waited = 0 if fell else epochs_waited + 1
    return 0 < early_stopping_epochs <= epochs_waited


def _falls(dev_errors: Sequence[float]) -> Iterator[bool]:
    """Yield whether each error is lower than all before it; NaN never is."""
    lowest = math.inf
    for error in dev_errors:
        yield error < lowest
        lowest = min(lowest, error)
