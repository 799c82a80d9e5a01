"""Prepare an acoustic model for graphs that strangers call: clips of any length, variables that are saved."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from asr.base.types import Logits, Tensor
from asr.model.acoustic_model import AcousticModel
from asr.model.features.layer import WINDOW

# what TensorFlow makes of the operating system's errors
FILE_ERRORS = {
    tf.errors.ResourceExhaustedError: errno.ENOSPC,
    tf.errors.OutOfRangeError: errno.EFBIG,
    tf.errors.PermissionDeniedError: errno.EACCES,
}


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


def save_with_signatures(module: Any, folder: Path, signatures: Mapping[str, Any]) -> None:
    """Save a module as a SavedModel.

    Raises:
        OSError: it cannot be written; TensorFlow has errors of its own about files.
    """
    try:
        tf.saved_model.save(module, str(folder), signatures=dict(signatures))
    except tf.errors.OpError as error:
        code = FILE_ERRORS.get(type(error))
        raise OSError(code or errno.EIO, os.strerror(code) if code else error.message, str(folder)) from error
