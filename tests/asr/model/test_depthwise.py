import keras
import numpy as np
import pytest
import tensorflow as tf

from asr.model.networks.depthwise import DepthwiseConv1D


def outputs_and_gradients(layer, inputs, upstream):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs, training=True) if isinstance(layer, DepthwiseConv1D) else layer(inputs)
        target = tf.reduce_sum(outputs * upstream)
    return outputs, *tape.gradient(target, [inputs, layer.kernel.value])


# frames fewer than the filter, as many, and more; a filter of one frame, and an even one
@pytest.mark.parametrize(("num_frames", "size"), [(2, 5), (5, 5), (40, 19), (7, 1), (30, 4)])
def test_training_computes_what_keras_computes_with_its_gradients(num_frames, size):
    rng = np.random.default_rng(size)
    inputs, upstream = (tf.constant(rng.normal(size=(3, num_frames, 6)).astype(np.float32)) for _ in range(2))
    ours, keras_own = (
        DepthwiseConv1D(size),
        keras.layers.DepthwiseConv1D(size, padding="same", use_bias=False),
    )
    ours(inputs), keras_own(inputs)
    keras_own.set_weights(ours.get_weights())
    made, expected = (outputs_and_gradients(layer, inputs, upstream) for layer in (ours, keras_own))
    np.testing.assert_array_equal(made[0], expected[0])
    for gradient, expected_gradient in zip(made[1:], expected[1:], strict=True):
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-5)


def test_gradients_agree_with_finite_differences():
    rng = np.random.default_rng(0)
    layer = DepthwiseConv1D(3, dtype="float64")
    inputs, upstream = (tf.constant(rng.normal(size=(2, 5, 2))) for _ in range(2))
    layer(inputs)
    kernel = layer.kernel.numpy()

    def loss(kernel):
        layer.kernel.assign(kernel)
        return float(tf.reduce_sum(layer(inputs) * upstream))

    _, _, gradient = outputs_and_gradients(layer, inputs, upstream)
    for place in np.ndindex(kernel.shape):
        step = np.zeros_like(kernel)
        step[place] = 1e-6
        numeric = (loss(kernel + step) - loss(kernel - step)) / 2e-6
        np.testing.assert_allclose(gradient[place], numeric, rtol=1e-6)


def test_16_bits_stay_16_bits_and_the_weights_get_gradients_of_32():
    layer = DepthwiseConv1D(5, dtype="mixed_bfloat16")
    inputs = tf.ones((2, 8, 4), tf.bfloat16)
    layer(inputs)
    outputs, of_inputs, of_kernel = outputs_and_gradients(layer, inputs, tf.ones((2, 8, 4), tf.bfloat16))
    assert outputs.dtype == of_inputs.dtype == tf.bfloat16
    assert of_kernel.dtype == tf.float32
    np.testing.assert_allclose(of_kernel[:, 0, 0], [12, 14, 16, 14, 12])


def test_a_saved_layer_is_loaded_with_its_weights(tmp_path):
    model = keras.Sequential([keras.Input((None, 3)), DepthwiseConv1D(5, name="depthwise")])
    model.save(tmp_path / "model.keras")
    inputs = np.random.default_rng(0).normal(size=(1, 9, 3)).astype(np.float32)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), model(inputs))
