"""Test that spectra in double precision are those of windows of any clip, and exact beside loud bins."""

import numpy as np
import onnxruntime
import pytest
from helpers.exports import loud_tone

from asr.model.onnx.graph import Graph
from asr.model.onnx.precise_spectrum import add_precise_magnitudes

WINDOW = np.hamming(400).astype(np.float32)


@pytest.fixture(scope="module")
def session():
    graph = Graph()
    audio = graph.input("audio", np.float32, ("batch", "samples"))
    magnitudes = add_precise_magnitudes(graph, audio, WINDOW)
    graph.output("magnitudes", magnitudes, np.float32, ("batch", 201, "frames"))
    return onnxruntime.InferenceSession(graph.model("spectrum").SerializeToString())


def expected_magnitudes(audio):
    padded = np.pad(audio, [(0, 0), (0, max(0, 400 - audio.shape[1]))])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 400, axis=1)[:, ::160] * WINDOW
    return np.abs(np.fft.rfft(windows.astype(np.float64)))


@pytest.mark.parametrize("num_samples", [0, 1, 399, 400, 401, 559, 560, 1999])
def test_magnitudes_of_clips_of_any_length_are_those_of_their_windows(session, num_samples):
    audio = np.random.default_rng(num_samples).normal(size=(2, num_samples)).astype(np.float32)
    (magnitudes,) = session.run(None, {"audio": audio})
    expected = expected_magnitudes(audio).transpose(0, 2, 1)
    assert magnitudes.shape == expected.shape
    np.testing.assert_allclose(magnitudes, expected, rtol=1e-6, atol=1e-6)


def test_quiet_bins_beside_a_loud_tone_are_not_rounded(session):
    audio = loud_tone()[None]
    (magnitudes,) = session.run(None, {"audio": audio})
    expected = expected_magnitudes(audio).transpose(0, 2, 1)
    quiet = expected < 1e-5 * expected.max()
    assert quiet.mean() > 0.5
    assert np.abs(magnitudes - expected)[quiet].max() < 1e-5
