"""Write windows and their power spectra as ONNX nodes.

ONNX's own operator DFT takes eleven times as long in ONNX Runtime as products with small matrices.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from asr.export.fourier import Q, bins, fourier_factors, num_rows
from asr.export.onnx.graph import Graph, Value
from asr.model.features.layer import HOP, WINDOW

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
        (B, T, N), in the order of `asr.export.fourier.bins(size)`.
    """
    factors = fourier_factors(size)
    with graph.scope("spectrum"):
        cos_rows, sin_rows, cos, sin, columns = (
            graph.constant(name, matrix) for name, matrix in factors._asdict().items()
        )
        windowed = frames * graph.constant("window", window)
        grid = graph.op("Reshape", windowed, [0, 0, WINDOW // Q, Q])
        real, imaginary = graph.op("MatMul", cos_rows, grid), graph.op("MatMul", sin_rows, grid)
        rotated = graph.op("Concat", real * cos - imaginary * sin, real * sin + imaginary * cos, axis=3)
        both = graph.op("MatMul", rotated, columns)  # (B, T, rows, 32)
        squares = both * both
        power = graph.slice(squares, 3, 0, Q) + graph.slice(squares, 3, Q, None)
        return graph.op("Reshape", power, [0, 0, num_rows(size) * Q])


def by_column(filters: npt.NDArray[np.float32], size: int) -> npt.NDArray[np.float32]:
    """Return filters over bins (size // 2 + 1, M) as filters over the columns of `add_power_spectrum`."""
    numbers = bins(size)
    _, first = np.unique(numbers, return_index=True)
    found = np.zeros((len(numbers), filters.shape[1]), np.float32)
    found[first] = filters
    return found
