"""Waveform -> features, as Keras layers: the same layer in training, decoding and export.

Each feature layer maps `audio (B, S)` on the int16 scale and `num_samples (B,)` to
`features (B, T, F)` and `num_frames (B,)`. Samples beyond `num_samples` never count: a clip's features
are the same alone and in a padded batch, and frames from `num_frames` on are zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from keras import ops
from python_speech_features import get_filterbanks
from typing_extensions import override

from asr.audio.recording import SAMPLE_RATE_HZ, WINDOW_SAMPLES
from asr.base.config import AugmentConfig, FeatureConfig
from asr.base.types import Tensor

WINDOW = WINDOW_SAMPLES
HOP = 160  # samples in 10 ms
FFT_SIZE = 512

Float32 = npt.NDArray[np.float32]


class ReceptiveField(NamedTuple):
    """How many inputs before its own place, and behind it, an output depends on."""

    before: int
    after: int


def make_features(config: FeatureConfig) -> FeatureLayer:
    """The feature layer of a configuration."""
    if config.kind == "spectrogram":
        return Spectrogram(normalize=config.normalize, name="features")
    if config.kind == "mfcc":
        return Mfcc(normalize=config.normalize, name="features")
    return LogMel(num_mels=config.num_mels, normalize=config.normalize, name="features")


class FeatureLayer(keras.layers.Layer):
    """What all features share: framing, masking and normalisation.

    Args:
        normalize: give each feature of each clip mean 0 and variance 1 over the clip's own frames.
    """

    def __init__(self, *, normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.normalize = normalize

    def num_frames(self, num_samples: Any) -> Any:
        """Frames of a clip, for a number, an array or a tensor: only whole windows count."""
        return (num_samples - WINDOW) // HOP + 1

    def receptive_field(self) -> ReceptiveField | None:
        """Samples that frame t depends on, around sample 160 t; None where it is the whole clip."""
        return None if self.normalize else self.own_receptive_field()

    def own_receptive_field(self) -> ReceptiveField:
        """That of a frame before it is normalised: its window."""
        return ReceptiveField(0, WINDOW - 1)

    def call(self, audio: Tensor, num_samples: Tensor) -> tuple[Tensor, Tensor]:
        """Features of a padded batch.

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

    def compute(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """Features of zero-padded float audio; what padding frames hold does not matter."""
        raise NotImplementedError

    def compute_output_shape(self, audio_shape: Any, num_samples_shape: Any) -> Any:
        """Frames are left open: they follow from the audio."""
        return (audio_shape[0], None, self.num_features), num_samples_shape

    @property
    def num_features(self) -> int:
        """F, the size of the last axis."""
        raise NotImplementedError

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "normalize": self.normalize}


