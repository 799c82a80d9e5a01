"""Tests that a number of stages is cut where time and memory are most even."""

import keras
import numpy as np
import pytest

from multigpu import StagedModel
from multigpu.stages.balance import LayerCost, even_stages, measure_layers
from multigpu.stages.layer_graph import layer_graph


def costs(*pairs):
    return [LayerCost([f"layer{place}"], seconds, memory) for place, (seconds, memory) in enumerate(pairs)]


def sizes(stages):
    return [len(stage) for stage in stages]


def test_stages_are_as_even_as_possible_in_time_and_in_memory():
    assert sizes(even_stages(costs((4, 0), (1, 0), (1, 0), (1, 0), (1, 0)), 2)) == [1, 4]
    assert sizes(even_stages(costs((1, 1), (1, 1), (1, 1), (1, 9)), 2)) == [3, 1]
    assert sizes(even_stages(costs(*[(1, 1)] * 7), 3)) in ([2, 2, 3], [2, 3, 2], [3, 2, 2])
    with pytest.raises(ValueError, match=r"expected 1 to 2, .*received 3"):
        even_stages(costs((1, 1), (1, 1)), 3)


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
    found = measure_layers(layer_graph(model), np.ones((4, 256), np.float32))
    # operations belong to the layer before them; what is between two calls of a layer cannot be cut apart
    assert [cost.names for cost in found] == [["d0"], ["d1"], ["d2"], ["shared", "norm"], ["head"]]
    assert all(cost.seconds > 0 for cost in found)
    assert found[0].memory_bytes == 4 * 4 * 256 * 257 + 4 * 4 * 256
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))


def test_number_of_stages_cuts_and_trains_the_model():
    staged = StagedModel(make(), 3, 3, num_micro_batches=2)
    names = [name for one in staged.placement() for name in one.layers]
    assert names == ["d0", "d1", "d2", "shared", "norm", "head"]
    assert all(one.layers for one in staged.placement())
    staged.compile("sgd", "mse")
    assert np.isfinite(staged.train_on_batch(np.ones((4, 256)), np.ones((4, 1))))


def test_inputs_of_unknown_shape_need_a_sample():
    inputs = keras.Input((None, 4), name="frames")
    hidden = keras.layers.Dense(4, name="a")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="b")(hidden))
    with pytest.raises(ValueError, match=r"input frames has the shape .* as `sample`"):
        StagedModel(model, 2, 2, num_micro_batches=2)
    staged = StagedModel(model, 2, 2, num_micro_batches=2, sample=np.ones((2, 5, 4), np.float32))
    assert [one.layers for one in staged.placement()] == [["a"], ["b"]]
