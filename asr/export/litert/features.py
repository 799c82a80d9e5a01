"""Compute Fourier transforms by products with small matrices, for LiteRT.

Its own operator, RFFT2D, takes powers of two alone, while ASRT's spectrogram is a transform of 400 points. In
ai-edge-litert 2.3.0 it also returned a wrong spectrum for one clip in 200 or so, at random, where the length
changed from clip to clip.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from asr.base.types import Tensor
from asr.export.fourier import Q, bins, fourier_factors, num_rows
from asr.model.features.layer import FFT_SIZE, WINDOW, FeatureLayer


def features_for_litert(features: FeatureLayer) -> FeatureLayer:
    """Return a layer that computes the same by operators that LiteRT has."""
    kind = type(features)
    made: Any = type(kind.__name__, (ByProducts, kind), {})
    layer: FeatureLayer = made.from_config(features.get_config())
    return layer


class ByProducts(FeatureLayer):
    """Replaces the transforms of feature layers."""

    def power_spectrum(self, windows: Tensor) -> Tensor:
        """Return what `FeatureLayer.power_spectrum` does."""
        return power_by_products(windows, FFT_SIZE)

    def magnitudes(self, windows: Tensor) -> Tensor:
        """Return what `Spectrogram.magnitudes` does."""
        return tf.sqrt(power_by_products(windows, WINDOW)[..., : self.num_features])


def power_by_products(windows: Tensor, size: int) -> Tensor:
    """Return the squared magnitudes (B, T, size // 2 + 1) of windows (B, T, 400)."""
    factors, shape = fourier_factors(size), tf.shape(windows)
    grid = tf.reshape(windows, (shape[0], shape[1], WINDOW // Q, Q))
    real, imaginary = tf.matmul(factors.cos_rows, grid), tf.matmul(factors.sin_rows, grid)
    cos, sin = factors.cos_rotation, factors.sin_rotation
    rotated = ops.concatenate([real * cos - imaginary * sin, real * sin + imaginary * cos], axis=-1)
    squares = tf.square(tf.matmul(rotated, factors.columns))  # (B, T, rows, 32)
    power = squares[..., :Q] + squares[..., Q:]
    power = tf.reshape(power, (shape[0], shape[1], num_rows(size) * Q))
    _, places = np.unique(bins(size), return_index=True)
    return tf.gather(power, places, axis=-1)
