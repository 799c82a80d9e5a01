import json
import os
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.processes import free_ports

from multigpu.devices import available_devices, share_cpu
from multigpu.engines import make_engine
from multigpu.errors import DeviceError

ROWS = [7, 6, 7, 1]  # uneven on two and on three devices, and fewer than devices
SIGNATURE = [tf.TensorSpec((None, 6), tf.float32), tf.TensorSpec((None, 2), tf.float32)]
# TensorFlow's collectives allow one size of MirroredStrategy in a process
ENGINES = [("single", 1), ("parallel-model", 2), ("parallel-model", 3), ("mirrored", 2), ("stages", 2)]


def batches(num_steps):
    rng = np.random.default_rng(1)
    for step in range(num_steps):
        rows = ROWS[step % len(ROWS)]
        yield rng.normal(size=(rows, 6)).astype("f"), rng.normal(size=(rows, 2)).astype("f")


def loss_of(model, x, y):
    predicted = model(x, training=True)
    return tf.reduce_mean(tf.reduce_sum((predicted - y) ** 2, axis=1)), predicted


def unchanged(gradients):
    return gradients, ()


def make(engine):
    with engine.scope():
        keras.utils.set_random_seed(1)
        hidden = keras.layers.Dense(5, "tanh")
        model = keras.Sequential(
            [keras.Input((6,)), hidden, keras.layers.LayerNormalization(), keras.layers.Dense(2)]
        )
        model = engine.place(model)
        # unlike Adam, it distinguishes a gradient from three times the gradient
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
        optimizer.build(model.trainable_variables)
    return model, optimizer


def train(engine, num_parts=1):
    """Train a model without batch statistics for 20 steps.

    Returns:
        The losses and norms of gradients, the outputs, and the final values of all variables.
    """
    model, optimizer = make(engine)

    def prepare(gradients):
        clipped, norm = tf.clip_by_global_norm(gradients, 1.0)
        return clipped, {"norm": norm}

    step = engine.train_step(model, optimizer, loss_of, prepare, SIGNATURE, num_parts)
    results = [step(tf.constant(len(x)), x, y) for x, y in batches(20)]
    losses = [float(loss) for loss, *_ in results]
    outputs = [np.asarray(predicted) for _, predicted, _ in results]
    norms = [float(metrics["norm"]) for *_, metrics in results]  # clipping hides wrong ones from the weights
    return [*losses, *norms], outputs, [np.asarray(v) for v in (*model.variables, *optimizer.variables)]


@pytest.fixture(scope="module")
def on_one_device():
    return train(make_engine("", ["/CPU:0"]))


@pytest.mark.parametrize(("name", "num_devices"), ENGINES[1:])
def test_engines_equal_one_device_over_twenty_steps(name, num_devices, on_one_device):
    engine = make_engine(name, available_devices()[:num_devices])
    assert engine.num_devices == num_devices
    assert_equal(train(engine), on_one_device)


def test_towers_on_one_cpu_equal_one_device_over_twenty_steps(on_one_device):
    engine = make_engine("", share_cpu(2))
    assert (engine.name, engine.num_devices) == ("parallel-model", 1)
    assert_equal(train(engine), on_one_device)


def assert_equal(trained, expected):
    numbers, outputs, values = trained
    np.testing.assert_allclose(numbers, expected[0], rtol=1e-5)
    for own, other in zip([*outputs, *values], [*expected[1], *expected[2]], strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "num_devices"), ENGINES)
def test_gradient_accumulation_equals_the_whole_batch(name, num_devices, on_one_device):
    engine = make_engine(name, available_devices()[:num_devices])
    assert_equal(train(engine, num_parts=3), on_one_device)


