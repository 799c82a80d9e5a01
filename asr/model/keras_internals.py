"""Wrap every private name of Keras that `asr` depends on in a name of ours.

No other module of the package uses one; `tests/asr/model/test_keras_internals.py` tests that, and that all of
them exist in the version installed. Each docstring says what would replace the private name.
"""

from __future__ import annotations

from typing import Any

import keras
from typing_extensions import override


def layers_of(model: keras.Model) -> list[keras.Layer]:
    """Return the model and all layers within it, at any depth; replaced by a public recursive `layers`."""
    layers: list[keras.Layer] = model._flatten_layers()
    return layers


def layers_directly_in(layer: keras.Layer) -> list[keras.Layer]:
    """Return the layers that are attributes of a layer; replaced by a public `layers` of `keras.Layer`."""
    layers: list[keras.Layer] = layer._flatten_layers(include_self=False, recursive=False)
    return layers


def learning_rate_given_to(optimizer: keras.optimizers.Optimizer) -> Any:
    """Return the schedule of an optimiser, or the variable that holds its constant learning rate.

    Replaced by a public attribute; `optimizer.learning_rate` is the schedule's value for the current step.
    """
    return getattr(optimizer, "_learning_rate", None)


class UnscaledOptimizer(keras.optimizers.LossScaleOptimizer):
    """Applies finite gradients and skips a step with others, at one constant scale of the loss.

    Replaced by an option of Keras that skips steps whose gradients are not finite.
    """

    @override
    def _stateful_handle_finite_grads(self, grads: Any, trainable_variables: Any) -> None:
        self.inner_optimizer.apply(grads, trainable_variables)

    @override
    def _stateful_handle_non_finite_grads(self) -> None:
        return
