"""A step on three devices is the step on one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu import DeviceError, ParallelModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 5)).astype("float32")
Y = RNG.normal(size=(7, 2)).astype("float32")


def functional(*between):
    inputs = keras.Input((5,))
    x = keras.layers.Dense(4, "tanh")(inputs)
    for layer in between:
        x = layer()(x)
    return keras.Model(inputs, keras.layers.Dense(2)(x))


def sequential_unbuilt():
    return keras.Sequential([keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)])


def frozen():
    model = functional()
    model.layers[1].trainable = False
    return model


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.last = keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)

    def call(self, x, training=False):
        return self.last(self.hidden(x)) * (2.0 if training else 1.0)


class OwnLoss(Subclassed):
    """With a loss and a metric of its own, as Keras's guide has it."""

    def __init__(self):
        super().__init__()
        self.tracker = keras.metrics.Mean(name="squares")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return super().compute_loss(x, y, y_pred, sample_weight) + keras.ops.mean(y_pred**2)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.tracker.update_state(y_pred**2)
        return {**super().compute_metrics(x, y, y_pred, sample_weight), "squares": self.tracker.result()}


@pytest.mark.parametrize("make", [functional, sequential_unbuilt, frozen, Subclassed, OwnLoss])
def test_a_step_is_that_of_one_device(both, make):
    models = both(make).compile(loss="mse", metrics=lambda: ["mae"])
    models.train(X, Y)
    assert np.allclose(models.parallel.predict(X, verbose=0), models.plain.predict(X, verbose=0), rtol=1e-5)


@pytest.mark.parametrize("num_rows", [1, 2, 3])
@pytest.mark.parametrize("run_eagerly", [False, True])
def test_batches_smaller_than_the_number_of_devices(both, num_rows, run_eagerly):
    models = both(functional).compile(loss="mse", run_eagerly=run_eagerly)
    models.train(X[:num_rows], Y[:num_rows])


def test_fit_evaluate_and_predict_are_those_of_one_device(both):
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
        keras.utils.set_random_seed(2)  # of the order of rows
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
    assert models.parallel.test_on_batch(x, y) == pytest.approx(models.plain.test_on_batch(x, y), rel=1e-5)


def test_several_inputs_and_outputs_of_any_structure(both):
    def make():
        a, b = keras.Input((5,), name="a"), keras.Input((3,), name="b")
        x = keras.layers.Dense(4, "tanh")(keras.layers.Concatenate()([a, b]))
        outputs = {
            "left": keras.layers.Dense(2, name="left")(x),
            "right": keras.layers.Dense(1, name="right")(x),
        }
        return keras.Model({"a": a, "b": b}, outputs)

    x = {"a": X, "b": X[:, :3]}
    y = {"left": Y, "right": Y[:, :1]}
    settings = {
        "loss": {"left": "mse", "right": keras.losses.MeanAbsoluteError(reduction="sum")},
        "loss_weights": {"left": 0.3, "right": 2.0},
        "metrics": lambda: {"left": ["mae"]},
    }
    models = both(make).compile(**settings)
    weights = {"left": np.arange(7.0), "right": np.ones(7)}
    models.train(x, y, sample_weight=weights)
    one, several = (
        models.plain.predict(x, batch_size=5, verbose=0),
        models.parallel.predict(x, batch_size=5, verbose=0),
    )
    assert set(one) == set(several)
    assert all(np.allclose(one[name], several[name], rtol=1e-4, atol=1e-6) for name in one)
    # where the number of rows is not known when the step is traced
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(5)
    logs = [m.evaluate(data, return_dict=True, verbose=0) for m in (models.plain, models.parallel)]
    assert set(logs[1]) == {"loss", "left_loss", "right_loss", "left_mae"}
    assert logs[1] == pytest.approx(logs[0], rel=1e-5)