@pytest.mark.parametrize(("name", "num_devices"), [("single", 1), ("parallel-model", 2), ("mirrored", 2)])
def test_accumulated_parts_run_one_after_the_other(name, num_devices):
    engine = make_engine(name, available_devices()[:num_devices])
    model, optimizer = make(engine)
    seen = []

    def record(x, what):
        seen.append((what, sorted(x[:, 0].astype(int).tolist())))
        time.sleep(0.02)  # if parts ran in parallel, another would run now
        return x

    @tf.custom_gradient
    def seen_both_ways(predicted, x):
        def backward(above):
            # not stateful: TensorFlow would keep the order of stateful ops
            below = tf.numpy_function(
                lambda x, above: record(x, "backward") * 0 + above,
                [x[:, :2], above],
                tf.float32,
                stateful=False,
            )
            return tf.ensure_shape(below, predicted.shape), None

        return tf.identity(predicted), backward

    def loss_of(model, x, y):
        forward = tf.numpy_function(lambda x: record(x, "forward"), [x], tf.float32, stateful=False)
        predicted = seen_both_ways(model(tf.ensure_shape(forward, x.shape), training=True), x)
        return tf.reduce_mean((predicted - y) ** 2), predicted

    step = engine.train_step(model, optimizer, loss_of, unchanged, SIGNATURE, 4)
    x = np.repeat(np.arange(8.0, dtype="f")[:, None], 6, axis=1)
    step(tf.constant(8), x, np.ones((8, 2), "f"))
    of_device = [[] for _ in range(num_devices)]
    per_device = 8 // num_devices
    for what, rows in seen:
        device = rows[0] // per_device if name == "mirrored" else rows[0] % 2 * (num_devices - 1)
        of_device[device].append((what, rows))
    for order in of_device:
        assert [what for what, _ in order] == ["forward", "backward"] * 4
        assert [rows for _, rows in order[::2]] == [rows for _, rows in order[1::2]]
        assert [rows for _, rows in order[::2]] == sorted(rows for _, rows in order[::2])


def test_accumulated_step_is_traced_once():
    engine = make_engine("", ["/CPU:0"])
    model, optimizer = make(engine)
    traced = []

    def counted(model, x, y):
        traced.append(x)
        return loss_of(model, x, y)

    step = engine.train_step(model, optimizer, counted, unchanged, SIGNATURE, 8)
    step(tf.constant(16), np.ones((16, 6), "f"), np.ones((16, 2), "f"))
    assert len(traced) == 1


def test_accumulated_parts_draw_own_masks_and_update_statistics_in_turn():
    engine = make_engine("", ["/CPU:0"])
    with engine.scope():
        norm = keras.layers.BatchNormalization(momentum=0.5)
        model = keras.Sequential([keras.Input((6,)), norm, keras.layers.Dropout(0.5, seed=1)])
        model.add(keras.layers.Dense(2))
        optimizer = keras.optimizers.SGD(0.0)
        optimizer.build(model.trainable_variables)

    def loss_of(model, x, y):
        hidden = model.layers[1](model.layers[0](x, training=True), training=True)
        return tf.reduce_mean(model.layers[2](hidden)), hidden

    step = engine.train_step(model, optimizer, loss_of, unchanged, SIGNATURE, 2)
    x = np.random.default_rng(1).normal(size=(4, 6)).astype("f")
    _, hidden, _ = step(tf.constant(4), np.concatenate([x, x]), np.ones((8, 2), "f"))
    assert np.any((np.asarray(hidden[:4]) == 0) != (np.asarray(hidden[4:]) == 0))
    np.testing.assert_allclose(np.asarray(norm.moving_mean), 0.75 * x.mean(axis=0), rtol=1e-5, atol=1e-6)


def make_skipping(engine, scale=1.0):
    """Return a model, and an optimiser that skips steps that are not finite."""
    with engine.scope():
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Dense(5), keras.layers.Dense(5), keras.layers.Dense(2)]
        model = engine.place(keras.Sequential([keras.Input((6,)), *layers]))
        adam = keras.optimizers.Adam(0.01)
        optimizer = keras.optimizers.LossScaleOptimizer(adam, initial_scale=scale)
        optimizer.build(model.trainable_variables)
    return model, optimizer


