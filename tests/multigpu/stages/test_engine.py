"""Tests what the engine `stages` does beyond what `test_engines.py` tests of every engine."""

import collections
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu.checking.executed_graph import executed_graph
from multigpu.devices import available_devices
from multigpu.engines import make_engine
from multigpu.errors import DeviceError

SIGNATURE = [tf.TensorSpec((None, None), tf.int16), tf.TensorSpec((None,), tf.int32)]
RNG = np.random.default_rng(1)
AUDIO = RNG.integers(-9, 9, (7, 5)).astype(np.int16)
NUM_SAMPLES = RNG.integers(2, 6, 7).astype(np.int32)


class Front(keras.layers.Layer):
    """Takes what the model is called with, two tensors, and passes both on."""

    def __init__(self):
        super().__init__(name="front", autocast=False)
        self.dense = keras.layers.Dense(3, "tanh", name="dense")

    def call(self, inputs):
        audio, num_samples = inputs
        return self.dense(tf.cast(audio, tf.float32)[:, :, None]), num_samples


class Back(keras.layers.Layer):
    def __init__(self):
        super().__init__(name="back", autocast=False)
        self.dropout = keras.layers.Dropout(0.0, name="dropout")
        self.dense = keras.layers.Dense(1, name="dense")

    def call(self, inputs, training=False):
        frames, num_samples = inputs
        return self.dense(self.dropout(frames, training=training))[:, :, 0], num_samples


class TwoArguments(keras.Model):
    """A call of its own with two arguments, as models for speech do."""

    def __init__(self):
        super().__init__()
        self.front, self.back = Front(), Back()
        self(AUDIO, NUM_SAMPLES)

    def call(self, audio, num_samples, training=False):
        return self.back(self.front((audio, num_samples)), training=training)

    def stages(self):
        return [self.front, self.back]


def loss_of(model, audio, num_samples):
    values, num_frames = model(audio, num_samples, training=True)
    mask = tf.sequence_mask(num_frames, tf.shape(values)[1], tf.float32)
    return tf.reduce_mean(tf.reduce_sum((values - 1) ** 2 * mask, axis=1)), tf.argmax(values, axis=1)


def clipped(gradients):
    return tf.clip_by_global_norm(gradients, 0.5)


def make(engine):
    """Return a model that is in place, and its optimiser."""
    with engine.scope():
        keras.utils.set_random_seed(1)
        model = engine.place(TwoArguments(), (AUDIO, NUM_SAMPLES))
        optimizer = keras.optimizers.Adam(0.1)
        optimizer.build(model.trainable_variables)
    return model, optimizer


