"""Runs training steps on devices by one of several engines, whose names are in `multigpu.ENGINES`.

from multigpu.engines import make_engine

engine = make_engine("parallel-model", devices)
with engine.scope():
    model = ...                             # its variables
    model = engine.place(model)
    optimizer = ...
    optimizer.build(model.trainable_variables)
step = engine.train_step(model, optimizer, loss_of, prepare, signature)
loss, outputs, logs = step(num_rows, *batch)  # the loss of all rows, the outputs of this process's rows

Batches are global: whatever the engine and the number of devices, the step equals that of one device with the
whole batch. Where several processes (workers) train together, each reads only the rows that
`engine.local_rows` returns.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from multigpu import ENGINES
from multigpu.cluster import ProcessGroup, find_cluster
from multigpu.devices import allow_memory_growth, parse_devices, short_name
from multigpu.engine import Engine, Step, compiled_step
from multigpu.errors import DeviceError
from multigpu.keras_models.parallel_model import ParallelModel
from multigpu.replication.accumulation import check_no_synchronization, with_accumulation
from multigpu.replication.keras_internals import synchronize_masked_statistics
from multigpu.replication.model_towers import LossAndGradients, is_overwritten
from multigpu.replication.replicas import local_id, local_results, mirrored_strategy
from multigpu.replication.skipping import skip_nonfinite_loss
from multigpu.replication.towers import LossOf, Structure, Tensor, cut_rows, merge
from multigpu.stages.engine import StagesEngine


class SingleEngine(Engine):
    """An engine that trains the plain model on one device."""

    name = "single"
    has_weights_on_one_device = True

    @override
    def train_step(
        self, model: Any, optimizer: Any, loss_of: LossOf, prepare: Any, signature: Any, num_parts: int = 1
    ) -> Step:
        device, loss_of = self.devices[0], skip_nonfinite_loss(loss_of)

        def work(*rows: Tensor) -> LossAndGradients:
            with tf.GradientTape() as tape:
                loss, outputs = loss_of(model, *rows)
                target = optimizer.scale_loss(loss)
            return LossAndGradients(loss, outputs, tape.gradient(target, model.trainable_variables))

        def step(num_rows: Tensor, *batch: Tensor) -> tuple[Tensor, Structure, Structure]:
            with tf.device(device):
                loss, outputs, gradients = with_accumulation(
                    work, num_parts, device, model.trainable_variables
                )(*batch)
                gradients, logs = prepare(gradients)
                optimizer.apply(gradients, model.trainable_variables)
            return loss, outputs, logs

        return compiled_step(step, signature)


class ParallelModelEngine(Engine):
    """An engine for several devices of this process, by `ParallelModel`."""

    name = "parallel-model"
    has_weights_on_one_device = True

    @override
    def train_step(
        self, model: Any, optimizer: Any, loss_of: LossOf, prepare: Any, signature: Any, num_parts: int = 1
    ) -> Step:
        parallel, loss_of = ParallelModel(model, self.devices), skip_nonfinite_loss(loss_of)
        first = self.devices[0]

        def step(num_rows: Tensor, *batch: Tensor) -> tuple[Tensor, Structure, Structure]:
            with tf.device(first):
                scale = optimizer.scale_loss(1.0)
            work = functools.partial(parallel.loss_and_gradients, loss_of, scale=scale)
            loss, outputs, gradients = with_accumulation(work, num_parts, first, model.trainable_variables)(
                *batch
            )
            with tf.device(first):
                gradients, logs = prepare(gradients)
                optimizer.apply(gradients, model.trainable_variables)
            return loss, outputs, logs

        return compiled_step(step, signature)


class MirroredEngine(Engine):
    """An engine for several devices of this process, by `tf.distribute.MirroredStrategy`.

    Every device keeps the weights and the optimiser's state. Gradients are communicated twice: once to be
    clipped by their common norm, and once in Keras's optimisers, which always sum over the devices. Dropout
    draws the same masks on every device. Where a batch has fewer rows than there are devices, batch
    normalisation counts the rows that fill the empty shares; `ParallelModel` does not.
    """

    name = "mirrored"

    def __init__(self, devices: Sequence[str], strategy: tf.distribute.Strategy | None = None) -> None:
        super().__init__(devices)
        self.strategy = strategy or mirrored_strategy(self.devices)

    @override
    def scope(self) -> contextlib.AbstractContextManager[Any]:
        scope: contextlib.AbstractContextManager[Any] = self.strategy.scope()
        return scope

    @override
    def check_num_parts(self, model: keras.Model, num_parts: int) -> None:
        check_no_synchronization(model, self.name, num_parts)

    @override
    def train_step(
        self, model: Any, optimizer: Any, loss_of: LossOf, prepare: Any, signature: Any, num_parts: int = 1
    ) -> Step:
        num_local, num_replicas = len(self.devices), self.strategy.num_replicas_in_sync
        self.check_num_parts(model, num_parts)
        if any(map(is_overwritten, model.trainable_variables)):
            raise DeviceError(
                f"{self.name}: cannot train a model that is quantized to float8, since its scales need the "
                "maximum over all devices; use the engine parallel-model"
            )
        synchronize_masked_statistics(model)
        loss_of = skip_nonfinite_loss(loss_of)

        def replica(num_rows: Tensor, in_use: Tensor, *batch: Tensor) -> tuple[Tensor, ...]:
            context = tf.distribute.get_replica_context()
            index = local_id(context, num_local)
            share = cut_rows(tf.shape(batch[0])[0], num_local)[index]
            weight = tf.cast(share.size, tf.float32) * in_use / tf.cast(num_rows, tf.float32)

            def work(*rows: Tensor) -> LossAndGradients:
                with tf.GradientTape() as tape:
                    loss, outputs = loss_of(model, *rows)
                    own_loss = loss * tf.cast(weight, loss.dtype)
                    target = optimizer.scale_loss(own_loss)
                return LossAndGradients(own_loss, outputs, tape.gradient(target, model.trainable_variables))

            own_loss, outputs, gradients = with_accumulation(
                work, num_parts, self.devices[index], model.trainable_variables
            )(*share.rows(batch))
            existing = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
            sums = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, existing))
            gradients, logs = prepare([None if gradient is None else next(sums) for gradient in gradients])
            shares = [None if gradient is None else gradient / num_replicas for gradient in gradients]
            optimizer.apply(shares, model.trainable_variables)  # which sums them over the devices
            return context.all_reduce(tf.distribute.ReduceOp.SUM, own_loss), outputs, logs

        def step(num_rows: Tensor, *batch: Tensor) -> tuple[Tensor, Structure, Structure]:
            own = cut_rows(num_rows, self.num_workers)[self.worker]
            per_replica = self.strategy.run(replica, args=(num_rows, own.in_use, *batch))
            losses, outputs, logs = zip(*local_results(self.strategy, per_replica), strict=True)
            shares = cut_rows(tf.shape(batch[0])[0], num_local)
            return losses[0], tf.nest.map_structure(own.own_rows_of, merge(outputs, shares)), logs[0]

        return compiled_step(step, signature)


class MultiWorkerEngine(MirroredEngine):
    """An engine for several processes, by `tf.distribute.MultiWorkerMirroredStrategy`.

    The processes run on one machine or many. Must be created before TensorFlow makes its first tensor;
    waits until all processes have joined.

    Args:
        cluster: the processes that take part.

    Raises:
        DeviceError: TensorFlow is already initialized, or this process's port is in use.
    """

    name = "multi-worker"

    def __init__(self, cluster: ProcessGroup) -> None:
        allow_memory_growth()
        try:
            strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster.resolver)
        except (RuntimeError, ValueError, tf.errors.OpError) as error:
            raise DeviceError(
                f"multi-worker: {cluster.addresses[cluster.worker]} cannot join the others: {error}; is its "
                "port in use? choose another in TF_CONFIG, and create the engine before the first tensor"
            ) from None
        devices = [short_name(device) for device in strategy.extended.worker_devices]
        super().__init__(devices, strategy)
        self.worker, self.num_workers = cluster.worker, len(cluster.addresses)

    @override
    def wait_for_all(self) -> None:
        self.value_of_chief(0.0)

    @override
    def value_of_chief(self, value: float) -> float:
        share = tf.constant(value / len(self.devices) if self.is_chief else 0.0, tf.float64)
        added = tf.function(lambda: tf.distribute.get_replica_context().all_reduce("SUM", share))
        return float(self.strategy.experimental_local_results(self.strategy.run(added))[0])


def make_engine(name: str, devices: Sequence[str], num_stages: int = 0) -> Engine:
    """Make the engine of a name.

    Args:
        name: one of `multigpu.ENGINES`, or "" for the default of that number of devices and stages.
        devices: names; ignored by `multi-worker`, which uses all devices of this process.
        num_stages: number of stages that the engine `stages` cuts a model into; 0 means one a device.

    Raises:
        DeviceError: the engine is unknown, or it cannot use these devices or that many stages.
    """
    name = name or ("stages" if num_stages else "single" if len(devices) == 1 else "parallel-model")
    if num_stages and name != "stages":
        raise DeviceError(
            f"{name}: does not cut models into stages, received `stages` {num_stages}; choose the engine "
            "stages, or leave `stages` out"
        )
    if name == "multi-worker":
        return MultiWorkerEngine(find_cluster())
    devices = parse_devices(devices)
    if name not in ENGINES:
        raise DeviceError(f"unknown engine {name!r}; expected one of {', '.join(ENGINES)}")
    if (name == "single") != (len(devices) == 1):
        raise DeviceError(
            f"{name}: expected {'1 device' if name == 'single' else 'several devices'}, received "
            f"{', '.join(devices)}; choose other devices, or leave the engine out"
        )
    if name == "stages":
        return StagesEngine(devices, num_stages)
    engines = {"single": SingleEngine, "parallel-model": ParallelModelEngine, "mirrored": MirroredEngine}
    return engines[name](devices)
