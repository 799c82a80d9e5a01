"""Test that power spectra by convolutions are those of a Fourier transform in double precision."""

import numpy as np
import onnxruntime

from asr.model.features.fourier import bins
from asr.model.features.layer import FFT_SIZE
from asr.model.onnx.graph import Graph
from asr.model.onnx.spectrum import add_power_spectrum

WINDOW = np.hamming(400).astype(np.float32)


def session_of(offset=False):
    graph = Graph()
    audio = graph.input("audio", np.float32, ("batch", "samples"))
    offsets = graph.input("offsets", np.float32, ("batch", 1, 1, "frames")) if offset else None
    power = add_power_spectrum(graph, audio, WINDOW, offsets)
    graph.output("power", power, np.float32, ("batch", len(bins(FFT_SIZE)), 1, "frames"))
    return onnxruntime.InferenceSession(graph.model("spectrum").SerializeToString())


def power_of(windows):
    return (np.abs(np.fft.rfft(windows * WINDOW.astype(np.float64), FFT_SIZE)) ** 2)[..., bins(FFT_SIZE)]


def windows_of(audio):
    padded = np.pad(audio.astype(np.float64), [(0, 0), (0, max(0, 400 - audio.shape[1]))])
    return np.lib.stride_tricks.sliding_window_view(padded, 400, axis=1)[:, ::160]


def test_spectrum_of_clips_of_any_length_is_that_of_their_windows():
    session = session_of()
    for num_samples in (1, 399, 400, 401, 415, 416, 559, 560, 1999):
        audio = np.random.default_rng(num_samples).normal(size=(2, num_samples)).astype(np.float32)
        (power,) = session.run(None, {"audio": audio})
        expected = power_of(windows_of(audio)).transpose(0, 2, 1)[:, :, None]
        np.testing.assert_allclose(power, expected, rtol=0, atol=1e-6 * expected.max())


def test_offsets_are_subtracted_from_the_samples_of_each_window():
    audio = np.random.default_rng(0).normal(size=(2, 720)).astype(np.float32) + 1
    windows = windows_of(audio)  # (2, 3, 400)
    means = windows.mean(axis=2, keepdims=True)
    inputs = {"audio": audio, "offsets": means[:, :, 0][:, None, None].astype(np.float32)}
    (power,) = session_of(offset=True).run(None, inputs)
    expected = power_of(windows - means).transpose(0, 2, 1)[:, :, None]
    np.testing.assert_allclose(power, expected, rtol=0, atol=1e-5 * expected.max())
