"""SpecAugment, which hides bands of features in training and stretches the frequency axis."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops
from typing_extensions import override

from asr.base.config import AugmentConfig
from asr.base.types import Tensor

# stored with the layer: other settings of augmentation may be paths of this machine
SETTINGS = (
    "frequency_warp",
    "frequency_masks",
    "frequency_mask_bands",
    "time_masks",
    "time_mask_frames",
    "time_mask_share",
)


@keras.saving.register_keras_serializable("polyphone")
class SpecAugment(keras.layers.Layer):
    """Changes of features in training: a warped frequency axis, and masked bands and frames.

    First each clip's frequency axis is stretched by a factor of its own around 1, as another speaker's
    vocal tract would (Jaitly & Hinton, 2013). Then bands of frequencies and of frames are set to 0, the
    mean (Park et al., 2019, arXiv:1904.08779): each mask draws its width evenly from 0 to the widest, and
    its place evenly from where it fits; no frequency mask is wider than half of the bands, and no time
    mask than `time_mask_share` of its clip.

    Features of the pitch keep their axis; only masks of frames hide them. Does nothing outside training.

    Args:
        config: how training clips are varied.
        seed: of what is drawn.
        time_mask_factor: multiplies the number of time masks.
        num_pitch: number of features at the end that are of the pitch.
    """

    def __init__(
        self,
        config: AugmentConfig,
        seed: int,
        time_mask_factor: float = 1.0,
        num_pitch: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"name": "spec_augment", **kwargs})
        num_time_masks = round(time_mask_factor * config.time_masks)
        self.settings, self.seed = dataclasses.replace(config, time_masks=num_time_masks), seed
        self.num_pitch = num_pitch
        self._generator = keras.random.SeedGenerator(seed)

    def call(self, features: Tensor, num_frames: Tensor, training: bool = False) -> Tensor:
        """Change features (B, T, F) in training; return them as they are outside it."""
        if not training:
            return features
        every_clip = ops.ones_like(num_frames)
        num_bands = features.shape[-1] - self.num_pitch
        bands, pitch = features[..., :num_bands], features[..., num_bands:]
        if self.settings.frequency_warp:
            bands = self._warp(bands, num_bands)
        if self.settings.frequency_masks:
            most_bands = min(self.settings.frequency_mask_bands, num_bands // 2)
            widest = ops.cast(every_clip * most_bands, "float32")
            keep = self._keep(self.settings.frequency_masks, widest, every_clip * num_bands, num_bands)
            bands = bands * keep[:, None, :]
        features = ops.concatenate([bands, pitch], axis=-1) if self.num_pitch else bands
        if self.settings.time_masks:
            share = self.settings.time_mask_share * ops.cast(num_frames, "float32")
            widest = ops.minimum(float(self.settings.time_mask_frames), share)
            keep = self._keep(self.settings.time_masks, widest, num_frames, ops.shape(features)[1])
            features = features * keep[:, :, None]
        return features

    def _warp(self, features: Tensor, num_bands: int) -> Tensor:
        """Read band f of each clip at f times its factor, between the two nearest bands."""
        shape = (ops.shape(features)[0], 1, 1)
        draw = keras.random.uniform(shape, -1.0, 1.0, seed=self._generator)
        bands = np.arange(num_bands, dtype=np.float32)
        indices = ops.minimum(
            bands * (1.0 + self.settings.frequency_warp * draw), float(num_bands - 1)
        )  # (B, 1, F)
        weights = ops.relu(1.0 - ops.abs(bands[:, None] - indices))  # (B, F from, F to)
        return ops.matmul(features, weights)

    def _keep(self, num_masks: int, widest: Tensor, lengths: Tensor, size: Tensor) -> Tensor:
        """Return (B, size), 0 under any of the masks and 1 elsewhere."""
        shape = (ops.shape(lengths)[0], num_masks)
        widths = ops.floor(keras.random.uniform(shape, seed=self._generator) * (widest[:, None] + 1))
        room = ops.cast(lengths[:, None], "float32") - widths + 1
        starts = ops.floor(keras.random.uniform(shape, seed=self._generator) * room)  # (B, masks)
        indices = ops.cast(ops.arange(size), "float32")[None, None]
        masked = (indices >= starts[..., None]) & (indices < (starts + widths)[..., None])  # (B, masks, size)
        return 1.0 - ops.cast(ops.any(masked, axis=1), "float32")

    @override
    def get_config(self) -> dict[str, Any]:
        settings = {name: getattr(self.settings, name) for name in SETTINGS}
        return {**super().get_config(), **settings, "seed": self.seed, "num_pitch": self.num_pitch}

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any]) -> SpecAugment:
        others = {name: value for name, value in config.items() if name not in SETTINGS}
        return cls(AugmentConfig(**{name: config[name] for name in SETTINGS}), **others)
