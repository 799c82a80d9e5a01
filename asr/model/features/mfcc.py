"""Mel-frequency cepstral coefficients, which `features.kind = "mfcc"` chooses."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from keras import ops
from python_speech_features import get_filterbanks
from typing_extensions import override

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.types import Tensor
from asr.model.features.layer import (
    DB_PER_LOG_POWER,
    FFT_SIZE,
    FLOOR,
    HOP,
    WINDOW,
    FeatureLayer,
    frames,
    padding_mask,
)
from asr.model.runner import ReceptiveField

EPSILON = float(np.finfo(float).eps)  # python_speech_features takes it in place of an energy of 0


@keras.saving.register_keras_serializable("polyphone")
class Mfcc(FeatureLayer):
    """13 mel cepstra with first and second differences, equal to `python_speech_features`.

    `mfcc(signal, 16000)` (26 bands, liftering 22, log energy in place of the first), then
    `delta(mfcc, 2)` and `delta(delta, 2)`. The last window may reach beyond the clip, over zeros.
    """

    HAS_FREQUENCY_AXIS = False
    NUM_CEPSTRA = 13
    NUM_MELS = 26
    LIFTER = 22
    PREEMPHASIS = 0.97

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mel = get_filterbanks(self.NUM_MELS, FFT_SIZE, SAMPLE_RATE_HZ).T.astype(np.float32)
        n, k = np.arange(self.NUM_MELS)[:, None], np.arange(self.NUM_CEPSTRA)[None]
        dct = np.cos(np.pi * k * (2 * n + 1) / (2 * self.NUM_MELS)) * np.sqrt(2 / self.NUM_MELS)
        dct[:, 0] /= np.sqrt(2)
        lift = 1 + self.LIFTER / 2 * np.sin(np.pi * np.arange(self.NUM_CEPSTRA) / self.LIFTER)
        self.dct = (dct * lift).astype(np.float32)  # (26, 13)

    @property
    def num_features(self) -> int:
        """Return 39, for cepstra, first differences and second differences."""
        return 3 * self.NUM_CEPSTRA

    def num_frames(self, num_samples: Any) -> Any:
        """Return the frames of clips; a last, partial window counts too."""
        return (num_samples - WINDOW + HOP - 1) // HOP + 1

    def own_receptive_field(self) -> ReceptiveField:
        """Return windows up to four frames away, for the second differences, and one sample before them."""
        return ReceptiveField(4 * HOP + 1, 4 * HOP + WINDOW - 1)

    def compute(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """Map audio (B, S) to cepstra and their differences (B, T, 39)."""
        emphasised = ops.concatenate([audio[:, :1], audio[:, 1:] - self.PREEMPHASIS * audio[:, :-1]], axis=1)
        # the first sample of the padding would keep an echo of the clip's last one
        emphasised = emphasised * padding_mask(num_samples, ops.shape(audio)[1])
        power = self.power_spectrum(frames(ops.pad(emphasised, [[0, 0], [0, HOP - 1]]))) / FFT_SIZE
        log_energy = log_or_epsilon(ops.sum(power, axis=-1, keepdims=True))
        cepstra = ops.matmul(log_or_epsilon(ops.matmul(power, self.mel)), self.dct)
        cepstra = ops.concatenate([log_energy, cepstra[..., 1:]], axis=-1)
        num_frames = self.num_frames(num_samples)
        first = differences(cepstra, num_frames)
        return ops.concatenate([cepstra, first, differences(first, num_frames)], axis=-1)

    @override
    def level_features(self) -> tuple[slice, float]:
        return slice(0, 1), DB_PER_LOG_POWER  # the energy

    @override
    def floors(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        is_energy = np.arange(self.num_features) == 0  # cepstra and differences have no lowest value
        lowest, silence = np.where(is_energy, FLOOR, -np.inf), np.where(is_energy, FLOOR, 0.0)
        return lowest.astype(np.float32), silence.astype(np.float32)


def differences(features: Tensor, num_frames: Tensor) -> Tensor:
    """Return slopes over two frames to each side, the first and last frame repeated beyond the ends."""
    last = num_frames[:, None] - 1
    indices = ops.arange(ops.shape(features)[1])[None]  # (1, T)
    total = ops.zeros_like(features)
    for offset in (-2, -1, 1, 2):
        neighbours = ops.minimum(ops.maximum(indices + offset, 0), last)  # (B, T)
        total = total + offset * tf.gather(features, neighbours, batch_dims=1)
    return total / 10.0


def log_or_epsilon(values: Tensor) -> Tensor:
    """Return logarithms, with `EPSILON` in place of 0."""
    return ops.log(ops.where(values == 0, EPSILON, values))
