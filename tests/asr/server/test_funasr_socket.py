"""Test FunASR's protocol in its three modes, as its own client speaks it."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers.speech_sockets import funasr, open_socket, remaining

from asr.audio.recording import read_audio, resample


@pytest.fixture(scope="module")
def speech(clips):
    pause = np.zeros(16_000, np.int16)
    return np.concatenate([part for clip in clips[:3] for part in (read_audio(clip.audio_path), pause)])


@pytest.mark.parametrize("as_file", [False, True])
def test_offline_answers_once_with_the_transcript_of_asr_transcribe(address, recognizer, clips, as_file):
    path = clips[2].audio_path
    data = Path(path).read_bytes() if as_file else read_audio(path)
    (answer,) = funasr(address, data, "offline", wav_format="wav" if as_file else "pcm")
    expected = recognizer.transcribe(path)
    assert (answer["mode"], answer["wav_name"], answer["is_final"]) == ("offline", "a", True)
    assert answer["text"] == expected.text
    times = json.loads(answer["timestamp"])
    assert [begin for begin, _ in times] == [round(1000 * time_s) for time_s in expected.times_s]
    (sentence,) = answer["stamp_sents"]
    assert sentence["text_seg"].replace(" ", "") == expected.text
    assert sentence["ts_list"] == times


def test_container_that_is_called_pcm_is_not_read_as_samples(address, recognizer, clips):
    path = clips[2].audio_path
    (answer,) = funasr(address, Path(path).read_bytes(), "offline", wav_format="pcm")
    assert answer["text"] == recognizer.transcribe(path).text


def test_two_passes_send_increments_and_replace_them_at_each_pause(address, speech):
    answers = funasr(address, speech, "2pass")
    whole = [one for one in answers if one["mode"] == "2pass-offline" and one["text"]]
    increments = [one for one in answers if one["mode"] == "2pass-online"]
    assert len(whole) == 3
    assert increments
    assert [one["is_final"] for one in answers] == [False] * (len(answers) - 1) + [True]
    assert all(json.loads(one["timestamp"]) for one in whole)
    begins = [one["stamp_sents"][0]["ts_list"][0][0] for one in whole]
    assert begins == sorted(begins)


def test_increments_of_the_online_mode_add_up_to_the_length_of_the_text(address, speech):
    answers = funasr(address, speech, "online")
    whole = "".join(one["text"] for one in funasr(address, speech, "2pass") if "offline" in one["mode"])
    assert {one["mode"] for one in answers} == {"online"}
    assert len("".join(one["text"] for one in answers)) == len(whole)
    assert [one["is_final"] for one in answers][-1] is True


def test_silence_has_a_last_message_in_every_mode(address):
    for mode in ("2pass", "online"):
        assert funasr(address, np.zeros(8000, np.int16), mode)[-1]["is_final"] is True
        assert funasr(address, np.zeros(0, np.int16), mode)[-1]["text"] == ""
    assert funasr(address, np.zeros(0, np.int16), "offline")[0]["text"] == ""


def test_another_sample_rate_is_resampled(address, recognizer, clips):
    waveform = read_audio(clips[2].audio_path)
    (answer,) = funasr(address, resample(waveform, 32_000), "offline", audio_fs=8000)
    times = json.loads(answer["timestamp"])
    assert times[-1][1] <= 1000 * len(waveform) / 16_000 + 1


@pytest.mark.parametrize("mode", ["offline", "2pass"])
def test_hot_words_change_the_text(address, clips, mode):
    waveform, hot = read_audio(clips[2].audio_path), "水里"

    def text(**fields):
        answers = funasr(address, waveform, mode, **fields)
        return "".join(one["text"] for one in answers if one["mode"].endswith("offline"))

    assert hot not in text()
    assert hot in text(hotwords=json.dumps({hot: 200}))  # as JSON in a string, as FunASR's client sends it
    assert text(hotwords=hot) == text(hotwords=json.dumps({hot: 20}))
    assert text(hotwords=hot) != ""


def test_many_streams_at_once_do_not_mix(address, recognizer, clips):
    paths = [clip.audio_path for clip in clips] * 2
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda path: funasr(address, read_audio(path), "2pass", 1600), paths))
    alone = {path: text_of(funasr(address, read_audio(path), "2pass", 1600)) for path in paths[:12]}
    assert [text_of(answers) for answers in found] == [alone[path] for path in paths]
    assert len(set(alone.values())) > 3


def text_of(answers):
    return "".join(one["text"] for one in answers if one["mode"] == "2pass-offline")


@pytest.mark.parametrize(
    "begin",
    [{"mode": "fast"}, {"audio_fs": -1}, {"hotwords": json.dumps(dict.fromkeys(map(str, range(1001)), 1))}],
)
def test_wrong_sessions_are_named_and_closed(address, begin):
    with open_socket(address, "/") as socket:
        socket.send(json.dumps(begin))
        (error,), closed = remaining(socket)
    assert closed.code in (1007, 1009)
    assert error["error"]