def test_training_continues_in_another_engine_with_variables_copied_by_their_order():
    stages, single = make_engine("stages", available_devices()[:2]), make_engine("", ["/CPU:0"])
    results = []
    for first, second in ((single, single), (stages, single), (single, stages)):
        model, optimizer = before = make(first)
        _, best, norm = first.train_step(*before, loss_of, clipped, SIGNATURE)(7, AUDIO, NUM_SAMPLES)
        state = [np.asarray(variable) for variable in (*model.variables, *optimizer.variables)]
        model, optimizer = after = make(second)
        for variable, value in zip((*model.variables, *optimizer.variables), state, strict=True):
            variable.assign(value)
        # a row for one of four micro-batches
        loss, *_ = second.train_step(*after, loss_of, clipped, SIGNATURE)(1, AUDIO[:1], NUM_SAMPLES[:1])
        state = [np.asarray(variable) for variable in (*model.variables, *optimizer.variables)]
        results.append([best, norm, loss, *state])
    for result in results[1:]:
        for a, b in zip(result, results[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_placed_model_is_called_as_the_model_is_and_weights_are_on_their_devices():
    engine = make_engine("", available_devices()[:2], num_stages=2)
    assert engine.name == "stages"
    model, optimizer = make(engine)
    on_last = tf.function(engine.spread(lambda *batch: model(*batch)), input_signature=SIGNATURE)
    for given, expected in zip(on_last(AUDIO, NUM_SAMPLES), model.inner(AUDIO, NUM_SAMPLES), strict=True):
        np.testing.assert_allclose(given, expected, rtol=1e-6)
    homes = {"front": "CPU:0", "back": "CPU:1"}
    for variable in model.weights:
        assert variable.value.device.endswith(homes[variable.path.split("/")[-3]]), variable.path
    for slot in optimizer.variables[2:]:
        assert slot.value.device.endswith(homes["front" if "front" in slot.path else "back"]), slot.path


def test_clipping_unscaling_and_updates_run_beside_the_weights():
    engine = make_engine("stages", available_devices()[:2])
    model, _ = make(engine)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.AdamW(0.1, weight_decay=0.1))
    optimizer.build(model.trainable_variables)
    step = engine.train_step(model, optimizer, loss_of, clipped, SIGNATURE)
    step(7, AUDIO, NUM_SAMPLES)
    devices = executed_graph(lambda: step(7, AUDIO, NUM_SAMPLES)).devices
    for pattern in (
        r"clip_by_global_norm/mul_\d+",
        r"then/.*/truediv(_\d+)?",
        r"then/.*/AssignSub.*",
        "IsFinite.*",
    ):
        placed = collections.Counter(
            devices[name] for name in devices if re.fullmatch(f"(.*/)?{pattern}", name)
        )
        # the losses of four micro-batches are tested in the last stage
        placed["/CPU:1"] -= 4 if pattern == "IsFinite.*" else 0
        assert set(placed) == set(engine.devices), pattern
        assert placed["/CPU:0"] == placed["/CPU:1"] > 0, pattern


def cautious(model, audio, num_samples):
    try:
        values, num_frames = model(audio, num_samples, training=True)
    except Exception:
        values, num_frames = tf.zeros((len(audio), 1, 1)), tf.ones(len(audio), tf.int32)
    mask = tf.sequence_mask(num_frames, tf.shape(values)[1], tf.float32)
    return tf.reduce_mean(tf.reduce_sum((values - 1) ** 2 * mask, axis=1)), tf.argmax(values, axis=1)


def test_loss_function_that_catches_errors_has_the_loss_of_one_that_does_not():
    losses = []
    for function in (loss_of, cautious):
        engine = make_engine("stages", available_devices()[:2])
        step = engine.train_step(*make(engine), function, clipped, SIGNATURE)
        losses.append(float(step(7, AUDIO, NUM_SAMPLES)[0]))
    assert losses[0] == losses[1]


def never(model, audio, num_samples):
    return tf.reduce_mean(tf.cast(audio, tf.float32)), num_samples


def twice(model, audio, num_samples):
    model(audio, num_samples, training=True)
    return loss_of(model, audio, num_samples)


def untrained(model, audio, num_samples):
    return tf.reduce_mean(model(audio, num_samples)[0]), num_samples


@pytest.mark.parametrize(
    ("function", "words"),
    [(never, "never does"), (twice, "calls it 2 times"), (untrained, "training=True")],
)
def test_loss_function_that_does_not_call_the_model_once_is_an_error(function, words):
    engine = make_engine("stages", available_devices()[:2])
    step = engine.train_step(*make(engine), function, clipped, SIGNATURE)
    with pytest.raises(ValueError, match=words):
        step(7, AUDIO, NUM_SAMPLES)


def test_impossible_stages_are_an_error_with_the_reason():
    devices = available_devices()
    with pytest.raises(DeviceError, match="parallel-model: does not cut models into stages"):
        make_engine("parallel-model", devices[:2], num_stages=2)
    with pytest.raises(DeviceError, match="received 2"):
        make_engine("stages", devices[:3], num_stages=2)
    engine = make_engine("stages", devices[:3])
    with pytest.raises(DeviceError, match=r"expected 1 to 2, .*received 3"):
        engine.place(TwoArguments(), (AUDIO, NUM_SAMPLES))
    with pytest.raises(DeviceError, match="not built yet"):
        engine.place(keras.Sequential([keras.layers.Dense(1)]))
    norm = keras.layers.BatchNormalization(synchronized=True)
    with pytest.raises(DeviceError, match="2 parts with synchronized"):
        engine.check_num_parts(keras.Sequential([keras.Input((6,)), norm]), 2)
    with pytest.raises(DeviceError, match=r"StagesEngine.place"):
        engine.train_step(TwoArguments(), keras.optimizers.SGD(), loss_of, clipped, SIGNATURE)
