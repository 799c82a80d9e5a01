"""Write the power spectra of a clip's windows as ONNX nodes: convolutions over the clip, in two steps.

The steps are those of `asr.model.features.fourier`, with the window and the rotation contained in the first.
ONNX's own operator DFT takes more than ten times as long in ONNX Runtime. Frames are the last axis, and
values have a third axis of size 1, because ONNX Runtime's fastest convolutions are those of images.
"""

from __future__ import annotations

import numpy as np

from asr.model.features.fourier import Array, Q, bins, fourier_factors, num_rows
from asr.model.features.layer import FFT_SIZE, HOP, WINDOW
from asr.model.onnx.graph import Graph, Value

PARTS = "real", "imag"
ROWS = num_rows(FFT_SIZE)


def add_power_spectrum(graph: Graph, audio: Value, window: Array, offsets: Value | None = None) -> Value:
    """Map audio (B, S) to the squared magnitudes of transforms of its windows, one every 160 samples.

    A transform has 512 points, with zeros after the 400 samples of a window.

    Args:
        graph: to add the nodes to.
        audio: samples; a clip shorter than a window is padded to one.
        window: (400,) factors of the samples.
        offsets: (B, 1, 1, T) to subtract from the samples of each window; None for nothing.

    Returns:
        (B, N, 1, T), in the order of `asr.model.features.fourier.bins(FFT_SIZE)`.
    """
    with graph.scope("spectrum"):
        columns = _add_columns(graph, audio)  # (B, 16, S / 16)
        by_column = graph.op(
            "Conv",
            columns,
            _add_rows(graph, window),
            kernel_shape=[WINDOW // Q],
            strides=[HOP // Q],
            group=Q,
        )  # (B, 16 * rows * 2, T)
        by_row = graph.op("Reshape", by_column, [0, Q, ROWS, -1])
        by_row = graph.op("Transpose", by_row, perm=[0, 2, 1, 3])
        by_row = graph.op("Reshape", by_row, [0, ROWS * Q * 2, 1, -1])
        squares = []
        for part, name in enumerate(PARTS):
            kernel = graph.op("Tile", graph.constant(name, _columns(part)), [ROWS, 1, 1, 1])
            values = graph.op("Conv", by_row, kernel, kernel_shape=[1, 1], group=ROWS)  # (B, N, 1, T)
            if offsets is not None:
                values -= offsets * graph.constant(f"offset_of_{name}", _transform_of(window, part))
            squares.append(values * values)
        return squares[0] + squares[1]


def _add_columns(graph: Graph, audio: Value) -> Value:
    """Return every 16th sample of audio (B, S), at least a window, as (B, 16, S // 16)."""
    length = graph.size(audio, 1)
    # negative where samples at the end are dropped, which fill no column
    behind = graph.op("Max", graph.op("Sub", WINDOW, length), graph.op("Neg", graph.op("Mod", length, Q)))
    padded = graph.op("Pad", audio, graph.op("Concat", [0, 0, 0], behind, axis=0))
    return graph.op("Transpose", graph.op("Reshape", padded, [0, -1, Q]), perm=[0, 2, 1])


def _add_rows(graph: Graph, window: Array) -> Value:
    """Return the kernel (16 * rows * 2, 1, 25) that maps each column to the parts of every row.

    It is computed when a runtime loads the model, from constants of a tenth of its size.
    """
    samples = np.arange(WINDOW).reshape(-1, Q).T[:, None, None]  # (16, 1, 1, 25)
    turns = graph.constant("samples", samples) * graph.constant("rows", np.arange(ROWS)[:, None, None])
    # a sine is a cosine, a quarter turn later
    turns += graph.constant("parts", np.array([[0], [-FFT_SIZE // 4]]))
    cosines = np.cos(2 * np.pi * np.arange(FFT_SIZE) / FFT_SIZE).astype(np.float32)
    waves = graph.op(
        "Gather", graph.constant("cosines", cosines), graph.op("Mod", turns, FFT_SIZE)
    )  # (16, rows, 2, 25)
    by_column = waves * graph.constant("window", window[samples])
    return graph.op("Reshape", by_column, [-1, 1, WINDOW // Q])


def _columns(part: int) -> Array:
    """Return the kernel (16, 32, 1, 1) that maps the columns of a row, in parts, to a part of its bins."""
    columns = fourier_factors().columns.reshape(2, Q, 2, Q)
    return columns[:, :, part].transpose(2, 1, 0).reshape(Q, 2 * Q, 1, 1)


def _transform_of(window: Array, part: int) -> Array:
    """Return a part of the transform of the window itself, (N, 1, 1)."""
    numbers = np.add.outer(np.arange(ROWS), FFT_SIZE // Q * np.arange(Q)).reshape(-1)
    transform = np.fft.fft(window.astype(np.float64), FFT_SIZE).conj()[numbers]
    found: Array = getattr(transform, PARTS[part]).astype(np.float32)[:, None, None]
    return found


def by_bin(filters: Array) -> Array:
    """Return filters over bins (257, M) as a kernel (M, N, 1, 1) over `add_power_spectrum`."""
    numbers = bins(FFT_SIZE)
    _, first = np.unique(numbers, return_index=True)
    found = np.zeros((len(numbers), filters.shape[1]), np.float32)
    found[first] = filters
    return found.T[..., None, None]