@keras.saving.register_keras_serializable("polyphone")
class Spectrogram(FeatureLayer):
    """ASRT's spectrogram: log(1 + |FFT|) of 400 samples under a Hamming window, 200 bins of 40 Hz."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        phase = 2 * np.pi * np.arange(WINDOW) / (WINDOW - 1)
        self._window = (0.54 - 0.46 * np.cos(phase)).astype(np.float32)

    @property
    def num_features(self) -> int:
        """200 bins: the 201st, at 8 kHz, is left out."""
        return WINDOW // 2

    def compute(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """(B, S) -> (B, T, 200)."""
        spectrum = tf.signal.rfft(frames(audio) * self._window, [WINDOW])  # (B, T, 201) complex64
        return ops.log1p(tf.abs(spectrum)[..., : self.num_features])


@keras.saving.register_keras_serializable("polyphone")
class LogMel(FeatureLayer):
    """Log energies in triangular mel bands from 20 Hz to 8 kHz, under a Hann window.

    Args:
        num_mels: number of bands.
        normalize: see FeatureLayer.
    """

    def __init__(self, *, num_mels: int = 64, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_mels = num_mels
        self._window = np.hanning(WINDOW + 1)[:-1].astype(np.float32)
        self._mel = mel_filters(num_mels, low_hz=20.0)

    @property
    def num_features(self) -> int:
        """As many as there are bands."""
        return self.num_mels

    def compute(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """(B, S) -> (B, T, num_mels)."""
        energies = ops.matmul(power_spectrum(frames(audio) * self._window), self._mel)
        # one quantisation step of energy: silence is a floor, not minus infinity
        return ops.log(energies + 1.0)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_mels": self.num_mels}


@keras.saving.register_keras_serializable("polyphone")
class Mfcc(FeatureLayer):
    """13 mel cepstra with first and second differences, as `python_speech_features` computes them.

    `mfcc(signal, 16000)` (26 bands, liftering 22, log energy in place of the first), then
    `delta(mfcc, 2)` and `delta(delta, 2)`. The last window may reach beyond the clip, over zeros.
    """

    NUM_CEPSTRA = 13
    NUM_MELS = 26
    LIFTER = 22
    PREEMPHASIS = 0.97

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._mel = get_filterbanks(self.NUM_MELS, FFT_SIZE, SAMPLE_RATE_HZ).T.astype(np.float32)
        n, k = np.arange(self.NUM_MELS)[:, None], np.arange(self.NUM_CEPSTRA)[None]
        dct = np.cos(np.pi * k * (2 * n + 1) / (2 * self.NUM_MELS)) * np.sqrt(2 / self.NUM_MELS)
        dct[:, 0] /= np.sqrt(2)
        lift = 1 + self.LIFTER / 2 * np.sin(np.pi * np.arange(self.NUM_CEPSTRA) / self.LIFTER)
        self._dct = (dct * lift).astype(np.float32)  # (26, 13)

    @property
    def num_features(self) -> int:
        """39: cepstra, first differences, second differences."""
        return 3 * self.NUM_CEPSTRA

    def num_frames(self, num_samples: Any) -> Any:
        """Frames of a clip: a last, partial window counts too."""
        return (num_samples - WINDOW + HOP - 1) // HOP + 1

    def own_receptive_field(self) -> ReceptiveField:
        """Windows up to four frames away, by the differences of differences, and one sample before them."""
        return ReceptiveField(4 * HOP + 1, 4 * HOP + WINDOW - 1)

    def compute(self, audio: Tensor, num_samples: Tensor) -> Tensor:
        """(B, S) -> (B, T, 39)."""
        emphasised = ops.concatenate([audio[:, :1], audio[:, 1:] - self.PREEMPHASIS * audio[:, :-1]], axis=1)
        # the first sample of the padding would keep an echo of the clip's last one
        emphasised = emphasised * padding_mask(num_samples, ops.shape(audio)[1])
        power = power_spectrum(frames(ops.pad(emphasised, [[0, 0], [0, HOP - 1]]))) / FFT_SIZE
        log_energy = log_or_epsilon(ops.sum(power, axis=-1, keepdims=True))
        cepstra = ops.matmul(log_or_epsilon(ops.matmul(power, self._mel)), self._dct)
        cepstra = ops.concatenate([log_energy, cepstra[..., 1:]], axis=-1)
        num_frames = self.num_frames(num_samples)
        first = differences(cepstra, num_frames)
        return ops.concatenate([cepstra, first, differences(first, num_frames)], axis=-1)


def frames(audio: Tensor) -> Tensor:
    """(B, S) -> (B, T, 400): overlapping windows every 160 samples."""
    # a window is two hops and a half: three slices of contiguous memory instead of a gather
    num_frames = (ops.shape(audio)[1] - WINDOW) // HOP + 1
    num_hops = num_frames + WINDOW // HOP
    padded = ops.pad(audio, [[0, 0], [0, ops.maximum(num_hops * HOP - ops.shape(audio)[1], 0)]])
    hops = ops.reshape(padded[:, : num_hops * HOP], (ops.shape(audio)[0], num_hops, HOP))
    rest = WINDOW % HOP
    parts = [hops[:, :num_frames], hops[:, 1 : num_frames + 1], hops[:, 2 : num_frames + 2, :rest]]
    return ops.concatenate(parts, axis=-1)


def power_spectrum(windows: Tensor) -> Tensor:
    """(B, T, 400) -> (B, T, 257): squared magnitude of a 512-point FFT."""
    spectrum = tf.signal.rfft(windows, [FFT_SIZE])
    return ops.square(tf.math.real(spectrum)) + ops.square(tf.math.imag(spectrum))


def padding_mask(lengths: Tensor, size: Tensor, dtype: str = "float32") -> Tensor:
    """(B,) -> (B, size): 1 on what is real, 0 on padding."""
    return ops.cast(ops.arange(size)[None] < ops.cast(lengths, "int32")[:, None], dtype)


def normalize_frames(features: Tensor, mask: Tensor) -> Tensor:
    """Mean 0 and variance 1 for each feature of each clip, over the frames where `mask (B, T, 1)` is 1."""
    count = ops.sum(mask, axis=1, keepdims=True)
    mean = ops.sum(features * mask, axis=1, keepdims=True) / count
    centred = (features - mean) * mask
    variance = ops.sum(ops.square(centred), axis=1, keepdims=True) / count
    return centred * ops.rsqrt(variance + 1e-3)


def differences(features: Tensor, num_frames: Tensor) -> Tensor:
    """Slope over two frames to each side, the first and last frame repeated beyond the clip's ends."""
    last = num_frames[:, None] - 1
    places = ops.arange(ops.shape(features)[1])[None]  # (1, T)
    total = ops.zeros_like(features)
    for offset in (-2, -1, 1, 2):
        neighbours = ops.minimum(ops.maximum(places + offset, 0), last)  # (B, T)
        total = total + offset * tf.gather(features, neighbours, batch_dims=1)
    return total / 10.0


def log_or_epsilon(values: Tensor) -> Tensor:
    """Logarithm, where 0 counts as the smallest step of a double, as python_speech_features has it."""
    return ops.log(ops.where(values == 0, float(np.finfo(float).eps), values))


