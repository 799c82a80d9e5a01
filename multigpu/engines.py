"""One face for the ways to spread a training step: single, parallel-model, mirrored, multi-worker.

from multigpu.engines import make_engine

engine = make_engine("parallel-model", devices)
with engine.scope():
    model, optimizer = ...                  # their variables
step = engine.train_step(model, optimizer, loss_of, prepare, signature)
loss, outputs, told = step(num_rows, *batch)  # the loss of all rows, the outputs of this process's

A batch is global: whatever the engine and the number of devices, the step is that of one device with the
whole batch. Where several processes (workers) train together, each reads only the rows that
`engine.own_rows` leaves it.
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
from multigpu.accumulation import in_parts, refuse_meetings
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
    """Where and how a training step runs.

    Attributes:
        name: one of `multigpu.ENGINES`.
        devices: this process's.
        worker: this process's number among those that train together.
        num_workers: how many these are.
    """

    name: str
    worker, num_workers = 0, 1

    def __init__(self, devices: Sequence[str]) -> None:
        self.devices = tuple(devices)

    @property
    def num_devices(self) -> int:
        """Over all workers."""
        return len(self.devices) * self.num_workers

    @property
    def is_chief(self) -> bool:
        """Whether this process writes what training leaves."""
        return self.worker == 0

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """To make the model and the optimiser in."""
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
        """A compiled step.

        Where the loss or a gradient is not finite, an optimiser that skips such steps, as Keras's
        `LossScaleOptimizer` does, leaves weights and its own state as they were.

        Args:
            model: made in the engine's scope.
            optimizer: made and built there too.
            loss_of: (model, *rows) -> (mean loss over these rows, outputs).
            prepare: what is done to the gradients of the whole batch before the optimiser gets them, such
                as clipping, and what is to be told of them, such as their norm: gradients -> (gradients,
                told). They come in the order of `model.trainable_variables`, scaled as the optimiser's
                `scale_loss` wants it.
            signature: of the batch's tensors.
            num_parts: each device works on its rows in so many parts, one after the other, which takes the
                memory of a part; a model without batch statistics learns the same.

        Returns:
            (number of rows over all workers, *batch) -> (loss over all rows, outputs of this worker's,
            what `prepare` tells).
        """

    def refuse_parts(self, model: keras.Model, num_parts: int) -> None:
        """Raise a DeviceError where this engine cannot work on batches of a model in so many parts."""
        return

    def spread(self, function: Callable[..., Structure]) -> Callable[..., Structure]:
        """A function that works on each row by itself, on all devices of this process."""
        return functools.partial(data_parallelism, self.devices, function)

    def own_rows(self, rows: Sequence[T]) -> list[T]:
        """Those that this worker reads; at least one, where all workers must take part."""
        share = cut_rows(len(rows), self.num_workers)[self.worker]
        return list(rows[share.start : share.start + share.num_worked_on])

    def wait_for_all(self) -> None:
        """Return when every worker has come here."""
        return


class SingleEngine(Engine):
    """One device, the plain model."""

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
                loss, outputs, gradients = in_parts(work, num_parts, device)(*batch)
                gradients, told = prepare(gradients)
                optimizer.apply(gradients, model.trainable_variables)
            return loss, outputs, told

        return _compiled(step, signature)


class ParallelModelEngine(Engine):
    """Several devices of this process, through `ParallelModel`."""

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
            loss, outputs, gradients = in_parts(work, num_parts, first)(*batch)
            with tf.device(first):
                gradients, told = prepare(gradients)
                optimizer.apply(gradients, model.trainable_variables)
            return loss, outputs, told

        return _compiled(step, signature)


class MirroredEngine(Engine):
    """Several devices of this process, through `tf.distribute.MirroredStrategy`.

    Every device keeps the weights and the optimiser's state. Gradients travel twice: once to be clipped by
    their common norm, and once in Keras's optimisers, which always sum over the devices. Dropout draws the
    same masks on every device. Where a batch has fewer rows than there are devices, batch normalisation
    counts the rows that stand in for none; `ParallelModel` does not.
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
    def refuse_parts(self, model: keras.Model, num_parts: int) -> None:
        refuse_meetings(model, self.name, num_parts)

    @override
    def train_step(
        self, model: Any, optimizer: Any, loss_of: LossOf, prepare: Any, signature: Any, num_parts: int = 1
    ) -> Step:
        num_local, num_replicas = len(self.devices), self.strategy.num_replicas_in_sync
        self.refuse_parts(model, num_parts)
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

            own_loss, outputs, gradients = in_parts(work, num_parts, self.devices[index])(*share.rows(batch))
            there = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
            sums = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, there))
            gradients, told = prepare([None if gradient is None else next(sums) for gradient in gradients])
            shares = [None if gradient is None else gradient / num_replicas for gradient in gradients]
            optimizer.apply(shares, model.trainable_variables)  # which sums them over the devices
            return context.all_reduce(tf.distribute.ReduceOp.SUM, own_loss), outputs, told

        def step(num_rows: Tensor, *batch: Tensor) -> tuple[Tensor, Structure, Structure]:
            own = cut_rows(num_rows, self.num_workers)[self.worker]
            per_replica = self.strategy.run(replica, args=(num_rows, own.in_use, *batch))
            losses, outputs, told = zip(*local_results(self.strategy, per_replica), strict=True)
            shares = cut_rows(tf.shape(batch[0])[0], num_local)
            return losses[0], tf.nest.map_structure(own.left, merge(outputs, shares)), told[0]

        return _compiled(step, signature)


