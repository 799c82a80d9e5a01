"""Losses of towers whose mean over the rows is the loss of the batch, whatever their reduction.

The loss of a batch that is a mean over its rows is the mean of the towers' losses, weighted by their rows.
Other losses are brought to that form here. A sum is divided by the tower's part of the rows. For a mean over
something else, the frames that a mask leaves or the sum of the weights, a tower must know how much of that
the whole batch has, so the towers meet.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from multigpu.keras_internals import mask_of
from multigpu.lockstep import TowerContext
from multigpu.towers import Tensor


class TowerLoss(keras.Loss):
    """A loss that in a tower is the tower's part of the batch's; elsewhere it is the loss itself.

    Args:
        loss: of Keras, or of its kind.
    """

    def __init__(self, loss: keras.Loss) -> None:
        super().__init__(name=loss.name, reduction=loss.reduction, dtype=loss.dtype)
        self.loss = loss

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        """The loss, such that over the towers its mean, weighted by their rows, is that of the batch.

        Raises:
            ValueError: it is not a scalar.
        """
        value = self.loss(y_true, y_pred, sample_weight)
        context = tf.distribute.get_replica_context()
        if not isinstance(context, TowerContext):
            return value
        if value.shape.rank != 0:
            raise ValueError(
                f"{self.name}: expected one loss of a batch, received shape {value.shape}; give it "
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
        """What the loss is a mean over, () float32; None for the rows."""
        mask = mask_of(y_pred)
        weighted = self.reduction == "mean_with_sample_weight" and sample_weight is not None
        if mask is None and not weighted:
            return None
        counted = [tf.cast(mask, tf.float32)] if mask is not None else []
        if weighted:
            counted.append(tf.cast(sample_weight, tf.float32))
        return tf.reduce_sum(counted[0] if len(counted) == 1 else tf.multiply(*counted))
