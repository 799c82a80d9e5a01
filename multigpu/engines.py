"""Runs training steps on devices by one of several engines: single, parallel-model, mirrored, multi-worker.

from multigpu.engines import make_engine

engine = make_engine("parallel-model", devices)
with engine.scope():
    model, optimizer = ...                  # their variables
step = engine.train_step(model, optimizer, loss_of, prepare, signature)
loss, outputs, logs = step(num_rows, *batch)  # the loss of all rows, the outputs of this process's rows

Batches are global: whatever the engine and the number of devices, the step equals that of one device with the
whole batch. Where several processes (workers) train together, each reads only the rows that
`engine.own_rows` returns.
"""

from __future__ import annotations

import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import keras
import tensorflow as tf
from typing_extensions import override

from multigpu import ENGINES
from multigpu.accumulation import check_no_synchronization, with_accumulation
from multigpu.cluster import Cluster, find_cluster
from multigpu.devices import allow_memory_growth, parse_devices, short_name
from multigpu.errors import DeviceError
from multigpu.model_towers import LossAndGradients
from multigpu.parallel_model import LossOf, ParallelModel
from multigpu.replicas import local_id, local_results, mirrored_strategy
from multigpu.skipping import skip_nonfinite_loss
from multigpu.towers import Structure, Tensor, cut_rows, data_parallelism, merge

Step: TypeAlias = Callable[..., tuple[Tensor, Structure, Structure]]  # see `Engine.train_step`
Prepare: TypeAlias = Callable[[list[Tensor]], tuple[list[Tensor], Structure]]
T = TypeVar("T")


class Engine(ABC):
    """Defines where and how a training step runs.

    Attributes:
        name: one of `multigpu.ENGINES`.
        devices: names of this process's devices.
        worker: index of this process among those that train together.
        num_workers: number of processes that train together.
    """

    name: str
    worker, num_workers = 0, 1

    def __init__(self, devices: Sequence[str]) -> None:
        self.devices = tuple(devices)

    @property
    def num_devices(self) -> int:
        """Return the number of devices of all workers."""
        return len(self.devices) * self.num_workers

    @property
    def is_chief(self) -> bool:
        """Return whether this process writes the files of training."""
        return self.worker == 0

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which the model and the optimiser must be created."""
        scope: contextlib.AbstractContextManager[Any] = tf.device(self.devices[0])
        return scope

    @abstractmethod
    def train_step(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        loss_of: LossOf,
        prepare: Prepare,
        signature: Sequence[tf.TensorSpec],
        num_parts: int = 1,
    ) -> Step:
        """Return a compiled training step.

        Where the loss or a gradient is not finite, an optimiser that skips such steps, as Keras's
        `LossScaleOptimizer` does, leaves the weights and its own state unchanged.

        Args:
            model: created in the engine's scope.
            optimizer: created and built in the engine's scope.
            loss_of: (model, *rows) -> (mean loss over these rows, outputs).
            prepare: gradients -> (gradients, logs); processes the gradients of the whole batch before the
                optimiser applies them, for instance clips them, and returns what to log, such as their norm.
                They come in the order of `model.trainable_variables`, scaled by the optimiser's
                `scale_loss`.
            signature: shapes and types of the batch's tensors.
            num_parts: number of parts in which each device processes its rows, one after the other, with
                the memory of one part; a model without batch statistics learns the same.

        Returns:
            (number of rows over all workers, *batch) -> (loss over all rows, outputs of this worker's,
            logs of `prepare`).
        """

    def check_num_parts(self, model: keras.Model, num_parts: int) -> None:
        """Raise a DeviceError if this engine cannot process batches of a model in that number of parts."""
        return

    def spread(self, function: Callable[..., Structure]) -> Callable[..., Structure]:
        """Return a function that runs a row-wise function on all devices of this process."""
        return functools.partial(data_parallelism, self.devices, function)

    def own_rows(self, rows: Sequence[T]) -> list[T]:
        """Return the rows that this worker reads; at least one, since all workers must take part."""
        share = cut_rows(len(rows), self.num_workers)[self.worker]
        return list(rows[share.start : share.start + share.num_processed])

    def wait_for_all(self) -> None:
        """Wait until every worker has called this method."""
        return


class SingleEngine(Engine):
    """Trains the plain model on one device."""

    name = "single"

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
                loss, outputs, gradients = with_accumulation(work, num_parts, device)(*batch)
                gradients, logs = prepare(gradients)
                optimizer.apply(gradients, model.trainable_variables)
            return loss, outputs, logs

        return _compiled(step, signature)


class ParallelModelEngine(Engine):
    """Trains on several devices of this process through `ParallelModel`."""

    name = "parallel-model"

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
            loss, outputs, gradients = with_accumulation(work, num_parts, first)(*batch)
            with tf.device(first):
                gradients, logs = prepare(gradients)
                optimizer.apply(gradients, model.trainable_variables)
            return loss, outputs, logs

        return _compiled(step, signature)


class MirroredEngine(Engine):
    """Trains on several devices of this process through `tf.distribute.MirroredStrategy`.

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

            own_loss, outputs, gradients = with_accumulation(work, num_parts, self.devices[index])(
                *share.rows(batch)
            )
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

        return _compiled(step, signature)


class MultiWorkerEngine(MirroredEngine):
    """Trains with several processes through `tf.distribute.MultiWorkerMirroredStrategy`.

    The processes run on one machine or many. Must be created before TensorFlow makes its first tensor;
    waits until all processes have joined.

    Args:
        cluster: the processes that take part.

    Raises:
        DeviceError: TensorFlow is already initialized, or this process's port is in use.
    """

    name = "multi-worker"

    def __init__(self, cluster: Cluster) -> None:
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
        barrier = tf.function(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones(())))
        float(self.strategy.experimental_local_results(self.strategy.run(barrier))[0])


def make_engine(name: str, devices: Sequence[str]) -> Engine:
    """Make the engine of a name.

    Args:
        name: one of `multigpu.ENGINES`, or "" for the default of that number of devices.
        devices: names; ignored by `multi-worker`, which uses all devices of this process.

    Raises:
        DeviceError: the engine is unknown, or it cannot use these devices.
    """
    name = name or ("single" if len(devices) == 1 else "parallel-model")
    if name == "multi-worker":
        return MultiWorkerEngine(find_cluster())
    devices = parse_devices(devices)
    if (name == "single") != (len(devices) == 1):
        raise DeviceError(
            f"{name}: expected {'1 device' if name == 'single' else 'several devices'}, received "
            f"{', '.join(devices)}; choose other devices, or leave the engine out"
        )
    engines = {"single": SingleEngine, "parallel-model": ParallelModelEngine, "mirrored": MirroredEngine}
    if name not in engines:
        raise DeviceError(f"unknown engine {name!r}; expected one of {', '.join(ENGINES)}")
    return engines[name](devices)


def _compiled(step: Step, signature: Sequence[tf.TensorSpec]) -> Step:
    compiled: Step = tf.function(step, input_signature=[tf.TensorSpec((), tf.int32), *signature])
    return compiled
