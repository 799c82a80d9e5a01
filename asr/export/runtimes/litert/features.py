"""Compute Fourier transforms by products with small matrices, for LiteRT.

Its own operator, RFFT2D, takes powers of two only, while ASRT's spectrogram is a transform of 400 points. In
ai-edge-litert 2.3.0 it also returned a wrong spectrum for one clip in 200 or so, at random, where the length
changed from clip to clip.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from keras import ops

from asr.base.types import Tensor
from asr.model.features.fourier import Q, bins, fourier_factors, num_rows, precise_factors
from asr.model.features.layer import FFT_SIZE, WINDOW, FeatureLayer

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

    def power_spectrum(self, windows: Tensor) -> Tensor:
        """Return what `FeatureLayer.power_spectrum` does."""
        return power_by_products(windows)

    def magnitudes(self, windows: Tensor) -> Tensor:
        """Return what `Spectrogram.magnitudes` does."""
        return precise_magnitudes(windows)[..., : self.num_features]


def power_by_products(windows: Tensor) -> Tensor:
    """Return the squared magnitudes (B, T, 257) of windows (B, T, 400)."""
    factors, shape = fourier_factors(), tf.shape(windows)
    grid = tf.reshape(windows, (shape[0], shape[1], WINDOW // Q, Q))
    real, imaginary = tf.matmul(factors.cos_rows, grid), tf.matmul(factors.sin_rows, grid)
    cos, sin = factors.cos_rotation, factors.sin_rotation
    rotated = ops.concatenate([real * cos - imaginary * sin, real * sin + imaginary * cos], axis=-1)
    squares = tf.square(tf.matmul(rotated, factors.columns))  # (B, T, rows, 32)
    power = squares[..., :Q] + squares[..., Q:]
    power = tf.reshape(power, (shape[0], shape[1], num_rows(FFT_SIZE) * Q))
    _, indices = np.unique(bins(FFT_SIZE), return_index=True)
    return tf.gather(power, indices, axis=-1)


def precise_magnitudes(windows: Tensor) -> Tensor:
    """Return the magnitudes (B, T, 201) of windows (B, T, 400) of 16-bit samples, nearly as in float64.

    The logarithm of a quiet bin beside loud ones magnifies what float32 rounds. Here what is large is a
    multiple of a power of two, so that products and their sums are exact, and what is rounded is small
    (Ozaki et al., 2012, "Error-free transformations of matrix multiplication").
    """
    factors, shape, rows = precise_factors(), tf.shape(windows), num_rows(WINDOW)
    grid = tf.reshape(windows, (shape[0], shape[1], WINDOW // Q, Q))
    columns = tf.transpose(grid, [0, 1, 3, 2])  # (B, T, 16, 25)
    large, small = _product(*_split(columns, SAMPLE_STEP), factors.by_column)  # (B, T, 16, rows * 2)
    large, small = (_by_row(part, rows) for part in (large, small))  # (B, rows, T, 32)
    large, rest = _split(large, SUM_STEP)
    large, small = _product(large, rest + small, factors.by_row)
    parts = large + small
    squares = tf.square(parts)
    power = squares[..., :Q] + squares[..., Q:]  # (B, rows, T, 16)
    power = tf.reshape(tf.transpose(power, [0, 2, 1, 3]), (shape[0], shape[1], rows * Q))
    _, indices = np.unique(bins(WINDOW), return_index=True)
    return tf.sqrt(tf.gather(power, indices, axis=-1))


def _by_row(values: Tensor, rows: int) -> Tensor:
    """Turn the parts of every row by column, (B, T, 16, rows * 2), into (B, rows, T, 32)."""
    shape = tf.shape(values)
    by_row = tf.transpose(tf.reshape(values, (shape[0], shape[1], Q, rows, 2)), [0, 3, 1, 2, 4])
    return tf.reshape(by_row, (shape[0], rows, shape[1], 2 * Q))


def _split(values: Any, step: float) -> tuple[Any, Any]:
    """Return the nearest multiples of a step, and what is left of the values."""
    large = ops.round(values / step) * step
    return large, values - large


def _product(large: Tensor, small: Tensor, matrix: npt.NDArray[np.float64]) -> tuple[Tensor, Tensor]:
    """Return the product of large + small with a matrix, as an exact part and a small one."""
    coarse = np.round(matrix / MATRIX_STEP) * MATRIX_STEP
    fine = (matrix - coarse).astype(np.float32)
    coarse = coarse.astype(np.float32)
    exact = tf.matmul(large, coarse)
    return exact, tf.matmul(large + small, fine) + tf.matmul(small, coarse)
