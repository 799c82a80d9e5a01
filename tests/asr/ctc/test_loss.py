import itertools

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from asr.base.types import Logits
from asr.ctc import forward_backward
from asr.ctc.forced_alignment import frames_needed
from asr.ctc.greedy import collapse
from asr.ctc.loss import PRIOR_STD, ctc_loss


def brute_force(logits, labels):
    """Return minus the log of the summed probability of all alignments."""
    log_probs = log_softmax(logits, axis=-1)
    total = 0.0
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        if collapse(np.array(path))[0].tolist() == labels:
            total += np.exp(sum(log_probs[t, k] for t, k in enumerate(path)))
    return -np.log(total)


def reference(logits, labels):
    """Return the loss of one row and its gradient, in double precision, state by state."""
    log_probs = log_softmax(logits.astype(np.float64), axis=-1)
    states = [0]
    for label in labels:
        states += [int(label), 0]
    skip = [s >= 2 and states[s] != 0 and states[s] != states[s - 2] for s in range(len(states))]

    def sums(log_probs, states, skip):
        """Return the sum over the beginnings of all alignments that end in each state of each frame."""
        table = np.full((len(log_probs), len(states)), -np.inf)
        table[0, :2] = log_probs[0, states[:2]]
        for t in range(1, len(log_probs)):
            for s in range(len(states)):
                before = [table[t - 1, s]] + [table[t - 1, s - 1]] * (s > 0) + [table[t - 1, s - 2]] * skip[s]
                table[t, s] = np.logaddexp.reduce(before) + log_probs[t, states[s]]
        return table

    forward = sums(log_probs, states, skip)
    backward = sums(log_probs[::-1], states[::-1], [False, False, *skip[:1:-1]])[::-1, ::-1]
    log_likelihood = np.logaddexp.reduce(forward[-1, -2:])
    gradient = np.exp(log_probs)
    for s, label in enumerate(states):
        gradient[:, label] -= np.exp(forward[:, s] + backward[:, s] - log_probs[:, label] - log_likelihood)
    return -log_likelihood, gradient


def loss_and_gradient(values, num_frames, labels, num_labels, loss_of=ctc_loss):
    values = tf.constant(values)
    with tf.GradientTape() as tape:
        tape.watch(values)
        loss = loss_of(Logits(values, tf.constant(num_frames)), tf.constant(labels), tf.constant(num_labels))
    return loss.numpy(), tape.gradient(loss, values).numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("labels", [[1], [2, 1], [1, 1], [2, 2, 1], []])
def test_ctc_loss_equals_the_sum_over_all_alignments(labels, dtype):
    logits = np.random.default_rng(0).normal(size=(5, 3)).astype(dtype)
    # two frames of padding, and labels padded with a valid label and with none
    values = np.concatenate([logits, 9 * np.ones((2, 3), dtype)])[None]
    padded = np.array([[*labels, 2, -1]], np.int32)
    loss = ctc_loss(Logits(values, np.array([5], np.int32)), padded, np.array([len(labels)], np.int32))
    assert loss.dtype == dtype
    np.testing.assert_allclose(
        loss[0], brute_force(logits, labels), rtol=3e-6 if dtype == np.float32 else 1e-12
    )


def test_even_spread_weighs_every_alignment_by_the_places_of_its_labels():
    rng, labels, num_frames, prior_weight = np.random.default_rng(4), [2, 1, 1], 6, 0.7
    logits = rng.normal(size=(num_frames, 3))
    log_probs, total = log_softmax(logits, axis=-1), 0.0
    for path in itertools.product(range(3), repeat=num_frames):
        if collapse(np.array(path))[0].tolist() != labels:
            continue
        score, index = 0.0, -1
        for frame, output in enumerate(path):
            index += output != 0 and (frame == 0 or path[frame - 1] != output)
            score += log_probs[frame, output]
            if output:
                apart = (frame + 0.5) / num_frames - (index + 0.5) / len(labels)
                score -= prior_weight * (apart / PRIOR_STD) ** 2 / 2
        total += np.exp(score)
    values = np.concatenate([logits, 9 * np.ones((2, 3))])[None]
    row = (
        Logits(values, np.array([num_frames], np.int32)),
        np.array([[*labels, 2]], np.int32),
        np.array([3], np.int32),
    )
    np.testing.assert_allclose(
        ctc_loss(*row, prior_weight=tf.constant(prior_weight)), [-np.log(total)], rtol=1e-6
    )
    np.testing.assert_array_equal(ctc_loss(*row, prior_weight=tf.constant(0.0)), ctc_loss(*row))


@pytest.mark.parametrize("prior_weight", [0.0, 0.7])
def test_gradient_in_double_precision_equals_the_slope_of_the_loss(prior_weight):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(3, 7, 5))
    num_frames, num_labels = np.array([7, 6, 4], np.int32), np.array([3, 0, 2], np.int32)
    labels = np.array([[2, 2, 4], [1, 1, 1], [3, 1, 0]], np.int32)
    weights = np.array([0.3, 2.0, -1.0])

    def weighted(values):
        return np.sum(weights * ctc_loss(Logits(values, num_frames), labels, num_labels, prior_weight))

    tensor = tf.constant(values)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        total = tf.reduce_sum(
            weights * ctc_loss(Logits(tensor, num_frames), labels, num_labels, prior_weight)
        )
    gradient = tape.gradient(total, tensor).numpy()
    step = 1e-5
    for _ in range(20):
        direction = rng.normal(size=values.shape)
        slope = (weighted(values + step * direction) - weighted(values - step * direction)) / (2 * step)
        np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-7)


