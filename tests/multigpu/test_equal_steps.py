"""Tests that steps in towers and in stages equal those of one device, or are refused by name."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu import ParallelModel, StagedModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 5, 6)).astype("float32") * RNG.uniform(0.2, 5, (16, 1, 1)).astype("float32")
Y = RNG.normal(size=(16, 2)).astype("float32")
layers, losses = keras.layers, keras.losses


def on_one(make):
    keras.utils.set_random_seed(1)
    return make()


def in_towers(make):
    return ParallelModel(on_one(make), 3)


def in_stages(make):
    model = on_one(make)
    names = [layer.name for layer in model.layers]
    return StagedModel(model, [names[:-1], names[-1:]], 2, num_micro_batches=3)


@pytest.fixture(params=[in_towers, in_stages])
def divided(request):
    """Return a function that makes a model and divides its steps."""
    return request.param


def trained(model, x, y, loss, epochs=1, evaluated=False, **settings):
    """Train, and evaluate, with batches of 7, 7 and 2 rows; return losses, and weights' changes by name."""
    before = model.get_weights()
    model.compile(keras.optimizers.SGD(0.05), loss, jit_compile=False)
    received = model.fit(x, y, 7, epochs, shuffle=False, verbose=0, **settings).history["loss"]
    names = [weight.path.partition("/")[2] for weight in model.weights]
    changes = dict(zip(names, (b - a for a, b in zip(before, model.get_weights(), strict=True)), strict=True))
    if evaluated:
        received.append(model.evaluate(x, y, batch_size=7, verbose=0, **settings))
    return received, changes


def assert_equal_steps(make, x, y, loss, divided=(in_towers, in_stages), **settings):
    """Compare both ways to divide a step with one device, whose own steps are traced once."""
    expected, changes = trained(on_one(make), x, y, loss, **settings)
    for divide in divided:
        received, others = trained(divide(make), x, y, loss, **settings)
        assert received == pytest.approx(expected, rel=1e-5), divide.__name__
        for name, change in changes.items():
            difference = np.abs(others[name] - change).max()
            assert difference <= 1e-5 * np.abs(change).max() + 1e-7, (divide.__name__, name)


def sequential(*made):
    return keras.Sequential(list(made))


def classifier():
    return sequential(keras.Input((5, 6)), layers.Dense(8, "tanh", name="a"), layers.Dense(4, name="b"))


LABELS = RNG.integers(0, 4, (16, 5))
LABELS[::2, 1:] = LABELS[:6, 1:] = -1  # mostly ignored, by some devices more than by others


class OwnMask(losses.Loss):
    """Masks its own result, as `ignore_class` does."""

    def call(self, y_true, y_pred):
        labels = tf.cast(y_true, tf.int32)
        values = losses.sparse_categorical_crossentropy(tf.maximum(labels, 0), y_pred, from_logits=True)
        values._keras_mask = labels >= 0
        return values


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "mean_with_sample_weight", "sum"])
def test_ignored_classes_count_as_in_the_whole_batch(reduction):
    loss = losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1, reduction=reduction)
    assert_equal_steps(classifier, X, LABELS, loss, evaluated=True)


def test_mask_that_a_loss_puts_on_its_own_result_counts_as_in_the_whole_batch():
    assert_equal_steps(classifier, X, LABELS, OwnMask())


@pytest.mark.parametrize(
    ("reduction", "shape"), [("mean", (16, 1)), ("mean_with_sample_weight", (16, 5))], ids=str
)
def test_ignored_classes_with_weights_count_as_in_the_whole_batch(reduction, shape):
    loss = losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1, reduction=reduction)
    weights = RNG.uniform(0.1, 2, shape).astype("float32")
    assert_equal_steps(classifier, X, LABELS, loss, divided=[in_towers], sample_weight=weights)


def test_ignored_classes_and_a_mask_of_the_outputs_count_together():
    def make():
        return sequential(
            keras.Input((5, 6)),
            layers.Masking(name="mask"),
            layers.Dense(4, name="a"),
            layers.Dense(4, name="b"),
        )

    x = X.copy()
    x[3:9, 2:] = 0
    loss = losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    assert_equal_steps(make, x, LABELS, loss)


def test_synchronized_statistics_of_masked_frames_equal_one_device():
    def make(**settings):
        return sequential(
            keras.Input((5, 6)),
            layers.Masking(name="mask"),
            layers.BatchNormalization(synchronized=True, momentum=0.5, name="norm", **settings),
            layers.GlobalAveragePooling1D(name="pool"),
            layers.Dense(2, name="out"),
        )

    x = X.copy()
    x[::2, 2:] = x[:6, 1:] = 0  # some devices have more frames than others
    assert_equal_steps(make, x, Y, "mse", evaluated=True)


