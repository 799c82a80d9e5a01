"""Begin a network with convolutions over time and frequency.

The same sound of another speaker is at other frequencies, as the vocal tract is longer or shorter: filters
that are moved along the frequency axis find it there, too (Abdel-Hamid et al., 2014,
doi:10.1109/TASLP.2014.2339736).
"""

from __future__ import annotations

import itertools
from typing import Any

import keras
from keras import ops

from asr.base.types import Tensor
from asr.model.networks.layers import BuiltByCall, MaskedBatchNorm, centred, frame_mask, halved, without_bands

FILTERS = {"2d": (16, 32), "2d_deep": (16, 32, 64)}
"""The filters of each convolution, by `model.stem`."""

KERNELS = (5, 3, 3)  # frames and bands
STRIDES = ((2, 2), (1, 2), (1, 2))  # of frames and bands


def stem_reach(kind: str) -> int:
    """Return how many frames of features to each side an output frame of this kind of stem depends on."""
    later = KERNELS[1 : len(FILTERS[kind])]
    return KERNELS[0] // 2 + STRIDES[0][0] * sum(kernel // 2 for kernel in later)


class Stem(BuiltByCall, keras.layers.Layer):
    """Maps features to half of their frames.

    Args:
        kind: a name in FILTERS.
        channels: of each frame of the output.
        seed: seed of the initial weights.
    """

    def __init__(self, kind: str, channels: int, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.filters = FILTERS[kind]
        seeds, he = itertools.count(seed), keras.initializers.HeNormal
        self._convolutions = [
            keras.layers.Conv2D(
                filters,
                kernel,
                strides=strides,
                padding="valid",
                use_bias=False,
                kernel_initializer=he(next(seeds)),
                name=f"conv{index}",
            )
            for index, (filters, kernel, strides) in enumerate(
                zip(self.filters, KERNELS, STRIDES, strict=False)
            )
        ]
        self._norms = [MaskedBatchNorm(name=f"norm{index}") for index in range(len(self.filters))]
        self._pointwise = keras.layers.Dense(
            channels, use_bias=False, kernel_initializer=he(next(seeds)), name="pointwise"
        )
        self._norm = MaskedBatchNorm(name="norm")

    def call(self, features: Tensor, num_frames: Tensor, training: bool = False) -> tuple[Tensor, Tensor]:
        """Map features (B, T, F), 0 on padding, and their number of frames (B,) to half of them.

        Returns:
            (B, (T + 1) // 2, channels), 0 on padding, and (B,).
        """
        num_frames = halved(num_frames)
        hidden = features[..., None]
        for convolution, norm in zip(self._convolutions, self._norms, strict=True):
            hidden = centred(convolution, hidden)
            mask = frame_mask(hidden, num_frames)
            hidden = ops.relu(norm(hidden * mask[..., None], mask[..., None], training=training))
        mixed = self._pointwise(without_bands(hidden))
        return ops.relu(self._norm(mixed * mask, mask, training=training)), num_frames
