"""Test Vosk's protocol: one answer to each message of samples, results at pauses, and a final one."""

import json
import time

import numpy as np
import pytest
from helpers.clips import clip_segments
from helpers.servers import server_in_thread
from helpers.speech_sockets import answer, chunks_of, open_socket, remaining, vosk

from asr.audio.recording import read_audio, resample


@pytest.fixture(scope="module")
def exact(exact_recognizer):
    with server_in_thread(exact_recognizer) as (_, address):
        yield address


@pytest.fixture(scope="module")
def speech(clips):
    pause = np.zeros(16_000, np.int16)
    return np.concatenate([part for clip in clips[:3] for part in (read_audio(clip.audio_path), pause)])


def test_results_of_an_exact_stream_add_up_to_the_whole_recording(exact, exact_recognizer, speech):
    found, final = vosk(exact, speech)
    (whole,) = clip_segments(exact_recognizer, [speech])
    results = [one for one in [*found, final] if "text" in one]
    assert all(set(one) == {"partial"} for one in found if "text" not in one)
    assert "".join(one["text"] for one in results).replace(" ", "")
    words = [word for one in results for word in one.get("result", [])]
    assert {word["start"] for word in words} <= set(whole.times_s)
    # conversion to hanzi may differ at the seams; the number of syllables may not
    assert len("".join(word["word"] for word in words)) == len(whole.tokens)
    assert all(0 <= word["conf"] <= 1 and word["start"] < word["end"] for word in words)


def test_each_sentence_is_a_result_and_partials_precede_it(address, recognizer, speech, clips):
    found, final = vosk(address, speech)
    results = [one["text"] for one in [*found, final] if one.get("text")]
    assert len(results) == 3
    assert any(one.get("partial") for one in found)


def test_messages_that_end_within_a_sample_are_a_stream_like_any_other(address, speech):
    def texts(num_samples):
        found, final = vosk(address, speech, num_samples)
        return [one["text"] for one in [*found, final] if one.get("text")]

    assert texts(4000.5) == texts(4000)


def test_eight_kilohertz_is_the_default_rate(address, speech):
    half = resample(speech, 32_000)  # at 8 kHz
    with open_socket(address, "/vosk") as socket:
        assert socket.response.headers["X-Stream"] == "by-pauses"
        socket.send(half[:16_000].tobytes())
        assert set(answer(socket)) & {"partial", "text"}
        socket.send('{"eof" : 1}')
        (final,), _ = remaining(socket)
    assert max((word["end"] for word in final.get("result", [])), default=0) <= 2.1


def test_reset_gives_a_result_and_begins_again(address, speech):
    with open_socket(address, "/vosk") as socket:
        texts = []
        for _ in range(2):
            socket.send(json.dumps({"config": {"sample_rate": 16000, "words": False}}))
            socket.send(speech[:24_000].tobytes())
            answer(socket)
            socket.send('{"reset" : 1}')
            texts.append(answer(socket))
        assert texts[0] == texts[1]
        assert set(texts[0]) == {"text"}


def test_alternatives_replace_words(address, speech):
    _, final = vosk(address, speech[:24_000], 24_000, max_alternatives=2)
    assert final["alternatives"][0]["text"]


def test_hot_words_change_the_text_and_heavy_ones_that_of_open_segments_too(address, clips):
    waveform, hot = read_audio(clips[2].audio_path), "水里"
    assert hot not in vosk(address, waveform, 5120)[1]["text"]
    assert hot in vosk(address, waveform, 5120, phrase_list=[hot, "李雷"])[1]["text"]
    found, final = vosk(address, waveform, 5120, hot_words=f"{hot}:10，李雷")
    assert hot in final["text"]
    assert any(hot in one["partial"] for one in found)


