"""Write the magnitude spectra of a clip's windows as ONNX nodes that compute in double precision.

The steps are those of `asr.model.features.fourier`, as products of matrices, because ONNX Runtime has no
convolution in double precision. Windows are multiplied in float32, as in training, so that both round the
same.
"""

from __future__ import annotations

import numpy as np

from asr.model.features.fourier import Array, Q, bins, num_rows, precise_factors
from asr.model.features.layer import HOP, WINDOW
from asr.model.onnx.graph import FLOAT32, FLOAT64, Graph, Value


def add_precise_magnitudes(graph: Graph, audio: Value, window: Array) -> Value:
    """Map audio (B, S) to the magnitudes of transforms of its windows, one every 160 samples.

    Args:
        graph: to add the nodes to.
        audio: samples; a clip shorter than a window is padded to one.
        window: (400,) factors of the samples.

    Returns:
        (B, 201, T) float32, from the lowest frequency to the highest.
    """
    rows, factors = num_rows(WINDOW), precise_factors()
    with graph.scope("spectrum"):
        windows = _add_windows(graph, audio) * graph.constant("window", window[:, None])  # (B, 400, T)
        grid = graph.op("Reshape", windows, [0, WINDOW // Q, Q, -1])
        columns = graph.op("Transpose", grid, perm=[0, 2, 1, 3])  # (B, 16, 25, T)
        columns = graph.op("Cast", columns, to=FLOAT64)
        by_column = graph.op("MatMul", graph.constant("by_column", factors.by_column.T), columns)
        by_column = graph.op("Reshape", by_column, [0, Q, rows, 2, -1])
        by_row = graph.op("Transpose", by_column, perm=[2, 0, 1, 3, 4])
        by_row = graph.op("Reshape", by_row, [rows, 0, 2 * Q, -1])  # (rows, B, 32, T)
        kernel = graph.constant("by_row", factors.by_row.transpose(0, 2, 1)[:, None])
        parts = graph.op("MatMul", kernel, by_row)
        squares = parts * parts
        power = graph.slice(squares, 2, 0, Q) + graph.slice(squares, 2, Q, None)  # (rows, B, 16, T)
        magnitudes = graph.op("Cast", graph.op("Sqrt", power), to=FLOAT32)
        magnitudes = graph.op("Transpose", magnitudes, perm=[1, 0, 2, 3])
        magnitudes = graph.op("Reshape", magnitudes, [0, rows * Q, -1])
        _, indices = np.unique(bins(WINDOW), return_index=True)
        return graph.op("Gather", magnitudes, graph.constant("bins", indices), axis=1)


def _add_windows(graph: Graph, audio: Value) -> Value:
    """Cut audio (B, S) into windows (B, 400, T), one every 160 samples; the last may be padded."""
    length = graph.op("Max", graph.size(audio, 1), WINDOW)
    num_frames = (length - WINDOW) // HOP + 1
    num_hops = num_frames + WINDOW // HOP
    # negative where samples at the end are dropped, which fill no window
    behind = num_hops * HOP - graph.size(audio, 1)
    padded = graph.op("Pad", audio, graph.op("Concat", [0, 0, 0], behind, axis=0))
    hops = graph.op("Transpose", graph.op("Reshape", padded, [0, -1, HOP]), perm=[0, 2, 1])  # (B, 160, T + 2)
    parts = []
    for begin in range(0, WINDOW, HOP):
        first, size = begin // HOP, min(HOP, WINDOW - begin)
        ends = graph.op("Concat", [size], num_frames + first, axis=0)
        parts.append(graph.op("Slice", hops, [0, first], ends, [1, 2]))
    return graph.op("Concat", *parts, axis=1)
