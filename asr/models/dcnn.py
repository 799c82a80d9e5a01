"""ASRT's deep convolutional networks: 3x3 convolutions over spectrograms, three or four 2x2 poolings.

Written from the published layer tables of ASRT (github.com/nl8590687/ASRT_SpeechRecognition).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from asr.features import padding_mask
from asr.models.layers import MaskedBatchNorm
from asr.types import Logits, Tensor


class Stage(NamedTuple):
    """Convolutions of one width, and whether a 2x2 pooling follows them."""

    channels: int
    num_convolutions: int
    pooled: bool


class Recipe(NamedTuple):
    """A member of the family."""

    stages: tuple[Stage, ...]
    dense_units: int
    batch_norm: bool
    dropouts: tuple[float, ...]  # one for each stage, one for the dense layer


DEEP = (Stage(32, 2, True), Stage(64, 2, True), Stage(128, 2, True), Stage(128, 2, False), Stage(128, 2, False))
FLAT = (Stage(32, 2, True), Stage(64, 2, True), Stage(128, 2, True), Stage(128, 2, False))
