"""Provides a Keras model whose batches are processed by several devices at once, forward and backward.

from multigpu import ParallelModel

model = ParallelModel(inner, devices=2)     # or "0,2,3", [0, 2], "all"
model.compile("adam", "mse")
model.fit(x, y, batch_size=64)              # 32 rows on each device
model.save("model.keras")                   # the plain inner model, without any devices

Based on `ParallelModel` of Matterport's Mask R-CNN (Abdulla, 2017) and on `multi_gpu_model` of Keras 2, which
differentiate outside of the devices' scopes, so that the first device computes all gradients.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
from typing_extensions import override

from multigpu.devices import DeviceSpec, parse_devices
from multigpu.keras_models.wrapped_model import WrappedModel
from multigpu.replication.model_towers import LossAndGradients, ModelTowers
from multigpu.replication.state import check_stateless
from multigpu.replication.stateless import masks_of, with_masks
from multigpu.replication.towers import LossOf, Structure, Tensor, as_tensors


class ParallelModel(WrappedModel):
    """A model that runs `inner` on several devices, each with a share of a batch, and saves `inner` itself.

    A batch of B rows is split into one share for each device, which differ by one row at most. Every device
    has a tower: a copy of the weights for this step, the forward pass of its share, its loss and its
    gradient. Gradients are summed, each weighted by its share, and applied once: the step equals that of one
    device with the whole batch. So the batch size is the global one, and the learning rate means the same
    on any number of devices.

    Inputs and outputs may be tensors, or lists, tuples and dicts of them. Inputs of rank 0 are passed to
    every tower. Outputs without rows, such as the loss of a model that computes it itself, are averaged,
    weighted by the towers' rows; whole numbers are those of the first tower.

    Losses may have any reduction except "none", and weights and masks, on the outputs or on their own result:
    the gradient is that of the whole batch. Values that layers pass to `add_loss` must be means over rows, as
    those of Keras's activity regularisers are; they are averaged, and so are the result of the model's own
    `compute_loss` and of loss functions that return one number. Losses of Keras that compare rows with each
    other are refused.

    What layers write to variables is combined as `aggregation` of the variable says. Without it, moving
    statistics are averaged, weighted by the towers' rows, and whole numbers taken from the first tower.
    Metrics that the model updates itself are summed; a number given to a metric `Mean` counts as a mean over
    rows.

    Batch normalisation uses the statistics of each tower's own rows, as `MirroredStrategy` does, and its
    moving statistics take the towers' mean, weighted by their rows. A layer made with `synchronized=True`
    (such as `keras.layers.BatchNormalization`) uses the statistics of the whole batch, summed over the
    towers in the forward and in the backward pass, so that the step equals that of one device here, too. It
    cannot be inside a loop, such as a recurrent layer's.

    Every tower draws dropout masks of its own; the first one draws those that one device would. A layer
    that draws random numbers must have a `keras.random.SeedGenerator`, as those of Keras do.

    XLA compiles each tower, except towers that synchronize: those with synchronized layers, and those whose
    losses are a mean over unmasked frames or over sample weights.

    Args:
        inner: the model; it keeps its weights and may be used on its own at any time.
        devices: what `multigpu.devices.parse_devices` takes.
        keras_model: the name of `inner` in Mask R-CNN.
        gpu_count: the name of `devices` in Mask R-CNN.
        merge_on: name of the device where outputs and gradients are merged; by default the first.
        name: name of the parallel model.

    Raises:
        DeviceError: a device does not exist.
        TypeError: `inner` has a `train_step`, `test_step` or `predict_step` of its own, or is parallel.
        ValueError: a layer is stateful, and there are several devices.
    """

    def __init__(
        self,
        inner: keras.Model | None = None,
        devices: DeviceSpec | None = None,
        *,
        keras_model: keras.Model | None = None,
        gpu_count: int | None = None,
        merge_on: str | None = None,
        name: str | None = None,
    ) -> None:
        inner = _one_of(inner=inner, keras_model=keras_model)
        devices = _one_of(devices=devices, gpu_count=gpu_count)
        super().__init__(inner, name or f"parallel_{inner.name}")
        self.devices = parse_devices(devices)
        check_stateless(inner, len(self.devices))
        self._towers = ModelTowers(inner, self.devices, merge_on or self.devices[0])
        if inner.built:
            self.build()
        if inner.compiled:  # a loaded model continues with its optimiser's state
            self.compile_as_inner()

    @property
    def inner_model(self) -> keras.Model:
        """Return the model itself, by its name in Mask R-CNN."""
        return self.inner

    def loss_and_gradients(
        self, loss_of: LossOf, *batch: Structure, scale: Tensor | float = 1.0
    ) -> LossAndGradients:
        """Return the loss, outputs and gradients of a batch, each share's on its own device.

        A training loop of your own calls it::

            def loss_of(model, x, y):
                predicted = model(x, training=True)
                return tf.reduce_mean(keras.losses.mean_squared_error(y, predicted)), predicted

            @tf.function
            def step(x, y):
                loss, predicted, gradients = parallel.loss_and_gradients(loss_of, x, y)
                optimizer.apply(gradients, parallel.trainable_variables)

        Args:
            loss_of: `loss_of(inner, *rows)` returns the mean loss over these rows, and the outputs.
            *batch: tensors or structures of them, with rows.
            scale: factor of the gradients, for loss scaling in mixed precision.
        """
        return self._towers.loss_and_gradients(lambda rows: loss_of(self.inner, *rows), batch, scale)

    # what Keras calls

    def compile(self, *args: Any, jit_compile: bool | str = "auto", **kwargs: Any) -> None:
        """Compile the model as in Keras, and `inner` as well, so that it is saved with its optimiser's state.

        Args:
            *args: arguments of `keras.Model.compile`, or of the model's own.
            jit_compile: whether XLA compiles each tower; it never compiles the whole step, which would put
                it on one device.
            **kwargs: further arguments of the same.

        Raises:
            ValueError: `jit_compile` is True, and a layer is synchronized.
        """
        if jit_compile is True and self._towers.synchronized:
            raise ValueError(
                "jit_compile=True: towers with synchronized layers cannot be compiled; leave jit_compile out"
            )
        self.compile_inner(jit_compile, *args, **kwargs)

    @override
    def compile_as_inner(self) -> None:
        super().compile_as_inner()
        self._towers.jit_compile = bool(self.inner.jit_compile)

    def call(
        self, inputs: Structure, *args: Structure, training: bool | None = None, **kwargs: Structure
    ) -> Structure:
        """Return the outputs of the whole batch; gradients through it are computed on each share's device.

        Values that layers passed to `add_loss` are in `losses` afterwards.
        """
        batch = as_tensors(((inputs, *args), kwargs))
        self.build_inner(*batch[0], **batch[1])

        def forward(rows: Structure) -> Structure:
            outputs = self._forward(*rows[0], training=training, **rows[1])
            return outputs, masks_of(outputs)

        (outputs, masks), added_losses = self._towers.outputs(forward, batch)
        for loss in added_losses:
            # where compute_loss finds it; a functional model's own add_loss always raises an error
            keras.layers.Layer.add_loss(self.inner, loss)
        return with_masks(outputs, masks)

    def compute_step(
        self, x: Structure, y: Structure, sample_weight: Structure, scale: Any
    ) -> LossAndGradients:
        """Return the compiled loss, the outputs with their masks, and the gradients of a batch."""
        loss_of = self._compiled_loss(training=True)
        return self._towers.loss_and_gradients(loss_of, (x, y, sample_weight), scale)

    @override
    def compute_losses(
        self, x: Structure, y: Structure, sample_weight: Structure
    ) -> tuple[Tensor, Structure]:
        return self._towers.losses(self._compiled_loss(training=False), (x, y, sample_weight))

    def _forward(self, *args: Structure, training: bool | None, **kwargs: Structure) -> Structure:
        if training is not None and "training" in inspect.signature(self.inner.call).parameters:
            kwargs["training"] = training
        return self.inner(*args, **kwargs)

    def _compiled_loss(self, training: bool) -> Callable[[Structure], Any]:
        """Return a function that computes the loss given to `compile` of a tower's rows."""

        def loss_of(rows: Structure) -> tuple[Tensor, Structure]:
            x, y, sample_weight = rows
            predicted = self._forward(x, training=training)
            loss = self.compute_loss(x, y, predicted, sample_weight, training)
            return loss, (predicted, masks_of(predicted))

        return loss_of


def _one_of(**given: Any) -> Any:
    """Return the one argument that is given of two that mean the same."""
    values = [value for value in given.values() if value is not None]
    if len(values) != 1:
        raise TypeError(f"ParallelModel: expected one of {' and '.join(given)}, received {len(values)}")
    return values[0]