@pytest.mark.parametrize(
    ("name", "num_devices", "num_parts"),
    [
        ("single", 1, 2),
        ("parallel-model", 2, 1),
        ("parallel-model", 2, 2),
        ("mirrored", 2, 1),
        ("mirrored", 2, 2),
        ("stages", 2, 1),
    ],
)
def test_nonfinite_step_is_skipped_and_the_next_one_is_applied(name, num_devices, num_parts):
    engine = make_engine(name, available_devices()[:num_devices])
    model, optimizer = make_skipping(engine)
    step = engine.train_step(model, optimizer, loss_of, unchanged, SIGNATURE, num_parts)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(7, 6)).astype("f"), rng.normal(size=(7, 2)).astype("f")
    step(tf.constant(7), x, y)
    kept = [*model.weights, *optimizer.inner_optimizer.variables]
    before = [np.asarray(v) for v in kept]
    for row, value in ((0, np.nan), (6, np.inf)):
        bad = x.copy()
        bad[row, 2] = value
        loss, *_ = step(tf.constant(7), bad, y)
        assert not np.isfinite(float(loss))
        for variable, old in zip(kept, before, strict=True):
            np.testing.assert_array_equal(np.asarray(variable), old, variable.path)
    loss, *_ = step(tf.constant(7), x, y)
    assert np.isfinite(float(loss))
    for variable, old in zip(kept, before, strict=True):
        assert np.all(np.isfinite(np.asarray(variable)))
        assert "learning_rate" in variable.path or np.any(np.asarray(variable) != old), variable.path


@pytest.mark.parametrize(("name", "num_devices"), ENGINES)
def test_step_with_infinite_loss_and_finite_gradients_is_skipped(name, num_devices):
    engine = make_engine(name, available_devices()[:num_devices])
    model, optimizer = make_skipping(engine)

    def infinite_loss(model, x, y):  # as for a sequence whose probability is 0
        loss, predicted = loss_of(model, tf.where(tf.math.is_finite(x), x, 0.0), y)
        return loss + tf.reduce_max(x), predicted

    step = engine.train_step(model, optimizer, infinite_loss, unchanged, SIGNATURE)
    x, y = np.ones((7, 6), "f"), np.ones((7, 2), "f")
    before = [np.asarray(v) for v in model.weights]
    x[5, 0] = np.inf
    loss, *_ = step(tf.constant(7), x, y)
    assert float(loss) == np.inf
    for variable, old in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(np.asarray(variable), old)


def test_synchronized_statistics_of_accumulated_parts_cover_one_part():
    engine = make_engine("parallel-model", available_devices()[:2])
    with engine.scope():
        norm = keras.layers.BatchNormalization(synchronized=True, momentum=0.0)
        model = keras.Sequential([keras.Input((6,)), norm, keras.layers.Dense(2)])
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
    step = engine.train_step(model, optimizer, loss_of, unchanged, SIGNATURE, 2)
    x, y = np.random.default_rng(1).normal(size=(8, 6)).astype("f"), np.ones((8, 2), "f")
    step(tf.constant(8), x, y)
    np.testing.assert_allclose(np.asarray(norm.moving_mean), x[4:].mean(axis=0), rtol=1e-5, atol=1e-6)


def test_mirrored_engine_rejects_synchronized_statistics_with_accumulation():
    engine = make_engine("mirrored", available_devices()[:2])
    with engine.scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.BatchNormalization(synchronized=True)])
    with pytest.raises(DeviceError, match="2 parts with synchronized"):
        engine.train_step(model, keras.optimizers.SGD(0.1), loss_of, unchanged, SIGNATURE, 2)


def quantized_step(engine, num_parts=1):
    """Train a model with scales of float8 for six steps; return the scales by name."""
    with engine.scope():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5), keras.layers.Dense(2)])
        with pytest.warns(UserWarning, match="quantize"):
            model.quantize("float8")
        model = engine.place(model)
        optimizer = keras.optimizers.SGD(0.05)
        optimizer.build(model.trainable_variables)
    step = engine.train_step(model, optimizer, loss_of, unchanged, SIGNATURE, num_parts)
    for x, y in batches(6):
        step(tf.constant(len(x)), x, y)
    overwritten = [weight for weight in model.trainable_variables if weight.overwrite_with_gradient]
    return {weight.path.partition("/")[2]: np.asarray(weight) for weight in overwritten}


@pytest.mark.parametrize(("name", "num_devices"), [("single", 1), ("parallel-model", 2), ("stages", 2)])
def test_scales_of_float8_are_the_maximum_over_the_parts_of_a_batch(name, num_devices):
    expected = quantized_step(make_engine("single", available_devices()[:1]))
    scales = quantized_step(make_engine(name, available_devices()[:num_devices]), num_parts=2)
    assert len(scales) == 12
    for place, (name, own) in enumerate(scales.items()):
        other = list(expected.values())[place]
        if "outputs_grad" in name:  # the loss of a part is a mean over its own rows
            assert np.all((own <= 3 * other) & (own >= 0.9 * other)), name
        else:
            np.testing.assert_allclose(own, other, rtol=0.05)


