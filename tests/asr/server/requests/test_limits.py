"""Test that each limit has an answer in the protocol's form, and that abuse does not touch others."""

import contextlib
import http.client
import io
import json
import socket
import struct
import threading
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import openai
import pytest
import soundfile
from helpers.forms import form
from helpers.servers import LIMIT_S, server_in_thread, wait_until
from helpers.speech_sockets import open_socket, remaining

from asr.audio.recording import AudioHeader
from asr.server.requests import connections, received_audio, request_body
from asr.server.requests.request_errors import RefusalError

SPEECH, TRANSCRIPTIONS, PAGE = "/speech", "/v1/audio/transcriptions", "/page/transcribe"
ANSWER_OF = {SPEECH: lambda body: body["status_message"], TRANSCRIPTIONS: lambda body: body["error"]["code"]}


def post(address, path, body, content_type="application/json", **headers):
    """Return the status, headers and fields of an answer."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=LIMIT_S)
    with contextlib.closing(connection):
        connection.request("POST", path, body, {"Content-Type": content_type} | headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, json.loads(answer.read())


@contextlib.contextmanager
def unfinished_request(address, path=TRANSCRIPTIONS):
    """Send the beginning of a request for the time of a block, which then closes the connection."""
    host, port = urlsplit(address).netloc.split(":")
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        f"Content-Type: {form(b'')[0]}",
        "Content-Length: 9999",
    ]
    head = "\r\n".join([*lines, "", ""])
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
        connection.sendall(head.encode() + form(b"")[1][:-9])
        yield connection


def sound(num_channels=1, seconds=1.0, file_format="FLAC"):
    """Return a file of silence."""
    file = io.BytesIO()
    soundfile.write(
        file, np.zeros((round(16000 * seconds), num_channels), np.int16), 16000, format=file_format
    )
    return file.getvalue()


def test_body_larger_than_the_limit(recognizer):
    with server_in_thread(recognizer, max_body_mb=1) as (_, address):
        too_much = bytes(3 << 20)
        status, _, body = post(address, TRANSCRIPTIONS, form(too_much)[1], form(too_much)[0])
        assert (status, body["error"]["code"]) == (413, "too_large")
        chunks = (too_much[begin : begin + 65536] for begin in range(0, len(too_much), 65536))
        status, _, body = post(address, SPEECH, chunks)  # without a declared length
        assert (status, body["status_code"]) == (200, 400000)
        assert "1 MiB" in body["status_message"]


@pytest.mark.parametrize("file_format", ["FLAC", "WAV"])
def test_recording_longer_than_the_limit_is_not_decoded_further(recognizer, file_format):
    with server_in_thread(recognizer, max_audio_s=2.0) as (service, address):
        status, _, body = post(address, TRANSCRIPTIONS, *reversed(form(sound(1, 2.0, file_format))))
        assert (status, body["usage"]["seconds"]) == (200, 2)
        bomb = sound(8, 60.0, file_format)
        status, _, body = post(address, TRANSCRIPTIONS, *reversed(form(bomb)))
        assert (status, body["error"]["code"]) == (413, "too_large")
        assert service.admission.num_bytes == 0


def test_header_that_declares_many_channels_allocates_nothing(address):
    wav = bytearray(sound(1, 1.0, "WAV"))
    wav[22:24], wav[32:34] = struct.pack("<H", 60_000), struct.pack("<H", 54_464)
    status, _, body = post(address, TRANSCRIPTIONS, *reversed(form(bytes(wav))))
    assert (status, body["error"]["param"]) == (400, "file")


def test_compressed_body_is_refused(address):
    status, _, body = post(address, TRANSCRIPTIONS, b"\x1f\x8b", form(b"")[0], **{"Content-Encoding": "gzip"})
    assert (status, body["error"]["code"]) == (415, "unsupported_encoding")


@pytest.mark.parametrize("path", ANSWER_OF)
def test_full_queue_says_when_to_retry_and_empties(recognizer, clips, path):
    with server_in_thread(recognizer, max_queue=1) as (service, address):
        with service.admission.ticket():
            status, headers, body = post(address, path, b"{}")
            assert status == 429
            assert int(headers["Retry-After"]) > 0
            assert ANSWER_OF[path](body) in ("queue_full", service_message(body))
        wait_until(lambda: service.admission.num_requests == 0)
        status, *_ = post(address, TRANSCRIPTIONS, *reversed(form(Path(clips[0].audio_path).read_bytes())))
        assert status == 200
        assert service.admission.num_bytes == 0


def service_message(body):
    return body.get("status_message") if "as many as are admitted" in str(body) else None


def test_bodies_together_are_bounded(recognizer):
    with server_in_thread(recognizer, max_pending_mb=1) as (service, address):
        status, headers, body = post(address, TRANSCRIPTIONS, *reversed(form(bytes(2 << 20))))
        assert (status, body["error"]["type"]) == (429, "rate_limit_error")
        assert "Retry-After" in headers
        assert service.admission.num_bytes == 0


@pytest.mark.parametrize("path", [TRANSCRIPTIONS, PAGE])
def test_recording_that_would_hold_too_much_is_refused_before_it_is_decoded(recognizer, path):
    damaged = bytearray(sound(1, 60.0))
    middle = slice(len(damaged) // 2, len(damaged) // 2 + 100)
    damaged[middle] = bytes(100)
    for max_pending_mb, code in ((1, "queue_full"), (64, "invalid_audio")):
        with server_in_thread(recognizer, max_pending_mb=max_pending_mb) as (service, address):
            _, _, body = post(address, path, *reversed(form(bytes(damaged))))
            assert body["error"]["code"] == code
            assert service.admission.num_bytes == 0


@pytest.mark.parametrize("path", ANSWER_OF)
def test_more_connections_than_the_limit(recognizer, path):
    with server_in_thread(recognizer, max_connections=1) as (service, address), unfinished_request(address):
        wait_until(lambda: service.admission.num_requests == 1)
        status, headers, body = post(address, path, b"{}")
        assert (status, "Retry-After" in headers) == (503, True)
        assert "connections are open" in json.dumps(body)


def test_client_that_sends_too_slowly_is_answered_and_forgotten(recognizer):
    with server_in_thread(recognizer, request_timeout_s=0.3) as (service, address):
        with unfinished_request(address) as connection:
            answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b'"timeout"' in answer
        wait_until(lambda: service.admission.num_requests == 0)


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nHost:"])
def test_connection_without_a_request_is_closed_and_a_stream_is_not(recognizer, monkeypatch, begin):
    monkeypatch.setattr(connections, "HEADERS_S", 0.2)
    with server_in_thread(recognizer) as (_, address), open_socket(address, "/vosk") as stream:
        host, port = urlsplit(address).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
            connection.sendall(begin)
            assert connection.recv(100) == b""
        stream.send('{"eof": 1}')
        assert remaining(stream)[0] == [{"text": ""}]


def test_request_of_a_client_that_vanished_is_not_run(recognizer, clips, monkeypatch):
    with server_in_thread(recognizer) as (service, address):
        model_is_free = threading.Event()
        monkeypatch.setattr(service, "_logits", lambda *_: model_is_free.wait(LIMIT_S))
        batch = (np.zeros((1, 400), np.int16), np.array([400], np.int32))
        blocking = service.batcher.submit("pieces", batch)
        wait_until(blocking.running)
        data = Path(clips[0].audio_path).read_bytes()
        with openai.OpenAI(base_url=f"{address}/v1", api_key="-", max_retries=0) as client:
            patient = threading.Thread(
                target=lambda: answers.append(client.audio.transcriptions.create(model="m", file=data))
            )
            answers = []
            patient.start()
            wait_until(lambda: service.batcher.num_waiting("clip") == 1)
            connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=LIMIT_S)
            kind, body = form(data)
            connection.request("POST", TRANSCRIPTIONS, body, {"Content-Type": kind})
            wait_until(lambda: service.batcher.num_waiting("clip") == 2)
            connection.close()
            wait_until(lambda: service.admission.num_requests == 1)
            model_is_free.set()
            patient.join(LIMIT_S)
        assert answers[0].text == recognizer.transcribe(clips[0].audio_path).text
        assert 'asr_batch_size_sum{kind="clip"} 1.0' in service.metrics.text().decode()


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01" + bytes(300), b"GET / HTTP/9\r\n\r\n", b"POST /speech HTTP/1.1\r\nA" * 999]
)
def test_garbage_gets_no_answer_that_matters_and_the_server_goes_on(address, data):
    host, port = urlsplit(address).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            assert b"Traceback" not in connection.recv(65536)
    assert post(address, "/", b"")[0] == 200


@pytest.mark.parametrize(
    "body", [b"", b"--x", b"--x\r\n\r\n\r\n--x--", form(b"")[1] * 2, form(b"abc")[1][:-9], b"--y--\r\n"]
)
def test_broken_forms_are_refused(address, body):
    status, _, fields = post(address, TRANSCRIPTIONS, body, "multipart/form-data; boundary=x")
    assert status == 400
    assert fields["error"]["type"] == "invalid_request_error"


def test_form_without_a_boundary_or_of_another_type_is_refused(address):
    for kind in ("multipart/form-data", "application/json", "multipart/form-data; boundary=" + "x" * 9999):
        assert post(address, TRANSCRIPTIONS, b"{}", kind)[0] == 400


def test_counters_are_those_of_what_happened(recognizer, clips):
    with server_in_thread(recognizer) as (_, address):
        for _ in range(3):
            post(address, TRANSCRIPTIONS, *reversed(form(Path(clips[0].audio_path).read_bytes())))
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=LIMIT_S)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
    assert 'asr_requests_total{route="/v1/audio/transcriptions",status="200"} 3.0' in text
    assert f"asr_audio_seconds_total {3 * clips[0].duration_s}" in text
    assert "process_resident_memory_bytes" in text


def test_recording_that_is_longer_than_it_declares_is_decoded_up_to_the_limit(monkeypatch):
    short = AudioHeader(16_000, 1, 1.0, "FLAC")
    monkeypatch.setattr(received_audio, "audio_header", lambda _: short)
    with pytest.raises(RefusalError, match="at most"):
        received_audio.received_waveform(sound(1, 5.0), 2.0, lambda _: None)


def head_of(address, path=TRANSCRIPTIONS, *headers):
    """Return the first lines of a request with a body, without the empty line at their end."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {urlsplit(address).netloc}", *headers]
    return "\r\n".join([*lines, ""]).encode()


