"""Compute Fourier transforms by products with small matrices, for LiteRT.

Its own operator, RFFT2D, takes powers of two only, while ASRT's spectrogram is a transform of 400 points. In
ai-edge-litert 2.3.0 it also returned a wrong spectrum for one clip in 200 or so, at random, where the length
changed from clip to clip.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from keras import ops

from asr.base.types import Tensor
from asr.model.features.fourier import Q, bins, by_column_factors, cosines, num_rows, row_turns
from asr.model.features.layer import FFT_SIZE, WINDOW, FeatureLayer

Float32: TypeAlias = npt.NDArray[np.float32]

# Sums of products are exact as long as they are below 2^24 times the steps of both factors: those of 25
# samples of 16 bits are below 2^20, and those of a whole window below 2^24.
MATRIX_STEP, SAMPLE_STEP, SUM_STEP = 2.0**-8, 2.0**4, 2.0**8


def features_for_litert(features: FeatureLayer) -> FeatureLayer:
    """Return a layer that computes the same by operators that LiteRT has."""
    kind = type(features)
    made: Any = type(kind.__name__, (ByProducts, kind), {})
    layer: FeatureLayer = made.from_config(features.get_config())
    return layer


class ByProducts(FeatureLayer):
    """The transforms of feature layers as products of matrices."""

    SUM_TYPE = "float32"

    def power_spectrum(self, windows: Tensor, size: int = FFT_SIZE) -> Tensor:
        """Return what `FeatureLayer.power_spectrum` does."""
        return power_by_products(windows, size)


def power_by_products(windows: Tensor, size: int) -> Tensor:
    """Return the squared magnitudes (B, T, size / 2 + 1) of windows (B, T, 400), nearly as in float64.

    LiteRT has no float64. What is large is a multiple of a power of two here, so that products and their sums
    are exact, and what is rounded is small (Ozaki et al., 2012, "Error-free transformations of matrix
    multiplication").
    """
    shape, rows = tf.shape(windows), num_rows(size)
    grid = tf.reshape(windows, (shape[0], shape[1], WINDOW // Q, Q))
    columns = tf.transpose(grid, [0, 1, 3, 2])  # (B, T, 16, 25)
    large, small = _product(*_split(columns, SAMPLE_STEP), *_tables(by_column_factors(size)))
    large, small = (_by_row(part, rows) for part in (large, small))  # (B, rows, T, 32)
    large, rest = _split(large, SUM_STEP)
    large, small = _product(large, rest + small, *_by_row_matrices(size, windows[0, 0, 0]))
    squares = tf.square(large + small)
    power = squares[..., :Q] + squares[..., Q:]  # (B, rows, T, 16)
    power = tf.reshape(tf.transpose(power, [0, 2, 1, 3]), (shape[0], shape[1], rows * Q))
    _, first = np.unique(bins(size), return_index=True)
    return tf.gather(power, first.astype(np.int32), axis=-1)


def _by_row(values: Tensor, rows: int) -> Tensor:
    """Turn the parts of every row by column, (B, T, 16, rows * 2), into (B, rows, T, 32)."""
    shape = tf.shape(values)
    by_row = tf.transpose(tf.reshape(values, (shape[0], shape[1], Q, rows, 2)), [0, 3, 1, 2, 4])
    return tf.reshape(by_row, (shape[0], rows, shape[1], 2 * Q))


def _split(values: Any, step: float) -> tuple[Any, Any]:
    """Return the nearest multiples of a step, and what is left of the values."""
    large = ops.round(values / step) * step
    return large, values - large


def _tables(values: npt.NDArray[np.float64]) -> tuple[Float32, Float32]:
    """Return multiples of MATRIX_STEP that are nearest to values up to 1, and the rest of the values."""
    coarse = np.round(values / MATRIX_STEP) * MATRIX_STEP
    return coarse.astype(np.float32), (values - coarse).astype(np.float32)


def _by_row_matrices(size: int, sample: Tensor) -> tuple[Tensor, Tensor]:
    """Return the matrices (rows, 32, 32) of `row_turns`, as `_tables` parts them.

    They are computed when the model runs, from constants of a twentieth of their size.

    Args:
        size: points of the transform.
        sample: any number that the model is given, such as the first sample.
    """
    turns = row_turns(size)
    # always 0, which LiteRT's converter does not know: it would store what it can compute
    zero = tf.minimum(tf.abs(sample), 0.0)
    numbers, columns, parts = (tf.constant(each, tf.float32) for each in turns)
    numbers = (numbers + zero) * columns + parts
    # within one turn; the converter would store a divisor for each element of a remainder
    numbers = tf.cast(numbers - size * tf.floor((numbers + 0.5) / size), tf.int32)
    coarse, fine = (
        tf.reshape(tf.gather(table, numbers), (-1, 2 * Q, 2 * Q)) for table in _tables(cosines(size))
    )
    return coarse, fine


def _product(large: Tensor, small: Tensor, coarse: Any, fine: Any) -> tuple[Tensor, Tensor]:
    """Return the product of large + small with a matrix of two parts, as an exact part and a small one."""
    exact = tf.matmul(large, coarse)
    return exact, tf.matmul(large + small, fine) + tf.matmul(small, coarse)
