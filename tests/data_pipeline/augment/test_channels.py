"""Test what telephones and codecs do to clips: no delay, the same length, and less of the sound."""

import re

import numpy as np
import pytest

from asr.audio.recording import SAMPLE_RATE_HZ
from data_pipeline.augment.channels import (
    CHANNELS,
    companded,
    through_channel,
    through_mp3,
    through_opus,
    through_telephone,
)


def syllables(num_samples=24_000):
    """Return bursts of harmonics of 200 Hz up to 7 kHz, with pauses between them."""
    time_s = np.arange(num_samples) / SAMPLE_RATE_HZ
    harmonics = sum(np.sin(2 * np.pi * 200 * n * time_s + n * n) / n for n in range(1, 36))
    return (3000 * harmonics * (time_s % 0.4 < 0.25)).astype(np.int16)


def through(channel, waveform, number):
    """Return what a channel makes of a clip, with the length of `through_channel`, and its name."""
    changed, name = channel(waveform, np.random.default_rng(number))
    return changed[: len(waveform)], name


def delay_of(changed, original):
    size = 2 ** (len(original).bit_length() + 1)
    product = np.fft.rfft(changed, size) * np.conj(np.fft.rfft(original, size))
    place = int(np.abs(np.fft.irfft(product)).argmax())
    return place if place < size // 2 else place - size


def power_db(waveform, low_hz, high_hz):
    spectrum = np.square(np.abs(np.fft.rfft(waveform)))
    frequencies = np.fft.rfftfreq(len(waveform), 1 / SAMPLE_RATE_HZ)
    return 10 * np.log10(spectrum[(frequencies >= low_hz) & (frequencies < high_hz)].mean() + 1e-9)


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.__name__)
@pytest.mark.parametrize("number", range(4))
def test_channels_have_no_delay(channel, number):
    changed, name = through(channel, syllables(), number)
    assert changed.dtype == np.int16
    assert abs(delay_of(changed, syllables())) <= (40 if name == "telephone" else 1)  # of its filters
    assert np.abs(changed.astype(int) - syllables()).mean() > 5


@pytest.mark.parametrize("num_samples", [1, 10, 400, 1153, 20_000])
def test_clips_of_any_length_keep_it_and_silence_stays_silent(num_samples):
    rng = np.random.default_rng(0)
    for clip in (syllables(num_samples), np.zeros(num_samples, np.int16)):
        for _ in range(8):
            changed, _ = through_channel(clip, rng)
            assert len(changed) == num_samples
            assert clip.any() or np.abs(changed).max() <= 1


def test_a_telephone_has_its_band_and_8_khz_are_half_of_the_spectrum():
    drawn = dict(reversed(through(through_telephone, syllables(), number)) for number in range(8))
    line, narrow = drawn["telephone"], drawn["8 kHz"]
    for changed in (line, narrow):
        assert power_db(changed, 4200, 8000) < power_db(syllables(), 4200, 8000) - 20
        assert power_db(changed, 500, 3000) == pytest.approx(power_db(syllables(), 500, 3000), abs=1)
    assert power_db(line, 190, 210) < power_db(syllables(), 190, 210) - 10
    assert power_db(narrow, 190, 210) == pytest.approx(power_db(syllables(), 190, 210), abs=0.5)


def test_a_line_has_256_steps_finer_for_quiet_samples():
    samples = np.linspace(-32768, 32767, 100_001).astype(np.float32)
    steps = np.unique(companded(samples))
    assert 250 <= len(steps) <= 256
    assert np.abs(companded(samples) - samples).max() < 800
    quiet = samples[np.abs(samples) < 100]
    assert np.abs(companded(quiet) - quiet).max() < 6


@pytest.mark.parametrize(
    ("channel", "name", "rates"), [(through_mp3, "MP3", (15, 45)), (through_opus, "Opus", (5, 25))]
)
def test_codecs_have_low_rates_that_differ(channel, name, rates):
    names = {through(channel, syllables(48_000), number)[1] for number in range(8)}
    found = [int(re.fullmatch(rf"{name} (\d+) kbit/s", one)[1]) for one in names]
    assert rates[0] <= min(found) < max(found) <= rates[1]


def test_channels_are_drawn_and_repeated_by_the_random_numbers():
    rngs = [np.random.default_rng(5) for _ in range(2)]
    drawn = [[through_channel(syllables(), rng) for _ in range(12)] for rng in rngs]
    for (one, name), (other, same) in zip(*drawn, strict=True):
        assert (one == other).all()
        assert name == same
    assert {name.split()[0] for _, name in drawn[0]} >= {"MP3", "Opus", "telephone"}