class MultiWorkerEngine(MirroredEngine):
    """Several processes, on one machine or many, through `tf.distribute.MultiWorkerMirroredStrategy`.

    To be made before TensorFlow makes its first tensor; returns when all processes are there.

    Args:
        cluster: who takes part.

    Raises:
        DeviceError: TensorFlow is already at work, or this process's port is taken.
    """

    name = "multi-worker"

    def __init__(self, cluster: Cluster) -> None:
        allow_memory_growth()
        try:
            strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster.resolver)
        except (RuntimeError, ValueError, tf.errors.OpError) as error:
            raise DeviceError(
                f"multi-worker: {cluster.addresses[cluster.worker]} cannot meet the others: {error}; is its "
                "port taken? choose another in TF_CONFIG, and make the engine before TensorFlow is at work"
            ) from None
        devices = [short_name(device) for device in strategy.extended.worker_devices]
        super().__init__(devices, strategy)
        self.worker, self.num_workers = cluster.worker, len(cluster.addresses)

    @override
    def wait_for_all(self) -> None:
        meet = tf.function(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones(())))
        float(self.strategy.experimental_local_results(self.strategy.run(meet))[0])


def make_engine(name: str, devices: Sequence[str]) -> Engine:
    """The engine of a name.

    Args:
        name: one of `multigpu.ENGINES`, or "" for the usual one of so many devices.
        devices: names; `multi-worker` takes all of this process's.

    Raises:
        DeviceError: there is no such engine, or it cannot use these devices.
    """
    name = name or ("single" if len(devices) == 1 else "parallel-model")
    if name == "multi-worker":
        return MultiWorkerEngine(find_cluster())
    devices = parse_devices(devices)
    if (name == "single") != (len(devices) == 1):
        raise DeviceError(
            f"{name}: expected {'1 device' if name == 'single' else 'several devices'}, received "
            f"{', '.join(devices)}; name the devices that it should use, or leave the engine out"
        )
    engines = {"single": SingleEngine, "parallel-model": ParallelModelEngine, "mirrored": MirroredEngine}
    if name not in engines:
        raise DeviceError(f"{name}: no such engine; there are {', '.join(ENGINES)}")
    return engines[name](devices)


def _compiled(step: Step, signature: Sequence[tf.TensorSpec]) -> Step:
    compiled: Step = tf.function(step, input_signature=[tf.TensorSpec((), tf.int32), *signature])
    return compiled