def mel_filters(num_mels: int, low_hz: float, high_hz: float = SAMPLE_RATE_HZ / 2) -> Float32:
    """(257, num_mels) triangles, equally spaced in mel: 2595 log10(1 + f / 700)."""
    edges_mel = np.linspace(_mel(low_hz), _mel(high_hz), num_mels + 2)
    edges_hz = 700 * (10 ** (edges_mel / 2595) - 1)
    bins_hz = np.linspace(0, SAMPLE_RATE_HZ / 2, FFT_SIZE // 2 + 1)[:, None]  # (257, 1)
    left, centre, right = edges_hz[:-2], edges_hz[1:-1], edges_hz[2:]
    rising, falling = (bins_hz - left) / (centre - left), (right - bins_hz) / (right - centre)
    return np.maximum(0, np.minimum(rising, falling)).astype(np.float32)


def _mel(frequency_hz: float) -> float:
    return float(2595 * np.log10(1 + frequency_hz / 700))


@keras.saving.register_keras_serializable("polyphone")
class SpecAugment(keras.layers.Layer):
    """Features changed in training: another vocal tract, and bands hidden.

    First each clip's frequency axis is stretched by a factor of its own around 1, as another speaker's
    vocal tract would (Jaitly & Hinton, 2013). Then bands of frequencies and of frames are set to 0, the
    mean (Park et al., 2019, arXiv:1904.08779): each mask draws its width evenly from 0 to the widest, and
    its place evenly from where it fits; no time mask is wider than `time_mask_share` of its clip.

    Does nothing outside training.
    """

    def __init__(
        self,
        *,
        frequency_warp: float,
        frequency_masks: int,
        frequency_mask_bands: int,
        time_masks: int,
        time_mask_frames: int,
        time_mask_share: float,
        seed: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.frequency_warp = frequency_warp
        self.frequency_masks, self.frequency_mask_bands = frequency_masks, frequency_mask_bands
        self.time_masks, self.time_mask_frames = time_masks, time_mask_frames
        self.time_mask_share, self.seed = time_mask_share, seed
        self._generator = keras.random.SeedGenerator(seed)

    @classmethod
    def from_augment(cls, config: AugmentConfig, seed: int) -> SpecAugment:
        """The layer of a configuration."""
        return cls(
            frequency_warp=config.frequency_warp,
            frequency_masks=config.frequency_masks,
            frequency_mask_bands=config.frequency_mask_bands,
            time_masks=config.time_masks,
            time_mask_frames=config.time_mask_frames,
            time_mask_share=config.time_mask_share,
            seed=seed,
            name="spec_augment",
        )

    def call(self, features: Tensor, num_frames: Tensor, training: bool = False) -> Tensor:
        """(B, T, F) -> (B, T, F)."""
        if not training:
            return features
        num_bands = features.shape[-1]
        every_clip = ops.ones_like(num_frames)
        if self.frequency_warp:
            features = self._warp(features, num_bands)
        if self.frequency_masks:
            widest = ops.cast(every_clip * self.frequency_mask_bands, "float32")
            keep = self._keep(self.frequency_masks, widest, every_clip * num_bands, num_bands)
            features = features * keep[:, None, :]
        if self.time_masks:
            share = self.time_mask_share * ops.cast(num_frames, "float32")
            widest = ops.minimum(float(self.time_mask_frames), share)
            keep = self._keep(self.time_masks, widest, num_frames, ops.shape(features)[1])
            features = features * keep[:, :, None]
        return features

    def _warp(self, features: Tensor, num_bands: int) -> Tensor:
        """Read band f of each clip at f times its factor, between the two nearest bands."""
        shape = (ops.shape(features)[0], 1, 1)
        draw = keras.random.uniform(shape, -1.0, 1.0, seed=self._generator)
        bands = np.arange(num_bands, dtype=np.float32)
        places = ops.minimum(bands * (1.0 + self.frequency_warp * draw), float(num_bands - 1))  # (B, 1, F)
        weights = ops.relu(1.0 - ops.abs(bands[:, None] - places))  # (B, F from, F to)
        return ops.matmul(features, weights)

    def _keep(self, num_masks: int, widest: Tensor, lengths: Tensor, size: Tensor) -> Tensor:
        """(B, size): 0 under any of the masks, 1 elsewhere."""
        shape = (ops.shape(lengths)[0], num_masks)
        widths = ops.floor(keras.random.uniform(shape, seed=self._generator) * (widest[:, None] + 1))
        room = ops.cast(lengths[:, None], "float32") - widths + 1
        starts = ops.floor(keras.random.uniform(shape, seed=self._generator) * room)  # (B, masks)
        places = ops.cast(ops.arange(size), "float32")[None, None]
        masked = (places >= starts[..., None]) & (places < (starts + widths)[..., None])  # (B, masks, size)
        return 1.0 - ops.cast(ops.any(masked, axis=1), "float32")

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "frequency_warp": self.frequency_warp,
            "frequency_masks": self.frequency_masks,
            "frequency_mask_bands": self.frequency_mask_bands,
            "time_masks": self.time_masks,
            "time_mask_frames": self.time_mask_frames,
            "time_mask_share": self.time_mask_share,
            "seed": self.seed,
        }