@pytest.fixture
def endless_patience(monkeypatch):
    """Let a server end an endless request only for its size."""
    for module, name in ((connections, "HEADERS_S"), (request_body, "BODY_IDLE_S")):
        monkeypatch.setattr(module, name, 10 * LIMIT_S)


def answer_to(address, data):
    """Return what a server answers to bytes, until it closes the connection or has answered."""
    host, port = urlsplit(address).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        with contextlib.suppress(ConnectionError):
            return connection.recv(65536)
    return b""


@pytest.mark.parametrize("path", [*ANSWER_OF, PAGE])
def test_bodies_that_do_not_progress_keep_nobody_out(recognizer, clips, path):
    with server_in_thread(recognizer, max_queue=2) as (service, address), contextlib.ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(unfinished_request(address, path))
        wait_until(lambda: service.admission.num_arriving == 6)
        data = Path(clips[0].audio_path).read_bytes()
        assert post(address, TRANSCRIPTIONS, *reversed(form(data)))[0] == 200


def test_recordings_of_streams_that_do_not_progress_keep_nobody_out(recognizer, clips):
    with server_in_thread(recognizer, max_queue=1) as (service, address), contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(open_socket(address, "/")).send('{"mode": "offline"}')
        wait_until(lambda: service.admission.num_arriving == 3)
        data = Path(clips[0].audio_path).read_bytes()
        assert post(address, TRANSCRIPTIONS, *reversed(form(data)))[0] == 200


