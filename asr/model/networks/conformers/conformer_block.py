"""Define the block of a Conformer: attention, then convolution, between two halves of a feed-forward.

After Gulati et al. (2020, arXiv:2005.08100), with rotary positions, and with frames that are normalised by
themselves in place of batches: a clip then depends on no other one, in training either. Every layer takes and
returns frames (B, T, C); what is on padding does not reach real frames.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from asr.base.types import Tensor
from asr.model.networks.conformers.attention import attend_to_clip_or_chunks, rotated
from asr.model.networks.conformers.chunks import Chunks, either, in_chunks, joined
from asr.model.networks.depthwise import DepthwiseConv1D
from asr.model.networks.layers import BuildOnCall


class ConformerBlockSize(NamedTuple):
    """The sizes that all blocks of a network share."""

    channels: int
    heads: int
    dropout: float
    residual: float  # share of the usual size that the last weights of a module have initially
    chunks: Chunks  # into which clips are cut
    chunk_seed: int  # the same for all blocks, so that they draw the same


MODULES = 4  # of a block, each added to what came in
FACTOR = 4  # channels within a feed-forward, per channel of a frame
KERNEL = 9  # frames of a convolution, as in Fast Conformer
WHOLE_SHARE = 0.5  # of the batches, in training with chunks


def frame_norm() -> keras.layers.LayerNormalization:
    """Return the layer "norm" of a module, which normalises each frame by itself, in float32."""
    return keras.layers.LayerNormalization(epsilon=1e-5, name="norm")


def dense(units: int, seed: int, name: str, share: float = 1.0) -> keras.layers.Dense:
    """Return a dense layer whose initial weights follow from a seed.

    Args:
        units: channels of its outputs.
        seed: seed of the initial weights.
        name: of the layer.
        share: factor of the usual size of the initial weights (Glorot & Bengio, 2010).
    """
    initializer = keras.initializers.VarianceScaling(share**2, "fan_avg", "uniform", seed)
    return keras.layers.Dense(units, kernel_initializer=initializer, name=name)


class ConformerBlock(BuildOnCall, keras.layers.Layer):
    """Feed-forwards, attention and convolution, each added to the frames, and a normalisation.

    Args:
        size: of the block.
        seed: seed of the dropout masks and the initial weights, of which 40 follow from it.
    """

    def __init__(self, size: ConformerBlockSize, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._before = FeedForward(size, seed, name="feed_forward0")
        self._attention = SelfAttention(size, seed + 10, name="attention")
        self._convolution = ConvolutionModule(size, seed + 20, name="convolution")
        self._behind = FeedForward(size, seed + 30, name="feed_forward1")
        self._norm = frame_norm()
        self.feed_forward_share = 0.5  # of what each of the two computes, which is added
        self._chunks = size.chunks
        self._draws = keras.random.SeedGenerator(size.chunk_seed) if size.chunks.size else None

    def call(self, inputs: Tensor, mask: Tensor, training: bool = False) -> Tensor:
        """Map (B, T, C) to the same shape, 0 on padding.

        Args:
            inputs: frames.
            mask: (B, T, 1), 1 on real frames and 0 on padding.
            training: whether to drop activations, and to draw between the whole clip and chunks.
        """
        whole = self._sees_whole_clip(training)
        hidden = inputs + self.feed_forward_share * self._before(inputs, training=training)
        hidden = hidden + self._attention(hidden, mask, whole=whole, training=training)
        hidden = hidden + self._convolution(hidden, mask, whole=whole, training=training)
        hidden = hidden + self.feed_forward_share * self._behind(hidden, training=training)
        return self._norm(hidden) * mask

    def _sees_whole_clip(self, training: bool) -> Any:
        """Return whether frames depend on the whole clip: True or False, or () bool, drawn for the batch."""
        if self._draws is None or not training:
            return self._draws is None
        return keras.random.uniform((), seed=self._draws) < WHOLE_SHARE


class FeedForward(BuildOnCall, keras.layers.Layer):
    """Two dense layers with Swish between them, frame by frame."""

    def __init__(self, size: ConformerBlockSize, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._norm = frame_norm()
        self._wide = dense(FACTOR * size.channels, seed, "wide")
        self._narrow = dense(size.channels, seed + 1, "narrow", size.residual)
        # none between the two layers: its random numbers took a seventh of a step on a CPU
        self._dropout = keras.layers.Dropout(size.dropout, seed=seed + 2, name="dropout")

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Map (B, T, C) to the same shape."""
        hidden = self._narrow(ops.silu(self._wide(self._norm(inputs))))
        return self._dropout(hidden, training=training)


