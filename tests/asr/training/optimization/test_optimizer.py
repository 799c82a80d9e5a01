"""Test optimisers, learning rates, and the decisions that follow from the history of dev errors."""

import dataclasses
import functools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from asr.base.config import TrainConfig
from asr.training.optimization.optimizer import loss_scale_of, make_optimizer
from asr.training.optimization.schedule import (
    Cosine,
    WarmUp,
    learning_rate_of,
    make_learning_rate,
    plateau_factor,
    set_plateau,
    stops_early,
)
from asr.training.optimization.step import clip
from multigpu.devices import available_devices
from multigpu.engines import make_engine

CONFIG = TrainConfig(learning_rate=0.01, warmup_share=0.25, plateau_epochs=2, plateau_factor=0.5)
PLATEAU = dataclasses.replace(CONFIG, schedule="plateau")
OPTIMIZERS = ["adamw", "adam", "sgd", "lion", "adafactor"]
# what scales the loss is the same for all optimisers, so that two suffice for float16
PRECISIONS = [*((name, "float32") for name in OPTIMIZERS), ("adamw", "float16"), ("adafactor", "float16")]
SIGNATURE = [tf.TensorSpec((None, 6), tf.float32), tf.TensorSpec((None, 6), tf.float32)]


def batches(num_steps):
    rng = np.random.default_rng(1)
    for _ in range(num_steps):
        yield rng.normal(size=(6, 6)).astype("f"), rng.normal(size=(6, 6)).astype("f")


def loss_of(model, x, y):
    predicted = model(x, training=True)
    return tf.reduce_mean((predicted - y) ** 2), predicted


def make(config, engine, dtype="float32", loss_factor=None, compiled=True, on_one_device=True):
    with engine.scope():
        keras.utils.set_random_seed(1)
        # six weights of two shapes, each of which XLA compiles
        layers = [keras.layers.Dense(6, "tanh", dtype=dtype), keras.layers.LayerNormalization(dtype=dtype)]
        model = keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(6)])
        on_one_device &= engine.has_weights_on_one_device
        optimizer = make_optimizer(config, 100, on_one_device, compiled and on_one_device)
        optimizer.build(model.trainable_variables)

    def prepare(gradients):
        clipped, norm = tf.clip_by_global_norm(gradients, 0.5 * loss_scale_of(optimizer))
        return clipped, norm / loss_scale_of(optimizer)

    def loss_of_rows(model, x, y):
        loss, predicted = loss_of(model, x, y)
        return loss * loss_factor, predicted

    used = loss_of_rows if loss_factor else loss_of
    return model, optimizer, engine.train_step(model, optimizer, used, prepare, SIGNATURE)


def trained(config, engine=None, num_steps=5, **how):
    model, optimizer, step = make(config, engine or make_engine("", ["/CPU:0"]), **how)
    for x, y in batches(num_steps):
        step(tf.constant(len(x)), x, y)
    return model, optimizer


@functools.cache
def trained_in_four_steps(optimizer, precision, **how):
    """Return a model and its optimiser, which several tests compare with others; it takes half a second."""
    config = dataclasses.replace(CONFIG, optimizer=optimizer, precision=precision, weight_decay=0.1)
    return trained(config, num_steps=4, **how)


def rates(config, num_steps):
    rate = make_learning_rate(config, num_steps)
    return [float(rate(tf.constant(step, tf.int64))) for step in range(num_steps)]


@pytest.mark.parametrize("schedule", ["cosine", "noam"])
def test_traced_step_computes_the_learning_rate_once(schedule, monkeypatch):
    def rate(self, step):
        graphs.append(tf.compat.v1.get_default_graph())
        return original(self, step)

    kind, graphs = {"cosine": Cosine, "noam": WarmUp}[schedule], []
    original = kind.rate
    monkeypatch.setattr(kind, "rate", rate)
    trained(dataclasses.replace(CONFIG, schedule=schedule), num_steps=1)
    assert graphs
    assert len(graphs) == len({id(graph) for graph in graphs})


@pytest.mark.parametrize("num_steps", [1, 7, 60])
def test_cosine_schedule_equals_that_of_existing_runs(num_steps):
    warmup = max(1, round(0.1 * num_steps))
    before = keras.optimizers.schedules.CosineDecay(
        0.0, max(1, num_steps - warmup), warmup_target=2e-3, warmup_steps=warmup
    )
    assert rates(TrainConfig(), num_steps) == [float(before(step)) for step in range(num_steps)]


