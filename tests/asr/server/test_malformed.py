"""Test that malformed requests by every protocol are answered without a crash, and touch no other client.

The slow part sends two thousand of them.
"""

import logging
import random
from pathlib import Path

import pytest
from helpers.malformed_traffic import failures, grpc_answers, http_answers, socket_answers
from helpers.servers import grpc_port_of
from helpers.speech_sockets import open_socket, remaining


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
def unharmed(served, recognizer, clips, caplog):
    """Check after a test that the server recognizes as before, logged no failure, and holds nothing."""
    yield
    assert not [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    service, address = served
    with open_socket(address, "/", subprotocols=["binary"]) as client:
        client.send('{"mode": "offline", "wav_format": "wav"}')
        client.send(Path(clips[1].audio_path).read_bytes())
        client.send('{"is_speaking": false}')
        (answer,), _ = remaining(client)
    assert answer["text"] == recognizer.transcribe(clips[1].audio_path).text
    assert (service.admission.num_requests, service.admission.num_bytes) == (0, 0)


def test_http(address, wav, chance, times, unharmed):
    answers = http_answers(address, wav, chance, 150 * times)
    statuses = {answer.split(b" ", 2)[1] for answer in answers if answer}
    assert statuses >= {b"200", b"400"}
    assert b"500" not in statuses
    assert not failures(answers)


def test_sockets(address, wav, chance, times, unharmed):
    answers = socket_answers(address, wav, chance, 50 * times)
    assert not [answer for answer in answers if answer.endswith(b" 1011")]
    assert not failures(answers)


def test_grpc(served, wav, chance, times, unharmed):
    with grpc_port_of(served[0]) as port:
        answers = grpc_answers(f"127.0.0.1:{port}", wav, chance, 50 * times)
    assert len(answers) == 50 * times
    assert not failures(answers)
