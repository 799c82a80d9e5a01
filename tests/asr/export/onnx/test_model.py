"""Test that models written as ONNX graphs compute what the trained models do."""

import keras
import numpy as np
import onnxruntime
import pytest
from helpers.exports import (
    FAMILIES,
    NUM_SAMPLES,
    SELF_CONDITIONED,
    VOCABULARY,
    expected_logits,
    model_of,
    speech,
)

from asr.base.registry import FEATURE_KINDS
from asr.base.types import UserError
from asr.export.onnx.graph import Graph
from asr.export.onnx.layers import add_layer
from asr.export.onnx.model import onnx_model


def session_of(model):
    written = onnx_model(model, len(VOCABULARY))
    return onnxruntime.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])


def run(session, audio, num_samples):
    inputs = {"audio": audio / np.float32(32768), "num_samples": np.array(num_samples, np.int64)}
    return session.run(None, inputs)


def assert_same_logits(model):
    audio, session = speech(), session_of(model)
    together, lengths = run(session, audio, NUM_SAMPLES)
    expected = expected_logits(model)
    assert lengths.tolist() == [len(logits) for logits in expected]
    for row, (num, logits) in enumerate(zip(NUM_SAMPLES, expected, strict=True)):
        (alone,), _ = run(session, audio[row : row + 1, :num], [num])
        np.testing.assert_allclose(together[row, : len(logits)], logits, rtol=0, atol=1e-3)
        np.testing.assert_allclose(alone, logits, rtol=0, atol=1e-3)
    assert expected[0].std() > 0.1


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_every_family_are_those_of_the_model_alone_and_in_a_batch(family):
    assert_same_logits(model_of(f'model.family="{family}"'))


@pytest.mark.parametrize("kind", sorted(FEATURE_KINDS))
def test_logits_with_every_kind_of_features_are_those_of_the_model(kind):
    assert_same_logits(model_of(f'features.kind="{kind}"', "features.normalize=false"))


def test_gates_and_unshared_outputs_are_those_of_the_model():
    assert_same_logits(model_of('model.size="m"', "model.factored_output=false"))


@pytest.mark.parametrize("factored", ["true", "false"])
def test_logits_of_self_conditioned_networks_are_those_of_the_model(factored):
    model = model_of(*SELF_CONDITIONED, f"model.factored_output={factored}")
    assert_same_logits(model)
    before = expected_logits(model)
    for weight in model.weights:
        if "feedback" in weight.path:
            weight.assign(np.zeros(weight.shape))
    assert np.abs(expected_logits(model)[0] - before[0]).max() > 0.01  # they depend on it


def test_intermediate_outputs_that_decoding_does_without_are_not_exported():
    names = [one.name for one in onnx_model(model_of(SELF_CONDITIONED[0]), 5).graph.initializer]
    assert names
    assert not any("intermediate" in name for name in names)


def test_clips_of_any_length_have_the_frames_that_the_model_gives_them():
    model = model_of('features.kind="mfcc"')
    session = session_of(model)
    for num_samples in (0, 1, 399, 400, 401, 560, 719, 720, 3000):
        logits, (num_frames,) = run(session, np.zeros((1, num_samples), np.int16), [num_samples])
        assert num_frames == max(0, model.num_output_frames(num_samples))
        assert logits.shape[1] >= num_frames
        assert np.isfinite(logits).all()


def test_nodes_are_named_after_layers_and_equal_constants_are_stored_once():
    written = onnx_model(model_of(), len(VOCABULARY))
    names = [node.name for node in written.graph.node]
    assert len(set(names)) == len(names)
    assert "network/stage1/block0/conv1/depthwise/Conv" in names
    assert "features/spectrum/Conv" in names
    constants = [(one.data_type, tuple(one.dims), one.raw_data) for one in written.graph.initializer]
    assert len(set(constants)) == len(constants)


def test_layer_without_an_exporter_is_named():
    graph = Graph()
    values = graph.input("values", np.float32, ("batch", 3))
    with graph.scope("network"), pytest.raises(UserError, match=r"network/odd: no ONNX exporter.*Softmax"):
        add_layer(graph, keras.layers.Softmax(name="odd"), values)


def test_option_that_a_layers_exporter_does_not_know_is_named():
    layer = keras.layers.Conv1D(2, 3, dilation_rate=2, name="spread")
    layer.build((None, None, 3))
    graph = Graph()
    values = graph.input("values", np.float32, ("batch", 3, 1, "frames"))
    with pytest.raises(UserError, match=r"spread: dilation_rate: expected 1"):
        add_layer(graph, layer, values)
