"""Keeps weights, and the optimiser's state and arithmetic for them, on the device of their stage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from multigpu.devices import short_name
from multigpu.replication.keras_internals import (
    copy_decay_exclusions,
    make_variable_again,
    wrap_weight_decay,
)
from multigpu.replication.towers import Tensor
from multigpu.stages.cut import ModelStage


def place_weights(model: keras.Model, stages: Sequence[ModelStage], devices: Sequence[str]) -> bool:
    """Move the variables of each stage to its device, and return whether any was elsewhere.

    A `tf.function` that used them must be made again.
    """
    strays = [
        (variable, device)
        for stage, device in zip(stages, devices, strict=True)
        for variable in stage.variables
        if short_name(variable.value.device) != device
    ]
    for variable, device in strays:
        value = variable.numpy()
        with tf.device(device):
            make_variable_again(variable, value)
    if strays:  # they were traced with the variables on the old device
        model.train_function = model.test_function = model.predict_function = None
    return bool(strays)


def placed_optimizer(optimizer: Any, variables: Sequence[Any]) -> Any:
    """Return an optimiser that keeps its state, and works, on the device of each weight.

    Args:
        optimizer: an optimiser of Keras. If it has state already, an equal one with that state is returned,
            because the weights that it knows have moved.
        variables: the model's trainable weights, on their devices.
    """
    if not optimizer.built:
        return work_beside_weights(optimizer)
    values = [variable.numpy() for variable in optimizer.variables]
    placed = work_beside_weights(type(optimizer).from_config(optimizer.get_config()))
    copy_decay_exclusions(_innermost(optimizer), _innermost(placed))
    placed.build(list(variables))
    for variable, value in zip(placed.variables, values, strict=True):
        variable.assign(value)
    return placed


def work_beside_weights(optimizer: Any) -> Any:
    """Make an optimiser create its variables, and in a graph also work, on the device of each weight.

    Keras does the arithmetic on the device of the scope around `apply`. What is done with all gradients
    before weights are updated, such as testing whether they are finite, is done beside each gradient.
    Variables that an optimiser makes without naming a weight, such as Adafactor's of rows and columns, stay
    where it is built.

    Args:
        optimizer: an optimiser of Keras; methods of it are replaced.
    """
    inner = _innermost(optimizer)
    apply, add, update = optimizer.apply, inner.add_variable_from_reference, inner.update_step

    def apply_beside(*args: Any, **kwargs: Any) -> Any:
        with beside_operands():
            return apply(*args, **kwargs)

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

    optimizer.apply = apply_beside
    inner.add_variable_from_reference, inner.update_step = add_beside, update_beside
    wrap_weight_decay(inner, decaying_beside)
    return optimizer


@contextlib.contextmanager
def beside_operands() -> Iterator[None]:
    """Place each operation of a graph that has no device yet on that of its largest operand.

    A scope of a device within this context is followed, one around it only by operations without operands.
    Without effect outside of a graph.
    """
    with contextlib.nullcontext() if tf.executing_eagerly() else tf.compat.v1.device(_device_beside_operands):
        yield


def bytes_of(variable: Any) -> int:
    """Return the bytes of a variable."""
    return int(tf.size(variable.value)) * int(variable.value.dtype.size)


def _innermost(optimizer: Any) -> Any:
    """Return the optimiser within a `LossScaleOptimizer`, any other as it is."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _device_of(variable: Any) -> str:
    """Return the device of a variable of Keras or of TensorFlow."""
    device: str = (variable.value if isinstance(variable, keras.Variable) else variable).device
    return device


def _device_beside_operands(operation: tf.Operation) -> str:
    operands = [_outside(tensor) for tensor in operation.inputs]
    devices = [tensor.device for tensor in sorted(operands, key=_num_elements, reverse=True) if tensor.device]
    return operation.device or next(iter(devices), "")


def _outside(tensor: Tensor) -> Tensor:
    """Return what an argument of a branch or another function is in the graph around it."""
    while tensor.op.type == "Placeholder":
        outer = [outer for outer, inner in tensor.graph.captures if inner is tensor]
        if not outer or not hasattr(outer[0], "op"):
            return outer[0] if outer else tensor
        tensor = outer[0]
    return tensor


def _num_elements(tensor: Tensor) -> float:
    """Return the number of a tensor's elements, infinity for a variable or an unknown shape."""
    number = None if tensor.dtype == tf.resource else tensor.shape.num_elements()
    return float("inf") if number is None else number
