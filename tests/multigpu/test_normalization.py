"""Tests of batch statistics: of each tower, or of the whole batch where layers are synchronized."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu import ParallelModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 5)).astype("float32")
Y = RNG.normal(size=(7, 2)).astype("float32")


def make(dtype="float32", **settings):
    return keras.Sequential(
        [
            keras.Input((5,), dtype=dtype),
            keras.layers.Dense(4, use_bias=False, dtype=dtype),  # normalisation removes biases
            keras.layers.BatchNormalization(momentum=0.5, name="norm", dtype=dtype, **settings),
            keras.layers.Dense(2, dtype=dtype),
        ]
    )


def synchronized():
    return make(synchronized=True)


# the variance of two rows is a difference of nearly equal numbers, which enlarges the rounding of float32
@pytest.mark.parametrize("run_eagerly", [False, True])
@pytest.mark.parametrize(("num_rows", "dtype", "rel"), [(7, "float32", 1e-5), (2, "float64", 1e-9)])
def test_synchronized_batch_statistics_equal_one_device(both, num_rows, dtype, rel, run_eagerly):
    models = both(lambda: make(dtype, synchronized=True)).compile(loss="mse", run_eagerly=run_eagerly)
    x, y = X[:num_rows].astype(dtype), Y[:num_rows].astype(dtype)
    models.train(x, y, rel=rel)
    models.train(x, y, rel=rel)


def test_synchronized_batch_statistics_in_a_custom_loop_equal_one_device(both):
    models = both(synchronized)

    def gradients(model):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(X, training=True) - Y) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    for run in (gradients, tf.function(gradients)):
        for a, b in zip(run(models.plain), run(models.parallel), strict=True):
            assert np.allclose(a, b, rtol=1e-4, atol=1e-6)
        for a, b in zip(models.plain.get_weights(), models.parallel.get_weights(), strict=True):
            assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_synchronized_towers_cannot_be_compiled(both):
    models = both(synchronized)
    with pytest.raises(ValueError, match="synchronized layers cannot be compiled"):
        models.parallel.compile("sgd", "mse", jit_compile=True)
    # as loaded from a file that was saved with XLA on
    models.plain.compile("sgd", "mse", jit_compile=True)
    parallel = ParallelModel(models.plain, 3)
    with pytest.warns(UserWarning, match="cannot be compiled by XLA"):
        parallel.train_on_batch(X, Y)


class Wary(keras.layers.Layer):
    """Adds the sum over all towers to its inputs, and has another result if there is an error."""

    def call(self, x):
        try:
            total = tf.distribute.get_replica_context().all_reduce("SUM", tf.reduce_sum(x, 0, keepdims=True))
        except Exception:
            return x
        return x + total


def test_layer_that_catches_errors_gets_sums_over_all_towers():
    inner = keras.Sequential([keras.Input((5,)), Wary()])
    outputs = ParallelModel(inner, 3)(X).numpy()
    assert np.allclose(outputs, X + X.sum(0), atol=1e-4)


def test_towers_normalize_their_own_rows_and_average_moving_statistics():
    inner = keras.Sequential([keras.Input((5,)), keras.layers.BatchNormalization(momentum=0.5, epsilon=1e-6)])
    outputs = ParallelModel(inner, 3)(X, training=True).numpy()
    shares = [X[:3], X[3:5], X[5:]]
    for own, share in zip(np.split(outputs, [3, 5]), shares, strict=True):
        assert np.allclose(own, (share - share.mean(0)) / np.sqrt(share.var(0) + 1e-6), atol=1e-3)
    weights = np.array([3, 2, 2]) / 7
    mean = sum(w * share.mean(0) for w, share in zip(weights, shares, strict=True))
    variance = sum(w * share.var(0) for w, share in zip(weights, shares, strict=True))
    assert np.allclose(inner.layers[0].moving_mean, 0.5 * mean, rtol=1e-4, atol=1e-6)
    assert np.allclose(inner.layers[0].moving_variance, 0.5 + 0.5 * variance, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_batch_normalization_of_one_row_on_three_devices_equals_one_device(both, run_eagerly):
    models = both(make).compile(loss="mse", run_eagerly=run_eagerly)
    models.train(X[:1], Y[:1])
    assert all(np.isfinite(weight).all() for weight in models.parallel.get_weights())
