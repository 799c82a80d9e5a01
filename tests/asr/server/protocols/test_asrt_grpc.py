"""Test ASRT's gRPC interface by messages that are written by hand, field by field, as its SDKs send them."""

import asyncio
import contextlib
import logging
import queue
import threading

import grpc
import numpy as np
import pytest
from helpers.servers import LIMIT_S, grpc_port_of, grpc_server, wait_until

from asr.audio.recording import read_audio
from asr.base.errors import UserError
from asr.server.protocols.asrt_grpc import SERVICES, AsrtGrpc
from asr.server.requests.limits import Limits
from asr.server.service import RecognitionService


def varint(number):
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + varint(high) if high else bytes([low])


def field(number, value):
    """Return a field of a message: a number, bytes or text."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def speech(waveform, rate_hz=16_000, byte_width=2):
    wav = field(1, waveform.tobytes()) + field(2, rate_hz) + field(3, 1) + field(4, byte_width)
    return field(1, wav)


def parsed(message):
    """Return the values of each field by its number."""
    found, place = {}, 0

    def number():
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while place < len(message):
        key = number()
        value = number()
        if key & 7 == 2:
            value, place = message[place : place + value].decode(), place + value
        found.setdefault(key >> 3, []).append(value)
    return found


@pytest.fixture(scope="module")
def port(recognizer):
    with grpc_server(recognizer) as port:
        yield port


def call(port, method, message, name=SERVICES[0], **options):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        return parsed(channel.unary_unary(f"/{name}/{method}")(message, timeout=LIMIT_S, **options))


@pytest.mark.parametrize("name", SERVICES)
def test_speech_and_all_give_the_transcript_of_asr_transcribe_under_both_names(port, recognizer, clips, name):
    expected = recognizer.transcribe(clips[1].audio_path)
    waveform = read_audio(clips[1].audio_path)
    assert call(port, "Speech", speech(waveform), name) == {1: [200_000], 3: list(expected.tokens)}
    assert call(port, "All", speech(waveform), name) == {1: [200_000], 3: [expected.text]}


def test_syllables_are_converted(port):
    message = field(1, "ni3") + field(1, "hao3")
    assert call(port, "Language", message) == {1: [200_000], 3: ["你好"]}


def test_stream_answers_each_piece_and_ends_a_sentence_with_silence(port, recognizer, clips):
    pieces = [read_audio(clip.audio_path) for clip in clips[:3]]
    pieces.insert(2, np.zeros(0, np.int16))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stream = channel.stream_stream(f"/{SERVICES[0]}/Stream")
        answers = [parsed(one) for one in stream(map(speech, pieces), timeout=LIMIT_S)]
    assert [one[1] for one in answers] == [[206_000], [206_000], [200_000], [206_000], [200_000]]
    assert answers[1][3] == answers[2][3]
    tokens = [recognizer.transcribe(clip.audio_path).tokens for clip in clips[:3]]
    assert answers[2][3] == [recognizer.decoder.writer.text(tokens[0] + tokens[1])]
    assert answers[4][3] == [recognizer.transcribe(clips[2].audio_path).text]


@pytest.mark.parametrize(("rate_hz", "byte_width"), [(8000, 2), (16_000, 3)])
def test_what_cannot_be_processed_is_named(port, clips, rate_hz, byte_width):
    with pytest.raises(grpc.RpcError) as caught:
        call(port, "All", speech(read_audio(clips[0].audio_path), rate_hz, byte_width))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "expected" in caught.value.details()


@pytest.mark.parametrize("method", ["Speech", "All", "Language", "Stream"])
def test_what_is_no_message_is_an_error_of_the_client(port, method):
    message = b"\x0a\xff no message"
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        kind = channel.stream_stream if method == "Stream" else channel.unary_unary
        with pytest.raises(grpc.RpcError) as caught:
            list(kind(f"/{SERVICES[0]}/{method}")(iter([message]) if method == "Stream" else message))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_token_is_asked_for_and_limits_are_kept(recognizer, clips):
    waveform = read_audio(clips[0].audio_path)
    with grpc_server(recognizer, "secret token", max_audio_s=1.0) as port:
        with pytest.raises(grpc.RpcError) as caught:
            call(port, "All", speech(waveform))
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        sent = {"metadata": [("authorization", "Bearer secret token")]}
        assert call(port, "All", speech(waveform[:8000]), **sent)[1] == [200_000]
        with pytest.raises(grpc.RpcError) as caught:
            call(port, "All", speech(np.zeros(20_000, np.int16)), **sent)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_calls_are_counted_and_logged(recognizer, clips, caplog):
    gate, waveform = "asr.server.requests.gate", read_audio(clips[0].audio_path)
    service = RecognitionService(recognizer, "model", Limits())
    with caplog.at_level(logging.INFO, gate), contextlib.closing(service), grpc_port_of(service) as port:
        call(port, "All", speech(waveform))
        with pytest.raises(grpc.RpcError):
            call(port, "Speech", speech(waveform, rate_hz=8000))
        with open_stream(port) as (pieces, answers):
            pieces.put(speech(waveform))
            pieces.put(None)
            assert len(list(answers)) == 2
    lines = [one.fields for one in caplog.records if one.name == gate]
    found = [(line["method"], line["route"], line["status"]) for line in lines]
    assert {line["client"] for line in lines} == {"127.0.0.1"}
    assert found == [("GRPC", "grpc/All", 200), ("GRPC", "grpc/Speech", 400), ("GRPC", "grpc/Stream", 200)]
    assert 'asr_requests_total{route="grpc/Speech",status="400"} 1.0' in service.metrics.text().decode()


def test_port_in_use_is_named(port, recognizer):
    service = RecognitionService(recognizer, "model", Limits())
    with pytest.raises(UserError, match="grpc_port"):
        asyncio.run(AsrtGrpc(service, "127.0.0.1", port).start())
    service.close()


@contextlib.contextmanager
def open_stream(port):
    """Yield a queue of pieces, None for the end, and the answers to them."""
    pieces = queue.Queue()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stream = channel.stream_stream(f"/{SERVICES[0]}/Stream")
        yield pieces, stream(iter(pieces.get, None), timeout=LIMIT_S)
        pieces.put(None)


def test_server_that_stops_gives_an_open_stream_its_final_answer(recognizer, clips):
    expected = recognizer.transcribe(clips[2].audio_path).text
    with contextlib.ExitStack() as stack:
        with grpc_server(recognizer) as port:
            pieces, answers = stack.enter_context(open_stream(port))
            pieces.put(speech(read_audio(clips[2].audio_path)))
            assert parsed(next(answers)) == {1: [206_000], 3: [expected]}
        assert parsed(next(answers)) == {1: [200_000], 3: [expected]}
        with pytest.raises(grpc.RpcError) as caught:
            next(answers)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_pieces_of_an_open_stream_are_answered_after_the_signal_to_stop(recognizer, clips):
    service, piece = (
        RecognitionService(recognizer, "model", Limits()),
        speech(read_audio(clips[2].audio_path)),
    )
    with contextlib.closing(service), grpc_port_of(service) as port, open_stream(port) as (pieces, answers):
        for draining in (False, True):
            service.admission.draining = draining
            pieces.put(piece)
            assert parsed(next(answers))[1] == [206_000]


def test_stream_without_pieces_is_ended(recognizer):
    with grpc_server(recognizer, stream_idle_s=0.05) as port:
        assert "no message" in reason_of_refusal(port)


def test_stream_over_a_limit_has_its_final_answer_before_the_error(recognizer, clips):
    expected = recognizer.transcribe(clips[2].audio_path).text
    with grpc_server(recognizer) as port, open_stream(port) as (pieces, answers):
        pieces.put(speech(read_audio(clips[2].audio_path)))
        assert parsed(next(answers)) == {1: [206_000], 3: [expected]}
        pieces.put(speech(np.zeros(100, np.int16), rate_hz=8000))  # is refused
        assert parsed(next(answers)) == {1: [200_000], 3: [expected]}
        with pytest.raises(grpc.RpcError):
            next(answers)


def test_streams_are_limited_and_one_that_vanishes_is_not_counted(recognizer, clips):
    with grpc_server(recognizer, max_streams=1) as port:
        with open_stream(port) as (pieces, answers):
            pieces.put(speech(read_audio(clips[0].audio_path)))
            next(answers)
            assert "open: 1 stream" in reason_of_refusal(port)
            answers.cancel()
        wait_until(lambda: not reason_of_refusal(port, None))


def test_streams_that_vanish_leave_the_server_alive(recognizer, clips):
    piece = speech(read_audio(clips[0].audio_path)[:8000])
    with grpc_server(recognizer) as port:
        for _ in range(50):
            with open_stream(port) as (pieces, answers):
                pieces.put(piece)
                next(answers)
                answers.cancel()


def reason_of_refusal(port, *pieces):
    """Return why a stream is refused, empty if it is not."""
    with open_stream(port) as (waiting, answers):
        for piece in pieces:
            waiting.put(piece)
        with contextlib.suppress(StopIteration):
            try:
                next(answers)
            except grpc.RpcError as error:
                return error.details()
    return ""


@contextlib.contextmanager
def calls_without_a_message(channel, number=1):
    """Begin calls that send nothing for the time of the block."""
    # grpcio 1.85 may keep calls without a message that begin while it connects
    grpc.channel_ready_future(channel).result(LIMIT_S)
    done = threading.Event()

    def nothing():
        done.wait(10 * LIMIT_S)
        yield from ()

    method = channel.stream_unary(f"/{SERVICES[0]}/Speech")  # as one sends a message later
    try:
        yield [method.future(nothing()) for _ in range(number)]
    finally:
        done.set()


def test_calls_without_a_message_keep_nobody_out(recognizer, monkeypatch):
    check, checked = AsrtGrpc._check, []

    def watched(server, context):
        checked.append(context)
        check(server, context)

    monkeypatch.setattr(AsrtGrpc, "_check", watched)
    with (
        grpc_server(recognizer, max_queue=2) as port,
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
        calls_without_a_message(channel, 5),
    ):
        wait_until(lambda: len(checked) == 5)
        language = channel.unary_unary(f"/{SERVICES[0]}/Language")
        assert parsed(language(b"", timeout=LIMIT_S)) == {1: [200_000]}


def test_call_without_a_message_ends_after_a_time(recognizer):
    with (
        grpc_server(recognizer, request_timeout_s=0.1) as port,
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
        calls_without_a_message(channel) as (call,),
    ):
        assert call.exception(LIMIT_S).code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_token_is_asked_for_before_the_message(recognizer):
    with (
        grpc_server(recognizer, token="a secret of some length") as port,
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
        calls_without_a_message(channel) as (call,),
    ):
        assert call.exception(LIMIT_S).code() is grpc.StatusCode.UNAUTHENTICATED
