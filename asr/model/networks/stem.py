"""Begin a network with convolutions over time and frequency.

The same sound of another speaker is at other frequencies, as the vocal tract is longer or shorter: filters
that are moved along the frequency axis find it there, too (Abdel-Hamid et al., 2014,
doi:10.1109/TASLP.2014.2339736).
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import keras
from keras import ops

from asr.base.types import Tensor
from asr.model.networks.layers import (
    BuildOnCall,
    MaskedBatchNorm,
    flatten_bands,
    frame_mask,
    half_rounded_up,
    same_padding_conv,
)

KERNELS = (5, 3, 3)  # frames and bands
BAND_STRIDE = 2


class StemKind(NamedTuple):
    """The filters and the stride over time of each convolution."""

    filters: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def subsampling(self) -> int:
        """Return the frames of features from one output frame to the next."""
        return math.prod(self.strides)

    @property
    def reach(self) -> int:
        """Return how many frames of features to each side an output frame depends on."""
        reach = 0
        for kernel, stride in reversed([*zip(KERNELS, self.strides, strict=False)]):
            reach = stride * reach + kernel // 2
        return reach


STEMS = {
    "2d": StemKind((16, 32), (2, 1)),
    "2d_deep": StemKind((16, 32, 64), (2, 1, 1)),
    "2d_fast": StemKind((16, 32, 64), (2, 2, 1)),
}
"""The kinds of stems, by `model.stem`."""


class Stem(BuildOnCall, keras.layers.Layer):
    """Convolutions from features to a half or a quarter of their frames.

    Args:
        kind: a name in STEMS.
        channels: of each frame of the output.
        seed: seed of the initial weights.
    """

    def __init__(self, kind: str, channels: int, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind = STEMS[kind]
        seeds, he = itertools.count(seed), keras.initializers.HeNormal
        self._convolutions = [
            keras.layers.Conv2D(
                filters,
                kernel,
                strides=(stride, BAND_STRIDE),
                padding="valid",
                use_bias=False,
                kernel_initializer=he(next(seeds)),
                name=f"conv{index}",
            )
            for index, (filters, kernel, stride) in enumerate(
                zip(self.kind.filters, KERNELS, self.kind.strides, strict=False)
            )
        ]
        self._norms = [MaskedBatchNorm(name=f"norm{index}") for index in range(len(self.kind.filters))]
        self._pointwise = keras.layers.Dense(
            channels, use_bias=False, kernel_initializer=he(next(seeds)), name="pointwise"
        )
        self._norm = MaskedBatchNorm(name="norm")

    def call(self, features: Tensor, num_frames: Tensor, training: bool = False) -> tuple[Tensor, Tensor]:
        """Map features (B, T, F), 0 on padding, and their number of frames (B,).

        Returns:
            (B, T', channels), 0 on padding, and (B,), both as often halved as there are strides of 2.
        """
        hidden = features[..., None]
        layers = zip(self._convolutions, self._norms, self.kind.strides, strict=True)
        for convolution, norm, stride in layers:
            hidden = same_padding_conv(convolution, hidden)
            num_frames = half_rounded_up(num_frames) if stride == 2 else num_frames
            mask = frame_mask(hidden, num_frames)
            hidden = ops.relu(norm(hidden * mask[..., None], mask[..., None], training=training))
        mixed = self._pointwise(flatten_bands(hidden))
        return ops.relu(self._norm(mixed * mask, mask, training=training)), num_frames
