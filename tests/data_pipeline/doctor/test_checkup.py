import numpy as np
import pytest
import soundfile
from helpers.corpora.defects import noise

from asr.audio.recording import read_audio
from data_pipeline.doctor.checkup import Checkup, Checkups, check_recording, is_silent

RATE_HZ = 16000


def checkup_of(tmp_path, samples, rate_hz=RATE_HZ, suffix=".wav", **options):
    path = tmp_path / f"sound{suffix}"
    soundfile.write(path, samples, rate_hz, **options)
    checkup = check_recording(str(path))
    assert checkup.problem == ""
    return checkup


def tone(amplitude, duration_s=1.0, hz=440):
    return amplitude * np.sin(2 * np.pi * hz * np.arange(round(duration_s * RATE_HZ)) / RATE_HZ)


def test_checkup_measures_level_peak_and_offset_of_a_tone(tmp_path):
    checkup = checkup_of(tmp_path, tone(0.5) + 0.1)
    assert checkup.level_db == pytest.approx(20 * np.log10(0.5 / np.sqrt(2)), abs=0.05)
    assert checkup.peak == pytest.approx(0.6, abs=0.001)
    assert checkup.mean == pytest.approx(0.1, abs=0.001)
    assert checkup.duration_s == 1.0
    assert checkup.num_clipped == 0


def test_clipped_samples_are_counted_on_both_sides(tmp_path):
    samples = noise(0, 1.0)
    samples[100:110] = 0.9
    samples[200:203] = -0.9
    samples[300:302] = 0.9  # two may be a real peak between two samples
    assert checkup_of(tmp_path, samples).num_clipped == 13


def test_tone_at_full_scale_is_not_clipped(tmp_path):
    assert checkup_of(tmp_path, tone(0.9999)).num_clipped == 0


def test_zeros_at_the_end_are_measured(tmp_path):
    checkup = checkup_of(tmp_path, np.concatenate([tone(0.5, hz=441), np.zeros(8000)]))
    assert checkup.zero_tail_s == pytest.approx(0.5, abs=0.001)


def test_silence_is_detected_despite_an_offset(tmp_path):
    assert is_silent(checkup_of(tmp_path, np.zeros(RATE_HZ)))
    assert is_silent(checkup_of(tmp_path, np.full(RATE_HZ, 0.5)))
    assert not is_silent(checkup_of(tmp_path, tone(0.001)))


def test_checkup_has_the_rate_and_channels_of_the_file(tmp_path):
    checkup = checkup_of(tmp_path, np.stack([tone(0.5), tone(0.4)], axis=1), 44100, ".flac")
    assert (checkup.rate_hz, checkup.num_channels) == (44100, 2)
    assert checkup.duration_s == pytest.approx(RATE_HZ / 44100, abs=0.001)


def test_digest_depends_on_the_samples_not_on_the_container(tmp_path):
    samples = np.int16(noise(0, 1.0) * 32767)
    plain = checkup_of(tmp_path, samples)
    assert checkup_of(tmp_path, samples, suffix=".flac").digest == plain.digest
    samples[5] += 1
    assert checkup_of(tmp_path, samples).digest != plain.digest


def test_real_speech_has_no_defects(clips):
    for clip in clips:
        checkup = check_recording(clip.audio_path)
        assert checkup.problem == ""
        assert checkup.duration_s == len(read_audio(clip.audio_path)) / RATE_HZ
        assert -40 < checkup.level_db < -10
        assert abs(checkup.mean) < 0.001
        assert checkup.zero_tail_s < 0.1


@pytest.mark.parametrize("name", ["cut off.wav", "empty file.wav", "a folder.wav"])
def test_misleading_file_name_does_not_change_the_problem(tmp_path, name):
    path = tmp_path / name
    path.write_text("no audio in here at all")
    assert check_recording(str(path)).problem == "corrupt-audio"
    path.unlink()
    assert check_recording(str(path)).problem == "missing-audio"


def test_table_keeps_every_measurement_to_the_last_bit(clips, tmp_path):
    (tmp_path / "empty.wav").write_bytes(b"")
    checkups = [check_recording(clip.audio_path) for clip in clips]
    checkups += [check_recording(str(tmp_path / "empty.wav")), Checkup(), Checkup(digest=b"x" * 15 + b"\0")]
    table = Checkups.of(checkups)
    assert list(table) == checkups
    assert table.is_decoded().tolist() == [bool(one.digest) for one in checkups]
    silence = Checkups.of([Checkup(digest=b"x" * 16, level_db=level_db) for level_db in (-90.0, -20.0)])
    assert silence.is_audible().tolist() == [False, True]
