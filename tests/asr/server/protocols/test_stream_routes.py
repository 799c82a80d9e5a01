"""Test that clients of Vosk and of FunASR are distinguished at `/`, which both use."""

import json

import pytest
from helpers.speech_sockets import answer, open_socket, remaining

from asr.audio.recording import read_audio, resample


@pytest.mark.parametrize(
    "config", ['{ "config" : { "sample_rate" : 16000 } }', '{"config": {"sample_rate": "16000", "mode": 1}}']
)
def test_vosks_test_script_is_answered_without_a_path(address, recognizer, clips, config):
    waveform = read_audio(clips[2].audio_path)
    with open_socket(address, "") as client:
        client.send(config)
        for begin in range(0, len(waveform), 3200):
            client.send(waveform[begin : begin + 3200].tobytes())
            assert set(answer(client)) & {"partial", "text"}
        client.send('{"eof" : 1}')
        (final,), closed = remaining(client)
    assert closed.code == 1000
    assert final["text"] == recognizer.transcribe(clips[2].audio_path).text


def test_samples_without_settings_are_vosks(address, clips):
    half = resample(read_audio(clips[2].audio_path), 32_000)  # at 8 kHz
    with open_socket(address, "/") as client:
        client.send(half.tobytes())
        assert set(answer(client)) & {"partial", "text"}
        client.send('{"eof" : 1}')
        assert "text" in remaining(client)[0][0]


@pytest.mark.parametrize("first", ['{"eof" : 1}', '{"reset" : 1}'])
def test_end_without_sound_is_vosks(address, first):
    with open_socket(address, "/") as client:
        client.send(first)
        assert answer(client) == {"text": ""}


@pytest.mark.parametrize("fields", [{"is_speaking": True}, {"chunk_size": [5, 10, 5]}, {"mode": "online"}])
def test_settings_of_funasr_are_funasrs(address, fields):
    with open_socket(address, "/") as client:
        client.send(json.dumps(fields))
        client.send('{"is_speaking": false}')
        answers, _ = remaining(client)
    assert answers[-1]["is_final"] is True
