"""Undo, inside a graph, what sherpa-onnx does to a waveform: it divides it by its standard deviation.

16-bit samples are whole numbers, so that all differences of neighbours are multiples of one step, which the
division leaves in the waveform. Its inverse is the deviation. Samples that are no whole numbers, because they
were resampled or come as floating-point numbers, have no such step; they get a usual loudness. What
sherpa-onnx subtracts from the samples, their mean, cannot be known.
"""

from __future__ import annotations

import numpy as np

from asr.export.onnx.graph import Graph, Value

FLOAT32 = 1  # of ONNX's types
MOST_SAMPLES = 160_000  # of which differences are taken: 10 s
SMALLEST_STEP = 1.5e-5  # half of the step of the loudest waveform
NO_STEP = 1e4  # more than any difference
PARTS = 4  # the smallest difference is so many steps at most, as in a waveform that was amplified
FEW = 4.5, 32.5  # differences of up to so many of the smallest are averaged, one after the other
MAX_REST = 0.05  # mean distance of multiples of a step from whole numbers; it is 0.25 where there is no step
QUIETEST, LOUDEST = 30.0, 32768.0  # standard deviations of 16-bit samples


def with_loudness(graph: Graph, audio: Value, usual: float) -> Value:
    """Return a waveform (1, S) of any scale on the int16 scale.

    Args:
        graph: to add nodes to.
        audio: the waveform.
        usual: standard deviation to give it where its own cannot be known, on the int16 scale.
    """
    with graph.scope("loudness"):
        some = graph.slice(audio, 1, 0, MOST_SAMPLES)
        differences = graph.op("Abs", graph.slice(some, 1, 1, None) - graph.slice(some, 1, 0, -1))  # (1, S)
        is_step = graph.op("Greater", differences, SMALLEST_STEP)
        smallest = graph.op("ReduceMin", graph.op("Where", is_step, differences, NO_STEP), [1])  # (1, 1)
        parts = graph.constant("parts", np.arange(1, PARTS + 1, dtype=np.float32)[:, None])
        steps = smallest / parts  # (P, 1), one of which may be the step
        for few in FEW:
            is_few = _as_numbers(graph, graph.op("Less", differences, smallest * few))
            multiples = graph.op("Round", differences / steps) * is_few  # (P, S)
            whole = _as_numbers(graph, graph.op("Greater", multiples, 0.5))
            steps = _sum(graph, differences * whole) / _sum(graph, multiples)
        rests = graph.op("Abs", differences / steps - multiples) * is_few
        is_small = graph.op("Less", _sum(graph, rests) / _sum(graph, is_few), MAX_REST)
        deviations = graph.op("Reciprocal", steps)
        for kind, bound in (("Greater", QUIETEST), ("Less", LOUDEST)):
            is_small = graph.op("And", is_small, graph.op(kind, deviations, bound))
        # the first that fits: of the parts of a step, multiples are whole, too
        return audio * _first(graph, deviations, is_small, usual)


def _first(graph: Graph, values: Value, chosen: Value, otherwise: float) -> Value:
    """Return the first of the values (P, 1) that is chosen, or another, as (1, 1)."""
    numbers = _as_numbers(graph, chosen)
    place = graph.op("ArgMax", numbers, axis=0, keepdims=0)  # (1,)
    value = graph.op("Gather", values, place, axis=0)
    any_chosen = graph.op("Greater", graph.op("ReduceMax", numbers, [0]), 0.5)
    return graph.op("Where", any_chosen, value, otherwise)


def _sum(graph: Graph, values: Value) -> Value:
    """Return the sums over samples of values (P, S), as (P, 1)."""
    return graph.op("ReduceSum", values, [1])


def _as_numbers(graph: Graph, condition: Value) -> Value:
    return graph.op("Cast", condition, to=FLOAT32)
