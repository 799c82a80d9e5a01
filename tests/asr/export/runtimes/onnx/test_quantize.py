"""Test weights in 8 bits."""

import numpy as np
import onnxruntime
import pytest

from asr.export.runtimes.onnx.quantize import with_int8_weights
from asr.model.onnx.graph import Graph


@pytest.fixture
def kernel():
    scales = np.array([[0.001], [1.0], [30.0], [0.0]])
    return (np.random.default_rng(5).normal(size=(4, 512)) * scales).astype(np.float32).T  # (512, 4)


def model_of(kernel, scope):
    graph = Graph()
    values = graph.input("values", np.float32, ("batch", 512))
    with graph.scope(scope):
        product = graph.op("MatMul", values, graph.constant("kernel", kernel))
    graph.output("product", product, np.float32, ("batch", 4))
    return graph.model("one layer")


def test_each_output_has_a_scale_of_its_own(kernel):
    model = model_of(kernel, "network")
    quantized = with_int8_weights(model)
    assert quantized.ByteSize() < model.ByteSize() / 3
    session = onnxruntime.InferenceSession(quantized.SerializeToString())
    (received,) = session.run(None, {"values": np.eye(512, dtype=np.float32)})
    largest = np.abs(kernel).max(axis=0)
    assert (np.abs(received - kernel) <= largest / 127 / 2 * 1.001).all()
    assert (received[:, 3] == 0).all()
    assert np.abs(received - kernel).max() > 0


def test_features_stay_as_they_are(kernel):
    model = model_of(kernel, "features")
    assert with_int8_weights(model).graph.initializer == model.graph.initializer
