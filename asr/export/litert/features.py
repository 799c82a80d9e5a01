"""Compute the Fourier transform that LiteRT has no operator for.

Its own one takes powers of two; ASRT's spectrogram is a transform of 400 points.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from typing_extensions import override

from asr.base.types import Tensor
from asr.export.fourier import Q, bins, fourier_factors, num_rows
from asr.model.features.layer import WINDOW, FeatureLayer
from asr.model.features.spectrogram import Spectrogram


def features_for_litert(features: FeatureLayer) -> FeatureLayer:
    """Return a layer that computes the same by operators that LiteRT has."""
    if type(features) is Spectrogram:
        return SpectrogramByProducts(normalize=features.normalize)
    return features


@keras.saving.register_keras_serializable("polyphone")
class SpectrogramByProducts(Spectrogram):
    """Computes ASRT's spectrogram by products with small matrices."""

    @override
    def magnitudes(self, windows: Tensor) -> Tensor:
        factors = fourier_factors(WINDOW)
        shape = tf.shape(windows)
        grid = tf.reshape(windows, (shape[0], shape[1], WINDOW // Q, Q))
        real, imaginary = tf.matmul(factors.cos_rows, grid), tf.matmul(factors.sin_rows, grid)
        cos, sin = factors.cos_rotation, factors.sin_rotation
        rotated = ops.concatenate([real * cos - imaginary * sin, real * sin + imaginary * cos], axis=-1)
        squares = tf.square(tf.matmul(rotated, factors.columns))  # (B, T, rows, 32)
        power = squares[..., :Q] + squares[..., Q:]
        power = tf.reshape(power, (shape[0], shape[1], num_rows(WINDOW) * Q))
        _, places = np.unique(bins(WINDOW), return_index=True)
        return tf.sqrt(tf.gather(power, places[: self.num_features], axis=-1))
