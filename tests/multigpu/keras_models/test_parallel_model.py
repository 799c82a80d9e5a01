"""Tests that a training step on three devices equals the step on one."""

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
    """A loss and a metric of its own, as in Keras's guide."""

    def __init__(self):
        super().__init__()
        self.tracker = keras.metrics.Mean(name="squares")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return super().compute_loss(x, y, y_pred, sample_weight) + keras.ops.mean(y_pred**2)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.tracker.update_state(y_pred**2)
        return {**super().compute_metrics(x, y, y_pred, sample_weight), "squares": self.tracker.result()}


@pytest.mark.parametrize("make", [functional, sequential_unbuilt, frozen, Subclassed, OwnLoss])
def test_step_on_three_devices_equals_one_device(both, make):
    models = both(make).compile(loss="mse", metrics=lambda: ["mae"])
    models.train(X, Y)
    assert np.allclose(models.parallel.predict(X, verbose=0), models.plain.predict(X, verbose=0), rtol=1e-5)


def test_unbuilt_model_is_built_for_any_number_of_rows():
    parallel = ParallelModel(sequential_unbuilt(), 3)
    parallel(X)
    assert parallel.inner.input_shape == (None, 5)


@pytest.mark.parametrize("num_rows", [1, 2, 3])
@pytest.mark.parametrize("run_eagerly", [False, True])
def test_batch_smaller_than_the_number_of_devices_equals_one_device(both, num_rows, run_eagerly):
    models = both(functional).compile(loss="mse", run_eagerly=run_eagerly)
    models.train(X[:num_rows], Y[:num_rows])


def test_structured_inputs_and_outputs_equal_one_device(both):
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
    """Computes the loss within a speech model, as ASRT does."""

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
def test_model_that_computes_its_own_loss_equals_one_device(both, scalar):
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
    models = both(make).compile(loss={name: lambda y_true, y_pred: y_pred}, run_eagerly=scalar)
    models.train(batch, np.zeros(7, "float32"))


def test_sparse_gradients_of_embeddings_equal_one_device(both):
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


class Gathering(keras.Model):
    """Takes inputs of every kind, by position and by name."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, inputs, lengths=None, scale=None):
        assert inputs["speaker"] is None
        counts = inputs["tokens"].row_lengths() if isinstance(inputs["tokens"], tf.RaggedTensor) else 0.0
        outputs = self.dense(inputs["audio"]) + tf.cast(counts, tf.float32)[..., None]
        return outputs if lengths is None else outputs * lengths[:, None] * scale


def test_none_scalar_and_ragged_inputs_equal_one_device(both):
    batch = {"audio": tf.constant(X[:4]), "tokens": tf.constant(0.0), "speaker": None}
    inner = Gathering()
    parallel = ParallelModel(inner, 3)
    extra = {"lengths": tf.range(4.0), "scale": tf.constant(2.0)}
    assert np.allclose(parallel(batch, **extra), inner(batch, **extra), rtol=1e-5)
    assert np.allclose(parallel(batch, tf.range(4.0), extra["scale"]), inner(batch, **extra), rtol=1e-5)
    batch["tokens"] = tf.ragged.constant([[1], [2, 3], [], [4, 5]])
    assert np.allclose(parallel(batch), inner(batch), rtol=1e-5)
    both(Gathering).compile(loss="mse").train({"audio": X, "tokens": np.float32(0), "speaker": None}, Y)


def test_layers_that_assign_to_their_weights_equal_one_device(both):
    def make():
        return functional(lambda: keras.layers.SpectralNormalization(keras.layers.Dense(4)))

    both(make).compile(loss="mse", run_eagerly=True).train(X, Y)


def test_parallel_model_trains_within_a_larger_model(both):
    keras.utils.set_random_seed(1)
    inner = functional()
    inputs = keras.Input((5,))
    plain, larger = (keras.Model(inputs, 2.0 * model(inputs)) for model in (inner, ParallelModel(inner, 3)))
    for model in (plain, larger):
        model.compile("sgd", "mse")
    assert larger.evaluate(X, Y, verbose=0) == pytest.approx(plain.evaluate(X, Y, verbose=0), rel=1e-5)
    losses = [larger.train_on_batch(X, Y) for _ in range(3)]
    assert losses[2] < losses[1] < losses[0]


def backward_devices(function, *args):
    ops = function.get_concrete_function(*args).graph.get_operations()
    wanted = [op for op in ops if op.type.startswith("Conv2DBackprop")]
    return sorted({(op.type[14:], op.device[-5:]) for op in wanted})


def test_backward_ops_run_on_the_device_of_the_forward_pass():
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


def test_invalid_model_or_device_is_an_error_with_the_remedy():
    class OwnStep(keras.Model):
        def train_step(self, data):
            return {}

    class OwnPrediction(keras.Model):
        def predict_step(self, data):
            return keras.ops.argmax(self(data[0]), axis=-1)

    with pytest.raises(TypeError, match=r"OwnStep has a train_step of its own.* override compute_loss"):
        ParallelModel(OwnStep(), 2)
    with pytest.raises(TypeError, match=r"OwnPrediction has a predict_step of its own.*`call`"):
        ParallelModel(OwnPrediction(), 2)
    replaced = functional()
    replaced.predict_step = lambda data: data
    with pytest.raises(TypeError, match="predict_step"):
        ParallelModel(replaced, 2)
    with pytest.raises(TypeError, match=r"is a ParallelModel already.*`inner`"):
        ParallelModel(ParallelModel(functional(), 2), 2)
    with pytest.raises(DeviceError, match="4 devices requested"):
        ParallelModel(functional(), 4)
    with pytest.raises(ValueError, match="not built yet"):
        ParallelModel(Subclassed(), 3).loss_and_gradients(lambda model, x: model(x), X)


class Distiller(keras.Model):
    """A `compile` of its own, as in Keras's example of knowledge distillation."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, x):
        return self.dense(x)

    def compile(self, optimizer, student_loss, alpha=0.1):
        super().compile(optimizer=optimizer)
        self.student_loss, self.alpha = student_loss, alpha

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.alpha * keras.ops.mean(self.student_loss(y, y_pred))


class Forgetful(Distiller):
    def compile(self, student_loss):
        self.student_loss = student_loss


def test_compile_of_the_models_own_gets_its_own_arguments(both):
    models = both(Distiller).compile(student_loss=keras.losses.mean_squared_error, alpha=0.5)
    models.train(X, Y)
    models.parallel.compile("sgd", keras.losses.mean_squared_error, jit_compile=False)
    assert models.parallel.inner.alpha == 0.1
    with pytest.raises(TypeError, match=r"Forgetful.compile does not call super\(\)"):
        ParallelModel(Forgetful(), 2).compile(keras.losses.mean_squared_error)
