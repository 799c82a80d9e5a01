"""Defines what an engine is: where and how a training step runs, on one device or several."""

from __future__ import annotations

import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import keras
import tensorflow as tf

from multigpu.replication.towers import LossOf, Structure, Tensor, cut_rows, data_parallelism

Step: TypeAlias = Callable[..., tuple[Tensor, Structure, Structure]]  # see `Engine.train_step`
Prepare: TypeAlias = Callable[[list[Tensor]], tuple[list[Tensor], Structure]]
T = TypeVar("T")


class Engine(ABC):
    """Where and how a training step runs.

    Attributes:
        name: one of `multigpu.ENGINES`.
        devices: names of this process's devices.
        worker: index of this process among those that train together.
        num_workers: number of processes that train together.
        num_stages: number of stages into which the model is cut, 1 where each device has all of it.
        has_weights_on_one_device: whether the optimiser updates all weights on the first device.
    """

    name: str
    worker, num_workers = 0, 1
    num_stages = 1
    has_weights_on_one_device = False

    def __init__(self, devices: Sequence[str]) -> None:
        self.devices = tuple(devices)

    @property
    def num_devices(self) -> int:
        """Return the number of devices of all workers; towers that share a CPU are on one."""
        return len(set(self.devices)) * self.num_workers

    @property
    def is_chief(self) -> bool:
        """Return whether this process writes the files of training."""
        return self.worker == 0

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which the model and the optimiser must be created."""
        scope: contextlib.AbstractContextManager[Any] = tf.device(self.devices[0])
        return scope

    def place(
        self,
        model: keras.Model,
        sample: Structure | None = None,
        stages: Sequence[Sequence[str]] | None = None,
    ) -> Any:
        """Move a model's weights to where this engine trains them, and return what is trained.

        Called once, after the weights are made and before the optimiser is. What is returned is called as the
        model is, has its `trainable_variables`, and is the model itself for most engines.

        Args:
            model: created in the engine's scope.
            sample: what the model is called with, a few rows (a tuple where it takes several arguments), by
                which an engine may measure it.
            stages: names of the layers of each stage, for an engine that cuts the model; None to cut it where
                measured time and memory are most even.

        Raises:
            DeviceError: the engine cannot divide the model.
        """
        return model

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
            model: what `place` returned.
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

    def local_rows(self, rows: Sequence[T]) -> list[T]:
        """Return the rows that this worker reads; at least one, since all workers must take part."""
        share = cut_rows(len(rows), self.num_workers)[self.worker]
        return list(rows[share.start : share.start + share.num_processed])

    def wait_for_all(self) -> None:
        """Wait until every worker has called this method."""
        return

    def value_of_chief(self, value: float) -> float:
        """Return the chief's value; every worker must call this method."""
        return value


def compiled_step(step: Step, signature: Sequence[tf.TensorSpec]) -> Step:
    """Return a step compiled for batches of a signature, with the number of rows before them."""
    with_rows = [tf.TensorSpec((), tf.int32), *signature]
    compiled: Step = tf.function(step, input_signature=with_rows, autograph=False)
    return compiled
