"""Tests that a staged model trains, evaluates, predicts and saves as the plain model on one device does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu import DeviceError, StagedModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(11, 5)).astype("float32")
Y = RNG.normal(size=(11, 2)).astype("float32")
layers = keras.layers


def sequential():
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((5,), name="x"),
            layers.Dense(4, "tanh", name="a"),
            layers.Dense(4, "tanh", name="b"),
            layers.Dense(2, name="c"),
        ],
        name="net",
    )


def unbuilt():
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [layers.Dense(4, "tanh", name="a"), layers.Dense(4, "tanh", name="b"), layers.Dense(2, name="c")]
    )


class Subclassed(keras.Model):
    def __init__(self):
        keras.utils.set_random_seed(1)
        super().__init__()
        self.a, self.b = layers.Dense(4, "tanh", name="a"), layers.Dropout(0.0, name="b")
        self.c = layers.Dense(2, name="c")

    def call(self, x, training=False):
        return self.c(self.b(self.a(x), training=training))

    def stages(self):
        return [self.a, self.b, self.c]


def staged(inner, num_micro_batches=3, **settings):
    return StagedModel(inner, [["a"], ["b"], ["c"]], 3, num_micro_batches=num_micro_batches, **settings)


def adamw():
    return keras.optimizers.AdamW(0.01, weight_decay=0.1, global_clipnorm=0.5, name="adamw")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(sequential, marks=pytest.mark.slow),
        unbuilt,
        pytest.param(Subclassed, marks=pytest.mark.slow),
    ],
)
def test_fit_evaluate_and_predict_equal_one_device(make):
    plain, model = make(), staged(make())
    histories, results = [], []
    for one in (plain, model):
        one.compile(adamw(), "mse", metrics=["mae"])
        keras.utils.set_random_seed(2)
        fitted = one.fit(X, Y, batch_size=4, verbose=0, shuffle=False, validation_data=(X, Y))
        histories.append(fitted.history)
        results.append(one.evaluate(X, Y, batch_size=2, verbose=0, return_dict=True))
    assert set(histories[0]) == set(histories[1])
    for name, values in histories[0].items():
        assert histories[1][name] == pytest.approx(values, rel=1e-5), name
    assert results[1] == pytest.approx(results[0], rel=1e-5)
    assert np.allclose(model.predict(X, verbose=0), plain.predict(X, verbose=0), rtol=1e-4, atol=1e-6)
    assert np.allclose(model(X[:1]), plain(X[:1]), rtol=1e-4, atol=1e-6)


def test_weights_and_state_of_the_optimiser_are_on_the_device_of_their_stage():
    model = staged(sequential())
    model.compile(adamw(), "mse")
    model.train_on_batch(X, Y)
    home = {"a": "CPU:0", "b": "CPU:1", "c": "CPU:2"}
    assert all(w.value.device.endswith(home[w.path.split("/")[-2]]) for w in model.weights)
    slots = {v.path.split("/")[-1]: v.value.device[-5:] for v in model.optimizer.variables if v.shape}
    assert {name: device for name, device in slots.items() if "kernel" in name} == {
        f"{prefix}{layer}_kernel_{slot}": home[layer]
        for prefix in {name.split("a_kernel")[0] for name in slots if "a_kernel" in name}
        for layer in "abc"
        for slot in ("momentum", "velocity")
    }
    placement = model.placement()
    assert [(one.devices[0], one.layers, one.num_parameters) for one in placement] == [
        ("/CPU:0", ["a"], 24),
        ("/CPU:1", ["b"], 20),
        ("/CPU:2", ["c"], 10),
    ]
    assert placement[0].weight_bytes == 96
    assert placement[0].activation_bytes is None  # named layers are not measured


def test_saved_file_is_the_plain_model_and_training_continues_in_stages(tmp_path):
    model, plain = staged(sequential()), sequential()
    for one in (model, plain):
        one.compile(keras.optimizers.Adam(0.01, name="adam"), "mse")
        one.train_on_batch(X, Y)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is keras.Sequential
    assert loaded.optimizer.iterations == 1
    again = staged(loaded)
    for one in (again, plain, model):
        one.train_on_batch(X, Y)
    assert again.optimizer.iterations == 2
    for a, b, c in zip(again.get_weights(), plain.get_weights(), model.get_weights(), strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-6)
        assert np.allclose(a, c, rtol=1e-6, atol=1e-7)
    again.load_weights(tmp_path / "model.keras")
    with pytest.raises(TypeError, match="StagedModel cannot be saved or cloned"):
        again.get_config()


def test_optimiser_that_has_state_decays_the_weights_that_it_did_before():
    models = []
    for continued in (lambda model: model, staged):
        inner, optimizer = sequential(), keras.optimizers.SGD(0.1, momentum=0.9, weight_decay=0.5)
        optimizer.exclude_from_weight_decay(var_names=["kernel"])
        inner.compile(optimizer, "mse")
        inner.train_on_batch(X, Y)
        models.append(continued(inner))
        models[-1].train_on_batch(X, Y)
    for a, b in zip(*(model.get_weights() for model in models), strict=True):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compiled_before", [False, True])
def test_weights_of_lora_live_with_their_state_on_the_device_of_their_stage(compiled_before):
    inner = sequential()
    model = staged(inner)
    model.predict(X, verbose=0)
    if compiled_before:
        model.compile(adamw(), "mse")
    for layer in inner.layers:
        layer.enable_lora(2)
    if not compiled_before:
        model.compile(adamw(), "mse")
    model.train_on_batch(X, Y)
    home = {"a": "CPU:0", "b": "CPU:1", "c": "CPU:2"}
    of_lora = [weight for weight in inner.weights if "lora" in weight.path]
    assert len(of_lora) == 6
    assert all(w.value.device.endswith(home[w.path.split("/")[-2]]) for w in of_lora)
    slots = [v for v in model.optimizer.variables if "lora" in v.path]
    assert slots
    assert all(v.value.device.endswith(home[v.path.split("_lora")[0][-1]]) for v in slots)


def test_quantized_weights_live_on_the_device_of_their_stage():
    inner = sequential()
    model = staged(inner)
    with pytest.warns(UserWarning, match="quantize"):
        inner.quantize("int8")
    model.predict(X, verbose=0)
    home = {"a": "CPU:0", "b": "CPU:1", "c": "CPU:2"}
    assert all(w.value.device.endswith(home[w.path.split("/")[-2]]) for w in inner.weights)
    assert {w.dtype for w in inner.weights} == {"int8", "float32"}


def test_last_batch_of_fewer_rows_than_micro_batches_trains_as_on_one_device():
    weights = []
    for model in (sequential(), staged(sequential(), num_micro_batches=4)):
        model.compile(keras.optimizers.SGD(0.5), "mse", jit_compile=False)
        model.fit(X, Y, batch_size=5, shuffle=False, verbose=0)  # 5, 5 and 1 rows
        weights.append(model.get_weights())
    for a, b in zip(*weights, strict=True):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_training_and_evaluation_without_a_loss_are_the_errors_of_keras():
    messages = []
    for model in (sequential(), staged(sequential())):
        model.compile("sgd")
        for run in (model.fit, model.evaluate):
            with pytest.raises(ValueError, match="No loss to compute") as error:
                run(X, Y, verbose=0)
            messages.append(str(error.value).splitlines()[-1])
    assert messages[:2] == messages[2:]


def test_inner_model_that_ran_before_does_not_keep_old_weights():
    inner = sequential()
    inner.compile("sgd", "mse")
    inner.predict(X, verbose=0)
    model = staged(inner)
    model.compile(keras.optimizers.SGD(0.5), "mse")
    model.train_on_batch(X, Y)
    assert np.allclose(inner.predict(X, verbose=0), model.predict(X, verbose=0), rtol=1e-5, atol=1e-6)


def structured():
    keras.utils.set_random_seed(1)
    tokens, scale = keras.Input((4,), dtype="int32", name="tokens"), keras.Input((3,), name="scale")
    x = layers.Embedding(9, 3, mask_zero=True, name="a")(tokens)
    early = layers.GlobalAveragePooling1D(name="pool")(x)
    late = layers.SimpleRNN(3, name="b")(x) * scale
    outputs = {"early": layers.Dense(2, name="early")(early), "late": layers.Dense(1, name="late")(late)}
    return keras.Model({"tokens": tokens, "scale": scale}, outputs)


def test_masks_sparse_gradients_and_several_inputs_and_outputs_equal_one_device():
    x = {"tokens": RNG.integers(0, 9, (11, 4)), "scale": X[:, :3]}
    y = {"early": Y, "late": Y[:, :1]}
    settings = {
        "loss": {"early": "mse", "late": keras.losses.MeanAbsoluteError(reduction="sum")},
        "loss_weights": {"early": 0.3, "late": 2.0},
    }
    plain = structured()
    stages = [["a", "pool", "early"], ["b", "late"]]
    model = StagedModel(structured(), stages, 2, num_micro_batches=3)
    logs = []
    for one in (plain, model):
        one.compile(keras.optimizers.SGD(0.1), **settings)
        weights = {"early": np.arange(11.0), "late": np.ones(11)}
        logs.append(one.train_on_batch(x, y, sample_weight=weights, return_dict=True))
    assert logs[1] == pytest.approx(logs[0], rel=1e-5)
    for a, b in zip(plain.get_weights(), model.get_weights(), strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "mean_with_sample_weight"])
def test_losses_with_sample_weights_equal_one_device(reduction):
    results = []
    for model in (sequential(), staged(sequential())):
        model.compile(keras.optimizers.SGD(0.5), keras.losses.MeanSquaredError(reduction=reduction))
        loss = model.train_on_batch(X, Y, sample_weight=np.arange(11.0))
        results.append([loss, *model.get_weights()])
    for a, b in zip(*results, strict=True):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_mixed_precision_skips_steps_that_are_not_finite():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = staged(sequential())
    finally:
        keras.config.set_dtype_policy("float32")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    assert type(model.optimizer).__name__ == "LossScaleOptimizer"
    before = model.get_weights()
    model.train_on_batch(np.full_like(X, np.inf), Y)
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    model.train_on_batch(X, Y)
    assert not np.array_equal(before[0], model.get_weights()[0])


def test_callbacks_stop_and_save_the_plain_model(tmp_path):
    model = staged(sequential())
    model.compile("sgd", "mse")
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="loss"),
        keras.callbacks.EarlyStopping(monitor="loss", patience=0, min_delta=100.0),
    ]
    history = model.fit(X, Y, batch_size=11, epochs=5, verbose=0, callbacks=callbacks)
    assert len(history.epoch) < 5
    assert type(keras.models.load_model(tmp_path / "best.keras")) is keras.Sequential


class MadeOn(layers.Dense):
    """Remembers the device on which its weights are made."""

    def build(self, shape):
        super().build(shape)
        self.made_on = self.kernel.value.device[-5:]


def test_weights_of_an_unbuilt_model_are_made_in_the_memory_of_the_host():
    inner = keras.Sequential([MadeOn(3, name="a"), MadeOn(2, name="b")])
    model = StagedModel(inner, [["a"], ["b"]], ["/CPU:1", "/CPU:2"], num_micro_batches=2)
    with tf.device("/CPU:1"):  # as for a model that is made where TensorFlow likes, the first GPU
        model(X)
    assert [layer.made_on for layer in inner.layers] == ["CPU:0", "CPU:0"]
    assert [layer.kernel.value.device[-5:] for layer in inner.layers] == ["CPU:1", "CPU:2"]


def test_gradients_through_a_call_are_refused():
    model = staged(sequential())
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(X))
    with pytest.raises(TypeError, match=r"use StagedModel.loss_and_gradients"):
        tape.gradient(loss, model.trainable_variables)


class Frames(layers.Layer):
    """Passes frames on with their number, as networks for speech do."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(3, "tanh")

    def call(self, inputs):
        frames, num_frames = inputs
        return {"frames": self.dense(frames), "num_frames": num_frames}