def rows_of_clips(rng, num_rows, num_frames, num_outputs, num_labels, scale):
    frames = rng.integers(num_frames * 3 // 4, num_frames + 1, num_rows).astype(np.int32)
    lengths = rng.integers(num_labels // 2, num_labels + 1, num_rows).astype(np.int32)
    values = rng.normal(0, scale, (num_rows, num_frames, num_outputs)).astype(np.float32)
    return values, frames, rng.integers(1, num_outputs, (num_rows, num_labels)).astype(np.int32), lengths


# the last is what an untrained dcnn network gives: TensorFlow's loss of it is infinite
@pytest.mark.parametrize(("num_frames", "scale"), [(50, 1.0), (700, 1.0), (700, 200.0)])
def test_float32_keeps_its_precision_over_long_clips_and_large_logits(num_frames, scale):
    values, frames, labels, lengths = rows_of_clips(np.random.default_rng(1), 2, num_frames, 12, 9, scale)
    loss, gradient = loss_and_gradient(values, frames, labels, lengths)
    for row, (n, u) in enumerate(zip(frames, lengths, strict=True)):
        expected_loss, expected_gradient = reference(values[row, :n], labels[row, :u])
        np.testing.assert_allclose(loss[row], expected_loss, rtol=1e-6)
        np.testing.assert_allclose(gradient[row, :n], expected_gradient, atol=1e-4)
        assert not gradient[row, n:].any()


def test_clip_of_3000_frames_has_a_finite_loss_whose_gradient_sums_to_0_in_each_frame():
    values, frames, labels, lengths = rows_of_clips(np.random.default_rng(2), 2, 3000, 30, 200, 1000.0)
    loss, gradient = loss_and_gradient(values, frames, labels, lengths)
    assert np.isfinite(loss).all()
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient.sum(axis=-1), 0, atol=1e-5)
    assert np.abs(gradient).max() > 0.5


@pytest.mark.parametrize("compiled", [False, True])
def test_loss_equals_that_of_tensorflow(compiled):
    def peer(logits, labels, num_labels):
        kept = tf.sequence_mask(num_labels, labels.shape[1])
        return tf.nn.ctc_loss(
            labels=tf.SparseTensor(tf.where(kept), labels[kept], tf.shape(labels, tf.int64)),
            logits=logits.values,
            label_length=None,
            logit_length=logits.num_frames,
            logits_time_major=False,
            blank_index=0,
        )

    ours = tf.function(ctc_loss, jit_compile=True, autograph=False) if compiled else ctc_loss
    clips = rows_of_clips(np.random.default_rng(4), 5, 40, 30, 8, 1.0)
    loss, gradient = loss_and_gradient(*clips, loss_of=ours)
    peer_loss, peer_gradient = loss_and_gradient(*clips, loss_of=peer)
    np.testing.assert_allclose(loss, peer_loss, rtol=1e-5)
    np.testing.assert_allclose(gradient, peer_gradient, atol=1e-4)


def test_rows_frames_and_labels_of_padding_change_nothing():
    values, frames, labels, lengths = rows_of_clips(np.random.default_rng(5), 3, 20, 6, 5, 1.0)
    loss, gradient = loss_and_gradient(values, frames, labels, lengths)
    # beyond the shapes that the recursion was compiled for above
    longer = np.pad(values, [(0, 9), (0, 70), (0, 0)], constant_values=7)
    padded = [
        np.pad(frames, (0, 9)),
        np.pad(labels, [(0, 9), (0, 6)], constant_values=3),
        np.pad(lengths, (0, 9)),
    ]
    padded_loss, padded_gradient = loss_and_gradient(longer, *padded)
    np.testing.assert_allclose(padded_loss[:3], loss, rtol=1e-6)
    np.testing.assert_allclose(padded_gradient[:3, :20], gradient, atol=1e-6)
    assert not padded_loss[3:].any()
    assert not padded_gradient[3:].any()
    assert not padded_gradient[:, 20:].any()


def test_batches_of_like_shapes_share_what_xla_compiles():
    shapes = {
        tuple(forward_backward._rounded_up(tf.constant([rows, frames, labels])).numpy())
        for rows in range(9, 17)
        for frames in range(30, 65, 5)
        for labels in range(1, 9)
    }
    assert shapes == {(16, 64, 8)}


def test_labels_that_do_not_fit_have_zero_loss_and_gradient():
    values = tf.Variable(np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32))
    labels = tf.constant([[1, 1, 2], [3, 2, 0]])  # 1 1 2 needs four frames
    with tf.GradientTape() as tape:
        loss = ctc_loss(Logits(values, tf.constant([3, 3])), labels, tf.constant([3, 2]))
    gradient = tape.gradient(loss, values).numpy()
    assert loss[0] == 0
    assert loss[1] > 0
    assert not gradient[0].any()
    assert gradient[1].any()
    assert np.isfinite(gradient).all()


def test_loss_of_logits_that_are_no_numbers_is_none_either():
    values = np.zeros((2, 4, 3), np.float32)
    values[1, 2, 1] = np.nan
    loss, _ = loss_and_gradient(
        values, np.full(2, 4, np.int32), np.ones((2, 1), np.int32), np.ones(2, np.int32)
    )
    assert np.isfinite(loss[0])
    assert np.isnan(loss[1])


@pytest.mark.parametrize(("labels", "expected"), [([], 0), ([5], 1), ([1, 2, 1], 3), ([1, 1, 1], 5)])
def test_repeated_labels_need_a_frame_between_them(labels, expected):
    assert frames_needed(labels) == expected
