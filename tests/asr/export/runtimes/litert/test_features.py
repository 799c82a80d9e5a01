"""Test that spectra for LiteRT are those of Fourier transforms, and nearly exact beside loud bins."""

import numpy as np
import pytest
import scipy.fft
from helpers.exports import loud_tone

from asr.export.runtimes.litert.features import power_by_products, precise_magnitudes

WINDOW = np.hamming(400).astype(np.float32)


def windows_of(audio):
    return np.lib.stride_tricks.sliding_window_view(audio, 400)[None, ::160] * WINDOW


def test_power_is_that_of_the_fourier_transform():
    windows = windows_of(np.random.default_rng(0).normal(size=2000).astype(np.float32))
    expected = np.abs(np.fft.rfft(windows.astype(np.float64), 512)) ** 2
    np.testing.assert_allclose(power_by_products(windows), expected, rtol=0, atol=1e-6 * expected.max())


@pytest.mark.parametrize("loudness", [1, 100, 32767])
def test_precise_magnitudes_are_those_of_the_fourier_transform(loudness):
    windows = windows_of(np.random.default_rng(0).uniform(-loudness, loudness, 2000).astype(np.float32))
    expected = np.abs(np.fft.rfft(windows.astype(np.float64)))
    np.testing.assert_allclose(precise_magnitudes(windows), expected, rtol=1e-6, atol=1e-4)


def test_quiet_bins_beside_a_loud_tone_are_hardly_rounded():
    windows = windows_of(loud_tone())
    expected = np.abs(np.fft.rfft(windows.astype(np.float64)))
    quiet = expected < 1e-5 * expected.max()
    assert quiet.mean() > 0.5
    precise, plain = precise_magnitudes(windows), np.abs(scipy.fft.rfft(windows))  # in float32
    assert np.abs(precise - expected)[quiet].max() < 1e-3
    assert np.abs(plain - expected)[quiet].max() > 1e-2
