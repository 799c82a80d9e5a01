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

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from multigpu.devices import DeviceError, DeviceSpec, parse_devices
from multigpu.model_towers import LossAndGradients, ModelTowers
from multigpu.towers import Share, Structure, Tensor, as_tensors

LossOf: TypeAlias = Callable[..., tuple[Tensor, Structure]]


class ParallelModel(keras.Model):
    """Runs `inner` on several devices, each with its share of every batch; trains and saves `inner` itself.

    A batch of B rows is cut into one share for each device, which differ by one row at most. Every device
    has a tower: a copy of the weights for this step, the forward pass of its share, its loss and its
    gradient. Gradients are added up, each weighted by its share, and applied once: the step is that of one
    device with the whole batch. So the batch size is the global one, and the learning rate means the same
    on any number of devices.

    Inputs and outputs may be tensors, or lists, tuples and dicts of them. Inputs of rank 0 go to every
    tower; outputs of rank 0, such as the loss of a model that computes it itself, are averaged over the
    rows.

    Batch normalisation uses the statistics of each tower's own rows, as `MirroredStrategy` does, and its
    moving statistics take the towers' mean, weighted by their rows. A layer made with `synchronized=True`
    (`keras.layers.BatchNormalization` has it) uses the statistics of the whole batch, summed over the
    towers in the forward and in the backward pass; the step then is that of one device here, too.

    Every tower draws masks of its own in dropout; the first one draws those that one device would.

    Losses may have any reduction; where the mean is over something else than rows (the frames that a mask
    leaves, the sum of the weights), models with one output get it exactly.

    Args:
        inner: the model; it keeps its weights and may be used on its own at any time.
        devices: what `multigpu.devices.parse_devices` takes.
        merge_on: name of the device where outputs and gradients are put together; by default the first.
        name: of the model.

    Raises:
        DeviceError: a device is not there.
        TypeError: `inner` has a `train_step`, `test_step` or `compute_metrics` of its own.
    """

    def __init__(
        self, inner: keras.Model, devices: DeviceSpec, *, merge_on: str | None = None, name: str | None = None
    ) -> None:
        for method in ("train_step", "test_step", "compute_metrics"):
            if getattr(type(inner), method) is not getattr(keras.Model, method):
                raise TypeError(
                    f"{type(inner).__name__} has a {method} of its own, which cannot be cut into towers; "
                    "override compute_loss instead, or write a loop with ParallelModel.loss_and_gradients"
                )
        super().__init__(name=name or f"parallel_{inner.name}", dtype=inner.dtype_policy, autocast=False)
        self.inner = inner
        self.devices = parse_devices(devices)
        self._towers = ModelTowers(inner, self.devices, merge_on or self.devices[0])
        if inner.compiled:  # a model that was loaded goes on with its optimiser's state
            settings = {**inner._compile_config.config, "optimizer": inner.optimizer}
            self._compile_self(**settings)

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
        return self._towers.loss_and_gradients(
            lambda _, rows: (*loss_of(self.inner, *rows), None), batch, scale
        )

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
            raise ValueError("jit_compile=True: towers that meet in synchronized layers cannot be compiled")
        self.inner.compile(optimizer, *args, jit_compile=jit_compile, **kwargs)
        self._compile_self(self.inner.optimizer, *args, **kwargs)

    def _compile_self(self, optimizer: Any, *args: Any, jit_compile: Any = None, **kwargs: Any) -> None:
        super().compile(optimizer, *args, jit_compile=False, **kwargs)
        self._towers.jit_compile = bool(self.inner.jit_compile) and not self._towers.synchronized

    def build(self, *_: Any, **__: Any) -> None:
        """Nothing: the weights are the inner model's."""

    def call(self, inputs: Structure, *args: Structure, training: bool | None = None) -> Structure:
        """The outputs of the whole batch; gradients taken through it stay on the device of each share."""
        batch = as_tensors((inputs, *args))
        if not self.inner.built:
            self.inner(*tf.nest.map_structure(lambda t: keras.KerasTensor(t.shape, t.dtype.name), batch))

        def forward(rows: Structure) -> Structure:
            outputs = self._forward(rows, training)
            losses = [tf.cast(loss, tf.float32) for loss in self.losses] if training else []
            return outputs, _masks(outputs), losses

        outputs, masks, losses = self._towers.outputs(forward, batch)
        del losses
        return _with_masks(outputs, masks)

    def train_step(self, data: Structure) -> dict[str, Tensor]:
        """One update of the weights, for `fit` and `train_on_batch`."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        loss, (outputs, masks), gradients = self._towers.loss_and_gradients(
            self._compiled_loss(training=True), (x, y, sample_weight), self.optimizer.scale_loss(1.0)
        )
        if gradients:
            self.optimizer.apply(gradients, self.trainable_variables)
        return self._tell(loss, x, y, _with_masks(outputs, masks), sample_weight)

    def test_step(self, data: Structure) -> dict[str, Tensor]:
        """One step of `evaluate`."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        loss, (outputs, masks) = self._towers.losses(
            self._compiled_loss(training=False), (x, y, sample_weight)
        )
        return self._tell(loss, x, y, _with_masks(outputs, masks), sample_weight)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """The inner model's own, where it has one."""
        if type(self.inner).compute_loss is keras.Model.compute_loss:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        return self.inner._compute_loss(x, y, y_pred, sample_weight, training)

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
            "a ParallelModel is not saved itself, its inner model is: use parallel.save(path), or "
            "keras.saving.save_model(parallel.inner, path)"
        )

    # shared by the steps

    def _forward(self, rows: Structure, training: bool | None) -> Structure:
        if self.inner._call_has_training_arg:
            return self.inner(*rows, training=training)
        return self.inner(*rows)

    def _compiled_loss(self, training: bool) -> Callable[[Share, Structure], Any]:
        """The loss given to `compile`, of a share; see `ModelTowers.losses`."""

        def loss_of(share: Share, rows: Structure) -> Any:
            x, y, sample_weight = rows
            predicted = self._forward((x,), training)
            loss = self._compute_loss(x, y, predicted, sample_weight, training)
            if _reduction(self.loss) == "sum":
                others = sum((tf.reduce_sum(other) for other in self.losses), tf.zeros((), loss.dtype))
                num_own = tf.maximum(tf.cast(share.size, loss.dtype), 1)
                loss = others + (loss - others) * tf.cast(share.num_rows, loss.dtype) / num_own
            masks = _masks(predicted)
            return loss, (predicted, masks), _counted(self.loss, predicted, masks, sample_weight)

        return loss_of

    def _tell(self, loss: Tensor, x: Any, y: Any, predicted: Any, sample_weight: Any) -> dict[str, Tensor]:
        num_rows = next(tf.shape(t)[0] for t in tf.nest.flatten(x) if t is not None and t.shape.rank != 0)
        self._loss_tracker.update_state(loss, sample_weight=num_rows)
        results: dict[str, Tensor] = self.compute_metrics(x, y, predicted, sample_weight=sample_weight)
        return results

    @property
    def output_names(self) -> Any:
        """Of a functional inner model, for losses by name."""
        return self.inner.output_names


