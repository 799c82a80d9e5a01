"""Tests that losses of every reduction, with weights, masks and regularisers, equal the whole batch's."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu import ParallelModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 5)).astype("float32")
Y = RNG.normal(size=(7, 2)).astype("float32")
TOKENS = np.array(
    [[1, 2, 3, 4], [5, 0, 0, 0], [6, 7, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0], [2, 3, 4, 5]]
)
TAGS = RNG.normal(size=(7, 4, 2)).astype("float32")
REDUCTIONS = ["sum", "mean", "sum_over_batch_size", "mean_with_sample_weight"]


def dense(*layers):
    return keras.Sequential([keras.Input((5,)), *(layer() for layer in layers), keras.layers.Dense(2)])


def tagger(activity_regularizer=None):
    """Return a model with an output for each token, masked at padding."""
    tokens = keras.Input((4,), dtype="int32")
    x = keras.layers.Embedding(9, 3, mask_zero=True)(tokens)
    x = keras.layers.SimpleRNN(3, return_sequences=True, unroll=True)(x)
    return keras.Model(tokens, keras.layers.Dense(2, activity_regularizer=activity_regularizer)(x))


def mse(reduction):
    return keras.losses.MeanSquaredError(reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weights", [None, np.array([0.0, 0, 0, 3, 1, 0.5, 2])])
def test_every_reduction_with_sample_weights_equals_one_device(both, reduction, weights):
    models = both(dense).compile(loss=mse(reduction), weighted_metrics=["mae"], run_eagerly=True)
    models.train(X, Y, sample_weight=weights)
    assert models.parallel.evaluate(X, Y, sample_weight=weights, verbose=0) == pytest.approx(
        models.plain.evaluate(X, Y, sample_weight=weights, verbose=0), rel=1e-5
    )


@pytest.mark.parametrize("num_rows", [1, 2])
def test_sum_reduction_with_fewer_rows_than_devices_equals_one_device(both, num_rows):
    both(dense).compile(loss=mse("sum"), run_eagerly=True).train(X[:num_rows], Y[:num_rows])


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weights", [None, RNG.uniform(size=(7, 4)).astype("float32")])
def test_masked_losses_and_metrics_equal_one_device(both, reduction, weights):
    models = both(tagger).compile(
        loss=mse(reduction), metrics=lambda: ["mae"], weighted_metrics=["mse"], run_eagerly=True
    )
    models.train(TOKENS, TAGS, sample_weight=weights)


def test_masked_losses_in_a_compiled_step_equal_one_device(both):
    models = both(lambda: tagger("l2")).compile(loss="mse", metrics=lambda: ["mae"])
    models.train(TOKENS, TAGS)
    one, several = (m.predict(TOKENS, batch_size=4, verbose=0) for m in (models.plain, models.parallel))
    assert np.allclose(one, several, rtol=1e-4, atol=1e-6)


def test_masked_outputs_with_different_reductions_equal_one_device(both):
    def make():
        tokens, features = keras.Input((4,), dtype="int32", name="tokens"), keras.Input((5,), name="features")
        masked = keras.layers.Embedding(9, 3, mask_zero=True)(tokens)
        outputs = [
            keras.layers.Dense(2, name="tags")(masked),
            keras.layers.Dense(2, name="whole", activity_regularizer="l2")(features),
            keras.layers.Dense(2, name="more")(masked),
        ]
        return keras.Model([tokens, features], outputs)

    losses = [mse("mean"), mse("sum"), mse("mean_with_sample_weight")]
    models = both(make).compile(loss=losses, loss_weights=[1.0, 0.5, 2.0], run_eagerly=True)
    models.train([TOKENS, X], [TAGS, Y, TAGS])
    models.train([TOKENS[:2], X[:2]], [TAGS[:2], Y[:2], TAGS[:2]])
    assert len(models.parallel.metrics_names) == 4


def test_masked_losses_continue_without_xla(both):
    models = both(lambda: tagger()).compile(loss="mse", jit_compile=True)
    with pytest.warns(UserWarning, match="without"):
        models.train(TOKENS, TAGS)


def test_class_weights_equal_one_device(both):
    labels = np.array([[0], [1], [1], [0], [1], [0], [0]])
    models = both(dense).compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=lambda: ["accuracy"],
        run_eagerly=True,
    )
    models.train(X, labels, class_weight={0: 1.0, 1: 5.0})


class Added(keras.layers.Layer):
    def call(self, x):
        self.add_loss(0.3 * keras.ops.mean(x**2))
        return 2.0 * x


def regularised():
    return dense(
        lambda: keras.layers.Dense(4, kernel_regularizer="l2", activity_regularizer="l1", name="regularised"),
        Added,
    )


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_regularisers_and_added_losses_equal_one_device(both, run_eagerly):
    models = both(regularised).compile(loss=mse("sum"), run_eagerly=run_eagerly)
    models.train(X, Y)
    models.train(X, Y)
    assert models.parallel.evaluate(X, Y, verbose=0) == pytest.approx(
        models.plain.evaluate(X, Y, verbose=0), rel=1e-5
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_custom_loop_sees_each_added_loss_once(both, compiled):
    models = both(regularised).compile(loss="mse")

    def gradients(model, x):
        with tf.GradientTape() as tape:
            predicted = model(x, training=True)
            parts = model.losses
            loss = model.compute_loss(x, tf.constant(Y), predicted)
        return parts, loss, tape.gradient(loss, model.trainable_variables)

    if compiled:
        gradients = tf.function(gradients)
    for _ in range(2):  # no loss of the step before may remain
        (parts, loss, one), (parallel_parts, parallel_loss, several) = (
            gradients(model, tf.constant(X)) for model in (models.plain, models.parallel)
        )
        assert len(parts) == len(parallel_parts) == 3
        assert sorted(map(float, parallel_parts)) == pytest.approx(sorted(map(float, parts)), rel=1e-5)
        assert float(parallel_loss) == pytest.approx(float(loss), rel=1e-5)
        for a, b in zip(one, several, strict=True):
            assert np.allclose(a, b, rtol=1e-4, atol=1e-6)


def test_added_losses_of_synchronized_towers_are_kept(both):
    def make():
        layers = [
            lambda: keras.layers.Dense(4, activity_regularizer="l2", use_bias=False),
            lambda: keras.layers.BatchNormalization(synchronized=True, name="norm"),
            Added,
        ]
        return dense(*layers)

    both(make).compile(loss="mse").train(X, Y)


def test_added_losses_of_synchronized_towers_do_not_leak_between_steps():
    # in eager mode a loss may get the memory address of another layer's loss of the step before

    class Chosen(keras.layers.Layer):
        def call(self, x):
            if self.chosen:
                self.add_loss(keras.ops.mean(x**2))
            return x

    layers = [Chosen() for _ in range(4)]
    for layer in layers:
        layer.chosen = False
    norm = keras.layers.BatchNormalization(synchronized=True, scale=False, center=False)
    parallel = ParallelModel(keras.Sequential([keras.Input((5,)), *layers, norm]), 2)
    parallel.compile("sgd", run_eagerly=True)
    for step in range(8):
        for index, layer in enumerate(layers):
            layer.chosen = index == step % 4
        assert parallel.train_on_batch(X[:6]) == pytest.approx((X[:6] ** 2).mean(), rel=1e-5)
        # Keras identifies a layer's losses by their address
        assert sum(len(layer._loss_ids) for layer in layers) == len(parallel.devices)


def test_added_loss_that_is_not_a_scalar_is_an_error():
    class Rows(keras.layers.Layer):
        def call(self, x):
            self.add_loss(keras.ops.sum(x, axis=1))
            return x

    with pytest.raises(
        ValueError, match=r"add_loss: expected a scalar.* received shape \(3,\).*keras.ops.mean"
    ):
        ParallelModel(dense(Rows), 3)(X)


def test_loss_without_reduction_is_an_error():
    parallel = ParallelModel(dense(), 3)
    parallel.compile("sgd", mse("none"))
    with pytest.raises(ValueError, match=r"expected a scalar loss .* another reduction than 'none'"):
        parallel.train_on_batch(X, Y)


def test_inner_model_evaluated_alone_uses_its_compiled_losses():
    parallel = ParallelModel(dense(), 3)
    parallel.compile("sgd", mse("sum"))
    parallel.train_on_batch(X, Y)
    expected = float(((parallel.inner(X) - Y).numpy() ** 2).mean(axis=1).sum())
    assert parallel.inner.evaluate(X, Y, verbose=0) == pytest.approx(expected, rel=1e-5)
