"""Compute the loss of connectionist temporal classification (CTC; Graves et al., 2006)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from asr.base.types import Logits, Tensor
from asr.base.vocabulary import BLANK_ID


def ctc_loss(logits: Logits, labels: Tensor, num_labels: Tensor) -> Tensor:
    """Return the negative natural log probability of each label sequence.

    Labels are passed as a sparse tensor: TensorFlow's dense path takes ten times as long. A sequence that
    does not fit its frames has no alignment; its loss and gradient are set to 0, so that the batch's loss
    remains finite.

    Args:
        logits: (B, T, V) values and (B,) frames.
        labels: (B, U) int32; padding is ignored.
        num_labels: (B,) int32.

    Returns:
        (B,) float32.
    """
    num_columns = tf.shape(labels)[1]
    inside = tf.sequence_mask(num_labels - 1, num_columns - 1)
    repeats = tf.reduce_sum(tf.cast((labels[:, 1:] == labels[:, :-1]) & inside, tf.int32), axis=1)
    fits = num_labels + repeats <= logits.num_frames
    # TensorFlow refuses a row without labels: such a row gets a placeholder label, and its loss is replaced
    needs_label = ~fits | (num_labels == 0)
    labels = tf.where(needs_label[:, None], BLANK_ID + 1, labels)
    kept = tf.sequence_mask(tf.where(needs_label, 1, num_labels), num_columns)
    losses = tf.nn.ctc_loss(
        labels=tf.SparseTensor(tf.where(kept), labels[kept], tf.shape(labels, tf.int64)),
        logits=logits.values,
        label_length=None,
        logit_length=tf.maximum(logits.num_frames, 1),
        logits_time_major=False,
        blank_index=BLANK_ID,
    )
    losses = tf.where(num_labels == 0, _silence_loss(logits), losses)
    return tf.where(fits, losses, 0.0)


def _silence_loss(logits: Logits) -> Tensor:
    """Return the loss, (B,), of an empty label sequence: a blank in every frame."""
    blanks = logits.values[..., BLANK_ID] - tf.reduce_logsumexp(logits.values, axis=-1)  # (B, T)
    return -tf.reduce_sum(
        blanks * tf.sequence_mask(logits.num_frames, tf.shape(blanks)[1], tf.float32), axis=1
    )


def frames_needed(labels: npt.ArrayLike) -> int:
    """Return the frames that CTC needs: one for each label, one more between equal neighbours."""
    ids: npt.NDArray[Any] = np.asarray(labels)
    return len(ids) + int(np.sum(ids[1:] == ids[:-1]))
