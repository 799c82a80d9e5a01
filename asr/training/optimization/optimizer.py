"""Make the optimiser of a configuration; a step with infinite gradients is skipped."""

from __future__ import annotations

import math
from collections.abc import Sequence

import keras
import tensorflow as tf
from keras import ops

from asr.base.config import TrainConfig
from asr.base.types import Tensor
from asr.model.keras_internals import UnscaledOptimizer, share_updates
from asr.training.optimization.schedule import make_learning_rate

FLOAT16_SCALE = 2.0**15  # the initial loss scale: small gradients are far from 0, and few overflow
NOT_DECAYED = ["bias", "gamma", "beta", "moving"]
BETA_2 = 0.98  # forgets gradients sooner than Adam's default 0.999, which suits schedules with a warm-up


def make_optimizer(
    config: TrainConfig, num_steps: int, on_one_device: bool = False, compiled: bool = False
) -> keras.optimizers.LossScaleOptimizer:
    """Return the optimiser of a configuration, with its learning rate.

    Its gradients must be clipped. A step with an infinite or NaN gradient leaves the weights and the inner
    optimiser unchanged. With float16 the loss is scaled; the scale is halved after each such step and doubled
    after 2,000 finite ones.

    Args:
        config: of the run.
        num_steps: of the whole run.
        on_one_device: whether all weights are; their update is then traced once for each shape.
        compiled: whether XLA compiles these updates, each into one operation instead of some twenty. Results
            differ by rounding.
    """
    rate, decay = make_learning_rate(config, num_steps), config.weight_decay
    optimizers = keras.optimizers
    inner = {
        # Loshchilov & Hutter, 2019
        "adamw": lambda: optimizers.AdamW(rate, weight_decay=decay, beta_2=BETA_2),
        # Kingma & Ba, 2015; without decay, whose effect Adam's scaling would cancel
        "adam": lambda: optimizers.Adam(rate, beta_2=BETA_2),
        "sgd": lambda: optimizers.SGD(rate, momentum=0.9, nesterov=True, weight_decay=decay),
        # Chen et al., 2023
        "lion": lambda: optimizers.Lion(rate, weight_decay=decay),
        # Shazeer & Stern, 2018; only the schedule sets the step size
        "adafactor": lambda: optimizers.Adafactor(rate, weight_decay=decay, relative_step=False),
    }[config.optimizer]()
    inner.exclude_from_weight_decay(var_names=NOT_DECAYED)
    if on_one_device:
        share_updates(inner, compiled)
    if config.precision == "float16":
        return ScalingOptimizer(inner, initial_scale=FLOAT16_SCALE)
    return SkippingOptimizer(inner, initial_scale=1.0)


class _ClippedGradients:
    """An optimiser of clipped gradients; inherit from this class first."""

    def check_finite(self, grads: Sequence[Tensor | None]) -> Tensor:
        """Return whether all gradients are finite, from the smallest of them.

        Clipping by the common norm makes all of them NaN if one is not finite, so that Keras's test of each
        weight's gradient would read all of them again.
        """
        existing = [gradient for gradient in grads if gradient is not None]
        smallest = min(existing, key=lambda gradient: gradient.shape.num_elements() or math.inf)
        return tf.reduce_all(tf.math.is_finite(smallest))


@keras.saving.register_keras_serializable("polyphone")
class ScalingOptimizer(_ClippedGradients, keras.optimizers.LossScaleOptimizer):
    """An optimizer that scales the loss, so that small gradients do not underflow in float16."""


@keras.saving.register_keras_serializable("polyphone")
class SkippingOptimizer(_ClippedGradients, UnscaledOptimizer):
    """An optimizer that skips steps with gradients that are not finite, without scaling the loss.

    Keras's `LossScaleOptimizer` would halve its scale at every skipped step, finally to 0, although no
    gradient overflows because of the scale.
    """


def loss_scale_of(optimizer: keras.optimizers.Optimizer) -> Tensor:
    """Return the scale of the loss and its gradients, () float32."""
    return optimizer.scale_loss(ops.convert_to_tensor(1.0, "float32"))
