"""Speak to servers as clients do: by HTTP in OpenAI's form and in ASRT's, and by WebSocket in Vosk's form.

They are written for little work of their own, since clients and server share the same two cores.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from websockets.asyncio.client import connect

SAMPLE_RATE_HZ = 16_000
TRANSCRIPTIONS, SPEECH = "/v1/audio/transcriptions", "/speech"
BOUNDARY = "a-boundary-that-no-recording-contains"
CHUNK_SAMPLES = 5120  # of a message of a stream: 0.32 s, after which a server recognizes a stream again
LIMIT_S = 60.0


class HttpClient:
    """A client with one connection to a server, as the `openai` package has.

    Args:
        address: of the server, such as "http://127.0.0.1:20001".
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.host, self.port = parts.hostname or "", parts.port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, data: bytes) -> tuple[int, bytes]:
        """Send a request and return the status and the body of its answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self._streams
        writer.write(data)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S)
        size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        body = await reader.readexactly(int(size.split(b":")[1]))
        return int(head.split(b" ", 2)[1]), body

    def close(self) -> None:
        """Close the connection to the server."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def http_request(path: str, body: bytes, content_type: str, method: str = "POST") -> bytes:
    """Return the bytes of a request by HTTP."""
    lines = [f"{method} {path} HTTP/1.1", "Host: server", f"Content-Type: {content_type}"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def openai_request(recording: bytes, **fields: str) -> bytes:
    """Return the request of an OpenAI client for the transcript of a recording in a container."""
    parts = [part_of_form(f'name="{name}"', value.encode()) for name, value in fields.items()]
    parts.append(part_of_form('name="file"; filename="a.wav"', recording))
    body = b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()
    return http_request(TRANSCRIPTIONS, body, f"multipart/form-data; boundary={BOUNDARY}")


def part_of_form(names: str, value: bytes) -> bytes:
    """Return a part of a form."""
    return f"--{BOUNDARY}\r\nContent-Disposition: form-data; {names}\r\n\r\n".encode() + value + b"\r\n"


def asrt_request(waveform: Any) -> bytes:
    """Return the request of an ASRT client for the syllables of samples."""
    samples = base64.b64encode(waveform.tobytes()).decode()
    fields = {"samples": samples, "sample_rate": SAMPLE_RATE_HZ, "channels": 1, "byte_width": 2}
    return http_request(SPEECH, json.dumps(fields).encode(), "application/json")


@dataclass
class StreamTimes:
    """The latencies of one stream in seconds, and its text.

    Attributes:
        partials_s: from each message of sound to the answer that takes it into account.
        final_s: from the end of the stream to the last answer.
        late_s: that the client itself was late in sending a message, at most.
        text: of all segments.
    """

    partials_s: list[float] = field(default_factory=list)
    final_s: float = 0.0
    late_s: float = 0.0
    text: str = ""


async def vosk_stream(address: str, waveform: Any, speed: float = 1.0) -> StreamTimes:
    """Send samples as they would be spoken, and return how long the answers took.

    Args:
        address: of the server.
        waveform: (S,) int16 at 16 kHz.
        speed: times real time.
    """
    chunks = [waveform[begin : begin + CHUNK_SAMPLES] for begin in range(0, len(waveform), CHUNK_SAMPLES)]
    times, texts = StreamTimes(), []
    sent_s: list[float] = []
    async with connect(address.replace("http", "ws", 1) + "/vosk", compression=None) as socket:
        await socket.send(json.dumps({"config": {"sample_rate": SAMPLE_RATE_HZ, "words": False}}))

        async def receive() -> None:
            for number in range(len(chunks)):
                found = json.loads(await asyncio.wait_for(socket.recv(), LIMIT_S))
                texts.append(found.get("text", ""))
                times.partials_s.append(time.monotonic() - sent_s[number])

        receiving = asyncio.ensure_future(receive())
        due_s = time.monotonic()
        for chunk in chunks:
            due_s += len(chunk) / SAMPLE_RATE_HZ / speed
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            times.late_s = max(times.late_s, time.monotonic() - due_s)
            sent_s.append(time.monotonic())
            await socket.send(chunk.tobytes())
        await socket.send('{"eof" : 1}')
        ended_s = time.monotonic()
        await receiving
        texts.append(json.loads(await asyncio.wait_for(socket.recv(), LIMIT_S))["text"])
        times.final_s = time.monotonic() - ended_s
    times.text = " ".join(filter(None, texts))
    return times


async def funasr_texts(address: str, data: Any, mode: str) -> list[str]:
    """Return the final texts of a recording that is sent as FunASR's clients do.

    Args:
        address: of the server.
        data: bytes of a file, sent at once; or samples, (S,) int16 at 16 kHz, sent as they are spoken.
        mode: "offline" or "2pass".
    """
    begin = {"mode": mode, "chunk_size": [5, 10, 5], "chunk_interval": 10, "wav_name": "a", "itn": True}
    begin |= {"wav_format": "pcm", "audio_fs": SAMPLE_RATE_HZ, "is_speaking": True, "hotwords": ""}
    url = address.replace("http", "ws", 1) + "/"
    options: dict[str, Any] = {"subprotocols": ["binary"], "compression": None, "max_size": None}
    async with connect(url, **options) as socket:
        await socket.send(json.dumps(begin))
        if isinstance(data, bytes):
            await socket.send(data)
        else:
            due_s = time.monotonic()
            for first in range(0, len(data), CHUNK_SAMPLES):
                chunk = data[first : first + CHUNK_SAMPLES]
                due_s += len(chunk) / SAMPLE_RATE_HZ
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                await socket.send(chunk.tobytes())
        await socket.send('{"is_speaking": false}')
        answers = [json.loads(one) async for one in socket]
    return [one["text"] for one in answers if one["mode"].endswith("offline") and one["text"]]


async def sherpa_texts(address: str, waveforms: Sequence[Any], num_requests: int) -> list[tuple[int, str]]:
    """Send recordings one after the other to sherpa-onnx's server; return their numbers and texts."""
    found = []
    async with connect(address, compression=None, max_size=None) as socket:
        for number in range(num_requests):
            samples = (waveforms[number % len(waveforms)] / np.float32(32768)).astype(np.float32).tobytes()
            message = struct.pack("<ii", SAMPLE_RATE_HZ, len(samples)) + samples
            for begin in range(0, len(message), 1 << 20):
                await socket.send(message[begin : begin + (1 << 20)])
            found.append((number, json.loads(await asyncio.wait_for(socket.recv(), LIMIT_S))["text"]))
        await socket.send("Done")
    return found
