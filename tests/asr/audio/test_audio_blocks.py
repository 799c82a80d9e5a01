"""Recordings read block by block equal those read as a whole."""

import io
import os
import threading

import numpy as np
import pytest
import soundfile

from asr.audio import recording
from asr.audio.recording import audio_blocks, read_audio
from asr.base.errors import UserError

BLOCK_S = 0.3


@pytest.fixture
def small_reads(monkeypatch):
    monkeypatch.setattr(recording, "BLOCK_FRAMES", 3001)


def sound(rate_hz, channels, duration_s=2.345):
    generator = np.random.default_rng(rate_hz)
    return generator.normal(0, 0.2, (int(rate_hz * duration_s), channels)).clip(-1, 1)


@pytest.mark.usefixtures("small_reads")
@pytest.mark.parametrize("rate_hz", [8000, 11025, 16000, 22050, 44100, 48000, 50001])
@pytest.mark.parametrize(("subtype", "channels"), [("PCM_16", 1), ("FLOAT", 2)])
def test_concatenated_blocks_equal_the_recording(tmp_path, rate_hz, subtype, channels):
    soundfile.write(tmp_path / "a.wav", sound(rate_hz, channels), rate_hz, subtype=subtype)
    blocks = list(audio_blocks(tmp_path / "a.wav", BLOCK_S))
    assert {len(block) for block in blocks[:-1]} == {4800}
    np.testing.assert_array_equal(np.concatenate(blocks), read_audio(tmp_path / "a.wav"))


@pytest.mark.usefixtures("small_reads")
@pytest.mark.parametrize("name", ["a.flac", "a.ogg", "a.mp3", "a.aiff"])
def test_concatenated_blocks_equal_the_recording_in_other_containers(tmp_path, name):
    soundfile.write(tmp_path / name, sound(44100, 2), 44100)
    blocks = list(audio_blocks(tmp_path / name, BLOCK_S))
    np.testing.assert_array_equal(np.concatenate(blocks), read_audio(tmp_path / name))


def test_a_pipe_longer_than_the_memory_buffer_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "COPY_BYTES_IN_MEMORY", 1000)
    soundfile.write(tmp_path / "a.flac", sound(16000, 1), 16000)
    data = (tmp_path / "a.flac").read_bytes()
    receiving, sending = os.pipe()
    with os.fdopen(sending, "wb") as pipe:
        writer = threading.Thread(target=lambda: (pipe.write(data), pipe.close()))
        writer.start()
        with os.fdopen(receiving, "rb") as stream:
            blocks = list(audio_blocks(stream, BLOCK_S))
        writer.join()
    np.testing.assert_array_equal(np.concatenate(blocks), read_audio(tmp_path / "a.flac"))


@pytest.mark.parametrize("num_samples", [1, 399])
def test_blocks_of_less_than_a_window_are_refused_as_by_read_audio(tmp_path, num_samples):
    soundfile.write(tmp_path / "a.wav", np.zeros(num_samples), 16000)
    with pytest.raises(UserError) as whole:
        read_audio(tmp_path / "a.wav")
    with pytest.raises(UserError) as blocks:
        list(audio_blocks(tmp_path / "a.wav", BLOCK_S))
    assert str(blocks.value) == str(whole.value)


@pytest.mark.parametrize("name", ["a.wav", "a.flac"])
def test_blocks_of_a_truncated_file_are_refused_as_by_read_audio(tmp_path, name):
    soundfile.write(tmp_path / name, sound(16000, 1), 16000)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(UserError) as whole:
        read_audio(tmp_path / name)
    with pytest.raises(UserError) as blocks:
        list(audio_blocks(tmp_path / name, BLOCK_S))
    assert str(blocks.value) == str(whole.value)


def test_a_stream_that_is_not_audio_is_refused():
    with pytest.raises(UserError, match="not audio"):
        list(audio_blocks(io.BytesIO(b"no sound at all" * 100), BLOCK_S))
