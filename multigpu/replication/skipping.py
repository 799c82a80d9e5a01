"""Makes the gradients of a loss that is not finite NaN, so that the optimiser skips the step.

Optimisers such as Keras's `LossScaleOptimizer` skip a step when a gradient is not finite.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from multigpu.replication.towers import LossOf, Structure, Tensor


def skip_nonfinite_loss(loss_of: LossOf) -> LossOf:
    """Return the same loss, with gradients that are NaN where the loss is not finite, so the step is skipped.

    Without this they may be finite: for a sequence whose probability is 0, CTC has an infinite loss and
    finite gradients.
    """

    def with_nan_gradients(model: keras.Model, *rows: Structure) -> tuple[Tensor, Structure]:
        loss, outputs = loss_of(model, *rows)
        return _with_nan_gradient_if_nonfinite(loss), outputs

    unconverted: LossOf = tf.autograph.experimental.do_not_convert(with_nan_gradients)
    return unconverted


@tf.custom_gradient
def _with_nan_gradient_if_nonfinite(loss: Tensor) -> Any:
    def backward(upstream: Tensor) -> Tensor:
        return tf.where(tf.math.is_finite(loss), upstream, tf.constant(float("nan"), upstream.dtype))

    return tf.identity(loss), backward
