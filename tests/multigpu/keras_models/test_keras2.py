"""Tests of Keras 2's `multi_gpu_model` on top of `ParallelModel`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from multigpu import DeviceError, ParallelModel, multi_gpu_model

X = np.random.default_rng(0).normal(size=(7, 5)).astype("float32")
Y = X[:, :2]


@pytest.fixture
def template():
    with tf.device("/CPU:1"):
        return keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])


def merging_devices(parallel):
    graph = tf.function(parallel).get_concrete_function(tf.constant(X)).graph
    return {op.device[-5:] for op in graph.get_operations() if op.type == "ConcatV2"}


@pytest.mark.parametrize("gpus", [2, [0, 2], 3])
@pytest.mark.parametrize("cpu_relocation", [False, True])
def test_multi_gpu_model_shares_weights_with_its_template(template, gpus, cpu_relocation):
    expected = template.predict(X, verbose=0)
    weights = template.get_weights()
    parallel = multi_gpu_model(template, gpus, cpu_relocation=cpu_relocation)
    assert {v.value.device[-5:] for v in template.variables} == {"CPU:0" if cpu_relocation else "CPU:1"}
    for one, relocated in zip(weights, template.get_weights(), strict=True):
        assert np.array_equal(one, relocated)
    assert len(parallel.devices) == (gpus if isinstance(gpus, int) else len(gpus))
    assert np.allclose(parallel(X), expected, rtol=1e-5, atol=1e-6)
    parallel.compile("sgd", "mse")
    parallel.train_on_batch(X, Y)
    assert not np.allclose(template.predict(X, verbose=0), expected)
    assert np.allclose(template.predict(X, verbose=0), parallel(X), rtol=1e-5, atol=1e-6)


def test_template_used_before_relocation_uses_the_relocated_weights(template):
    template.predict(X, verbose=0)
    multi_gpu_model(template, 2, cpu_relocation=True)
    template.set_weights([0 * weight for weight in template.get_weights()])
    assert not template.predict(X, verbose=0).any()


def test_multi_gpu_model_merges_on_the_cpu_or_the_first_device(template):
    assert merging_devices(multi_gpu_model(template, [1, 2])) == {"CPU:0"}
    assert merging_devices(multi_gpu_model(template, [1, 2], cpu_merge=False)) == {"CPU:1"}


@pytest.mark.parametrize("gpus", [1, 0, -2, [0], [], True])
def test_multi_gpu_model_with_fewer_than_two_devices_is_an_error(template, gpus):
    with pytest.raises(DeviceError, match="expected at least 2 devices, received gpus="):
        multi_gpu_model(template, gpus)


@pytest.mark.parametrize("gpus", [4, [0, 3], [1, 1]])
def test_multi_gpu_model_with_missing_devices_is_an_error(template, gpus):
    with pytest.raises(DeviceError, match="available: /CPU:0, /CPU:1, /CPU:2"):
        multi_gpu_model(template, gpus)


def test_default_is_every_device(template):
    assert multi_gpu_model(template).devices == ("/CPU:0", "/CPU:1", "/CPU:2")
    assert multi_gpu_model(template, None).devices == multi_gpu_model(template, gpus=None).devices


def test_layers_inputs_outputs_and_summary_are_those_of_the_template(template):
    parallel = multi_gpu_model(template)
    assert parallel.layers == template.layers
    assert parallel.get_layer(template.layers[0].name) is template.layers[0]
    assert parallel.get_layer(index=0) is template.layers[0]
    assert parallel.get_layer(template.name) is template  # which was a layer of Keras 2's parallel model
    with pytest.raises(ValueError, match="No such layer"):
        parallel.get_layer("missing")
    assert (parallel.input_shape, parallel.output_shape) == ((None, 5), (None, 2))
    assert [tensor.shape for tensor in parallel.inputs] == [(None, 5)]
    assert [tensor.shape for tensor in parallel.outputs] == [(None, 2)]
    cut_off = keras.Model(parallel.inputs, parallel.get_layer(index=0).output)
    assert np.allclose(cut_off(X), template(X))
    lines = []
    parallel.summary(print_fn=lines.append)
    assert template.layers[0].name in "".join(lines)


def test_parallel_model_takes_the_arguments_of_mask_rcnn(template):
    parallel = ParallelModel(keras_model=template, gpu_count=2)
    assert parallel.inner_model is template
    assert parallel.devices == ("/CPU:0", "/CPU:1")
    with pytest.raises(TypeError, match="one of devices and gpu_count"):
        ParallelModel(template)
    with pytest.raises(TypeError, match="one of inner and keras_model"):
        ParallelModel(template, 2, keras_model=template)