@pytest.mark.parametrize(
    ("message", "code"),
    [("no JSON", 1007), ("[1]", 1007), ('{"config": {"sample_rate": "x"}}', 1007), (bytes(5 << 20), 1009)],
)
def test_what_is_wrong_is_named_and_closes_the_stream_alone(address, speech, message, code):
    with open_socket(address, "/vosk") as bad:
        bad.send(message)
        _, closed = remaining(bad)
    assert closed.code == code
    assert vosk(address, speech[:24_000], 24_000)[1]["text"]


def test_more_streams_than_the_limit_and_idle_ones_are_closed(recognizer):
    with server_in_thread(recognizer, max_streams=1, stream_idle_s=0.3) as (service, address):
        with open_socket(address, "/vosk") as idle:
            with open_socket(address, "/vosk") as refused:
                (error,), closed = remaining(refused)
            assert ("as many as are admitted" in error["error"], closed.code) == (True, 1013)
            (error,), closed = remaining(idle)
            assert ("no message" in error["error"], closed.code) == (True, 1008)
        assert service.streams.num_open == 0


def test_stream_longer_than_the_limit_is_closed(recognizer):
    with (
        server_in_thread(recognizer, max_audio_s=1.0) as (_, address),
        open_socket(address, "/vosk") as socket,
    ):
        for _ in range(3):  # the last one is too much: none is sent to a closed stream
            socket.send(bytes(16_000))  # half a second at 16 kHz
        _, closed = remaining(socket)
    assert closed.code == 1009


def test_page_of_another_site_cannot_open_a_stream(address):
    from websockets.exceptions import InvalidStatus

    with pytest.raises(InvalidStatus):
        open_socket(address, "/vosk", origin="https://elsewhere.example")


def test_each_message_of_a_stream_that_is_behind_has_one_answer(address, speech):
    with open_socket(address, "/vosk") as socket:
        socket.send(json.dumps({"config": {"sample_rate": 16000}}))
        socket.send(speech[:1600].tobytes())
        answer(socket)
        time.sleep(1.0)  # in which a client that speaks would have sent a second of sound
        chunks = list(chunks_of(speech[1600:33_600], 1600))
        for chunk in chunks:
            socket.send(chunk)
        answers = [answer(socket) for _ in chunks]
        socket.send('{"eof" : 1}')
        (final,), _ = remaining(socket)
    found, end = vosk(address, speech[:33_600], 1600)
    together, one_by_one = (
        "".join(one.get("text", "") for one in results) for results in ([*answers, final], [*found, end])
    )
    assert together == one_by_one


@pytest.mark.parametrize("number", [20, "5", 5.0])
def test_alternatives_have_words_and_need_no_option_of_the_server(address, speech, number):
    _, final = vosk(address, speech[:24_000], 24_000, max_alternatives=number)
    alternatives = final["alternatives"]
    assert 1 < len(alternatives) <= int(number)
    for one in alternatives:
        assert "".join(word["word"] for word in one["result"]) == one["text"]
        assert {frozenset(word) for word in one["result"]} == {frozenset({"start", "end", "word"})}


def test_alternatives_without_words_and_of_a_wrong_number(address, speech):
    _, final = vosk(address, speech[:24_000], 24_000, max_alternatives=2, words=False)
    assert {frozenset(one) for one in final["alternatives"]} == {frozenset({"confidence", "text"})}
    with open_socket(address, "/vosk") as socket:
        socket.send(json.dumps({"config": {"max_alternatives": "many"}}))
        assert remaining(socket)[1].code == 1007


def test_settings_stay_where_a_later_message_has_others(address, speech):
    with open_socket(address, "/vosk") as socket:
        socket.send(json.dumps({"config": {"sample_rate": "16000"}}))
        socket.send(json.dumps({"config": {"words": 0}}))
        socket.send(speech[:24_000].tobytes())
        answer(socket)
        socket.send('{"eof" : 1}')
        (final,), _ = remaining(socket)
    assert final == {"text": vosk(address, speech[:24_000], 24_000)[1]["text"]}
