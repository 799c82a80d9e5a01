"""Tests of training on several devices: Keras's `fit`, random numbers, mixed precision and XLA."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu import ParallelModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 5)).astype("float32")
Y = RNG.normal(size=(7, 2)).astype("float32")


def functional():
    inputs = keras.Input((5,))
    return keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Dense(4, "tanh")(inputs)))


def test_fit_evaluate_and_predict_equal_one_device(both):
    x = RNG.normal(size=(22, 5)).astype("float32")
    y = np.eye(2, dtype="float32")[RNG.integers(0, 2, 22)]
    models = both(functional).compile(
        lambda: keras.optimizers.Adam(0.01), loss="mse", metrics=lambda: ["accuracy"]
    )
    settings = {
        "batch_size": 7,
        "epochs": 3,
        "verbose": 0,
        "validation_split": 0.3,
        "class_weight": {0: 1.0, 1: 3.0},
    }
    histories = []
    for model in (models.plain, models.parallel):
        keras.utils.set_random_seed(2)  # for the order of rows
        histories.append(model.fit(x, y, **settings).history)
    assert set(histories[1]) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    for name, values in histories[0].items():
        assert histories[1][name] == pytest.approx(values, rel=1e-5)
    weights = zip(models.plain.get_weights(), models.parallel.get_weights(), strict=True)
    assert all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in weights)
    one, several = (m.evaluate(x, y, batch_size=5, verbose=0) for m in (models.plain, models.parallel))
    assert several == pytest.approx(one, rel=1e-5)
    one, several = (m.predict(x, batch_size=5, verbose=0) for m in (models.plain, models.parallel))
    assert np.allclose(one, several, rtol=1e-4, atol=1e-6)


def test_dropout_masks_differ_between_towers_and_repeat_under_a_seed():
    def train():
        keras.utils.set_random_seed(3)
        inner = keras.Sequential([keras.Input((50,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
        parallel = ParallelModel(inner, 3)
        parallel.compile("sgd", "mse")
        dropped = keras.Sequential(inner.layers[:1])
        masks = ParallelModel(dropped, 3)(np.ones((6, 50), "float32"), training=True).numpy() > 0
        x = np.ones((7, 50), "float32")
        losses = [parallel.train_on_batch(x, x[:, :1]) for _ in range(3)]
        return masks, losses, inner.get_weights()

    (masks, losses, weights), again = train(), train()
    assert 0.3 < masks.mean() < 0.7
    assert all(not np.array_equal(masks[a], masks[b]) for a in range(6) for b in range(a))
    assert np.array_equal(masks, again[0])
    assert losses == again[1]
    assert len(set(losses)) == 3
    assert all(np.array_equal(a, b) for a, b in zip(weights, again[2], strict=True))


def test_first_tower_draws_the_random_numbers_of_one_device():
    keras.utils.set_random_seed(3)
    layer = keras.layers.GaussianNoise(1.0)
    model = keras.Sequential([keras.Input((4,)), layer])
    state = layer.seed_generator.state.numpy()
    several = ParallelModel(model, 3)(np.zeros((7, 4), "float32"), training=True)
    after = layer.seed_generator.state.numpy()
    layer.seed_generator.state.assign(state)
    one = model(np.zeros((3, 4), "float32"), training=True)
    assert np.array_equal(several[:3], one)
    assert np.array_equal(layer.seed_generator.state.numpy(), after)


def test_random_numbers_without_a_seed_generator_are_an_error():
    class Noise(keras.layers.Layer):
        def call(self, x):
            return x + keras.random.normal(keras.ops.shape(x))

    parallel = ParallelModel(keras.Sequential([keras.Input((5,)), Noise()]), 3)
    with pytest.raises(ValueError, match=r"keras\.random\.SeedGenerator"):
        parallel(X)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_with_loss_scaling_equals_one_device(both, policy):
    def make():
        inputs = keras.Input((5,))
        x = keras.layers.Dense(4, "tanh", dtype=policy)(inputs)
        x = keras.layers.Dense(2, dtype=policy)(x)
        return keras.Model(inputs, keras.layers.Activation("linear", dtype="float32")(x), name="mixed")

    models = both(make)
    for model in (models.plain, models.parallel.inner):
        model.dtype_policy = keras.DTypePolicy(policy)
    models.compile(loss="mse")
    scaled = policy == "mixed_float16"
    assert isinstance(models.parallel.optimizer, keras.optimizers.LossScaleOptimizer) == scaled
    losses = [[m.train_on_batch(X, Y) for _ in range(2)] for m in (models.plain, models.parallel)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)
    assert losses[1][1] < losses[1][0]
    if scaled:  # an overflow leaves the weights unchanged and halves the scale
        before, scale = models.parallel.get_weights(), float(models.parallel.optimizer.dynamic_scale)
        models.parallel.train_on_batch(X * 1e30, Y)
        assert float(models.parallel.optimizer.dynamic_scale) == scale / 2
        assert all(np.array_equal(a, b) for a, b in zip(before, models.parallel.get_weights(), strict=True))


def test_mixed_precision_keeps_full_precision_layers_unchanged():
    inner = functional()
    inner.dtype_policy = keras.DTypePolicy("mixed_float16")
    expected = inner(X)
    assert expected.dtype == tf.float32
    assert np.allclose(ParallelModel(inner, 3)(X), expected, rtol=1e-5, atol=1e-6)


def test_gradient_accumulation_over_steps_equals_one_device(both):
    models = both(functional).compile(
        lambda: keras.optimizers.SGD(0.5, momentum=0.9, gradient_accumulation_steps=2),
        loss="mse",
        run_eagerly=True,
    )
    x, y = np.concatenate([X, 2 * X]), np.concatenate([Y, Y])
    for model in (models.plain, models.parallel):
        model.fit(x, y, batch_size=7, epochs=2, shuffle=False, verbose=0)
    for a, b in zip(models.plain.get_weights(), models.parallel.get_weights(), strict=True):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_several_steps_per_execution_equal_one_device(both):
    models = both(functional).compile(loss="mse", steps_per_execution=2)
    x, y = np.concatenate([X] * 3), np.concatenate([Y] * 3)
    losses = [
        m.fit(x, y, batch_size=7, shuffle=False, verbose=0).history["loss"]
        for m in (models.plain, models.parallel)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_xla_compiles_each_tower(both):
    models = both(functional).compile(loss="mse", jit_compile=True)
    models.train(X, Y)
    step = tf.function(lambda: models.parallel.train_step((tf.constant(X), tf.constant(Y))))
    calls = [
        op
        for op in step.get_concrete_function().graph.get_operations()
        if "_XlaMustCompile" in op.node_def.attr and op.node_def.attr["_XlaMustCompile"].b
    ]
    assert sorted(op.device[-5:] for op in calls) == ["CPU:0", "CPU:1", "CPU:2"]


def test_loss_and_gradients_in_a_custom_loop_equal_one_device():
    inner = functional()

    def loss_of(model, x, y):
        predicted = model(x, training=True)
        return tf.reduce_mean((predicted - y) ** 2), {"predicted": predicted}

    with tf.GradientTape() as tape:
        expected, _ = loss_of(inner, X, Y)
    gradients = tape.gradient(expected, inner.trainable_variables)
    parallel = ParallelModel(inner, 3)
    step = tf.function(lambda x, y: parallel.loss_and_gradients(loss_of, x, y, scale=4.0))
    loss, outputs, scaled = step(tf.constant(X), tf.constant(Y))
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    assert np.allclose(outputs["predicted"], inner(X), rtol=1e-4, atol=1e-6)
    for a, b in zip(gradients, scaled, strict=True):
        assert np.allclose(4 * a, b, rtol=1e-4, atol=1e-6)