def multi_gpu_model(
    model: keras.Model, gpus: int | Sequence[int], cpu_merge: bool = True, cpu_relocation: bool = False
) -> ParallelModel:
    """The function of Keras 2 by this name, on top of `ParallelModel`.

    Args:
        model: the template; it shares its weights with what is returned.
        gpus: a number of devices, or a list of ids; at least two.
        cpu_merge: whether results are put together on the CPU, else on the first device.
        cpu_relocation: whether the weights are moved to the CPU first.

    Raises:
        DeviceError: fewer than two devices, or one that is not there.
    """
    num_devices = gpus if isinstance(gpus, int) else len(gpus)
    if num_devices < 2:
        raise DeviceError(
            f"multi_gpu_model: expected at least 2 devices, received gpus={gpus!r}; use the model as it is"
        )
    devices = parse_devices(gpus)
    if cpu_relocation:
        for variable in model.variables:
            value = variable.numpy()
            with tf.device("/CPU:0"):
                variable._initialize(value)
    return ParallelModel(model, devices, merge_on="/CPU:0" if cpu_merge else devices[0])


def _reduction(loss: Any) -> str | None:
    """Of what was given to `compile`, if it is one loss."""
    losses = tf.nest.flatten(loss)
    return str(getattr(losses[0], "reduction", "mean")) if len(losses) == 1 else None


def _counted(loss: Any, predicted: Structure, masks: Sequence[Tensor], sample_weight: Any) -> Tensor | None:
    """What a loss is a mean over, where that is not the rows: valid frames, or the sum of the weights."""
    if len(tf.nest.flatten(predicted)) != 1 or _reduction(loss) == "sum":
        return None
    if _reduction(loss) == "mean_with_sample_weight" and sample_weight is not None:
        return tf.reduce_sum(sample_weight)
    return tf.reduce_sum(tf.cast(masks[0], tf.float32)) if masks[0] is not None else None


def _masks(outputs: Structure) -> list[Tensor | None]:
    """The masks that Keras hangs on outputs."""
    return [getattr(output, "_keras_mask", None) for output in tf.nest.flatten(outputs)]


def _with_masks(outputs: Structure, masks: Sequence[Tensor | None]) -> Structure:
    for output, mask in zip(tf.nest.flatten(outputs), masks, strict=True):
        if mask is not None:
            output._keras_mask = mask
    return outputs