def test_lists_of_inputs_and_outputs_keep_their_order(both):
    def make():
        inputs = [keras.Input((5,)), keras.Input((5,))]
        return keras.Model(inputs, [keras.layers.Dense(2)(inputs[1]), keras.layers.Dense(3)(inputs[0])])

    models = both(make).compile(loss=["mse", None], run_eagerly=True)
    one, several = models.plain.predict([X, 2 * X], verbose=0), models.parallel.predict([X, 2 * X], verbose=0)
    assert [output.shape for output in several] == [(7, 2), (7, 3)]
    assert all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(one, several, strict=True))


class CTC(keras.layers.Layer):
    """The loss of a speech model within it, as ASRT has it."""

    def call(self, logits, labels, num_frames, num_labels):
        losses = tf.nn.ctc_loss(
            tf.cast(labels, tf.int32),
            logits,
            tf.cast(num_labels, tf.int32),
            tf.cast(num_frames, tf.int32),
            logits_time_major=False,
            blank_index=0,
        )
        return losses[:, None]


@pytest.mark.parametrize("scalar", [False, True])
def test_a_model_that_computes_its_loss(both, scalar):
    def make():
        audio, labels = keras.Input((6, 5), name="audio"), keras.Input((2,), name="labels")
        lengths = [keras.Input((), name=name) for name in ("num_frames", "num_labels")]
        logits = keras.layers.Dense(4)(audio)
        loss = CTC(name="ctc")(logits, labels, *lengths)
        if scalar:
            loss = keras.layers.Lambda(keras.ops.mean, output_shape=(), name="ctc_mean")(loss)
        return keras.Model([audio, labels, *lengths], loss)

    audio = RNG.normal(size=(7, 6, 5)).astype("float32")
    batch = [
        audio,
        RNG.integers(1, 4, (7, 2)),
        np.array([6, 5, 6, 6, 4, 6, 6]),
        np.array([2, 1, 2, 2, 1, 2, 2]),
    ]
    name = "ctc_mean" if scalar else "ctc"
    models = both(make).compile(loss={name: lambda y_true, y_pred: y_pred})
    models.train(batch, np.zeros(7, "float32"))


def test_sparse_gradients_of_embeddings(both):
    def make():
        tokens = keras.Input((4,), dtype="int32")
        x = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(9, 3)(tokens))
        return keras.Model(tokens, keras.layers.Dense(2)(x))

    models = both(make).compile(loss="mse").train(RNG.integers(0, 9, (7, 4)), Y)
    tokens = tf.constant(RNG.integers(0, 9, (7, 4)))

    def gradients(model):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(tokens, training=True) - Y) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    one, several = gradients(models.plain), gradients(models.parallel)
    assert isinstance(several[0], tf.IndexedSlices)
    for a, b in zip(one, several, strict=True):
        assert np.allclose(tf.convert_to_tensor(a), tf.convert_to_tensor(b), rtol=1e-4, atol=1e-7)


def test_inputs_that_are_none_or_ragged():
    class Optional(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, inputs):
            ragged = tf.cast(tf.reduce_sum(inputs["tokens"], axis=1), tf.float32)[:, None]
            assert inputs["speaker"] is None
            return self.dense(inputs["x"]) + ragged

    inner = Optional()
    inner.dense.build((None, 5))
    inner.built = True
    batch = {
        "x": tf.constant(X[:4]),
        "tokens": tf.ragged.constant([[1], [2, 3], [], [4, 5]]),
        "speaker": None,
    }
    assert np.allclose(ParallelModel(inner, 3)(batch), inner(batch), rtol=1e-5)


def backward_devices(function, *args):
    ops = function.get_concrete_function(*args).graph.get_operations()
    wanted = [op for op in ops if op.type.startswith("Conv2DBackprop")]
    return sorted({(op.type[14:], op.device[-5:]) for op in wanted})


