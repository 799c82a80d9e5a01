"""Wraps losses such that the towers' mean, weighted by their rows, is the loss of the batch.

The loss of a batch that is a mean over its rows is the mean of the towers' losses, weighted by their rows.
Losses of other reductions are scaled to that form here. A sum is divided by the tower's share of the rows. A
mean over something else, the unmasked frames or the sum of the sample weights, is scaled by the tower's share
of that quantity, for which the towers synchronize. A loss that compares rows with each other is refused.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from multigpu.replication.keras_internals import mask_of, masked_weights
from multigpu.replication.lockstep import TowerContext
from multigpu.replication.towers import Tensor


class TowerLoss(keras.Loss):
    """A loss that in a tower is its part of the batch's loss, and elsewhere the loss itself.

    Args:
        loss: a loss of Keras or a subclass.
    """

    def __init__(self, loss: keras.Loss) -> None:
        super().__init__(name=loss.name, reduction=loss.reduction, dtype=loss.dtype)
        self.loss = loss

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        """Compute the loss such that the towers' mean, weighted by their rows, is that of the batch.

        Raises:
            ValueError: the loss is not a scalar, or compares rows with each other.
        """
        context = tf.distribute.get_replica_context()
        if not isinstance(context, TowerContext):
            return self.loss(y_true, y_pred, sample_weight)
        made: list[Any] = []
        value = _recording(self.loss, made)(y_true, y_pred, sample_weight)
        if context.num_replicas_in_sync > 1:
            _check_rows_are_separate(self.loss, y_pred, made)
        if value.shape.rank != 0:
            raise ValueError(
                f"{self.name}: expected a scalar loss of a batch, received shape {value.shape}; use "
                f'another reduction than {self.reduction!r}, such as "sum"'
            )
        if self.reduction == "sum":
            part = tf.ones((), tf.float64)
        else:
            count = self._count([y_pred, *made], sample_weight)
            if count is None:
                return value
            counts = context.all_reduce("SUM", tf.stop_gradient(count))
            part = tf.math.divide_no_nan(count, counts)
        return value * tf.cast(tf.math.divide_no_nan(part, context.share.weight), value.dtype)

    def _count(self, masked: Sequence[Any], sample_weight: Any) -> Tensor | None:
        """Return the quantity that the loss is a mean over, () float64; None if it is the number of rows.

        Args:
            masked: the outputs, and the losses before their reduction, each with the mask that it may have.
            sample_weight: as it is given to a loss.
        """
        masks = [mask for mask in map(mask_of, masked) if mask is not None]
        mask = functools.reduce(tf.logical_and, masks) if masks else None
        weighted = self.reduction == "mean_with_sample_weight" and sample_weight is not None
        if mask is None and not weighted:
            return None
        weights = masked_weights(sample_weight if weighted else None, mask)
        return tf.reduce_sum(tf.cast(weights, tf.float64))


def _recording(loss: keras.Loss, made: list[Any]) -> keras.Loss:
    """Return a copy of a loss that adds its results before their reduction to a list."""

    def call(*args: Any, **kwargs: Any) -> Any:
        made.append(loss.call(*args, **kwargs))
        return made[-1]

    copy: Any = object.__new__(type(loss))  # `copy.copy` would save a loss of Keras and load it again
    vars(copy).update(vars(loss), call=call)
    return copy


def _check_rows_are_separate(loss: keras.Loss, y_pred: Any, made: Sequence[Any]) -> None:
    """Refuse a loss that compares rows with each other; warn of one that may be a mean over something else.

    Raises:
        ValueError: the loss compares rows with each other.
    """
    function, axis = getattr(loss, "fn", None), getattr(loss, "axis", None)
    over_rows = axis is None or 0 in (axis if isinstance(axis, list | tuple) else (axis,))
    if function is keras.losses.circle:
        raise ValueError(
            f"{loss.name}: compares every row of a batch with every other, and a device has only its share; "
            "train on one device, or choose a loss that has a value for each row"
        )
    if function in (keras.losses.dice, keras.losses.tversky) and over_rows:
        raise ValueError(
            f"{loss.name}: is a quotient of sums over all rows of a batch, and a device has only its share; "
            "give it the axes of a row, such as keras.losses.Dice(axis=(1, 2, 3))"
        )
    if made and len(made[-1].shape) == 0 and getattr(y_pred, "shape", None) != ():
        warnings.warn(
            f"{loss.name}: returns one number for all rows of a device, which is taken as their mean; if it "
            "is a mean over something else, such as labels that are not padding, the result is not that of "
            "one device: return a value for each row, and leave the mean to Keras",
            stacklevel=2,
        )
