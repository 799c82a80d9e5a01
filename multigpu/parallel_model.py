"""A Keras model whose batches are worked on by several devices at once, forward and backward.

from multigpu import ParallelModel

model = ParallelModel(inner, devices=2)     # or "0,2,3", [0, 2], "all"
model.compile("adam", "mse")
model.fit(x, y, batch_size=64)              # 32 rows on each device
model.save("model.keras")                   # the plain inner model, with no trace of devices

Descends from `ParallelModel` of Matterport's Mask R-CNN (Abdulla, 2017) and from `multi_gpu_model` of
Keras 2, which differentiate outside of the devices' scopes, so that the first one computes all gradients.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from multigpu.devices import DeviceSpec, parse_devices
from multigpu.keras_internals import (
    build_losses,
    compiled_loss,
    compute_loss,
    update_loss_metric,
    wrap_losses,
)
from multigpu.losses import TowerLoss
from multigpu.model_towers import LossAndGradients, ModelTowers
from multigpu.stateless import masks_of, with_masks
from multigpu.towers import Structure, Tensor, as_tensors

LossOf: TypeAlias = Callable[..., tuple[Tensor, Structure]]


class ParallelModel(keras.Model):
    """Runs `inner` on several devices, each with its share of every batch; trains and saves `inner` itself.

    A batch of B rows is cut into one share for each device, which differ by one row at most. Every device
    has a tower: a copy of the weights for this step, the forward pass of its share, its loss and its
    gradient. Gradients are added up, each weighted by its share, and applied once: the step is that of one
    device with the whole batch. So the batch size is the global one, and the learning rate means the same
    on any number of devices.

    Inputs and outputs may be tensors, or lists, tuples and dicts of them. Inputs of rank 0 go to every
    tower. Outputs without rows, such as the loss of a model that computes it itself, are averaged, weighted
    by the towers' rows.

    Losses may have any reduction but none, and masks and weights: the gradient is that of the whole batch.
    What layers give to `add_loss` is to be a mean over rows, as Keras's regularisers of activity make it, and
    is averaged; so is what a `compute_loss` of the model's own gives, or a loss function that returns one
    number. Metrics that layers update themselves are added up.

    Batch normalisation uses the statistics of each tower's own rows, as `MirroredStrategy` does, and its
    moving statistics take the towers' mean, weighted by their rows. A layer made with `synchronized=True`
    (`keras.layers.BatchNormalization` has it) uses the statistics of the whole batch, summed over the
    towers in the forward and in the backward pass; the step then is that of one device here, too. It cannot
    stand in a loop, such as a recurrent layer's.

    Every tower draws masks of its own in dropout; the first one draws those that one device would. A layer
    that draws random numbers must have a `keras.random.SeedGenerator`, as those of Keras do.

    XLA compiles each tower, except towers that meet: those with synchronized layers, and those whose losses
    are a mean over frames that a mask leaves or over weights.

    Args:
        inner: the model; it keeps its weights and may be used on its own at any time.
        devices: what `multigpu.devices.parse_devices` takes.
        merge_on: name of the device where outputs and gradients are put together; by default the first.
        name: of the model.

    Raises:
        DeviceError: a device is not there.
        TypeError: `inner` has a `train_step` or `test_step` of its own.
    """

    def __init__(
        self, inner: keras.Model, devices: DeviceSpec, *, merge_on: str | None = None, name: str | None = None
    ) -> None:
        for method in ("train_step", "test_step"):
            if getattr(type(inner), method) is not getattr(keras.Model, method):
                raise TypeError(
                    f"{type(inner).__name__} has a {method} of its own, which cannot be cut into towers; "
                    "override compute_loss instead, or write a loop with ParallelModel.loss_and_gradients"
                )
        super().__init__(name=name or f"parallel_{inner.name}", dtype="float32", autocast=False)
        self.inner = inner
        self.devices = parse_devices(devices)
        self._towers = ModelTowers(inner, self.devices, merge_on or self.devices[0])
        if inner.built:
            self.build()
        if inner.compiled:  # a model that was loaded goes on with its optimiser's state
            self._compile_as_inner()

    def loss_and_gradients(
        self, loss_of: LossOf, *batch: Structure, scale: Tensor | float = 1.0
    ) -> LossAndGradients:
        """Loss, outputs and gradients of a batch, each share's on its own device: for loops of one's own.

            def loss_of(model, x, y):
                predicted = model(x, training=True)
                return tf.reduce_mean(keras.losses.mean_squared_error(y, predicted)), predicted

            @tf.function
            def step(x, y):
                loss, predicted, gradients = parallel.loss_and_gradients(loss_of, x, y)
                optimizer.apply(gradients, parallel.trainable_variables)

        Args:
            loss_of: (inner, *rows) -> (mean loss over these rows, outputs).
            *batch: tensors or structures of them, with rows.
            scale: gradients come multiplied by it, as loss scaling in mixed precision wants them.
        """
        return self._towers.loss_and_gradients(lambda rows: loss_of(self.inner, *rows), batch, scale)

    # what Keras calls

    def compile(
        self, optimizer: Any = "rmsprop", *args: Any, jit_compile: bool | str = "auto", **kwargs: Any
    ) -> None:
        """As in Keras; compiles `inner` as well, so that it is saved with its optimiser's state.

        Args:
            optimizer: as in Keras.
            *args: what follows in `keras.Model.compile`.
            jit_compile: whether XLA compiles each tower; never the whole step, which it would put on one
                device.
            **kwargs: what else `keras.Model.compile` takes.

        Raises:
            ValueError: towers that meet in synchronized layers cannot be compiled.
        """
        if jit_compile is True and self._towers.synchronized:
            raise ValueError(
                "jit_compile=True: towers that meet in synchronized layers cannot be compiled; "
                "leave jit_compile out"
            )
        self.inner.compile(optimizer, *args, jit_compile=jit_compile, **kwargs)
        self._compile_as_inner()

    def _compile_as_inner(self) -> None:
        inner = self.inner
        wrap_losses(inner, TowerLoss)
        super().compile(
            inner.optimizer,
            inner.loss,
            run_eagerly=inner.run_eagerly,
            steps_per_execution=inner.steps_per_execution,
            jit_compile=False,
        )
        self._towers.jit_compile = bool(inner.jit_compile)

    def build(self, *_: Any, **__: Any) -> None:
        """Nothing: the weights are the inner model's."""

    def call(
        self, inputs: Structure, *args: Structure, training: bool | None = None, **kwargs: Structure
    ) -> Structure:
        """The outputs of the whole batch; gradients taken through it stay on the device of each share.

        What layers gave to `add_loss` stands in `losses` afterwards.
        """
        batch = as_tensors(((inputs, *args), kwargs))
        self._build_inner(*batch[0], **batch[1])

        def forward(rows: Structure) -> Structure:
            outputs = self._forward(*rows[0], training=training, **rows[1])
            return outputs, masks_of(outputs)

        (outputs, masks), added_losses = self._towers.outputs(forward, batch)
        for loss in added_losses:
            # where compute_loss finds it; a functional model's own add_loss refuses all
            keras.layers.Layer.add_loss(self.inner, loss)
        return with_masks(outputs, masks)

    def train_step(self, data: Structure) -> dict[str, Tensor]:
        """One update of the weights, for `fit` and `train_on_batch`."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(as_tensors(data))
        self._build_step(x, y, sample_weight)
        loss, (outputs, masks), gradients = self._towers.loss_and_gradients(
            self._compiled_loss(training=True), (x, y, sample_weight), self.optimizer.scale_loss(1.0)
        )
        if gradients:
            self.optimizer.apply(gradients, self.trainable_variables)
        return self._tell(loss, x, y, with_masks(outputs, masks), sample_weight)

    def test_step(self, data: Structure) -> dict[str, Tensor]:
        """One step of `evaluate`."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(as_tensors(data))
        self._build_step(x, y, sample_weight)
        loss, (outputs, masks) = self._towers.losses(
            self._compiled_loss(training=False), (x, y, sample_weight)
        )
        return self._tell(loss, x, y, with_masks(outputs, masks), sample_weight)

    # loss and metrics: the inner model's

    @property
    def metrics(self) -> list[Any]:
        """The inner model's."""
        return list(self.inner.metrics)

    def reset_metrics(self) -> None:
        """As the inner model does it."""
        self.inner.reset_metrics()

    def get_metrics_result(self) -> dict[str, Tensor]:
        """As the inner model gives it."""
        results: dict[str, Tensor] = self.inner.get_metrics_result()
        return results

    def compute_metrics(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """As the inner model does it, for the whole batch."""
        results: dict[str, Tensor] = self.inner.compute_metrics(*args, **kwargs)
        return results

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """As the inner model does it, which in `fit` and `evaluate` sees the rows of one tower."""
        return compute_loss(self.inner, x, y, y_pred, sample_weight, training)

    # saving and loading: the inner model's

    def save(self, filepath: str | Path, *args: Any, **kwargs: Any) -> None:
        """Save the inner model, as `keras.Model.save` does."""
        self.inner.save(filepath, *args, **kwargs)

    def save_weights(self, filepath: str | Path, *args: Any, **kwargs: Any) -> None:
        """Save the inner model's weights, as `keras.Model.save_weights` does."""
        self.inner.save_weights(filepath, *args, **kwargs)

    def load_weights(self, filepath: str | Path, *args: Any, **kwargs: Any) -> None:
        """Load the inner model's weights, as `keras.Model.load_weights` does."""
        self.inner.load_weights(filepath, *args, **kwargs)

    def export(self, filepath: str | Path, *args: Any, **kwargs: Any) -> None:
        """Export the inner model for serving, as `keras.Model.export` does."""
        self.inner.export(filepath, *args, **kwargs)

    def to_json(self, **kwargs: Any) -> str:
        """The inner model's configuration."""
        return str(self.inner.to_json(**kwargs))

    def get_config(self) -> dict[str, Any]:
        """Refused: devices belong to a machine, not to a file.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "a ParallelModel is not saved or cloned itself, its inner model is: use parallel.save(path), "
            "keras.saving.save_model(parallel.inner, path) or keras.models.clone_model(parallel.inner)"
        )

    # shared by the steps

    def _build_inner(self, *args: Structure, **kwargs: Structure) -> None:
        if not self.inner.built:
            args, kwargs = tf.nest.map_structure(_any_number_of_rows, (args, kwargs))
            self.inner(*args, **kwargs)
        self.built = True

    def _build_step(self, *batch: Structure) -> None:
        """Make the variables of the model, and of the losses if they are several, outside of the towers."""
        self._build_inner(batch[0])
        losses = compiled_loss(self.inner)
        several = tf.nest.is_nested(batch[1]) or tf.nest.is_nested(self.inner.loss)
        if losses is not None and not losses.built and several:
            build_losses(self.inner, tf.nest.map_structure(_any_number_of_rows, batch))

    def _forward(self, *args: Structure, training: bool | None, **kwargs: Structure) -> Structure:
        if training is not None and "training" in inspect.signature(self.inner.call).parameters:
            kwargs["training"] = training
        return self.inner(*args, **kwargs)

    def _compiled_loss(self, training: bool) -> Callable[[Structure], Any]:
        """The loss given to `compile`, of a tower's rows."""

        def loss_of(rows: Structure) -> tuple[Tensor, Structure]:
            x, y, sample_weight = rows
            predicted = self._forward(x, training=training)
            loss = self.compute_loss(x, y, predicted, sample_weight, training)
            return loss, (predicted, masks_of(predicted))

        return loss_of

    def _tell(self, loss: Tensor, x: Any, y: Any, predicted: Any, sample_weight: Any) -> dict[str, Tensor]:
        num_rows = next(tf.shape(t)[0] for t in tf.nest.flatten(x) if t is not None and t.shape.rank != 0)
        update_loss_metric(self.inner, loss, num_rows)
        return self.compute_metrics(x, y, predicted, sample_weight=sample_weight)


def _any_number_of_rows(tensor: Any) -> Any:
    if not tf.is_tensor(tensor):
        return tensor
    return keras.KerasTensor([None, *tensor.shape[1:]] if tensor.shape.rank else (), tensor.dtype.name)