def test_body_that_arrives_while_the_queue_is_full_is_refused(recognizer):
    with server_in_thread(recognizer, max_queue=1) as (service, address), unfinished_request(address) as late:
        wait_until(lambda: service.admission.num_arriving == 1)
        with service.admission.ticket():
            late.sendall(bytes(9999 - len(form(b"")[1][:-9])))
            assert late.recv(65536).startswith(b"HTTP/1.1 429")


@pytest.mark.parametrize("path", [*ANSWER_OF, PAGE])
def test_body_that_does_not_progress_is_refused_and_forgotten(recognizer, monkeypatch, path):
    monkeypatch.setattr(request_body, "BODY_IDLE_S", 0.2)
    with server_in_thread(recognizer) as (service, address):
        with unfinished_request(address, path) as connection:
            assert connection.recv(65536).startswith(b"HTTP/1.1 408")
        wait_until(lambda: service.admission.num_requests == service.admission.num_bytes == 0)


def test_body_that_comes_in_drops_is_refused(recognizer, monkeypatch):
    monkeypatch.setattr(request_body, "BODY_IDLE_S", 0.5)
    answers = []

    def has_answer_to_a_drop():
        connection.sendall(b"x")
        with contextlib.suppress(TimeoutError):
            answers.append(connection.recv(65536))
        return answers

    with server_in_thread(recognizer) as (_, address), unfinished_request(address) as connection:
        connection.settimeout(0.1)  # less than a body may pause
        wait_until(has_answer_to_a_drop)
    assert answers[0].startswith(b"HTTP/1.1 408")


