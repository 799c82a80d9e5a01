"""Chooses where to cut a model such that measured time and memory are most even over the stages."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from multigpu.keras_internals import LayerCall, LayerGraph
from multigpu.stages.stage_run import Values
from multigpu.stateless import call_as_outermost
from multigpu.towers import Structure

SAMPLE_ROWS = 4
REPEATS = 3
COPIES_OF_WEIGHTS = 4  # the weight, its gradient, and two variables of the optimiser


class LayerCost(NamedTuple):
    """Holds what layers cost that follow each other and cannot be cut apart.

    Attributes:
        names: of the layers.
        seconds: forward and backward, of a sample of rows.
        memory_bytes: of weights, gradients, the optimiser's variables, and the sample's activations.
    """

    names: list[str]
    seconds: float
    memory_bytes: int


def even_stages(costs: Sequence[LayerCost], num_stages: int) -> list[list[str]]:
    """Return the names of each stage's layers such that the costliest stage costs as little as possible.

    A stage's cost is its share of the time or of the memory, whichever is larger.

    Raises:
        ValueError: there are fewer layers than stages.
    """
    if not 1 <= num_stages <= len(costs):
        raise ValueError(
            f"`stages`: expected 1 to {len(costs)}, the number of layers that can be cut apart, received "
            f"{num_stages}"
        )
    seconds = [0.0, *itertools.accumulate(cost.seconds for cost in costs)]
    memory = [0, *itertools.accumulate(cost.memory_bytes for cost in costs)]

    def cost_of(start: int, stop: int) -> float:
        time_share = (seconds[stop] - seconds[start]) / (seconds[-1] or 1)
        return max(time_share, (memory[stop] - memory[start]) / (memory[-1] or 1))

    # best[stop]: cost of the costliest stage, and the cuts, with the first `stop` layers in some stages
    best = {stop: (cost_of(0, stop), [0, stop]) for stop in range(1, len(costs) + 1)}
    for stage in range(2, num_stages + 1):
        best = {
            stop: min(
                (max(best[cut][0], cost_of(cut, stop)), [*best[cut][1], stop])
                for cut in range(stage - 1, stop)
            )
            for stop in range(stage, len(costs) + 1)
        }
    cuts = best[len(costs)][1]
    return [
        [name for cost in costs[start:stop] for name in cost.names]
        for start, stop in itertools.pairwise(cuts)
    ]


def measure_layers(graph: LayerGraph, sample: Structure) -> list[LayerCost]:
    """Run each layer with a sample, forward and backward, and return what it costs, in the order of calls.

    The model's state does not change. Called eagerly.

    Args:
        graph: the model's calls of layers.
        sample: what the model is called with.
    """
    values: dict[int, Structure] = dict(zip(graph.inputs, graph.standardize(sample), strict=True))
    costs = []
    for call in graph.calls:
        made, seconds = _measured(call, values)
        values.update(made)
        tensors = [value for structure in made.values() for value in tf.nest.flatten(structure)]
        activations = sum(int(tf.size(tensor)) * tensor.dtype.size for tensor in tensors)
        is_layer = isinstance(call.layer, keras.Layer)
        weights = call.layer.weights if is_layer else ()
        size = sum(int(tf.size(weight.value)) * weight.value.dtype.size for weight in weights)
        memory_bytes = COPIES_OF_WEIGHTS * size + activations
        costs.append(LayerCost([call.layer.name] if is_layer else [], seconds, memory_bytes))
    return _units(costs)


def sample_of(inputs: Structure) -> Structure:
    """Return zeros for the symbolic inputs of a model, a few rows of each.

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

    return keras.tree.map_structure(zeros, inputs)


def _measured(call: LayerCall, values: Values) -> tuple[Values, float]:
    """Return the outputs of a call and the seconds of its forward and backward pass."""
    taken = {key: values[key] for key in call.inputs}
    floating = [value for value in tf.nest.flatten(list(taken.values())) if value.dtype.is_floating]
    weights = [v.value for v in call.layer.trainable_weights] if isinstance(call.layer, keras.Layer) else []
    fastest = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        with keras.StatelessScope(), tf.GradientTape() as tape:
            tape.watch(floating)
            made = call_as_outermost(lambda: call.run(taken, True), training=True)
            targets = [value for value in tf.nest.flatten(list(made.values())) if value.dtype.is_floating]
        gradients = tape.gradient(targets, [*floating, *weights])
        for result in (*targets, *gradients):
            if result is not None:
                tf.convert_to_tensor(result).numpy()  # waits for the device
        fastest = min(fastest, time.perf_counter() - started)
    return made, fastest


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
        joined = [*units[start:], cost]
        names = list(dict.fromkeys(name for one in joined for name in one.names))
        units[start:] = [
            LayerCost(names, sum(one.seconds for one in joined), sum(one.memory_bytes for one in joined))
        ]
        first.update(dict.fromkeys(names, start))
    if len(units) > 1 and not units[0].names:  # operations before the first layer
        units[:2] = [
            LayerCost(
                units[1].names,
                units[0].seconds + units[1].seconds,
                units[0].memory_bytes + units[1].memory_bytes,
            )
        ]
    return units
