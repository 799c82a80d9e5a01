"""Shows a model as calls of layers in an order in which they can run, whichever kind of model it is.

Functional and Sequential models are read from Keras. A subclassed model takes part through a protocol: its
method `stages()` returns layers, each of which is called with what the one before it returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from multigpu.replication.keras_internals import LayerCall, LayerGraph, functional_graph


def layer_graph(model: keras.Model) -> LayerGraph:
    """Return the calls of layers that a model consists of.

    Raises:
        TypeError: the model is subclassed and has no method `stages`, or it does not return layers.
    """
    if graph := functional_graph(model):
        return graph
    if isinstance(model, keras.Sequential):
        return _chain(model.layers)
    method = getattr(model, "stages", None)
    if not callable(method):
        raise TypeError(
            f"{type(model).__name__} has a call of its own, so it is not known where it can be cut; give "
            "it a method stages() that returns its layers in the order of their calls"
        )
    layers = list(method())
    strays = [layer for layer in layers if not isinstance(layer, keras.Layer)]
    if strays or not layers:
        received = type(strays[0]).__name__ if strays else "an empty list"
        raise TypeError(f"{type(model).__name__}.stages: expected a list of layers, received {received}")
    return _chain(layers)


def _chain(layers: Sequence[keras.Layer]) -> LayerGraph:
    """Return the graph of layers that follow each other; a value is whatever one returns to the next."""
    calls = tuple(
        LayerCall(layer, (index,), (index + 1,), _call_in_chain(layer, index))
        for index, layer in enumerate(layers)
    )
    return LayerGraph(calls, (0,), None, (len(calls),), lambda inputs: [inputs], lambda values: values[0])


def _call_in_chain(layer: keras.Layer, index: int) -> Callable[[Mapping[int, Any], bool], Mapping[int, Any]]:
    return lambda values, training: {index + 1: layer(values[index])}
