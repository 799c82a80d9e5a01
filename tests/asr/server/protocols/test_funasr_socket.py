"""Test FunASR's protocol in its three modes, as its own client speaks it."""

import contextlib
import io
import json
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers.clips import clip_segments
from helpers.media import written
from helpers.servers import LIMIT_S, server_in_thread, server_process, wait_until
from helpers.speech_sockets import answer, funasr, open_socket, remaining

from asr.audio.opening import ALWAYS_WHOLE_S
from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, resample
from asr.ctc.hot_words import HotWords
from asr.transcription.recognizer import Recognizer
from data_pipeline.labels.from_text import label


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


def test_hot_words_give_a_short_clip_with_a_pause_the_transcript_of_asr_transcribe(
    address, recognizer, clips
):
    first, second = (
        read_audio(clip.audio_path) for clip in sorted(clips, key=lambda one: one.duration_s)[:2]
    )
    waveform = np.concatenate([first, np.zeros(8000, np.int16), second])
    assert len(waveform) < ALWAYS_WHOLE_S * SAMPLE_RATE_HZ
    decoder = recognizer.decoder
    hot_words = HotWords.of(["水里\t2"], recognizer.vocabulary, label)
    same = Recognizer(recognizer.runner, recognizer.vocabulary, decoder.with_(hot_words))
    (expected,) = clip_segments(same, [waveform])
    (answer,) = funasr(address, waveform, "offline", hotwords=json.dumps({"水里": 40}))
    assert answer["text"] == expected.text
    assert [begin for begin, _ in json.loads(answer["timestamp"])] == [
        round(1000 * time_s) for time_s in expected.times_s
    ]


def test_container_that_is_called_pcm_is_not_read_as_samples(address, recognizer, clips):
    path = clips[2].audio_path
    (answer,) = funasr(address, Path(path).read_bytes(), "offline", wav_format="pcm")
    assert answer["text"] == recognizer.transcribe(path).text


def test_recording_of_a_phone_that_is_called_pcm_is_not_read_as_samples(address, recognizer, clips):
    data = written(read_audio(clips[2].audio_path), "alac.m4a")
    (answer,) = funasr(address, data, "offline", wav_format="pcm")
    assert answer["text"] == recognizer.transcribe(io.BytesIO(data)).text


@pytest.mark.parametrize("mode", ["online", "2pass"])
@pytest.mark.parametrize(("name", "wav_format"), [("alac.m4a", "m4a"), ("alac.m4a", "pcm"), ("webm", "wav")])
def test_file_in_a_mode_of_samples_is_refused_with_the_mode_that_takes_it(
    address, clips, mode, name, wav_format
):
    with open_socket(address, "/") as socket:
        socket.send(json.dumps({"mode": mode, "wav_format": wav_format}))
        socket.send(written(read_audio(clips[2].audio_path), name))
        (error,), closed = remaining(socket)
    assert ("mode offline" in error["error"], closed.code) == (True, 1007)


@pytest.mark.parametrize("wav_format", ["pcm", "wav"])
def test_file_of_wav_is_recognized_while_it_comes_in(address, clips, wav_format):
    data = Path(clips[2].audio_path).read_bytes()
    assert text_of(funasr(address, data, "2pass", wav_format=wav_format))


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


@pytest.mark.parametrize("mode", ["online", "2pass"])
def test_messages_that_end_within_a_sample_are_a_stream_like_any_other(address, speech, mode):
    def text(num_samples):
        answers = funasr(address, speech, mode, num_samples)
        return answers[-1].get("whole_text") or text_of(answers)

    assert text(4800.5) == text(4800) != ""


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


@pytest.mark.parametrize("mode", ["offline", "online", "2pass"])
def test_client_that_waits_for_its_end_is_answered_and_sends_the_next_recording(address, clips, mode):
    paths = [clip.audio_path for clip in clips[:3]]
    found = []
    with open_socket(address, "/", subprotocols=["binary"]) as socket:
        for name, path in zip("abc", paths, strict=True):
            socket.send(json.dumps({"mode": mode, "wav_name": name, "is_speaking": True}))
            socket.send(read_audio(path).tobytes())
            socket.send(json.dumps({"is_speaking": False, "is_end": True}))
            answers = [answer(socket)]
            while not answers[-1].get("is_end"):
                answers.append(answer(socket))
            assert {one["wav_name"] for one in answers} == {name}
            assert answers[-1]["is_final"] is True
            found.append("".join(one["text"] for one in answers if one["mode"] != "2pass-online"))
    alone = [funasr(address, read_audio(path), mode, 10**6) for path in paths]
    assert found == [
        "".join(one["text"] for one in answers if "2pass-on" not in one["mode"]) for answers in alone
    ]


