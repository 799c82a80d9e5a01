"""Test that models written as ONNX graphs compute what the trained models do."""

import keras
import numpy as np
import onnxruntime
import pytest
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

from asr.base.errors import UserError
from asr.base.registry import FEATURE_KINDS
from asr.export.runtimes.onnx.quantize import with_int8_weights
from asr.model.networks.conformers.attention import LONGEST_AT_ONCE
from asr.model.networks.stem import STEMS
from asr.model.onnx.graph import Graph
from asr.model.onnx.model import onnx_model
from asr.model.onnx.networks.layers import add_layer


@pytest.fixture
def small_conformer(monkeypatch):
    use_small_conformer(monkeypatch)


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
    assert_same_logits(model_of(f'model.family="{family}"', 'model.size="xs"'))


@pytest.mark.parametrize("kind", sorted(FEATURE_KINDS))
def test_logits_with_every_kind_of_features_are_those_of_the_model(kind):
    assert_same_logits(model_of(f'features.kind="{kind}"', "features.normalize=false"))


def test_gates_and_unshared_outputs_are_those_of_the_model():
    assert_same_logits(model_of('model.size="m"', "model.factored_output=false"))


@pytest.mark.parametrize("stem", sorted(STEMS))
def test_logits_behind_a_two_dimensional_stem_are_those_of_the_model(stem):
    assert_same_logits(model_of(f'model.stem="{stem}"'))


@pytest.mark.parametrize("network", ['model.stem="2d_fast"', 'model.stem="1d"'])
def test_logits_with_features_of_the_pitch_are_those_of_the_model(network):
    assert_same_logits(model_of(network, "features.pitch=true"))


@pytest.mark.parametrize("family", ["separable", "conformer"])
@pytest.mark.parametrize(
    "settings",
    [
        (*SELF_CONDITIONED, "model.factored_output=true"),
        (*SELF_CONDITIONED, "model.factored_output=false"),
        PHONES,
    ],
    ids=["parts", "tokens", "phones"],
)
def test_logits_of_self_conditioned_networks_are_those_of_the_model(small_conformer, family, settings):
    model = model_of(*settings, f'model.family="{family}"', 'model.size="xs"')
    assert_same_logits(model)
    before = expected_logits(model)
    for weight in model.weights:
        if "feedback" in weight.path:
            weight.assign(np.zeros(weight.shape))
    assert np.abs(expected_logits(model)[0] - before[0]).max() > 0.01  # they depend on it


@pytest.mark.parametrize("chunk_s", [0.24, 0.64])
def test_logits_of_conformers_in_chunks_are_those_of_the_model(small_conformer, chunk_s):
    model = model_of(*CONFORMER, f"model.chunk_s={chunk_s}", 'features.kind="spectrogram"')
    assert model.network.receptive_field().chunk == round(chunk_s / 0.08)
    assert_same_logits(model)


def test_conformers_of_clips_longer_than_those_whose_attention_is_computed_at_once(small_conformer):
    model = model_of(*CONFORMER)
    audio = np.resize(speech()[0], 45 * 16000)
    (logits,), (num_frames,) = run(session_of(model), audio[None], [len(audio)])
    assert num_frames > LONGEST_AT_ONCE
    expected = np.asarray(model(audio[None], np.array([len(audio)], np.int32)).values)[0]
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-3)


def test_intermediate_outputs_that_decoding_does_without_are_not_exported():
    names = [one.name for one in onnx_model(model_of(SELF_CONDITIONED[0]), 5).graph.initializer]
    assert names
    assert not any("intermediate" in name for name in names)


def pitch_of(kind):
    return f'features.kind="{kind}"', "features.pitch=true"


@pytest.mark.parametrize(
    "overrides",
    [(), CONFORMER, (*CONFORMER, "model.chunk_s=0.32"), *(pitch_of(kind) for kind in sorted(FEATURE_KINDS))],
)
def test_clips_of_any_length_have_the_frames_that_the_model_gives_them(small_conformer, overrides):
    model = model_of('features.kind="mfcc"', *overrides)
    session = session_of(model)
    for num_samples in (0, 1, 80, 120, 239, 399, 400, 401, 560, 719, 720, 3000):
        logits, (num_frames,) = run(session, np.zeros((1, num_samples), np.int16), [num_samples])
        assert num_frames == max(0, model.num_output_frames(num_samples))
        assert logits.shape[1] >= num_frames
        assert np.isfinite(logits).all()


def test_conformer_in_8_bits_is_nearly_the_same(small_conformer):
    model = model_of(*CONFORMER)
    quantized = with_int8_weights(onnx_model(model, len(VOCABULARY)))
    stored = [one.name for one in quantized.graph.initializer if one.name.endswith("/int8")]
    for kernel in ("feed_forward0/wide", "feed_forward1/narrow"):
        assert f"network/block1/{kernel}/kernel/int8" in stored
    session = onnxruntime.InferenceSession(quantized.SerializeToString())
    logits, _ = run(session, speech(), NUM_SAMPLES)
    for row, expected in zip(logits, expected_logits(model), strict=True):
        difference = np.abs(row[: len(expected)] - expected).max()
        assert 0 < difference < 0.1 * np.abs(expected).max()


def test_nodes_are_named_after_layers_and_equal_constants_are_stored_once():
    written = onnx_model(model_of(), len(VOCABULARY))
    names = [node.name for node in written.graph.node]
    assert len(set(names)) == len(names)
    assert "network/stage1/block0/conv1/depthwise/Conv" in names
    assert "features/spectrum/MatMul" in names
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
