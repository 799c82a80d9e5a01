"""Levels and clipping of recordings, at any sample rate."""

import numpy as np
import pytest

from asr.audio.levels import SILENCE_DBFS, is_clipped, level_dbfs, num_clipped


def tone(peak, rate_hz, hz=150.0, duration_s=1.0):
    """Return a tone whose peak is a share of full scale, beyond which it is clipped as by a converter."""
    wave = peak * 32767 * np.sin(2 * np.pi * hz * np.arange(round(duration_s * rate_hz)) / rate_hz)
    return np.clip(np.rint(wave), -32768, 32767).astype(np.int16)


@pytest.mark.parametrize("rate_hz", [8000, 16000, 44100, 48000])
@pytest.mark.parametrize("gain", [1.0, 0.1])
def test_clipping_is_found_at_any_rate_and_after_attenuation(rate_hz, gain):
    clipped = np.rint(tone(1.1, rate_hz) * gain).astype(np.int16)
    assert is_clipped(num_clipped(clipped, rate_hz), len(clipped))


@pytest.mark.parametrize("rate_hz", [8000, 16000, 44100, 48000])
@pytest.mark.parametrize("peak", [0.03, 0.5, 0.999])
def test_peaks_of_a_wave_with_changing_level_are_not_clipped(rate_hz, peak):
    rising = np.rint(tone(peak, rate_hz, hz=151.3) * np.linspace(0.2, 1, rate_hz)).astype(np.int16)
    assert not is_clipped(num_clipped(rising, rate_hz), len(rising))


def test_a_constant_offset_is_silence():
    assert level_dbfs(np.full(16000, 5000, np.int16)) < SILENCE_DBFS
    assert level_dbfs(tone(0.001, 16000)) > SILENCE_DBFS
