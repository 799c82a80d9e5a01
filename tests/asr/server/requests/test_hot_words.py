"""Test how the words that a client favours are read, and which are refused."""

import contextlib
import http.client
import json
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from helpers.forms import form
from helpers.servers import LIMIT_S, server_in_thread
from helpers.speech_sockets import funasr, open_socket

from asr.audio.recording import read_audio
from asr.server.protocols.funasr_socket import _hot_words
from asr.server.requests.hot_words import hot_word_weights, refuse_too_many
from asr.server.requests.limits import MAX_HOT_WORD_CHARS, Limits
from asr.server.requests.request_errors import RefusalError
from asr.server.service import LONG_AT_ONCE


@pytest.mark.parametrize(
    ("line", "weights"),
    [
        ("", {}),
        (" ,， ", {}),
        ("李雷 韩梅梅", {"李雷": 1.0, "韩梅梅": 1.0}),
        ("李雷:3，韩梅梅：2.5、王", {"李雷": 3.0, "韩梅梅": 2.5, "王": 1.0}),
        ("李雷:12345", {"李雷": 12345.0}),
    ],
)
def test_hot_words_are_read_with_their_weights(line, weights):
    assert hot_word_weights(line) == weights


@pytest.mark.parametrize(
    "value",
    [
        "书房 电影院",
        "书房,电影院",
        "书房，电影院；",
        "书房、电影院",
        "书房;电影院",
        '{"书房": 20, "电影院": 20}',
        {"书房": "20", "电影院": 20.0},
    ],
)
def test_words_of_funasrs_clients_are_read_in_every_form(value):
    assert _hot_words(value) == {"书房": 1.0, "电影院": 1.0}


@pytest.mark.parametrize(
    "weight", [10**400, "1e400", float("inf"), float("nan"), -1, "heavy", None, [20], "9" * 5000]
)
def test_weight_that_is_no_sane_number_is_refused(weight):
    with pytest.raises(RefusalError, match="weight") as caught:
        _hot_words({"书房": weight})
    assert caught.value.status == 400


def test_too_many_words_and_too_long_ones_are_refused():
    limits = Limits(max_hot_words=2)
    refuse_too_many({"书" * MAX_HOT_WORD_CHARS: 1.0, "房": 1.0}, limits)
    for weights in ({"书" * (MAX_HOT_WORD_CHARS + 1): 1.0}, dict.fromkeys("一二三", 1.0)):
        with pytest.raises(RefusalError, match="hot words") as caught:
            refuse_too_many(weights, limits)
        assert caught.value.status == 413


@contextlib.contextmanager
def vosk_client(address, path, words):
    """Send hot words as Vosk's clients do; close the connection without a word at the end of the block."""
    with open_socket(address, path) as client:
        client.send(json.dumps({"config": {"phrase_list": words}}))
        yield
        client.close_socket()


@contextlib.contextmanager
def page_client(address, wav, words):
    """Send hot words with a recording as the page does; close the connection at the end of the block."""
    kind, body = form(wav, hot_words=" ".join(words))
    with contextlib.closing(
        http.client.HTTPConnection(urlsplit(address).netloc, timeout=LIMIT_S)
    ) as connection:
        connection.request("POST", "/page/transcribe", body, {"Content-Type": kind})
        yield


def test_stopping_server_waits_for_no_hot_words_and_reads_no_more_of_them(
    recognizer, monkeypatch, slow_reading
):
    with contextlib.ExitStack() as clients:
        with server_in_thread(recognizer, drain_s=0.2) as (service, address):
            monkeypatch.setattr(service, "_label_of", slow_reading)
            clients.enter_context(vosk_client(address, "/vosk", ["第一", "第二"]))
            assert slow_reading.begun.wait(LIMIT_S)
        slow_reading.go_on.set()
        service._hot_words.shutdown()
    assert slow_reading.asked == ["第一"]


@pytest.mark.parametrize("client", ["vosk", "vosk without a path", "page"])
def test_hot_words_of_a_client_that_is_gone_are_read_no_further(
    recognizer, clips, monkeypatch, slow_reading, client
):
    is_over = threading.Event()
    with server_in_thread(recognizer) as (service, address):
        usual = service.decoder_favouring

        async def watched(*arguments, **options):
            try:
                return await usual(*arguments, **options)
            finally:
                is_over.set()

        monkeypatch.setattr(service, "_label_of", slow_reading)
        monkeypatch.setattr(service, "decoder_favouring", watched)
        words = ["第一", "第二"]
        if client == "page":
            connected = page_client(address, Path(clips[0].audio_path).read_bytes(), words)
        else:
            connected = vosk_client(address, "/vosk" if client == "vosk" else "/", words)
        with connected:
            assert slow_reading.begun.wait(LIMIT_S)
        assert is_over.wait(LIMIT_S)
        slow_reading.go_on.set()
        service._hot_words.submit(int).result(LIMIT_S)  # the work before it in the queue is over
    assert slow_reading.asked == ["第一"]


def test_clips_with_hot_words_do_not_wait_for_long_recordings(recognizer, clips):
    long_ones_end = threading.Event()
    with server_in_thread(recognizer) as (service, address):
        try:
            for _ in range(LONG_AT_ONCE):
                service._long.submit(long_ones_end.wait)
            (answer,) = funasr(address, read_audio(clips[2].audio_path), "offline", hotwords="水里")
        finally:
            long_ones_end.set()
    assert "水里" in answer["text"]
