"""Measures what each layer of a model costs: its time, forward and backward, and its memory."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import keras
import tensorflow as tf

from multigpu.replication.keras_internals import LayerCall, LayerGraph
from multigpu.replication.stateless import call_as_outermost
from multigpu.replication.towers import Structure, Tensor
from multigpu.stages.stage_run import Values
from multigpu.stages.weights import bytes_of

SAMPLE_ROWS = 4
REPEATS = 3
COPIES_OF_WEIGHTS = 4  # the weight, its gradient, and two variables of the optimiser
SAME_MEMORY = {
    "Identity",
    "Reshape",
    "Squeeze",
    "ExpandDims",
}  # operations whose output is their input's memory

Place: TypeAlias = tuple[int, int]  # key of a value, and index of a tensor within it


class LayerCost(NamedTuple):
    """What layers cost that follow each other and cannot be cut apart.

    Attributes:
        names: of the layers.
        seconds: forward and backward, of a sample of rows.
        weight_bytes: of their variables.
        activation_bytes: that the forward pass of the sample leaves for the backward pass.
    """

    names: list[str]
    seconds: float
    weight_bytes: int
    activation_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Return the bytes of weights, gradients, the optimiser's variables, and the sample's activations."""
        return COPIES_OF_WEIGHTS * self.weight_bytes + self.activation_bytes


def measure_layers(graph: LayerGraph, sample: Structure, device: str) -> list[LayerCost]:
    """Run each layer with a sample, forward and backward, and return what it costs, in the order of calls.

    The model's state does not change.

    Args:
        graph: the model's calls of layers.
        sample: what the model is called with.
        device: name of the device to measure on.
    """
    # in another thread, since within `tf.init_scope` of this one no tape records
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(_measure_layers, graph, sample, device).result()


def _measure_layers(graph: LayerGraph, sample: Structure, device: str) -> list[LayerCost]:
    values: dict[int, Structure] = dict(zip(graph.inputs, graph.standardize(sample), strict=True))
    last_use = {key: index for index, call in enumerate(graph.calls) for key in call.inputs}
    counted: set[Place] = set()
    costs = []
    for index, call in enumerate(graph.calls):
        with tf.device(device):
            measured = _measure(call, values)
        values.update(measured.made)
        # what no later call takes is released: the outputs of all layers may not fit on the device
        values = {key: value for key, value in values.items() if last_use.get(key, -1) > index}
        shared = sum(size for of, size in measured.shared_bytes.items() if of not in counted)
        counted |= set(measured.shared_bytes)
        is_layer = isinstance(call.layer, keras.Layer)
        costs.append(
            LayerCost(
                names=[call.layer.name] if is_layer else [],
                seconds=measured.seconds,
                weight_bytes=sum(map(bytes_of, call.layer.weights)) if is_layer else 0,
                activation_bytes=measured.inner_bytes + shared,
            )
        )
    return _units(costs)


def sample_of(graph: LayerGraph) -> Structure:
    """Return zeros for the inputs of a model, a few rows of each.

    Raises:
        ValueError: a dimension other than the number of rows is not known.
    """

    def zeros(tensor: keras.KerasTensor) -> tf.Tensor:
        if None in tensor.shape[1:]:
            raise ValueError(
                f"`stages`: the model's input {tensor.name} has the shape {tensor.shape}, so its layers "
                "cannot be measured without data; give a batch as `sample`"
            )
        return tf.zeros((SAMPLE_ROWS, *tensor.shape[1:]), tensor.dtype)

    if graph.input is None:
        raise ValueError(
            "`stages`: the shapes of the model's inputs are not known, so its layers cannot be measured; "
            "give a batch as `sample`, or the names of the layers of each stage"
        )
    return keras.tree.map_structure(zeros, graph.input)


class _Measured(NamedTuple):
    made: Values
    seconds: float
    shared_bytes: dict[Place, int]  # of inputs and outputs that the backward pass uses
    inner_bytes: int  # of everything else that it uses


