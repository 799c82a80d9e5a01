"""Kaldi's filter bank energies, which `features.kind = "fbank"` chooses.

Most speech runtimes, sherpa-onnx among them, compute these features themselves and pass them to the model.
Frames are those of Kaldi's `snip_edges = false`: one for every 10 ms of the clip, whose samples are mirrored
at both ends to fill the first and the last windows. There is no dither.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from keras import ops
from typing_extensions import override

from asr.audio.recording import INT16_SCALE, SAMPLE_RATE_HZ
from asr.base.config import FeatureConfig
from asr.base.errors import UserError
from asr.base.types import Tensor
from asr.model.features.layer import (
    FFT_SIZE,
    HOP,
    WINDOW,
    FeatureLayer,
    frames,
)
from asr.model.runner import ReceptiveField

BEFORE = (WINDOW - HOP) // 2  # samples of the first window that are before the clip
AFTER = WINDOW // 2  # samples of the last window that may be after the clip, at most


@keras.saving.register_keras_serializable("polyphone")
class Fbank(FeatureLayer):
    """Log energies in mel bands from 20 Hz to 7.6 kHz, equal to `kaldi-native-fbank`.

    The options are those of sherpa-onnx: samples between -1 and 1, offset removed from each window,
    pre-emphasis, Povey's window, power spectrum.

    Args:
        num_mels: number of bands.
        normalize: see FeatureLayer; so are over_speech and pitch.

    Raises:
        UserError: a band is too narrow to contain a frequency of the FFT.
    """

    NUM_MELS = 80
    LOW_HZ = 20.0
    HIGH_HZ = SAMPLE_RATE_HZ / 2 - 400
    PREEMPHASIS = 0.97
    FLOOR = float(np.finfo(np.float32).eps)
    FIRST_MIDDLE = HOP // 2

    def __init__(self, *, num_mels: int = NUM_MELS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_mels = num_mels
        phase = 2 * np.pi * np.arange(WINDOW) / (WINDOW - 1)
        self.window = ((0.5 - 0.5 * np.cos(phase)) ** 0.85).astype(np.float32)  # Povey's
        self.mel = kaldi_mel_filters(num_mels)

    @classmethod
    @override
    def of(cls, config: FeatureConfig) -> Fbank:
        return cls(num_mels=config.num_mels or cls.NUM_MELS, **cls.common_settings(config))

    @property
    def num_features(self) -> int:
        """Return the number of bands."""
        return self.num_mels

    def num_frames(self, num_samples: Any) -> Any:
        """Return the frames of clips, one for every 160 samples, rounded half up."""
        return (num_samples + HOP // 2) // HOP

    def own_receptive_field(self) -> ReceptiveField:
        """Return the receptive field of a frame, whose window lies around the middle of its 10 ms."""
        return ReceptiveField(BEFORE, WINDOW - BEFORE - 1)

    def compute(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """Map audio (B, S) to log energies (B, T, num_mels)."""
        audio = mirrored(audio, num_samples)
        before = ops.pad(audio[:, :-1], [[0, 0], [1, 0]])
        # audio - 0.97 * before; written as this, it is precise in spite of an offset
        emphasised = audio - before + (1 - self.PREEMPHASIS) * before
        offset = (1 - self.PREEMPHASIS) * window_means(audio)  # (B, T, 1), of the emphasised windows
        # the first sample of a window, which Kaldi emphasises differently, is multiplied by 0
        windows = (frames(emphasised) - offset) * self.window  # (B, T, 400)
        energies = ops.matmul(self.power_spectrum(windows), self.mel)
        # of samples between -1 and 1
        return ops.log(ops.maximum(energies / INT16_SCALE**2, self.FLOOR))

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_mels": self.num_mels}


def mirrored(audio: Tensor, num_samples: Tensor) -> Tensor:
    """Extend clips at both ends by their own samples in reverse order.

    Args:
        audio: (B, S), padded at the end.
        num_samples: (B,), each at least 200.

    Returns:
        (B, 120 + S + 200), in which each clip is followed by 200 mirrored samples, and those by padding.
    """
    start, padding = ops.flip(audio[:, :BEFORE], axis=1), ops.zeros_like(audio[:, :AFTER])
    num_samples = ops.cast(num_samples, "int32")[:, None]
    distance = ops.arange(AFTER)[None]
    end = tf.gather(audio, num_samples - 1 - distance, batch_dims=1)  # (B, 200)
    columns = BEFORE + num_samples + distance
    rows = ops.arange(ops.shape(audio)[0])[:, None] + ops.zeros_like(columns)
    extended = ops.concatenate([start, audio, padding], axis=1)
    return tf.tensor_scatter_nd_update(extended, ops.stack([rows, columns], axis=-1), end)


def window_means(audio: Tensor) -> Tensor:
    """Return the mean of each window of audio (B, S), as (B, T, 1)."""
    # a window is five halves of a hop, and begins two halves after the one before it
    half = HOP // 2
    num_halves = ops.shape(audio)[1] // half
    halves = ops.reshape(audio[:, : num_halves * half], (ops.shape(audio)[0], num_halves, half))
    sums = ops.sum(halves, axis=-1)  # (B, num_halves)
    in_window = WINDOW // half
    last = num_halves - in_window  # half with which the last window begins, or the one after it
    total = sum(sums[:, first : first + last + 1 : 2] for first in range(in_window))
    return total[..., None] / WINDOW


def kaldi_mel_filters(num_mels: int) -> npt.NDArray[np.float32]:
    """Return triangles (257, num_mels) that are equally spaced and straight in mel: 1127 ln(1 + f / 700).

    Raises:
        UserError: a triangle has no frequency of the FFT in it.
    """
    edges = np.linspace(_mel(Fbank.LOW_HZ), _mel(Fbank.HIGH_HZ), num_mels + 2)
    bins = _mel(np.linspace(0, SAMPLE_RATE_HZ / 2, FFT_SIZE // 2 + 1))[:, None]  # (257, 1)
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
    filters: npt.NDArray[np.float32] = np.maximum(0, np.minimum(rising, falling)).astype(np.float32)
    if not filters.any(axis=0).all():
        raise UserError(
            f"features.num_mels: {num_mels} bands are too many for fbank: some would contain no frequency of "
            f"its FFT; choose fewer, such as {Fbank.NUM_MELS}"
        )
    return filters


def _mel(frequency_hz: Any) -> Any:
    return 1127 * np.log1p(np.asarray(frequency_hz) / 700)