def test_learning_rates_rise_linearly_and_follow_their_schedule():
    steps = np.arange(100)
    rising = np.minimum(steps / 25, 1) * 0.01
    expected = {
        "constant": rising,
        "plateau": rising,
        "noam": rising * np.sqrt(25 / np.maximum(steps, 25)),
        "cosine": rising * np.where(steps < 25, 1, 0.5 + 0.5 * np.cos(np.pi * (steps - 25) / 75)),
    }
    for schedule, values in expected.items():
        config = dataclasses.replace(CONFIG, schedule=schedule)
        np.testing.assert_allclose(rates(config, 100), values, rtol=1e-5, atol=1e-9, err_msg=schedule)


@pytest.mark.parametrize("schedule", ["cosine", "noam", "plateau"])
def test_first_step_without_warmup_has_the_peak_rate(schedule):
    values = rates(dataclasses.replace(CONFIG, schedule=schedule, warmup_share=0.0), 10)
    assert values[0] == pytest.approx(0.01)
    assert values == sorted(values, reverse=True)


def test_constant_learning_rate_can_be_set_by_a_callback():
    optimizer = make_optimizer(dataclasses.replace(CONFIG, schedule="constant", warmup_share=0.0), 100)
    assert learning_rate_of(optimizer) == pytest.approx(0.01)
    optimizer.learning_rate = 0.005
    assert learning_rate_of(optimizer) == pytest.approx(0.005)
    optimizer.build([keras.Variable(1.0)])
    assert any(float(np.asarray(v)) == np.float32(0.005) for v in optimizer.variables)  # kept in checkpoints


@pytest.mark.parametrize("schedule", ["constant", "noam", "plateau", "cosine"])
def test_schedules_are_saved_with_the_optimizer(schedule):
    inner = make_optimizer(dataclasses.replace(CONFIG, schedule=schedule), 100).inner_optimizer
    restored = keras.optimizers.deserialize(keras.optimizers.serialize(inner))
    for step in (0, 10, 30, 90):
        inner.iterations.assign(step)
        restored.iterations.assign(step)
        assert learning_rate_of(restored) == learning_rate_of(inner)