def _measure(call: LayerCall, values: Values) -> _Measured:
    """Run a call forward and backward in a graph, as training does, and return what it made and costs."""
    is_layer = isinstance(call.layer, keras.Layer)
    variables = call.layer.variables if is_layer else []
    trained = [index for index, variable in enumerate(variables) if variable.trainable]
    places: list[Place] = []

    def step(taken: Values, weights: list[Tensor]) -> tuple[Values, list[Tensor], list[Tensor], Tensor]:
        state = zip(variables, weights, strict=True)
        sources = [*_floating(taken), *(weights[index] for index in trained)]
        with keras.StatelessScope(state), tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            made = call_as_outermost(lambda: call.run(taken, True), training=True)
        forward = set(tf.compat.v1.get_default_graph().get_operations())
        gradients = tape.gradient(_floating(made), sources)
        used = _used_later(forward, exclude=weights)
        shared = {id(tensor): place for place, tensor in _by_place({**taken, **made}).items()}
        places[:] = [shared[id(tensor)] for tensor in used if id(tensor) in shared]
        sizes = [_size(tensor) for tensor in used if id(tensor) in shared]
        inner = [_size(tensor) for tensor in used if id(tensor) not in shared]
        return made, gradients, sizes, tf.add_n(inner) if inner else tf.constant(0, tf.int64)

    run = tf.function(step, autograph=False)
    arguments = {key: values[key] for key in call.inputs}, [tf.identity(v.value) for v in variables]
    made, _, sizes, inner = run(*arguments)
    fastest = min(_seconds(lambda: run(*arguments)) for _ in range(REPEATS))
    return _Measured(made, fastest, dict(zip(places, map(int, sizes), strict=True)), int(inner))


def _used_later(forward: Collection[tf.Operation], exclude: Iterable[Tensor]) -> list[Tensor]:
    """Return the results of the operations of a forward pass that later operations of the graph use."""
    found: dict[int, Tensor] = {}
    excluded = set(map(id, exclude))
    for operation in tf.compat.v1.get_default_graph().get_operations():
        for tensor in operation.inputs if operation not in forward else ():
            while tensor.op.type in SAME_MEMORY:
                tensor = tensor.op.inputs[0]
            if tensor.op in forward and tensor.op.type != "Const" and id(tensor) not in excluded:
                found[id(tensor)] = tensor
    return [tensor for tensor in found.values() if tensor.dtype.size]


def _by_place(values: Values) -> dict[Place, Tensor]:
    return {
        (key, index): tensor
        for key, structure in values.items()
        for index, tensor in enumerate(tf.nest.flatten(structure))
    }


def _floating(values: Values) -> list[Tensor]:
    return [tensor for tensor in _by_place(values).values() if tensor.dtype.is_floating]


def _size(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor, () int64."""
    return tf.size(tensor, tf.int64) * tensor.dtype.size


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    tf.test.experimental.sync_devices()
    return time.perf_counter() - started


def joined(costs: Sequence[LayerCost]) -> LayerCost:
    """Return what several layers cost together."""
    return LayerCost(
        list(dict.fromkeys(name for cost in costs for name in cost.names)),
        sum(cost.seconds for cost in costs),
        sum(cost.weight_bytes for cost in costs),
        sum(cost.activation_bytes for cost in costs),
    )


def _units(costs: Sequence[LayerCost]) -> list[LayerCost]:
    """Join operations to the layer before them, and all that lies between two calls of one layer."""
    first: dict[str, int] = {}
    units: list[LayerCost] = []
    for cost in costs:
        start = len(units)
        if not cost.names and units:
            start -= 1
        for name in cost.names:
            start = min(start, first.get(name, start))
        units[start:] = [joined([*units[start:], cost])]
        first.update(dict.fromkeys(units[start].names, start))
    if len(units) > 1 and not units[0].names:  # operations before the first layer
        units[:2] = [joined(units[:2])]
    return units
