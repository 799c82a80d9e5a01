"""Tests that loss and gradients by stages equal those of one device, and where and when each stage runs."""

import collections
import functools
import re
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu import ParallelModel, StagedModel
from multigpu.stages.pipeline import Pipeline

RNG = np.random.default_rng(0)
X = RNG.normal(size=(11, 6, 6, 1))
Y = RNG.normal(size=(11, 2))
STAGES = [["c1"], ["c2", "c3"], ["flat", "d1", "d2"]]
layers = keras.layers


@pytest.fixture(autouse=True)
def _double_precision():
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")


def make(*between):
    """Return a model with a tensor that skips a stage, regularisers, and some layers more."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((6, 6, 1))
    x = skip = layers.Conv2D(3, 3, activation="tanh", name="c1", kernel_regularizer="l2")(inputs)
    x = layers.Conv2D(3, 3, padding="same", activation="tanh", name="c2")(x)
    for layer in between:
        x = layer()(x)
    x = layers.Conv2D(3, 3, padding="same", name="c3", activity_regularizer="l2")(x)
    x = layers.Dense(4, "tanh", name="d1")(layers.Flatten(name="flat")(x * skip))
    return keras.Model(inputs, layers.Dense(2, name="d2")(x))


def mse(outputs, y):
    return tf.reduce_mean((outputs - y) ** 2)


def on_one_device(model, x=X, y=Y):
    with tf.GradientTape() as tape:
        outputs = model(x, training=True)
        loss = tf.add_n([mse(outputs, y), *model.losses])
    return loss, outputs, tape.gradient(loss, model.trainable_variables)


def difference(ours, theirs):
    """Return the largest relative difference of any gradient."""
    pairs = [tuple(map(tf.convert_to_tensor, pair)) for pair in zip(ours, theirs, strict=True)]
    return max(float(tf.reduce_max(tf.abs(a - b)) / tf.reduce_max(tf.abs(b))) for a, b in pairs)


@pytest.mark.parametrize(
    ("num_micro_batches", "recompute", "compiled"),
    [
        pytest.param(1, False, True, marks=pytest.mark.slow),
        (4, False, True),
        pytest.param(4, True, True, marks=pytest.mark.slow),
        (3, True, False),
    ],
)
def test_step_equals_one_device_in_double_precision(num_micro_batches, recompute, compiled):
    staged = StagedModel(make(), STAGES, 3, num_micro_batches=num_micro_batches, recompute=recompute)
    step = tf.function(staged.loss_and_gradients) if compiled else staged.loss_and_gradients
    loss, outputs, gradients = step(mse, tf.constant(X), tf.constant(Y))
    expected = on_one_device(make())
    assert float(loss) == pytest.approx(float(expected[0]), rel=1e-12)
    assert np.allclose(outputs, expected[1], rtol=1e-12, atol=1e-12)
    assert difference(gradients, expected[2]) < 1e-12


@pytest.mark.parametrize("recompute", [pytest.param(False, marks=pytest.mark.slow), True])
def test_synchronized_batch_normalisation_equals_one_device(recompute):
    def norm():
        return layers.BatchNormalization(momentum=0.5, synchronized=True, name="norm")

    stages = [["c1"], ["c2", "norm", "c3"], STAGES[2]]
    inner, plain = make(norm), make(norm)
    staged = StagedModel(inner, stages, 3, num_micro_batches=4, recompute=recompute)
    gradients = tf.function(staged.loss_and_gradients)(mse, tf.constant(X), tf.constant(Y)).gradients
    assert difference(gradients, on_one_device(plain)[2]) < 1e-10
    for a, b in zip(inner.get_weights(), plain.get_weights(), strict=True):
        assert np.allclose(a, b, rtol=1e-10)


@pytest.mark.parametrize("synchronized", [False, True])
def test_replicas_of_stages_equal_one_device(synchronized):
    """Two replicas of two stages, of which one device has a stage of each, take 11 rows in 2 x 3 parts."""

    def norm():
        return layers.BatchNormalization(momentum=0.5, synchronized=True, name="norm")

    between, plain = [norm] * synchronized, make(*[norm] * synchronized)
    inner = StagedModel(
        make(*between), [["c1", "c2", *["norm"] * synchronized], ["c3", *STAGES[2]]], 2, num_micro_batches=1
    )
    replicas = [["/CPU:0", "/CPU:1"], ["/CPU:2", "/CPU:0"]]
    pipeline = Pipeline(inner.inner, inner.pipeline.graph, inner.pipeline.stages, replicas, 3)

    @tf.function
    def step(x, y):
        return pipeline.loss_and_gradients(lambda outputs, y: (mse(outputs, y), outputs), 1.0, x, y)

    loss, outputs, gradients = step(tf.constant(X), tf.constant(Y))
    expected = on_one_device(plain)
    assert float(loss) == pytest.approx(float(expected[0]), rel=1e-12)
    assert np.allclose(outputs, expected[1], rtol=1e-10, atol=1e-12)
    assert difference(gradients, expected[2]) < (1e-10 if synchronized else 1e-12)
    for a, b in zip(inner.get_weights(), plain.get_weights(), strict=True):
        assert np.allclose(a, b, rtol=1e-10)
    placed = {gradient.device for gradient in gradients}
    assert all(device.endswith(("CPU:0", "CPU:1")) for device in placed)  # where the weights are


@pytest.mark.parametrize("recompute", [False, True])
def test_dropout_and_batch_statistics_equal_towers_with_the_same_rows(recompute):
    between = (
        lambda: layers.BatchNormalization(momentum=0.5, name="norm"),
        lambda: layers.Dropout(0.5, seed=3, name="drop"),
    )
    stages = [["c1"], ["c2", "norm", "drop", "c3"], STAGES[2]]
    staged = StagedModel(make(*between), stages, 3, num_micro_batches=3, recompute=recompute)
    towers = ParallelModel(make(*between), 3)

    def loss_of(model, x, y):
        outputs = model(x, training=True)
        return tf.add_n([mse(outputs, y), *model.losses]), outputs

    for _ in range(2):  # seeds advance
        ours = staged.loss_and_gradients(mse, X, Y)
        theirs = towers.loss_and_gradients(loss_of, X, Y)
        assert np.allclose(ours.outputs, theirs.outputs, rtol=1e-10)
        assert difference(ours.gradients, theirs.gradients) < 1e-10
    for a, b in zip(staged.inner.get_weights(), towers.inner.get_weights(), strict=True):
        assert np.allclose(a, b, rtol=1e-10)


def test_weights_and_backward_ops_are_on_the_device_of_their_stage():
    staged = StagedModel(make(), STAGES, ["/CPU:2", "/CPU:0", "/CPU:1"], num_micro_batches=2)
    home = {"c1": "CPU:2", "c2": "CPU:0", "c3": "CPU:0", "d1": "CPU:1", "d2": "CPU:1"}
    assert all(w.value.device.endswith(home[w.path.split("/")[0]]) for w in staged.weights)
    step = tf.function(lambda x, y: staged.loss_and_gradients(mse, x, y).gradients)
    found = collections.Counter()
    for op in step.get_concrete_function(X, Y).graph.get_operations():
        layer = re.search(r"/(c1|c2|c3|d1|d2)(_\d+)?/", op.name)
        if layer and ("Conv2D" in op.type or op.type == "MatMul"):
            assert op.device.endswith(home[layer[1]]), op.name
            found[layer[1], "gradient_tape" in op.name] += 1
    assert found == {(name, backward): 4 if backward else 2 for name in home for backward in (False, True)}


EVENTS: list = []  # (layer, "F" or "B")
LOCKS = [threading.Lock() for _ in range(3)]


class Slow(keras.layers.Layer):
    """Takes 10 ms forward and 20 ms backward, and records when; one worker a stage."""

    def __init__(self, index):
        super().__init__(name=f"slow{index}")
        self.index = index

    def build(self, shape):
        self.w = self.add_weight(shape=(4,), initializer="ones")

    def compute_output_shape(self, shape):
        return shape

    def call(self, x):
        def record(what, seconds):
            def run(value):
                with LOCKS[self.index]:
                    EVENTS.append((self.index, what))
                    time.sleep(seconds)
                return value

            return run

        @tf.custom_gradient
        def slow(x, w):
            y = tf.ensure_shape(tf.numpy_function(record("F", 0.01), [x], x.dtype, stateful=False), x.shape)

            def backward(upstream):
                d = tf.numpy_function(record("B", 0.02), [upstream + 0 * y], x.dtype, stateful=False)
                d = tf.ensure_shape(d, x.shape)
                return d, tf.reduce_sum(d, 0)

            return y * w, backward

        return slow(x, tf.convert_to_tensor(self.w))


def ancestors(operation):
    """Return all operations that must end before an operation begins."""
    found, pending = set(), [operation]
    while pending:
        one = pending.pop()
        before = {tensor.op for tensor in one.inputs} | set(one.control_inputs)
        pending += before - found
        found |= before
    return found


def passes_of_stages(*, recompute):
    """Return the passes of 6 micro-batches, one after the other, of each of three stages."""
    inner = keras.Sequential([keras.Input((4,)), *(Slow(index) for index in range(3))])
    stages = [["slow0"], ["slow1"], ["slow2"]]
    staged = StagedModel(inner, stages, 3, num_micro_batches=6, recompute=recompute)
    step = tf.function(lambda x: staged.loss_and_gradients(lambda out: tf.reduce_mean(out), x).gradients)
    graph = step.get_concrete_function(tf.constant(RNG.normal(size=(6, 4)))).graph
    passes = [[], [], []]
    for operation in graph.get_operations():
        if "PyFunc" in operation.type:
            passes[int(operation.device[-1])].append(operation)
    return passes


def test_stage_k_holds_the_activations_of_at_most_s_minus_k_micro_batches():
    passes = passes_of_stages(recompute=False)
    for stage, operations in enumerate(passes):
        forward, backward = operations[::2], operations[1::2]
        assert len(forward) == len(backward) == 6
        for index, operation in enumerate(forward):
            ended = ancestors(operation) & set(backward)
            # the one S - k before it has ended, so one of every S - k is alive; no later one need have ended
            before = index - (3 - stage)
            assert before < 0 or backward[before] in ended
            assert not ended & set(backward[before + 1 :] if before >= 0 else backward)
    # the stages work at the same time: the first one takes the next micro-batch without waiting for others
    assert not ancestors(passes[0][2]) & {*passes[1], *passes[2]}


def test_recomputing_stage_holds_the_activations_of_one_micro_batch():
    for operations in passes_of_stages(recompute=True)[:2]:
        repeated, backward = operations[1::3], operations[2::3]
        assert len(repeated) == len(backward) == 6
        for index in range(1, 6):
            assert ancestors(repeated[index]) & set(backward) == set(backward[:index])


def test_recomputing_stages_run_forward_twice_and_the_last_one_once():
    inner = keras.Sequential([keras.Input((4,)), *(Slow(index) for index in range(3))])
    stages = [["slow0"], ["slow1"], ["slow2"]]
    staged = StagedModel(inner, stages, 3, num_micro_batches=4, recompute=True)
    x = tf.constant(RNG.normal(size=(4, 4)))
    EVENTS.clear()
    tf.function(lambda x: staged.loss_and_gradients(lambda out: tf.reduce_mean(out), x).gradients)(x)
    assert [EVENTS.count((index, "F")) for index in range(3)] == [8, 8, 4]
    assert [EVENTS.count((index, "B")) for index in range(3)] == [4, 4, 4]


@pytest.mark.parametrize("compiled", [False, True])
def test_batch_of_fewer_rows_than_micro_batches_equals_one_device(compiled):
    staged = StagedModel(make(), STAGES, 3, num_micro_batches=4)
    signature = [tf.TensorSpec((None, 6, 6, 1), tf.float64), tf.TensorSpec((None, 2), tf.float64)]
    step = functools.partial(staged.loss_and_gradients, mse)
    if compiled:
        step = tf.function(step, input_signature=signature)
    loss, outputs, gradients = step(tf.constant(X[:3]), tf.constant(Y[:3]))
    expected = on_one_device(make(), X[:3], Y[:3])
    assert float(loss) == pytest.approx(float(expected[0]), rel=1e-12)
    assert np.allclose(outputs, expected[1], rtol=1e-12, atol=1e-12)
    assert difference(gradients, expected[2]) < 1e-12
