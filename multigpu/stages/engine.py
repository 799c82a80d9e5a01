"""Trains a model in stages through the interface that all engines share."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from multigpu.engine import Engine, Prepare, Step, compiled_step
from multigpu.errors import DeviceError
from multigpu.replication.keras_internals import layers_of
from multigpu.replication.skipping import skip_nonfinite_loss
from multigpu.replication.towers import LossOf, Structure, Tensor, as_tensors
from multigpu.stages.finish import called_with, finish_of_loss_function
from multigpu.stages.pipeline import HOST, Pipeline
from multigpu.stages.staged_model import StagedModel
from multigpu.stages.weights import beside_operands, work_beside_weights

MICRO_BATCHES_PER_STAGE = 2  # more waste less time in waiting and more in small operations


class StagesEngine(Engine):
    """An engine for a model with its layers on several devices of this process, by `StagedModel`.

    With several times as many devices as stages, each group of devices that follow each other runs all stages
    with its share of every batch.

    A loss function must call the model exactly once, with `training=True`. What it computes before that call
    runs where batches come from, the rest on the device of the last stage.

    Each of `num_parts` parts of a batch is a group of micro-batches, so moving statistics are updated once a
    step. Where a batch has fewer rows than micro-batches, some repeat a row with a weight of 0.

    Args:
        devices: names of this process's devices, at least two.
        num_stages: number of stages; 0 means one a device.

    Raises:
        DeviceError: the devices cannot be divided into that many stages.
    """

    name = "stages"

    def __init__(self, devices: Sequence[str], num_stages: int = 0) -> None:
        super().__init__(devices)
        self.num_stages = num_stages or len(self.devices)
        if self.num_stages < 2 or len(self.devices) % self.num_stages:
            raise DeviceError(
                f"`stages`: expected at least 2 and a divisor of the number of devices, {len(self.devices)}, "
                f"received {self.num_stages}"
            )

    @override
    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which weights are made: in the host's memory, since no device has room."""
        scope: contextlib.AbstractContextManager[Any] = tf.device(HOST)
        return scope

    @override
    def place(
        self,
        model: keras.Model,
        sample: Structure | None = None,
        stages: Sequence[Sequence[str]] | None = None,
    ) -> StagedModel:
        """Cut a model where measured time and memory are most even, and move each stage to its device."""
        num_micro_batches = MICRO_BATCHES_PER_STAGE * self.num_stages
        try:
            staged = StagedModel(
                model,
                stages or self.num_stages,
                self.devices,
                num_micro_batches=num_micro_batches,
                sample=sample,
            )
            staged.placement()  # is an error if the model has no weights
        except (TypeError, ValueError) as error:  # the model cannot be cut so
            message = str(error)
            raise DeviceError(message if message.startswith("`") else f"stages: {message}") from error
        return staged

    @override
    def check_num_parts(self, model: keras.Model, num_parts: int) -> None:
        if num_parts > 1 and any(getattr(layer, "synchronized", False) for layer in layers_of(model)):
            raise DeviceError(
                f"{self.name}: cannot process a batch in {num_parts} parts with synchronized batch "
                "normalisation, which needs the activations of all of them; use one part"
            )

    @override
    def train_step(
        self,
        model: Any,
        optimizer: Any,
        loss_of: LossOf,
        prepare: Prepare,
        signature: Sequence[tf.TensorSpec],
        num_parts: int = 1,
    ) -> Step:
        if not isinstance(model, StagedModel):
            raise DeviceError(f"stages: expected what StagesEngine.place returned, received {model.name}")
        self.check_num_parts(model.inner, num_parts)
        pipeline = _pipeline_of_steps(model.pipeline, num_parts)
        first, loss_of = self.devices[0], skip_nonfinite_loss(loss_of)
        finish = finish_of_loss_function(loss_of)
        work_beside_weights(optimizer)

        def step(num_rows: Tensor, *batch: Tensor) -> tuple[Tensor, Structure, Structure]:
            with tf.device(first):
                scale = optimizer.scale_loss(1.0)
            with tf.device(HOST):
                x = called_with(loss_of, batch)
            loss, outputs, gradients = pipeline.loss_and_gradients(finish, scale, x, *batch)
            with tf.device(first), beside_operands():
                gradients, logs = prepare(gradients)
                optimizer.apply(gradients, model.trainable_variables)
            return loss, outputs, logs

        return compiled_step(step, signature)

    @override
    def spread(self, function: Callable[..., Structure]) -> Callable[..., Structure]:
        """Return a function that runs on the last stage's device, and may call a model that was placed."""

        def on_last(*args: Structure, **kwargs: Structure) -> Structure:
            args, kwargs = as_tensors((args, kwargs))
            with tf.device(self.devices[self.num_stages - 1]):
                return function(*args, **kwargs)

        return on_last


def _pipeline_of_steps(pipeline: Pipeline, num_parts: int) -> Pipeline:
    """Return a pipeline whose loss is only the loss function's, in `num_parts` times the micro-batches."""
    own = copy.copy(pipeline)
    own.num_micro_batches *= num_parts
    own.adds_losses = False
    return own
