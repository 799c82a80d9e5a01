"""Undo, inside a graph, what sherpa-onnx does to a waveform: subtract its mean, divide by its deviation.

16-bit samples are whole numbers, so that all differences of neighbours are multiples of one step, which the
division leaves in the waveform. Its inverse is the deviation. Samples that are no whole numbers, because they
were resampled or come as floating-point numbers, have no such step; they get a usual loudness.

The mean cannot be known, but guessed: the sound of a voice is not symmetric, so that the mean of a recording
is not 0; that of its quietest part nearly is, if it is quiet enough to say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asr.model.onnx.graph import FLOAT32, Graph, Value

MOST_SAMPLES = 160_000  # of which differences are taken: 10 s
SMALLEST_STEP = 1.5e-5  # half of the step of the loudest waveform
NO_STEP = 1e4  # more than any difference
PARTS = 4  # largest number of steps in the smallest difference, as in a waveform that was amplified
FEW = 4.5, 32.5  # differences of up to so much times the smallest are averaged, one after the other
MAX_REST = 0.05  # mean distance of multiples of a step from whole numbers; it is 0.25 where there is no step
QUIETEST, LOUDEST = 30.0, 32768.0  # standard deviations of 16-bit samples
QUIET_SAMPLES = 800  # 50 ms
MAX_QUIET = 0.02  # deviation of the quietest part; a louder one's mean is less certain than the recording's


class _Deviation(NamedTuple):
    """The standard deviation of a waveform on the int16 scale, and whether its samples are whole."""

    value: Value  # (1, 1) float32
    is_whole: Value  # (1, 1) bool


def restored_waveform(graph: Graph, audio: Value, usual: float) -> Value:
    """Return a waveform (1, S) on the int16 scale that sherpa-onnx has normalised.

    Args:
        graph: to add nodes to.
        audio: the normalised waveform.
        usual: standard deviation to give it where its own cannot be known, on the int16 scale.
    """
    with graph.scope("waveform"):
        deviation = _deviation(graph, audio, usual)
        restored = (audio - _mean_of_quietest(graph, audio)) * deviation.value
        first = graph.slice(restored, 1, 0, 1)
        rest = first - graph.op("Round", first)  # the same for all samples
        return restored - graph.op("Where", deviation.is_whole, rest, 0.0)


def _deviation(graph: Graph, audio: Value, usual: float) -> _Deviation:
    some = graph.slice(audio, 1, 0, MOST_SAMPLES)
    differences = graph.op("Abs", graph.slice(some, 1, 1, None) - graph.slice(some, 1, 0, -1))  # (1, S)
    is_step = graph.op("Greater", differences, SMALLEST_STEP)
    smallest = graph.op("ReduceMin", graph.op("Where", is_step, differences, NO_STEP), [1])  # (1, 1)
    parts = graph.constant("parts", np.arange(1, PARTS + 1, dtype=np.float32)[:, None])
    steps = smallest / parts  # (P, 1), one of which may be the step
    for few in FEW:
        is_few = _as_numbers(graph, graph.op("Less", differences, smallest * few))
        multiples = graph.op("Round", differences / steps) * is_few  # (P, S)
        is_multiple = _as_numbers(graph, graph.op("Greater", multiples, 0.5))
        steps = _sum(graph, differences * is_multiple) / _sum(graph, multiples)
    rests = graph.op("Abs", differences / steps - multiples) * is_few
    fits = graph.op("Less", _sum(graph, rests) / _sum(graph, is_few), MAX_REST)  # (P, 1)
    deviations = graph.op("Reciprocal", steps)
    for kind, bound in (("Greater", QUIETEST), ("Less", LOUDEST)):
        fits = graph.op("And", fits, graph.op(kind, deviations, bound))
    fits = _as_numbers(graph, fits)
    is_whole = graph.op("Greater", graph.op("ReduceMax", fits, [0]), 0.5)
    # the first that fits, because the parts of a step fit, too
    first = graph.op("Gather", deviations, graph.op("ArgMax", fits, axis=0, keepdims=0), axis=0)
    return _Deviation(graph.op("Where", is_whole, first, usual), is_whole)


def _mean_of_quietest(graph: Graph, audio: Value) -> Value:
    """Return the mean (1, 1) of the quietest 50 ms of a waveform; 0 if it is shorter, or they are loud."""
    loud = np.tile(np.array([100, -100], np.float32), QUIET_SAMPLES // 2)[None]  # so that there is a part
    num_whole = graph.size(audio, 1) // QUIET_SAMPLES * QUIET_SAMPLES
    whole = graph.op("Slice", audio, [0], num_whole, [1])
    parts = graph.op("Concat", whole, graph.constant("loud", loud), axis=1)
    parts = graph.op("Reshape", parts, [-1, QUIET_SAMPLES])  # (N, 800)
    means = graph.op("ReduceMean", parts, [1])  # (N, 1)
    deviations = parts - means
    powers = graph.op("ReduceMean", deviations * deviations, [1])
    quietest = graph.op("ArgMin", powers, axis=0, keepdims=0)
    mean, power = (graph.op("Gather", values, quietest, axis=0) for values in (means, powers))
    return graph.op("Where", graph.op("Less", power, MAX_QUIET**2), mean, 0.0)


def _sum(graph: Graph, values: Value) -> Value:
    """Return the sums over samples of values (P, S), as (P, 1)."""
    return graph.op("ReduceSum", values, [1])


def _as_numbers(graph: Graph, condition: Value) -> Value:
    return graph.op("Cast", condition, to=FLOAT32)
