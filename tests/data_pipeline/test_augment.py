import numpy as np
import pytest

from data_pipeline.augment import change_speed, num_samples_at, speed_factor


def tone(frequency_hz, num_samples=20000):
    return (8000 * np.sin(2 * np.pi * frequency_hz * np.arange(num_samples) / 16000)).astype(np.int16)


@pytest.mark.parametrize("factor", [0.8, 0.93, 1.0, 1.1, 1.22])
@pytest.mark.parametrize("num_samples", [400, 12345, 20011])
def test_faster_is_shorter_and_higher(factor, num_samples):
    faster = change_speed(tone(1000, num_samples), factor)
    assert len(faster) == num_samples_at(num_samples, factor)
    assert faster.dtype == np.int16
    if num_samples > 1000:
        peak = np.abs(np.fft.rfft(faster)).argmax() * 16000 / len(faster)
        assert peak == pytest.approx(1000 * factor, rel=0.008)
        assert np.abs(faster[1000:-1000]).max() == pytest.approx(8000, rel=0.02)


def test_what_would_alias_is_gone():
    assert np.abs(change_speed(tone(7500), 1.2)[500:-500]).max() < 80


def test_the_factor_follows_from_seed_epoch_and_id():
    factor = speed_factor(1, 2, "a", 0.8, 1.25)
    assert factor == speed_factor(1, 2, "a", 0.8, 1.25)
    assert (
        len({factor, *(speed_factor(*key, 0.8, 1.25) for key in [(2, 2, "a"), (1, 3, "a"), (1, 2, "b")])})
        == 4
    )
    factors = [speed_factor(1, 0, str(i), 0.8, 1.25) for i in range(2000)]
    assert 0.8 <= min(factors) < 0.81
    assert 1.24 < max(factors) <= 1.25
    assert np.mean(np.log(factors)) == pytest.approx(0, abs=0.01)