def test_the_backward_pass_is_on_the_device_of_the_forward_pass():
    inputs = keras.Input((4, 4, 1))
    x = keras.layers.Conv2D(2, 3, padding="same")(keras.layers.Conv2D(2, 3, padding="same")(inputs))
    parallel = ParallelModel(keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(x)), 3)
    parallel.compile("sgd", "mse")
    images = tf.zeros((7, 4, 4, 1))
    expected = [(kind, f"CPU:{n}") for kind in ("Filter", "Input") for n in range(3)]

    @tf.function
    def loop(images):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(parallel(images, training=True) ** 2)
        return tape.gradient(loss, parallel.trainable_variables)

    step = tf.function(lambda images: parallel.train_step((images, tf.zeros((7, 2)))))
    assert backward_devices(step, images) == expected
    assert backward_devices(loop, images) == expected


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


def test_the_first_tower_draws_what_one_device_would():
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


def test_random_numbers_without_a_seed_generator_are_refused():
    class Noise(keras.layers.Layer):
        def call(self, x):
            return x + keras.random.normal(keras.ops.shape(x))

    parallel = ParallelModel(keras.Sequential([keras.Input((5,)), Noise()]), 3)
    with pytest.raises(ValueError, match=r"keras\.random\.SeedGenerator"):
        parallel(X)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_with_loss_scaling(both, policy):
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
    if scaled:  # an overflow leaves the weights and halves the scale
        before, scale = models.parallel.get_weights(), float(models.parallel.optimizer.dynamic_scale)
        models.parallel.train_on_batch(X * 1e30, Y)
        assert float(models.parallel.optimizer.dynamic_scale) == scale / 2
        assert all(np.array_equal(a, b) for a, b in zip(before, models.parallel.get_weights(), strict=True))


def test_mixed_precision_rounds_no_statistics():
    inner = keras.Sequential(
        [keras.Input((5,)), keras.layers.BatchNormalization(dtype="mixed_float16")], name="mixed_statistics"
    )
    inner.dtype_policy = keras.DTypePolicy("mixed_float16")
    odd = np.float32(1 + 2**-14)
    inner.layers[0].moving_mean.assign(np.full(5, odd))
    ParallelModel(inner, 3)(np.full((6, 5), odd), training=True)
    assert np.abs(inner.layers[0].moving_mean.numpy() - odd).max() < 1e-5


def test_gradients_accumulate_over_steps(both):
    models = both(functional).compile(
        lambda: keras.optimizers.SGD(0.5, momentum=0.9, gradient_accumulation_steps=2), loss="mse"
    )
    x, y = np.concatenate([X, 2 * X]), np.concatenate([Y, Y])
    for model in (models.plain, models.parallel):
        model.fit(x, y, batch_size=7, epochs=2, shuffle=False, verbose=0)
    for a, b in zip(models.plain.get_weights(), models.parallel.get_weights(), strict=True):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_several_steps_per_execution(both):
    models = both(functional).compile(loss="mse", steps_per_execution=2)
    x, y = np.concatenate([X] * 3), np.concatenate([Y] * 3)
    losses = [
        m.fit(x, y, batch_size=7, shuffle=False, verbose=0).history["loss"]
        for m in (models.plain, models.parallel)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_xla_compiles_each_tower(both):
    models = both(functional).compile(loss="mse", jit_compile=True, metrics=lambda: ["mae"])
    models.train(X, Y)
    step = tf.function(lambda: models.parallel.train_step((tf.constant(X), tf.constant(Y))))
    calls = [
        op
        for op in step.get_concrete_function().graph.get_operations()
        if "_XlaMustCompile" in op.node_def.attr and op.node_def.attr["_XlaMustCompile"].b
    ]
    assert sorted(op.device[-5:] for op in calls) == ["CPU:0", "CPU:1", "CPU:2"]
    assert np.allclose(models.parallel.predict(X, verbose=0), models.plain.predict(X, verbose=0), rtol=1e-4)


def test_losses_and_gradients_for_a_loop_of_ones_own():
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


def test_a_model_with_a_step_of_its_own_is_refused_with_the_remedy():
    class OwnStep(keras.Model):
        def train_step(self, data):
            return {}

    with pytest.raises(
        TypeError, match="OwnStep has a train_step of its own.* override compute_loss instead"
    ):
        ParallelModel(OwnStep(), 2)
    with pytest.raises(DeviceError, match="4 devices asked for"):
        ParallelModel(functional(), 4)
