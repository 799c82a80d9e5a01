"""Sum over the alignments of CTC by the forward and backward recursions of Graves et al. (2006).

They need only the scores of each row's own labels, (B, T, U), a small part of the logits. XLA compiles
them for each shape that it meets, which takes about a second: shapes are rounded up, so that training meets
few of them.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import tensorflow as tf

from asr.base.types import Tensor

IMPOSSIBLE = -1e30  # the logarithm of probability 0: finite, since a difference of infinities is NaN
SMALLEST_SHAPE = (8, 64, 8)  # of rows, frames and labels
SIZES = [2**power for power in range(3, 25)]


class AlignmentSums(NamedTuple):
    """What the alignments of each row sum to.

    Attributes:
        scores: (B,) natural logarithm of the sum over all alignments of the product of their frames' scores,
            where blanks score 1.
        shares: (B, T, 1 + U) of each frame: the share of this sum that emits the blank, or each label, there;
            meaningless in padding and in rows that do not fit.
    """

    scores: Tensor
    shares: Tensor


def alignment_sums(
    label_scores: Tensor, labels: Tensor, num_labels: Tensor, num_frames: Tensor
) -> AlignmentSums:
    """Sum over the alignments of each row, whose labels must fit its frames.

    The states of a frame are divided by their largest one, and its shares are normalized to sum to 1: neither
    the length of a clip nor the size of its logits costs precision.

    Args:
        label_scores: (B, T, U) floating-point logit of each label less the blank's; padding is ignored.
        labels: (B, U) int32; padding is ignored.
        num_labels: (B,) int32.
        num_frames: (B,) int32.
    """
    shape = tf.shape(label_scores)
    padding = _rounded_up(shape) - shape
    after = tf.stack([tf.zeros_like(padding), padding], axis=1)
    lengths = tf.pad(tf.stack([num_labels, num_frames]), [[0, 0], [0, padding[0]]])
    scores, shares = _compiled_sums(
        tf.pad(label_scores, after), tf.pad(labels, tf.gather(after, [0, 2])), lengths[0], lengths[1]
    )
    rows, frames, columns = tf.unstack(shape)
    return AlignmentSums(scores[:rows], shares[:rows, :frames, : 1 + columns])


def _rounded_up(shape: Tensor) -> Tensor:
    """Return the least powers of two that are not smaller than a shape."""
    sizes = tf.constant(SIZES)
    return tf.gather(sizes, tf.searchsorted(sizes, tf.maximum(shape, SMALLEST_SHAPE)))


def _sums(label_scores: Tensor, labels: Tensor, num_labels: Tensor, num_frames: Tensor) -> AlignmentSums:
    """Do what `alignment_sums` says, for a shape that is rounded up."""
    impossible = tf.constant(IMPOSSIBLE, label_scores.dtype)
    num_rows, num_columns = tf.unstack(tf.shape(labels))
    inside = tf.sequence_mask(num_labels, num_columns)
    by_frame = tf.transpose(tf.where(inside[:, None], label_scores, impossible), [1, 0, 2])  # (T, B, U)
    # what going from a label to the next without a blank adds
    skips = tf.where(labels[:, 1:] == labels[:, :-1], impossible, 0)

    # The backward recursion is the forward one on rows whose frames and labels are reversed: both are run as
    # one, on twice as many rows.
    states, scales, history = _recursion(
        tf.concat([by_frame, _reversed(by_frame, num_frames)[..., ::-1]], axis=1),
        tf.concat([skips, skips[:, ::-1]], axis=0),
        tf.concat([tf.zeros_like(num_labels), num_columns - num_labels], axis=0),
        tf.tile(num_frames, [2]),
    )
    last = tf.range(1 + num_columns) == num_labels[:, None]
    ends = tf.where(tf.concat([last, last[:, 1:]], axis=1), states[:num_rows], impossible)
    scores = tf.reduce_logsumexp(ends, axis=1) + scales[:num_rows]

    forward, backward = history[:, :num_rows], _reversed(history[:, num_rows:], num_frames)
    blanks = forward[..., : 1 + num_columns] + backward[..., num_columns::-1]
    # both directions count the score of the frame itself
    emitted = forward[..., 1 + num_columns :] + backward[..., :num_columns:-1] - by_frame
    shares = tf.nn.softmax(tf.concat([blanks, emitted], axis=2))
    blank_share = tf.reduce_sum(shares[..., : 1 + num_columns], axis=2, keepdims=True)
    shares = tf.concat([blank_share, shares[..., 1 + num_columns :]], axis=2)
    return AlignmentSums(scores, tf.transpose(shares, [1, 0, 2]))


_compiled_sums = tf.function(_sums, jit_compile=True, autograph=False)


def _recursion(
    scores: Tensor, skips: Tensor, first: Tensor, num_frames: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the forward recursion.

    The states of a row, (1 + 2 U,), hold logarithms of the sums over the alignments that end there: first in
    the blank before each label and in the one after the last, then in each label.

    Args:
        scores: (T, R, U) of the labels; blanks score 0.
        skips: (R, U - 1) 0 where a label may follow the one before it without a blank, else impossible.
        first: (R,) the blank in which a row starts.
        num_frames: (R,).

    Returns:
        The states after each row's last frame, (R, 1 + 2 U); the logarithms by which they were divided, (R,);
        the states after each frame, (T, R, 1 + 2 U).
    """
    num_padded_frames, num_rows, num_columns = tf.unstack(tf.shape(scores))
    impossible = tf.constant(IMPOSSIBLE, scores.dtype)
    edge = tf.fill([num_rows, 1], impossible)
    skips = tf.concat([edge, skips], axis=1)
    longest = tf.reduce_max(num_frames)

    def step(frame: Tensor, states: Tensor, scales: Tensor, history: Any) -> tuple[Any, ...]:
        blanks, labels = states[:, : 1 + num_columns], states[:, 1 + num_columns :]
        previous = tf.concat([edge, labels], axis=1)  # the label before each blank
        to_blanks = _log_of_sum(blanks, previous)
        to_labels = _log_of_sum(labels, blanks[:, :-1], previous[:, :-1] + skips) + scores[frame]
        reached = tf.concat([to_blanks, to_labels], axis=1)
        scale = tf.reduce_max(reached, axis=1)
        inside = frame < num_frames
        states = tf.where(inside[:, None], reached - scale[:, None], states)
        scales += tf.where(inside, scale, 0)
        return frame + 1, states, scales, history.write(frame, states)

    start = tf.where(tf.range(1 + num_columns) == first[:, None], tf.zeros_like(impossible), impossible)
    states = tf.concat([start, tf.fill([num_rows, num_columns], impossible)], axis=1)
    history = tf.TensorArray(scores.dtype, num_padded_frames, element_shape=[None, None])
    _, states, scales, history = tf.while_loop(
        lambda frame, *_: frame < longest,
        step,
        (0, states, tf.zeros([num_rows], scores.dtype), history),
    )
    return states, scales, history.stack()


def _log_of_sum(*logarithms: Tensor) -> Tensor:
    """Return the logarithm of a sum whose terms are given by their logarithms."""
    largest = functools.reduce(tf.maximum, logarithms)
    return largest + tf.math.log(tf.add_n([tf.exp(logarithm - largest) for logarithm in logarithms]))


def _reversed(values: Tensor, num_frames: Tensor) -> Tensor:
    """Return values, (T, B, ...), with the frames of each row reversed, and its padding where it was."""
    return tf.reverse_sequence(values, num_frames, seq_axis=0, batch_axis=1)
