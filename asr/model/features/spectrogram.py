"""The spectrogram that the networks of ASRT take, which `features.kind = "spectrogram"` chooses."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops
from typing_extensions import override

from asr.base.types import Tensor
from asr.model.features.layer import DB_PER_LOG_POWER, WINDOW, FeatureLayer, frames


@keras.saving.register_keras_serializable("polyphone")
class Spectrogram(FeatureLayer):
    """ASRT's spectrogram: log(1 + |FFT|) of 400 samples under a Hamming window, in bins of 40 Hz."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        phase = 2 * np.pi * np.arange(WINDOW) / (WINDOW - 1)
        self.window = (0.54 - 0.46 * np.cos(phase)).astype(np.float32)

    @property
    def num_features(self) -> int:
        """Return 200 bins; the 201st, at 8 kHz, is left out."""
        return WINDOW // 2

    def compute(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """Map audio (B, S) to a log spectrogram (B, T, 200)."""
        power = self.power_spectrum(frames(audio) * self.window, WINDOW)  # (B, T, 201)
        return ops.log1p(ops.sqrt(power[..., : self.num_features]))

    @override
    def level_features(self) -> tuple[slice, float]:
        return slice(5, 100), 2 * DB_PER_LOG_POWER  # magnitudes from 0.2 to 4 kHz