@pytest.mark.parametrize("devices", [1, 2])
def test_plateau_factor_reaches_the_compiled_step(devices):
    engine = make_engine("mirrored" if devices == 2 else "", available_devices()[:devices])
    config = dataclasses.replace(PLATEAU, optimizer="sgd", weight_decay=0.0, warmup_share=0.0)
    moved = []
    for factor in (1.0, 0.25):
        model, optimizer, step = make(config, engine)
        step.get_concrete_function()
        set_plateau(optimizer, factor)
        assert learning_rate_of(optimizer) == pytest.approx(0.01 * factor)
        before = np.asarray(model.weights[0])
        step(tf.constant(6), *next(batches(1)))
        moved.append(np.asarray(model.weights[0]) - before)
    np.testing.assert_allclose(moved[1], 0.25 * moved[0], rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(
    ("dev_errors", "factor"),
    [
        ([], 1.0),
        ([0.9, 0.8, 0.7, 0.6], 1.0),
        ([0.9, 0.9], 1.0),
        ([0.9, 0.9, 0.9], 0.5),
        ([0.9, 1.0, 0.9, 0.9], 0.5),  # counts again after a cut
        ([0.9, 1.0, 0.9, 0.9, 0.9], 0.25),
        ([0.9, 1.0, 0.8, 0.9, 0.7], 1.0),
        ([0.5, 0.6, 0.6, 0.55], 0.5),  # lower than before, but not than the lowest
        ([0.5, 0.6, 0.6, 0.55, 0.55], 0.25),
        ([math.nan, math.inf, 0.9], 0.5),
    ],
)
def test_plateau_schedule_cuts_the_rate_when_the_dev_error_no_longer_falls(dev_errors, factor):
    assert plateau_factor(dev_errors, PLATEAU) == factor


@pytest.mark.parametrize(
    ("dev_errors", "epochs", "stops"),
    [
        ([0.9] * 50, 0, False),
        ([], 1, False),
        ([0.9, 0.8, 0.8, 0.9], 3, False),
        ([0.9, 0.8, 0.8, 0.9, 0.85], 3, True),
        ([0.9, 0.8, 0.8, 0.9, 0.7], 3, False),
        ([0.5, math.nan], 1, True),
    ],
)
def test_run_stops_early_when_the_dev_error_no_longer_falls(dev_errors, epochs, stops):
    assert stops_early(dev_errors, epochs) is stops


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_trains_and_does_not_decay_biases_and_gains(optimizer):
    config = dataclasses.replace(CONFIG, optimizer=optimizer, warmup_share=0.0, schedule="constant")
    engine = make_engine("", ["/CPU:0"])
    ends = {}
    for decay in (0.0, 0.9):
        model, _, step = make(dataclasses.replace(config, weight_decay=decay), engine, compiled=False)
        x, y = next(batches(1))
        first, *_ = step(tf.constant(6), x, y)
        ends[decay] = {variable.path.split("/")[-1]: np.asarray(variable) for variable in model.weights}
    for _ in range(12):
        last, *_ = step(tf.constant(6), x, y)
    assert float(last) < float(first)
    for name in ("bias", "gamma", "beta"):
        np.testing.assert_array_equal(ends[0.0][name], ends[0.9][name])
    assert np.array_equal(ends[0.0]["kernel"], ends[0.9]["kernel"]) == (optimizer == "adam")


def assert_equal_bits(ends):
    (one, of_one), (two, of_two) = ends
    for first, second in zip(
        [*one.weights, *of_one.variables], [*two.weights, *of_two.variables], strict=True
    ):
        np.testing.assert_array_equal(np.asarray(first), np.asarray(second), first.path)
    assert int(np.asarray(of_one.iterations)) == 4


@pytest.mark.parametrize(("optimizer", "precision"), PRECISIONS)
def test_shared_update_equals_that_of_each_weight_bit_for_bit(optimizer, precision):
    each = trained_in_four_steps(optimizer, precision, compiled=False, on_one_device=False)
    assert_equal_bits([each, trained_in_four_steps(optimizer, precision, compiled=False)])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_compiled_update_equals_that_of_all_weights_in_one_function_bit_for_bit(optimizer):
    """The latter is what runs of earlier versions were trained with, which are resumed."""
    config = dataclasses.replace(CONFIG, optimizer=optimizer, weight_decay=0.1)
    engine = make_engine("", ["/CPU:0"])
    model, before, _ = make(config, engine, on_one_device=False)
    apply = before.apply

    def apply_all(gradients, weights):
        tf.function(lambda *each: apply(each, weights), jit_compile=True, autograph=False)(*gradients)

    before.apply = apply_all
    step = engine.train_step(
        model, before, loss_of, lambda gradients: tf.clip_by_global_norm(gradients, 0.5), SIGNATURE
    )
    for x, y in batches(4):
        step(tf.constant(len(x)), x, y)
    assert_equal_bits([(model, before), trained_in_four_steps(optimizer, "float32")])


@pytest.mark.parametrize(("optimizer", "precision"), PRECISIONS)
def test_compiled_update_differs_by_rounding_alone(optimizer, precision):
    plain, of_plain = trained_in_four_steps(optimizer, precision, compiled=False)
    compiled, of_compiled = trained_in_four_steps(optimizer, precision)
    for one, two in zip(
        [*plain.weights, *of_plain.variables], [*compiled.weights, *of_compiled.variables], strict=True
    ):
        np.testing.assert_allclose(np.asarray(one), np.asarray(two), rtol=1e-4, atol=1e-6, err_msg=one.path)
    assert int(np.asarray(of_compiled.iterations)) == 4


def shared_updates_of(graph):
    """Return of each update that weights of a shape share whether XLA compiles it."""
    functions = graph.as_graph_def().library.function
    shared = [each for each in functions if each.signature.name.startswith("__inference_update_")]
    return [each.attr["_XlaMustCompile"].b for each in shared]


@pytest.mark.parametrize(
    ("name", "devices", "compiled", "updates"),
    [
        ("single", 1, True, [True] * 2),
        ("single", 1, False, [False] * 2),
        ("parallel-model", 2, True, [True] * 2),
        ("mirrored", 2, True, []),
    ],
)
def test_update_is_traced_once_for_all_weights_of_a_shape(name, devices, compiled, updates):
    """Six weights have two shapes; a mirrored weight is on every device, each with its own update."""
    *_, step = make(CONFIG, make_engine(name, available_devices()[:devices]), compiled=compiled)
    assert shared_updates_of(step.get_concrete_function().graph) == updates


def test_gradient_that_is_not_finite_makes_all_clipped_ones_be_skipped():
    optimizer = make_optimizer(CONFIG, 100)
    for bad in (np.nan, np.inf):
        gradients = [tf.constant([[1.0, bad]]), None, tf.constant([1.0])]
        clipped, _ = clip(gradients, tf.constant(5.0))
        assert not bool(optimizer.check_finite(clipped))
    assert bool(optimizer.check_finite([tf.constant([1.0]), None]))


@pytest.mark.parametrize("compiled", [False, True])
def test_frozen_weight_without_gradient_is_left_alone(compiled):
    config = dataclasses.replace(CONFIG, warmup_share=0.0)
    optimizer = make_optimizer(config, 100, on_one_device=True, compiled=compiled)
    weights = [keras.Variable(np.ones(3, "f"), name=name) for name in ("kernel", "frozen")]
    optimizer.build(weights)
    optimizer.apply([tf.ones(3), None], weights)
    moved = [bool(np.any(np.asarray(weight) != 1)) for weight in weights]
    assert moved == [True, False]


def test_default_optimizer_equals_plain_adamw_bit_for_bit():
    config = dataclasses.replace(CONFIG, weight_decay=0.1)
    model, _ = trained(config, compiled=False)
    engine = make_engine("", ["/CPU:0"])
    other, *_ = make(config, engine, compiled=False)
    adamw = keras.optimizers.AdamW(make_learning_rate(config, 100), weight_decay=0.1, beta_2=0.98)
    adamw.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    adamw.build(other.trainable_variables)
    step = engine.train_step(
        other, adamw, loss_of, lambda gradients: tf.clip_by_global_norm(gradients, 0.5), SIGNATURE
    )
    for x, y in batches(5):
        step(tf.constant(len(x)), x, y)
    for one, two in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(two))


