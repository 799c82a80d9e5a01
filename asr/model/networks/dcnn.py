"""Define ASRT's deep convolutional networks: 3x3 convolutions over spectrograms, three 2x2 poolings.

They follow the published layer tables of ASRT (github.com/nl8590687/ASRT_SpeechRecognition).
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import keras
from keras import ops
from typing_extensions import override

from asr.base.config import ModelConfig
from asr.base.types import Logits, Tensor
from asr.base.vocabulary import Vocabulary
from asr.model.features.layer import padding_mask
from asr.model.networks.layers import MaskedBatchNorm
from asr.model.networks.network import Network
from asr.model.networks.parts import NetworkPart, StageInputs, run_parts
from asr.model.runner import ReceptiveField


class Recipe(NamedTuple):
    """A network of the family, whose convolutions come in pairs of equal width."""

    pair_channels: tuple[int, ...]
    batch_norm: bool
    dropouts: tuple[float, ...]  # after each convolution, the last before the dense layer, and after it


NUM_POOLED_PAIRS = 3  # a 2x2 pooling follows each of the first three pairs
DENSE_UNITS = 128
DCNN_FAMILY = {
    "dcnn251bn": Recipe((32, 64, 128, 128, 128), True, ()),
    "dcnn251": Recipe(
        (32, 64, 128, 128, 128), False, (0.05, 0.05, 0.1, 0.1, 0.15, 0.15, 0.2, 0.2, 0.2, 0.3, 0.3)
    ),
    "dcnn25": Recipe((32, 64, 128, 128), False, (0.05, 0.05, 0.1, 0.1, 0.15, 0.15, 0.2, 0.3, 0.3)),
    "dcnn24": Recipe((32, 64, 128), False, (0.1, 0.2, 0.2, 0.3, 0.3, 0.3, 0.3)),
}


@keras.saving.register_keras_serializable("polyphone")
class Dcnn(Network):
    """ASRT's family of networks, with a subsampling of 8.

    Args:
        family: a name in DCNN_FAMILY.
        num_outputs: V, the size of the vocabulary, including the blank.
        seed: seed of the dropout masks and the initial weights.
    """

    SUBSAMPLING = 8

    def __init__(self, family: str, num_outputs: int, seed: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.family, self.num_outputs, self.seed = family, num_outputs, seed
        recipe = DCNN_FAMILY[family]
        seeds = itertools.count(seed * 1000)
        channels = [width for width in recipe.pair_channels for _ in range(2)]
        self._convolutions = [
            keras.layers.Conv2D(
                width,
                3,
                padding="same",
                use_bias=recipe.batch_norm or index > 0,
                kernel_initializer=keras.initializers.HeNormal(next(seeds)),
                name=f"conv{index}",
            )
            for index, width in enumerate(channels)
        ]
        self._norms = [
            MaskedBatchNorm(epsilon=2e-4, name=f"norm{index}") if recipe.batch_norm else None
            for index in range(len(channels))
        ]
        self._dropouts = [
            keras.layers.Dropout(rate, seed=next(seeds), name=f"dropout{index}")
            for index, rate in enumerate(recipe.dropouts or [0.0] * (len(channels) + 1))
        ]
        self._pool = keras.layers.MaxPooling2D(2, padding="valid", name="pool")
        self._dense = keras.layers.Dense(
            DENSE_UNITS, "relu", kernel_initializer=keras.initializers.HeNormal(next(seeds)), name="dense"
        )
        self._output = keras.layers.Dense(
            num_outputs, kernel_initializer=keras.initializers.HeNormal(next(seeds)), name="output"
        )

    @classmethod
    @override
    def of(cls, config: ModelConfig, vocabulary: Vocabulary, seed: int, num_pitch: int) -> Dcnn:
        return cls(config.family, num_outputs=len(vocabulary), seed=seed)

    def num_output_frames(self, num_frames: Any) -> Any:
        """Return the frames after three poolings, each of which drops an odd last frame."""
        return num_frames // 2**NUM_POOLED_PAIRS

    def receptive_field(self) -> ReceptiveField:
        """Return the feature frames that logits t depend on, around frame 8 t."""
        before = after = 0
        for pair in reversed(range(len(DCNN_FAMILY[self.family].pair_channels))):
            if pair < NUM_POOLED_PAIRS:
                before, after = 2 * before, 2 * after + 1
            before, after = before + 2, after + 2  # two convolutions of three frames
        return ReceptiveField(before, after)

    def call(self, features: Tensor, num_frames: Tensor, training: bool = False) -> Logits:
        """Map features (B, T, F) and num_frames (B,) to logits with T // 8 frames."""
        return Logits(*run_parts(self.parts(), features, num_frames, training))

    @override
    def parts(self) -> list[NetworkPart]:
        convolutions = [
            NetworkPart(
                convolution.name,
                [layer for layer in (convolution, norm, dropout) if layer is not None],
                functools.partial(self._convolve, index),
            )
            for index, (convolution, norm, dropout) in enumerate(
                zip(self._convolutions, self._norms, self._dropouts, strict=False)
            )
        ]
        return [
            *convolutions,
            NetworkPart("dense", [self._dense, self._dropouts[-1]], self._mix),
            NetworkPart("output", [self._output], self._to_logits),
        ]

    def _convolve(self, index: int, hidden: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
        """Apply a convolution, and the pooling and the dropout after it."""
        if index == 0:
            # clips with too few frames for the poolings yield one frame, which counts as padding
            short_of = ops.maximum(2**NUM_POOLED_PAIRS - ops.shape(hidden)[1], 0)
            padded = ops.pad(hidden, [[0, 0], [0, short_of], [0, 0]])
            hidden = ops.expand_dims(padded, -1)  # (B, T, F, 1), 0 on padding
        norm = self._norms[index]
        mask = _mask(hidden, num_frames)
        hidden = self._convolutions[index](hidden) * mask
        if norm is not None:
            hidden = norm(hidden, mask, training=training)
        hidden = ops.relu(hidden)
        if index % 2 == 1 and index // 2 < NUM_POOLED_PAIRS:
            hidden = self._pool(hidden)
            num_frames = num_frames // 2
            hidden = hidden * _mask(hidden, num_frames)  # an odd last frame is dropped, as for the clip alone
        return self._dropouts[index](hidden, training=training), num_frames

    def _mix(self, hidden: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
        """Apply the dense layer to all channels and bands of a frame."""
        shape = ops.shape(hidden)
        hidden = ops.reshape(hidden, (shape[0], shape[1], hidden.shape[2] * hidden.shape[3]))
        return self._dropouts[-1](self._dense(hidden), training=training), num_frames

    def _to_logits(self, hidden: Tensor, num_frames: Tensor, training: bool) -> Logits:
        """Apply the output layer."""
        return Logits(ops.cast(self._output(hidden), "float32"), num_frames)

    @override
    def get_config(self) -> dict[str, Any]:
        return {"family": self.family, "num_outputs": self.num_outputs, "seed": self.seed, "name": self.name}


def _mask(hidden: Tensor, num_frames: Tensor) -> Tensor:
    """Return (B, T, 1, 1), 1 on real frames of hidden (B, T, F, C) and 0 on padding."""
    return padding_mask(num_frames, ops.shape(hidden)[1], hidden.dtype)[..., None, None]
