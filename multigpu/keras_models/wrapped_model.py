"""Lets a Keras model be trained through another one, which differs only in where and how a step is computed.

What is compiled, measured and saved is the inner model, so its files know nothing of devices.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from multigpu.keras_models.losses import TowerLoss
from multigpu.replication.keras_internals import (
    build_losses,
    compiled_loss,
    compute_loss,
    update_loss_metric,
    wrap_losses,
)
from multigpu.replication.model_towers import LossAndGradients
from multigpu.replication.stateless import with_masks
from multigpu.replication.towers import Structure, Tensor, as_tensors


class WrappedModel(keras.Model):
    """A model that trains and saves `inner`; a subclass computes losses and gradients.

    Args:
        inner: the model; it keeps its weights and may be used on its own at any time.
        name: name of the wrapped model.

    Raises:
        TypeError: `inner` has a `train_step`, `test_step` or `predict_step` of its own, or is wrapped.
    """

    instead_of_own_step = "override compute_loss"  # the remedy that an error names

    def __init__(self, inner: keras.Model, name: str) -> None:
        kind = type(inner).__name__
        if isinstance(inner, WrappedModel):
            raise TypeError(
                f"{inner.name} is a {kind} already; give {type(self).__name__} its model, `inner`"
            )
        loop = (
            f"{self.instead_of_own_step} instead, or write a loop with "
            f"{type(self).__name__}.loss_and_gradients"
        )
        after = "do the same in `call`, or with what `predict` returns"
        for method, remedy in {"train_step": loop, "test_step": loop, "predict_step": after}.items():
            if getattr(getattr(inner, method), "__func__", None) is not getattr(keras.Model, method):
                raise TypeError(
                    f"{kind} has a {method} of its own, which cannot be split over devices; {remedy}"
                )
        super().__init__(name=name, dtype="float32", autocast=False)
        self.inner = inner
        self._made_with: dict[str, tuple[int, ...]] = {}  # of each compiled function, its variables

    def compute_step(
        self, x: Structure, y: Structure, sample_weight: Structure, scale: Tensor | float
    ) -> LossAndGradients:
        """Return the compiled loss, the outputs with their masks, and the gradients of a batch."""
        raise NotImplementedError

    def compute_losses(
        self, x: Structure, y: Structure, sample_weight: Structure
    ) -> tuple[Tensor, Structure]:
        """Return the compiled loss of a batch in evaluation, and the outputs with their masks."""
        raise NotImplementedError

    def compile_inner(self, jit_compile: bool | str, *args: Any, **kwargs: Any) -> None:
        """Compile the inner model, and this one as it is.

        Args:
            jit_compile: as in Keras; a `compile` of the model's own need not take it.
            *args: further arguments of the model's `compile`.
            **kwargs: further arguments of the model's `compile`.

        Raises:
            TypeError: the model's own `compile` does not call that of Keras.
        """
        inner = self.inner
        parameters = inspect.signature(inner.compile).parameters.values()
        if any(one.name == "jit_compile" or one.kind is one.VAR_KEYWORD for one in parameters):
            inner.compile(*args, jit_compile=jit_compile, **kwargs)
        else:
            inner.compile(*args, **kwargs)
            if jit_compile != "auto":
                inner.jit_compile = jit_compile
        if not inner.compiled:
            raise TypeError(f"{type(inner).__name__}.compile does not call super().compile(optimizer)")
        self.compile_as_inner()

    def compile_as_inner(self) -> None:
        """Compile this model as the inner model is compiled."""
        inner = self.inner
        wrap_losses(inner, TowerLoss)
        super().compile(
            inner.optimizer,
            inner.loss,
            run_eagerly=inner.run_eagerly,
            steps_per_execution=inner.steps_per_execution,
            jit_compile=False,
        )

    # what Keras calls

    def build(self, *_: Any, **__: Any) -> None:
        """Do nothing: the weights are the inner model's."""

    def make_train_function(self, force: bool = False) -> Any:
        """Make the compiled training step, again if the inner model has other variables than before."""
        return super().make_train_function(force or self._has_other_variables("train"))

    def make_test_function(self, force: bool = False) -> Any:
        """Make the compiled step of evaluation, again if the inner model has other variables than before."""
        return super().make_test_function(force or self._has_other_variables("test"))

    def make_predict_function(self, force: bool = False) -> Any:
        """Make the compiled step of prediction, again if the inner model has other variables than before."""
        return super().make_predict_function(force or self._has_other_variables("predict"))

    def _has_other_variables(self, function: str) -> bool:
        """Return whether the inner model has replaced a compiled function's variables, as `quantize` does."""
        before = self._made_with.get(function)
        self._made_with[function] = tuple(id(variable.value) for variable in self.inner.variables)
        return bool(before) and before != self._made_with[function]

    def train_step(self, data: Structure) -> dict[str, Tensor]:
        """Update the weights once, for `fit` and `train_on_batch`."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(as_tensors(data))
        self._build_step(x, y, sample_weight)
        loss, (outputs, masks), gradients = self.compute_step(
            x, y, sample_weight, self.optimizer.scale_loss(1.0)
        )
        if gradients:
            self.optimizer.apply(gradients, self.trainable_variables)
        return self._update_metrics(loss, x, y, with_masks(outputs, masks), sample_weight)

    def test_step(self, data: Structure) -> dict[str, Tensor]:
        """Evaluate one batch, for `evaluate` and `test_on_batch`."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(as_tensors(data))
        self._build_step(x, y, sample_weight)
        loss, (outputs, masks) = self.compute_losses(x, y, sample_weight)
        return self._update_metrics(loss, x, y, with_masks(outputs, masks), sample_weight)

    # loss and metrics: the inner model's

    @property
    def metrics(self) -> list[Any]:
        """Return the metrics of the inner model."""
        return list(self.inner.metrics)

    def reset_metrics(self) -> None:
        """Reset the metrics of the inner model."""
        self.inner.reset_metrics()

    def get_metrics_result(self) -> dict[str, Tensor]:
        """Return the inner model's metrics by name."""
        results: dict[str, Tensor] = self.inner.get_metrics_result()
        return results

    def compute_metrics(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """Update the inner model's metrics with the whole batch, and return them by name."""
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
        """Compute the loss by the inner model, in `fit` and `evaluate` of the rows that a device has."""
        return compute_loss(self.inner, x, y, y_pred, sample_weight, training)

    # layers, inputs and outputs: the inner model's

    @property
    def layers(self) -> list[keras.Layer]:
        """Return the layers of the inner model."""
        return list(self.inner.layers)

    def get_layer(self, name: str | None = None, index: int | None = None) -> keras.Layer:
        """Return a layer of the inner model, or that model itself by its name."""
        if index is None and name == self.inner.name and name not in {one.name for one in self.layers}:
            return self.inner
        return self.inner.get_layer(name, index)

    @property
    def input(self) -> Any:
        """Return the symbolic inputs of the inner model, where it has some."""
        return self.inner.input

    @property
    def output(self) -> Any:
        """Return the symbolic outputs of the inner model, where it has some."""
        return self.inner.output

    @property
    def inputs(self) -> Any:
        """Return a list of the symbolic inputs of the inner model, where it has some."""
        return self.inner.inputs

    @property
    def outputs(self) -> Any:
        """Return a list of the symbolic outputs of the inner model, where it has some."""
        return self.inner.outputs

    @property
    def input_shape(self) -> Any:
        """Return the shapes of the inner model's inputs, where they are known."""
        return self.inner.input_shape

    @property
    def output_shape(self) -> Any:
        """Return the shapes of the inner model's outputs, where they are known."""
        return self.inner.output_shape

    def summary(self, *args: Any, **kwargs: Any) -> None:
        """Show the inner model, as `keras.Model.summary` does."""
        self.inner.summary(*args, **kwargs)

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
        """Return the inner model's configuration as JSON."""
        return str(self.inner.to_json(**kwargs))

    def get_config(self) -> dict[str, Any]:
        """Refuse to serialize: devices belong to a machine, not to a file.

        Raises:
            TypeError: always.
        """
        kind = type(self).__name__
        name = kind.removesuffix("Model").lower()
        raise TypeError(
            f"a {kind} cannot be saved or cloned, only its inner model: use {name}.save(path), "
            f"keras.saving.save_model({name}.inner, path) or keras.models.clone_model({name}.inner)"
        )

    # shared by the steps

    def build_inner(self, *args: Structure, **kwargs: Structure) -> None:
        """Create the variables of the inner model, if it has none, by calling it with any number of rows."""
        if not self.inner.built:
            args, kwargs = tf.nest.map_structure(_any_number_of_rows, (args, kwargs))
            self.inner(*args, **kwargs)
        self.built = True

    def _build_step(self, *batch: Structure) -> None:
        """Create the variables of the model, and of several losses, outside of the towers."""
        self.build_inner(batch[0])
        losses = compiled_loss(self.inner)
        several = tf.nest.is_nested(batch[1]) or tf.nest.is_nested(self.inner.loss)
        if losses is not None and not losses.built and several:
            build_losses(self.inner, tf.nest.map_structure(_any_number_of_rows, batch))

    def _update_metrics(
        self, loss: Tensor, x: Any, y: Any, predicted: Any, sample_weight: Any
    ) -> dict[str, Tensor]:
        num_rows = next(tf.shape(t)[0] for t in tf.nest.flatten(x) if t is not None and t.shape.rank != 0)
        update_loss_metric(self.inner, loss, num_rows)
        return self.compute_metrics(x, y, predicted, sample_weight=sample_weight)


def _any_number_of_rows(tensor: Any) -> Any:
    if not tf.is_tensor(tensor):
        return tensor
    return keras.KerasTensor([None, *tensor.shape[1:]] if tensor.shape.rank else (), tensor.dtype.name)
