"""Write windows and their power spectra as ONNX nodes.

The Fourier transform is written as products with small matrices (Cooley & Tukey, 1965): one of N = P Q points
is Q transforms of P points, a rotation, and P transforms of Q points. With P = N / 16 it takes a fifth of the
multiplications of one N x N matrix and 10 kB of constants instead of 800, and ONNX's own operator DFT takes
eleven times as long in ONNX Runtime.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from asr.export.onnx.graph import Graph, Value
from asr.model.features.layer import HOP, WINDOW

Array = npt.NDArray[np.float64]

Q = 16  # divides the window and both sizes of transforms, 512 and 400
REST = WINDOW % HOP  # a window is two hops and a half


def add_frames(graph: Graph, audio: Value) -> Value:
    """Cut audio (B, S) into overlapping windows (B, T, 400), at least one, every 160 samples."""
    with graph.scope("frames"):
        missing = graph.op("Max", graph.op("Sub", WINDOW, graph.size(audio, 1)), 0)
        behind = missing + (HOP - REST)
        padded = graph.op("Pad", audio, graph.op("Concat", [0, 0, 0], behind, axis=0))
        whole = graph.size(padded, 1) // HOP * HOP
        hops = graph.op("Slice", padded, [0], whole, [1])
        hops = graph.op("Reshape", hops, [0, -1, HOP])  # (B, T + 2, 160)
        first, second = graph.slice(hops, 1, 0, -2), graph.slice(hops, 1, 1, -1)
        third = graph.slice(graph.slice(hops, 1, 2, None), 2, 0, REST)
        return graph.op("Concat", first, second, third, axis=2)


def add_power_spectrum(graph: Graph, frames: Value, window: npt.NDArray[np.float32], size: int) -> Value:
    """Map windows (B, T, 400) to the squared magnitudes of a transform of `size` points.

    Args:
        graph: to add the nodes to.
        frames: the windows.
        window: (400,) factors of the samples.
        size: 512, with zeros behind the samples, or 400.

    Returns:
        (B, T, `num_bins(size)`), in the order of `bins(size)`.
    """
    p, rows = size // Q, WINDOW // Q
    halves = p // 2 + 1
    with graph.scope("spectrum"):
        # x[16 a + b] is in row a and column b; bin k + p c is in row k and column c
        windowed = frames * graph.constant("window", window)
        grid = graph.op("Reshape", windowed, [0, 0, rows, Q])
        k, a, b, c = np.arange(halves), np.arange(rows), np.arange(Q), np.arange(Q)
        real = graph.op("MatMul", _constant(graph, "cos_rows", np.cos(_angles(k, a, p))), grid)
        imaginary = graph.op("MatMul", _constant(graph, "sin_rows", np.sin(_angles(k, a, p))), grid)
        cos = _constant(graph, "cos_rotation", np.cos(_angles(k, b, size)))
        sin = _constant(graph, "sin_rotation", np.sin(_angles(k, b, size)))
        rotated = graph.op("Concat", real * cos - imaginary * sin, real * sin + imaginary * cos, axis=3)
        cos_columns, sin_columns = np.cos(_angles(b, c, Q)), np.sin(_angles(b, c, Q))
        columns = np.block([[cos_columns, sin_columns], [-sin_columns, cos_columns]])
        both = graph.op("MatMul", rotated, _constant(graph, "columns", columns))  # (B, T, halves, 32)
        squares = both * both
        power = graph.slice(squares, 3, 0, Q) + graph.slice(squares, 3, Q, None)
        return graph.op("Reshape", power, [0, 0, halves * Q])


def bins(size: int) -> npt.NDArray[np.int64]:
    """Return which bin of a transform each column of `add_power_spectrum` is; some bins appear twice."""
    rows, columns = np.arange(size // Q // 2 + 1)[:, None], np.arange(Q)[None]
    numbers: npt.NDArray[np.int64] = (rows + size // Q * columns).reshape(-1)
    folded: npt.NDArray[np.int64] = np.minimum(numbers, size - numbers)
    return folded


def by_column(filters: npt.NDArray[np.float32], size: int) -> npt.NDArray[np.float32]:
    """Return filters over bins (size // 2 + 1, M) as filters over the columns of `add_power_spectrum`."""
    numbers = bins(size)
    _, first = np.unique(numbers, return_index=True)
    found = np.zeros((len(numbers), filters.shape[1]), np.float32)
    found[first] = filters
    return found


def _angles(rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], size: int) -> Array:
    """Return 2 pi i j / size for each row i and column j, exactly within one turn."""
    return 2 * np.pi * (np.outer(rows, columns) % size) / size


def _constant(graph: Graph, name: str, values: Array) -> Value:
    return graph.constant(name, values.astype(np.float32))
