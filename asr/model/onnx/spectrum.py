"""Write the power spectra of a clip's windows as ONNX nodes that compute in double precision.

The steps are those of `asr.model.features.fourier`, as products of matrices: ONNX Runtime has no convolution
in double precision, and ONNX's own operator DFT takes more than ten times as long in it. Windows are
multiplied in float32, as in training, so that both round the same.
"""

from __future__ import annotations

import numpy as np

from asr.model.features.fourier import Q, bins, by_column_factors, cosines, num_rows, row_turns
from asr.model.features.layer import FFT_SIZE, HOP, WINDOW
from asr.model.onnx.graph import FLOAT32, FLOAT64, Graph, Value


def add_windows(graph: Graph, audio: Value) -> Value:
    """Cut audio (B, S) into windows (B, 400, T), one every 160 samples.

    A clip shorter than a window is padded to one.
    """
    with graph.scope("windows"):
        length = graph.op("Max", graph.size(audio, 1), WINDOW)
        num_frames = (length - WINDOW) // HOP + 1
        num_hops = num_frames + WINDOW // HOP
        # negative where samples at the end are dropped, which fill no window
        behind = num_hops * HOP - graph.size(audio, 1)
        padded = graph.op("Pad", audio, graph.op("Concat", [0, 0, 0], behind, axis=0))
        hops = graph.op("Reshape", padded, [0, -1, HOP])
        hops = graph.op("Transpose", hops, perm=[0, 2, 1])  # (B, 160, T + 2)
        parts = []
        for begin in range(0, WINDOW, HOP):
            first, size = begin // HOP, min(HOP, WINDOW - begin)
            ends = graph.op("Concat", [size], num_frames + first, axis=0)
            parts.append(graph.op("Slice", hops, [0, first], ends, [1, 2]))
        return graph.op("Concat", *parts, axis=1)


def add_power_spectrum(graph: Graph, windows: Value, size: int = FFT_SIZE) -> Value:
    """Map windows (B, 400, T) to the squared magnitudes (B, size / 2 + 1, T) of transforms."""
    rows = num_rows(size)
    with graph.scope("spectrum"):
        grid = graph.op("Reshape", windows, [0, WINDOW // Q, Q, -1])
        columns = graph.op("Transpose", grid, perm=[0, 2, 1, 3])  # (B, 16, 25, T)
        columns = graph.op("Cast", columns, to=FLOAT64)
        by_column = graph.op("MatMul", graph.constant("by_column", by_column_factors(size).T), columns)
        by_column = graph.op("Reshape", by_column, [0, Q, rows, 2, -1])
        by_row = graph.op("Transpose", by_column, perm=[2, 0, 1, 3, 4])
        by_row = graph.op("Reshape", by_row, [rows, 0, 2 * Q, -1])  # (rows, B, 32, T)
        parts = graph.op("Cast", graph.op("MatMul", _add_by_row(graph, size), by_row), to=FLOAT32)
        squares = parts * parts
        power = graph.slice(squares, 2, 0, Q) + graph.slice(squares, 2, Q, None)  # (rows, B, 16, T)
        power = graph.op("Reshape", graph.op("Transpose", power, perm=[1, 0, 2, 3]), [0, rows * Q, -1])
        _, first = np.unique(bins(size), return_index=True)
        return graph.op("Gather", power, graph.constant("bins", first), axis=1)


def _add_by_row(graph: Graph, size: int) -> Value:
    """Return the matrices (rows, 1, 32, 32) of `row_turns`, transposed.

    They are computed when a runtime loads the model, from constants of a thirtieth of their size.
    """
    turns = row_turns(size)
    numbers = graph.constant("numbers", turns.numbers) * graph.constant("columns", turns.columns)
    numbers = graph.op("Mod", numbers + graph.constant("parts", turns.parts), size)
    matrices = graph.op("Gather", graph.constant("cosines", cosines(size)), numbers)
    matrices = graph.op("Reshape", matrices, [-1, 1, 2 * Q, 2 * Q])
    return graph.op("Transpose", matrices, perm=[0, 1, 3, 2])
