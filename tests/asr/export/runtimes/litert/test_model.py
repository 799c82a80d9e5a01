"""Test that models converted to LiteRT compute what the trained models do, by LiteRT's own interpreter."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from ai_edge_litert.schema_py_generated import TensorType
from helpers.exports import (
    CONFORMER,
    FAMILIES,
    NUM_SAMPLES,
    PHONES,
    SELF_CONDITIONED,
    VOCABULARY,
    expected_logits,
    model_of,
    speech,
)
from helpers.small_conformer import use_small_conformer
from helpers.tiny_network import Tiny

from asr.base.errors import UserError
from asr.base.registry import FEATURE_KINDS
from asr.export.runtimes.litert.flatbuffer import operators, read_flatbuffer
from asr.export.runtimes.litert.folding import folded_copy
from asr.export.runtimes.litert.model import litert_model
from asr.model.acoustic_model import AcousticModel
from asr.model.keras_internals import layers_of
from asr.model.networks.conformers.attention import LONGEST_AT_ONCE
from asr.model.networks.layers import MaskedBatchNorm

SIGNATURES = {"any_length": None, "fixed": 24_000}


def signatures_of(content):
    interpreter = Interpreter(model_content=content)
    return {name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()}


def run(runner, waveform, size):
    audio = np.zeros((1, size), np.float32)
    audio[0, : len(waveform)] = waveform / np.float32(32768)
    outputs = runner(audio=audio, num_samples=np.array([len(waveform)], np.int32))
    return outputs["logits"][0], int(outputs["num_frames"][0])


def assert_same_logits(model):
    content = litert_model(model, signatures=SIGNATURES)
    for names in operators_of(content):
        assert "CUSTOM" not in names
        assert "RFFT2D" not in names  # see asr/export/runtimes/litert/features.py
    runners, expected = signatures_of(content), expected_logits(model)
    for row, num, logits in zip(speech(), NUM_SAMPLES, expected, strict=True):
        for name, size in SIGNATURES.items():
            values, num_frames = run(runners[name], row[:num], size or num)
            assert num_frames == len(logits)
            np.testing.assert_allclose(values[:num_frames], logits, rtol=0, atol=1e-3)
    assert expected[0].std() > 0.1
    return content


def operators_of(content):
    """Return the names of the operators of each signature."""
    file = read_flatbuffer(content)
    return [[name for name, _ in operators(file, subgraph)] for subgraph in file.subgraphs]


@pytest.fixture(scope="module")
def small():
    """Return a small model, and its file, which was compared with it."""
    model = model_of('model.size="xs"', 'features.kind="spectrogram"')
    return model, assert_same_logits(model)


@pytest.mark.parametrize(
    "network", [pytest.param('model.family="dcnn251bn"', marks=pytest.mark.slow), 'model.stem="2d_fast"']
)
def test_normalisation_of_each_convolution_is_folded(network):
    model = model_of(network, 'features.kind="fbank"', "features.normalize=false")
    for names in operators_of(assert_same_logits(model)):
        assert "CONV_2D" in names
        assert "RSQRT" not in names
    layers = layers_of(folded_copy(model).network)
    norms = [layer for layer in layers if isinstance(layer, MaskedBatchNorm)]
    assert norms
    assert all(norm.is_folded for norm in norms)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_every_family_are_those_of_the_model(family):
    assert_same_logits(model_of(f'model.family="{family}"', 'model.size="xs"'))


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(FEATURE_KINDS))
def test_logits_with_every_kind_of_features_are_those_of_the_model(kind):
    assert_same_logits(model_of(f'features.kind="{kind}"', "features.normalize=false"))


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["2d_fast", "1d"])
def test_logits_with_features_of_the_pitch_are_those_of_the_model(stem):
    assert_same_logits(model_of(f'model.stem="{stem}"', "features.pitch=true"))


@pytest.mark.slow
def test_gates_and_unshared_outputs_are_those_of_the_model():
    assert_same_logits(model_of('model.size="m"', "model.factored_output=false"))


@pytest.mark.slow
def test_logits_of_self_conditioned_networks_are_those_of_the_model():
    assert_same_logits(model_of(*PHONES))


@pytest.mark.slow
@pytest.mark.parametrize("chunk_s", [0.0, 0.32])
def test_logits_of_self_conditioned_conformers_are_those_of_the_model(monkeypatch, chunk_s):
    use_small_conformer(monkeypatch)
    model = model_of(*CONFORMER, *SELF_CONDITIONED, f"model.chunk_s={chunk_s}")
    runner = signatures_of(assert_same_logits(model))["any_length"]
    audio = np.resize(speech()[0], 45 * 16000)  # its attention is not computed at once
    values, num_frames = run(runner, audio, len(audio))
    assert num_frames > LONGEST_AT_ONCE
    expected = np.asarray(model(audio[None], np.array([len(audio)], np.int32)).values)[0]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_clips_of_any_length_have_the_frames_that_the_model_gives_them(small):
    model, content = small
    runners = signatures_of(content)
    for num_samples in (0, 1, 399, 400, 401, 560, 719, 720, 3000):
        waveform = np.zeros(num_samples, np.int16)
        for name, size in SIGNATURES.items():
            values, num_frames = run(runners[name], waveform, size or num_samples)
            assert num_frames == max(0, model.num_output_frames(num_samples))
            assert len(values) >= num_frames
            assert np.isfinite(values).all()


@pytest.mark.slow
def test_signatures_of_conformers_share_their_weights():
    model = model_of(*CONFORMER, 'features.kind="spectrogram"')
    num_bytes = 4 * sum(weight.numpy().size for weight in model.trainable_weights)
    assert num_bytes < len(litert_model(model, signatures=SIGNATURES)) < 1.15 * num_bytes


def test_signatures_share_their_weights(small):
    model, content = small
    num_bytes = 4 * sum(weight.numpy().size for weight in model.trainable_weights)
    assert num_bytes < len(content) < 1.3 * num_bytes


@pytest.mark.slow
def test_weights_in_8_bits_are_those_of_the_network_alone():
    model = model_of('model.size="xs"', 'features.kind="log_mel"')  # whose bands are large constants
    content = assert_same_logits(model)
    quantized = litert_model(model, quantized=True, signatures=SIGNATURES)
    assert len(quantized) < len(content) / 2.5
    tensors = [tensor for subgraph in read_flatbuffer(quantized).subgraphs for tensor in subgraph.tensors]
    for kind, layer in ((TensorType.INT8, b"network/"), (TensorType.FLOAT16, b"features/")):
        names = [tensor.name for tensor in tensors if tensor.type == kind]
        assert names
        assert all(name.startswith(layer) for name in names)
    runners, expected = signatures_of(quantized), expected_logits(model)
    for row, num, logits in zip(speech(), NUM_SAMPLES, expected, strict=True):
        for name, size in SIGNATURES.items():
            values, num_frames = run(runners[name], row[:num], size or num)
            difference = np.abs(values[:num_frames] - logits)
            assert 0 < difference.max() < 0.1 * np.abs(logits).max()


@keras.saving.register_keras_serializable("tests")
class Tangent(keras.layers.Layer):
    def call(self, values):
        return tf.math.tan(values)


@keras.saving.register_keras_serializable("tests")
class Odd(Tiny):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._odd = Tangent(name="odd")

    def call(self, features, num_frames, training=False):
        logits = super().call(features, num_frames, training)
        return logits._replace(values=self._odd(logits.values))


def test_layer_that_needs_an_operator_of_tensorflow_is_named():
    plain = model_of('model.family="tiny"')
    network = Odd(len(VOCABULARY), 0.0, name="network")
    model = AcousticModel(plain.features, plain.spec_augment, network)
    expected_logits(model)  # builds it
    with pytest.raises(UserError, match=r"network/odd needs Tan, which LiteRT has no operator for"):
        litert_model(model, signatures=SIGNATURES)
