"""Wraps losses such that the towers' mean, weighted by their rows, is the loss of the batch.

The loss of a batch that is a mean over its rows is the mean of the towers' losses, weighted by their rows.
Losses of other reductions are scaled to that form here. A sum is divided by the tower's share of the rows. A
mean over something else, the unmasked frames or the sum of the sample weights, is scaled by the tower's share
of that quantity, for which the towers synchronize.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from multigpu.keras_internals import mask_of
from multigpu.lockstep import TowerContext
from multigpu.towers import Tensor


class TowerLoss(keras.Loss):
    """Computes in a tower its part of the batch's loss, and elsewhere the loss itself.

    Args:
        loss: a loss of Keras or a subclass.
    """

    def __init__(self, loss: keras.Loss) -> None:
        super().__init__(name=loss.name, reduction=loss.reduction, dtype=loss.dtype)
        self.loss = loss

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        """Compute the loss such that the towers' mean, weighted by their rows, is that of the batch.

        Raises:
            ValueError: the loss is not a scalar.
        """
        value = self.loss(y_true, y_pred, sample_weight)
        context = tf.distribute.get_replica_context()
        if not isinstance(context, TowerContext):
            return value
        if value.shape.rank != 0:
            raise ValueError(
                f"{self.name}: expected a scalar loss of a batch, received shape {value.shape}; use "
                f'another reduction than {self.reduction!r}, such as "sum"'
            )
        if self.reduction == "sum":
            part = tf.ones(())
        else:
            count = self._count(y_pred, sample_weight)
            if count is None:
                return value
            counts = context.all_reduce("SUM", tf.stop_gradient(count))
            part = tf.math.divide_no_nan(count, counts)
        return value * tf.cast(
            tf.math.divide_no_nan(tf.cast(part, tf.float64), context.share.weight), value.dtype
        )

    def _count(self, y_pred: Any, sample_weight: Any) -> Tensor | None:
        """Return the quantity that the loss is a mean over, () float32; None if it is the number of rows."""
        mask = mask_of(y_pred)
        weighted = self.reduction == "mean_with_sample_weight" and sample_weight is not None
        if mask is None and not weighted:
            return None
        counted = [tf.cast(mask, tf.float32)] if mask is not None else []
        if weighted:
            counted.append(tf.cast(sample_weight, tf.float32))
        return tf.reduce_sum(counted[0] if len(counted) == 1 else tf.multiply(*counted))
