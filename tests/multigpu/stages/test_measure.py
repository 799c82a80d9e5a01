"""Tests what layers are found to cost, and that a model is cut and described by it."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu import StagedModel
from multigpu.stages.layer_graph import layer_graph
from multigpu.stages.measure import measure_layers


def make(width=256):
    keras.utils.set_random_seed(1)
    x = inputs = keras.Input((width,))
    shared = keras.layers.Dense(width, name="shared")
    for place in range(3):
        x = keras.layers.Dense(width, "relu", name=f"d{place}")(x)
    x = shared(keras.layers.BatchNormalization(name="norm")(shared(x * 2.0)))
    return keras.Model(inputs, keras.layers.Dense(1, name="head")(x))


def test_layers_are_measured_without_a_change_of_the_model():
    model = make()
    before = model.get_weights()
    found = measure_layers(layer_graph(model), np.ones((4, 256), np.float32), "/CPU:1")
    # operations belong to the layer before them; what is between two calls of a layer cannot be cut apart
    assert [cost.names for cost in found] == [["d0"], ["d1"], ["d2"], ["shared", "norm"], ["head"]]
    assert all(cost.seconds > 0 for cost in found)
    assert [cost.weight_bytes for cost in found[:2]] == [4 * 256 * 257] * 2
    # each ReLU leaves its output for the backward pass, and the first layer its input as well
    rows = [cost.activation_bytes / (4 * 4 * 256) for cost in found]
    assert rows[:3] == [2, 1, 1]
    assert found[0].memory_bytes == 4 * found[0].weight_bytes + found[0].activation_bytes
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))


class Alive(keras.layers.Layer):
    """Counts the tensors of its input's shape that have values, while it is traced."""

    def call(self, x):
        if tf.is_symbolic_tensor(x):
            # by type(): isinstance() would ask what a weak proxy stands for, which may be gone
            tensors = [one for one in gc.get_objects() if issubclass(type(one), tf.Tensor)]
            tensors = [one for one in tensors if one.shape == x.shape]
            self.found = len(tensors) - sum(map(tf.is_symbolic_tensor, tensors))
        return x + 1.0


@pytest.mark.slow
def test_measuring_releases_what_no_later_layer_takes():
    """Otherwise one device would hold the outputs of all layers, and a model larger than it has no room."""
    layers = [Alive(name=f"layer{place}") for place in range(5)]
    model = keras.Sequential([keras.Input((123,)), *layers])
    measure_layers(layer_graph(model), np.ones((4, 123), np.float32), "/CPU:0")
    assert len({layer.found for layer in layers[1:]}) == 1


def test_number_of_stages_cuts_and_trains_the_model():
    staged = StagedModel(make(), 3, 3, num_micro_batches=2)
    staged.compile("adam", "mse")
    staged.optimizer.build(staged.trainable_variables)
    found = staged.placement(staged.optimizer, num_rows=8)
    names = [name for one in found for name in one.layers]
    assert names == ["d0", "d1", "d2", "shared", "norm", "head"]
    assert all(one.layers for one in found)
    assert sum(one.time_share for one in found) == pytest.approx(1)
    # Adam keeps two numbers for each weight, besides the step and the learning rate
    num_trained = sum(weight.shape.num_elements() for weight in staged.trainable_variables)
    assert sum(one.optimizer_bytes for one in found) == 2 * 4 * num_trained + 8 + 4
    # both micro-batches are held by the first two stages, one by the last
    of_four_rows = sum(
        cost.activation_bytes for cost in measure_layers(layer_graph(make()), np.ones((4, 256)), "/CPU:0")
    )
    held = zip(found, [2, 2, 1], strict=True)
    assert sum(one.activation_bytes * 2 / number for one, number in held) == 8 / 4 * of_four_rows
    assert np.isfinite(staged.train_on_batch(np.ones((4, 256)), np.ones((4, 1))))


def test_inputs_of_unknown_shape_need_a_sample():
    inputs = keras.Input((None, 4), name="frames")
    hidden = keras.layers.Dense(4, name="a")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="b")(hidden))
    with pytest.raises(ValueError, match=r"input frames has the shape .* as `sample`"):
        StagedModel(model, 2, 2, num_micro_batches=2)
    staged = StagedModel(model, 2, 2, num_micro_batches=2, sample=np.ones((2, 5, 4), np.float32))
    assert [one.layers for one in staged.placement()] == [["a"], ["b"]]
    by_hand = StagedModel(
        model, [["a"], ["b"]], 2, num_micro_batches=2, sample=np.ones((2, 5, 4), np.float32)
    )
    assert by_hand.placement()[1].time_share > 0  # measured, to be shown
