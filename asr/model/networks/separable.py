"""Define networks of 1D time-channel-separable convolutions with residuals, with a subsampling of 8.

After QuartzNet (Kriman et al., 2019, arXiv:1910.10261) and Citrinet (Majumdar et al., 2021,
arXiv:2104.01721): each of three stages is a convolution of stride 2 followed by residual blocks, and in
the larger sizes a squeeze-and-excitation gate gives every frame information about the whole clip. With
`model.stem`, the first stage begins with two-dimensional convolutions instead; those of `"2d_fast"` have a
stride of 4, and take the place of the first two stages' convolutions.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops
from typing_extensions import override

from asr.base.config import ModelConfig
from asr.base.types import DeepLogits, Logits, Tensor
from asr.model.networks.depthwise import DepthwiseConv1D
from asr.model.networks.intermediate import IntermediateOutput
from asr.model.networks.layers import BuildOnCall, MaskedBatchNorm, frame_mask, half_rounded_up, make_output
from asr.model.networks.parts import NetworkPart, StageInputs, run_parts
from asr.model.networks.sized import SizedNetwork, block_parts
from asr.model.networks.stem import STEMS, Stem
from asr.model.runner import ReceptiveField


class Size(NamedTuple):
    """Channels, blocks and kernels of the three stages, at 50, 25 and 12.5 frames per second."""

    channels: tuple[int, int, int]
    blocks: tuple[int, int, int]
    convolutions: int  # separable convolutions in a block
    kernels: tuple[int, int, int]  # frames
    head: int  # channels before the output
    gate: bool  # squeeze and excitation


# 0.6, 0.8, 2.4, 4.4, 6, 18 and 40 million parameters with 1,428 outputs; 0.4 million for xs with 322. xs, s,
# sm and sm_deep have receptive fields of 0.6, 1.2, 1.7 and 3.8 s to each side: on a small corpus, a network
# that covers whole sentences memorizes them (measured on the demo: 23 % errors on unseen voices with kernels
# of 7, 9 and 11, 10 % with 7, 5 and 3)
SIZES = {
    "xs": Size((64, 128, 192), (1, 1, 1), 2, (5, 5, 3), 192, gate=False),
    "s": Size((80, 144, 224), (1, 1, 2), 2, (7, 5, 5), 192, gate=False),
    "sm": Size((96, 256, 384), (1, 2, 3), 2, (7, 5, 5), 320, gate=False),
    "sm_deep": Size((96, 256, 384), (1, 3, 9), 2, (7, 5, 5), 320, gate=False),  # begins as a trained sm
    "m": Size((256, 256, 384), (2, 4, 6), 3, (9, 13, 19), 640, gate=True),
    "l": Size((256, 384, 512), (3, 5, 7), 5, (11, 17, 25), 640, gate=True),
    "xl": Size((512, 512, 640), (4, 6, 9), 5, (11, 19, 29), 1024, gate=True),
}
DOWN_KERNEL = 5
SQUEEZE = 8  # channels to one, in a gate


class StageSize(NamedTuple):
    """What the stages of a network differ in.

    Attributes:
        number: of the stage, from 0; where a stem takes the place of two convolutions, there is no stage 0.
        channels: of each frame.
        blocks: number of them.
        kernel: frames that a filter covers.
        stem: how the stage begins, as `model.stem`.
        num_pitch: number of features of the pitch, where it begins with a stem.
    """

    number: int
    channels: int
    blocks: int
    kernel: int
    stem: str = "1d"
    num_pitch: int = 0

    @property
    def subsampling(self) -> int:
        """Return the frames at the beginning of the stage from one frame of the stage to the next."""
        return 2 if self.stem == "1d" else STEMS[self.stem].subsampling

    @property
    def first_reach(self) -> int:
        """Return how many frames to each side what comes before the blocks depends on."""
        if self.stem == "1d":
            return DOWN_KERNEL // 2
        return STEMS[self.stem].reach(with_pitch=self.num_pitch > 0)


def stage_sizes(size: str, stem: str, num_pitch: int) -> list[StageSize]:
    """Return the stages of a size of network that begins with a stem."""
    recipe = SIZES[size]
    sizes = zip(recipe.channels, recipe.blocks, recipe.kernels, strict=True)
    first, second, third = (StageSize(number, *each) for number, each in enumerate(sizes))
    first = first._replace(stem=stem, num_pitch=num_pitch)
    if first.subsampling == 2:
        return [first, second, third]
    return [second._replace(blocks=first.blocks + second.blocks, stem=stem, num_pitch=num_pitch), third]


@keras.saving.register_keras_serializable("polyphone")
class Separable(SizedNetwork):
    """The separable networks, one for each size; `SizedNetwork` has the other arguments.

    Args:
        stem: how the first stage begins, as `model.stem`.
        num_pitch: number of features at the end that are of the pitch.
    """

    SUBSAMPLING = 8
    SIZES = SIZES
    OPTIONS = SizedNetwork.OPTIONS | {"stem"}

    def __init__(self, *args: Any, stem: str = "1d", num_pitch: int = 0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stem, self.num_pitch = stem, num_pitch
        recipe = SIZES[self.size]
        seeds, numbers = itertools.count(self.seed * 1000), itertools.count()
        self._stages = [
            Stage(
                BlockSize(stage.channels, recipe.convolutions, stage.kernel, recipe.gate, self.dropout),
                [self.intermediate_output(next(numbers)) for _ in range(stage.blocks)],
                seed=next(seeds) * 100,
                stem=stage.stem,
                num_pitch=stage.num_pitch,
                name=f"stage{stage.number}",
            )
            for stage in stage_sizes(self.size, stem, num_pitch)
        ]
        self._head = SeparableConvolution(recipe.head, recipe.kernels[-1], seed=next(seeds), name="head")
        self._dropout = keras.layers.Dropout(self.dropout, seed=next(seeds), name="dropout")
        self._output = make_output(self.num_outputs, self.output_parts, next(seeds))

    @classmethod
    @override
    def num_blocks(cls, size: str) -> int:
        return sum(SIZES[size].blocks)

    @classmethod
    @override
    def own_settings(cls, config: ModelConfig, num_pitch: int) -> dict[str, Any]:
        return {"stem": config.stem, "num_pitch": num_pitch}

    def receptive_field(self) -> ReceptiveField | None:
        """Return the feature frames that logits t depend on, around frame 8 t; None with gates."""
        recipe = SIZES[self.size]
        if recipe.gate:
            return None
        reach = recipe.kernels[-1] // 2  # of the head
        for stage in reversed(stage_sizes(self.size, self.stem, self.num_pitch)):
            reach += stage.blocks * recipe.convolutions * (stage.kernel // 2)
            reach = stage.subsampling * reach + stage.first_reach
        return ReceptiveField(reach, reach)

    def call(self, features: Tensor, num_frames: Tensor, training: bool = False) -> Logits | DeepLogits:
        """Map features (B, T, F) and num_frames (B,) to logits with about T / 8 frames."""
        hidden = features  # 0 on padding
        intermediate: list[Logits] = []
        for stage in self._stages:
            hidden, num_frames, *own = stage(hidden, num_frames, training=training)
            intermediate += own
        logits = Logits(*run_parts(self._last_parts(), hidden, num_frames, training))
        return DeepLogits(*logits, tuple(intermediate)) if intermediate else logits

    def blocks(self) -> list[Sequence[Block]]:
        """Return the residual blocks of each stage."""
        return [stage.blocks for stage in self._stages]

    @override
    def parts(self) -> list[NetworkPart]:
        return [*(part for stage in self._stages for part in stage.parts()), *self._last_parts()]

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "stem": self.stem, "num_pitch": self.num_pitch}

    def _last_parts(self) -> list[NetworkPart]:
        return [
            NetworkPart("head", [self._head, self._dropout], self._apply_head),
            self.output_part(),
        ]

    def _apply_head(self, hidden: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
        hidden = ops.relu(self._head(hidden, frame_mask(hidden, num_frames), training=training))
        return self._dropout(hidden, training=training), num_frames


class BlockSize(NamedTuple):
    """The sizes that all blocks of a stage share."""

    channels: int
    convolutions: int
    kernel: int
    gate: bool
    dropout: float


class Stage(BuildOnCall, keras.layers.Layer):
    """A convolution of stride 2 or a stem, then residual blocks.

    Args:
        size: of each block.
        outputs: for each block the output after it, None if it has none.
        seed: seed of the dropout masks and the initial weights.
        stem: "1d", or the kind of `Stem` that takes the place of the convolution.
        num_pitch: number of features at the end that are of the pitch; a stem has convolutions of its own
            for them.
    """

    def __init__(
        self,
        size: BlockSize,
        outputs: Sequence[IntermediateOutput | None],
        seed: int,
        stem: str = "1d",
        num_pitch: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._stem = None if stem == "1d" else Stem(stem, size.channels, seed, num_pitch, name="stem")
        if self._stem is None:
            # padding="same" would depend on the padded length; this padding depends on the clip only
            self._down = keras.layers.Conv1D(
                size.channels,
                DOWN_KERNEL,
                strides=2,
                padding="valid",
                use_bias=False,
                kernel_initializer=keras.initializers.HeNormal(seed),
                name="down",
            )
            self._norm = MaskedBatchNorm(name="norm")
        self.blocks = [
            Block(size, seed + 10 * (index + 1), name=f"block{index}") for index in range(len(outputs))
        ]
        self._outputs = list(outputs)

    def call(self, inputs: Tensor, num_frames: Tensor, training: bool = False) -> StageInputs:
        """Map (B, T, C) and the frames of each row to (B, T', channels) and its frames.

        In training, the logits of outputs follow.
        """
        return run_parts(self.parts(), inputs, num_frames, training)

    def parts(self) -> list[NetworkPart]:
        """Return the convolution or the stem, each block, and each output as parts of the network."""
        if self._stem is None:
            parts = [NetworkPart(f"{self.name}.down", [self._down, self._norm], self._subsample)]
        else:
            parts = [
                NetworkPart(f"{self.name}.stem", [self._stem], functools.partial(_apply_stem, self._stem))
            ]
        for block, output in zip(self.blocks, self._outputs, strict=True):
            parts += block_parts(block, output, f"{self.name}.")
        return parts

    def _subsample(self, inputs: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
        side = DOWN_KERNEL // 2
        odd = ops.shape(inputs)[1] % 2
        padded = ops.pad(inputs, [[0, 0], [side, side - 1 + odd], [0, 0]])
        # otherwise LiteRT's converter would not know the number of channels
        hidden = self._down(ops.reshape(padded, (ops.shape(inputs)[0], -1, inputs.shape[-1])))
        num_frames = half_rounded_up(num_frames)
        mask = frame_mask(hidden, num_frames)
        return ops.relu(self._norm(hidden * mask, mask, training=training)), num_frames


def _apply_stem(stem: Stem, inputs: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
    hidden, num_frames = stem(inputs, num_frames, training=training)
    return hidden, num_frames


class Block(BuildOnCall, keras.layers.Layer):
    """Separable convolutions, in the larger sizes with a gate, and a residual path around them."""

    def __init__(self, size: BlockSize, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._convolutions = [
            SeparableConvolution(size.channels, size.kernel, seed=seed + index, name=f"conv{index}")
            for index in range(size.convolutions)
        ]
        self._gate = Gate(seed=seed, name="gate") if size.gate else None
        self._dropout = keras.layers.Dropout(size.dropout, seed=seed, name="dropout")

    def call(self, inputs: Tensor, mask: Tensor, training: bool = False) -> Tensor:
        """Map (B, T, C) to (B, T, C)."""
        hidden = inputs
        for index, convolution in enumerate(self._convolutions):
            hidden = convolution(ops.relu(hidden) if index else hidden, mask, training=training)
        if self._gate is not None:
            hidden = self._gate(hidden, mask)
        return self._dropout(ops.relu(inputs + hidden), training=training)

    def begin_as_identity(self) -> None:
        """Set weights with which the block returns its inputs, as these are never negative."""
        gamma = self._convolutions[-1].norm.gamma
        gamma.assign(ops.zeros_like(gamma))


class SeparableConvolution(BuildOnCall, keras.layers.Layer):
    """A filter over time for each channel, a mixture of channels, and a normalisation."""

    def __init__(self, channels: int, kernel: int, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._depthwise = DepthwiseConv1D(
            kernel,
            depthwise_initializer=keras.initializers.GlorotUniform(seed),
            name="depthwise",
        )
        self._pointwise = keras.layers.Dense(
            channels, use_bias=False, kernel_initializer=keras.initializers.HeNormal(seed), name="pointwise"
        )
        self.norm = MaskedBatchNorm(name="norm")

    def call(self, inputs: Tensor, mask: Tensor, training: bool = False) -> Tensor:
        """Map (B, T, C) to (B, T, channels)."""
        mixed = self._pointwise(self._depthwise(inputs, training=training) * mask)
        return self.norm(mixed, mask, training=training)


class Gate(keras.layers.Layer):
    """A factor for each channel that depends on the whole clip (squeeze and excitation; Hu et al., 2018)."""

    def __init__(self, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._seed = seed

    def build(self, inputs_shape: Any, mask_shape: Any = None) -> None:
        """Create the layers for inputs (B, T, C)."""
        channels, squeezed = inputs_shape[-1], inputs_shape[-1] // SQUEEZE
        initializer = keras.initializers.GlorotUniform(self._seed)
        common = {"kernel_initializer": initializer, "dtype": self.dtype_policy}
        self._squeeze = keras.layers.Dense(squeezed, "relu", name="squeeze", **common)
        self._excite = keras.layers.Dense(channels, "sigmoid", name="excite", **common)
        self._squeeze.build((None, channels))
        self._excite.build((None, squeezed))

    def call(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Map (B, T, C) to (B, T, C)."""
        count = ops.sum(ops.cast(mask, "float32"), axis=1)  # the sum over a long clip exceeds float16
        mean = ops.sum(ops.cast(inputs, "float32"), axis=1) / ops.maximum(count, 1.0)  # (B, C)
        return inputs * self._excite(self._squeeze(mean))[:, None]