def test_scales_of_float8_are_the_maximum_over_the_batch():
    def make():
        model = sequential(keras.Input((5, 6)), layers.Dense(8, "tanh", name="a"), layers.Dense(4, name="b"))
        with pytest.warns(UserWarning, match="quantize"):
            model.quantize("float8")
        return model

    target = RNG.normal(size=(16, 5, 4)).astype("float32")
    _, changes = trained(on_one(make), X, target, "mse", epochs=3)
    scales = [name for name in changes if "scale" in name or "amax" in name]
    assert len(scales) == 12
    for divide in (in_towers, in_stages):
        _, others = trained(divide(make), X, target, "mse", epochs=3)
        for name in scales:
            assert np.allclose(others[name], changes[name], rtol=0.05), (divide.__name__, name)


def test_gradients_from_outside_give_scales_of_float8_their_maximum():
    model = classifier()
    with pytest.warns(UserWarning, match="quantize"):
        model.quantize("float8")

    @tf.function
    def gradients(called):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(called(X, training=True) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    pairs = zip(model.trainable_variables, gradients(model), gradients(ParallelModel(model, 3)), strict=True)
    compared = [(one, several) for weight, one, several in pairs if weight.overwrite_with_gradient]
    assert len(compared) == 12
    assert all(np.allclose(several, one, rtol=1e-2) for one, several in compared)


@pytest.mark.parametrize(
    ("loss", "remedy"),
    [
        (losses.Circle(), "circle.*one device"),
        (losses.Dice(), r"dice.*axis=\(1, 2, 3\)"),
        (losses.tversky, "tversky.*axis"),
        (losses.Dice(axis=(0, 1)), "dice"),
    ],
)
def test_loss_that_compares_rows_is_refused_by_name(divided, loss, remedy):
    model = divided(
        lambda: sequential(keras.Input((6,)), layers.Dense(4, name="a"), layers.Dense(4, name="b"))
    )
    model.compile("sgd", loss)
    labels = np.arange(4) if isinstance(loss, losses.Circle) else np.eye(4, dtype="float32")
    with pytest.raises(ValueError, match=f"(?s){remedy}"):
        model.fit(X[:4, 0], labels, verbose=0)


def test_loss_of_each_row_by_axes_equals_one_device():
    labels = RNG.uniform(size=(16, 5, 4)).astype("float32")
    assert_equal_steps(classifier, X, labels, losses.Dice(axis=(1, 2)))


def test_loss_that_returns_one_number_is_taken_as_a_mean_with_a_warning(divided):
    def mean_of_rows(y_true, y_pred):
        return tf.reduce_mean((y_true - y_pred) ** 2)

    target = RNG.normal(size=(16, 5, 4)).astype("float32")
    with pytest.warns(UserWarning, match="mean_of_rows: returns one number"):
        assert_equal_steps(classifier, X, target, mean_of_rows, divided=[divided])


@pytest.mark.parametrize("wrap", [in_towers, in_stages])
def test_stateful_layers_are_refused_by_name(wrap):
    def make():
        inputs = keras.Input(batch_shape=(2, 5, 6))
        return sequential(inputs, layers.LSTM(3, stateful=True, name="memory"), layers.Dense(2, name="out"))

    with pytest.raises(ValueError, match="memory are stateful"):
        wrap(make)
    assert ParallelModel(make(), 1)(X[:2]).shape == (2, 2)


class Counting(layers.Layer):
    """Adds up the rows that it sees, in a float and in a whole number."""

    def __init__(self, aggregation, **kwargs):
        super().__init__(**kwargs)
        self.aggregation = aggregation

    def build(self, shape):
        settings = {"trainable": False, "initializer": "zeros", "aggregation": self.aggregation}
        self.total = self.add_weight(shape=(shape[-1],), **settings)
        self.rows = self.add_weight(shape=(), dtype="int32", **settings)
        self.calls = self.add_weight(
            shape=(), dtype="int32", trainable=False, initializer="zeros", aggregation="only_first_replica"
        )

    def call(self, x):
        self.total.assign_add(keras.ops.sum(x, axis=0))
        self.rows.assign_add(keras.ops.shape(x)[0])
        self.calls.assign_add(1)
        return x + 0 * self.total


def counted(divided, aggregation, num_rows=8):
    model = divided(
        lambda: sequential(
            keras.Input((2,)), Counting(aggregation, name="count"), layers.Dense(1, name="out")
        )
    )
    for _ in range(2):
        model(np.ones((num_rows, 2), "float32"))
    layer = model.get_layer("count")
    return layer.total.numpy().tolist(), int(layer.rows.value), int(layer.calls.value)


@pytest.mark.parametrize("num_rows", [8, 2])
def test_state_that_is_a_sum_over_rows_is_summed(divided, num_rows):
    assert counted(divided, "sum", num_rows) == ([2 * num_rows] * 2, 2 * num_rows, 2)


def test_state_of_the_first_device_or_the_mean_is_kept_where_a_layer_says_so(divided):
    assert counted(divided, "only_first_replica") == ([6, 6], 6, 2)  # of shares of 3, 3 and 2 rows
    total, _, calls = counted(divided, "mean")
    assert total == pytest.approx([2 * (9 + 9 + 4) / 8] * 2)
    assert calls == 2


def test_state_whose_aggregation_is_unknown_is_averaged_with_a_warning(divided):
    with pytest.warns(UserWarning, match=r'count: .*aggregation="sum"'):
        total, _, _ = counted(divided, "none")
    assert total == pytest.approx([2 * (9 + 9 + 4) / 8] * 2)


class Watched(keras.Model):
    """Updates metrics of its own in `compute_loss`, as a variational autoencoder does."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(6)
        self.reconstruction = keras.metrics.Mean(name="reconstruction")
        self.accuracy = keras.metrics.MeanSquaredError(name="error")

    def call(self, x):
        return self.dense(x)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = keras.ops.mean(keras.ops.square(x - y_pred))
        self.reconstruction.update_state(loss)
        self.accuracy.update_state(x, y_pred)
        return loss


@pytest.mark.parametrize("batch_size", [4, 3])
def test_metrics_that_a_model_updates_itself_equal_one_device_on_uneven_shares(batch_size):
    x = X[:4, 0].copy()
    x[3] *= 10
    histories = []
    for divide in (lambda model: model, lambda model: ParallelModel(model, 3)):
        keras.utils.set_random_seed(1)
        model = Watched()
        model(x)
        model = divide(model)
        model.compile("sgd", jit_compile=False)
        histories.append(model.fit(x, batch_size=batch_size, shuffle=False, verbose=0, epochs=2).history)
    assert set(histories[1]) == {"loss", "reconstruction", "error"}
    for name, values in histories[0].items():
        assert histories[1][name] == pytest.approx(values, rel=1e-5), name


class TwoOutputs(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(4, name="dense")

    def call(self, x):
        return self.dense(x), self.dense.bias + 1.0


@pytest.mark.parametrize("num_rows", [4, 5, 6])
def test_outputs_without_rows_keep_their_shape_for_every_number_of_rows(num_rows):
    model = TwoOutputs()
    x = X[:num_rows, 0]
    expected = [output.shape for output in model(x)]
    for devices in (2, 3):
        parallel = ParallelModel(model, devices)
        assert [output.shape for output in parallel(x)] == expected
        assert [output.shape for output in parallel.predict_on_batch(x)] == expected
        assert [output.shape for output in tf.function(parallel)(tf.constant(x))] == expected
    outputs = ParallelModel(model, 2).loss_and_gradients(
        lambda inner, x: (0.0 * inner(x)[0][0, 0], inner(x)), x
    )
    assert [output.shape for output in outputs.outputs] == expected


def test_outputs_of_stages_without_rows_keep_their_shape():
    inputs = keras.Input((6,))
    hidden = layers.Dense(4, name="a")(inputs)
    vector = layers.Lambda(lambda x: tf.reduce_mean(x, axis=0), output_shape=lambda s: s[1:], name="b")(
        hidden
    )
    model = keras.Model(inputs, [hidden, vector])
    staged = StagedModel(model, [["a"], ["b"]], 2, num_micro_batches=2)
    for num_rows in (8, 5):
        assert [output.shape for output in staged(X[:num_rows, 0])] == [(num_rows, 4), (4,)]


def test_rows_in_another_dimension_than_the_first_are_refused():
    class TimeMajor(keras.Model):
        def call(self, x):
            return keras.ops.transpose(x, (1, 0, 2))

    model = TimeMajor()
    model(X)
    for called in (ParallelModel(model, 2), ParallelModel(model, 2).predict, ParallelModel(model, 3)):
        with pytest.raises(ValueError, match=r"first dimension is the rows.*\(5, None, 6\)"):
            called(X[:4])


def test_quantized_model_predicts_with_its_new_weights(divided):
    model = divided(
        lambda: sequential(keras.Input((6,)), layers.Dense(4, name="a"), layers.Dense(4, name="b"))
    )
    before = model.predict(X[:, 0], verbose=0)
    with pytest.warns(UserWarning, match="quantize"):
        model.inner.quantize("int8")
    after = model.predict(X[:, 0], verbose=0)
    assert not np.array_equal(after, before)
    assert np.allclose(after, model.inner.predict(X[:, 0], verbose=0), atol=1e-6)
