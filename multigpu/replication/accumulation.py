"""Accumulates the gradient of a batch over parts of it, one after the other, in the memory of one part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from multigpu.errors import DeviceError
from multigpu.replication.keras_internals import NOT_INLINED, layers_of
from multigpu.replication.model_towers import LossAndGradients, combined_gradients, is_overwritten
from multigpu.replication.towers import Tensor, merge, share_out, weighted_mean

Work: TypeAlias = Callable[..., LossAndGradients]  # takes a batch's tensors


def with_accumulation(work: Work, num_parts: int, device: str, variables: Sequence[Any]) -> Work:
    """Return `work` applied to a part of the rows at a time, its results combined to those of the whole.

    Its loss and gradients must be means over the rows. Where a batch has fewer rows than parts, the
    remaining parts repeat a row with a weight of 0. Each part has batch statistics of its own, and moving
    statistics are updated by each.

    Args:
        work: rows -> loss, outputs and gradients.
        num_parts: number of parts of a batch; only one part is in memory at a time.
        device: name of the device that sums the gradients.
        variables: the trainable variables, in the order of the gradients.
    """
    if num_parts == 1:
        return work

    def worked(*batch: Tensor) -> LossAndGradients:
        # one function, so that it is traced once; not inlined, so that a part is a single operation, which
        # starts when all its inputs are ready, and ends as a whole
        part = tf.function(work, autograph=False, experimental_attributes=NOT_INLINED)
        shares = share_out(batch, num_parts)
        results: list[LossAndGradients] = []
        sums: list[Tensor | None] = []
        for share in shares:
            with tf.control_dependencies([value for value in sums if value is not None]):
                result = LossAndGradients(*part(*share.rows(batch)))
            with tf.device(device):
                sums = _add(variables, sums, result.gradients, share.weight)
            results.append(result)
        with tf.device(device):
            loss = weighted_mean([result.loss for result in results], shares)
            return LossAndGradients(loss, merge([result.outputs for result in results], shares), sums)

    return worked


def check_no_synchronization(model: keras.Model, engine: str, num_parts: int) -> None:
    """Raise an error if layers synchronize replicas of `tf.distribute`, which they cannot do within parts.

    Parts are functions, in which replicas cannot communicate.

    Raises:
        DeviceError: there are several parts, and a layer asks for sums over all devices, or has statistics
            that are averaged over all devices.
    """
    synchronized = any(getattr(layer, "synchronized", False) for layer in layers_of(model))
    averaged = any(variable.aggregation in ("mean", "sum") for variable in model.non_trainable_variables)
    if num_parts > 1 and (synchronized or averaged):
        kind = (
            "synchronized batch normalisation"
            if synchronized
            else "batch statistics that are shared by devices"
        )
        raise DeviceError(
            f"{engine}: cannot process a batch in {num_parts} parts with {kind}; use one part, or the engine "
            "parallel-model"
        )


def _add(
    variables: Sequence[Any], sums: Sequence[Any], gradients: Sequence[Any], weight: Tensor
) -> list[Any]:
    """Return the sums plus a part's gradients, weighted by its share of the rows."""

    def weighted(variable: Any, gradient: Any) -> Any:
        if gradient is None or is_overwritten(variable):
            return gradient
        return tf.convert_to_tensor(gradient) * tf.cast(weight, gradient.dtype)

    own = list(map(weighted, variables, gradients))
    return combined_gradients(variables, [sums, own]) if sums else own
