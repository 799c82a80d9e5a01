"""Optimisers and learning rates by configuration; a step whose gradients are not finite is skipped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
from keras import ops
from typing_extensions import override

from asr.base.config import TrainConfig
from asr.base.types import Tensor
from asr.model.keras_internals import UnscaledOptimizer, learning_rate_given_to

FLOAT16_SCALE = 2.0**15  # of the loss at first: small gradients are far from 0, and few overflow
NOT_DECAYED = ["bias", "gamma", "beta", "moving"]
BETA_2 = 0.98  # a gradient is forgotten sooner than by Adam's usual 0.999, as schedules with a warm-up want


def make_optimizer(config: TrainConfig, num_steps: int) -> keras.optimizers.LossScaleOptimizer:
    """The optimiser of a configuration under its learning rate.

    A step with a gradient that is infinite or NaN leaves the weights and the inner optimiser as they were.
    With float16 the loss is scaled, by half after each such step and by twice after 2,000 good ones.

    Args:
        config: of the run.
        num_steps: of the whole run.
    """
    rate, decay = make_learning_rate(config, num_steps), config.weight_decay
    optimizers = keras.optimizers
    inner = {
        # Loshchilov & Hutter, 2019
        "adamw": lambda: optimizers.AdamW(rate, weight_decay=decay, beta_2=BETA_2),
        # Kingma & Ba, 2015: without decay, which Adam would only scale away
        "adam": lambda: optimizers.Adam(rate, beta_2=BETA_2),
        "sgd": lambda: optimizers.SGD(rate, momentum=0.9, nesterov=True, weight_decay=decay),
        # Chen et al., 2023
        "lion": lambda: optimizers.Lion(rate, weight_decay=decay),
        # Shazeer & Stern, 2018; the schedule alone says how far a step goes
        "adafactor": lambda: optimizers.Adafactor(rate, weight_decay=decay, relative_step=False),
    }[config.optimizer]()
    inner.exclude_from_weight_decay(var_names=NOT_DECAYED)
    if config.precision == "float16":
        return optimizers.LossScaleOptimizer(inner, initial_scale=FLOAT16_SCALE)
    return SkippingOptimizer(inner, initial_scale=1.0)


def warmup_steps_of(config: TrainConfig, num_steps: int) -> int:
    """Until the learning rate is at its highest; 0 for none.

    Args:
        config: of the run.
        num_steps: of the whole run.
    """
    return max(1, round(config.warmup_share * num_steps)) if config.warmup_share else 0


def make_learning_rate(
    config: TrainConfig, num_steps: int
) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """The learning rate of every step; one number, which callbacks may set, where it is always the same.

    Args:
        config: of the run.
        num_steps: of the whole run.
    """
    peak = config.learning_rate
    warmup_steps = warmup_steps_of(config, num_steps)
    if config.schedule == "cosine":  # Loshchilov & Hutter, 2017, arXiv:1608.03983
        return keras.optimizers.schedules.CosineDecay(
            initial_learning_rate=0.0 if warmup_steps else peak,
            decay_steps=max(1, num_steps - warmup_steps),
            warmup_target=peak if warmup_steps else None,
            warmup_steps=warmup_steps,
        )
    if config.schedule == "constant" and not warmup_steps:
        return peak
    return WarmUp(config.schedule, peak, warmup_steps)


@keras.saving.register_keras_serializable("polyphone")
class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """From 0 up to the highest rate along a line, and what follows.

    Args:
        schedule: "constant"; "noam", which falls with the square root of the step (Vaswani et al., 2017,
            arXiv:1706.03762); or "plateau", constant but for the factor that `set_plateau` gives.
        peak: the highest rate.
        warmup_steps: 0 for none.
    """

    def __init__(self, schedule: str, peak: float, warmup_steps: int) -> None:
        super().__init__()
        self.schedule, self.peak, self.warmup_steps = schedule, peak, warmup_steps
        self.factor = None
        if schedule == "plateau":
            self.factor = keras.Variable(
                1.0, trainable=False, aggregation="only_first_replica", name="plateau_factor"
            )

    def __call__(self, step: Tensor) -> Tensor:
        """() float32 rate of a step, counted from 0."""
        step = ops.cast(step, "float32")
        first = max(1, self.warmup_steps)  # of the steps at the highest rate
        rate = self.peak * ops.minimum(step / first, 1.0) if self.warmup_steps else self.peak
        if self.schedule == "noam":
            rate *= ops.sqrt(first / ops.maximum(step, first))
        if self.factor is not None:
            rate *= ops.convert_to_tensor(self.factor)
        return rate

    @override
    def get_config(self) -> dict[str, Any]:
        return {"schedule": self.schedule, "peak": self.peak, "warmup_steps": self.warmup_steps}


@keras.saving.register_keras_serializable("polyphone")
class SkippingOptimizer(UnscaledOptimizer):
    """Skips steps whose gradients are not finite, and scales nothing.

    Keras's own would halve its scale at every skipped step, down to 0 in the end, where nothing overflows
    because of the scale.
    """


def learning_rate_of(optimizer: keras.optimizers.Optimizer) -> float:
    """Of the next step."""
    return float(ops.convert_to_numpy(optimizer.learning_rate))


def loss_scale_of(optimizer: keras.optimizers.Optimizer) -> Tensor:
    """() float32, by which gradients come multiplied."""
    return optimizer.scale_loss(ops.convert_to_tensor(1.0, "float32"))


def set_plateau(optimizer: keras.optimizers.Optimizer, factor: float) -> None:
    """Multiply the highest learning rate of the plateau schedule."""
    schedule = learning_rate_given_to(optimizer.inner_optimizer)
    assert isinstance(schedule, WarmUp)
    assert schedule.factor is not None, f"{schedule.schedule} has no plateaus"
    schedule.factor.assign(factor)


def plateau_factor(dev_errors: Sequence[float], config: TrainConfig) -> float:
    """What the plateau schedule has come to after some epochs.

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
    """Whether the dev error has not fallen below its lowest for so many epochs; 0 for never."""
    epochs_waited = 0
    for fell in _falls(dev_errors):
        epochs_waited = 0 if fell else epochs_waited + 1
    return 0 < early_stopping_epochs <= epochs_waited


def _falls(dev_errors: Sequence[float]) -> Iterator[bool]:
    """Whether each is below all before it; NaN never is."""
    lowest = math.inf
    for error in dev_errors:
        yield error < lowest
        lowest = min(lowest, error)
