"""Wrap every private name of Keras that `asr` depends on in a name of ours.

No other module of the package uses one; `tests/asr/model/test_keras_internals.py` tests that, and that all of
them exist in the version installed. Each docstring says what would replace the private name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
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
    """An optimizer that skips steps with gradients that are not finite, at one constant scale of the loss.

    Replaced by an option of Keras that skips steps whose gradients are not finite.
    """

    @override
    def _stateful_handle_finite_grads(self, grads: Any, trainable_variables: Any) -> None:
        self.inner_optimizer.apply(grads, trainable_variables)

    @override
    def _stateful_handle_non_finite_grads(self) -> None:
        return


def share_updates(optimizer: Any, compiled: bool = False) -> None:
    """Make an optimiser trace its update once for all weights of a shape, a type and a decay.

    Keras traces it for each weight again. The values are Keras's own, bit for bit. The weights must be on one
    device. Replaced by an option of Keras.

    Args:
        optimizer: not built yet; methods of it are replaced.
        compiled: whether XLA compiles each update, and the learning rate. XLA compiles a function once for
            each shape, too; all weights in one function would be compiled one by one.
    """
    settings = dict(vars(optimizer))  # without its state of each weight, which `build` adds

    def update(
        weight: Any, gradient: Any, state: dict[str, Any], rate: Any, iterations: Any, decays: bool
    ) -> None:
        of_one_weight: Any = object.__new__(type(optimizer))
        vars(of_one_weight).update(settings, _iterations=iterations, _learning_rate=rate)
        vars(of_one_weight).update({name: [variable] for name, variable in state.items()})
        of_one_weight._get_variable_index = lambda _: 0
        of_one_weight._use_weight_decay = lambda _: decays
        of_one_weight._apply_weight_decay([weight])
        of_one_weight.update_step(gradient, weight, rate)

    jit = compiled or None  # False would keep XLA from compiling a whole step
    shared = tf.function(update, jit_compile=jit, autograph=False)
    rate_of_step = tf.function(
        lambda: tf.convert_to_tensor(optimizer.learning_rate), jit_compile=jit, autograph=False
    )

    def update_all(gradients: Sequence[Any], weights: Sequence[Any], rate: Any) -> None:
        rate = rate_of_step() if compiled else tf.convert_to_tensor(rate)
        iterations = tf.convert_to_tensor(optimizer.iterations)
        states = _states_of_weights(optimizer, settings)
        for gradient, weight in zip(gradients, weights, strict=True):
            index = optimizer._get_variable_index(weight)
            state = {name: variables[index].value for name, variables in states.items()}
            decays = optimizer._use_weight_decay(weight.value)
            shared(weight.value, gradient, state, rate, iterations, decays)

    optimizer._backend_update_step = update_all
    optimizer._apply_weight_decay = lambda weights: None  # part of the update of each


def _states_of_weights(optimizer: Any, before: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the lists of variables, one for each weight, that `build` added to an optimiser.

    A weight that its gradient overwrites, such as a scale of float8, has None.
    """
    return {
        name: value
        for name, value in vars(optimizer).items()
        if name not in before
        and isinstance(value, list)
        and any(isinstance(each, keras.Variable) for each in value)
        and all(isinstance(each, keras.Variable | None) for each in value)
    }
