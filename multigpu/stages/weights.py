"""Keeps weights, and the optimiser's state and arithmetic for them, on the device of their stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from multigpu.devices import short_name
from multigpu.keras_internals import make_variable_again, wrap_weight_decay
from multigpu.stages.cut import Stage


def place_weights(model: keras.Model, stages: Sequence[Stage], devices: Sequence[str]) -> None:
    """Move the variables of each stage to its device; a `tf.function` that used them must be made again."""
    for stage, device in zip(stages, devices, strict=True):
        for variable in stage.variables:
            if short_name(variable.value.device) != device:
                value = variable.numpy()
                with tf.device(device):
                    make_variable_again(variable, value)
    # they were traced with the variables on the old device
    model.train_function = model.test_function = model.predict_function = None


def placed_optimizer(optimizer: Any, variables: Sequence[Any]) -> Any:
    """Return an optimiser that keeps its state, and updates weights, on the device of each weight.

    Keras does the arithmetic of all weights on the device of the scope around `apply`. What the optimiser
    does with all gradients together, such as clipping them by their common norm, it still does there.

    Args:
        optimizer: an optimiser of Keras. If it has state already, an equal one with that state is returned,
            because the weights that it knows have moved.
        variables: the model's trainable weights, on their devices.
    """
    if not optimizer.built:
        work_beside_weights(optimizer)
        return optimizer
    values = [variable.numpy() for variable in optimizer.variables]
    placed = type(optimizer).from_config(optimizer.get_config())
    work_beside_weights(placed)
    placed.build(list(variables))
    for variable, value in zip(placed.variables, values, strict=True):
        variable.assign(value)
    return placed


def work_beside_weights(optimizer: Any) -> None:
    """Make an optimiser create its variables, update weights and decay them on the device of each weight.

    Args:
        optimizer: an optimiser of Keras, for weights on their devices; its methods are replaced.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    add, update = optimizer.add_variable_from_reference, optimizer.update_step

    def add_beside(reference_variable: Any, *args: Any, **kwargs: Any) -> Any:
        with tf.device(_device_of(reference_variable)):
            return add(reference_variable, *args, **kwargs)

    def update_beside(gradient: Any, variable: Any, learning_rate: Any) -> Any:
        with tf.device(_device_of(variable)):
            return update(gradient, variable, learning_rate)

    def decaying_beside(decay: Callable[..., Any]) -> Callable[..., Any]:
        def decay_beside(variables: Iterable[Any]) -> None:
            for variable in variables:
                with tf.device(_device_of(variable)):
                    decay([variable])

        return decay_beside

    optimizer.add_variable_from_reference, optimizer.update_step = add_beside, update_beside
    wrap_weight_decay(optimizer, decaying_beside)


def bytes_of(variable: Any) -> int:
    """Return the bytes of a variable."""
    return int(tf.size(variable.value)) * int(variable.value.dtype.size)


def _device_of(variable: Any) -> str:
    """Return the device of a variable of Keras or of TensorFlow."""
    device: str = (variable.value if isinstance(variable, keras.Variable) else variable).device
    return device
