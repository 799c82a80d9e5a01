"""Combines what towers write to a model's state: moving statistics, metrics, counters, seeds.

A variable's `aggregation` says how, as in `tf.distribute`; where it is "none", Keras's default, metrics are
summed, other numbers averaged by the towers' rows, and whole numbers taken from the first tower.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from multigpu.replication.keras_internals import SEED_STATE, layers_of
from multigpu.replication.lockstep import TowerContext
from multigpu.replication.stateless import Update
from multigpu.replication.towers import Share, Tensor, weighted_mean
from multigpu.wording import listed


def check_stateless(inner: keras.Model, num_shares: int) -> None:
    """Refuse layers that keep a state of every row, where a batch is divided.

    Raises:
        ValueError: a layer is stateful, and there are several shares.
    """
    stateful = [layer.name for layer in layers_of(inner) if getattr(layer, "stateful", False)]
    if num_shares > 1 and stateful:
        raise ValueError(
            f"{inner.name}: the layers {listed(stateful)} are stateful: they keep a state of every row "
            f"from batch to batch, and rows are divided into {num_shares} shares; leave stateful=True out, "
            "and pass states by initial_state and return_state, or use one device"
        )


def weigh_means_by_rows(inner: keras.Model) -> None:
    """Let a metric `Mean` count a number that a tower gives it, a mean over its rows, by its share of them.

    On one device such a number counts 1, whatever the number of rows.
    """
    for metric in inner.metrics:
        if type(metric).update_state is keras.metrics.Mean.update_state:
            metric.update_state = functools.partial(_update_mean, metric)


def _update_mean(metric: keras.metrics.Mean, values: Any, sample_weight: Any = None) -> None:
    context = tf.distribute.get_replica_context()
    if sample_weight is None and isinstance(context, TowerContext) and keras.ops.ndim(values) == 0:
        sample_weight = tf.cast(context.share.weight, metric.dtype)
    keras.metrics.Mean.update_state(metric, values, sample_weight)


def write_updates(
    inner: keras.Model, updates: Sequence[Sequence[Update]], shares: Sequence[Share], device: str
) -> None:
    """Assign to each variable that towers wrote to the combination of their values.

    Args:
        inner: the model that the variables belong to.
        updates: of each tower; all towers wrote to the same variables.
        shares: the towers' rows.
        device: name of the device that combines the values.
    """
    metrics = {id(variable) for variable in inner.metrics_variables}
    with tf.device(device):
        for column in zip(*updates, strict=True):
            variable = column[0][0]
            is_metric = id(variable) in metrics
            if len(shares) > 1 and not is_metric:
                _warn_if_unknown(inner, variable)
            variable.assign(_combined(variable, [value for _, value in column], shares, is_metric))


def _combined(variable: Any, values: Sequence[Tensor], shares: Sequence[Share], is_metric: bool) -> Tensor:
    aggregation = variable.aggregation
    if aggregation == "none":
        aggregation = "sum" if is_metric else "mean"
    if aggregation == "sum":
        old = tf.convert_to_tensor(variable.value)
        pairs = zip(values, shares, strict=True)
        return tf.add_n([old, *((value - old) * tf.cast(share.in_use, old.dtype) for value, share in pairs)])
    if aggregation == "mean" and values[0].dtype.is_floating:
        return weighted_mean(values, shares)
    return values[0]  # of a seed or a counter of steps: the value that one device would have


def _warn_if_unknown(inner: keras.Model, variable: Any) -> None:
    """Warn of a layer of the user's own that does not declare how its state is combined."""
    if variable.aggregation != "none" or variable.trainable or variable.name == SEED_STATE:
        return
    owners = [layer for layer in layers_of(inner) if any(own is variable for own in layer.variables)]
    owner = min(owners, key=lambda layer: len(layer.variables), default=None)
    if owner is None or type(owner).__module__.startswith("keras."):
        return
    floating = variable.value.dtype.is_floating
    warnings.warn(
        f"{owner.name}: each device changes {variable.path} by its own rows, and "
        f"{'their mean, weighted by the rows,' if floating else 'the value of the first'} is kept; make it "
        'with add_weight(aggregation="sum") if it is a sum over rows, else with aggregation="mean" or '
        '"only_first_replica"',
        stacklevel=2,
    )
