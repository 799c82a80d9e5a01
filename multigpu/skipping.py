"""A step whose loss is not finite has gradients that are not.

So an optimiser that skips a step when a gradient is not finite skips it, as Keras's `LossScaleOptimizer`
does.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from multigpu.parallel_model import LossOf
from multigpu.towers import Structure, Tensor


def skip_nonfinite_loss(loss_of: LossOf) -> LossOf:
    """Return the same loss with gradients that are not finite where it is not, so that the step is skipped.

    They may be finite otherwise: of a sequence whose probability is 0, CTC has an infinite loss and ordinary
    gradients.
    """

    def with_such_gradients(model: keras.Model, *rows: Structure) -> tuple[Tensor, Structure]:
        loss, outputs = loss_of(model, *rows)
        return _with_gradient_like_itself(loss), outputs

    unconverted: LossOf = tf.autograph.experimental.do_not_convert(with_such_gradients)
    return unconverted


@tf.custom_gradient
def _with_gradient_like_itself(loss: Tensor) -> Any:
    def backward(above: Tensor) -> Tensor:
        return tf.where(tf.math.is_finite(loss), above, tf.constant(float("nan"), above.dtype))

    return tf.identity(loss), backward