@pytest.mark.parametrize(
    ("name", "devices", "precision"),
    [
        ("single", 1, "float32"),
        ("single", 1, "float16"),
        ("parallel-model", 2, "float16"),
        ("mirrored", 2, "float16"),
        ("mirrored", 2, "float32"),
    ],
)
def test_any_number_of_steps_with_infinite_gradients_is_skipped(name, devices, precision):
    engine = make_engine(name, available_devices()[:devices])
    model, optimizer, step = make(dataclasses.replace(CONFIG, precision=precision), engine)
    (x, y), good = batches(2)
    step(tf.constant(6), x, y)
    inner = optimizer.inner_optimizer.variables
    before = [np.asarray(v) for v in [*model.weights, *inner]]
    scale = float(loss_scale_of(optimizer))
    assert scale == (2.0**15 if precision == "float16" else 1.0)
    x[3, 2] = np.nan
    for _ in range(3):
        step(tf.constant(6), x, y)
    for variable, old in zip([*model.weights, *inner], before, strict=True):
        np.testing.assert_array_equal(np.asarray(variable), old, variable.path)
    assert float(loss_scale_of(optimizer)) == (2.0**12 if precision == "float16" else 1.0)
    _, _, norm = step(tf.constant(6), *good)
    assert np.isfinite(float(norm))
    assert np.any(np.asarray(model.weights[0]) != before[0])
    assert int(np.asarray(optimizer.iterations)) == 2


@pytest.mark.parametrize(("name", "devices"), [("single", 1), ("parallel-model", 2)])
def test_scaled_loss_gives_the_same_weights(name, devices):
    engine = make_engine(name, available_devices()[:devices])
    plain, _ = trained(CONFIG, engine, compiled=False)
    scaled, _ = trained(dataclasses.replace(CONFIG, precision="float16"), engine, compiled=False)
    for one, two in zip(plain.weights, scaled.weights, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(two), rtol=1e-5, atol=1e-6)


def test_loss_scale_doubles_after_two_thousand_finite_steps():
    config, engine = dataclasses.replace(CONFIG, precision="float16"), make_engine("", ["/CPU:0"])
    _, optimizer, step = make(config, engine, compiled=False)
    counter = next(v for v in optimizer.variables if v.name == "step_counter")
    counter.assign(1999)
    step(tf.constant(6), *next(batches(1)))
    assert float(loss_scale_of(optimizer)) == 2.0**16


@pytest.mark.parametrize(("precision", "survives"), [("float32", False), ("float16", True)])
def test_gradients_too_small_for_float16_survive_if_the_loss_is_scaled(precision, survives):
    config = TrainConfig(
        precision=precision, optimizer="sgd", learning_rate=1e4, warmup_share=0.0, weight_decay=0.0
    )
    engine = make_engine("", ["/CPU:0"])
    model, _, step = make(config, engine, dtype="mixed_float16", loss_factor=1e-7, compiled=False)
    before = np.asarray(model.weights[0])
    step(tf.constant(6), *next(batches(1)))
    assert np.any(np.asarray(model.weights[0]) != before) == survives
