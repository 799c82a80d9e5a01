"""Connectionist temporal classification (Graves et al., 2006)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from asr.types import Logits, Tensor
from asr.vocabulary import BLANK_ID


def ctc_loss(logits: Logits, labels: Tensor, num_labels: Tensor) -> Tensor:
    """Negative log probability of each label sequence, natural logarithm.

    Labels go in sparse: TensorFlow's dense path costs ten times as much. A sequence that does not fit
    its frames has no alignment; its loss here is 0, and so is its gradient, so that it never turns a
    batch into infinity.

    Args:
        logits: (B, T, V) values and (B,) frames.
        labels: (B, U) int32, padded with anything.
        num_labels: (B,) int32.

    Returns:
        (B,) float32.
    """
    repeats = tf.cast(
        (labels[:, 1:] == labels[:, :-1]) & tf.sequence_mask(num_labels - 1, tf.shape(labels)[1] - 1),
        tf.int32,
    )
    fits = num_labels + tf.reduce_sum(repeats, axis=1) <= logits.num_frames
    kept = tf.sequence_mask(tf.where(fits, num_labels, 0), tf.shape(labels)[1])
    sparse = tf.SparseTensor(tf.where(kept), labels[kept], tf.shape(labels, tf.int64))
    losses = tf.nn.ctc_loss(
        labels=sparse,
        logits=logits.values,
        label_length=None,
        logit_length=tf.maximum(logits.num_frames, 1),
        logits_time_major=False,
        blank_index=BLANK_ID,
    )
    return tf.where(fits, losses, 0.0)


def frames_needed(labels: npt.ArrayLike) -> int:
    """Frames without which CTC has no alignment: one for each label, one more between equal neighbours."""
    ids: npt.NDArray[Any] = np.asarray(labels)
    return len(ids) + int(np.sum(ids[1:] == ids[:-1]))