class SelfAttention(BuildOnCall, keras.layers.Layer):
    """Attention of several heads from each frame to the frames of its clip, or to chunks of it."""

    def __init__(self, size: ConformerBlockSize, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads, self._chunks = size.heads, size.chunks
        self._norm = frame_norm()
        self._qkv = dense(3 * size.channels, seed, "qkv")  # queries, keys and values of all heads
        self._mix = dense(size.channels, seed + 1, "mix", size.residual)
        self._dropout = keras.layers.Dropout(size.dropout, seed=seed + 2, name="dropout")

    def call(self, inputs: Tensor, mask: Tensor, whole: Any, training: bool = False) -> Tensor:
        """Map (B, T, C) to the same shape; mask (B, T, 1) is 0 on padding, `whole` is as in `either`."""
        batch, channels = ops.shape(inputs)[0], inputs.shape[-1]
        size = channels // self.heads
        heads = ops.reshape(self._qkv(self._norm(inputs)), (batch, -1, 3 * self.heads, size))
        queries, keys = ops.split(rotated(heads[:, :, : 2 * self.heads]), 2, axis=2)
        queries, values = queries * size**-0.5, heads[:, :, 2 * self.heads :]  # (B, T, H, D)
        attended = attend_to_clip_or_chunks(whole, queries, keys, values, mask[..., 0], self._chunks)
        mixed = self._mix(ops.reshape(attended, (batch, -1, channels)))
        return self._dropout(mixed, training=training)


class ConvolutionModule(BuildOnCall, keras.layers.Layer):
    """A filter over neighbouring frames of each channel, between a gated dense layer and another one."""

    def __init__(self, size: ConformerBlockSize, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._chunks = size.chunks
        self._norm = frame_norm()
        self._gated = dense(2 * size.channels, seed, "gated")
        self._depthwise = DepthwiseConv1D(
            KERNEL, depthwise_initializer=keras.initializers.GlorotUniform(seed + 1), name="depthwise"
        )
        self._filtered_norm = keras.layers.LayerNormalization(epsilon=1e-5, name="filtered_norm")
        self._mix = dense(size.channels, seed + 2, "mix", size.residual)
        self._dropout = keras.layers.Dropout(size.dropout, seed=seed + 3, name="dropout")

    def call(self, inputs: Tensor, mask: Tensor, whole: Any, training: bool = False) -> Tensor:
        """Map (B, T, C) to the same shape; mask (B, T, 1) is 0 on padding, `whole` is as in `either`."""
        values, gates = ops.split(self._gated(self._norm(inputs)), 2, axis=-1)
        gated = values * ops.sigmoid(gates) * mask
        filtered = either(
            whole,
            lambda: self._depthwise(gated, training=training),
            lambda: self._filtered_by_chunk(gated, training),
        )
        hidden = ops.silu(self._filtered_norm(filtered))
        return self._dropout(self._mix(hidden), training=training)

    def _filtered_by_chunk(self, frames: Tensor, training: bool) -> Tensor:
        """Filter (B, T, C) as if nothing were after each chunk (Li et al., 2023, arXiv:2304.09325)."""
        reach = KERNEL // 2
        chunks = in_chunks(frames, self._chunks.size, reach)  # (B, N, reach + size, C)
        rows = ops.reshape(chunks, (-1, *chunks.shape[2:]))
        filtered = ops.reshape(self._depthwise(rows, training=training), ops.shape(chunks))
        return joined(filtered[:, :, reach:], frames)
