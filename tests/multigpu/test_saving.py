"""Tests that the plain inner model is saved, and that training continues from it on any number of devices."""

import csv
import re
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu import ParallelModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 5)).astype("float32")
Y = RNG.normal(size=(7, 2)).astype("float32")


def make():
    keras.utils.set_random_seed(1)
    hidden, last = keras.layers.Dense(4, "tanh", name="hidden"), keras.layers.Dense(2, name="last")
    return keras.Sequential([keras.Input((5,), name="x"), hidden, last], name="net")


def adam():
    return keras.optimizers.Adam(0.01, name="adam")


def compiled(devices=3, model=None, **settings):
    parallel = ParallelModel(model or make(), devices)
    parallel.compile(**{"optimizer": adam(), "loss": "mse", **settings})
    return parallel


@pytest.fixture(scope="module")
def trained():
    """Return a model trained for two steps on three devices."""
    parallel = compiled(metrics=["mae"])
    for _ in range(2):
        parallel.train_on_batch(X, Y)
    return parallel


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_saved_file_holds_the_plain_model_and_its_optimiser(trained, tmp_path):
    trained.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is keras.Sequential
    assert same(loaded.get_weights(), trained.get_weights())
    assert same(loaded.get_weights(), trained.inner.get_weights())
    assert loaded.optimizer.iterations == 2
    values = [[v.numpy() for v in model.optimizer.variables] for model in (loaded, trained)]
    assert same(*values)
    assert np.allclose(loaded.predict(X, verbose=0), trained.predict(X, verbose=0), rtol=1e-5)
    assert loaded.evaluate(X, Y, verbose=0) == pytest.approx(trained.evaluate(X, Y, verbose=0), rel=1e-5)


def test_saved_file_equals_that_of_a_model_without_towers(trained, tmp_path):
    plain = make()
    plain.compile(adam(), "mse", metrics=["mae"])
    plain.train_on_batch(X, Y)
    contents = []
    for name, model in (("plain", plain), ("parallel", trained)):
        model.save(tmp_path / f"{name}.keras")
        with zipfile.ZipFile(tmp_path / f"{name}.keras") as archive:
            config = archive.read("config.json").decode()
            contents.append((re.sub(r'"shared_object_id": \d+', "", config), archive.namelist()))
            assert not re.search("parallel|tower|multigpu", config, re.IGNORECASE)
    assert contents[0] == contents[1]


def test_saved_weights_load_into_plain_and_parallel_models(trained, tmp_path):
    trained.save_weights(tmp_path / "model.weights.h5")
    plain, other = make(), ParallelModel(make(), 2)
    for model in (plain, other):
        model.set_weights([0 * weight for weight in model.get_weights()])
        model.load_weights(tmp_path / "model.weights.h5")
        assert same(model.get_weights(), trained.get_weights())


def test_export_serves_the_plain_model(trained, tmp_path):
    trained.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    assert np.allclose(served.serve(tf.constant(X)), trained.inner(X), rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def uninterrupted():
    """Return the losses of four steps on one device."""
    plain = make()
    plain.compile(adam(), "mse")
    return [plain.train_on_batch(X, Y) for _ in range(4)]


@pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 2), (2, None)])
def test_loaded_model_continues_training_on_another_number_of_devices(uninterrupted, tmp_path, first, then):
    parallel = compiled(first)
    losses = [parallel.train_on_batch(X, Y) for _ in range(2)]
    parallel.save(tmp_path / "model.keras")
    model = keras.models.load_model(tmp_path / "model.keras")
    if then:
        model = ParallelModel(model, then)
        assert model.compiled
    losses += [model.train_on_batch(X, Y) for _ in range(2)]
    assert losses == pytest.approx(uninterrupted, rel=1e-5)


def test_keras_callbacks_work_with_a_parallel_model(tmp_path):
    parallel = compiled(metrics=["mae"])
    epochs, rates = [], []
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", save_best_only=True),
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True),
        # no later epoch counts as an improvement over the first
        keras.callbacks.EarlyStopping("loss", min_delta=100.0, patience=2, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau("loss", min_delta=100.0, factor=0.5, patience=1),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        keras.callbacks.TensorBoard(tmp_path / "board", histogram_freq=1),
        keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: (
                epochs.append(parallel.get_weights()),
                rates.append(float(parallel.optimizer.learning_rate)),
            )
        ),
    ]
    history = parallel.fit(
        X, Y, batch_size=4, epochs=9, verbose=0, validation_data=(X, Y), callbacks=callbacks
    ).history
    assert len(history["loss"]) == 3
    assert same(parallel.get_weights(), epochs[0])
    assert rates == pytest.approx([0.01, 0.005, 0.0025])
    assert [len(row) for row in csv.reader((tmp_path / "log.csv").open())] == [6] * 4
    assert list((tmp_path / "board").rglob("events*"))
    best = int(np.argmin(history["val_loss"]))
    assert same(keras.models.load_model(tmp_path / "best.keras").get_weights(), epochs[best])
    plain = make()
    for epoch, weights in enumerate(epochs):
        plain.load_weights(tmp_path / f"{epoch + 1}.weights.h5")
        assert same(plain.get_weights(), weights)


class Interrupt(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt


def test_interrupted_fit_resumes_on_another_number_of_devices(uninterrupted, tmp_path):
    settings = {"x": X, "y": Y, "batch_size": 7, "epochs": 4, "verbose": 0, "shuffle": False}
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with pytest.raises(KeyboardInterrupt):
        compiled(3).fit(**settings, callbacks=[backup, Interrupt()])
    history = compiled(2).fit(**settings, callbacks=[keras.callbacks.BackupAndRestore(tmp_path / "backup")])
    assert history.epoch == [2, 3]
    assert history.history["loss"] == pytest.approx(uninterrupted[2:], rel=1e-5)


def test_saving_or_cloning_a_parallel_model_is_an_error_with_the_remedy(trained, tmp_path):
    for refused in (
        lambda: keras.saving.save_model(trained, tmp_path / "model.keras"),
        lambda: keras.models.clone_model(trained),
    ):
        with pytest.raises(TypeError, match=r"parallel.save\(path\), .*clone_model\(parallel.inner\)"):
            refused()
    assert keras.models.model_from_json(trained.to_json()).name == "net"


def test_inner_model_shares_weights_and_predicts_alone(trained):
    assert np.allclose(trained.inner.predict(X, verbose=0), trained.predict(X, verbose=0), rtol=1e-5)
    before = trained.inner.get_weights()
    trained.set_weights([weight + 1 for weight in before])
    assert same(trained.inner.get_weights(), [weight + 1 for weight in before])
    trained.set_weights(before)
