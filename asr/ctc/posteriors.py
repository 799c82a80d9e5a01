"""Turn logits into posteriors of labels, in TensorFlow or NumPy.

SciPy's `log_softmax` does the same, but its import takes longer than a short clip.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from asr.base.types import Logits, Tensor


def log_posteriors(logits: Logits) -> tuple[Tensor, Tensor]:
    """Return the natural logarithm of the posteriors, (B, T, V), and the number of frames of each row.

    Tensors give tensors, in the graph; arrays give arrays.
    """
    values, num_frames = logits
    if isinstance(values, np.ndarray):
        return log_softmax(values), num_frames
    import tensorflow as tf

    return tf.nn.log_softmax(values), num_frames


def log_softmax(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the natural logarithm of the softmax over the last axis: (..., V) -> (..., V)."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    normalized: npt.NDArray[Any] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return normalized
