"""Provide the layers that networks share; all ignore padding: a mask is 1 on real frames and 0 on padding."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from typing_extensions import override

from asr.base.types import Tensor
from asr.model.features.layer import padding_mask


class BuildOnCall:
    """A layer or model without weights of its own, whose first call creates those of its inner layers.

    Without a `build`, Keras would first trace `call` symbolically to create them, again for each level of
    nesting, which takes longer than everything else about a network.
    """

    def build(self, input_shape: Any = None) -> None:
        """Do nothing; the inner layers are built by their first call."""


def half_rounded_up(num_frames: Any) -> Any:
    """Return the frames after a convolution of stride 2, which keeps an odd last frame."""
    return (num_frames + 1) // 2


def frame_mask(hidden: Tensor, num_frames: Tensor) -> Tensor:
    """Return (B, T, 1), 1 on real frames of hidden (B, T, ...) and 0 on padding, of its type."""
    return padding_mask(num_frames, ops.shape(hidden)[1], hidden.dtype)[..., None]


def same_padding_conv(
    convolution: keras.layers.Conv2D | keras.layers.DepthwiseConv2D, hidden: Tensor
) -> Tensor:
    """Apply a square kernel to (B, T, F, C), so that output t is around input t times the stride.

    `padding="same"` would depend on the padded length; this padding depends on the clip only.
    """
    side = convolution.kernel_size[0] // 2
    return convolution(ops.pad(hidden, [[0, 0], [side, side], [side, side], [0, 0]]))


def flatten_bands(hidden: Tensor) -> Tensor:
    """Turn (B, T, F, C) into (B, T, F * C), whose last size must be a number for LiteRT's converter."""
    return ops.reshape(hidden, (ops.shape(hidden)[0], -1, hidden.shape[2] * hidden.shape[3]))


@keras.saving.register_keras_serializable("polyphone")
class MaskedBatchNorm(keras.layers.Layer):
    """Batch normalisation by statistics of real frames only (Ioffe & Szegedy, 2015).

    Inputs and outputs are 0 on padding. It computes in float32, and returns the type of its inputs. When
    frozen (`trainable = False`), it uses its moving statistics in training, too, and keeps them.

    Args:
        momentum: share of the moving statistics that a batch keeps.
        epsilon: is added to the variance.
        synchronized: whether, trained on several devices, a batch's statistics are those of all devices'
            rows (`tf.distribute.get_replica_context` sums them), not of each device's own.

    Attributes:
        is_folded: whether the layer before normalises already, so that only `beta` is added.
    """

    def __init__(
        self, *, momentum: float = 0.95, epsilon: float = 1e-3, synchronized: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.momentum, self.epsilon, self.synchronized = momentum, epsilon, synchronized
        self.is_folded = False

    def build(self, input_shape: Any) -> None:
        """Create the weights for inputs (B, T, C) or (B, T, F, C)."""
        shape = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=shape, initializer="ones", autocast=False)
        self.beta = self.add_weight(name="beta", shape=shape, initializer="zeros", autocast=False)
        # all replicas of a tf.distribute.Strategy get the mean
        moving = {"shape": shape, "trainable": False, "aggregation": "mean", "autocast": False}
        self.moving_mean = self.add_weight(name="moving_mean", initializer="zeros", **moving)
        self.moving_variance = self.add_weight(name="moving_variance", initializer="ones", **moving)

    def call(self, inputs: Tensor, mask: Tensor, training: bool = False) -> Tensor:
        """Normalise over all axes but the last.

        Args:
            inputs: (B, T, ..., C), 0 where the mask is 0.
            mask: (B, T, ..., 1), of size 1 on the axes in between.
            training: whether to use the batch's statistics, and to update the moving ones; infinite or NaN
                statistics do not update them, as they would never recover.
        """
        inputs, mask = ops.cast(inputs, "float32"), ops.cast(mask, "float32")
        if self.is_folded:
            return ops.cast((inputs + self.beta) * mask, self.compute_dtype)
        mean, variance = self.moving_mean, self.moving_variance
        if training and self.trainable:
            axes = tuple(range(len(inputs.shape) - 1))
            positions_per_frame = ops.prod(ops.shape(inputs)[2:-1])
            count = ops.sum(mask) * ops.cast(positions_per_frame, mask.dtype)
            sums = [count, ops.sum(inputs, axis=axes), ops.sum(ops.square(inputs), axis=axes)]
            if self.synchronized:
                sums = tf.distribute.get_replica_context().all_reduce("SUM", sums)
            count, total, total_of_squares = sums
            mean = total / count
            variance = total_of_squares / count - ops.square(mean)
            finite = ops.all(ops.isfinite(mean) & ops.isfinite(variance))
            variance = ops.maximum(variance, 0.0)
            for moving, batch in ((self.moving_mean, mean), (self.moving_variance, variance)):
                moved = moving * self.momentum + ops.stop_gradient(batch) * (1 - self.momentum)
                moving.assign(ops.where(finite, moved, moving))
        scale = self.gamma * ops.rsqrt(variance + self.epsilon)
        return ops.cast((inputs * scale + (self.beta - mean * scale)) * mask, self.compute_dtype)

    @override
    def get_config(self) -> dict[str, Any]:
        own = {"momentum": self.momentum, "epsilon": self.epsilon, "synchronized": self.synchronized}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("polyphone")
class FactoredLogits(keras.layers.Layer):
    """A dense layer that adds up shared rows of weights for each output.

    Output v's weights are the sum of one row for each of its parts: a toned syllable that occurred
    once in training still has its initial, its final and its tone in common with thousands of others.

    Args:
        parts: (V, P) ids of each output's parts.
        seed: seed of the initial weights.
    """

    def __init__(self, parts: Any, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts, self.seed = np.asarray(parts, np.int32), seed

    def build(self, input_shape: Any) -> None:
        """Create the weights for inputs (B, T, C)."""
        num_parts = int(self.parts.max()) + 1
        shape = (num_parts, input_shape[-1])
        # summed in float32, whatever the layer's precision
        self.rows = self.add_weight(
            name="rows",
            shape=shape,
            initializer=keras.initializers.GlorotUniform(self.seed),
            autocast=False,
        )
        self.bias = self.add_weight(name="bias", shape=(num_parts,), initializer="zeros", autocast=False)

    def call(self, inputs: Tensor) -> Tensor:
        """Map (B, T, C) to (B, T, V)."""
        kernel = ops.sum(ops.take(self.rows, self.parts, axis=0), axis=1)  # (V, C)
        bias = ops.sum(ops.take(self.bias, self.parts, axis=0), axis=1)  # (V,)
        kernel, bias = ops.cast(kernel, self.compute_dtype), ops.cast(bias, self.compute_dtype)
        return ops.matmul(inputs, ops.transpose(kernel)) + bias

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "parts": self.parts.tolist(), "seed": self.seed}


def make_output(num_outputs: int, parts: Any, seed: int) -> keras.layers.Layer:
    """Return the layer "output" of a network: (B, T, C) to (B, T, V).

    Args:
        num_outputs: V.
        parts: (V, P) ids of each output's parts, by which outputs share weights; None for none.
        seed: seed of the initial weights.
    """
    if parts is not None:
        return FactoredLogits(parts, seed=seed, name="output")
    initializer = keras.initializers.GlorotUniform(seed)
    return keras.layers.Dense(num_outputs, kernel_initializer=initializer, name="output")
