import itertools

import numpy as np
import pytest
import tensorflow as tf

from asr.base.types import Logits
from asr.model.loss import ctc_loss, frames_needed
from asr.recognition.decoding.greedy import collapse


def brute_force(logits, labels):
    """Return minus the log of the summed probability of all alignments."""
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    total = 0.0
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        if collapse(np.array(path))[0].tolist() == labels:
            total += np.exp(sum(log_probs[t, k] for t, k in enumerate(path)))
    return -np.log(total)


@pytest.mark.parametrize("labels", [[1], [2, 1], [1, 1], [2, 2, 1], []])
def test_ctc_loss_equals_the_sum_over_all_alignments(labels):
    logits = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    # two frames of padding, and labels padded with a valid label
    values = np.concatenate([logits, 9 * np.ones((2, 3), np.float32)])[None]
    padded = np.array([[*labels, 2, 2]], np.int32)
    loss = ctc_loss(Logits(values, np.array([5], np.int32)), padded, np.array([len(labels)], np.int32))
    np.testing.assert_allclose(loss[0], brute_force(logits, labels), rtol=1e-4)


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


@pytest.mark.parametrize(("labels", "expected"), [([], 0), ([5], 1), ([1, 2, 1], 3), ([1, 1, 1], 5)])
def test_repeated_labels_need_a_frame_between_them(labels, expected):
    assert frames_needed(labels) == expected
