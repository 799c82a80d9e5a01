"""A step in parts, one after the other: the memory of a part, the gradient of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from multigpu.errors import DeviceError
from multigpu.keras_internals import NOT_INLINED, layers_of
from multigpu.model_towers import LossAndGradients
from multigpu.towers import Tensor, merge, share_out, weighted_mean

Work: TypeAlias = Callable[..., LossAndGradients]  # of a batch's tensors


def in_parts(work: Work, num_parts: int, device: str) -> Work:
    """`work`, on a part of the rows at a time; its loss and gradients are to be means over the rows.

    Where a batch has fewer rows than parts, the parts that are left work on a row once more and count for
    nothing. Each part has batch statistics of its own, and moving statistics are updated by each.

    Args:
        work: rows -> loss, outputs and gradients.
        num_parts: at most so many rows' share is in memory at once.
        device: where gradients are added.
    """
    if num_parts == 1:
        return work

    def worked(*batch: Tensor) -> LossAndGradients:
        # one function, so that it is traced once; not inlined, so that a part is a single operation, which
        # begins when all that it waits for is there, and ends as a whole
        part = tf.function(work, autograph=False, experimental_attributes=NOT_INLINED)
        shares = share_out(batch, num_parts)
        results: list[LossAndGradients] = []
        sums: list[Tensor | None] = []
        for share in shares:
            with tf.control_dependencies([value for value in sums if value is not None]):
                result = LossAndGradients(*part(*share.rows(batch)))
            with tf.device(device):
                sums = _add(sums, result.gradients, share.weight)
            results.append(result)
        with tf.device(device):
            loss = weighted_mean([result.loss for result in results], shares)
            return LossAndGradients(loss, merge([result.outputs for result in results], shares), sums)

    return worked


def refuse_meetings(model: keras.Model, engine: str, num_parts: int) -> None:
    """Parts are functions, in which replicas of `tf.distribute` cannot meet.

    Raises:
        DeviceError: there are parts, and a layer asks for sums over all devices, or has statistics of which
            all devices keep the mean.
    """
    synchronized = any(getattr(layer, "synchronized", False) for layer in layers_of(model))
    averaged = any(variable.aggregation in ("mean", "sum") for variable in model.non_trainable_variables)
    if num_parts > 1 and (synchronized or averaged):
        kind = "synchronized batch normalisation" if synchronized else "batch statistics that devices share"
        raise DeviceError(
            f"{engine}: a batch in {num_parts} parts does not go with {kind}; work on it in one part, or use "
            "parallel-model"
        )


def _add(sums: Sequence[Any], gradients: Sequence[Any], weight: Tensor) -> list[Any]:
    """Sums with a part's gradients added, as many as its rows weigh."""
    own = [
        None if gradient is None else tf.convert_to_tensor(gradient) * tf.cast(weight, gradient.dtype)
        for gradient in gradients
    ]
    if not sums:
        return own
    return [None if more is None else total + more for total, more in zip(sums, own, strict=True)]
