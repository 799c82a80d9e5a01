"""Subsample features eightfold as in Fast Conformer (Rekesh et al., 2023, arXiv:2305.05084).

Three convolutions of stride 2 over time and frequency, of which the last two are depthwise, compute little at
the high rates. An output depends on 7 frames of features to each side.
"""

from __future__ import annotations

import itertools
from typing import Any

import keras
from keras import ops

from asr.base.types import Tensor
from asr.model.networks.layers import (
    BuildOnCall,
    flatten_bands,
    frame_mask,
    half_rounded_up,
    same_padding_conv,
)

NUM_HALVINGS = 3
REACH = 2**NUM_HALVINGS - 1  # frames of features to each side
KERNEL = 3


class ConvSubsampling(BuildOnCall, keras.layers.Layer):
    """Convolutions from features to an eighth of their frames.

    Args:
        filters: channels of the convolutions.
        channels: of each frame of the output.
        seed: seed of the initial weights.
    """

    def __init__(self, filters: int, channels: int, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        seeds = itertools.count(seed)
        strided = {"strides": 2, "padding": "valid"}
        he = keras.initializers.HeNormal
        self._first = keras.layers.Conv2D(
            filters, KERNEL, kernel_initializer=he(next(seeds)), name="conv0", **strided
        )
        self._depthwise = [
            keras.layers.DepthwiseConv2D(
                KERNEL,
                depthwise_initializer=keras.initializers.GlorotUniform(next(seeds)),
                name=f"depthwise{index}",
                **strided,
            )
            for index in range(1, NUM_HALVINGS)
        ]
        self._pointwise = [
            keras.layers.Dense(filters, kernel_initializer=he(next(seeds)), name=f"pointwise{index}")
            for index in range(1, NUM_HALVINGS)
        ]
        self._projection = keras.layers.Dense(
            channels, kernel_initializer=keras.initializers.GlorotUniform(next(seeds)), name="projection"
        )
        # the size of what comes in is that of the features, which need not be normalised
        self._norm = keras.layers.LayerNormalization(epsilon=1e-5, name="norm")

    def call(self, features: Tensor, num_frames: Tensor) -> tuple[Tensor, Tensor]:
        """Map features (B, T, F), 0 on padding, and their number of frames (B,) to an eighth of them.

        Returns:
            (B, T / 8, channels), 0 on padding, and (B,).
        """
        hidden, num_frames = same_padding_conv(self._first, features[..., None]), half_rounded_up(num_frames)
        for depthwise, pointwise in zip(self._depthwise, self._pointwise, strict=True):
            hidden = pointwise(same_padding_conv(depthwise, _active(hidden, num_frames)))
            num_frames = half_rounded_up(num_frames)
        hidden = _active(hidden, num_frames)  # (B, T / 8, F / 8, filters)
        projected = self._norm(self._projection(flatten_bands(hidden)))
        return projected * frame_mask(projected, num_frames), num_frames


def _active(hidden: Tensor, num_frames: Tensor) -> Tensor:
    """Apply ReLU to (B, T, F, C), and set padding to 0."""
    return ops.relu(hidden) * frame_mask(hidden, num_frames)[..., None]