@pytest.mark.usefixtures("endless_patience")
def test_body_that_is_declared_too_large_is_refused_before_it_comes(address):
    size = f"Content-Length: {10**13}"
    for path in (TRANSCRIPTIONS, PAGE):
        head = head_of(address, path, size, f"Content-Type: {form(b'')[0]}")
        assert answer_to(address, head + b"\r\n").startswith(b"HTTP/1.1 413")
    answer = answer_to(address, head_of(address, SPEECH, size) + b"\r\n")
    assert b'"status_code": 400000' in answer


@pytest.mark.parametrize(
    "headers",
    [
        b"".join(b"X%d: a\r\n" % number for number in range(200)),
        b"X: " + b"a" * (1 << 20),  # a single one, without an end
        b"".join(b"X%d: %s\r\n" % (number, b"a" * 2000) for number in range(60)),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.usefixtures("endless_patience")
def test_headers_are_bounded_before_the_token_is_asked_for(recognizer, headers, is_stream):
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n" if is_stream else b""
    with server_in_thread(recognizer, "a secret of some length") as (_, address):
        answer = answer_to(address, head_of(address, "/vosk").replace(b"POST", b"GET") + upgrade + headers)
        assert not answer or answer.startswith(b"HTTP/1.1 431")
        assert post(address, SPEECH, b"{}")[0] == 401


@pytest.mark.usefixtures("endless_patience")
def test_long_address_and_headers_after_a_body_are_bounded(address):
    assert answer_to(address, b"GET /" + b"a" * (1 << 20))[:12] in (b"", b"HTTP/1.1 431")
    chunked = head_of(address, SPEECH, "Transfer-Encoding: chunked") + b"\r\n2\r\n{}\r\n0\r\n"
    trailers = b"".join(b"X%d: a\r\n" % number for number in range(200))
    for after in (trailers, b"X: " + b"a" * (1 << 20)):
        assert answer_to(address, chunked + after)[:12] in (b"", b"HTTP/1.1 431")


def test_headers_that_browsers_send_are_accepted(address):
    headers = [f"X{number}: {'a' * 600}" for number in range(90)]
    assert answer_to(address, head_of(address, "/", *headers) + b"\r\n").startswith(b"HTTP/1.1 200")


def test_name_of_a_file_that_is_too_long_is_named(address):
    kind, body = form(sound())
    status, _, fields = post(address, TRANSCRIPTIONS, body.replace(b"a.wav", b"a" * 5000 + b".wav"), kind)
    assert status == 400
    assert "name of the file" in fields["error"]["message"]
