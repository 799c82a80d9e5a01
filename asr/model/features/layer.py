"""The base class of all feature layers, and what they share: windows, masks, normalisation.

A feature layer maps `audio (B, S)` on the int16 scale and `num_samples (B,)` to `features (B, T, F)` and
`num_frames (B,)`. Samples beyond `num_samples` never count: a clip's features are the same alone and in a
padded batch, and frames from `num_frames` on are zero.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from keras import ops
from typing_extensions import override

from asr.audio.recording import WINDOW_SAMPLES
from asr.base.config import FeatureConfig
from asr.base.types import Tensor
from asr.model.features.pitch import NUM_DELAYS, PITCH_WINDOW, pitch_features
from asr.model.runner import ReceptiveField

WINDOW = WINDOW_SAMPLES
HOP = 160  # samples in 10 ms
FFT_SIZE = 512
NORMALIZATION_EPSILON = 1e-3  # is added to variances
# Which frames count in a clip's statistics. The clip's level is that of its loudest 0.11 s, which a click
# does not fill. Frames 20 dB below it to 10 dB above it count in full, those 10 dB beyond that not at all; in
# between, the weight falls linearly: a threshold would let two runtimes disagree about a frame.
LEVEL_FRAMES = 11
COUNTED_DB, FADE_DB = (-20.0, 10.0), 10.0
FLOOR = -3.0  # standard deviations: digital silence and faint room tone are the same as padding
DB_PER_LOG_POWER = 10 / np.log(10)


class FeatureLayer(keras.layers.Layer):
    """A layer from audio to features; subclasses define them in `compute`.

    Args:
        normalize: give each feature of each clip mean 0 and variance 1 over the clip's own frames.
        over_speech: take mean and variance over the frames that are loud enough to be speech, and make
            silence 0, so that silence around speech changes nothing. Otherwise all frames count.
        pitch: add the pitch of the voice, not normalised, after the other features.
    """

    FIRST_MIDDLE = WINDOW // 2
    """Sample in the middle of the first window."""
    HAS_FREQUENCY_AXIS = True
    """Whether the order of the features is that of their frequencies."""
    SUM_TYPE = "float64"
    """Type of numbers in which means and variances over a clip are added up."""

    def __init__(
        self, *, normalize: bool = False, over_speech: bool = False, pitch: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**{"name": "features", **kwargs})
        self.normalize, self.over_speech, self.pitch = normalize, over_speech, pitch

    @classmethod
    def of(cls, config: FeatureConfig) -> FeatureLayer:
        """Return the layer of a configuration; override it where the layer has settings of its own."""
        return cls(**cls.common_settings(config))

    @staticmethod
    def common_settings(config: FeatureConfig) -> dict[str, bool]:
        """Return the arguments of the constructor that all kinds have."""
        over_speech = config.normalize_over == "speech"
        return {"normalize": config.normalize, "over_speech": over_speech, "pitch": config.pitch}

    def num_frames(self, num_samples: Any) -> Any:
        """Return the frames of clips, for a number, an array or a tensor; only whole windows count."""
        return (num_samples - WINDOW) // HOP + 1

    def receptive_field(self) -> ReceptiveField | None:
        """Return the samples that frame t depends on, around sample 160 t; None for the whole clip."""
        if self.normalize:
            return None
        own, before = self.own_receptive_field(), self.pitch_before
        if not self.pitch:
            return own
        return ReceptiveField(max(own.before, before), max(own.after, PITCH_WINDOW - before - 1))

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
        weights = mask = padding_mask(num_frames, ops.shape(features)[1])[..., None]
        if self.normalize and self.over_speech:
            which, unit_db = self.level_features()
            levels_db = unit_db * ops.max(features[..., which], axis=-1, keepdims=True)  # (B, T, 1)
            weights = speech_weights(levels_db, mask)
            lowest, silence = self.floors()
            features = ops.maximum(normalize_frames(features, weights, self.SUM_TYPE), lowest) - silence
        elif self.normalize:
            features = normalize_frames(features, mask, self.SUM_TYPE)
        features = features * mask
        if self.pitch:
            pitch = self._pitch(audio, ops.shape(features)[1])
            features = ops.concatenate([features, pitch * weights], axis=-1)
        return features, num_frames

    def _pitch(self, audio: Tensor, num_frames: Tensor) -> Tensor:
        """Map audio (B, S) to features of the pitch around the middle of each window, (B, num_frames, 48)."""
        after = (num_frames - 1) * HOP + PITCH_WINDOW - self.pitch_before - ops.shape(audio)[1]
        return pitch_features(ops.pad(audio, [[0, 0], [self.pitch_before, after]]), HOP)

    def level_features(self) -> tuple[slice, float]:
        """Return which features the level of a frame is the maximum of, and their unit in dB."""
        # of mel bands, those from 0.2 to 4 kHz: hum and rumble are below them, and hiss is loudest above
        return slice(self.num_features // 10, self.num_features * 3 // 4), DB_PER_LOG_POWER

    def floors(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return the lowest value of each normalised feature, (F,), and what becomes 0, as padding is."""
        floors = np.full(self.num_features, FLOOR, np.float32)
        return floors, floors

    def power_spectrum(self, windows: Tensor, size: int = FFT_SIZE) -> Tensor:
        """Return the squared magnitudes (B, T, size / 2 + 1) of transforms of windows (B, T, 400).

        The samples of windows are on the int16 scale. The transform is in double precision: the logarithm of
        a quiet bin beside loud ones would magnify what float32 rounds, and each runtime rounds differently.
        """
        spectrum = ops.cast(tf.signal.rfft(ops.cast(windows, "float64"), [size]), "complex64")
        return ops.square(tf.math.real(spectrum)) + ops.square(tf.math.imag(spectrum))

    def compute(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """Map zero-padded float audio (B, S) to features (B, T, F); padding frames may hold anything."""
        raise NotImplementedError

    def compute_output_shape(self, audio_shape: Any, num_samples_shape: Any) -> Any:
        """Return the shapes of the outputs; the number of frames is open, as it follows from the audio."""
        return (audio_shape[0], None, self.num_features + self.num_pitch), num_samples_shape

    @property
    def num_features(self) -> int:
        """Return the size of the last axis of what `compute` returns."""
        raise NotImplementedError

    @property
    def num_pitch(self) -> int:
        """Return the number of features of the pitch, which follow those of `compute`."""
        return NUM_DELAYS if self.pitch else 0

    @property
    def pitch_before(self) -> int:
        """Return the samples before a clip that the pitch of its first frame depends on."""
        return PITCH_WINDOW // 2 - self.FIRST_MIDDLE  # both windows have the same middle

    @override
    def get_config(self) -> dict[str, Any]:
        common = {"normalize": self.normalize, "over_speech": self.over_speech, "pitch": self.pitch}
        return {**super().get_config(), **common}


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


def normalize_frames(features: Tensor, weights: Tensor, sum_type: str) -> Tensor:
    """Give each feature of each clip mean 0 and variance 1 over its frames, weighted by (B, T, 1)."""
    features, weights = ops.cast(features, sum_type), ops.cast(weights, sum_type)
    count = ops.maximum(ops.sum(weights, axis=1, keepdims=True), NORMALIZATION_EPSILON)
    centred = features
    # what a sum rounds in float32 is left in the mean, and found by a second one
    for _ in range(1 if sum_type == "float64" else 2):
        centred = centred - ops.sum(centred * weights, axis=1, keepdims=True) / count
    variance = ops.sum(ops.square(centred) * weights, axis=1, keepdims=True) / count
    return ops.cast(centred * ops.rsqrt(variance + NORMALIZATION_EPSILON), "float32")


def speech_weights(levels_db: Tensor, mask: Tensor) -> Tensor:
    """Return the weight of each frame in its clip's statistics, 0 to 1.

    Args:
        levels_db: (B, T, 1).
        mask: (B, T, 1), 1 on real frames and 0 on padding.
    """
    sums = ops.average_pool(ops.concatenate([levels_db * mask, mask], axis=-1), LEVEL_FRAMES, 1, "same")
    smooth = sums[..., :1] / ops.maximum(sums[..., 1:], 1 / LEVEL_FRAMES)  # over real frames only
    clip_db = ops.max(ops.where(mask > 0, smooth, ops.min(levels_db)), axis=1, keepdims=True)  # (B, 1, 1)
    above_db = levels_db - clip_db
    (lowest_db, highest_db), fade_db = COUNTED_DB, FADE_DB
    beyond_db = ops.maximum(ops.maximum(lowest_db - above_db, above_db - highest_db), 0.0)
    return ops.maximum(1 - beyond_db / fade_db, 0.0) * mask
