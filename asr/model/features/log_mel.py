"""Log-mel features, which `features.kind = "log_mel"`, the default, chooses."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops
from typing_extensions import override

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.config import FeatureConfig
from asr.base.types import Tensor
from asr.model.features.layer import FFT_SIZE, WINDOW, FeatureLayer, frames

LOW_HZ = 20.0


@keras.saving.register_keras_serializable("polyphone")
class LogMel(FeatureLayer):
    """Log energies in triangular mel bands from 20 Hz to 8 kHz, under a Hann window.

    Args:
        num_mels: number of bands.
        normalize: see FeatureLayer; so are over_speech and pitch.
    """

    NUM_MELS = 64

    def __init__(self, *, num_mels: int = NUM_MELS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_mels = num_mels
        self.window = np.hanning(WINDOW + 1)[:-1].astype(np.float32)
        self.mel = mel_filters(num_mels)

    @classmethod
    @override
    def of(cls, config: FeatureConfig) -> LogMel:
        return cls(num_mels=config.num_mels or cls.NUM_MELS, **cls.common_settings(config))

    @property
    def num_features(self) -> int:
        """Return the number of bands."""
        return self.num_mels

    def compute(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """Map audio (B, S) to log energies (B, T, num_mels)."""
        energies = ops.matmul(self.power_spectrum(frames(audio) * self.window), self.mel)
        # one quantisation step of energy: silence is a floor, not minus infinity
        return ops.log(energies + 1.0)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_mels": self.num_mels}


def mel_filters(num_mels: int) -> npt.NDArray[np.float32]:
    """Return triangles (257, num_mels), equally spaced in mel, 2595 log10(1 + f / 700), from 20 Hz on."""
    edges_mel = np.linspace(_mel(LOW_HZ), _mel(SAMPLE_RATE_HZ / 2), num_mels + 2)
    edges_hz = 700 * (10 ** (edges_mel / 2595) - 1)
    bins_hz = np.linspace(0, SAMPLE_RATE_HZ / 2, FFT_SIZE // 2 + 1)[:, None]  # (257, 1)
    left, centre, right = edges_hz[:-2], edges_hz[1:-1], edges_hz[2:]
    rising, falling = (bins_hz - left) / (centre - left), (right - bins_hz) / (right - centre)
    return np.maximum(0, np.minimum(rising, falling)).astype(np.float32)


def _mel(frequency_hz: float) -> float:
    return float(2595 * np.log10(1 + frequency_hz / 700))
