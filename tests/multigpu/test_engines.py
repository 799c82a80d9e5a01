import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu.devices import available_devices
from multigpu.engines import make_engine
from multigpu.errors import DeviceError

ROWS = [7, 6, 7, 1]  # uneven on two and on three devices, and fewer than devices
SIGNATURE = [tf.TensorSpec((None, 6), tf.float32), tf.TensorSpec((None, 2), tf.float32)]
# TensorFlow's collectives allow one size of MirroredStrategy in a process
ENGINES = [("single", 1), ("parallel-model", 2), ("parallel-model", 3), ("mirrored", 2)]


def batches(num_steps):
    rng = np.random.default_rng(1)
    for step in range(num_steps):
        rows = ROWS[step % len(ROWS)]
        yield rng.normal(size=(rows, 6)).astype("f"), rng.normal(size=(rows, 2)).astype("f")


def loss_of(model, x, y):
    predicted = model(x, training=True)
    return tf.reduce_mean(tf.reduce_sum((predicted - y) ** 2, axis=1)), predicted


def as_they_are(gradients):
    return gradients, ()


def make(engine):
    with engine.scope():
        keras.utils.set_random_seed(1)
        hidden = keras.layers.Dense(5, "tanh")
        model = keras.Sequential(
            [keras.Input((6,)), hidden, keras.layers.LayerNormalization(), keras.layers.Dense(2)]
        )
        # unlike Adam, it tells a gradient from three times the gradient
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
        optimizer.build(model.trainable_variables)
    return model, optimizer


def train(engine, num_steps, clip_norm):
    """Losses, outputs and last values of some steps of a model without batch statistics."""
    model, optimizer = make(engine)

    def prepare(gradients):
        if not clip_norm:
            return gradients, {}
        clipped, norm = tf.clip_by_global_norm(gradients, clip_norm)
        return clipped, {"norm": norm}

    step = engine.train_step(model, optimizer, loss_of, prepare, SIGNATURE)
    results = [step(tf.constant(len(x)), x, y) for x, y in batches(num_steps)]
    losses = [float(loss) for loss, *_ in results]
    outputs = [np.asarray(predicted) for _, predicted, _ in results]
    return losses, outputs, [np.asarray(v) for v in (*model.variables, *optimizer.variables)]


@pytest.fixture(scope="module", params=[None, 1.0], ids=["plain", "clipped"])
def on_one_device(request):
    return request.param, train(make_engine("", ["/CPU:0"]), 20, request.param)


@pytest.mark.parametrize(("name", "num_devices"), ENGINES[1:])
def test_engines_agree_with_one_device_over_twenty_steps(name, num_devices, on_one_device):
    clip_norm, expected = on_one_device
    engine = make_engine(name, available_devices()[:num_devices])
    assert engine.num_devices == num_devices
    losses, outputs, values = train(engine, 20, clip_norm)
    np.testing.assert_allclose(losses, expected[0], rtol=1e-5)
    for own, other in zip([*outputs, *values], [*expected[1], *expected[2]], strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)


def test_a_worker_without_a_row_of_its_own_changes_nothing():
    engine = make_engine("mirrored", available_devices()[:2])
    engine.worker, engine.num_workers = 1, 2  # as if worker 0 were elsewhere
    model, optimizer = make(engine)
    before = [np.asarray(v) for v in model.variables]
    step = engine.train_step(model, optimizer, loss_of, as_they_are, SIGNATURE)
    assert engine.own_rows([7]) == [7]
    loss, outputs, _ = step(tf.constant(1), np.ones((1, 6), "f"), np.ones((1, 2), "f"))
    assert float(loss) == 0
    assert outputs.shape == (0, 2)
    for old, new in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(old, np.asarray(new))


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_a_weight_without_a_gradient_is_left_alone():
    engine = make_engine("mirrored", available_devices()[:2])
    model, optimizer = make(engine)

    def bias_loss(model, x, y):
        return tf.reduce_mean((model.layers[-1].bias - y) ** 2), y

    step = engine.train_step(model, optimizer, bias_loss, as_they_are, SIGNATURE)
    kernel = np.asarray(model.layers[0].kernel)
    step(tf.constant(4), np.ones((4, 6), "f"), np.ones((4, 2), "f"))
    np.testing.assert_array_equal(kernel, np.asarray(model.layers[0].kernel))
    np.testing.assert_allclose(np.asarray(model.layers[-1].bias), 0.05, rtol=1e-5)


@pytest.mark.parametrize(("name", "num_devices"), ENGINES)
def test_spread_keeps_the_order_of_rows(name, num_devices):
    engine = make_engine(name, available_devices()[:num_devices])
    rows = np.arange(5, dtype="f")
    np.testing.assert_array_equal(engine.spread(lambda x: 2 * x)(rows), 2 * rows)


def test_the_usual_engine_is_parallel_model_for_several_devices():
    assert make_engine("", available_devices()[:2]).name == "parallel-model"
    assert make_engine("", available_devices()[:1]).name == "single"


def test_workers_read_every_row_once_and_none_reads_nothing():
    workers = []
    for index in range(3):
        engine = make_engine("", ["/CPU:0"])
        engine.worker, engine.num_workers = index, 3
        workers.append(engine)
    for places in ([4, 8, 1, 9, 7, 3, 2], [5, 6, 1]):
        assert [place for engine in workers for place in engine.own_rows(places)] == places
    assert [engine.own_rows([5]) for engine in workers] == [[5], [5], [5]]


@pytest.mark.parametrize(
    ("name", "devices", "words"),
    [
        ("single", ["/CPU:0", "/CPU:1"], "expected 1 device"),
        ("mirrored", ["/CPU:0"], "expected several devices"),
        ("", ["/CPU:7"], "/CPU:7 asked for"),
        ("horovod", ["/CPU:0", "/CPU:1"], "there are single, parallel-model"),
        ("multi-worker", ["/CPU:0"], "TF_CONFIG"),
    ],
)
def test_an_engine_that_cannot_be_had_is_an_error(name, devices, words, monkeypatch):
    for variable in ("TF_CONFIG", "SLURM_PROCID"):
        monkeypatch.delitem(os.environ, variable, raising=False)
    with pytest.raises(DeviceError, match=words):
        make_engine(name, devices)
