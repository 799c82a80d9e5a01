"""Short clips are read as a whole, and long recordings are left to be read in pieces."""

import numpy as np
import pytest

from asr.audio import recording
from asr.audio.opening import LongRecording, longest_pause_s, open_recording
from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, write_wav
from asr.base.errors import UserError


@pytest.fixture(scope="module")
def speech(clips):
    return read_audio(clips[0].audio_path)


def with_pause(speech, pause_s):
    pause = np.zeros(round(pause_s * SAMPLE_RATE_HZ), np.int16)
    return np.concatenate([speech, pause, speech, speech])


def test_a_sentence_is_read_as_a_whole(clips, speech):
    opened = open_recording(clips[0].audio_path)
    assert isinstance(opened, np.ndarray)
    np.testing.assert_array_equal(opened, speech)


def test_a_short_recording_is_opened_once(clips, monkeypatch):
    names, open_file = [], recording._open_file
    monkeypatch.setattr(recording, "_open_file", lambda name: names.append(name) or open_file(name))
    open_recording(clips[0].audio_path)
    assert names == [clips[0].audio_path]


def test_a_recording_with_a_long_pause_is_to_be_read_in_pieces(speech, tmp_path):
    waveform = with_pause(speech, 2.0)
    write_wav(tmp_path / "a.wav", waveform)
    opened = open_recording(tmp_path / "a.wav")
    assert isinstance(opened, LongRecording)
    np.testing.assert_array_equal(opened.source, waveform)
    assert longest_pause_s(waveform) == pytest.approx(2.0, abs=0.4)


def test_a_short_recording_is_read_as_a_whole_for_a_model_that_ignores_silence(speech, tmp_path):
    write_wav(tmp_path / "a.wav", with_pause(speech, 2.0))
    opened = open_recording(tmp_path / "a.wav", pauses_matter=False)
    np.testing.assert_array_equal(opened, with_pause(speech, 2.0))
    write_wav(tmp_path / "b.wav", with_pause(speech, 20.0))
    assert isinstance(open_recording(tmp_path / "b.wav", pauses_matter=False), LongRecording)


def test_only_the_header_of_a_long_file_is_read(speech, tmp_path):
    path = tmp_path / "long.wav"
    write_wav(path, np.tile(speech, 61 * SAMPLE_RATE_HZ // len(speech) + 1))
    assert open_recording(path) == LongRecording(path)


def test_opening_a_file_that_is_not_audio_is_refused(tmp_path):
    (tmp_path / "a.wav").write_text("not sound")
    with pytest.raises(UserError, match=r"a\.wav"):
        open_recording(tmp_path / "a.wav")
