"""Layers that the networks share. All keep padding out: `mask (B, T, 1)` is 1 on real frames, else 0."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from asr.types import Tensor


@keras.saving.register_keras_serializable("polyphone")
class MaskedBatchNorm(keras.layers.BatchNormalization):
    """Batch normalisation whose statistics count real frames alone."""

    def call(self, inputs: Tensor, mask: Tensor, training: bool = False) -> Tensor:
        """(B, T, ...) and (B, T, 1) -> (B, T, ...)."""
        return super().call(inputs, training=training, mask=mask)


@keras.saving.register_keras_serializable("polyphone")
class SumOfParts(keras.layers.Layer):
    """A dense layer whose outputs add up rows they share.

    Output v's weights are the sum of one row for each of its parts: a toned syllable that training saw
    once still has its initial, its final and its tone from thousands of others.

    Args:
        parts: (V, P) ids of each output's parts.
    """

    def __init__(self, parts: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts = np.asarray(parts, np.int32)
        num_parts = int(self.parts.max()) + 1
        self._membership = np.zeros((num_parts, len(self.parts)), np.float32)  # (parts, V)
        np.add.at(self._membership, (self.parts, np.arange(len(self.parts))[:, None]), 1.0)

    def build(self, input_shape: Any) -> None:
        """(B, T, C)."""
        num_parts = len(self._membership)
        self.rows = self.add_weight(name="rows", shape=(input_shape[-1], num_parts), initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=(num_parts,), initializer="zeros")

    def call(self, inputs: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, V)."""
        kernel = ops.matmul(self.rows, self._membership)
        return ops.matmul(inputs, kernel) + ops.matmul(self.bias[None], self._membership)[0]

    def get_config(self) -> dict[str, Any]:
        """For Keras."""
        return {**super().get_config(), "parts": self.parts.tolist()}
