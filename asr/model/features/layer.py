"""The base class of all feature layers, and what they share: windows, masks, normalisation.

A feature layer maps `audio (B, S)` on the int16 scale and `num_samples (B,)` to `features (B, T, F)` and
`num_frames (B,)`. Samples beyond `num_samples` never count: a clip's features are the same alone and in a
padded batch, and frames from `num_frames` on are zero.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops
from typing_extensions import override

from asr.audio.recording import WINDOW_SAMPLES
from asr.base.config import FeatureConfig
from asr.base.types import Tensor
from asr.model.listening import ReceptiveField

WINDOW = WINDOW_SAMPLES
HOP = 160  # samples in 10 ms
FFT_SIZE = 512
NORMALIZATION_EPSILON = 1e-3  # is added to variances


class FeatureLayer(keras.layers.Layer):
    """Computes features of a padded batch; subclasses say which, in `compute`.

    Args:
        normalize: give each feature of each clip mean 0 and variance 1 over the clip's own frames.
    """

    FIRST_MIDDLE = WINDOW // 2
    """Sample in the middle of the first window."""

    def __init__(self, *, normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**{"name": "features", **kwargs})
        self.normalize = normalize

    @classmethod
    def of(cls, config: FeatureConfig) -> FeatureLayer:
        """Return the layer of a configuration; override it where the layer has settings of its own."""
        return cls(normalize=config.normalize)

    def num_frames(self, num_samples: Any) -> Any:
        """Return the frames of clips, for a number, an array or a tensor; only whole windows count."""
        return (num_samples - WINDOW) // HOP + 1

    def receptive_field(self) -> ReceptiveField | None:
        """Return the samples that frame t depends on, around sample 160 t; None for the whole clip."""
        return None if self.normalize else self.own_receptive_field()

    def own_receptive_field(self) -> ReceptiveField:
        """Return the receptive field of a frame before normalisation: its window."""
        return ReceptiveField(0, WINDOW - 1)

    def call(self, audio: Tensor, num_samples: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the features of a padded batch.

        Args:
            audio: (B, S) samples on the int16 scale, of any number type.
            num_samples: (B,) int32, each at least 400 and at most S.

        Returns:
            (B, T, F) float32 and (B,) int32.
        """
        audio = ops.cast(audio, "float32")
        audio = audio * padding_mask(num_samples, ops.shape(audio)[1])
        num_frames = self.num_frames(num_samples)
        features = self.compute(audio, num_samples)  # (B, T, F)
        mask = padding_mask(num_frames, ops.shape(features)[1])[..., None]
        if self.normalize:
            features = normalize_frames(features, mask)
        return features * mask, num_frames

    def power_spectrum(self, windows: Tensor) -> Tensor:
        """Return the squared magnitude (B, T, 257) of a 512-point FFT of windows (B, T, 400)."""
        spectrum = tf.signal.rfft(windows, [FFT_SIZE])
        return ops.square(tf.math.real(spectrum)) + ops.square(tf.math.imag(spectrum))

    def compute(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """Map zero-padded float audio (B, S) to features (B, T, F); padding frames may hold anything."""
        raise NotImplementedError

    def compute_output_shape(self, audio_shape: Any, num_samples_shape: Any) -> Any:
        """Return the shapes of the outputs; the number of frames is open, as it follows from the audio."""
        return (audio_shape[0], None, self.num_features), num_samples_shape

    @property
    def num_features(self) -> int:
        """Return F, the size of the last axis."""
        raise NotImplementedError

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "normalize": self.normalize}


def frames(audio: Tensor) -> Tensor:
    """Cut audio (B, S) into overlapping windows (B, T, 400), one every 160 samples."""
    # a window is two hops and a half: three slices of contiguous memory instead of a gather
    num_frames = (ops.shape(audio)[1] - WINDOW) // HOP + 1
    num_hops = num_frames + WINDOW // HOP
    padded = ops.pad(audio, [[0, 0], [0, ops.maximum(num_hops * HOP - ops.shape(audio)[1], 0)]])
    hops = ops.reshape(padded[:, : num_hops * HOP], (ops.shape(audio)[0], num_hops, HOP))
    rest = WINDOW % HOP
    parts = [hops[:, :num_frames], hops[:, 1 : num_frames + 1], hops[:, 2 : num_frames + 2, :rest]]
    return ops.concatenate(parts, axis=-1)


def padding_mask(lengths: Tensor, size: Tensor, dtype: str = "float32") -> Tensor:
    """Turn lengths (B,) into a mask (B, size) that is 1 on real frames or samples and 0 on padding."""
    return ops.cast(ops.arange(size)[None] < ops.cast(lengths, "int32")[:, None], dtype)


def normalize_frames(features: Tensor, mask: Tensor) -> Tensor:
    """Give each feature of each clip mean 0 and variance 1 over the frames where `mask (B, T, 1)` is 1."""
    count = ops.sum(mask, axis=1, keepdims=True)
    mean = ops.sum(features * mask, axis=1, keepdims=True) / count
    centred = (features - mean) * mask
    variance = ops.sum(ops.square(centred), axis=1, keepdims=True) / count
    return centred * ops.rsqrt(variance + NORMALIZATION_EPSILON)
