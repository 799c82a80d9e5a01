"""Lets a Keras model be trained through another one, which differs only in where and how a step is computed.

What is compiled, measured and saved is the inner model, so its files know nothing of devices.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from multigpu.keras_internals import (
    build_losses,
    compiled_loss,
    compute_loss,
    update_loss_metric,
    wrap_losses,
)
from multigpu.losses import TowerLoss
from multigpu.model_towers import LossAndGradients
from multigpu.stateless import with_masks
from multigpu.towers import Structure, Tensor, as_tensors


class WrappedModel(keras.Model):
    """Trains and saves `inner`; a subclass computes losses and gradients.

    Args:
        inner: the model; it keeps its weights and may be used on its own at any time.
        name: name of the wrapped model.

    Raises:
        TypeError: `inner` has a `train_step` or `test_step` of its own.
    """

    instead_of_own_step = "override compute_loss"  # the remedy that an error names

    def __init__(self, inner: keras.Model, name: str) -> None:
        for method in ("train_step", "test_step"):
            if getattr(type(inner), method) is not getattr(keras.Model, method):
                raise TypeError(
                    f"{type(inner).__name__} has a {method} of its own, which cannot be split over devices; "
                    f"{self.instead_of_own_step} instead, or write a loop with {type(self).__name__}."
                    "loss_and_gradients"
                )
        super().__init__(name=name, dtype="float32", autocast=False)
        self.inner = inner

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
