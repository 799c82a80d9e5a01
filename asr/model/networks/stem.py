"""Begin a network with convolutions over time and frequency.

The same sound of another speaker is at other frequencies, as the vocal tract is longer or shorter: filters
that are moved along the frequency axis find it there, too (Abdel-Hamid et al., 2014,
doi:10.1109/TASLP.2014.2339736).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops
from typing_extensions import override

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
PITCH_KERNELS = (5, 5, 3)
BAND_STRIDE = 2


class StemKind(NamedTuple):
    """The filters and the stride over time of each convolution."""

    filters: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def subsampling(self) -> int:
        """Return the frames of features from one output frame to the next."""
        return math.prod(self.strides)

    def reach(self, *, with_pitch: bool) -> int:
        """Return how many frames of features to each side an output frame depends on."""
        # filters of the pitch cover as many frames as the others, or more
        kernels, reach = PITCH_KERNELS if with_pitch else KERNELS, 0
        for kernel, stride in reversed([*zip(kernels, self.strides, strict=False)]):
            reach = stride * reach + kernel // 2
        return reach


STEMS = {
    "2d": StemKind((16, 32), (2, 1)),
    "2d_deep": StemKind((16, 32, 64), (2, 1, 1)),
    "2d_fast": StemKind((16, 32, 64), (2, 2, 1)),
}
"""The kinds of stems, by `model.stem`."""


class BandConvolutions(BuildOnCall, keras.layers.Layer):
    """Convolutions over frames and bands, and a mixture of what they find in a frame.

    Args:
        filters: of each convolution.
        kernels: frames and bands that a filter covers, of each convolution.
        strides: over frames, of each convolution.
        channels: of each frame of the output.
        mixture: initializer of the weights of the mixture.
        seed: seed of the initial weights of the first convolution; the others have those that follow.
    """

    def __init__(
        self,
        filters: Sequence[int],
        kernels: Sequence[int],
        strides: Sequence[int],
        channels: int,
        mixture: Any,
        seed: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._convolutions = [
            keras.layers.Conv2D(
                width,
                kernel,
                strides=(stride, BAND_STRIDE),
                padding="valid",
                use_bias=False,
                kernel_initializer=keras.initializers.HeNormal(seed + index),
                name=f"conv{index}",
            )
            for index, (width, kernel, stride) in enumerate(zip(filters, kernels, strides, strict=True))
        ]
        self._norms = [MaskedBatchNorm(name=f"norm{index}") for index in range(len(filters))]
        self._pointwise = keras.layers.Dense(
            channels, use_bias=False, kernel_initializer=mixture, name="pointwise"
        )
        self.strides = tuple(strides)

    def call(self, features: Tensor, num_frames: Tensor, training: bool = False) -> tuple[Tensor, Tensor]:
        """Map features (B, T, F), 0 on padding, and their number of frames (B,).

        Returns:
            (B, T', channels), whose padding frames may hold anything, and (B,), both as often halved as
            there are strides of 2.
        """
        hidden = features[..., None]
        layers = zip(self._convolutions, self._norms, self.strides, strict=True)
        for convolution, norm, stride in layers:
            hidden = same_padding_conv(convolution, hidden)
            num_frames = half_rounded_up(num_frames) if stride == 2 else num_frames
            mask = frame_mask(hidden, num_frames)[..., None]
            hidden = ops.relu(norm(hidden * mask, mask, training=training))
        return self._pointwise(flatten_bands(hidden)), num_frames


class Stem(BandConvolutions):
    """Convolutions from features to a half or a quarter of their frames.

    The pitch has convolutions of its own. Their mixture is initialized to 0, so that weights that were
    trained without the pitch begin with the outputs that they had. Those of the spectrum are inherited, so
    that their layers have the same paths as in runs without the pitch.

    Args:
        kind: a name in STEMS.
        channels: of each frame of the output.
        seed: seed of the initial weights.
        num_pitch: number of features at the end that are of the pitch.
    """

    def __init__(self, kind: str, channels: int, seed: int, num_pitch: int = 0, **kwargs: Any) -> None:
        filters, strides = STEMS[kind]
        num = len(filters)
        mixture = keras.initializers.HeNormal(seed + num)
        super().__init__(filters, KERNELS[:num], strides, channels, mixture, seed, **kwargs)
        self.num_pitch = num_pitch
        self._pitch: BandConvolutions | None = None
        if num_pitch:
            fewer = [width // 2 for width in filters]
            kernels, first = PITCH_KERNELS[:num], seed + num + 1
            self._pitch = BandConvolutions(fewer, kernels, strides, channels, "zeros", first, name="pitch")
        self._norm = MaskedBatchNorm(name="norm")

    @override
    def call(self, features: Tensor, num_frames: Tensor, training: bool = False) -> tuple[Tensor, Tensor]:
        """Map features (B, T, F), 0 on padding, and their number of frames (B,).

        Returns:
            (B, T', channels), 0 on padding, and (B,), both as often halved as there are strides of 2.
        """
        num_bands = features.shape[-1] - self.num_pitch
        mixed, num_outputs = super().call(features[..., :num_bands], num_frames, training=training)
        if self._pitch is not None:
            mixed = mixed + self._pitch(features[..., num_bands:], num_frames, training=training)[0]
        mask = frame_mask(mixed, num_outputs)
        return ops.relu(self._norm(mixed * mask, mask, training=training)), num_outputs
