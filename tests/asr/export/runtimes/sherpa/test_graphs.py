"""Test that the graphs for sherpa-onnx compute what the models do, without sherpa-onnx."""

import numpy as np
import onnxruntime
import pytest
from helpers.exports import SELF_CONDITIONED

from asr.base.config import load_config
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.export.runtimes.sherpa.graphs import stream_model, stream_window, zipformer_model
from asr.model.acoustic_model import make_acoustic_model
from asr.model.features.fbank import Fbank

VOCABULARY = Vocabulary(["ni3", "hao3", "shi4", "jie4"])
SILENCE = np.log(Fbank.FLOOR)


def model_of(*overrides):
    settings = ['features.kind="fbank"', "features.num_mels=20", *overrides]
    return make_acoustic_model(load_config("base", overrides=settings), VOCABULARY)


@pytest.fixture(scope="module")
def bounded():
    """Return a model whose logits depend on a second or so of sound, also behind an output in the middle."""
    return model_of("features.normalize=false", *SELF_CONDITIONED)


def session_of(written):
    return onnxruntime.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def sessions(bounded):
    num_outputs = len(VOCABULARY)
    window = stream_window(bounded)
    whole = session_of(zipformer_model(bounded, num_outputs, {}))
    stream = session_of(stream_model(bounded, num_outputs, window, {}))
    return whole, stream, window


def fbank(num_frames, seed):
    return np.random.default_rng(seed).normal(-8, 3, (num_frames, 20)).astype(np.float32)


def streamed(session, window, features):
    """Return the logits (B, T, V) of features (B, T, F) that a session gets piece by piece."""
    state = {}
    for put in session.get_inputs()[1:]:
        shape = [len(features) if size == "batch" else size for size in put.shape]
        state[put.name] = np.zeros(shape, np.int64 if "int64" in put.type else np.float32)
    logits = []
    for begin in range(0, features.shape[1] - window.size, window.shift):
        chunk = features[:, begin : begin + window.size]
        found, *following = session.run(None, {"features": chunk, **state})
        logits.append(found)
        state = dict(zip(state, following, strict=True))
    return np.concatenate(logits, axis=1)


def test_stream_has_the_logits_of_the_whole_recording(sessions):
    whole, stream, window = sessions
    features = np.stack([fbank(400, 1), fbank(400, 2)])
    expected, _ = whole.run(None, {"features": features, "num_frames": np.array([400, 400])})
    found = streamed(stream, window, features)
    assert found.shape[1] > 60
    np.testing.assert_allclose(found, expected[:, : found.shape[1]], rtol=0, atol=1e-4)


def test_digital_silence_behind_a_stream_is_its_end(sessions):
    whole, stream, window = sessions
    features = fbank(150, 3)[None]
    expected, (num_steps,) = whole.run(None, {"features": features, "num_frames": np.array([150])})
    mixed = np.full((1, 1, 20), -10, np.float32)  # a frame with the last samples and silence
    silence = np.full((1, window.size + window.shift, 20), SILENCE, np.float32)
    found = streamed(stream, window, np.concatenate([features, mixed, silence], axis=1))
    assert found.shape[1] >= num_steps
    np.testing.assert_allclose(found[:, :num_steps], expected[:, :num_steps], rtol=0, atol=1e-4)
    assert (found[:, num_steps:].argmax(axis=-1) == 0).all()


def test_logits_of_a_batch_are_repeated_those_of_the_model(bounded, sessions):
    whole = sessions[0]
    features = np.stack([fbank(120, 4), fbank(120, 5)])
    features[1, 77:] = -23.02585  # how sherpa-onnx pads
    lengths = np.array([120, 77])
    logits, num_steps = whole.run(None, {"features": features, "num_frames": lengths})
    mask = (np.arange(120) < lengths[:, None])[..., None]
    expected, num_frames = bounded.network(features * mask, lengths.astype(np.int32))
    assert num_steps.tolist() == (2 * np.asarray(num_frames)).tolist()
    for row, steps in enumerate(num_steps):
        repeated = np.repeat(np.asarray(expected[row]), 2, axis=0)
        np.testing.assert_allclose(logits[row, :steps], repeated[:steps], rtol=0, atol=1e-3)


def test_clip_without_frames_has_no_logits(sessions):
    no_features = np.zeros((1, 0, 20), np.float32)
    _, num_steps = sessions[0].run(None, {"features": no_features, "num_frames": np.array([0])})
    assert num_steps.tolist() == [0]


def test_model_that_depends_on_the_whole_clip_has_no_stream():
    assert stream_window(model_of()) is None
    in_chunks = model_of("features.normalize=false", 'model.family="conformer"', "model.chunk_s=0.64")
    assert stream_window(in_chunks) == (6 * 3 * 64 + 64, 64, 64)  # each begins with a chunk
    assert stream_window(model_of("features.normalize=false", 'model.size="m"')) is None


def test_frames_that_sherpa_cannot_time_are_an_error(bounded, monkeypatch):
    monkeypatch.setattr(type(bounded.network), "SUBSAMPLING", 6)
    with pytest.raises(UserError, match=r"network: expected frames of logits of 40 ms or.* received 60 ms"):
        zipformer_model(bounded, len(VOCABULARY), {})
