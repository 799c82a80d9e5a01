import numpy as np
import pytest
import soundfile
from helpers.corpora.defects import noise

from asr.audio.recording import read_audio
from data_pipeline.doctor.checkup import is_silent, listen

RATE_HZ = 16000


def heard_of(tmp_path, samples, rate_hz=RATE_HZ, suffix=".wav", **options):
    path = tmp_path / f"sound{suffix}"
    soundfile.write(path, samples, rate_hz, **options)
    heard = listen(str(path))
    assert heard.problem == ""
    return heard


def tone(amplitude, duration_s=1.0, hz=440):
    return amplitude * np.sin(2 * np.pi * hz * np.arange(round(duration_s * RATE_HZ)) / RATE_HZ)


def test_level_peak_and_offset_are_those_of_a_known_tone(tmp_path):
    heard = heard_of(tmp_path, tone(0.5) + 0.1)
    assert heard.level_db == pytest.approx(20 * np.log10(0.5 / np.sqrt(2)), abs=0.05)
    assert heard.peak == pytest.approx(0.6, abs=0.001)
    assert heard.mean == pytest.approx(0.1, abs=0.001)
    assert heard.duration_s == 1.0
    assert heard.num_clipped == 0


def test_flat_tops_are_counted_on_both_sides(tmp_path):
    samples = noise(0, 1.0)
    samples[100:110] = 0.9
    samples[200:203] = -0.9
    samples[300:302] = 0.9  # two may be a peak between two samples
    assert heard_of(tmp_path, samples).num_clipped == 13


def test_a_loud_tone_at_full_scale_is_not_clipped(tmp_path):
    assert heard_of(tmp_path, tone(0.9999)).num_clipped == 0


def test_exact_zeros_at_the_end_are_measured(tmp_path):
    heard = heard_of(tmp_path, np.concatenate([tone(0.5, hz=441), np.zeros(8000)]))
    assert heard.zero_tail_s == pytest.approx(0.5, abs=0.001)


def test_silence_is_told_whatever_its_offset(tmp_path):
    assert is_silent(heard_of(tmp_path, np.zeros(RATE_HZ)))
    assert is_silent(heard_of(tmp_path, np.full(RATE_HZ, 0.5)))
    assert not is_silent(heard_of(tmp_path, tone(0.001)))


def test_rate_and_channels_are_the_files_own(tmp_path):
    heard = heard_of(tmp_path, np.stack([tone(0.5), tone(0.4)], axis=1), 44100, ".flac")
    assert (heard.rate_hz, heard.num_channels) == (44100, 2)
    assert heard.duration_s == pytest.approx(RATE_HZ / 44100, abs=0.001)


def test_the_digest_is_of_the_sound_not_of_the_file(tmp_path):
    samples = np.int16(noise(0, 1.0) * 32767)
    plain = heard_of(tmp_path, samples)
    assert heard_of(tmp_path, samples, suffix=".flac").digest == plain.digest
    samples[5] += 1
    assert heard_of(tmp_path, samples).digest != plain.digest


def test_real_speech_is_sound(clips):
    for clip in clips:
        heard = listen(clip.audio_path)
        assert heard.problem == ""
        assert heard.duration_s == len(read_audio(clip.audio_path)) / RATE_HZ
        assert -40 < heard.level_db < -10
        assert abs(heard.mean) < 0.001
        assert heard.zero_tail_s < 0.1


@pytest.mark.parametrize("name", ["cut off.wav", "empty file.wav", "a folder.wav"])
def test_a_misleading_name_changes_no_verdict(tmp_path, name):
    path = tmp_path / name
    path.write_text("no sound in here at all")
    assert listen(str(path)).problem == "corrupt-audio"
    path.unlink()
    assert listen(str(path)).problem == "missing-audio"
