"""Prepare an acoustic model for graphs that strangers call: clips of any length, variables that are saved."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from asr.base.types import Logits, Tensor
from asr.model.acoustic_model import AcousticModel
from asr.model.features.layer import WINDOW


def logits_of(model: AcousticModel, audio: Tensor, num_samples: Tensor) -> Logits:
    """Return the logits of clips, also of those that are too short for a frame.

    Args:
        model: the model.
        audio: (B, S) samples on the int16 scale, of any number type.
        num_samples: (B,) int32, at most S; a clip of fewer than 400 samples has no frame.
    """
    if audio.shape[1] is None or audio.shape[1] < WINDOW:
        audio = tf.pad(audio, [[0, 0], [0, tf.maximum(WINDOW - tf.shape(audio)[1], 0)]])
    values, num_frames = model(audio, tf.maximum(num_samples, WINDOW))
    return Logits(values, tf.where(num_samples < WINDOW, 0, num_frames))


def variables_of(model: AcousticModel) -> list[Any]:
    """Return the TensorFlow variables of a model, which an object must hold to be saved with them."""
    return [variable.value for variable in model.variables]
