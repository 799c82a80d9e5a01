"""Test that spectra for LiteRT are those of Fourier transforms, and nearly exact beside loud bins."""

import numpy as np
import pytest
import scipy.fft
from helpers.exports import loud_tone

from asr.export.runtimes.litert.features import power_by_products

WINDOW = np.hanning(401)[:-1].astype(np.float32)


def windows_of(audio):
    return np.lib.stride_tricks.sliding_window_view(audio, 400)[None, ::160] * WINDOW


def magnitudes_of(windows, size):
    return np.sqrt(np.asarray(power_by_products(windows, size), np.float64))


@pytest.mark.parametrize("size", [400, 512])
@pytest.mark.parametrize("loudness", [1, 100, 32767])
def test_power_is_that_of_the_fourier_transform(loudness, size):
    windows = windows_of(np.random.default_rng(0).uniform(-loudness, loudness, 2000).astype(np.float32))
    expected = np.abs(np.fft.rfft(windows.astype(np.float64), size))
    np.testing.assert_allclose(magnitudes_of(windows, size), expected, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("size", [400, 512])
def test_quiet_bins_beside_a_loud_tone_are_hardly_rounded(size):
    windows = windows_of(loud_tone())
    expected = np.abs(np.fft.rfft(windows.astype(np.float64), size))
    quiet = expected < 1e-4 * expected.max()
    assert quiet.mean() > 0.5
    precise, plain = magnitudes_of(windows, size), np.abs(scipy.fft.rfft(windows, size))  # in float32
    assert np.abs(precise - expected)[quiet].max() < 1e-3
    assert np.abs(plain - expected)[quiet].max() > 1e-2
