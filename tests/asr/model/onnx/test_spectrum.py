"""Test that power spectra are those of windows of any clip, and exact beside loud bins."""

import numpy as np
import onnxruntime
import pytest
from helpers.exports import loud_tone

from asr.model.onnx.graph import Graph
from asr.model.onnx.spectrum import add_power_spectrum, add_windows

WINDOW = np.hanning(401)[:-1].astype(np.float32)
SIZES = [400, 512]


@pytest.fixture(scope="module")
def sessions():
    return {size: session_of(size) for size in SIZES}


def session_of(size):
    graph = Graph()
    audio = graph.input("audio", np.float32, ("batch", "samples"))
    windows = add_windows(graph, audio) * graph.constant("window", WINDOW[:, None])
    power = add_power_spectrum(graph, windows, size)
    graph.output("power", power, np.float32, ("batch", size // 2 + 1, "frames"))
    return onnxruntime.InferenceSession(graph.model("spectrum").SerializeToString())


def magnitudes_of(session, audio):
    return np.sqrt(session.run(None, {"audio": audio})[0].astype(np.float64))


def expected_magnitudes(audio, size):
    padded = np.pad(audio, [(0, 0), (0, max(0, 400 - audio.shape[1]))])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 400, axis=1)[:, ::160] * WINDOW
    return np.abs(np.fft.rfft(windows.astype(np.float64), size)).transpose(0, 2, 1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("num_samples", [0, 1, 399, 400, 401, 559, 560, 1999])
def test_spectra_of_clips_of_any_length_are_those_of_their_windows(sessions, num_samples, size):
    audio = np.random.default_rng(num_samples).normal(size=(2, num_samples)).astype(np.float32)
    expected = expected_magnitudes(audio, size)
    magnitudes = magnitudes_of(sessions[size], audio)
    assert magnitudes.shape == expected.shape
    np.testing.assert_allclose(magnitudes, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", SIZES)
def test_quiet_bins_beside_a_loud_tone_are_not_rounded(sessions, size):
    audio = loud_tone()[None]
    expected = expected_magnitudes(audio, size)
    quiet = expected < 1e-4 * expected.max()
    assert quiet.mean() > 0.5
    magnitudes = magnitudes_of(sessions[size], audio)
    np.testing.assert_allclose(magnitudes[quiet], expected[quiet], rtol=1e-6, atol=1e-6)