@pytest.mark.parametrize("mode", ["offline", "online", "2pass"])
def test_recording_that_ends_with_its_first_message_is_answered(address, mode):
    end = json.dumps({"is_speaking": False, "is_end": True})
    with open_socket(address, "/") as socket:
        socket.send(json.dumps({"mode": mode}))
        for _ in range(2):
            socket.send(end)
            assert [answer(socket).get("is_end", False) for _ in range(2)] == [False, True]
        socket.send(json.dumps({"is_speaking": False}))
        (last,), closed = remaining(socket)
    assert (last["text"], last["is_final"], closed.code) == ("", True, 1000)


@pytest.mark.parametrize(
    ("fields", "code"), [({"wav_name": "\ud83d"}, 1000), ({"hotwords": {"书房": "\ud83d"}}, 1007)]
)
def test_half_of_a_character_is_sent_back_as_a_question_mark(address, fields, code):
    with open_socket(address, "/") as socket:
        socket.send(json.dumps({"is_speaking": False} | fields))
        (last,), closed = remaining(socket)
    assert ("?" in last.get("error", last.get("wav_name")), closed.code) == (True, code)


def test_client_that_waits_for_its_end_learns_why_a_recording_failed(address):
    with open_socket(address, "/") as socket:
        socket.send(json.dumps({"mode": "offline", "wav_format": "others"}))
        socket.send(b"no audio" * 100)
        socket.send(json.dumps({"is_speaking": False, "is_end": True}))
        (end, _), closed = remaining(socket)
    assert (end["is_end"], end["is_final"], closed.code) == (True, False, 1007)
    assert "not audio" in end["error"]


@pytest.mark.parametrize("hot_words", ["李雷,水里", "李雷，水里", {"水里": "20"}])
def test_hot_words_with_commas_or_weights_as_text_change_the_text(address, clips, hot_words):
    waveform = read_audio(clips[2].audio_path)
    usual = funasr(address, waveform, "offline", hotwords=json.dumps({"水里": 20}))
    assert funasr(address, waveform, "offline", hotwords=hot_words)[0]["text"] == usual[0]["text"]


@pytest.mark.parametrize(
    ("hot_words", "code"), [({"书房": 10**400}, 1007), ({"书房": "x"}, 1007), ("书" * 200_000, 1009)]
)
def test_hot_words_that_cannot_be_used_are_named(address, hot_words, code):
    with open_socket(address, "/") as socket:
        socket.send(json.dumps({"mode": "offline", "hotwords": hot_words}))
        (error,), closed = remaining(socket)
    assert ("hot words" in error["error"], closed.code) == (True, code)


def test_last_message_of_the_online_mode_has_the_whole_text(address, speech):
    *others, last = funasr(address, speech, "online", 1600)
    whole = [one["text"] for one in funasr(address, speech, "2pass", 1600) if "offline" in one["mode"]]
    assert last["whole_text"] == " ".join(text for text in whole if text)
    assert not any("whole_text" in one for one in others)


def test_hot_words_of_a_client_keep_no_other_waiting_and_end_with_it(
    recognizer, clips, monkeypatch, slow_reading
):
    with server_in_thread(recognizer) as (service, address):
        monkeypatch.setattr(service, "_label_of", slow_reading)
        with contextlib.ExitStack() as clients:
            for _ in range(4):
                client = clients.enter_context(open_socket(address, "/"))
                client.send(json.dumps({"mode": "offline", "hotwords": "第一 第二 第三"}))
            assert slow_reading.begun.wait(LIMIT_S)
            path = clips[2].audio_path
            text = funasr(address, read_audio(path), "offline")[0]["text"]
            assert text == recognizer.transcribe(path).text
        wait_until(lambda: service.streams.num_open == 0)
        slow_reading.go_on.set()
        service._hot_words.submit(int).result(LIMIT_S)  # the work before it in the queue is over
    assert slow_reading.asked == ["第一"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends a process at once there")
def test_server_stops_although_hot_words_are_being_read(exported):
    with (
        server_process(exported.folder, "--drain-s", 1) as (process, address),
        open_socket(address, "/") as client,
    ):
        words = {f"{number:04}{'书' * 90}": 20 for number in range(1000)}
        client.send(json.dumps({"mode": "2pass", "hotwords": words}, ensure_ascii=False))
        client.ping().wait(LIMIT_S)  # it was received
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
