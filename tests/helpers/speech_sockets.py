"""Speak to servers by WebSocket as the clients of Vosk and FunASR do."""

import json

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

LIMIT_S = 120


def open_socket(address, path, **options):
    """Return a connection to a server."""
    return connect(address.replace("http", "ws", 1) + path, open_timeout=LIMIT_S, **options)


def chunks_of(waveform, num_samples):
    """Yield plain samples in messages of this length, which may be half a sample more than a number."""
    data, size = waveform.tobytes(), int(2 * num_samples)
    return (data[begin : begin + size] for begin in range(0, len(data), size))


def answer(socket):
    """Return the next answer."""
    return json.loads(socket.recv(LIMIT_S))


def remaining(socket):
    """Return the answers until the server closes the connection, and the close frame."""
    found = []
    try:
        while True:
            found.append(answer(socket))
    except ConnectionClosed as closed:
        return found, closed.rcvd


def vosk(address, waveform, num_samples=4000, **config):
    """Return the answers to each message of samples, and the final one."""
    with open_socket(address, "/vosk") as socket:
        socket.send(json.dumps({"config": {"sample_rate": 16000.0} | config}))
        found = []
        for chunk in chunks_of(waveform, num_samples):
            socket.send(chunk)
            found.append(answer(socket))
        socket.send('{"eof" : 1}')
        rest, closed = remaining(socket)
        assert (len(rest), closed.code) == (1, 1000)
        return found, rest[0]


def funasr(address, data, mode, num_samples=960, **fields):
    """Return all answers to samples or to the bytes of a file."""
    with open_socket(address, "/", subprotocols=["binary"], ping_interval=None) as socket:
        assert socket.subprotocol == "binary"
        begin = {"mode": mode, "chunk_size": [5, 10, 5], "chunk_interval": 10, "wav_name": "a"}
        begin |= {"wav_format": "pcm", "audio_fs": 16000, "is_speaking": True, "hotwords": "", "itn": True}
        socket.send(json.dumps(begin | fields))
        chunks = [data] if isinstance(data, bytes) else chunks_of(data, num_samples)
        for chunk in chunks:
            socket.send(chunk)
        socket.send(json.dumps({"is_speaking": False}))
        found, closed = remaining(socket)
        assert closed.code == 1000
        return found
