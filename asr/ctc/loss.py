"""Compute the loss of connectionist temporal classification (CTC; Graves et al., 2006) and its gradient."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from asr.base.types import Logits, Tensor
from asr.base.vocabulary import BLANK_ID
from asr.ctc.forward_backward import alignment_sums

PRIOR_STD = 0.2  # share of the clip


def ctc_loss(
    logits: Logits, labels: Tensor, num_labels: Tensor, prior_weight: Tensor | None = None
) -> Tensor:
    """Return the negative natural log probability of each label sequence.

    A sequence that does not fit its frames has no alignment; its loss and gradient are set to 0, so that the
    batch's loss remains finite. Everything is computed on the device of the logits.

    Args:
        logits: (B, T, V) values, float32 or float64, and (B,) frames.
        labels: (B, U) int32; padding is ignored.
        num_labels: (B,) int32.
        prior_weight: () float32, weight of `uniform_alignment_prior`, by which alignments count more whose
            labels are spread evenly over their clip. None for the plain loss.

    Returns:
        (B,) of the logits' type.
    """
    values = tf.convert_to_tensor(logits.values)
    labels, num_labels = tf.convert_to_tensor(labels), tf.convert_to_tensor(num_labels)
    num_frames = tf.convert_to_tensor(logits.num_frames)

    @tf.custom_gradient
    def losses_of(values: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        # stopped: an eager tape would differentiate the compiled loop, which XLA refuses
        return _losses_and_gradient(tf.stop_gradient(values), num_frames, labels, num_labels, prior_weight)

    return losses_of(values)


def _losses_and_gradient(
    values: Tensor, num_frames: Tensor, labels: Tensor, num_labels: Tensor, prior_weight: Tensor | None
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return the losses, (B,), and a function from their gradient to that of the logits, (B, T, V)."""
    _, num_padded_frames, num_outputs = tf.unstack(tf.shape(values))
    is_label = tf.sequence_mask(num_labels, tf.shape(labels)[1])
    repeats = tf.reduce_sum(tf.cast((labels[:, 1:] == labels[:, :-1]) & is_label[:, 1:], tf.int32), axis=1)
    fits = num_labels + repeats <= num_frames
    labels = tf.where(is_label, labels, BLANK_ID)
    blanks = values[..., BLANK_ID]
    label_scores = tf.gather(values, labels, axis=2, batch_dims=1) - blanks[..., None]
    if prior_weight is not None:
        spread = uniform_alignment_prior(num_frames, num_labels, num_padded_frames, tf.shape(labels)[1])
        label_scores += tf.cast(prior_weight * spread, values.dtype)
    sums = alignment_sums(label_scores, labels, num_labels, num_frames)

    probabilities = tf.nn.softmax(values)
    # logarithm of the sum over the outputs, without a second pass of exponentials
    normalizers = tf.reduce_max(values, -1) - tf.math.log(tf.reduce_max(probabilities, -1))
    inside = tf.sequence_mask(num_frames, num_padded_frames)
    log_likelihoods = sums.scores + tf.reduce_sum(tf.where(inside, blanks - normalizers, 0), axis=1)

    def gradient(upstream: Tensor) -> Tensor:
        """Return the outputs' probabilities less their shares of the alignments, weighted by `upstream`."""
        weights = tf.where(inside & fits[:, None], upstream[:, None], 0)[..., None]
        outputs = tf.one_hot(
            tf.pad(labels, [[0, 0], [1, 0]], constant_values=BLANK_ID), num_outputs, dtype=values.dtype
        )
        return weights * probabilities - tf.matmul(weights * sums.shares, outputs)

    return tf.where(fits, -log_likelihoods, 0), gradient


def uniform_alignment_prior(
    num_frames: Tensor, num_labels: Tensor, num_padded_frames: Tensor, num_columns: Tensor
) -> Tensor:
    """Return a prior of each label's frame, (B, T, U) float32: 0 at the label's own time, less elsewhere.

    The times of a clip's labels are spread evenly over its frames. The prior is the natural logarithm of a
    normal distribution around each of them, with a top of 1 and a standard deviation of PRIOR_STD.

    Args:
        num_frames: (B,) int32.
        num_labels: (B,) int32.
        num_padded_frames: () int32, T.
        num_columns: () int32, U.
    """
    frames, columns = _middles(num_frames, num_padded_frames), _middles(num_labels, num_columns)
    return -tf.square((frames[..., None] - columns[:, None]) / PRIOR_STD) / 2


def _middles(count: Tensor, num_padded: Tensor) -> Tensor:
    """Return the middle of each of `count` equal parts of a clip, (B, num_padded), as shares of the clip."""
    middles = tf.range(tf.cast(num_padded, tf.float32)) + 0.5
    return middles / tf.maximum(tf.cast(count, tf.float32), 1.0)[:, None]