def test_mirrored_engine_refuses_a_model_in_float8():
    with pytest.raises(DeviceError, match=r"mirrored: .*float8.*parallel-model"):
        quantized_step(make_engine("mirrored", available_devices()[:2]))


def test_worker_without_rows_does_not_change_weights():
    engine = make_engine("mirrored", available_devices()[:2])
    engine.worker, engine.num_workers = 1, 2  # as if worker 0 were elsewhere
    model, optimizer = make(engine)
    before = [np.asarray(v) for v in model.variables]
    step = engine.train_step(model, optimizer, loss_of, unchanged, SIGNATURE)
    assert engine.local_rows([7]) == [7]
    loss, outputs, _ = step(tf.constant(1), np.ones((1, 6), "f"), np.ones((1, 2), "f"))
    assert float(loss) == 0
    assert outputs.shape == (0, 2)
    for old, new in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(old, np.asarray(new))


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_weight_without_gradient_is_not_updated():
    engine = make_engine("mirrored", available_devices()[:2])
    model, optimizer = make(engine)

    def bias_loss(model, x, y):
        return tf.reduce_mean((model.layers[-1].bias - y) ** 2), y

    step = engine.train_step(model, optimizer, bias_loss, unchanged, SIGNATURE)
    kernel = np.asarray(model.layers[0].kernel)
    step(tf.constant(4), np.ones((4, 6), "f"), np.ones((4, 2), "f"))
    np.testing.assert_array_equal(kernel, np.asarray(model.layers[0].kernel))
    np.testing.assert_allclose(np.asarray(model.layers[-1].bias), 0.05, rtol=1e-5)


@pytest.mark.parametrize(("name", "num_devices"), ENGINES)
def test_spread_function_keeps_the_order_of_rows(name, num_devices):
    engine = make_engine(name, available_devices()[:num_devices])
    rows = np.arange(5, dtype="f")
    np.testing.assert_array_equal(engine.spread(lambda x: 2 * x)(rows), 2 * rows)


def test_default_engine_of_several_devices_is_parallel_model():
    assert make_engine("", available_devices()[:2]).name == "parallel-model"
    assert make_engine("", available_devices()[:1]).name == "single"


def test_workers_read_each_row_once_and_at_least_one_row():
    workers = []
    for index in range(3):
        engine = make_engine("", ["/CPU:0"])
        engine.worker, engine.num_workers = index, 3
        workers.append(engine)
    for places in ([4, 8, 1, 9, 7, 3, 2], [5, 6, 1]):
        assert [place for engine in workers for place in engine.local_rows(places)] == places
    assert [engine.local_rows([5]) for engine in workers] == [[5], [5], [5]]


@pytest.mark.parametrize(
    ("name", "devices", "words"),
    [
        ("single", ["/CPU:0", "/CPU:1"], "expected 1 device"),
        ("mirrored", ["/CPU:0"], "expected several devices"),
        ("", ["/CPU:7"], "/CPU:7 requested"),
        ("horovod", ["/CPU:0", "/CPU:1"], "expected one of single, parallel-model"),
        ("multi-worker", ["/CPU:0"], "TF_CONFIG"),
        ("stages", ["/CPU:0"], "expected several devices"),
    ],
)
def test_unavailable_engine_is_an_error(name, devices, words, monkeypatch):
    for variable in ("TF_CONFIG", "SLURM_PROCID"):
        monkeypatch.delitem(os.environ, variable, raising=False)
    with pytest.raises(DeviceError, match=words):
        make_engine(name, devices)


VALUES = """
from multigpu.engines import make_engine

engine = make_engine("multi-worker", [])
print(engine.worker, engine.value_of_chief(0.1 + engine.worker))
"""


def test_every_worker_gets_the_value_of_the_chief():
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    workers = []
    for index in range(2):
        settings = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        environment = {**os.environ, "TF_CONFIG": settings}
        command = [sys.executable, "-c", VALUES]
        workers.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    assert [worker.communicate(timeout=300)[0].split() for worker in workers] == [["0", "0.1"], ["1", "0.1"]]


def test_alone_the_value_of_the_chief_is_ones_own():
    assert make_engine("single", ["/CPU:0"]).value_of_chief(0.3) == 0.3