class Last(layers.Layer):
    """Averages the frames that there are."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(2)

    def call(self, inputs):
        mask = tf.sequence_mask(inputs["num_frames"], tf.shape(inputs["frames"])[1], tf.float32)
        return tf.reduce_mean(self.dense(inputs["frames"]) * mask[:, :, None], axis=1)


class Speech(keras.Model):
    def __init__(self):
        keras.utils.set_random_seed(1)
        super().__init__()
        self.first, self.last = Frames(name="first"), Last(name="last")

    def call(self, inputs):
        return self.last(self.first(inputs))

    def stages(self):
        return [self.first, self.last]


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_structures_pass_between_the_stages_of_a_subclassed_model(run_eagerly):
    x = (RNG.normal(size=(11, 4, 5)).astype("float32"), RNG.integers(1, 5, 11))
    results = []
    for model in (Speech(), StagedModel(Speech(), [["first"], ["last"]], 2, num_micro_batches=3)):
        model.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=run_eagerly)
        loss = model.train_on_batch(x, Y)
        results.append([loss, *model.get_weights(), model.evaluate(x, Y, verbose=0)])
    for a, b in zip(*results, strict=True):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


class OwnLoss(Subclassed):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return 0.0


def test_invalid_settings_are_errors_with_the_remedy():
    with pytest.raises(ValueError, match="a device for each of 3 stages, or a multiple of that, received 2"):
        StagedModel(sequential(), [["a"], ["b"], ["c"]], 2, num_micro_batches=2)
    with pytest.raises(DeviceError, match="4 devices requested"):
        StagedModel(sequential(), [["a"], ["b"], ["c"]], 4, num_micro_batches=2)
    with pytest.raises(ValueError, match=r"num_micro_batches.*received 0"):
        staged(sequential(), num_micro_batches=0)
    with pytest.raises(ValueError, match="XLA would put all stages on one device"):
        staged(sequential()).compile("sgd", "mse", jit_compile=True)
    with pytest.raises(TypeError, match="OwnLoss has a compute_loss of its own"):
        staged(OwnLoss()).compile("sgd")
    with pytest.raises(ValueError, match="not built yet"):
        staged(unbuilt()).placement()
