"""Attention: positions are relative, padding does not count, and blocks of queries change nothing."""

import numpy as np
import pytest
import tensorflow as tf

from asr.model.networks.conformers import attention
from asr.model.networks.conformers.attention import attend, attend_in_blocks, attend_to_clip, rotated

SHAPE = (2, 13, 3, 4)  # clips, frames, heads, channels


def draw(*shape, seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=shape or SHAPE), tf.float32)


@pytest.fixture
def inputs():
    queries, keys, values = (draw(seed=seed) for seed in range(3))
    return queries, keys, values, tf.sequence_mask([13, 9], 13, tf.float32)


def by_hand(queries, keys, values, num_frames):
    """Return the attention of one clip and one head in NumPy, float64."""
    queries, keys, values = (np.asarray(part, np.float64)[:num_frames] for part in (queries, keys, values))
    weights = np.exp(queries @ keys.T)
    return weights / weights.sum(axis=1, keepdims=True) @ values


def test_attention_is_the_mean_of_the_values_weighted_by_the_softmax_of_the_scores(inputs):
    attended = attend(*inputs)
    for clip, num_frames in enumerate([13, 9]):
        for head in range(3):
            expected = by_hand(*(part[clip, :, head] for part in inputs[:3]), num_frames)
            np.testing.assert_allclose(attended[clip, :num_frames, head], expected, rtol=1e-5, atol=1e-5)


def test_what_is_on_padding_does_not_count(inputs):
    queries, keys, values, mask = inputs
    noise = 100 * draw(seed=9) * (1 - mask[..., None, None])
    np.testing.assert_array_equal(
        attend(queries, keys + noise, values + noise, mask)[1, :9], attend(*inputs)[1, :9]
    )


def test_a_clip_of_padding_alone_stays_finite(inputs):
    attended = attend(*inputs[:3], tf.zeros((2, 13)))
    assert np.isfinite(attended).all()


@pytest.mark.parametrize("size", [1, 5, 13, 20])
def test_blocks_of_queries_give_the_same_output_and_gradients(inputs, size):
    *parts, mask = inputs
    upstream = draw(seed=5)

    def outputs_and_gradients(function):
        with tf.GradientTape() as tape:
            tape.watch(parts)
            outputs = function(*parts, mask)
        return [outputs, *tape.gradient(outputs, parts, upstream)]

    at_once = outputs_and_gradients(attend)
    in_blocks = outputs_and_gradients(lambda *values: attend_in_blocks(*values, size=size))
    for ours, theirs in zip(in_blocks, at_once, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_long_clips_are_computed_in_blocks_in_a_graph_as_well(inputs, jit_compile, monkeypatch):
    monkeypatch.setattr(attention, "LONGEST_AT_ONCE", 10)
    blocks = []
    monkeypatch.setattr(
        attention,
        "attend_in_blocks",
        lambda *arguments: blocks.append(1) or attend_in_blocks(*arguments, size=5),
    )
    any_length = None if not jit_compile else 13
    signature = [tf.TensorSpec((None, any_length, 3, 4))] * 3 + [tf.TensorSpec((None, any_length))]

    @tf.function(input_signature=signature, jit_compile=jit_compile)
    def gradients(queries, keys, values, mask):
        outputs = attend_to_clip(queries, keys, values, mask)
        return outputs, *tf.gradients(outputs, [queries, keys, values])

    long = gradients(*inputs)
    assert blocks
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = attend(*inputs)
    for ours, theirs in zip(long, [outputs, *tape.gradient(outputs, inputs[:3])], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    if not jit_compile:
        short = [part[:, :7] for part in inputs]
        np.testing.assert_allclose(gradients(*short)[0], attend(*short), rtol=1e-5, atol=1e-6)


def test_products_of_rotated_frames_depend_on_their_distance_alone():
    query, key = draw(1, 1, 3, 8, seed=1), draw(1, 1, 3, 8, seed=2)
    queries, keys = rotated(tf.repeat(query, 50, axis=1)), rotated(tf.repeat(key, 50, axis=1))
    products = tf.einsum("bqhd,bkhd->qkh", queries, keys).numpy()
    for distance in (0, 1, 17, -17):
        at_distance = np.stack([products[place, place + distance] for place in range(17, 33)])
        np.testing.assert_allclose(at_distance, at_distance[:1].repeat(16, axis=0), atol=1e-4)
    assert np.abs(products[20, 21] - products[20, 24]).max() > 0.1
