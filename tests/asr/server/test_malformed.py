"""Test that malformed requests by every protocol are answered without a crash, and touch no other client.

The slow part sends two thousand of them.
"""

import asyncio
import contextlib
import random
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest
from helpers.malformed_requests import SOCKET_PATHS, grpc_call, http_request, socket_messages
from helpers.servers import LIMIT_S
from helpers.speech_sockets import open_socket, remaining
from websockets.exceptions import ConnectionClosed

from asr.server.asrt_grpc import SERVICES, AsrtGrpc

REASONS = (
    b"DEADLINE_EXCEEDED",
    b"Traceback",
    b'File "',
    b"server_error",
    b"failed to answer",
    b"this server failed",
)


@pytest.fixture(scope="module")
def wav(clips):
    return Path(clips[0].audio_path).read_bytes()


@pytest.fixture(params=[1, pytest.param(8, marks=pytest.mark.slow)])
def times(request):
    """Return by how much the usual number of requests is multiplied."""
    return request.param


@pytest.fixture
def chance(times):
    return random.Random(times)


@pytest.fixture
def unharmed(served, recognizer, clips):
    """Check after a test that the server recognizes as before, and holds nothing of what it was sent."""
    yield
    service, address = served
    with open_socket(address, "/", subprotocols=["binary"]) as client:
        client.send('{"mode": "offline", "wav_format": "wav"}')
        client.send(Path(clips[1].audio_path).read_bytes())
        client.send('{"is_speaking": false}')
        (answer,), _ = remaining(client)
    assert answer["text"] == recognizer.transcribe(clips[1].audio_path).text
    assert (service.admission.num_requests, service.admission.num_bytes) == (0, 0)


def answer_of(address, request):
    """Return all bytes that the server sends until it closes the connection."""
    host, port = urlsplit(address).netloc.split(":")
    found = b""
    connection = socket.create_connection((host, int(port)), timeout=LIMIT_S)
    with connection, contextlib.suppress(ConnectionError):
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65536):
            found += part
    return found


def test_http(address, wav, chance, times, unharmed):
    answers = [answer_of(address, http_request(wav, chance)) for _ in range(150 * times)]
    statuses = {answer.split(b" ", 2)[1] for answer in answers if answer}
    assert statuses >= {b"200", b"400"}
    assert b"500" not in statuses
    assert not [answer for answer in answers if any(reason in answer for reason in REASONS)]


def test_sockets(address, wav, chance, times, unharmed):
    for number in range(50 * times):
        with open_socket(address, SOCKET_PATHS[number % 2]) as client:
            with contextlib.suppress(ConnectionClosed):
                for message in socket_messages(wav, chance):
                    client.send(message)
                client.send('{"eof": 1}' if number % 2 else '{"is_speaking": false}')
                client.send('{"is_speaking": false}')
            answers, closed = remaining(client)
        assert closed is None or closed.code != 1011
        assert "failed" not in str(answers)


def test_grpc(served, wav, chance, times, unharmed):
    service, _ = served
    found = []

    async def work():
        server = AsrtGrpc(service, "127.0.0.1", 0)
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            for number in range(50 * times):
                method, message = grpc_call(wav, chance)
                name = f"/{SERVICES[number % 2]}/{method}"
                try:
                    if method == "Stream":
                        call = channel.stream_stream(name)(iter([message]), timeout=LIMIT_S)
                        found.append(b"".join([part async for part in call]))
                    else:
                        found.append(await channel.unary_unary(name)(message, timeout=LIMIT_S))
                except grpc.aio.AioRpcError as error:
                    found.append(f"{error.code().name} {error.details()}".encode())
        await server.stop()

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    thread.join(LIMIT_S)
    assert len(found) == 50 * times
    assert not [answer for answer in found if any(reason in answer for reason in REASONS)]
